"""Shapes in signatures are checked while the tests run, where `CHECK_SHAPES` is set."""

import os
import resource
import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import settings
from jaxtyping import config, install_import_hook

if TYPE_CHECKING:
    from manifold_shap import ValueFunction


os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # See SECURITY.md.

# A fifth of all time, so that `.ci/run` checks them and `make test` does not.
if os.environ.get("CHECK_SHAPES"):
    install_import_hook("manifold_shap", "beartype.beartype")

# The same examples in every run.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")

# Tests are small: on a busy machine, waiting for a second thread costs more than it brings.
torch.set_num_threads(1)

# What a script starts in the background ignores interrupts, and so would all that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    skip = pytest.mark.skip(reason="no CUDA device")
    for item in items:
        if "gpu" in item.keywords and not torch.cuda.is_available():
            item.add_marker(skip)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where `REQUIRE_DATA` is set, real data that is missing fails a test that it else skips."""
    report = yield
    if report.skipped and os.environ.get("REQUIRE_DATA"):
        *_, reason = report.longrepr if isinstance(report.longrepr, tuple) else ("",)
        if "MANIFOLD_SHAP_DATA" in reason:
            report.outcome, report.longrepr = "failed", reason
    return report


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root."""
    return Path(__file__).parent.parent


@pytest.fixture(scope="session", autouse=True)
def _few_pairs() -> Iterator[None]:
    from tests.learned import few_pairs

    with few_pairs():
        yield


@pytest.fixture
def any_type(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arguments of a wrong type reach the package's own checks, as they do outside of tests."""
    monkeypatch.setattr(config, "jaxtyping_disable", True)


@pytest.fixture
def many_calls(any_type: None) -> None:
    """For tests of hundreds of small calls, where checks of shapes take half of the time."""


@pytest.fixture
def make_value() -> "Callable[..., ValueFunction]":
    """Small value functions of a linear model on four features, in any output space."""
    return _make_value


def _make_value(kind: str = "surrogate", space: str = "probability", draws: int = 20) -> Any:
    import manifold_shap as ms
    from manifold_shap.surrogate.perceptron import Perceptron
    from tests.examples import untrained

    generator = torch.Generator().manual_seed(0)
    reference = torch.randn(20, 4, generator=generator)
    weight = torch.randn(4, 2 if space == "log_odds" else 3, generator=generator)

    def model(x: torch.Tensor) -> torch.Tensor:
        return 3 * x @ weight

    if kind == "surrogate":
        return untrained(lambda game: Perceptron(game, (16,)), model, reference, space)
    return ms.imputed_value(model, ms.imputers.MarginalImputer(reference), space, draws)


@pytest.fixture(scope="session")
def surrogate_of_people() -> Any:
    """A surrogate of 300 `people`, trained in a moment; tests leave it as it is."""
    import manifold_shap as ms
    from tests.examples import people, people_model

    few = {"accelerator": "cpu", "limit_train_batches": 20}
    return ms.fit_surrogate(people_model, people(300), hidden=[16], max_epochs=2, trainer=few)


@pytest.fixture(scope="session")
def imputer_of_people() -> Any:
    """A VAE of 300 `people`, trained in a moment; tests leave it as it is."""
    import manifold_shap as ms
    from tests.examples import people, people_model

    return ms.fit_imputer(
        people(300),
        model=people_model,
        latent=2,
        hidden=[16],
        bank_size=500,
        max_epochs=2,
        trainer={"accelerator": "cpu", "limit_train_batches": 20},
    )


@contextmanager
def _full_disk() -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.fixture
def full_disk() -> Callable[[], AbstractContextManager[None]]:
    """A context in which no file can grow past one kilobyte, as on a disk without space."""
    return _full_disk
