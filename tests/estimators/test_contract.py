"""Every estimator of the package keeps the contract."""

import pytest

import manifold_shap as ms
from tests.contracts import EstimatorContract
from tests.examples import ESTIMATORS, VALUES, Estimator, Made


class TestEstimators(EstimatorContract):
    @pytest.fixture(params=ESTIMATORS)
    def estimator(self, request: pytest.FixtureRequest) -> Estimator:
        return ESTIMATORS[request.param]

    @pytest.fixture(params=VALUES)
    def made(self, request: pytest.FixtureRequest) -> Made:
        return VALUES[request.param]()


def test_every_estimator_is_held_to_the_contract() -> None:
    public = {getattr(ms, name) for name in ms.__all__ if name.endswith("_shapley")}
    held = {each.estimate for each in ESTIMATORS.values()}
    # A closed form of naive Bayes takes no value function, and the amortised one is tested below.
    assert public - held == {ms.naive_bayes_shapley, ms.amortized_shapley}
