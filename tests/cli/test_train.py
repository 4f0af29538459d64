"""Training by command: what is written, reused, refused, and left by an interruption."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import manifold_shap as ms
from manifold_shap.cli.directory import Directory
from manifold_shap.io.files import load_checkpoint, save_checkpoint
from tests.cli.commands import (
    CLASSIFIER,
    FOREST,
    QUICK,
    TINY,
    TINY_VAE,
    explain,
    explain_digits,
    explained,
    read,
    train,
)

# Of few features, whose values are exact.
AMORTIZED = ["amortized=default", "amortized.hidden=[16]", "amortized.max_epochs=1"]
Copy = Callable[..., Path]
Said = pytest.CaptureFixture[str]


def train_classifier(place: Path, *words: str) -> None:
    train(place, *CLASSIFIER, "value_function=marginal", *words)


def train_iris(place: Path, *words: str) -> dict[str, Any]:
    return train(place, "data=iris", *FOREST, *words)


def interrupt(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


def test_training_writes_what_it_promises(digits: Path) -> None:
    directory = digits / "digits" / "surrogate"
    metrics = read(directory, "metrics.json")
    assert metrics["mse"] < metrics["mse_off_manifold"]
    assert metrics["mse_standard_error"] > 0
    assert metrics["epochs"] == 2
    assert metrics["train_seconds"] > 0
    assert metrics["classifier_accuracy"] > 0.8
    assert metrics["hints"] == []
    assert (directory / "plots" / "mse_by_size.png").stat().st_size > 0
    assert (directory / "surrogate.ckpt").exists()
    assert not Directory(directory).work.exists()


def test_what_is_trained_is_reused_and_said(digits: Path, capsys: Said) -> None:
    checkpoint = digits / "digits" / "surrogate" / "surrogate.ckpt"
    before = checkpoint.stat().st_mtime_ns
    assert train(digits, *QUICK) == read(digits, "digits", "surrogate", "metrics.json")
    assert "already trained" in capsys.readouterr().out
    assert checkpoint.stat().st_mtime_ns == before


def test_a_changed_value_function_is_refused_and_nothing_is_lost(digits: Path) -> None:
    checkpoint = digits / "digits" / "surrogate" / "surrogate.ckpt"
    before = checkpoint.read_bytes()
    with pytest.raises(ValueError, match=r"value_function.hidden: \[64\] -> \[32\].*overwrite"):
        train(digits, *QUICK, "value_function.hidden=[32]")
    assert checkpoint.read_bytes() == before


def test_overwriting_reuses_or_retrains_the_classifier(
    irises: Path, copied: Copy, capsys: Said
) -> None:
    place = copied(irises, "classifier", "surrogate")
    train_iris(place, *TINY, "value_function.hidden=[8]", "overwrite=true")
    assert "classifier: reused" in capsys.readouterr().out
    other = "classifier.n_estimators=2"
    train_iris(place, *TINY, "value_function.hidden=[8]", other, "overwrite=true")
    assert "settings changed (classifier.n_estimators: 3 -> 2)" in capsys.readouterr().out
    explain(place, "data=iris", "estimator=exact", "instances=1", "compare=[]")


def test_a_classifier_in_use_is_not_replaced_unasked(digits: Path) -> None:
    path = digits / "digits" / "classifier" / "model.ckpt"
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"for which surrogate in .* was trained"):
        train_classifier(digits, "classifier.hidden=[32]")
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["notes.txt", "plots/mine.png"])
def test_what_no_run_wrote_is_not_deleted(irises: Path, copied: Copy, name: str) -> None:
    place = copied(irises, "classifier", "surrogate")
    explain(place, "data=iris", "estimator=exact", "instances=1", "compare=[]")
    notes = place / "iris" / "surrogate" / name
    notes.write_text("precious")
    with pytest.raises(ValueError, match=rf"nothing else, but it has {name}"):
        train_iris(place, *TINY, "overwrite=true")
    assert notes.read_text() == "precious"
    notes.unlink()
    train_iris(place, *TINY, "overwrite=true")
    names = {path.name for path in (place / "iris" / "surrogate" / "plots").iterdir()}
    assert names == {"mse_by_size.png"}


def test_explanations_that_needed_no_training_stay(digits: Path, copied: Copy) -> None:
    place = copied(digits, "classifier")
    explain_digits(place, "value_function=marginal")
    train_classifier(place)
    directory = place / "digits" / "marginal"
    assert (directory / "metrics.json").exists()
    assert (directory / "plots" / "pixel_maps.png").exists()
    assert explained(place, "marginal").phi.shape == (2, 64, 10)


def test_a_failed_start_does_not_block_the_next(irises: Path, copied: Copy) -> None:
    place = copied(irises, "classifier")
    with pytest.raises(ValueError, match=r"at least 1 of them.*got \[\]"):
        train_iris(place, *TINY, "value_function.hidden=[]")
    train_iris(place, *TINY)


def test_an_interrupted_training_goes_on(
    irises: Path, copied: Copy, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = copied(irises, "classifier")
    words = [*TINY, "value_function.max_epochs=4"]
    with monkeypatch.context() as patched:
        patched.setattr("lightning.pytorch.Trainer.save_checkpoint", _saves_then_interrupts())
        with pytest.raises(KeyboardInterrupt, match="the same command continues"):
            train_iris(place, *words)
    directory = place / "iris" / "surrogate"
    with pytest.raises(FileNotFoundError, match=r"run train\.py first"):
        explain(place, "data=iris", "estimator=exact", "instances=1")
    with pytest.raises(ValueError, match=r"max_epochs: 4 -> 5.*overwrite=true"):
        train_iris(place, *TINY, "value_function.max_epochs=5")
    capsys.readouterr()
    train_iris(place, *words)
    assert "continuing an interrupted training" in capsys.readouterr().out
    assert read(directory, "metrics.json")["epochs"] == 4
    assert {path.name for path in directory.glob("*.ckpt")} == {"surrogate.ckpt"}
    assert [path.name for path in directory.parent.glob("*.partial")] == []


def _saves_then_interrupts() -> Callable[..., None]:
    """`Trainer.save_checkpoint`, with Ctrl-C after the second epoch."""
    from lightning.pytorch import Trainer

    save, calls = Trainer.save_checkpoint, iter(range(100))

    def saved(*given: Any, **settings: Any) -> None:
        save(*given, **settings)
        if next(calls) == 3:
            raise KeyboardInterrupt

    return saved


def test_one_vae_serves_another_classifier(irises: Path, copied: Copy, capsys: Said) -> None:
    place = copied(irises, "classifier", "vae")
    path = place / "iris" / "vae" / "vae.ckpt"
    weights = load_checkpoint(path, "vae")["state_dict"]
    before = read(path.parent, "metrics.json")
    metrics = train_iris(place, *TINY_VAE, "classifier.n_estimators=2")
    said = capsys.readouterr().out
    assert "settings changed (classifier.n_estimators: 3 -> 2)" in said
    assert "serves these settings, too" in said
    assert metrics["mse"] != before["mse"]
    assert metrics["train_seconds"] == before["train_seconds"]
    again = load_checkpoint(path, "vae")["state_dict"]
    assert all(torch.equal(again[name], weights[name]) for name in weights)
    exact = ["data=iris", "value_function=vae", "estimator=exact", "instances=2"]
    explain(place, *exact)
    # And of a third one, which other value functions brought.
    train_iris(place, "value_function=marginal", "classifier.n_estimators=1")
    explain(place, *exact)


def test_the_vae_of_the_paper_is_trained_and_explains(tmp_path: Path, any_type: None) -> None:
    words = ["data=iris", "experiment=paper_vae", *TINY_VAE[1:], "classifier.hidden=[8]"]
    metrics = train(tmp_path, *words, "classifier.max_epochs=1")
    assert metrics["mse"] > 0
    explain(tmp_path, "data=iris", "experiment=paper_vae", "compare=[]", "classifier.hidden=[8]")
    found = explained(tmp_path, "vae", "iris")
    assert (found.made_by["posterior"], found.made_by["importance"]) == ("encoder", False)


def test_a_vae_of_other_settings_is_refused(irises: Path) -> None:
    with pytest.raises(ValueError, match=r"value_function.latent: 2 -> 3.*overwrite"):
        train_iris(irises, *TINY_VAE, "value_function.latent=3")
    with pytest.raises(ValueError, match=r"value_function.latent: 2 -> 3"):
        explain(irises, "data=iris", "value_function=vae", "value_function.latent=3")


def test_a_vae_of_other_rows_is_refused(irises: Path, copied: Copy) -> None:
    place = copied(irises, "classifier", "vae")
    with pytest.raises(ValueError, match=r"for which vae in .* was trained"):
        train_iris(place, "value_function=marginal", "seed=1")
    train_iris(place, "value_function=marginal", "seed=1", "overwrite=true")
    with pytest.raises(ValueError, match="training rows are others now"):
        explain(place, "data=iris", "value_function=vae")


@pytest.mark.filterwarnings("ignore:.*are exactly zero")
def test_a_surrogate_has_a_teacher(irises: Path, copied: Copy) -> None:
    place = copied(irises, "classifier")
    options = ["value_function.teacher=gaussian", "value_function.teacher_pairs=64"]
    train_iris(place, *TINY, *options, "value_function.space=ilr")
    directory = place / "iris" / "surrogate"
    checkpoint = load_checkpoint(directory / "surrogate.ckpt", "surrogate")
    assert checkpoint["hyper_parameters"]["teacher"]["value_function"] == "gaussian"
    assert checkpoint["hyper_parameters"]["teacher"]["draws"] == 16
    assert [path.name for path in directory.glob("*.ckpt")] == ["surrogate.ckpt"]


@pytest.mark.filterwarnings("ignore:.*are exactly zero")
def test_a_surrogate_is_taught_again_when_its_teacher_changed(
    irises: Path, copied: Copy, capsys: Said
) -> None:
    place = copied(irises, "classifier", "vae")
    options = ["value_function.teacher=vae", "value_function.teacher_pairs=64"]
    train_iris(place, *TINY, *options)
    capsys.readouterr()
    train_iris(place, *TINY, *options)
    assert "already trained" in capsys.readouterr().out
    path = place / "iris" / "vae" / "vae.ckpt"
    checkpoint = load_checkpoint(path, "vae")
    checkpoint["state_dict"] = {name: 2 * w for name, w in checkpoint["state_dict"].items()}
    save_checkpoint(path, checkpoint)
    with pytest.raises(ValueError, match=r"teacher.checkpoint: '\w+' -> '\w+'"):
        train_iris(place, *TINY, *options)
    train_iris(place, *TINY_VAE, "value_function.temper=0.25")
    with pytest.raises(ValueError, match=r"teacher.settings.temper: None -> 0.25"):
        train_iris(place, *TINY, *options)
    train_iris(place, *TINY, *options, "overwrite=true")
    taught = load_checkpoint(place / "iris" / "surrogate" / "surrogate.ckpt", "surrogate")
    assert taught["hyper_parameters"]["teacher"]["temper"] == 0.25


def test_teachers_that_cannot_be_are_refused(irises: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="would learn from itself"):
        train_iris(tmp_path, "value_function.teacher=surrogate")
    with pytest.raises(ValueError, match=r"one of \[.*'vae'\] but got 'nobody'"):
        train_iris(tmp_path, "value_function.teacher=nobody")
    with pytest.raises(FileNotFoundError, match=r"a trained value function in .*vae"):
        train_iris(tmp_path, "value_function.teacher=vae")
    with pytest.raises(ValueError, match=r"value_function\.teacher: None -> 'vae'"):
        train_iris(irises, *TINY, "value_function.teacher=vae")


def test_a_value_function_no_better_than_off_the_manifold_is_noted(
    irises: Path, copied: Copy, capsys: Said
) -> None:
    place = copied(irises, "classifier")
    metrics = train_iris(place, *TINY, "value_function.learning_rate=1e-9")
    (hint,) = metrics["hints"]
    assert f"its MSE is {metrics['mse']:.4g}" in hint
    assert f"Note: {hint}" in capsys.readouterr().out
    summary = explain(place, "data=iris", "estimator=exact", "instances=1", "compare=[]")
    assert summary["hints"] == [hint]
    made_by = explained(place, data="iris").made_by
    assert made_by["hints"] == [hint]
    assert made_by["quality"] == {
        "chosen": "surrogate",
        "mse": {
            "marginal": metrics["mse_off_manifold_debiased"],
            "surrogate": metrics["mse_debiased"],
        },
        "warning": hint,
    }
    assert train_iris(place, "value_function=marginal")["hints"] == []


# An amortised explainer beside its surrogate.


@pytest.fixture(scope="module")
def amortized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runs directory with a surrogate and its amortised explainer."""
    place = tmp_path_factory.mktemp("runs")
    train_iris(place, *TINY, *AMORTIZED)
    return place


