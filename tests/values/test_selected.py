"""Some outputs of a value function, in every estimator: the columns of what all outputs give."""

from functools import partial
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.values import SelectedValue
from tests.estimators.test_coalition import Cheap, network
from tests.examples import ESTIMATORS, VALUES, Estimator, Table, amortized, random_table, uniform


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


def test_samples_go_to_players_by_the_chosen_outputs() -> None:
    x, settings = uniform(3, 6), {"samples": 400}
    some = ms.adaptive_shapley(game(), x, outputs=["3"], **settings)
    alone = ms.adaptive_shapley(ms.as_value_function(game(), x).select(["3"]), x, **settings)
    assert torch.equal(some.phi, alone.phi)
    assert some.efficiency_gap < 1e-5
    exact = ms.exact_shapley(game(), x, outputs="3")
    assert (some.phi - exact.phi).abs().max() < 6 * some.standard_error.max()


def test_linearized_outputs_are_estimated_alike() -> None:
    value, x = network(), uniform(3, 6)
    some = ms.coalition_shapley(value, x, outputs=["2"], coalitions=256)
    exact = ms.exact_shapley(value, x, outputs=["2"])
    assert some.outputs == exact.outputs == ("2",)
    off = (some.phi - exact.phi).abs()
    assert (off <= 6 * some.standard_error + 1e-6).all()
    assert some.efficiency_gap < 1e-4


def test_a_number_chooses_the_largest_mean_predictions() -> None:
    x = torch.tensor([[0.9, 0.0, 0.2], [0.0, 0.5, 0.3], [0.6, 0.0, 0.3]])
    value = ms.as_value_function(lambda x, mask: x[:, None] * mask, x, outputs=["a", "b", "c"])
    assert ms.exact_shapley(value, x, outputs=2).outputs == ("a", "c")
    assert ms.exact_shapley(value, x[1:2], outputs=2).outputs == ("b", "c")
    assert ms.exact_shapley(value, x, outputs=3).outputs == ("a", "c", "b")
    # Of equal ones the first.
    assert ms.exact_shapley(value, torch.ones(1, 3), outputs=1).outputs == ("a",)


def test_where_names_are_numbers_a_number_is_a_name() -> None:
    value, x = named("2", "0", "1"), uniform(3, 6)
    assert ms.exact_shapley(value, x, outputs=[0]).outputs == ("0",)
    assert ms.exact_shapley(named("b", "a"), x, outputs=[0, -1]).outputs == ("b", "a")


