"""The pretended CUDA device: what it lets pass, what it refuses, and that numbers stay."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn

from tests.devices.pretended import CUDA, PretendedCuda

# What is done with a matrix here, one there, and indices here; whether CUDA allows it.
MIXED: dict[str, tuple[Callable[[Tensor, Tensor, Tensor], Tensor], bool]] = {
    "sum": (lambda here, there, index: here + there, False),
    "number": (lambda here, there, index: here[0, 0] * there, True),
    "number within": (lambda here, there, index: there.masked_fill(there > 0, here[0, 0]), True),
    "choice": (lambda here, there, index: torch.where(there > 0, there, here), False),
    "product": (lambda here, there, index: there @ here, False),
    "joined": (lambda here, there, index: torch.cat((there, here)), False),
    "index here": (lambda here, there, index: there[index], True),
    "index there": (lambda here, there, index: here[index.to("cuda")], False),
    "gathered": (lambda here, there, index: there.gather(1, index.expand(3, -1)), False),
    "selected": (lambda here, there, index: there.index_select(0, index), False),
    "looked up": (lambda here, there, index: nn.functional.embedding(index, there), False),
    "put": (lambda here, there, index: there.index_put((index,), here), False),
    "copied": (lambda here, there, index: there.copy_(here), True),
    "moved": (lambda here, there, index: here.to(there) + there, True),
    "made alike": (lambda here, there, index: torch.zeros_like(there) + there.new_ones(3), True),
    "made here": (lambda here, there, index: torch.zeros(3) + there, False),
    "made there": (lambda here, there, index: torch.arange(3, device=there.device) + there, True),
}


@pytest.fixture
def cuda() -> Iterator[PretendedCuda]:
    """The device, pretended."""
    with PretendedCuda()() as pretended:
        yield pretended


def matrices() -> tuple[Tensor, Tensor, Tensor]:
    """A matrix here, one there, and indices here."""
    rows = torch.arange(9.0).reshape(3, 3)
    return rows, (rows + 1).to("cuda"), torch.tensor([0, 2, 2])


def allowed(does: Callable[[Tensor, Tensor, Tensor], Tensor]) -> bool:
    """Whether it is done, with a result there."""
    given = matrices()
    try:
        found = does(*given)
    except RuntimeError as error:
        if "device" not in str(error).lower():
            raise
        return False
    assert found.device == CUDA
    return True


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("kind", ["pretended", pytest.param("real", marks=pytest.mark.gpu)])
def test_tensors_of_two_devices_meet_where_cuda_allows_it(name: str, kind: str) -> None:
    does, expected = MIXED[name]
    with PretendedCuda()() if kind == "pretended" else nullcontext():
        assert allowed(does) == expected


@pytest.mark.usefixtures("cuda")
def test_what_cuda_cannot_do_raises_an_error() -> None:
    _, there, _ = matrices()
    with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
        there.numpy()
    with pytest.raises(NotImplementedError, match=r"mm.* not implemented for torch.int64"):
        there.long() @ there.long()
    with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator"):
        torch.rand(3, generator=torch.Generator(), device="cuda")
    with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator"):
        torch.bernoulli(there / 9, generator=torch.Generator())
