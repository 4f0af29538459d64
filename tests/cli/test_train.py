"""Training by command: what is written, reused, refused, and left by an interruption."""

import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

import manifold_shap as ms
from tests.cli.commands import FOREST, QUICK, SHORT, TINY, explain, explained, read, train

# Of few features, whose values are exact.
AMORTIZED = ["amortized=default", "amortized.hidden=[16]", "amortized.max_epochs=1"]
ONE = ["data=iris", "estimator=exact", "instances=1"]
Copy = Callable[..., Path]
Said = pytest.CaptureFixture[str]


def train_iris(place: Path, *words: str) -> dict[str, Any]:
    return train(place, "data=iris", *FOREST, *words)


def interrupt(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


def test_training_writes_what_it_promises(digits: Path) -> None:
    place = digits / "digits" / "surrogate"
    metrics = read(place, "metrics.json")
    assert metrics["mse"] < metrics["mse_off_manifold"]
    assert metrics["mse_standard_error"] > 0
    assert metrics["epochs"] == 2
    assert metrics["train_seconds"] > 0
    assert metrics["model"]["accuracy"] > 0.8
    assert not metrics["quality"]["warning"]
    assert "mse_validation" not in metrics
    names = {"metrics.json", "config.yaml", "mse_by_size.png", "manifold_shap.json"}
    assert {path.name for path in place.iterdir()} == names | {"tensors.safetensors"}
    assert "_target_" not in (place / "config.yaml").read_text()


def test_what_is_trained_is_reused_and_said(digits: Path, capsys: Said) -> None:
    before = {path: path.stat().st_mtime_ns for path in digits.rglob("*.safetensors")}
    assert train(digits, *QUICK) == read(digits, "digits", "surrogate", "metrics.json")
    assert "Made before with these settings" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in digits.rglob("*.safetensors")} == before


@pytest.mark.parametrize(
    ("word", "error"),
    [
        ("value_function.hidden=[32]", r"value_function.hidden: \[64\] -> \[32\].*overwrite"),
        ("classifier.hidden=[32]", r"classifier.hidden: \[64\] -> \[32\]"),
        ("data.test=0.3", "data.test: 0.2 -> 0.3"),
    ],
)
def test_a_run_of_other_settings_is_refused_and_nothing_is_lost(
    digits: Path, word: str, error: str
) -> None:
    weights = digits / "digits" / "surrogate" / "tensors.safetensors"
    before = weights.read_bytes()
    with pytest.raises(ValueError, match=error):
        train(digits, *QUICK, word)
    assert weights.read_bytes() == before


def test_overwriting_replaces_a_run_and_its_explanation_and_nothing_else(
    irises: Path, copied: Copy
) -> None:
    place = copied(irises, "surrogate")
    explain(place, *ONE)
    run = place / "iris" / "surrogate"
    notes = [run / "notes.txt", run / "plots" / "mine.png", run / ".DS_Store"]
    for note in notes:
        note.write_text("precious")
    summary = read(run, "summary.json") | {"figures": ["../notes.txt", str(notes[1].parents[1])]}
    (run / "summary.json").write_text(json.dumps(summary))
    train_iris(place, *TINY, "classifier.n_estimators=2", "overwrite=true")
    assert [note.read_text() for note in notes] == ["precious"] * 3
    assert not list(run.glob("explanations.zarr*"))
    assert [path.name for path in (run / "plots").iterdir()] == ["mine.png"]
    assert len(list((place / "iris" / "classifiers").glob("*/model.skops"))) == 2
    explain(place, *ONE)
    assert explained(place, data="iris").made_by["model"]["accuracy"] > 0.5


def test_a_failed_start_does_not_block_the_next(irises: Path, copied: Copy) -> None:
    place = copied(irises, "classifiers")
    with pytest.raises(ValueError, match="resnet50"):
        train_iris(place, *TINY, "value_function.network=resnet50")
    train_iris(place, *TINY)


