"""The choice of an estimator: by sizes and costs, within a budget."""

import re
import warnings

import pytest
import torch

import manifold_shap as ms
from tests.estimators.test_coalition import network
from tests.examples import Recorded, normal, table, uniform


def product(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return torch.where(mask, 1 + x[:, None], 1).prod(-1, keepdim=True)


@pytest.mark.filterwarnings("ignore:Standard errors are unknown")
@pytest.mark.parametrize(
    ("cost", "players", "evaluations", "estimator"),
    [
        ("drawn", 2, 4, "exact"),
        ("drawn", 4, 28, "exact"),
        ("drawn", 4, 27, "permutation"),
        ("drawn", 6, None, "exact"),
        ("drawn", 7, None, "kernel"),
        ("drawn", 10, 32 * 10, "kernel"),
        ("drawn", 10, 32 * 10 - 1, "permutation"),
        ("drawn", 20, None, "kernel"),
        ("drawn", 21, None, "permutation"),
        ("closed form", 16, None, "exact"),
        ("closed form", 40, None, "kernel"),
        ("closed form", 512, 8 * 512, "kernel"),
        ("closed form", 40, 4 * 40 - 1, "permutation"),
        ("network", 13, None, "exact"),
        ("network", 14, None, "odd"),
        ("network", 40, None, "kernel"),
        ("model", 40, None, "odd"),
        ("model", 40, 7 * 40, "odd"),
        ("model", 40, 7 * 40 - 1, "kernel"),
        ("model", 784, 8 * 784, "permutation"),
        ("model", 40, 3 * 40, "permutation"),
    ],
)
def test_sizes_and_costs_decide(
    cost: str, players: int, evaluations: int | None, estimator: str
) -> None:
    x = torch.full((1, players), 0.1)
    if cost == "drawn":
        imputer = ms.imputers.GaussianImputer(normal(200, players))
        value = ms.imputed_value(lambda x: x[:, :1] * x[:, 1:2], imputer, "identity")
    else:
        value = ms.as_value_function(product, x, cost=cost)
    found = ms.auto_shapley(value, x, evaluations=evaluations)
    assert found.made_by["estimator"] == estimator
    assert found.made_by["auto"].startswith(f"{estimator}: ")
    # Of what is drawn errors are known.
    assert (found.standard_error > 0).all() or cost != "drawn"


def test_of_many_outputs_a_fit_for_each_takes_too_long() -> None:
    x = torch.zeros(1, 12)

    def estimator(outputs: int) -> str:
        game = table(12, outputs)
        return ms.auto_shapley(game, x, evaluations=120).made_by["estimator"]

    assert [estimator(1), estimator(300)] == ["odd", "kernel"]


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("players", [1, 2, 3, 5, 8, 14, 40])
def test_evaluations_are_never_exceeded_and_too_few_for_errors_are_said(
    players: int, sampled: bool
) -> None:
    for evaluations in (1, 2, 3, 7, 30, 45, 111, 400):
        value = Recorded(lambda x, mask: mask[..., :1].float().expand(-1, -1, 2), players, sampled)
        x = torch.zeros(2, players)
        if evaluations < min(2 * (players - 1), 2**players - 2):
            with pytest.raises(ValueError, match="`evaluations` of at least"):
                ms.auto_shapley(value, x, evaluations=evaluations)
            continue
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = ms.auto_shapley(value, x, evaluations=evaluations)
        asked = sum(mask.shape[0] * mask.shape[1] for mask in value.masks)
        assert asked == found.made_by["evaluations"] <= 2 * evaluations
        said = [re.search(r"`evaluations` of (\d+)", str(each.message)) for each in caught]
        assert len(said) == bool(found.standard_error.isnan().any())
        for enough in said:
            found = ms.auto_shapley(value, x, evaluations=int(enough[1]))
            assert not found.standard_error.isnan().any()


@pytest.mark.parametrize(
    ("players", "evaluations", "expected"),
    [(16, None, "kernel"), (20, 800, "kernel"), (21, None, "coalition")],
)
def test_networks_are_linearized_where_that_pays(
    players: int, evaluations: int | None, expected: str
) -> None:
    value = network(players, hidden=(256, 256)) if evaluations else network(players)
    found = ms.auto_shapley(value, uniform(1, players), evaluations=evaluations)
    assert found.made_by["estimator"] == expected
    assert found.made_by["auto"].startswith(f"{expected}: ")
    assert evaluations is None or found.made_by["evaluations"] <= evaluations


@pytest.mark.slow
@pytest.mark.parametrize(
    ("evaluations", "estimator", "taken"),
    [(2**14 + 100, "odd", 2**14), (2**16 + 2, "kernel", 2**16), (2**17, "kernel", 2**17 - 2)],
)
def test_interactions_are_fitted_to_so_many_coalitions_and_no_more(
    evaluations: int, estimator: str, taken: int
) -> None:
    found = ms.auto_shapley(table(17), uniform(1, 17), evaluations=evaluations)
    assert found.made_by["estimator"] == estimator
    assert found.made_by["evaluations"] == pytest.approx(taken, rel=0.01)
