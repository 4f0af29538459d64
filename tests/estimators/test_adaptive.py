"""Adaptive sampling: the greedy rule, the adjusted sum, and estimates against exact values."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import manifold_shap as ms
from manifold_shap.estimators.adaptive import adjust
from tests.examples import Recorded, table, uniform

ADAPTIVE = ms.adaptive_shapley
SCALES = torch.tensor([1.0, 3.0, 9.0])


def uneven(x: Tensor, mask: Tensor) -> Tensor:
    """Three pairs that win 1, 3 or 9 when complete, and a seventh player who adds nothing.

    A pair's players find the other one present in half of the orders: the standard deviations of
    their contributions are half of what it wins. Two outputs, the second of which is a quarter.
    """
    pairs = mask[..., 0:6:2] & mask[..., 1:6:2]
    won = (pairs * SCALES).sum(-1)
    return torch.stack((won, won / 4), dim=-1)


def samples(value: Recorded) -> tuple[Tensor, Tensor]:
    """Of the only row: whose contribution each pair of coalitions gives, and the contribution."""
    before, joined = torch.cat(value.masks, 1)[0].unflatten(0, (-1, 2)).unbind(1)
    # Others stand in for nobody and for everybody.
    before = before & (joined.sum(-1, keepdim=True) > 1)
    joined = joined | (before.sum(-1, keepdim=True) == joined.shape[1] - 1)
    new = before ^ joined
    assert (new.sum(-1) == 1).all()
    x = uniform(1, joined.shape[1])
    return new.int().argmax(-1), (value.game(x, joined[None]) - value.game(x, before[None]))[0]


def test_each_sample_goes_to_the_player_where_it_helps_most() -> None:
    """Algorithm 2 of Noé et al. (2024), one by one, with the variances of the round before."""
    value, least = Recorded(uneven, 7), 10
    ADAPTIVE(value, uniform(1, 7), samples=7 * least + 7, least=least)
    who, contributions = samples(value)
    # The round after the first samples has as many as there are players.
    counts, more = [least] * 7, [0] * 7
    traces = [
        contributions[: 7 * least][who[: 7 * least] == k].double().var(0).sum().item()
        for k in range(7)
    ]
    for _ in range(7):
        gains = [t / m - t / (m + 1) for t, m in zip(traces, counts, strict=True)]
        counts[gains.index(max(gains))] += 1
        more[gains.index(max(gains))] += 1
    assert who[7 * least :].bincount(minlength=7).tolist() == more


@given(st.integers(1, 5), st.integers(1, 4), st.integers(0, 10_000))
@settings(max_examples=15)
def test_adjusted_values_have_the_sum_and_the_errors_of_a_linear_map(
    players: int, outputs: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    root = torch.randn(2, players, outputs, outputs, generator=generator, dtype=torch.float64)
    covariance = root @ root.mT
    phi, total = torch.randn(2, players, outputs).double(), torch.randn(2, outputs).double()
    moved, adjusted = adjust(phi, covariance, total)
    torch.testing.assert_close(moved.sum(1), total)
    for b in range(2):
        trace = covariance[b].diagonal(dim1=1, dim2=2).sum(-1)
        share = trace / trace.sum()
        # phi' = A phi + w total with A = 1 - w 1ᵀ over players, and the same for every output.
        linear = torch.eye(players).double() - share[:, None]
        torch.testing.assert_close(moved[b], linear @ phi[b] + share[:, None] * total[b])
        expected = torch.einsum("ij,joq,ij->ioq", linear, covariance[b], linear)
        torch.testing.assert_close(adjusted[b], expected)
    # Diagonals alone; and the weights as they are printed, for a small constant.
    alone, diagonal = adjust(phi, covariance.diagonal(dim1=2, dim2=3), total)
    torch.testing.assert_close(alone, moved)
    torch.testing.assert_close(diagonal, adjusted.diagonal(dim1=2, dim2=3))
    trace = covariance.diagonal(dim1=2, dim2=3).sum(-1)
    v = trace / (1e-8 * trace.amax(1, keepdim=True))
    lack = (total - phi.sum(1))[:, None]
    printed = phi + (v / (1 + v.sum(1, keepdim=True)))[..., None] * lack
    torch.testing.assert_close(moved, printed, rtol=1e-5, atol=1e-6)
    equal = adjust(phi, torch.zeros_like(phi), total)[0]
    torch.testing.assert_close(equal, phi + lack / players)


@pytest.mark.parametrize("players", [2, 3, 6])
def test_estimates_agree_with_exact_values_within_their_errors(players: int) -> None:
    game, x = table(players, outputs=3), uniform(1, players)
    exact = ms.exact_shapley(game, x).phi
    sampled = ADAPTIVE(game, x.expand(600, -1))
    z = (sampled.phi - exact) / sampled.standard_error
    # About one is due; choices that depend on contributions leave a bias of a few hundredths.
    mean, square = z.mean(0), z.square().mean(0)
    assert mean.abs().max() < 0.2
    assert ((square > 0.85) & (square < 1.25)).all()
    within = (z.abs() < 1.96).float().mean(0)
    assert ((within > 0.915) & (within < 0.975)).all()


def test_an_ordering_gives_asymmetric_values() -> None:
    game, x, ordering = table(4), uniform(3, 4), [["x1"], ["x0", "x3"], ["x2"]]
    exact = ms.exact_shapley(game, x, ordering=ordering)
    sampled = ADAPTIVE(game, x, ordering=ordering, samples=2_000)
    assert ((sampled.phi - exact.phi).abs() < 4.5 * sampled.standard_error + 1e-5).all()


def test_samples_go_where_contributions_vary() -> None:
    value, many = Recorded(uneven, 7), 7 * 400
    phi = ADAPTIVE(value, uniform(1, 7), samples=many, least=10).phi
    counts = samples(value)[0].bincount(minlength=7)
    assert counts.sum() == many
    # Standard deviations are as 1 : 3 : 9.
    optimum = (many - counts[6]) * SCALES.repeat_interleave(2) / (2 * SCALES.sum())
    torch.testing.assert_close(counts[:6].float(), optimum, rtol=0.15, atol=0)
    assert counts[6] == 10
    assert (phi[:, 6] == 0).all()


def test_the_two_values_of_a_contribution_share_their_draws() -> None:
    value = Recorded(table(3), 3)
    ADAPTIVE(value, uniform(2, 3))
    before, joined = torch.cat(value.keys, 1).unflatten(1, (-1, 2)).unbind(2)
    assert torch.equal(before, joined)
    assert len(before.unique()) == before.numel() == 2 * 3 * 64