def test_an_interrupted_training_goes_on(
    irises: Path, copied: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = copied(irises, "classifiers")
    words = [*TINY, "value_function.max_epochs=4"]
    with monkeypatch.context() as patched:
        patched.setattr("lightning.pytorch.Trainer.save_checkpoint", _saves_then_interrupts())
        with pytest.raises(KeyboardInterrupt):
            train_iris(place, *words)
    run = place / "iris" / "surrogate"
    before = torch.load(run / "training" / "last.ckpt", weights_only=True)
    with pytest.raises(FileNotFoundError, match=r"manifold_shap\.json"):
        explain(place, *ONE)
    with pytest.raises(ValueError, match="max_epochs"):
        train_iris(place, *TINY, "value_function.max_epochs=5")
    assert before["epoch"] == 1
    assert train_iris(place, *words)["epochs"] == 4
    assert not list(run.glob("*.ckpt"))
    assert not (run / "training").exists()


def _saves_then_interrupts() -> Callable[..., None]:
    """`Trainer.save_checkpoint`, with Ctrl-C after the second epoch."""
    from lightning.pytorch import Trainer

    save, calls = Trainer.save_checkpoint, iter(range(100))

    def saved(*given: Any, **settings: Any) -> None:
        save(*given, **settings)
        if next(calls) == 3:
            raise KeyboardInterrupt

    return saved


def test_the_vae_of_the_paper_is_trained_and_explains(tmp_path: Path) -> None:
    words = ["experiment=paper_vae", *SHORT, "value_function.max_epochs=1"]
    words += ["value_function.hidden=[8]", "value_function.draws=4"]
    assert train_iris(tmp_path, *words)["draws"] == 4
    explain(tmp_path, *ONE, "value_function=vae")
    assert explained(tmp_path, "vae", "iris").made_by["posterior"] == "encoder"


def test_a_surrogate_has_a_teacher(irises: Path, copied: Copy) -> None:
    place = copied(irises, "vae")
    train_iris(place, *TINY, "value_function.teacher=vae", "+value_function.teacher_pairs=64")
    written = place.joinpath("iris", "surrogate", "manifold_shap.json").read_text()
    (taught,) = re.findall(r'"teacher": (\{.*?\})', written)
    assert '"value_function": "vae"' in taught
    assert '"draws": 16' in taught
    with pytest.raises(ValueError, match="'nobody'"):
        train_iris(place / "new", *TINY, "value_function.teacher=nobody")


def test_a_value_function_no_better_than_off_the_manifold_is_noted(
    irises: Path, copied: Copy, capsys: Said
) -> None:
    place = copied(irises, "classifiers")
    with warnings.catch_warnings(action="error"):  # It is printed once, of test rows.
        metrics = train_iris(place, *TINY, "value_function.learning_rate=1e-9")
    warning = metrics["quality"]["warning"]
    explain(place, *ONE)
    said = capsys.readouterr().out
    assert said.count(warning) == said.count("value_function=mixture") == 2
    quality = explained(place, data="iris").made_by["quality"]
    errors = [metrics[f"mse{of}_debiased"] for of in ("_off_manifold", "")]
    assert quality["mse"] == dict(zip(("marginal", "surrogate"), errors, strict=True))
    assert quality["warning"] == warning
    assert not train_iris(place, "value_function=marginal")["quality"]["warning"]


# An amortised explainer beside its surrogate.


@pytest.fixture(scope="module")
def amortized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runs directory with a surrogate and its amortised explainer, and curves of trainings."""
    place = tmp_path_factory.mktemp("runs")
    logger = "+trainer.logger._target_=lightning.pytorch.loggers.CSVLogger"
    train_iris(place, *TINY, *AMORTIZED, logger, f"+trainer.logger.save_dir={place / 'curves'}")
    return place


def test_an_amortised_explainer_is_trained_once_and_used(amortized: Path) -> None:
    for number in (0, 1):  # Each training, that of the surrogate too, has a version of the logger.
        curves = amortized / "curves" / "lightning_logs" / f"version_{number}" / "metrics.csv"
        assert len(pd.read_csv(curves)["validation"].dropna()) == 1
    record = read(amortized, "iris", "surrogate", "amortized", "metrics.json")
    assert 0 < record["relative_error"] < 5
    assert train_iris(amortized, *TINY, *AMORTIZED)["amortized"] == record
    with pytest.raises(ValueError, match=r"amortized.max_epochs: 1 -> 2"):
        train_iris(amortized, *TINY, *AMORTIZED, "amortized.max_epochs=2")
    with pytest.raises(TypeError, match="surrogate"):
        train_iris(amortized, "value_function=marginal", *AMORTIZED)
    words = ["data=iris", "estimator=amortized", "instances=3"]
    with pytest.raises(TypeError, match="surrogate"):
        explain(amortized, *words, "compare=[marginal]")
    explain(amortized, *words)
    found = explained(amortized, data="iris")
    assert found.efficiency_gap < 1e-5
    assert found.made_by["relative_error"] == pytest.approx(record["relative_error"])
    summary = explain(amortized, *words, "instances=all", "block=8")
    # All of them, as there are fewer than 200.
    assert summary["audit"]["rows"] == summary["instances"] == 30
    assert "audit" not in explain(amortized, *words, "instances=all", "block=8", "audit=0",
                                  "overwrite=true")  # fmt: skip


def test_an_interruption_after_the_training_loses_nothing(
    amortized: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = amortized / "iris" / "surrogate" / "amortized"
    words = [*TINY, *AMORTIZED, "amortized.max_epochs=3", "overwrite=true"]
    with monkeypatch.context() as patched:
        patched.setattr(ms.AmortizedExplainer, "measure", interrupt)
        with pytest.raises(KeyboardInterrupt):
            train_iris(amortized, *words)
    trained = torch.load(place / "training" / "best.ckpt", weights_only=True)["state_dict"]
    train_iris(amortized, *words)
    kept = load_file(place / "tensors.safetensors").values()
    for weights in trained.values():
        assert any(weights.shape == each.shape and torch.equal(weights, each) for each in kept)
    assert not (place / "training").exists()
