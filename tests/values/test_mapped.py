"""Value functions made of another one: what they do not change is that of the other."""

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
import torch

import manifold_shap as ms
from manifold_shap.corrected import CorrectedValue
from manifold_shap.laws import SizeUniform
from manifold_shap.values.seen import Seen
from tests.examples import VALUES

# What every value function has of the class, before anything is set.
SETTINGS = sorted(ms.ValueFunction.__annotations__)


def described() -> ms.ValueFunction:
    """A value function whose every attribute differs from the usual one."""
    value = VALUES["surrogate"]().value
    players = len(value.players)
    value.name, value.draws, value.sampled, value.batch_size = "mine", 3, True, 77
    frame = pd.DataFrame(torch.rand(9, players).numpy()).add_prefix("x")
    value.table = ms.Table.fit(frame)
    value.seen = Seen(torch.zeros(players), torch.ones(players))
    value.quality, value.training_law, value.cost = (
        {"mse": 0.5},
        SizeUniform(players),
        "closed form",
    )
    return value


@pytest.mark.parametrize("name", SETTINGS)
def test_attributes_are_those_of_the_value_function_within(name: str) -> None:
    value = described()
    first, last = value.outputs[0], value.outputs[-1]
    known: Any = vars(value)[name]
    assert known != vars(ms.ValueFunction)[name]
    grouped = value.grouped({"two": ["x0", "x1"]})
    for outer in (value.select([last]), grouped, value.select([last, first]).select([first])):
        if outer is grouped and name == "training_law":
            assert outer.training_law is None  # It was of other players.
        else:
            assert vars(outer)[name] is known


@pytest.mark.parametrize(
    "wrap",
    [
        lambda value: value.select([1, 2]),
        lambda value: value.grouped({"two": ["x0", "x1"]}),
        lambda value: value.grouped(lambda x: torch.tensor([0, 1, 1, 0]).expand(len(x), -1), 2),
        lambda value: value.grouped([0, 0, 1, 1]).select([0]),
        ms.values.LogRatioOfMean,
        lambda value: CorrectedValue(value, value, value.expectation, value.expectation),
    ],
)
def test_full_precision_reaches_the_value_function_within(
    wrap: Callable[[Any], ms.ValueFunction],
) -> None:
    value, x = VALUES["surrogate"]()[:2]
    half, single = wrap(value.in_precision("bf16-mixed")), wrap(value)
    mask = torch.rand(len(x), 5, len(single.players), generator=torch.Generator()) < 0.5
    mask[..., 0], mask[..., 1] = True, False
    exact = single(x, mask)
    assert not torch.equal(half(x, mask), exact)
    assert torch.equal(half.in_full_precision()(x, mask), exact)
    assert not torch.equal(half(x, mask), exact)
