"""True value functions: three ways to the same values, and distances that are honest."""

import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.coalitions import all_coalitions
from manifold_shap.oracles import OracleImputer, PosteriorValue, true_value
from tests.examples import Linear, mixture
from tests.laws import Enumerated, garden, weather


class Best:
    """f(x) = P(y | x), the model whose true value function is `PosteriorValue`."""

    def __init__(self, law: ms.oracles.ConditionalLaw) -> None:
        self.law = law

    def __call__(self, x: Tensor) -> Tensor:
        everybody = torch.ones(len(x), 1, x.shape[1], dtype=torch.bool)
        return self.law.posterior(x, everybody)[:, 0]


@pytest.mark.parametrize("law", [garden(), weather()])
@pytest.mark.parametrize("space", ["probability", "ilr"])
def test_values_are_sums_over_the_joint_states(law: Enumerated, space: str) -> None:
    model = ms.as_model(Linear(len(law.names), 3), law.sample(9).x)
    x = law.sample(3, seed=1).x
    mask = all_coalitions(len(law.names)).expand(3, -1, -1)
    states = torch.cartesian_prod(*(torch.arange(n) for n in law.sizes)).float()
    output = ms.spaces.as_space(space)
    f = output(model(states, scale=output.takes)).double()
    truth = true_value(model, law, space)
    assert not truth.spec.work.sampled
    assert (truth.base_error == 0).all()
    weight = law.given(x, mask).sum(-1)
    expected = weight @ f / weight.sum(-1, keepdim=True)
    torch.testing.assert_close(truth(x, mask), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("law", [garden(), weather()])
def test_the_posterior_is_the_true_value_of_the_best_model(law: Enumerated) -> None:
    x = law.sample(4).x
    mask = all_coalitions(len(law.names)).expand(4, -1, -1)
    posterior, value = PosteriorValue(law), true_value(Best(law), law)
    torch.testing.assert_close(posterior(x, mask), value(x, mask), rtol=0, atol=1e-12)
    phi = ms.exact_shapley(posterior, x).phi
    torch.testing.assert_close(phi, ms.exact_shapley(value, x).phi, rtol=0, atol=1e-12)


def test_distances_to_the_truth_are_without_the_errors_of_draws() -> None:
    """A value function of exact draws is at a distance of zero, whatever their number."""
    law = mixture()
    model = Linear(4, 3)
    truth = true_value(model, law, draws=16)
    value = ms.imputed_value(model, OracleImputer(law, rows=20_000), draws=8)
    x, mask = law.sample(300, seed=2).x, ms.metrics.shapley_pairs(300, 4, least=3000)
    score = ms.metrics.mean_squared_error(value, x, mask, truth=truth)
    error = score.by_row.std().item() / 300**0.5
    assert abs(score.debiased) < 4 * error
    assert score.mse > 10 * error
    curve = score.by_size
    for figure, each in list(zip(curve.debiased, curve.standard_error, strict=True))[1:]:
        assert abs(figure) < 4.5 * each
    assert ms.metrics.mean_squared_error(truth, x, mask, truth=truth).mse > 10 * error


def test_the_error_against_the_model_is_the_distance_and_what_nobody_can_know() -> None:
    """Eq. 16 of any value function is its distance to the truth and that of the truth."""
    law = weather()
    model = Linear(4, 3)
    truth = true_value(model, law)
    x, mask = law.sample(4000, seed=1).x, ms.metrics.shapley_pairs(4000, 4, least=8000)
    value = ms.imputed_value(model, ms.imputers.MarginalImputer(x[:64]), draws=64)
    scores = [ms.metrics.mean_squared_error(each, x, mask) for each in (value, truth)]
    distance = ms.metrics.mean_squared_error(value, x, mask, truth=truth)
    rest = scores[0].by_row - scores[1].by_row - distance.by_row
    assert abs(rest.mean()) < 4.5 * rest.std() / len(rest) ** 0.5
    assert distance.debiased > 0.01 * scores[1].mse
    # Nothing but draws is off where nobody is present.
    assert distance.by_size.debiased[1] > 5 * distance.by_size.standard_error[1]


def test_rows_that_the_law_cannot_give_are_refused() -> None:
    law = garden()
    other = law.sample(2).x
    other[1, 0] = 1 - other[1, 0]
    some = (torch.arange(5) != 4).expand(2, 1, -1)
    for value in (true_value(Linear(5, 3), law), true_value(Linear(5, 3), law, most=10, rows=9)):
        with pytest.raises(ValueError, match="rows that the law can give but 1 of 2"):
            value(other, some)
