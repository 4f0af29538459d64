"""Training anew what is asked for, and no more."""

import json
from pathlib import Path

import pytest
from test_commands import train

EXPLAINER = ["explainer=amortized", "explainer.hidden=[16]", "explainer.max_epochs=1"]


@pytest.fixture(scope="module")
def explained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runs directory with a surrogate and its explainer."""
    place = tmp_path_factory.mktemp("runs")
    train(place, *EXPLAINER)
    return place


def written(place: Path, name: str) -> int:
    return (place / "digits" / "surrogate" / f"{name}.ckpt").stat().st_mtime_ns


def test_a_new_explainer_leaves_its_surrogate_alone(explained: Path) -> None:
    before = {name: written(explained, name) for name in ("surrogate", "explainer")}
    train(explained, *EXPLAINER, "explainer.max_epochs=2", "overwrite=true")
    assert written(explained, "surrogate") == before["surrogate"]
    assert written(explained, "explainer") > before["explainer"]
    metrics = json.loads((explained / "digits" / "surrogate" / "metrics.json").read_text())
    assert metrics["explainer"]["epochs"] == 2


def test_a_surrogate_of_other_settings_is_replaced_with_its_explainer(explained: Path) -> None:
    before = {name: written(explained, name) for name in ("surrogate", "explainer")}
    train(explained, *EXPLAINER, "value_function.max_epochs=1", "overwrite=true")
    assert all(written(explained, name) > before[name] for name in before)


def test_without_an_explainer_the_surrogate_is_what_is_trained_anew(explained: Path) -> None:
    before = written(explained, "surrogate")
    train(explained, "overwrite=true")
    assert written(explained, "surrogate") > before
    assert not (explained / "digits" / "surrogate" / "explainer.ckpt").exists()
