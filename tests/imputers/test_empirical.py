"""Empirical and exact-match imputers against sums written out, tables and Gaussian conditionals."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.coalitions import Listed, all_coalitions
from manifold_shap.imputers import Imputer
from manifold_shap.imputers.empirical import EmpiricalImputer, ExactMatchImputer, corrected_akaike

PAIRED = ms.Players(("a", "b", "c"), torch.tensor([0, 1, 1, 2]))
MIX = torch.randn(4, 4, generator=torch.Generator().manual_seed(7))


def gaussian(rows: int, seed: int = 0) -> Tensor:
    return torch.randn(rows, 4, generator=torch.Generator().manual_seed(seed)) @ MIX + 3


def weighted(imputer: Imputer, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """All donors and their log-weights, the heaviest first."""
    keys = torch.zeros(mask.shape[:2], dtype=torch.int64)
    completed = imputer.impute(x, Listed(mask, keys), range(len(imputer.reference)))
    assert completed.log_weights is not None
    log_weights, order = completed.log_weights.sort(dim=-1, descending=True, stable=True)
    return completed.rows.take_along_dim(order[..., None], 2), log_weights


def written_out(
    reference: Tensor, x: Tensor, present: Tensor, sigma: float, share: float
) -> tuple[np.ndarray, np.ndarray]:
    """Order of the rows, and the weights of those that make up the share (Eqs. 3.4.5-3.4.7)."""
    z, s = reference.double().numpy(), present.numpy()
    covariance = np.cov(z.T)[np.ix_(s, s)]
    weights = np.zeros(len(z))
    for i, row in enumerate(z):
        difference = (row - x.double().numpy())[s]
        scaled = difference @ np.linalg.solve(covariance, difference) / s.sum()
        weights[i] = math.exp(-scaled / (2 * sigma**2))
    order = np.argsort(-weights)
    kept, total = 0.0, weights.sum()
    for rank, i in enumerate(order):
        if share < 1 and kept >= share * total:
            return order[:rank], weights[order[:rank]]
        kept += weights[i]
    return order, weights[order]


@pytest.mark.parametrize(("sigma", "share"), [(0.3, 0.95), (0.3, 0.5), (1.5, 0.99), (0.4, 1.0)])
@pytest.mark.parametrize("players", [None, PAIRED])
def test_weights_are_those_of_the_formulas(
    sigma: float, share: float, players: ms.Players | None
) -> None:
    reference, x = gaussian(60), gaussian(3, seed=1)
    imputer = EmpiricalImputer(reference, players, sigma, share)
    masks = all_coalitions(len(imputer.players))
    rows, log_weights = weighted(imputer, x, masks.expand(3, -1, -1))
    for b in range(3):
        for k in range(1, len(masks) - 1):
            present = imputer.players.expand(masks[k])
            order, weights = written_out(reference, x[b], present, sigma, share)
            mine = log_weights[b, k]
            assert int((mine > -torch.inf).sum()) == len(order)
            expected = torch.tensor(weights / weights.sum())
            torch.testing.assert_close(
                mine.softmax(-1)[: len(order)].double(), expected, rtol=1e-4, atol=1e-5
            )
            donated = torch.where(present, x[b], reference[order])
            assert torch.equal(rows[b, k, : len(order)], donated)


def test_samples_follow_the_weights() -> None:
    imputer, x = EmpiricalImputer(gaussian(30), bandwidth=0.5), gaussian(1, seed=1)
    mask, key = torch.tensor([[[True, False, False, False]]]), torch.zeros(1, 1, dtype=torch.int64)
    drawn = imputer.sample(x, Listed(mask, key), range(20_000))[0, 0]
    assert (drawn[:, 0] == x[0, 0]).all()
    rows, log_weights = (each[0, 0] for each in weighted(imputer, x, mask))
    weights = log_weights.softmax(-1)
    shares = (drawn[:, None] == rows).all(-1).float().mean(0)
    # Five standard errors of a share.
    assert ((shares - weights).abs() <= 5 * (weights * (1 - weights) / 20_000).sqrt()).all()
    assert torch.equal(imputer.sample(x, Listed(mask, key), range(7, 9))[0, 0], drawn[7:9])


def test_aicc_predicts_better_than_a_poor_bandwidth() -> None:
    weight, x = torch.tensor([[1.0], [-2], [0.5], [1]]), gaussian(30, seed=1)
    law = ms.oracles.GaussianMixture([1.0], [[3.0] * 4], (MIX.T @ MIX)[None])
    truth = ms.oracles.true_value(lambda rows: rows @ weight, law, "identity", draws=2000)
    mask = ms.metrics.shapley_pairs(30, 4, least=500)

    def error(bandwidth: object) -> float:
        imputer = EmpiricalImputer(gaussian(300), bandwidth=bandwidth, share=1.0)
        value = ms.imputed_value(truth.model, imputer, "identity", draws=300)
        return ms.metrics.mean_squared_error(value, x, mask, truth=truth).debiased

    chosen = error("aicc")
    assert chosen < 0.7 * error(0.03)
    assert chosen < 0.7 * error(2.0)


@pytest.mark.parametrize("bandwidth", [0.2, 1.0])
def test_aicc_is_the_criterion_of_hurvich_et_al(bandwidth: float) -> None:
    generator = torch.Generator().manual_seed(0)
    squared = torch.rand(3, 12, 12, generator=generator)
    squared = squared * (1 - torch.eye(12))
    targets = torch.randn(3, 12, 2, generator=generator)
    mine = corrected_akaike(squared, targets, bandwidth)
    for k in range(3):
        kernel = np.exp(-squared[k].double().numpy() / (2 * bandwidth**2))
        smoother = kernel / kernel.sum(1, keepdims=True)
        y, trace = targets[k].double().numpy(), np.trace(smoother)
        residual = y - smoother @ y
        expected = np.log((residual**2).mean()) + 1 + 2 * (trace + 1) / (12 - trace - 2)
        assert mine[k].item() == pytest.approx(expected if trace < 10 else math.inf, rel=1e-4)


def test_rows_that_agree_are_equally_likely() -> None:
    table = torch.tensor([[0.0, 0, 1], [0, 0, 1], [0, 1, 2], [1, 1, 3], [1, 0, 3]])
    imputer = ExactMatchImputer(table)
    x, mask = torch.tensor([[0.0, 5, 5]]), torch.tensor([[[True, False, False]]])
    rows, log_weights = (each[0, 0] for each in weighted(imputer, x, mask))
    torch.testing.assert_close(log_weights.softmax(-1)[:3], torch.tensor([2 / 3, 1 / 3, 0]))
    assert rows[:2].tolist() == [[0, 0, 1], [0, 1, 2]]


def test_without_a_match_the_fewest_mismatching_players_count() -> None:
    # Players: a one-hot block of three, and two single columns.
    players = ms.Players(("block", "p", "q"), torch.tensor([0, 0, 0, 1, 2]))
    table = torch.tensor([[1.0, 0, 0, 1, 1], [0, 1, 0, 0, 1], [0, 0, 1, 0, 0], [1, 0, 0, 0, 0]])
    imputer = ExactMatchImputer(table, players)

    def counting(x: list[float], mask: list[bool]) -> set[int]:
        ((_, log_weights),) = imputer.weigh(torch.tensor([x]).float(), torch.tensor([[mask]]))
        kept = imputer.donors[log_weights[0] > -torch.inf]
        return {int((row == table).all(1).nonzero()) for row in kept}

    assert counting([1, 0, 0, 0, 1], [True, False, False]) == {0, 3}
    # Nobody has all three; two rows miss the block only (by two elements), two others p or q.
    assert counting([0, 0, 1, 0, 1], [True, True, True]) == {1, 2}
    assert counting([1, 0, 0, 0, 1], [True, True, True]) == {0, 1, 3}


def wavy(x: Tensor) -> Tensor:
    total = x.sum(1, keepdim=True)
    return total + total.sin()


@pytest.mark.parametrize("draws", [3, 20])
@pytest.mark.parametrize(
    "imputer",
    [
        ExactMatchImputer(gaussian(800).div(2).round().clamp(0, 3)),
        EmpiricalImputer(gaussian(200), bandwidth=0.1),
        EmpiricalImputer(gaussian(200), bandwidth=0.3, share=0.6),
        EmpiricalImputer(gaussian(200), bandwidth=1e6, share=1.0),
    ],
)
def test_fewer_draws_than_donors_are_a_sample_of_all_of_them(imputer: Imputer, draws: int) -> None:
    value, truth = (
        ms.imputed_value(wavy, imputer, "identity", count) for count in (draws, len(imputer.donors))
    )
    x, keys = imputer.reference[:20], 600
    mask = torch.ones(len(imputer.players), len(imputer.players), dtype=torch.bool).tril()[:-1]
    expected = truth(x, mask.expand(20, -1, -1))
    found = value.estimate(
        x, mask.repeat(keys, 1).expand(20, -1, -1),
        torch.arange(keys).repeat_interleave(len(mask)).expand(20, -1),
    )  # fmt: skip
    values, variance = (each.unflatten(1, (keys, -1)) for each in (found.values, found.variance))
    error = (values - expected[:, None]).square().mean(1)
    # Normalised weights have a bias, which is small beside the noise.
    assert (values.mean(1) - expected).square().mean() < 0.01 * error.mean()
    assert (value.spec.work.sampled, truth.spec.work.sampled) == (True, False)
    assert 0.8 < variance.mean() / error.mean() < 1.25
