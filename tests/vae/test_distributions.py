"""Continuous elements that may be missing: likelihood, draws and means by hand."""

import pytest
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Normal

import manifold_shap as ms
from manifold_shap.vae.distributions import MaybeMissing
from manifold_shap.vae.families import choose_families
from manifold_shap.vae.likelihood import Likelihood

SCHEMA = ms.Schema(
    (
        ms.Column("income", "continuous", missing=True),
        ms.Column("smokes", "binary", ("no", "yes")),
        ms.Column("age", "continuous"),
    )
)
KINDS = pytest.mark.parametrize("continuous", ["normal", "quantile"])


def table(rows: int = 300, seed: int = 0) -> Tensor:
    """Income, whether it is missing (a third), smokes, age."""
    generator = torch.Generator().manual_seed(seed)
    missing = (torch.rand(rows, generator=generator) < 1 / 3).float()
    income = (torch.randn(rows, generator=generator) * 2 + 5) * (1 - missing)
    smokes = (torch.rand(rows, generator=generator) < 0.5).float()
    return torch.stack((income, missing, smokes, torch.randn(rows, generator=generator)), 1)


def make(continuous: str) -> Likelihood:
    likelihood = Likelihood(choose_families(table(), SCHEMA, continuous, bins=6))
    likelihood.describe(table())
    return likelihood


def family(likelihood: Likelihood) -> MaybeMissing:
    return next(each for each in likelihood.families if isinstance(each, MaybeMissing))


def raw(likelihood: Likelihood, rows: int = 1, seed: int = 1) -> Tensor:
    shape = (rows, len(likelihood.parameter_of))
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_log_probability_is_that_of_the_indicator_and_of_a_value_that_is_there() -> None:
    own, x = family(make("normal")), table(40)
    numbers = torch.randn(40, len(own.parameter_of), generator=torch.Generator().manual_seed(1))
    mean, rough, logit = numbers.unbind(1)
    value = own.value
    scale = (value.least + torch.nn.functional.softplus(rough - value.least)).exp()
    density = Normal(mean, scale).log_prob((x[:, 0] - value.center) / value.scale)
    there = x[:, 1] == 0
    assert 5 < int(there.sum()) < 35
    expected = Bernoulli(logits=logit).log_prob(x[:, 1]) + torch.where(there, density, 0)
    found = (own.statistics(x) * own.coefficients(numbers)).sum(1)
    torch.testing.assert_close(found, expected)


def test_units_are_those_of_the_values_that_are_there() -> None:
    x = table()
    there = x[x[:, 1] == 0, 0]
    for continuous in ("normal", "quantile"):
        value = family(make(continuous)).value
        torch.testing.assert_close(value.center, there.mean()[None])
        torch.testing.assert_close(value.scale, there.std(correction=0)[None])


@KINDS
def test_a_missing_value_itself_is_never_read(continuous: str) -> None:
    likelihood, x = make(continuous), table(40)
    other = torch.where((x[:, 1:2] == 1) & (torch.arange(4) == 0), 3.5, x)
    assert not torch.equal(other, x)
    assert torch.equal(likelihood.statistics(other), likelihood.statistics(x))
    assert torch.equal(likelihood.features(other), likelihood.features(x))


@KINDS
def test_draws_have_the_shares_of_the_indicator_and_of_the_values(continuous: str) -> None:
    likelihood, rows = make(continuous), 20_000
    product = likelihood(raw(likelihood).expand(rows, -1))
    drawn = product.quantile(torch.rand(rows, 4, generator=torch.Generator().manual_seed(2)))
    missing = drawn[:, 1] == 1
    assert set(drawn[:, 1].tolist()) == {0.0, 1.0}
    assert (drawn[missing, 0] == 0).all()
    error = drawn.std(0) / rows**0.5
    assert ((drawn.mean(0) - product.mean[0]).abs() < 4 * error).all()
    if continuous == "quantile":
        observed = table()
        assert torch.isin(drawn[~missing, 0], observed[observed[:, 1] == 0, 0]).all()


@KINDS
def test_whether_a_value_is_missing_and_what_it_is_are_drawn_apart(continuous: str) -> None:
    likelihood = make(continuous)
    numbers = raw(likelihood).expand(50, -1)
    generator = torch.Generator().manual_seed(3)
    u = torch.rand(50, 4, generator=generator)
    u[:, 1] = 0.999999  # Nothing is missing.
    values = likelihood(numbers).quantile(u)[:, 0]
    assert (values[u[:, 0].argsort()].diff() >= -1e-4).all()
    u[:, 0] = 0.5
    share = likelihood(numbers).quantile(u.index_fill(1, torch.tensor([1]), 1e-6))
    assert (share[:, 1] == 1).all()
    assert (share[:, 0] == 0).all()


def test_families_of_columns_with_missing_cells() -> None:
    x = table()
    x[:100, 0], x[:100, 1] = 7.0, 0.0  # A peak.
    chosen = choose_families(x, SCHEMA)
    assert [each[0] for each in chosen] == ["Bernoulli", "MaybeMissing", "Normal"]
    assert [chosen[0][1], chosen[1][2], chosen[2][1]] == [[2], 1, [3]]
    assert chosen[1][1][:2] == ["Quantile", [0]]
    smooth = choose_families(table(), SCHEMA)
    assert smooth[1] == ["MaybeMissing", ["Normal", [0], 0.05], 1]
    gone = table()
    gone[:, 0], gone[:, 1] = 0.0, 1.0
    likelihood = Likelihood(choose_families(gone, SCHEMA, "quantile"))
    likelihood.describe(gone)
    product = likelihood(raw(likelihood, 300))
    assert product.log_prob(likelihood.statistics(gone)).isfinite().all()
    assert product.quantile(torch.full((300, 4), 0.3)).isfinite().all()
