"""Products of distributions: likelihoods of coalitions as matrix products, and their draws."""

import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Normal

import manifold_shap as ms
from manifold_shap.vae.families import bin_edges, choose_families
from manifold_shap.vae.likelihood import Likelihood

SCHEMA = ms.Schema(
    (
        ms.Column("age", "continuous", mean=40.0, scale=10.0),
        ms.Column("smokes", "binary", ("no", "yes")),
        ms.Column("colour", "categorical", ("red", "green", "blue")),
        ms.Column("income", "continuous"),
    )
)


def table(rows: int = 200, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    age = torch.randn(rows, 1, generator=generator) * 3 + 5
    smokes = (torch.rand(rows, 1, generator=generator) < 0.3).float()
    colour = torch.eye(3)[torch.randint(3, (rows,), generator=generator)]
    # Half of the incomes are exactly 0, as capital gains are.
    income = torch.rand(rows, 1, generator=generator) * (age > 5)
    return torch.cat((age, smokes, colour, income), dim=1)


def make(continuous: str = "normal") -> Likelihood:
    likelihood = Likelihood(choose_families(table(), SCHEMA, continuous, bins=8))
    likelihood.describe(table())
    return likelihood


def raw(likelihood: Likelihood, rows: int = 5) -> Tensor:
    shape = (rows, len(likelihood.parameter_of))
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


def test_log_probability_is_that_of_the_distributions_of_torch() -> None:
    likelihood, x = make(), table(5)
    numbers = raw(likelihood)
    binary, colour, mean, rough = numbers.split([1, 3, 2, 2], dim=1)
    normal = next(family for family in likelihood.families if hasattr(family, "least"))
    scale = (normal.least + torch.nn.functional.softplus(rough - normal.least)).exp()
    standardised = (x[:, [0, 5]] - normal.center) / normal.scale
    expected = (
        Normal(mean, scale).log_prob(standardised).sum(1)
        + Bernoulli(logits=binary[:, 0]).log_prob(x[:, 1])
        + Categorical(logits=colour).log_prob(x[:, 2:5].argmax(1))
    )
    product = likelihood(numbers)
    torch.testing.assert_close(product.log_prob(likelihood.statistics(x)), expected)


@pytest.mark.parametrize("continuous", ["normal", "quantile"])
def test_statistics_set_to_zero_leave_an_element_out(continuous: str) -> None:
    likelihood, x = make(continuous), table(5)
    product, statistics = likelihood(raw(likelihood)), likelihood.statistics(x)
    by_element = [
        product.log_prob(statistics * (likelihood.statistic_of == element)) for element in range(6)
    ]
    torch.testing.assert_close(sum(by_element), product.log_prob(statistics))
    changed = x.clone()
    changed[:, 5] = 0.123
    without = statistics * (likelihood.statistic_of != 5)
    other = likelihood.statistics(changed) * (likelihood.statistic_of != 5)
    assert torch.equal(without, other)


@pytest.mark.parametrize("continuous", ["normal", "quantile"])
def test_draws_have_the_mean_of_the_distribution(continuous: str) -> None:
    likelihood = make(continuous)
    product = likelihood(raw(likelihood, 1).expand(20_000, -1))
    u = torch.rand(20_000, 6, generator=torch.Generator().manual_seed(2))
    drawn = product.quantile(u)
    error = drawn.std(0) / 20_000**0.5
    assert ((drawn.mean(0) - product.mean[0]).abs() < 4 * error + 1e-6).all()
    assert set(drawn[:, 1].unique().tolist()) == {0.0, 1.0}
    assert torch.equal(drawn[:, 2:5].sum(1), torch.ones(20_000))


@pytest.mark.parametrize("continuous", ["normal", "quantile"])
def test_draws_that_share_distributions_are_those_of_their_own(continuous: str) -> None:
    likelihood = make(continuous)
    parameters, place = raw(likelihood, 7), torch.tensor([[6, 0, 0], [3, 6, 1]])
    u = torch.rand(2, 3, 6, generator=torch.Generator().manual_seed(2))
    own = likelihood(parameters[place]).quantile(u)
    assert torch.equal(likelihood(parameters).quantile(u, place), own)


def test_quantile_draws_are_values_that_were_observed() -> None:
    likelihood = make("quantile")
    u = torch.rand(500, 6, generator=torch.Generator().manual_seed(2))
    drawn = likelihood(raw(likelihood, 500)).quantile(u)
    for element in (0, 5):
        assert torch.isin(drawn[:, element], table()[:, element]).all()
    assert (drawn[:, 5] == 0).float().mean() > 0.05


def test_frequent_values_have_a_bin_of_their_own() -> None:
    column = torch.cat((torch.zeros(50), torch.linspace(1, 2, 50)))
    edges = bin_edges(column, 8)
    own = torch.searchsorted(edges, column, right=True)
    assert (own[:50] == 0).all()
    assert (own[50:] > 0).all()
    sizes = torch.bincount(own)[1:]
    assert sizes.max() <= 13


def test_few_distinct_values_are_categories() -> None:
    assert bin_edges(torch.tensor([3.0, 1, 1, 2, 3, 1]), 8).tolist() == [2, 3]
    assert bin_edges(torch.ones(10), 8).tolist() == []


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from(["normal", "quantile"]))
def test_draws_grow_with_the_uniform_number(seed: int, continuous: str) -> None:
    likelihood = make(continuous)
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randn(1, len(likelihood.parameter_of), generator=generator)
    u = torch.rand(50, 1, generator=generator).sort(0).values.expand(-1, 6)
    drawn = likelihood(numbers.expand(50, -1)).quantile(u.clamp(1e-6, 1 - 1e-6))
    ordered = drawn[:, [0, 5]]
    # Inside a bin the kept values are sorted, and so are the bins.
    assert (ordered.diff(dim=0) >= -1e-4).all()


