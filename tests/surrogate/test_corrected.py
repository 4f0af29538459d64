"""Surrogates that the model itself corrects: against exact values, and what they promise."""

import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.surrogate.network import Surrogate
from tests.contracts import ValueFunctionContract
from tests.examples import Made

X = torch.randn(400, 3, generator=torch.Generator().manual_seed(0))
PLAYERS = ms.Players.of_elements((3,))


def steps(x: Tensor) -> Tensor:
    """A sum of steps: additive, so that v(S) for independent columns is known."""
    return (x > 0.3).float().sum(1, keepdim=True)


class Line(Surrogate):
    """A network that is a line in every present element, by default a level one."""

    def __init__(self, slope: float = 0.0) -> None:
        super().__init__((3,), [0, 1, 2], 1, False, hidden=(1,))
        self.slope = slope

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.slope * (x[:, None] * mask).sum(-1, keepdim=True)


def surrogate(slope: float = 0.0) -> ms.SurrogateValue:
    space = ms.Identity()
    model = ms.as_model(steps, X, returns="values")
    return ms.SurrogateValue(Line(slope), model, PLAYERS, space, steps(X).mean(0).float())


def masks(m: int = 12) -> Tensor:
    return ms.shapley_pairs(len(X), 3, m * len(X), seed=1)


def test_with_a_whole_weight_values_are_the_model_s_at_a_completed_row() -> None:
    imputer = ms.MarginalImputer(X)
    value = ms.CorrectedValue(surrogate(), imputer, torch.ones(4), seed=5)
    drawn = ms.imputed_value(steps, imputer, "identity", draws=1, seed=5)
    mask = masks()[:, :4]
    keys = torch.arange(mask[..., 0].numel()).reshape(mask.shape[:2])
    torch.testing.assert_close(value(X, mask, keys), drawn(X, mask, keys))
    # What the network has learned cancels, where it is the same of x_S and of the completed row.
    line = ms.CorrectedValue(surrogate(2.0), ms.BaselineImputer(torch.zeros(3)), torch.ones(4))
    at_zero = ms.imputed_value(steps, ms.BaselineImputer(torch.zeros(3)), "identity")
    known = mask.any(-1)
    torch.testing.assert_close(line(X, mask)[known], at_zero(X, mask)[known])


def test_without_weight_values_are_the_surrogate_s() -> None:
    value = ms.CorrectedValue(surrogate(0.7), ms.MarginalImputer(X), torch.zeros(4))
    assert torch.equal(value(X, masks()), surrogate(0.7)(X, masks()))


def test_weights_are_those_of_least_error() -> None:
    imputer = ms.MarginalImputer(X)
    fitted = ms.correct_surrogate(surrogate(0.4), imputer, X, seed=3)
    assert (fitted.weights >= 0).all()
    assert (fitted.weights <= 1).all()
    # With one more element known the completed row tells more of what the network has missed.
    assert fitted.weights[2] > fitted.weights[1]
    mask = masks()

    def error(weights: Tensor) -> float:
        value = ms.CorrectedValue(surrogate(0.4), imputer, weights, seed=9)
        return ms.mean_squared_error(value, X, mask).mse

    best = error(fitted.weights)
    assert best < error(torch.zeros(4))
    assert best < error(torch.ones(4))
    for size in (1, 2):
        for change in (-0.25, 0.25):
            other = fitted.weights.clone()
            other[size] += change
            assert best < error(other)


def test_the_mean_over_keys_is_closer_to_the_truth_than_the_network() -> None:
    value = ms.correct_surrogate(surrogate(), ms.MarginalImputer(X), X)
    mask = torch.tensor([True, True, False]).expand(200, 400, -1)
    keys = torch.arange(200 * 400).reshape(200, 400)
    present = (X[:200, :2] > 0.3).double().sum(1)
    missing = (X[:, 2] > 0.3).double().mean()
    # A network that is 0 everywhere: what is added is w times the value itself.
    expected = value.weights[2] * (present + missing)
    mean = value(X[:200], mask, keys)[..., 0].mean(1)
    torch.testing.assert_close(mean.double(), expected.double(), atol=0.1, rtol=0)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ((steps, ms.MarginalImputer(X), X), TypeError, "`surrogate` to be one of class Surr"),
        ((surrogate(), surrogate(), X), TypeError, "`imputer` to be one of class Imputer but"),
        (
            (surrogate(), ms.MarginalImputer(X, ms.Players.of_elements((3,), "abc")), X),
            ValueError,
            r"the surrogate's 3 players \('x0', 'x1', 'x2'\) but it has 3, \('a', 'b', 'c'\)",
        ),
        ((surrogate(), ms.MarginalImputer(X), X[:, :2]), ValueError, "`x_validation` of shape"),
    ],
)
def test_errors(arguments: tuple, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        ms.correct_surrogate(*arguments)


class TestCorrectedValue(ValueFunctionContract):
    @pytest.fixture
    def made(self) -> Made:
        network = Surrogate((3,), [0, 1, 2], 1, False, hidden=(8,))
        own = surrogate()
        value = ms.SurrogateValue(network, own.model, PLAYERS, own.space, own.expectation)
        return Made(ms.correct_surrogate(value, ms.GaussianImputer(X), X[:50]), X[:4])
