"""Causal draws against interventions on linear-Gaussian models, whose answers are known."""

import itertools
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.coalitions import Listed, all_coalitions
from manifold_shap.imputers.causal import CausalImputer

Names = Sequence[Sequence[str]]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class Normal(ms.oracles.OracleImputer):
    """p(x'|x_S) of N(0, Σ), with Σ given."""

    def __init__(self, covariance: Tensor) -> None:
        mean = torch.zeros(1, len(covariance))
        super().__init__(ms.oracles.GaussianMixture([1.0], mean, covariance[None]))
        self.covariance = covariance.double()

    def conditional(self, present: Tensor, absent: Tensor) -> tuple[Tensor, Tensor]:
        """Slope and covariance of the absent elements given the present ones."""
        cross = self.covariance[absent][:, present]
        slope = cross @ torch.linalg.inv(self.covariance[present][:, present])
        return slope, self.covariance[absent][:, absent] - slope @ cross.T

    def expected(
        self, x: Tensor, present: Tensor, components: Names, confounding: Sequence[bool]
    ) -> Tensor:
        """E[X | do(x_S)], component by component: the model is linear, so means carry over."""
        mean, earlier = torch.zeros_like(x), torch.zeros(len(x), dtype=torch.bool)
        for names, confounded in zip(components, confounding, strict=True):
            own = torch.tensor([f"x{k}" in names for k in range(len(x))])
            mean[own & present] = x[own & present]
            given, absent = earlier.clone(), own & ~present
            if not confounded:
                given |= own & present
            slope, _ = self.conditional(given, absent)
            mean[absent] = (slope @ mean[given].double()).float()
            earlier |= own
        return mean


def chain(a: float, c: float) -> Tensor:
    """Covariance of X0 -> X1 -> X2, X1 = a X0 + noise, X2 = c X1 + noise, noises of variance 1."""
    effect = torch.tensor([[1.0, 0, 0], [a, 1, 0], [a * c, c, 1]])
    return effect @ effect.T


def random_covariance(players: int, seed: int = 0) -> Tensor:
    root = torch.randn(players, players, generator=generator(seed))
    return root @ root.T / players + 0.2 * torch.eye(players)


