"""Value functions made of another one: what they do not change is that of the other."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.corrected import CorrectedValue
from manifold_shap.laws import SizeUniform
from manifold_shap.values import GameSpec, TrainingRange, Work
from manifold_shap.values.mapped import MappedValue
from tests.examples import VALUES


@pytest.mark.parametrize("name", [field.name for field in fields(GameSpec)])
def test_entries_are_those_of_the_value_function_within(name: str) -> None:
    value = VALUES["surrogate"]().value
    players, first, last = len(value.players), value.outputs[0], value.outputs[-1]
    grouped = value.grouped({"two": ["x0", "x1"]})
    wrapped = value.select([last]), grouped, value.select([last, first]).select([first])
    # Also what is known later.
    value.update(
        name="mine",
        work=Work(3, sampled=True, batch_size=77, cost="closed form"),
        table=ms.Table.fit(np.arange(8.0).reshape(2, 4)),
        training_range=TrainingRange(torch.zeros(players), torch.ones(players)),
        training_law=SizeUniform(players),
        quality={"mse": 0.5},
    )
    entry = getattr(value.spec, name)
    for outer in wrapped:
        differs = (
            {"players", "training_law", "quality"} if outer is grouped else {"outputs", "classes"}
        )
        assert (getattr(outer.spec, name) is entry) == (name not in differs)
    assert grouped.spec.training_law is None  # It was of other players.


class Negative(MappedValue):
    """A map of a user's that says nothing of variances."""

    def mapped(self, values: Tensor) -> Tensor:
        return -values


def test_what_draws_leave_in_a_map_is_unknown_unless_it_tells() -> None:
    value, x = VALUES["imputed"]()[:2]
    mask = torch.eye(len(value.players)).bool().expand(len(x), -1, -1)
    drawn = value.with_draws(4).estimate(x, mask).variance
    for outer in (value.grouped(list(range(len(value.players)))), value.select([0])):
        found = outer.with_draws(4).estimate(x, mask).variance
        assert torch.equal(found, drawn[..., : found.shape[-1]])
    found = Negative(value).with_draws(4).estimate(x, mask)
    assert found.variance.isnan().all()
    stacked = ms.values.StackedValue([value, value], [0.5, 0.5])
    assert stacked.with_draws(4).spec.work.draws == 8


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
    assert torch.equal(half.in_precision("32-true")(x, mask), exact)
    assert not torch.equal(half(x, mask), exact)
    audited = ms.audit(ms.exact_shapley(single, x), half, reference=ms.exact_shapley)
    assert audited.relative_error().estimate < 1e-5
