"""Means of explanations and their learning error: laws, contracts and errors."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.learning_error import SCALE


def explained(phi: Tensor, error: float = 0.0) -> ms.Explanation:
    """Of additive games, whose values are their parts."""
    parts = phi.flatten(2) if phi.ndim > 2 else phi[..., None]
    found = ms.exact_shapley(
        lambda x, mask: (x[:, None] * mask).sum(-1, keepdim=True), parts[..., 0]
    )
    # Explanations of the same rows, whose values differ.
    same = torch.zeros_like(found.x)
    return replace(found, x=same, standard_error=torch.full_like(found.phi, error))


def noisy(rows: int, sizes: Tensor, seed: int, error: float = 0.0) -> ms.Explanation:
    generator = torch.Generator().manual_seed(seed)
    return explained(sizes * torch.randn(rows, len(sizes), generator=generator), error)


def test_the_mean_is_the_mean_and_stays_efficient() -> None:
    one, two = noisy(50, torch.ones(4), 0), noisy(50, torch.ones(4), 1)
    whole = ms.averaged([one, two])
    torch.testing.assert_close(whole.phi, (one.phi + two.phi) / 2)
    assert whole.efficiency_gap < 1e-6
    assert whole.made_by["averaged"] == 2
    assert ms.averaged([one, one]).model_error.abs().max() == 0


@pytest.mark.parametrize("count", [2, 4])
def test_model_errors_are_those_of_the_mean(count: int) -> None:
    """Half of the variance is the player's own, half the mean of the row's."""
    sizes = torch.tensor([1.0, 2.0, 4.0])
    whole = ms.averaged([noisy(20_000, sizes, seed) for seed in range(count)])
    assert whole.model_error is not None
    found = (whole.model_error / SCALE).square().mean(0)[:, 0]
    pooled = (sizes**2 + (sizes**2).mean()) / 2 / count
    torch.testing.assert_close(found, pooled, rtol=0.05, atol=0)


def test_sampling_is_no_error_of_learning() -> None:
    """What sampling alone would scatter is taken off."""
    generator = torch.Generator().manual_seed(0)
    exact = torch.randn(20_000, 3, generator=generator)
    both = [
        explained(exact + 0.1 * torch.randn(exact.shape, generator=generator), 0.1)
        for _ in range(2)
    ]
    whole = ms.averaged(both)
    assert whole.model_error is not None
    # Values below zero are cut off: a third of the variance of sampling is left.
    assert whole.model_error.square().mean().sqrt() < 0.75 * SCALE * 0.1 / 2**0.5
    torch.testing.assert_close(whole.standard_error, torch.full_like(whole.phi, 0.1 / 2**0.5))


def test_intervals_hold_both_errors(tmp_path: Path) -> None:
    one, two = noisy(5, torch.ones(4), 0, 0.5), noisy(5, torch.ones(4), 1, 0.5)
    whole = ms.averaged([one, two])
    widths = [high - low for low, high in (whole.interval(0.5), whole.interval(0.95))]
    assert (widths[0] < widths[1]).all()
    low, high = replace(whole, model_error=None).interval(0.95)
    assert (high - low <= widths[1]).all()
    assert (high - low < widths[1]).any()
    whole.save(tmp_path / "whole.zarr")
    again = ms.Explanation.load(tmp_path / "whole.zarr")
    assert again.model_error is not None
    assert whole.model_error is not None
    assert torch.equal(again.model_error, whole.model_error)
    assert torch.equal(again[2].interval()[0], whole[2].interval()[0])


@pytest.fixture(scope="module")
def halves() -> tuple[list[ms.ValueFunction], Tensor]:
    """Of a product of correlated numbers, on draws given x_S."""
    x = torch.randn(200, 7, generator=torch.Generator().manual_seed(0)).cumsum(1)
    values: list[ms.ValueFunction] = [
        ms.imputed_value(lambda x: x[:, :1] * x[:, 1:2], ms.GaussianImputer(half), "identity")
        for half in (x[::2], x[1::2])
    ]
    return values, x[:3]


@pytest.mark.parametrize("permutations", [2, 4])
def test_a_seed_that_occurs_twice_is_refused(
    halves: tuple[list[ms.ValueFunction], Tensor], permutations: int
) -> None:
    """Of one value function with one seed, nothing would scatter; errors of two orders are NaN."""
    values, x = halves

    def of(k: int, seed: int) -> ms.Explanation:
        return ms.permutation_shapley(values[k], x, permutations=permutations, seed=seed)

    for k in (0, 1):
        with pytest.raises(ValueError, match="another `seed` each but two were sampled by seed 3"):
            ms.averaged([of(0, 3), of(0, 4), of(k, 3)])
    found = ms.averaged([of(0, 3), of(1, 4)]).model_error
    assert found is not None
    assert (found > 0).any()


def test_rows_of_tables_are_compared_in_their_own_units() -> None:
    """Two codebooks number the same cells in another way."""
    frame = pd.DataFrame(
        {"city": ["Rome", "Oslo", "Lima", "Rome"], "age": [30.0, 40.0, 50.0, 60.0]}
    )
    more = pd.DataFrame({"city": ["Bern"], "age": [35.0]})
    one, two = ms.Codebook.fit(frame), ms.Codebook.fit(pd.concat((frame, more)))
    explanations = []
    for book, rows in ((one, frame), (two, frame), (two, frame.iloc[::-1])):
        found = ms.exact_shapley(lambda x, mask: mask[..., :1] * 1.0, book.rows(rows))
        explanations.append(replace(found, players=book.players, schema=book))
    assert (explanations[0].x != explanations[1].x).any()
    assert ms.averaged(explanations[:2]).made_by["averaged"] == 2
    with pytest.raises(ValueError, match="the same rows but their `x` differ"):
        ms.averaged(explanations[::2])


def test_errors() -> None:
    one = noisy(5, torch.ones(4), 0)
    for others, said in (
        ([], "two or more explanations but got 1"),
        ([one[:3]], "the same instances"),
        ([noisy(5, torch.ones(3), 0)], "the same players"),
        ([replace(one, outputs=("b",))], "the same outputs"),
        ([replace(one, space=ms.spaces.Probability())], "the same output space"),
        ([replace(one, x=one.x + 1)], "the same rows but their `x` differ"),
    ):
        with pytest.raises(ValueError, match=said):
            ms.averaged([one, *others])
    unknown = replace(one, standard_error=one.phi * torch.nan)
    with pytest.raises(ValueError, match="with standard errors but those of this one are all"):
        unknown.interval()
    for level in (0.0, 1.0, -1.0, 95.0, float("nan")):
        with pytest.raises(ValueError, match="level"):
            one.interval(level)