def written(place: Path, name: str) -> int:
    return (place / "iris" / "surrogate" / f"{name}.ckpt").stat().st_mtime_ns


def test_an_amortised_explainer_is_trained_once_and_used(amortized: Path, capsys: Said) -> None:
    record = read(amortized, "iris", "surrogate", "metrics.json")["amortized"]
    assert 0 < record["relative_error"] < 5
    assert record["epochs"] == 1
    assert not list((amortized / "iris").glob("*partial"))
    train_iris(amortized, *TINY, *AMORTIZED)
    assert "amortized: already trained with these settings" in capsys.readouterr().out
    with pytest.raises(ValueError, match=r"amortised explainer of these .*max_epochs: 1 -> 2"):
        train_iris(amortized, *TINY, *AMORTIZED, "amortized.max_epochs=2")
    with pytest.raises(TypeError, match=r"\['surrogate', 'marginal'\]; compare=\[\] leaves"):
        explain(amortized, "data=iris", "estimator=amortized", "instances=3")
    with pytest.raises(ValueError, match="value_function=surrogate together with `amortized`"):
        train_iris(amortized, "value_function=marginal", *AMORTIZED)
    summary = explain(amortized, "data=iris", "estimator=amortized", "instances=3", "compare=[]")
    assert summary["estimator"] == "amortized"
    found = explained(amortized, data="iris")
    assert found.efficiency_gap < 1e-5
    assert found.made_by["relative_error"] == pytest.approx(record["relative_error"])


