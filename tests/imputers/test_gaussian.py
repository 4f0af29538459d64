"""Gaussian and copula imputers against analytic conditionals, in any units."""

import itertools
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import manifold_shap as ms
from manifold_shap.coalitions import Listed, all_coalitions
from manifold_shap.imputers.gaussian import CopulaImputer, GaussianImputer

MEAN = torch.tensor([1.0, -2.0, 0.5, 0.0], dtype=torch.float64)
COVARIANCE = torch.tensor(
    [[1.0, 0.7, 0.2, -0.4], [0.7, 1.5, 0.5, 0.1], [0.2, 0.5, 0.8, 0.3], [-0.4, 0.1, 0.3, 1.2]],
    dtype=torch.float64,
)
MASKS = all_coalitions(4)

every_imputer = pytest.mark.parametrize("make", [GaussianImputer, CopulaImputer])
Make = Callable[..., ms.imputers.Imputer]


def rows(count: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    standard = torch.randn(count, 4, generator=generator, dtype=torch.float64)
    return (MEAN + standard @ torch.linalg.cholesky(COVARIANCE).T).float()


def complete(imputer: ms.imputers.Imputer, x: Tensor, draws: range, key: int = 0) -> Tensor:
    mask = all_coalitions(len(imputer.players)).expand(len(x), -1, -1)
    return imputer.impute(x, Listed(mask, torch.full(mask.shape[:2], key)), draws).rows


def expectations(x: Tensor, mean: np.ndarray, covariance: np.ndarray, function: Callable) -> Tensor:
    """A function of mean [4] and covariance [4, 4] of the whole row, given each x_S."""
    values = []
    for row, mask in itertools.product(x.double().numpy(), MASKS.numpy()):
        given, absent = np.flatnonzero(mask), np.flatnonzero(~mask)
        location, spread = row.copy(), np.zeros((4, 4))
        cross = covariance[np.ix_(absent, given)]
        slope = cross @ np.linalg.inv(covariance[np.ix_(given, given)])
        location[absent] = mean[absent] + slope @ (row[given] - mean[given])
        spread[np.ix_(absent, absent)] = covariance[np.ix_(absent, absent)] - slope @ cross.T
        values.append(function(location, spread))
    return torch.tensor(np.array(values)).reshape(len(x), len(MASKS), -1)


WEIGHT = np.array([0.5, -0.3, 0.4, 0.2])
QUADRATIC = np.outer(WEIGHT, WEIGHT[::-1]) + np.diag([1.0, -0.5, 0.3, 0.7])


def model(x: Tensor) -> Tensor:
    """An exponential and a quadratic function, whose means are known under any normal law."""
    quadratic = torch.einsum("bi,ij,bj->b", x, torch.tensor(QUADRATIC).float(), x)
    return torch.stack(((x @ torch.tensor(WEIGHT).float()).exp(), quadratic), 1)


def test_values_are_the_analytic_conditional_expectations() -> None:
    reference, x = rows(500), rows(3, seed=1)
    value = ms.imputed_value(model, GaussianImputer(reference), "identity", draws=20_000)
    data = reference.double().numpy()
    truth = expectations(
        x,
        data.mean(0),
        np.cov(data.T),
        lambda m, c: (
            np.exp(WEIGHT @ m + WEIGHT @ c @ WEIGHT / 2),
            m @ QUADRATIC @ m + np.trace(QUADRATIC @ c),
        ),
    )
    estimate = value.estimate(x, MASKS.expand(3, -1, -1))
    errors = ((estimate.values - truth).abs() / (estimate.variance.sqrt() + 1e-6))[:, 1:-1]
    assert errors.max() < 5
    # Not small because the standard errors are large: they are those of so many draws.
    assert 0.3 < errors.square().mean().sqrt() < 2


def test_copula_is_right_for_monotone_functions_of_normal_columns() -> None:
    def transformed(z: Tensor) -> Tensor:
        return torch.stack((z[:, 0].exp(), z[:, 1] ** 3, -z[:, 2], z[:, 3].sigmoid()), dim=1)

    reference, z = rows(20_000), rows(4, seed=1)
    imputer, x = CopulaImputer(transformed(reference)), transformed(z)

    def expectation(location: np.ndarray, spread: np.ndarray) -> list[float]:
        # E[exp Z_0], E[Z_1³] and E[-Z_2] of normal variables.
        (a, b, c), (p, q) = location[:3], np.diag(spread)[:2]
        return [np.exp(a + p / 2), b**3 + 3 * b * q, -c]

    truth = expectations(z, MEAN.numpy(), COVARIANCE.numpy(), expectation)
    value = ms.imputed_value(lambda x: x[:, :3], imputer, "identity", draws=4000)
    values = value(x, MASKS.expand(4, -1, -1)).double()
    error = (values - truth)[:, 1:-1].flatten(0, 1).square().mean(0).sqrt()
    assert (error < 0.06 * truth.flatten(0, 1).std(0)).all()
    # The normal conditionals of these columns are far from it.
    normal = ms.imputed_value(lambda x: x[:, :3], GaussianImputer(imputer.reference), "identity")
    wrong = (normal(x, MASKS.expand(4, -1, -1)) - truth)[:, 1:-1].flatten(0, 1)
    assert wrong.square().mean(0).sqrt()[1] > 3 * error[1]


def test_copula_draws_have_the_marginal_distributions_of_the_reference() -> None:
    z = rows(4000)
    skewed = torch.stack((z[:, 0].exp(), (z[:, 1] > -1).float(), z[:, 2].round()), dim=1)
    drawn = complete(CopulaImputer(skewed), skewed[:1], range(20_000))[0, 0]
    levels = torch.linspace(0.05, 0.95, 9)
    torch.testing.assert_close(
        drawn[:, 0].quantile(levels), skewed[:, 0].quantile(levels), rtol=0.08, atol=0
    )
    for column in (1, 2):
        values, counts = skewed[:, column].unique(return_counts=True)
        # Each value that was observed is as frequent, and there is no other.
        shares = (drawn[:, column, None] == values).float().mean(0)
        torch.testing.assert_close(shares, counts / 4000, rtol=0, atol=0.02)
        assert shares.sum() == pytest.approx(1)


@every_imputer
def test_a_constant_column_stays_constant(make: Make) -> None:
    reference, x = rows(50), rows(2, seed=1)
    reference[:, 2] = 0.1
    drawn = complete(make(reference), x, range(5))
    assert (drawn[:, ~MASKS[:, 2]][..., 2] == torch.tensor(0.1)).all()
    # Its value is no news of the others.
    alone, nobody = 4, 0
    torch.testing.assert_close(drawn[:, alone][..., [0, 1, 3]], drawn[:, nobody][..., [0, 1, 3]])


@every_imputer
def test_collinear_columns_are_regularised_and_said_once(make: Make) -> None:
    reference = rows(50)
    reference[:, 3] = 2 * reference[:, 0] - 1
    with pytest.warns(
        UserWarning, match=r"eigenvalue .*collinear.* ridge of 1\.0e-06 of ev"
    ) as seen:
        imputer = make(reference)
    assert len(seen) == 1
    assert imputer.provenance == {"ridge": 1e-6}
    x = reference[:3]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = complete(imputer, x, range(50))
    given = drawn[:, MASKS[:, 0] & ~MASKS[:, 3]]
    # A ridge of 1e-6 leaves a standard deviation of 1.4e-3 of the column's; F_j has 50 steps.
    tolerance = 0.02 if make is GaussianImputer else 0.2
    assert (given[..., 3] - x[:, None, None, 3]).abs().max() < tolerance


@settings(max_examples=15, deadline=None)
@given(
    scale=st.lists(st.floats(1e-3, 1e3), min_size=4, max_size=4),
    shift=st.lists(st.floats(-10, 10), min_size=4, max_size=4),
)
@every_imputer
def test_draws_scale_and_shift_with_the_columns(
    make: Make, scale: list[float], shift: list[float]
) -> None:
    factor, offset = torch.tensor(scale), torch.tensor(shift) * torch.tensor(scale)
    reference, x = rows(40), rows(2, seed=1)
    drawn = complete(make(reference), x, range(3))
    moved = complete(make(reference * factor + offset), x * factor + offset, range(3))
    torch.testing.assert_close((moved - offset) / factor, drawn, rtol=0, atol=1e-3)
