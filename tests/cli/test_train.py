"""Training by command: what is written, reused, refused, and left by an interruption."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import torch

import manifold_shap as ms
from manifold_shap.cli.directory import Directory, write_json
from manifold_shap.io.files import digest, load_checkpoint, remove, save_checkpoint
from tests.cli.commands import (
    CLASSIFIER,
    FOREST,
    QUICK,
    SHORT,
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
    curve = metrics["mse_by_size"]["surrogate"]
    assert len(curve["size"]) == len(curve["mse"]) == len(curve["standard_error"])
    assert (directory / "plots" / "mse_by_size.png").stat().st_size > 0
    assert (directory / "surrogate.ckpt").exists()
    assert not Directory(directory).work.exists()


def test_what_is_trained_is_reused_and_said(digits: Path, capsys: Said) -> None:
    checkpoint = digits / "digits" / "surrogate" / "surrogate.ckpt"
    before = checkpoint.stat().st_mtime_ns
    assert train(digits, *QUICK) == read(digits, "digits", "surrogate", "metrics.json")
    assert "already trained" in capsys.readouterr().out
    assert checkpoint.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("word", "error"),
    [
        ("overwrite=no", "`overwrite` to be true or false but got 'no'"),
        ("progress=no", "`progress` to be true or false but got 'no'"),
        ("value_function.zero_replacement=abc", "zero_replacement` to be a finite number"),
        ("value_function.title=[1]", r"`value_function.title` to be text but got \[1\]"),
    ],
)
def test_settings_that_cannot_be_are_refused(digits: Path, word: str, error: str) -> None:
    before = contents(digits)
    with pytest.raises((TypeError, ValueError), match=error):
        train(digits, *QUICK, "value_function.max_epochs=1", word)
    assert contents(digits) == before


def test_a_command_of_several_processes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match=r"one process of this command but 2 .* trainer.devices=2"):
        train_iris(tmp_path, "value_function=marginal")
    assert not list(tmp_path.iterdir())


def test_a_changed_value_function_is_refused_and_nothing_is_lost(digits: Path) -> None:
    checkpoint = digits / "digits" / "surrogate" / "surrogate.ckpt"
    before = checkpoint.read_bytes()
    with pytest.raises(ValueError, match=r"value_function.hidden: \[64\] -> \[32\].*overwrite"):
        train(digits, *QUICK, "value_function.hidden=[32]")
    assert checkpoint.read_bytes() == before


def test_overwriting_reuses_or_retrains_the_classifier(
    digits: Path, copied: Copy, capsys: Said
) -> None:
    place = copied(digits)
    train(place, *QUICK, *SHORT, "value_function.max_epochs=1", "overwrite=true")
    assert "classifier: reused" in capsys.readouterr().out
    train(place, *QUICK, *SHORT, "classifier.hidden=[32]", "overwrite=true")
    assert "settings changed (classifier.hidden: [64] -> [32])" in capsys.readouterr().out
    explain_digits(place)


def test_a_classifier_in_use_is_not_replaced_unasked(digits: Path) -> None:
    path = digits / "digits" / "classifier" / "model.ckpt"
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"for which surrogate in .* was trained"):
        train_classifier(digits, "classifier.hidden=[32]")
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["notes.txt", "plots/mine.png"])
def test_what_no_run_wrote_is_not_deleted(digits: Path, copied: Copy, name: str) -> None:
    place = copied(digits)
    notes = place / "digits" / "surrogate" / name
    notes.write_text("precious")
    with pytest.raises(ValueError, match=rf"nothing else, but it has {name}"):
        train(place, *QUICK, *SHORT, "overwrite=true")
    assert notes.read_text() == "precious"


def test_what_a_run_drew_is_replaced(digits: Path, copied: Copy) -> None:
    place = copied(digits)
    explain_digits(place)
    train(place, *QUICK, *SHORT, "value_function.max_epochs=1", "overwrite=true")
    names = {path.name for path in (place / "digits" / "surrogate" / "plots").iterdir()}
    assert names == {"mse_by_size.png"}


def test_what_an_interrupted_stream_left_does_not_block_a_training(tmp_path: Path) -> None:
    (tmp_path / "run" / ".explanations.zarr.partial").mkdir(parents=True)
    with Directory(tmp_path / "run").begin({"seed": 0}, overwrite=False) as work:
        assert work.exists()


def test_explanations_that_needed_no_training_stay(digits: Path, copied: Copy) -> None:
    place = copied(digits, "classifier")
    explain_digits(place, "value_function=marginal")
    train_classifier(place)
    directory = place / "digits" / "marginal"
    assert (directory / "metrics.json").exists()
    assert (directory / "plots" / "pixel_maps.png").exists()
    assert explained(place, "marginal").phi.shape == (2, 64, 10)


def test_a_failed_start_does_not_block_the_next(digits: Path, copied: Copy) -> None:
    place = copied(digits, "classifier")
    with pytest.raises(ValueError, match=r"at least 1 of them.*got \[\]"):
        train(place, *QUICK, *SHORT, "value_function.hidden=[]")
    with pytest.raises(ValueError, match="this machine can run"):
        train(place, *QUICK, *SHORT, "trainer.accelerator=tpu")
    train(place, *QUICK, *SHORT)


def test_a_training_that_diverged_is_in_no_way(digits: Path, copied: Copy) -> None:
    place = copied(digits, "classifier")
    with pytest.raises(ValueError, match="learning_rate"):
        train(place, *QUICK, "value_function.learning_rate=1e12")
    assert {path.name for path in (place / "digits").iterdir()} == {
        *("classifier", ".classifier.lock", ".surrogate.lock")
    }
    train(place, *QUICK, *SHORT)


def contents(place: Path) -> dict[str, bytes]:
    """Every file but locks, by its path."""
    files = [path for path in place.rglob("*") if path.is_file() and path.suffix != ".lock"]
    return {str(path): path.read_bytes() for path in files}


@pytest.mark.parametrize("bad", ["value_function.hidden=[]", "value_function.learning_rate=1e12"])
def test_what_fails_leaves_the_classifier_that_it_was_to_replace(
    digits: Path, copied: Copy, bad: str
) -> None:
    place = copied(digits)
    before = contents(place)
    with pytest.raises(ValueError, match=r"hidden|learning_rate"):
        train(place, *QUICK, *SHORT, "classifier.hidden=[32]", bad, "overwrite=true")
    assert contents(place) == before
    explain_digits(place)


def test_what_fails_leaves_an_interrupted_training_of_other_settings(
    digits: Path, copied: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = copied(digits, "classifier")
    with monkeypatch.context() as patched:
        patched.setattr("lightning.pytorch.Trainer.save_checkpoint", _saves_then_interrupts())
        with pytest.raises(KeyboardInterrupt):
            train(place, *QUICK, "value_function.max_epochs=4")
    before = contents(place)
    with pytest.raises(ValueError, match="hidden"):
        train(place, *QUICK, "value_function.hidden=[]", "overwrite=true")
    assert contents(place) == before


def test_an_interrupted_training_has_its_new_classifier(
    digits: Path, copied: Copy, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    place = copied(digits, "classifier")
    words = [*QUICK, *SHORT, "classifier.hidden=[32]", "overwrite=true"]
    with monkeypatch.context() as patched:
        patched.setattr("manifold_shap.cli.train._evaluate", interrupt)
        with pytest.raises(KeyboardInterrupt):
            train(place, *words)
    assert read(place, "digits", "classifier", "config.json")["classifier"]["hidden"] == [32]
    explain_digits(place)
    capsys.readouterr()
    train(place, *words)
    assert capsys.readouterr().out.startswith("classifier: reused")


@pytest.mark.parametrize("file", ["surrogate/surrogate.ckpt", "classifier/model.ckpt"])
def test_what_is_damaged_is_made_again(file: str, digits: Path, copied: Copy, capsys: Said) -> None:
    place = copied(digits)
    path = place / "digits" / file
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ValueError, match="damaged"):
        explain_digits(place)
    train(place, *QUICK, *SHORT, *(["overwrite=true"] if "classifier" in file else []))
    assert "damaged" in capsys.readouterr().out
    explain_digits(place)


def test_weights_of_another_training_are_not_those_of_the_record(
    digits: Path, copied: Copy, capsys: Said
) -> None:
    place = copied(digits)
    path = place / "digits" / "surrogate" / "surrogate.ckpt"
    other = load_checkpoint(path, "surrogate")
    other["state_dict"]["base"] += 1
    save_checkpoint(path, other)
    train(place, *QUICK, *SHORT)
    assert "are damaged, so it is trained again" in capsys.readouterr().out


def test_a_record_of_another_training_is_not_put_in_place(tmp_path: Path) -> None:
    directory = Directory(tmp_path / "run")
    with directory.begin({"seed": 0}, overwrite=False) as work:
        write_json(work / "config.json", {"seed": 1})
    with pytest.raises(ValueError, match=r"another one has written into it \(seed: 1 -> 0\)"):
        directory.finish({"seed": 0})
    assert not (tmp_path / "run").exists()


def test_no_space_in_mid_training_says_so(
    digits: Path, copied: Copy, full_disk: Callable[[], AbstractContextManager[None]]
) -> None:
    place = copied(digits, "classifier")
    with full_disk(), pytest.raises(OSError, match="Could not write"):
        train(place, *QUICK, *SHORT)
    assert not (place / "digits" / "surrogate").exists()
    train(place, *QUICK, *SHORT)


def test_a_classifier_that_was_all_but_done_is_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill right after its checkpoint has got its name leaves no training to be continued."""
    replace = Path.replace

    def cut_off(self: Path, target: Path) -> Path:
        replace(self, target)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", cut_off)
        with pytest.raises(KeyboardInterrupt):
            train_classifier(tmp_path, "data=iris")
    train_classifier(tmp_path, "data=iris")


