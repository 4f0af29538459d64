"""Every estimator of the package keeps the contract."""

import pytest

import manifold_shap as ms
from tests.contracts import EstimatorContract
from tests.examples import ESTIMATORS, VALUES, Estimator, Made

# The others are explained by `auto`, in the contract of value functions.
GAMES = (
    "imputed", "surrogate of log-ratios", "surrogate of pictures", "grouped by row", "padded",
    "callable",
)  # fmt: skip
PUBLIC = [name for name in ms.__all__ if name.endswith("_shapley")]


class TestEstimators(EstimatorContract):
    @pytest.fixture(params=ESTIMATORS)
    def estimator(self, request: pytest.FixtureRequest) -> Estimator:
        return ESTIMATORS[request.param]

    @pytest.fixture(params=GAMES)
    def made(self, request: pytest.FixtureRequest) -> Made:
        return VALUES[request.param]()


def test_every_estimator_is_held_to_the_contract() -> None:
    public = {getattr(ms, name) for name in PUBLIC}
    held = {each.estimate for each in ESTIMATORS.values()}
    # These take surrogates alone.
    assert public - held == {ms.amortized_shapley, ms.coalition_shapley}
