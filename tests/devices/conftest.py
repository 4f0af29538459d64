"""A CUDA device for every test: one that is pretended, and the real one where there is one."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pytest

from tests.devices.pretended import PretendedCuda

Cuda = Callable[[], AbstractContextManager[PretendedCuda | None]]


@pytest.fixture(params=["pretended", pytest.param("real", marks=pytest.mark.gpu)])
def cuda(request: pytest.FixtureRequest) -> Cuda:
    """Opens a context in which `"cuda"` is a device."""
    return PretendedCuda() if request.param == "pretended" else nullcontext
