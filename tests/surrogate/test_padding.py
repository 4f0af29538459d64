"""Surrogates of padded rows: everybody knows their length, and v(∅) is that of rows as long."""

from typing import Any

import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.values import LogRatioOfMean

EVENT, PADDING = (1, 6), -9.0
PLAYERS = ms.Players.segments(EVENT, 2, PADDING)


def series(count: int, seed: int) -> Tensor:
    """Normal numbers, of 1 to 6 time points."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 7, (count, 1, 1), generator=generator)
    x = torch.randn(count, *EVENT, generator=generator)
    return x.where(torch.arange(6) < lengths, PADDING)


def model(x: Tensor) -> Tensor:
    """It depends on the length, and on the first time point."""
    lengths = PLAYERS.lengths(x)
    p = (x[:, 0, 0] + lengths - 3.5).sigmoid()
    return torch.stack((p, 1 - p), dim=1)


@pytest.mark.parametrize(
    ("network", "hidden"),
    [
        ("mlp", [32]),
        pytest.param("conv", [8, 8], marks=pytest.mark.slow),
        pytest.param("transformer", [32], marks=pytest.mark.slow),
    ],
)
def test_the_base_is_the_mean_of_rows_as_long(network: str, hidden: list[int]) -> None:
    quick: dict[str, Any] = {"max_epochs": 8, "batch_size": 32, "learning_rate": 5e-3}
    value = ms.fit_surrogate(
        model, series(3000, 0), network=network, hidden=hidden, players=PLAYERS, progress=False,
        trainer={"accelerator": "cpu"}, **quick,
    )  # fmt: skip
    x = series(2000, 1)
    prediction, base, lengths = value.prediction(x), value.base(x), PLAYERS.lengths(x)
    means = torch.stack([prediction[lengths == k].mean(0) for k in range(1, 7)])
    assert means[:, 0].max() - means[:, 0].min() > 0.6
    assert (base - means[lengths - 1]).abs().max() < 0.06
    # One network call a row, whatever the batch.
    torch.testing.assert_close(value.base(x[:3]), base[:3])
    explanation = ms.exact_shapley(value, x[:20])
    assert explanation.efficiency_gap < 1e-5
    torch.testing.assert_close(explanation.base, base[:20])
    # Length is no player: what it does is in the base, and all that is left is the first segment's.
    change = explanation.prediction - explanation.base
    assert (explanation.phi[:, 0] - change).abs().max() < 0.1


def test_log_ratios_have_the_base_of_each_row() -> None:
    value = ms.fit_surrogate(
        model, series(60, 0), hidden=[8], players=PLAYERS, progress=False, batch_size=8,
        trainer={"accelerator": "cpu", "limit_train_batches": 2}, max_epochs=1,
    )  # fmt: skip
    ratio, x = LogRatioOfMean(value), series(10, 1)
    torch.testing.assert_close(ratio.base(x), ratio.space(value.base(x).log()))
    assert ms.exact_shapley(ratio, x).efficiency_gap < 1e-5
