"""Runs that the tests of the commands share: trained once, copied where a test changes them."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.commands import FOREST, QUICK, TINY, TINY_VAE, train


@pytest.fixture(scope="session", autouse=True)
def _few_test_pairs() -> Iterator[None]:
    """Scores of a few hundred pairs instead of thousands."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("manifold_shap.cli.report._PAIRS", 300)
        yield


@pytest.fixture
def drawn_figures() -> None:
    """For tests of which figures are the point, or which are the whole path on real data."""


@pytest.fixture(autouse=True)
def _blank_figures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """No figures: drawing takes most of a run, and is tested with the plots."""
    if "drawn_figures" in request.fixturenames:
        return
    monkeypatch.setattr("manifold_shap.report.page.page", lambda *_: "")
    monkeypatch.setattr("manifold_shap.cli.report._figures", lambda *_: {})


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runs directory with a small classifier and a surrogate of digits; not to be changed."""
    place = tmp_path_factory.mktemp("digits")
    train(place, *QUICK)
    return place


@pytest.fixture(scope="session")
def irises(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runs directory with a forest for irises, a surrogate and a VAE; not to be changed."""
    place = tmp_path_factory.mktemp("irises")
    train(place, "data=iris", *FOREST, *TINY)
    train(place, "data=iris", *FOREST, *TINY_VAE)
    return place


@pytest.fixture
def copied(tmp_path: Path) -> Callable[..., Path]:
    """Copies runs, to be changed: all, or the classifier and those named."""

    def copy(runs: Path, *parts: str) -> Path:
        (home,) = [path for path in runs.iterdir() if path.is_dir()]
        for part in {"classifiers", *parts} if parts else {p.name for p in home.iterdir()}:
            shutil.copytree(home / part, tmp_path / home.name / part)
        return tmp_path

    return copy