def test_results_that_a_killed_command_was_replacing_are_back(tmp_path: Path) -> None:
    number = "0" * 32
    directory = Directory(tmp_path / "run")
    (tmp_path / f".run.{number}.old" / "explanations.zarr").mkdir(parents=True)
    with directory.locked():
        assert (tmp_path / "run" / "explanations.zarr").exists()
    # Explanations that needed no training are kept where the new results are in place already.
    (tmp_path / "run").rename(tmp_path / f".run.{number}.old")
    (tmp_path / "run" / "plots").mkdir(parents=True)
    (tmp_path / "run" / "plots" / f".bar.png.{number}").touch()
    write_json(tmp_path / "run" / "config.json", {"seed": 0})
    with directory.locked():
        found = {path.name for path in (tmp_path / "run").iterdir()}
        assert found == {"explanations.zarr", "config.json", "plots"}
        assert not list((tmp_path / "run" / "plots").iterdir())
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["run"]


def test_runs_that_cannot_be_written_say_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match=r"cannot.*runs_dir="):
        train(tmp_path / "file" / "runs", *QUICK)


def test_an_interrupted_training_serves_and_goes_on(
    digits: Path, copied: Copy, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = copied(digits, "classifier")
    words = [*QUICK, "value_function.max_epochs=4"]
    with monkeypatch.context() as patched:
        patched.setattr("lightning.pytorch.Trainer.save_checkpoint", _saves_then_interrupts())
        with pytest.raises(KeyboardInterrupt):
            train(place, *words)
    directory = place / "digits" / "surrogate"
    work = Directory(directory).work
    assert (work / "best.ckpt").exists()
    assert not directory.exists()
    capsys.readouterr()
    summary = explain(place, "instances=1", *QUICK_ORDERS)
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("Note: surrogate is half-trained")
    assert said[1] == "half-trained: surrogate"
    assert [line.endswith("half-trained") for line in said if line.startswith("surrogate ")] == [1]
    assert summary["half_trained"] == ["surrogate"]
    assert "half-trained" in summary["hints"][0]
    assert "half-trained" in explained(place, "surrogate.partial").made_by["hints"][0]
    train(place, *words)
    assert "continuing an interrupted training" in capsys.readouterr().out
    assert read(directory, "metrics.json")["epochs"] == 4
    assert not (directory / "explanations.zarr").exists()
    assert {path.name for path in (directory / "plots").iterdir()} == {"mse_by_size.png"}


@pytest.mark.parametrize("left", ["last.ckpt", "teacher.ckpt", "best.ckpt"])
def test_an_interruption_while_it_tidies_up_blocks_no_training(
    left: str, digits: Path, copied: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = copied(digits, "classifier")

    def stops(path: Path) -> None:
        if path.name == left:
            raise KeyboardInterrupt
        remove(path)

    with monkeypatch.context() as patched:
        patched.setattr("manifold_shap.cli.train.remove", stops)
        with pytest.raises(KeyboardInterrupt):
            train(place, *QUICK, *SHORT)
    train(place, *QUICK, *SHORT)
    here = place / "digits" / "surrogate"
    assert read(here, "metrics.json")["checkpoint"] == digest(
        (here / "surrogate.ckpt").read_bytes()
    )
    assert not {"best.ckpt", "last.ckpt"} & {path.name for path in here.iterdir()}
    assert not Directory(here).work.exists()


QUICK_ORDERS = ["estimator=permutation", "estimator.permutations=4"]


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
@pytest.mark.parametrize("teacher", ["vae", "gaussian"])
def test_a_surrogate_has_a_teacher(irises: Path, copied: Copy, teacher: str) -> None:
    place = copied(irises, "classifier", "vae")
    options = [f"value_function.teacher={teacher}", "value_function.teacher_pairs=64"]
    metrics = train_iris(place, *TINY, *options, "value_function.output=ilr")
    assert metrics["mse"] > 0
    directory = place / "iris" / "surrogate"
    checkpoint = load_checkpoint(directory / "surrogate.ckpt", "surrogate")
    assert checkpoint["hyper_parameters"]["teacher"]["value_function"] == teacher
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
    with pytest.raises(ValueError, match=r"would learn from itself; choose one of .*vae\."):
        train_iris(tmp_path, "value_function.teacher=surrogate")
    with pytest.raises(ValueError, match=r"one of \[.*'vae'\] but got 'nobody'"):
        train_iris(tmp_path, "value_function.teacher=nobody")
    with pytest.raises(FileNotFoundError, match="value_function=vae"):
        train_iris(tmp_path, "value_function.teacher=vae")
    with pytest.raises(ValueError, match=r"value_function\.teacher: None -> 'vae'"):
        train_iris(irises, *TINY, "value_function.teacher=vae")


def test_a_network_cannot_be_retrained(digits: Path, copied: Copy) -> None:
    with pytest.raises(ValueError, match="classifier=random_forest"):
        train(copied(digits, "classifier"), *CLASSIFIER, "value_function=retrained")


def test_outputs_of_a_classifier_are_no_plain_values(digits: Path, copied: Copy) -> None:
    place = copied(digits, "classifier")
    with pytest.raises(ValueError, match="regression model for output='identity'"):
        train_classifier(place, "value_function.output=identity")


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
    summary = explain(amortized, "data=iris", "estimator=amortized", "instances=3", "compare=[]")
    assert summary["estimator"] == "amortized"
    found = explained(amortized, data="iris")
    assert found.efficiency_gap < 1e-5
    assert found.made_by["relative_error"] == pytest.approx(record["relative_error"])


def test_an_amortised_explainer_compares_surrogates_alone(amortized: Path) -> None:
    with pytest.raises(TypeError, match=r"`compare` has \['marginal'\] besides; compare=\[\] l"):
        explain(amortized, "data=iris", "estimator=amortized", "instances=3")


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


def test_an_amortised_explainer_is_read_once_for_all_blocks(
    amortized: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from manifold_shap.cli import explain as command

    read, load = list[Any](), command.load_amortized

    def loaded(*given: Any) -> Any:
        read.append(given)
        return load(*given)

    monkeypatch.setattr(command, "load_amortized", loaded)
    words = ["data=iris", "estimator=amortized", "instances=all", "block=10", "compare=[]"]
    assert explain(amortized, *words)["instances"] == 30
    ((path, value),) = read
    found = explained(amortized, data="iris")
    alone = ms.amortized_shapley(value, found.x[10:20], explainer=path)
    torch.testing.assert_close(alone.phi, found.phi[10:20])


def test_only_a_surrogate_has_an_amortised_explainer(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"Expected a surrogate .* value_function=surrogate"):
        train(tmp_path, *CLASSIFIER, "value_function=marginal", *AMORTIZED)
    assert not list(tmp_path.rglob("*.ckpt"))


def test_an_amortised_explainer_has_to_be_trained(digits: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"train.py data=digits value_function=surrogate amortized=default"
    ):
        explain(digits, "estimator=amortized")


def test_a_new_amortised_explainer_leaves_its_surrogate_alone(amortized: Path) -> None:
    before = {name: written(amortized, name) for name in ("surrogate", "amortized")}
    train_iris(amortized, *TINY, *AMORTIZED, "amortized.max_epochs=2", "overwrite=true")
    assert written(amortized, "surrogate") == before["surrogate"]
    assert written(amortized, "amortized") > before["amortized"]
    assert read(amortized, "iris", "surrogate", "metrics.json")["amortized"]["epochs"] == 2


@pytest.mark.parametrize("name", ["measure", "save"])
def test_an_interruption_after_the_training_loses_nothing(
    amortized: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said, name: str
) -> None:
    home = amortized / "iris" / "surrogate"
    words = [*TINY, *AMORTIZED, "amortized.max_epochs=3", "overwrite=true"]
    with monkeypatch.context() as patched:
        patched.setattr(ms.AmortizedExplainer, name, interrupt)
        with pytest.raises(KeyboardInterrupt):
            train_iris(amortized, *words)
    best = home.with_name("surrogate.amortized.partial") / "best.ckpt"
    trained = torch.load(best, weights_only=True)["state_dict"]
    monkeypatch.setattr("manifold_shap.training.shell.Shell.training_step", interrupt)
    train_iris(amortized, *words)
    assert "continuing an interrupted training" in capsys.readouterr().out
    kept = torch.load(home / "amortized.ckpt", weights_only=True)
    assert all(torch.equal(trained[key], kept["state_dict"][key]) for key in trained)
    record = read(home, "metrics.json")["amortized"]
    assert record["settings"]["max_epochs"] == 3
    assert record["relative_error"] == kept["relative_error"]
    assert not list(home.parent.glob("*.partial"))


def test_a_new_amortised_explainer_never_stands_beside_the_record_of_an_old_one(
    amortized: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, words = amortized / "iris" / "surrogate", [*TINY, *AMORTIZED, "overwrite=true"]
    train_iris(amortized, *words)
    save: Callable[..., None] = ms.AmortizedExplainer.save

    def saved(*given: Any) -> None:
        save(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ms.AmortizedExplainer, "save", saved)
        with pytest.raises(KeyboardInterrupt):
            train_iris(amortized, *words, "amortized.max_epochs=2")
    metrics = read(home, "metrics.json")
    assert "amortized" not in metrics
    assert "mse" in metrics
    with pytest.raises(ValueError, match=r"max_epochs: 2 -> 1\). Give overwrite=true"):
        train_iris(amortized, *TINY, *AMORTIZED)
    train_iris(amortized, *words)
    assert read(home, "metrics.json")["amortized"]["epochs"] == 1


def test_what_is_left_of_another_surrogate_is_in_no_way(
    amortized: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(ms.AmortizedExplainer, "measure", interrupt)
        with pytest.raises(KeyboardInterrupt):
            train_iris(amortized, *TINY, *AMORTIZED, "overwrite=true")
    train_iris(amortized, *TINY, "value_function.max_epochs=3", "overwrite=true")
    train_iris(amortized, *TINY, *AMORTIZED, "value_function.max_epochs=3")
    assert "continuing" not in capsys.readouterr().out


def test_a_surrogate_of_other_settings_is_replaced_with_its_amortised_explainer(
    amortized: Path,
) -> None:
    before = {name: written(amortized, name) for name in ("surrogate", "amortized")}
    train_iris(amortized, *TINY, *AMORTIZED, "value_function.max_epochs=2", "overwrite=true")
    assert all(written(amortized, name) > before[name] for name in before)


def test_alone_the_surrogate_is_what_is_trained_again(amortized: Path) -> None:
    before = written(amortized, "surrogate")
    train_iris(amortized, *TINY, "overwrite=true")
    assert written(amortized, "surrogate") > before
    assert not (amortized / "iris" / "surrogate" / "amortized.ckpt").exists()