def keyed(imputer: ms.imputers.Imputer, rows: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, all coalitions of each, and a key for each of both."""
    players = len(imputer.players)
    x = torch.randn(rows, players, generator=generator(seed))
    masks = all_coalitions(players).expand(rows, -1, -1)
    return x, masks, torch.arange(rows * 2**players).reshape(rows, -1)


IMPUTERS = [
    ms.imputers.MarginalImputer(torch.randn(30, 3, generator=generator(3))),
    Normal(random_covariance(3)),
]
every_imputer = pytest.mark.parametrize("imputer", IMPUTERS, ids=lambda imputer: imputer.name)
TOGETHER = [["x0", "x1", "x2"]]


@every_imputer
def test_one_unconfounded_component_is_the_conditional_game(imputer: ms.imputers.Imputer) -> None:
    x, masks, keys = keyed(imputer, 4)
    drawn = CausalImputer(imputer, TOGETHER).impute(x, Listed(masks, keys), range(2, 9))
    assert torch.equal(drawn.rows, imputer.impute(x, Listed(masks, keys), range(2, 9)).rows)


@every_imputer
def test_one_confounded_component_is_the_marginal_game(imputer: ms.imputers.Imputer) -> None:
    x, masks, keys = keyed(imputer, 4)
    drawn = CausalImputer(imputer, TOGETHER, [True]).impute(x, Listed(masks, keys), range(7))
    unconditional = imputer.impute(x, Listed(torch.zeros_like(masks), keys), range(7)).rows
    spliced = torch.where(masks[:, :, None], x[:, None, None], unconditional)
    assert torch.equal(drawn.rows, spliced)


ORDERINGS = [
    ([["x0"], ["x1"], ["x2"], ["x3"]], [False] * 4),
    ([["x2"], ["x3", "x0"], ["x1"]], [False, True, False]),
    ([["x2"], ["x3", "x0"], ["x1"]], [False, False, False]),
    ([["x1", "x3"], ["x0", "x2"]], [True, False]),
]


@pytest.mark.parametrize(("names", "confounding"), ORDERINGS)
def test_means_are_those_under_intervention(names: Names, confounding: list[bool]) -> None:
    imputer = Normal(random_covariance(4))
    x, masks, keys = keyed(imputer, 2)
    drawn = (
        CausalImputer(imputer, names, confounding).impute(x, Listed(masks, keys), range(4_000)).rows
    )
    for b, k in itertools.product(range(2), range(16)):
        expected = imputer.expected(x[b], masks[b, k], names, confounding)
        error = drawn[b, k].std(0) / 4_000**0.5
        assert ((drawn[b, k].mean(0) - expected).abs() <= 5 * error + 1e-6).all()
        assert torch.equal(drawn[b, k][:, masks[b, k]], x[b, masks[b, k]].expand(4_000, -1))


def test_components_have_draws_of_their_own() -> None:
    """Of a background row for each, columns that agree in every row no longer go together."""
    background = torch.randn(200, 1, generator=generator()).expand(-1, 4)
    imputer = ms.imputers.MarginalImputer(background)
    causal = CausalImputer(imputer, [["x0"], ["x1"], ["x2"], ["x3"]], [False] * 4)
    nobody = Listed(torch.zeros(1, 1, 4, dtype=torch.bool), torch.tensor([[1]]))
    drawn = causal.impute(background[:1], nobody, range(200)).rows[0, 0]
    assert (drawn.T.corrcoef() - torch.eye(4)).abs().max() < 0.3


A, C, BETA = 1.5, -0.8, torch.tensor([0.7, -1.0, 2.0])
SERIAL = [["x0"], ["x1"], ["x2"]]

# Draws of f have a standard deviation below 5: a mean over 4,000 an error below 0.08.
TOLERANCE = 0.3


def linear_value(imputer: ms.imputers.Imputer, beta: Tensor, draws: int = 4_000) -> ms.ImputedValue:
    return ms.imputed_value(lambda x: x @ beta[:, None], imputer, "identity", draws)


def test_causal_values_on_a_chain_equal_the_closed_form() -> None:
    value = linear_value(CausalImputer(Normal(chain(A, C)), SERIAL), BETA)
    x = torch.randn(6, 3, generator=generator(1))
    phi = ms.exact_shapley(value, x).phi[..., 0]
    # v(S) = Σ β_k E[X_k | do(x_S)]. X0 acts on X1 where X1 is absent, half of all orders, and so
    # does X1 on X2. X0 acts on X2 through X1 where both are absent: in a third of all orders it
    # comes first, and x0 then has this effect until X1 or X2 takes it away.
    x0, x1, x2 = x.T
    b0, b1, b2 = BETA
    through = b2 * A * C * x0
    expected = torch.stack(
        (
            b0 * x0 + b1 * A * x0 / 2 + through / 3,
            b1 * x1 - b1 * A * x0 / 2 + b2 * C * x1 / 2 - through / 6,
            b2 * x2 - b2 * C * x1 / 2 - through / 6,
        ),
        dim=1,
    )
    torch.testing.assert_close(phi, expected, rtol=0, atol=TOLERANCE)


def test_asymmetric_values_on_a_chain_equal_the_closed_form() -> None:
    x = torch.randn(6, 3, generator=generator(1))
    b0, b1, b2 = BETA
    news = torch.stack((x[:, 0], x[:, 1] - A * x[:, 0], x[:, 2] - C * x[:, 1]), dim=1)
    expected = news * torch.stack((b0 + A * b1 + A * C * b2, b1 + C * b2, b2))
    # Along the chain, to see what came before is to set it.
    for imputer in (Normal(chain(A, C)), CausalImputer(Normal(chain(A, C)), SERIAL)):
        value = linear_value(imputer, BETA)
        explanation = ms.exact_shapley(value, x, ordering=SERIAL)
        torch.testing.assert_close(explanation.phi[..., 0], expected, rtol=0, atol=TOLERANCE)