def test_streamed_amortised_values_come_with_an_audit(amortized: Path, capsys: Said) -> None:
    words = ["data=iris", "estimator=amortized", "instances=all", "compare=[]", "block=8"]
    summary = explain(amortized, *words)
    audit = explained(amortized, data="iris").audit
    assert audit is not None
    assert summary["audit"] == audit.summary
    # All of them, as there are fewer than 200.
    assert audit.rows == summary["instances"]
    assert audit.reference == "exact"
    assert repr(audit) in capsys.readouterr().out
    summary = explain(amortized, *words, "audit=0", "precision=auto")
    assert "audit" not in summary
    with pytest.raises(ValueError, match="`audit` to be a whole number of at least 0"):
        explain(amortized, *words, "audit=-1")


def test_an_interruption_after_the_training_loses_nothing(
    amortized: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    home = amortized / "iris" / "surrogate"
    words = [*TINY, *AMORTIZED, "amortized.max_epochs=3", "overwrite=true"]
    with monkeypatch.context() as patched:
        patched.setattr(ms.AmortizedExplainer, "measure", interrupt)
        with pytest.raises(KeyboardInterrupt):
            train_iris(amortized, *words)
    best = home.with_name("surrogate.amortized.partial") / "best.ckpt"
    trained = torch.load(best, weights_only=True)["state_dict"]
    train_iris(amortized, *words)
    assert "continuing an interrupted training" in capsys.readouterr().out
    kept = torch.load(home / "amortized.ckpt", weights_only=True)
    assert all(torch.equal(trained[key], kept["state_dict"][key]) for key in trained)
    record = read(home, "metrics.json")["amortized"]
    assert record["settings"]["max_epochs"] == 3
    assert record["relative_error"] == kept["relative_error"]
    assert not list(home.parent.glob("*.partial"))
