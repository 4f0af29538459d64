"""Shapes in signatures are checked while the tests run."""

from pathlib import Path

import pytest
import torch
from jaxtyping import install_import_hook

install_import_hook("manifold_shap", "beartype.beartype")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    skip = pytest.mark.skip(reason="no CUDA device")
    for item in items:
        if "gpu" in item.keywords and not torch.cuda.is_available():
            item.add_marker(skip)


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root."""
    return Path(__file__).parent.parent