def test_families_follow_the_schema_or_the_values() -> None:
    names = [family[0] for family in choose_families(table(), SCHEMA, "quantile")]
    assert names == ["Bernoulli", "Categorical", "Quantile", "Quantile"]
    # Half of the incomes are zero, and no two ages are the same.
    chosen = [(name, elements) for name, elements, *_ in choose_families(table(), SCHEMA)]
    assert chosen[2:] == [("Quantile", [5]), ("Normal", [0])]
    names = [family[0] for family in choose_families(table(), continuous="normal")]
    assert names == ["Bernoulli", "Normal"]
    images = torch.rand(10, 1, 2, 2)
    images[:, 0, 0, 0] = 0.5  # A peak; but pixels share a unit.
    assert choose_families(images) == [["Normal", [0, 1, 2, 3], 0.05, True]]
    assert choose_families((images > 0.5).float()) == [["Bernoulli", [0, 1, 2, 3]]]


def test_a_player_of_one_hot_elements_is_a_category() -> None:
    chosen = choose_families(table(), continuous="normal", index=[0, 1, 2, 2, 2, 3])
    assert [(name, elements) for name, elements, *_ in chosen] == [
        ("Bernoulli", [1]),
        ("Categorical", [2, 3, 4]),
        ("Normal", [0, 5]),
    ]
    # Superpixels of black and white are none: their pixels are not one 1 among 0s.
    images = (torch.rand(20, 4) > 0.5).float()
    assert choose_families(images, index=[0, 0, 1, 1]) == [["Bernoulli", [0, 1, 2, 3]]]


def test_a_schema_of_another_width() -> None:
    with pytest.raises(ValueError, match="Expected rows of 6 elements, as `schema` encodes them"):
        choose_families(table()[:, :4], SCHEMA)


def test_an_unknown_kind_of_continuous_distribution() -> None:
    with pytest.raises(ValueError, match=r"Expected `continuous` to be one of .* got 'cauchy'"):
        choose_families(table(), SCHEMA, "cauchy")


def test_a_constant_column_has_no_spread() -> None:
    frame = pd.DataFrame({"a": [1.0, 2, 3, 4], "b": [7.0] * 4})
    schema = ms.Schema.fit(frame)
    x = schema.encode(frame)
    for continuous in ("normal", "quantile"):
        likelihood = Likelihood(choose_families(x, schema, continuous))
        likelihood.describe(x)
        product = likelihood(torch.zeros(4, len(likelihood.parameter_of)))
        assert product.log_prob(likelihood.statistics(x)).isfinite().all()
        assert product.quantile(torch.full((4, 2), 0.5)).isfinite().all()
