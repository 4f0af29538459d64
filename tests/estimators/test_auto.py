"""The choice of an estimator, where values are drawn."""

import pytest
import torch

import manifold_shap as ms


def drawn(players: int) -> tuple[ms.ValueFunction, torch.Tensor]:
    """A game of products, on draws given x_S, and two of its rows."""
    x = torch.randn(200, players, generator=torch.Generator().manual_seed(0))
    value = ms.imputed_value(lambda x: x[:, :1] * x[:, 1:2], ms.GaussianImputer(x), "identity")
    return value, x[:2]


@pytest.mark.parametrize(
    ("players", "evaluations", "estimator"),
    [
        (2, 4, "exact"),
        (4, 28, "exact"),
        (4, 27, "permutation"),
        (6, None, "exact"),
        (7, None, "permutation"),
        (10, None, "permutation"),
    ],
)
def test_of_what_is_drawn_errors_are_known(
    players: int, evaluations: int | None, estimator: str
) -> None:
    explanation = ms.auto_shapley(*drawn(players), evaluations=evaluations)
    assert explanation.made_by["estimator"] == estimator
    # Each value is the mean over 64 model rows: 64 orders take long enough.
    usual = (64 if estimator == "permutation" else 256) * (players + 1)
    assert explanation.made_by["evaluations"] <= 2 * (evaluations or usual)
    assert (explanation.standard_error > 0).all()


def test_a_target_is_for_samples() -> None:
    found = ms.auto_shapley(*drawn(4), target_error=0.5)
    assert found.made_by["target_error"] == 0.5
    assert found.made_by["auto"].endswith("since values are drawn")


def test_an_ordering_of_what_is_drawn() -> None:
    value, x = drawn(4)
    first, *others = value.players.names
    found = ms.auto_shapley(value, x, ordering=[[first], others])
    assert found.made_by["estimator"] == "exact"
    assert (found.standard_error > 0).all()
