"""How often the host waits for the device: each time, a GPU stands still while Python goes on."""

import copy

import pytest
import torch

from manifold_shap.coalitions import Listed, Nested
from tests.devices.pretended import PretendedCuda
from tests.devices.test_cuda import surrogate_of_nine
from tests.examples import VALUES, Made, normal

# Through frames, arrays and labels of rows on the CPU, or by a model of each coalition.
ON_THE_CPU = ("table", "retrained", "truth", "posterior", "by row", "callable", "words")


def waits(made: Made, coalitions: int) -> int:
    """How often the host waits, for values and along orders."""
    counts = made.value.counts(made.x)
    x, players = made.x[counts == counts[0]], int(counts[0])
    generator = torch.Generator().manual_seed(0)
    drawn = torch.rand(len(x), coalitions, players, generator=generator)
    keys = torch.arange(len(x) * coalitions).reshape(len(x), -1)
    cuda, moved = PretendedCuda(), copy.deepcopy(made.value)
    with cuda(), torch.no_grad():
        moved.to("cuda")
        given = [each.to("cuda") for each in (x, drawn < 0.5, drawn.argsort(-1), keys)]
        cuda.waits.clear()
        lacking = len(moved.players) - players
        moved.values(given[0], Listed(given[1], given[3], lacking=lacking))
        moved.values(given[0], Nested(given[2], given[3], lacking=lacking))
    return cuda.waits.total()


@pytest.mark.parametrize(
    "name", [name for name in VALUES if not any(word in name for word in ON_THE_CPU)]
)
def test_more_coalitions_make_the_host_wait_no_more_often(name: str) -> None:
    made = VALUES[name]()
    assert waits(made, 12) <= waits(made, 3)


def test_a_surrogate_of_columns_never_waits() -> None:
    grouped = surrogate_of_nine().value.grouped({"two": ["x0", "x1"]})
    for made in (surrogate_of_nine(), VALUES["selected"](), Made(grouped, normal(3, 9, 1))):
        assert waits(made, 3) == 0