@pytest.mark.usefixtures("any_type")
@pytest.mark.parametrize(
    ("outputs", "kind", "message"),
    [
        (["cats"], ValueError, r"Expected `outputs` to be one of .* but got 'cats'.*'cat'"),
        ([3], ValueError, "Expected `outputs` to be a whole number from -3 to 2 but got 3"),
        (4, ValueError, "Expected `outputs` to be a whole number from 1 to 3 but got 4"),
        (0, ValueError, "Expected `outputs` to be a whole number from 1 to 3 but got 0"),
        (True, TypeError, "Expected `outputs` to be a whole number from 1 to 3 but got True"),
        ([], ValueError, "at least one output in `outputs` but got none"),
        (["cat", 0], ValueError, "distinct outputs but got .*cat.* more than once"),
        (1.5, ValueError, "Expected `outputs` to be one of .* but got 1.5"),
    ],
)
def test_outputs_that_there_are_not_raise_errors(
    outputs: Any, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        ms.auto_shapley(named("cat", "dog", "cow"), uniform(3, 6), outputs=outputs)


def test_log_ratios_go_together() -> None:
    made = VALUES["surrogate of log-ratios"]()
    for outputs in (1, ["x"], 0):
        with pytest.raises(ValueError, match=r"all outputs in 'ilr'.*|from 1 to 2 but got 0"):
            ms.exact_shapley(made.value, made.x, outputs=outputs)


def test_selections_and_groups_nest() -> None:
    value, x = named("a", "b", "c", "d"), uniform(3, 6)
    value = value.select(["d", "b", "a"]).grouped({"two": ["x0", "x3"]})
    found = ms.exact_shapley(value, x, outputs=[1])
    alone = ms.exact_shapley(named("a", "b", "c", "d").grouped({"two": ["x0", "x3"]}), x)
    assert torch.equal(found.phi, alone.phi[..., [1]])
    assert found.made_by["outputs_of"] == 4
    assert value.select(None) is value


def test_a_selection_is_saved_and_drawn(tmp_path: Path) -> None:
    made = VALUES["surrogate"]()
    found = ms.auto_shapley(made.value, made.x, outputs=2)
    found.save(tmp_path / "some.zarr")
    again = ms.Explanation.load(tmp_path / "some.zarr")
    assert torch.equal(again.phi, found.phi)
    assert again.selected
    for draw in (again.plot.bar, again.plot.beeswarm, partial(again.plot.waterfall, 0)):
        assert draw() is not None
    plt.close("all")
    # Two of three classes: neither is "the positive one".
    assert repr(again).splitlines()


def test_labels_of_a_selection_are_names_not_positions() -> None:
    made = VALUES["surrogate"]()
    first, last = made.value.outputs[0], made.value.outputs[-1]
    some = ms.exact_shapley(made.value, made.x, outputs=[last, first])
    whole = ms.exact_shapley(made.value, made.x)
    y = [first, last, last]
    assert torch.equal(ms.global_values(some, y).phi, ms.global_values(whole, y).phi)


def test_the_amortised_explainer_keeps_outputs() -> None:
    value, explainer = amortized()
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    whole = ms.amortized_shapley(value, x, explainer=explainer)
    some = ms.amortized_shapley(value, x, explainer=explainer, outputs=[value.outputs[1]])
    assert torch.equal(some.phi, whole.phi[..., [1]])
    assert some.outputs == value.outputs[1:2]


def test_streamed_rows_have_one_choice_of_outputs(tmp_path: Path) -> None:
    x = torch.tensor([[0.9, 0.0, 0.2], [0.0, 0.5, 0.3], [0.6, 0.0, 0.3], [0.0, 0.1, 0.8]])
    value = ms.as_value_function(lambda x, mask: x[:, None] * mask, x, outputs=["a", "b", "c"])
    path = tmp_path / "rows.zarr"
    ms.explain_rows(path, value.select(2, x), x.numpy(), ms.exact_shapley, block=1)
    found = ms.Explanation.load(path)
    assert found.outputs == ("c", "a")
    assert torch.equal(found.phi, ms.exact_shapley(value, x, outputs=2).phi)
    largest = partial(ms.exact_shapley, outputs=2)
    with pytest.raises(ValueError, match=r"choose outputs by `value\.select"):
        ms.explain_rows(path, value, x, largest, block=1, overwrite=True)


def test_linearizations_are_asked_for_the_chosen_outputs_alone() -> None:
    class Counted(Cheap):
        def linearized(self, chosen: Tensor | None = None) -> Any:
            asked.append(None if chosen is None else chosen.tolist())
            return super().linearized(chosen)

    asked: list[Any] = []
    own = network()
    value = Counted(own.surrogate, own.model, own.players, own.space, own.expectation)
    ms.coalition_shapley(SelectedValue(value, [2, 0]), uniform(2, 6), coalitions=32)
    assert asked
    assert all(each == [2, 0] for each in asked)


def test_numbers_of_numpy_choose_outputs() -> None:
    value, x = named("a", "b", "c"), uniform(3, 6)
    for count, position in ((np.int64(2), np.int32(0)), (np.uint8(2), np.int64(-3))):
        largest, first = value.select(2, x).outputs, ("a",)
        assert ms.exact_shapley(value, x, outputs=count).outputs == largest
        assert ms.exact_shapley(value, x, outputs=[position]).outputs == first
