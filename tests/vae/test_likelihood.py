"""Products of distributions: likelihoods of coalitions as matrix products, and their draws."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Normal
from torch.nn.functional import softplus

from manifold_shap.vae import likelihood as families
from manifold_shap.vae.families import bin_edges, choose_families
from manifold_shap.vae.likelihood import Likelihood

AGE, SMOKES, COLOUR, GAINS, INCOME, MISSING = 0, 1, slice(2, 5), 5, 6, 7
OWNERS = [0, 1, 2, 2, 2, 3, 4, 4]
both = pytest.mark.parametrize("continuous", ["normal", "quantile"])


def table(rows: int = 300, seed: int = 0) -> Tensor:
    """Half of the gains are exactly 0, and a third of the incomes are missing."""
    generator = torch.Generator().manual_seed(seed)
    age = torch.randn(rows, 1, generator=generator) * 3 + 5
    smokes = (torch.rand(rows, 1, generator=generator) < 0.3).float()
    colour = torch.eye(3)[torch.randint(3, (rows,), generator=generator)]
    gains = torch.rand(rows, 1, generator=generator) * (age > 5)
    missing = (torch.rand(rows, 1, generator=generator) < 1 / 3).float()
    income = (torch.randn(rows, 1, generator=generator) * 2 + 5) * (1 - missing)
    return torch.cat((age, smokes, colour, gains, income, missing), dim=1)


def make(continuous: str = "normal") -> Likelihood:
    likelihood = Likelihood(choose_families(table(), OWNERS, continuous, bins=8))
    likelihood.describe(table())
    return likelihood


def raw(likelihood: Likelihood, rows: int = 5) -> Tensor:
    shape = (rows, len(likelihood.parameter_of))
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


def uniform(rows: int) -> Tensor:
    return torch.rand(rows, 8, generator=torch.Generator().manual_seed(2))


def density(family: families.Normal, x: Tensor, mean: Tensor, rough: Tensor) -> Tensor:
    scale = (family.least + softplus(rough - family.least)).exp()
    return Normal(mean, scale).log_prob(family.features(x))


def test_log_probability_is_that_of_the_distributions_of_torch() -> None:
    likelihood, x = make(), table(40)
    numbers = raw(likelihood, 40)
    binary, colour, income, rough, gone, mean, roughs = numbers.split([1, 3, 1, 1, 1, 2, 2], dim=1)
    *_, maybe, normal = likelihood.families
    value = density(maybe.value, x, income, rough)[:, 0]
    expected = (
        density(normal, x, mean, roughs).sum(1)
        + Bernoulli(logits=binary[:, 0]).log_prob(x[:, SMOKES])
        + Categorical(logits=colour).log_prob(x[:, COLOUR].argmax(1))
        + Bernoulli(logits=gone[:, 0]).log_prob(x[:, MISSING])
        + torch.where(x[:, MISSING] == 0, value, 0)
    )
    found = likelihood(numbers).log_prob(likelihood.statistics(x))
    torch.testing.assert_close(found, expected)


@both
def test_statistics_set_to_zero_leave_an_element_out(continuous: str) -> None:
    likelihood, x = make(continuous), table(5)
    product, statistics = likelihood(raw(likelihood)), likelihood.statistics(x)
    by_element = [
        product.log_prob(statistics * (likelihood.statistic_of == element)) for element in range(8)
    ]
    torch.testing.assert_close(sum(by_element), product.log_prob(statistics))
    changed = x.clone()
    changed[:, GAINS] = 0.123
    others = likelihood.statistic_of != GAINS
    assert torch.equal(statistics * others, likelihood.statistics(changed) * others)


@both
def test_a_missing_value_itself_is_never_read(continuous: str) -> None:
    likelihood, x = make(continuous), table(40)
    other = x.clone()
    other[x[:, MISSING] == 1, INCOME] = 3.5
    assert not torch.equal(other, x)
    assert torch.equal(likelihood.statistics(other), likelihood.statistics(x))
    assert torch.equal(likelihood.features(other), likelihood.features(x))
    # Nor is it a part of units.
    likelihood.describe(x)
    before = likelihood.features(x)
    likelihood.describe(other)
    assert torch.equal(likelihood.features(x), before)


@both
def test_draws_have_the_mean_of_the_distribution(continuous: str) -> None:
    likelihood, rows = make(continuous), 20_000
    product = likelihood(raw(likelihood, 1).expand(rows, -1))
    drawn = product.quantile(uniform(rows))
    error = drawn.std(0) / rows**0.5
    assert ((drawn.mean(0) - product.mean[0]).abs() < 4 * error + 1e-6).all()
    for element in (SMOKES, MISSING):
        assert set(drawn[:, element].unique().tolist()) == {0.0, 1.0}
    assert torch.equal(drawn[:, COLOUR].sum(1), torch.ones(rows))
    missing = drawn[:, MISSING] == 1
    assert (drawn[missing, INCOME] == 0).all()
    if continuous == "quantile":  # Draws are values that were observed.
        for element in (AGE, GAINS):
            assert torch.isin(drawn[:, element], table()[:, element]).all()
        there = table()[:, MISSING] == 0
        assert torch.isin(drawn[~missing, INCOME], table()[there, INCOME]).all()
        assert (drawn[:, GAINS] == 0).float().mean() > 0.05


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from(["normal", "quantile"]))
def test_draws_grow_with_the_uniform_number(seed: int, continuous: str) -> None:
    likelihood = make(continuous)
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randn(1, len(likelihood.parameter_of), generator=generator)
    u = torch.rand(50, 1, generator=generator).sort(0).values.expand(-1, 8).clone()
    u[:, MISSING] = 0.999999  # Nothing is missing: that is drawn apart.
    drawn = likelihood(numbers.expand(50, -1)).quantile(u.clamp(1e-6, 1 - 1e-6))
    # Inside a bin the kept values are sorted, and so are the bins.
    assert (drawn[:, [AGE, GAINS, INCOME]].diff(dim=0) >= -1e-4).all()


def test_bins_are_quantiles_and_frequent_values() -> None:
    column = torch.cat((torch.zeros(50), torch.linspace(1, 2, 50)))
    own = torch.searchsorted(bin_edges(column, 8), column, right=True)
    assert (own[:50] == 0).all()
    assert (own[50:] > 0).all()
    assert torch.bincount(own)[1:].max() <= 13
    assert bin_edges(torch.tensor([3.0, 1, 1, 2, 3, 1]), 8).tolist() == [2, 3]
    assert bin_edges(torch.ones(10), 8).tolist() == []


def chosen(x: Tensor, *given: object, **named: object) -> list[tuple[object, ...]]:
    """Names of families and their elements."""
    return [(name, own) for name, own, *_ in choose_families(x, *given, **named)]  # type: ignore[arg-type]


def test_families_follow_the_values() -> None:
    # Half of the gains are zero, and no two ages are the same.
    assert chosen(table(), OWNERS) == [
        ("Bernoulli", [SMOKES]),
        ("Categorical", [2, 3, 4]),
        ("Quantile", [GAINS]),
        ("MaybeMissing", ["Scores", [INCOME], 0.05]),
        ("Scores", [AGE]),
    ]
    x = table()[:, :GAINS]
    assert chosen(x, continuous="normal") == [("Bernoulli", [1, 2, 3, 4]), ("Scores", [0])]
    # A player of one-hot elements is a category.
    found = chosen(x, continuous="normal", index=[0, 1, 2, 2, 2])
    assert found == [("Bernoulli", [1]), ("Categorical", [2, 3, 4]), ("Scores", [0])]
    images = torch.rand(10, 1, 2, 2)
    images[:, 0, 0, 0] = 0.5  # A peak; but pixels share a unit.
    assert choose_families(images) == [["Normal", [0, 1, 2, 3], 0.05]]
    # Superpixels of black and white are no categories: their pixels are not one 1 among 0s.
    black = (torch.rand(20, 4) > 0.5).float()
    assert choose_families(black, index=[0, 0, 1, 1]) == [["Bernoulli", [0, 1, 2, 3]]]


def test_neither_tails_nor_outliers_decide_the_unit_of_a_column() -> None:
    normal = torch.randn(2000, 1, generator=torch.Generator().manual_seed(0))
    outlier = normal.clone()
    outlier[7] = 1e9
    x = torch.cat((normal, normal.mul(3).exp(), outlier, (5 * normal).round()), dim=1)
    scores = families.Scores(range(4))
    scores.describe(x)
    own = scores.features(x)
    kept = (normal[:, 0].abs() < 2) & (normal[:, 0] != normal[7])
    # Scores are normal numbers, whatever the column.
    torch.testing.assert_close(own.std(0), torch.ones(4), rtol=0.03, atol=0)
    torch.testing.assert_close(own[kept, :3], normal[kept].expand(-1, 3), rtol=0, atol=0.15)
    torch.testing.assert_close(scores.values(own)[kept], x[kept], rtol=1e-3, atol=1e-3)
    far = torch.tensor([[-1e9], [1e30]]).expand(-1, 4)
    torch.testing.assert_close(scores.values(scores.features(far)), torch.stack(x.aminmax(dim=0)))


@both
def test_columns_without_spread_or_without_a_cell(continuous: str) -> None:
    gone = table()
    gone[:, INCOME], gone[:, MISSING] = 0.0, 1.0
    constant = torch.tensor([[1.0, 7], [2, 7], [3, 7], [4, 7]])
    for owners, x in (([0, 1], constant), (OWNERS, gone)):
        likelihood = Likelihood(choose_families(x, owners, continuous))
        likelihood.describe(x)
        product = likelihood(torch.zeros(len(x), len(likelihood.parameter_of)))
        assert product.log_prob(likelihood.statistics(x)).isfinite().all()
        assert product.quantile(torch.full(x.shape, 0.5)).isfinite().all()
