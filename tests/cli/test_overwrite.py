"""Training anew what is asked for, and reading it, and no more."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import explain as explain_command
import manifold_shap as ms
from manifold_shap.amortized.fit import AmortizedTask
from manifold_shap.cli import explainer as steps
from tests.cli.test_commands import composed
from tests.cli.test_commands import train as train_with

# Of few features, whose values are exact.
DATA = "iris"
EXPLAINER = ["explainer=amortized", "explainer.hidden=[16]", "explainer.max_epochs=1"]


def train(place: Path, *overrides: str) -> float:
    return train_with(place, f"data={DATA}", *overrides)


@pytest.fixture(scope="module")
def explained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runs directory with a surrogate and its explainer."""
    place = tmp_path_factory.mktemp("runs")
    train(place, *EXPLAINER)
    return place


def written(place: Path, name: str) -> int:
    return (place / DATA / "surrogate" / f"{name}.ckpt").stat().st_mtime_ns


def test_a_new_explainer_leaves_its_surrogate_alone(explained: Path) -> None:
    before = {name: written(explained, name) for name in ("surrogate", "explainer")}
    train(explained, *EXPLAINER, "explainer.max_epochs=2", "overwrite=true")
    assert written(explained, "surrogate") == before["surrogate"]
    assert written(explained, "explainer") > before["explainer"]
    metrics = json.loads((explained / DATA / "surrogate" / "metrics.json").read_text())
    assert metrics["explainer"]["epochs"] == 2


def interrupt(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("where", "name"), [(steps, "_measured"), (steps.AmortizedExplainer, "save")]
)
def test_an_interruption_after_the_training_loses_nothing(
    explained: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    where: Any,
    name: str,
) -> None:
    home = explained / DATA / "surrogate"
    words = [*EXPLAINER, "explainer.max_epochs=3", "overwrite=true"]
    with monkeypatch.context() as patched:
        patched.setattr(where, name, interrupt)
        with pytest.raises(KeyboardInterrupt):
            train(explained, *words)
    best = home.with_name("surrogate.explainer.partial") / "best.ckpt"
    trained = torch.load(best, weights_only=True)["state_dict"]
    monkeypatch.setattr(AmortizedTask, "training_step", interrupt)
    train(explained, *words)
    assert "going on with an interrupted training" in capsys.readouterr().out
    kept = torch.load(home / "explainer.ckpt", weights_only=True)
    assert all(torch.equal(trained[key], kept["state_dict"][key]) for key in trained)
    record = json.loads((home / "metrics.json").read_text())["explainer"]
    assert record["settings"]["max_epochs"] == 3
    assert record["relative_error"] == kept["relative_error"]
    assert not list(home.parent.glob("*.partial"))


def test_a_new_explainer_never_stands_beside_the_record_of_an_old_one(
    explained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, words = explained / DATA / "surrogate", [*EXPLAINER, "overwrite=true"]
    train(explained, *words)
    save: Callable[..., None] = steps.AmortizedExplainer.save

    def saved(*given: Any) -> None:
        save(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(steps.AmortizedExplainer, "save", saved)
        with pytest.raises(KeyboardInterrupt):
            train(explained, *words, "explainer.max_epochs=2")
    metrics = json.loads((home / "metrics.json").read_text())
    assert "explainer" not in metrics
    assert "mse" in metrics
    with pytest.raises(ValueError, match=r"max_epochs: 2 -> 1\). Give overwrite=true"):
        train(explained, *EXPLAINER)
    train(explained, *words)
    assert json.loads((home / "metrics.json").read_text())["explainer"]["epochs"] == 1


def test_what_is_left_for_another_surrogate_is_in_nobodys_way(
    explained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(steps, "_measured", interrupt)
        with pytest.raises(KeyboardInterrupt):
            train(explained, *EXPLAINER, "overwrite=true")
    train(explained, "value_function.max_epochs=3", "overwrite=true")
    train(explained, *EXPLAINER, "value_function.max_epochs=3")
    assert "going on with" not in capsys.readouterr().out


def test_an_explainer_is_read_once_for_all_blocks(
    explained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, load = list[Any](), steps.load_amortized

    def loaded(*given: Any) -> Any:
        read.append(given)
        return load(*given)

    monkeypatch.setattr(steps, "load_amortized", loaded)
    monkeypatch.setattr("manifold_shap.amortized.fit.load_amortized", loaded)
    words = ["estimator=amortized", "instances=all", "block=10", "compare=[]", "progress=false"]
    config = composed("explain", f"data={DATA}", f"runs_dir={explained}", *words)
    given = ["estimator", "instances", "block", "compare"]
    assert explain_command.explain(config, given)["instances"] == 30
    assert len(read) == 1
    found = ms.Explanation.load(explained / DATA / "surrogate" / "explanations.zarr")
    value, path = read[0][1], read[0][0]
    alone = ms.amortized_shapley(value, found.x[10:20], explainer=path)
    torch.testing.assert_close(alone.phi, found.phi[10:20])


def test_a_surrogate_of_other_settings_is_replaced_with_its_explainer(explained: Path) -> None:
    before = {name: written(explained, name) for name in ("surrogate", "explainer")}
    train(explained, *EXPLAINER, "value_function.max_epochs=1", "overwrite=true")
    assert all(written(explained, name) > before[name] for name in before)


def test_without_an_explainer_the_surrogate_is_what_is_trained_anew(explained: Path) -> None:
    before = written(explained, "surrogate")
    train(explained, "overwrite=true")
    assert written(explained, "surrogate") > before
    assert not (explained / DATA / "surrogate" / "explainer.ckpt").exists()
