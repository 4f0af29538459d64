"""The error of learning: laws, contracts and errors."""

from dataclasses import replace

import pandas as pd
import pytest
import torch
from torch import Tensor

import manifold_shap as ms


def explained(phi: Tensor, error: float = 0.0) -> ms.Explanation:
    """Of additive games, whose values are their parts."""
    found = ms.exact_shapley(lambda x, mask: (x[:, None] * mask).sum(-1, keepdim=True), phi)
    # Explanations of the same rows, whose values differ.
    same = torch.zeros_like(found.x)
    return replace(found, x=same, standard_error=torch.full_like(found.phi, error))


def of_halves(count: int, bias: float) -> ms.Explanation:
    """Of 20,000 rows, means of 32 numbers, by players of three sizes; a bias is divided by 32."""
    sizes = torch.tensor([1.0, 2.0, 4.0])
    generator = torch.Generator().manual_seed(0)
    numbers = sizes * torch.randn(32, 20_000, 3, generator=generator)
    halves = []
    for _ in range(count // 2):
        order = torch.randperm(32, generator=generator)
        halves += [numbers[part].mean(0) + bias / 16 for part in order.chunk(2)]
    whole = explained(numbers.mean(0) + bias / 32)
    return ms.with_learning_error(whole, [explained(half) for half in halves])


@pytest.mark.parametrize("count", [2, 8])
@pytest.mark.parametrize("bias", [0.0, 16.0])
def test_model_errors_are_those_of_all_rows(count: int, bias: float) -> None:
    """Half of the variance is that of the player, half the mean of the row's."""
    whole = of_halves(count, bias)
    assert whole.model_error is not None
    variance = whole.phi.square().mean(0)
    pooled = (variance + variance.mean()) / 2
    torch.testing.assert_close(whole.model_error.square().mean(0), pooled, rtol=0.05, atol=0)
    assert whole.made_by["halves"] == count


@pytest.mark.parametrize(
    ("level", "count", "players"),
    [(0.5, 8, 8), (0.95, 8, 8), (0.95, 4, 8), (0.95, 8, 3), (0.95, 16, 3)],
)
def test_intervals_hold_errors_of_learning(level: float, count: int, players: int) -> None:
    """As often as they should, where players are alike."""
    generator = torch.Generator().manual_seed(0)
    numbers = torch.randn(200, 1000, players, generator=generator)
    halves = [
        explained(numbers[part].mean(0))
        for _ in range(count // 2)
        for part in torch.randperm(200, generator=generator).chunk(2)
    ]
    whole = ms.with_learning_error(explained(numbers.mean(0)), halves)
    low, high = whole.interval(level)
    assert ((low <= 0) & (high >= 0)).double().mean() == pytest.approx(level, abs=0.015)


def test_sampling_is_no_error_of_learning() -> None:
    """What sampling alone would scatter is taken off."""
    generator = torch.Generator().manual_seed(0)
    exact = torch.randn(2000, 3, generator=generator)
    whole, *halves = [
        explained(exact + 0.1 * torch.randn(exact.shape, generator=generator), 0.1)
        for _ in range(9)
    ]
    found = ms.with_learning_error(whole, halves)
    assert found.model_error is not None
    # Variances below zero are cut off: of the two that are taken off, a quarter is left.
    assert found.model_error.square().mean() < 2 * 0.1**2 / 4
    assert torch.equal(found.standard_error, whole.standard_error)


def test_intervals_hold_both_errors() -> None:
    generator = torch.Generator().manual_seed(0)
    each = [explained(4 * torch.randn(5, 4, generator=generator), 0.5) for _ in range(3)]
    whole = ms.with_learning_error(each[0], each[1:])
    widths = [high - low for low, high in (whole.interval(0.5), whole.interval(0.95))]
    assert (widths[0] < widths[1]).all()
    low, high = each[0].interval(0.95)
    assert (high - low < widths[1]).all()


@pytest.mark.parametrize("permutations", [2, 4])
def test_a_seed_that_occurs_twice_is_refused(permutations: int) -> None:
    """Of one value function with one seed, nothing would scatter; errors of two orders are NaN."""
    x = torch.randn(200, 7, generator=torch.Generator().manual_seed(0)).cumsum(1)

    def of(rows: Tensor, seed: int) -> ms.Explanation:
        imputer = ms.imputers.GaussianImputer(rows)
        value = ms.imputed_value(lambda x: x[:, :1] * x[:, 1:2], imputer, "identity")
        return ms.permutation_shapley(value, x[:3], permutations=permutations, seed=seed)

    whole, *halves = of(x, 0), of(x[::2], 1), of(x[1::2], 2)
    found = ms.with_learning_error(whole, halves).model_error
    assert found is not None
    assert (found > 0).any()
    for twice in ([halves[0], of(x[1::2], 1)], [of(x[::2], 0), halves[1]]):
        with pytest.raises(ValueError, match="another `seed`"):
            ms.with_learning_error(whole, twice)


def test_rows_of_tables_are_compared_in_their_own_units() -> None:
    """Two codebooks number the same cells in another way."""
    frame = pd.DataFrame(
        {"city": ["Rome", "Oslo", "Lima", "Rome"], "age": [30.0, 40.0, 50.0, 60.0]}
    )
    more = pd.DataFrame({"city": ["Bern"], "age": [35.0]})
    one, two = ms.Table.fit(frame), ms.Table.fit(pd.concat((frame, more)))
    explanations = []
    for book, rows in ((one, frame), (two, frame), (two, frame.iloc[::-1])):
        found = ms.exact_shapley(lambda x, mask: mask[..., :1] * 1.0, book.rows(rows))
        explanations.append(replace(found, players=book.players, x=book.frame(book.rows(rows))))
    one, same, other = explanations
    same_error = ms.with_learning_error(one, [same, same]).model_error
    assert same_error is not None
    assert same_error.abs().max() == 0
    with pytest.raises(ValueError, match="the same rows"):
        ms.with_learning_error(one, [same, other])


def test_halves_of_something_else_are_refused() -> None:
    one = explained(torch.ones(5, 4))
    for other, said in (
        (one[:3], r"but instances differ, here and in a half: \[\(3, None\), \(4, None\)\]"),
        (explained(torch.ones(5, 3)), "but players differ"),
        (replace(one, outputs=("yes",)), r"but outputs differ.*'yes'"),
        (replace(one, x=one.x + 1), "the same rows"),
    ):
        with pytest.raises(ValueError, match=said):
            ms.with_learning_error(one, [one, other])
