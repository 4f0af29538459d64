"""Where the host waits for the device: each time, a GPU stands still while Python goes on.

The pretended device counts them. What is left is listed, each place with its reason.
"""

import copy

import pytest
import torch

import manifold_shap as ms
from tests.devices.pretended import PretendedCuda
from tests.devices.test_cuda import asked, surrogate_of_nine
from tests.examples import VALUES, Made, imputed, normal

# Of values, along orders and around coalitions: the place, why the host waits there, and a value
# function by which it does.
WAITS = {
    "_random.py:uniform": ("equal keys share numbers, which are computed once", "imputed"),
    "players.py:expand": ("players of elements are moved", "imputed, groups of elements"),
    "players.py:owners": ("players of elements are moved", "surrogate by the model"),
    "coalitions.py:distinct_coalitions": ("each is factorised once", "imputed, nested"),
    "imputers/gaussian.py:_numbers": ("equal keys share numbers", "imputed, nested"),
    "imputers/empirical.py:_complete": ("equal keys share numbers", "imputed, weighted"),
    "imputers/empirical.py:_within_share": ("which donors are left out", "imputed, weighted"),
    "imputers/kernel.py:<listcomp>": ("how many pairs a coalition has", "imputed, weighted"),
    "simplex/geometry.py:coordinates": ("the basis is moved", "imputed, all draws"),
    "surrogate/transformer.py:forward": ("tokens are checked", "surrogate of tokens"),
    # Labels of rows are made by a function of the user.
    "values/grouped.py:owners": ("labels are checked", "grouped by row"),
    "values/grouped.py:_of_players": ("labels are checked", "grouped by row"),
    "segmentation.py:check_labels": ("labels are checked", "grouped by row"),
    # The model itself, or a callable, is asked; what it says is checked.
    "_checks.py:check_finite": ("answers of a model are checked", "guided"),
    "values/wrapped.py:values": ("answers of a callable are checked", "callable"),
    "values/calls.py:<listcomp>": ("the example checks its rows", "ragged"),
    # Through frames, arrays and tables of codes on the CPU.
    "models/model.py:__call__": ("answers come back from the CPU", "imputed, table"),
    "models/rows.py:as_array": ("scikit-learn takes arrays", "retrained"),
    "values/retrained.py:_model": ("a model of each coalition", "retrained"),
    "values/retrained.py:values": ("a model of each coalition", "retrained"),
    "tables/codebook.py:<listcomp>": ("elements of codes are moved", "surrogate of a table"),
    "tables/codebook.py:_whole": ("the model takes a frame", "imputed, table"),
    "tables/drawing.py:__call__": ("cells are drawn, and ties broken", "imputed, table"),
    "tables/drawing.py:_largest": ("cells are drawn, and ties broken", "imputed, table"),
    "vae/distributions.py:typical": ("codes of a column are drawn", "guided, table"),
    # Oracles enumerate, and are for comparison.
    "oracles/value.py:sampled_values": (
        "which coalitions are enumerated",
        "truth of a discrete law",
    ),
    "oracles/value.py:_summed": ("states are enumerated", "truth of a discrete law, draws"),
    "oracles/value.py:_weighted": ("states are enumerated", "truth of a discrete law, draws"),
    "oracles/base.py:check_possible": ("rows are checked", "posterior"),
    "oracles/base.py:check_states": ("rows are checked", "posterior"),
}


def places(made: Made) -> set[str]:
    """Where the host waits, of values, along orders and around coalitions."""
    cuda, moved = PretendedCuda(), copy.deepcopy(made.value)
    x, mask, orders, keys = asked(made)
    with cuda():
        moved.to("cuda")
        x, mask, orders, keys = (each.to("cuda") for each in (x, mask, orders, keys))
        cuda.waits.clear()
        with torch.no_grad():
            moved.values(x, mask, keys)
            moved.values_along(x, orders, keys)
            moved.values_around(x, mask, keys)
    return set(cuda.waits)


@pytest.mark.parametrize("name", VALUES)
def test_the_host_waits_in_no_other_place(name: str) -> None:
    found = places(VALUES[name]())
    assert found <= set(WAITS)
    assert {place for place, (_, known) in WAITS.items() if known == name} <= found


def test_a_surrogate_of_columns_never_waits() -> None:
    assert not places(surrogate_of_nine())
    assert not places(VALUES["selected"]())
    grouped = surrogate_of_nine().value.grouped({"two": ["x0", "x1"]})
    assert not places(Made(grouped, normal(3, 9, 1)))


def test_parts_of_many_coalitions_wait_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made, counts = imputed(ms.GaussianImputer(normal(60, 9))), []
    x, mask, keys = made.x, torch.eye(9, dtype=torch.bool).expand(3, -1, -1), torch.zeros(3, 9)
    for most in (2**24, 2 * 81):
        monkeypatch.setattr("manifold_shap.imputers.gaussian._MOST_ELEMENTS", most)
        cuda, moved = PretendedCuda(), copy.deepcopy(made.value)
        with cuda():
            there = moved.to("cuda"), x.to("cuda"), mask.to("cuda"), keys.long().to("cuda")
            cuda.waits.clear()
            found = there[0].values(*there[1:]).cpu()
        torch.testing.assert_close(found, made.value.values(x, mask, keys.long()))
        counts.append(cuda.waits["imputers/gaussian.py:impute"])
    assert counts == [0, 1]


def test_allocating_samples_waits_for_the_rows_alone() -> None:
    made = surrogate_of_nine()
    cuda, moved = PretendedCuda(), copy.deepcopy(made.value)
    with cuda():
        ms.adaptive_shapley(moved.to("cuda"), made.x, samples=180)
    # Once in each round after the first.
    assert cuda.waits["estimators/adaptive.py:_owners"] == 2


def test_tokens_are_checked_by_one_question() -> None:
    made = VALUES["surrogate of tokens"]()
    x, mask, _, keys = asked(made)
    cuda = PretendedCuda()
    with cuda():
        moved = copy.deepcopy(made.value).to("cuda")
        there = [each.to("cuda") for each in (x, mask, keys)]
        cuda.waits.clear()
        moved.values(*there)
    assert sum(cuda.waits.values()) == 1
