"""Every estimator of the package keeps the contract."""

import inspect
from pathlib import Path

import hydra
import pytest

import manifold_shap as ms
from tests.contracts import EstimatorContract
from tests.examples import ESTIMATORS, VALUES, Estimator, Made, table, uniform

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
    # These take surrogates, explainers or naive Bayes classifiers alone.
    others = {ms.naive_bayes_shapley, ms.amortized_shapley}
    assert public - held == others | {ms.coalition_shapley}


@pytest.mark.parametrize("name", [name for name in PUBLIC if name != "naive_bayes_shapley"])
def test_every_estimator_follows_one_protocol(name: str) -> None:
    """`(value, x, *, evaluations=None, seed=0, batch_size=None, progress=None)`, and its own."""
    value, x, *settings = inspect.signature(getattr(ms, name)).parameters.values()
    assert (value.name, x.name) == ("value", "x")
    assert all(each.kind == each.KEYWORD_ONLY for each in settings)
    defaults = {each.name: each.default for each in settings}
    common = {"evaluations": None, "seed": 0, "batch_size": None, "progress": None}
    assert [name for name in defaults if name in common] == list(common)
    assert common.items() <= defaults.items()


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_configuration_takes_evaluations(root: Path, name: str) -> None:
    with hydra.initialize_config_dir(str(root / "conf"), version_base="1.3"):
        config = hydra.compose(
            "explain", [f"estimator={name}", "estimator.evaluations=600", "seed=3"]
        )
    estimator = hydra.utils.instantiate(config.estimator, _partial_=True)
    made_by = estimator(table(6), uniform(2, 6), progress=False).made_by
    assert config.estimator.seed == 3
    assert 0 < made_by["evaluations"] <= 2 * 600
