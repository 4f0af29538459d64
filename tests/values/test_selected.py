"""Some outputs of a value function, in every estimator: the columns of what all outputs give."""

from typing import Any

import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from tests.examples import ESTIMATORS, VALUES, Estimator, Table, random_table, uniform


def game(players: int = 6, outputs: int = 5) -> Table:
    return Table(random_table(players, outputs))


def named(*names: str) -> ms.ValueFunction:
    return ms.as_value_function(game(6, len(names)), uniform(3, 6), outputs=names)


def columns(explanation: ms.Explanation, where: list[int]) -> list[Tensor]:
    by_output = (explanation.phi, explanation.standard_error, explanation.base)
    return [each[..., where] for each in (*by_output, explanation.prediction)]


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name != "adaptive"])
def test_chosen_outputs_are_columns_of_all(name: str) -> None:
    estimator: Estimator = ESTIMATORS[name]
    x, where = uniform(3, 6), [3, 0]
    whole = estimator.estimate(game(), x, **estimator.few)
    some = estimator.estimate(game(), x, outputs=where, **estimator.few)
    assert some.outputs == ("3", "0")
    for found, expected in zip(columns(some, [0, 1]), columns(whole, where), strict=True):
        assert torch.equal(found.nan_to_num(-1), expected.nan_to_num(-1))
    assert some.made_by["outputs_of"] == 5
    assert some.selected
    assert not whole.selected


@pytest.mark.parametrize(
    ("outputs", "names"),
    [(1, ("b",)), ("b", ("b",)), (-1, ("c",)), ([2, "a"], ("c", "a")), (None, ("a", "b", "c"))],
)
def test_outputs_are_names_or_positions(outputs: Any, names: tuple[str, ...]) -> None:
    assert ms.exact_shapley(named("a", "b", "c"), uniform(3, 6), outputs=outputs).outputs == names


def test_log_ratios_go_together() -> None:
    made = VALUES["surrogate of log-ratios"]()
    for outputs in (1, ["x"]):
        with pytest.raises(ValueError, match=r"all outputs in 'ilr'"):
            ms.exact_shapley(made.value, made.x, outputs=outputs)


def test_selections_and_groups_nest() -> None:
    value, x = named("a", "b", "c", "d"), uniform(3, 6)
    value = value.select(["d", "b", "a"]).grouped({"two": ["x0", "x3"]})
    found = ms.exact_shapley(value, x, outputs=[1])
    alone = ms.exact_shapley(named("a", "b", "c", "d").grouped({"two": ["x0", "x3"]}), x)
    assert torch.equal(found.phi, alone.phi[..., [1]])
    assert found.made_by["outputs_of"] == 4
    assert value.select(None) is value
