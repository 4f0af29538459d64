"""Wiring: every configuration composes, and the two commands run end to end on digits."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import hydra
import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

import explain as explain_command
import manifold_shap as ms
import train as train_command
from manifold_shap.cli import directories
from manifold_shap.cli import explain as steps
from manifold_shap.data.base import TensorDataModule
from manifold_shap.training.classifier import MLPClassifier

CONF = Path(__file__).parents[2] / "conf"
QUICK_CLASSIFIER = ["classifier.hidden=[64]", "classifier.max_epochs=2", "progress=false"]
QUICK = [*QUICK_CLASSIFIER, "value_function.hidden=[64]", "value_function.max_epochs=2"]
ORDERS = ["estimator=permutation", "estimator.permutations=4"]
QUICK_EXPLAIN = ["instances=2", *ORDERS, "progress=false"]


def composed(command: str, *overrides: str) -> DictConfig:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose(command, [*overrides])


def train(place: Path, *overrides: str) -> float:
    return train_command.train(composed("train", f"runs_dir={place}", *QUICK, *overrides))


def train_classifier(place: Path, *overrides: str) -> None:
    words = [f"runs_dir={place}", *QUICK_CLASSIFIER, "value_function=marginal", *overrides]
    train_command.train(composed("train", *words))


def explain(place: Path, *overrides: str) -> dict:
    config = composed("explain", f"runs_dir={place}", *QUICK_EXPLAIN, *overrides)
    given = [override.split("=")[0] for override in overrides]
    return explain_command.explain(config, given)


def options(group: str) -> list[str]:
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runs directory with a classifier and a surrogate for digits."""
    place = tmp_path_factory.mktemp("runs")
    train(place)
    return place


@pytest.mark.parametrize("name", options("data"))
def test_every_data_configuration_makes_a_data_module(name: str) -> None:
    needed = ["data.path=table.csv", "data.target=label"] if name == "csv" else []
    config = composed("train", f"data={name}", *needed)
    assert isinstance(hydra.utils.instantiate(config.data), TensorDataModule)
    assert config.data.name == name


@pytest.mark.parametrize("name", options("classifier"))
def test_every_classifier_configuration_makes_a_recipe(name: str) -> None:
    recipe = hydra.utils.instantiate(composed("train", f"classifier={name}").classifier)
    assert isinstance(recipe, MLPClassifier) or hasattr(recipe, "predict_proba")


@pytest.mark.parametrize("group", ["value_function", "estimator", "trainer", "experiment"])
def test_every_other_configuration_composes(group: str) -> None:
    command = "explain" if group == "estimator" else "train"
    for name in options(group):
        assert composed(command, f"{group}={name}")


def test_drug_is_explained_for_a_forest_unless_told_otherwise() -> None:
    target = "sklearn.ensemble.RandomForestClassifier"
    assert composed("train", "data=drug").classifier._target_ == target
    assert composed("train", "data=drug").classifier.max_features is None
    assert composed("train", "data=drug", "classifier=mlp").classifier._target_ != target


def test_training_writes_what_it_promises(trained: Path) -> None:
    directory = trained / "digits" / "surrogate"
    metrics = json.loads((directory / "metrics.json").read_text())
    assert metrics["mse"] < metrics["mse_off_manifold"]
    assert metrics["mse_standard_error"] > 0
    assert metrics["epochs"] == 2
    assert metrics["train_seconds"] > 0
    assert metrics["classifier_accuracy"] > 0.8
    curve = metrics["mse_by_size"]["surrogate"]
    assert len(curve["size"]) == len(curve["mse"]) == len(curve["standard_error"])
    assert (directory / "plots" / "mse_by_size.png").stat().st_size > 0
    assert (directory / "surrogate.ckpt").exists()
    assert not directories.partial(directory).exists()


def test_explaining_writes_what_it_promises(trained: Path) -> None:
    summary = explain(trained)
    directory = trained / "digits" / "surrogate"
    assert summary == json.loads((directory / "summary.json").read_text())
    assert (summary["instances"], summary["players"], summary["outputs"]) == (2, 64, 10)
    assert summary["efficiency_gap"] < 1e-5
    assert summary["largest_standard_error"] > 0
    assert summary["rows_per_second"] == pytest.approx(2 * 4 * 63 / summary["seconds"])
    assert (directory / "plots" / "pixel_maps.png").stat().st_size > 0
    explanation = ms.Explanation.load(directory / "explanations.zarr")
    assert explanation.phi.shape == (2, 64, 10)
    assert explanation.made_by["permutations"] == 4


def test_an_estimator_is_picked_and_named(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"runs_dir={trained}", "instances=2", "compare=[]", "progress=false"]
    summary = explain_command.explain(composed("explain", *words), [])
    directory = trained / "digits" / "surrogate"
    picked = ms.Explanation.load(directory / "explanations.zarr").made_by["auto"]
    assert picked.startswith("coalition: contributions of all 64 players at once")
    assert json.loads((directory / "summary.json").read_text())["estimator"] == picked
    assert f"{summary['seconds']:.1f} s for surrogate ({picked})" in capsys.readouterr().out
    assert explain(trained, "compare=[]")["estimator"] == "permutation"


@pytest.mark.parametrize("name", ["coalition", "kernel", "sample_reuse"])
def test_an_ordering_is_for_estimators_that_can_restrict_permutations(
    tmp_path: Path, name: str
) -> None:
    # Before anything is opened: there is no run.
    words = [f"runs_dir={tmp_path}", f"estimator={name}", "ordering=[[a],[b]]"]
    with pytest.raises(ValueError, match=rf"got {name}_shapley; choose estimator=auto, exact, "):
        explain_command.explain(composed("explain", *words), ["estimator", "ordering"])
    causal = [*words, "asymmetric=false", "confounding=[true,false]"]
    with pytest.raises(FileNotFoundError):
        explain_command.explain(composed("explain", *causal), [])


@pytest.mark.parametrize("name", ["auto", "exact", "permutation", "adaptive"])
def test_estimators_that_can_restrict_permutations_take_an_ordering(
    tmp_path: Path, name: str
) -> None:
    words = [f"runs_dir={tmp_path}", f"estimator={name}", "ordering=[[a],[b]]"]
    with pytest.raises(FileNotFoundError):
        explain_command.explain(composed("explain", *words), [])


def test_chosen_rows_are_the_rows_explained(trained: Path) -> None:
    explain(trained, "instances=[7,3]", "compare=[]")
    explanation = ms.Explanation.load(trained / "digits" / "surrogate" / "explanations.zarr")
    data = hydra.utils.instantiate(composed("train").data)
    data.setup()
    assert explanation.instances == (7, 3)
    assert torch.equal(explanation.x, data.x_test[[7, 3]])


def test_what_is_trained_is_reused_and_said(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = trained / "digits" / "surrogate" / "surrogate.ckpt"
    before = checkpoint.stat().st_mtime_ns
    train(trained)
    assert "already trained" in capsys.readouterr().out
    assert checkpoint.stat().st_mtime_ns == before


def test_a_changed_value_function_is_refused_and_nothing_is_lost(trained: Path) -> None:
    checkpoint = trained / "digits" / "surrogate" / "surrogate.ckpt"
    before = checkpoint.read_bytes()
    with pytest.raises(ValueError, match=r"value_function.hidden: \[64\] -> \[32\].*overwrite"):
        train(trained, "value_function.hidden=[32]")
    assert checkpoint.read_bytes() == before


def test_overwriting_reuses_or_retrains_the_classifier(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(tmp_path)
    train(tmp_path, "value_function.max_epochs=1", "overwrite=true")
    assert "classifier: reused" in capsys.readouterr().out
    train(tmp_path, "classifier.hidden=[32]", "overwrite=true")
    said = capsys.readouterr().out
    assert "settings changed (classifier.hidden: [64] -> [32])" in said
    explain(tmp_path, "compare=[]")


def test_a_value_function_of_another_classifier_is_refused(trained: Path, tmp_path: Path) -> None:
    # Well trained, so that it agrees with the other one on most rows.
    train_classifier(tmp_path, "classifier.max_epochs=6", "seed=1")
    checkpoint = tmp_path / "surrogate.ckpt"
    shutil.copy(trained / "digits" / "surrogate" / "surrogate.ckpt", checkpoint)
    with pytest.raises(ValueError, match="predicts otherwise"):
        explain(tmp_path, f"checkpoint={checkpoint}")


def test_a_classifier_in_use_is_not_replaced_unasked(trained: Path) -> None:
    path = trained / "digits" / "classifier" / "model.ckpt"
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"for which surrogate in .* was trained"):
        train_classifier(trained, "classifier.hidden=[32]")
    assert path.read_bytes() == before


def test_what_no_run_wrote_is_not_deleted(tmp_path: Path) -> None:
    train(tmp_path)
    notes = tmp_path / "digits" / "surrogate" / "notes.txt"
    notes.write_text("precious")
    with pytest.raises(ValueError, match=r"nothing else, but it has notes.txt"):
        train(tmp_path, "overwrite=true")
    assert notes.read_text() == "precious"


def test_what_an_interrupted_stream_left_does_not_block_a_training(tmp_path: Path) -> None:
    (tmp_path / "run" / ".explanations.zarr.partial").mkdir(parents=True)
    assert directories.begin(tmp_path / "run", {}, overwrite=False).exists()


def test_explanations_that_needed_no_training_stay(tmp_path: Path) -> None:
    train(tmp_path)
    explain(tmp_path, "value_function=marginal", "compare=[]")
    train_classifier(tmp_path)
    directory = tmp_path / "digits" / "marginal"
    assert (directory / "metrics.json").exists()
    assert (directory / "plots" / "pixel_maps.png").exists()
    ms.Explanation.load(directory / "explanations.zarr")


def test_a_failed_start_does_not_block_the_next(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"at least 1 of them.*got \[\]"):
        train(tmp_path, "value_function.hidden=[]")
    with pytest.raises(ValueError, match="this machine can run"):
        train(tmp_path, "trainer.accelerator=tpu")
    train(tmp_path)


@pytest.mark.parametrize("file", ["surrogate/surrogate.ckpt", "classifier/model.ckpt"])
def test_what_is_damaged_is_made_again(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(tmp_path)
    path = tmp_path / "digits" / file
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ValueError, match="damaged"):
        explain(tmp_path)
    train(tmp_path, *(["overwrite=true"] if "classifier" in file else []))
    assert "damaged" in capsys.readouterr().out
    explain(tmp_path, "compare=[]")


def test_a_checkpoint_for_other_data_is_refused(trained: Path, tmp_path: Path) -> None:
    train_classifier(tmp_path, "data=iris")
    checkpoint = tmp_path / "surrogate.ckpt"
    shutil.copy(trained / "digits" / "surrogate" / "surrogate.ckpt", checkpoint)
    with pytest.raises(ValueError, match=r"a model for rows of shape \(1, 8, 8\)"):
        explain(tmp_path, "data=iris", f"checkpoint={checkpoint}")


def test_unknown_errors_are_null_in_the_summary(trained: Path) -> None:
    explain(trained, "estimator.permutations=2", "compare=[]")
    text = (trained / "digits" / "surrogate" / "summary.json").read_text()
    assert json.loads(text)["largest_standard_error"] is None


def test_a_device_that_is_not_there_is_refused(trained: Path) -> None:
    with pytest.raises(ValueError, match=r"`device` to be cpu, auto, or cuda .* got 'warp'"):
        explain(trained, "device=warp")


def test_a_checkpoint_of_nothing_is_refused(trained: Path) -> None:
    with pytest.raises(ValueError, match="value_function=marginal has none"):
        explain(trained, "value_function=marginal", "checkpoint=some.ckpt")


def test_no_space_in_mid_training_says_so(
    tmp_path: Path, full_disk: Callable[[], AbstractContextManager[None]]
) -> None:
    train_classifier(tmp_path)
    with full_disk(), pytest.raises(OSError, match="Could not write"):
        train(tmp_path)
    assert not (tmp_path / "digits" / "surrogate").exists()
    train(tmp_path)


def test_settings_that_disagree_with_the_run_are_refused(trained: Path) -> None:
    with pytest.raises(ValueError, match=r"value_function\.output: 'probability' -> 'ilr'"):
        explain(trained, "value_function.output=ilr")
    with pytest.raises(ValueError, match=r"data.test: 0.2 -> 0.3"):
        explain(trained, "data.test=0.3")


def test_explaining_before_training_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"python train.py data=digits"):
        explain(tmp_path)
    train_classifier(tmp_path)
    with pytest.raises(FileNotFoundError, match="value_function=surrogate"):
        explain(tmp_path)


def test_rows_that_are_not_there_are_refused(trained: Path) -> None:
    with pytest.raises(ValueError, match=r"from 0 to 358, but got \[359\]"):
        explain(trained, "instances=[359]")
    with pytest.raises(ValueError, match="a count from 1 to 359"):
        explain(trained, "instances=0")


def test_an_unknown_comparison_is_refused(trained: Path) -> None:
    with pytest.raises(ValueError, match=r"among \['baseline', .*\] but got 'gausian'"):
        explain(trained, "compare=[gausian]")


def test_a_failed_explanation_leaves_the_earlier_one(trained: Path) -> None:
    directory = trained / "digits" / "surrogate"
    explain(trained, "compare=[]")
    before = (directory / "summary.json").read_bytes()
    with pytest.raises(ValueError, match="at most 16 players"):
        explain_command.explain(
            composed("explain", f"runs_dir={trained}", "estimator=exact", "progress=false"), []
        )
    assert (directory / "summary.json").read_bytes() == before
    assert ms.Explanation.load(directory / "explanations.zarr").phi.shape == (2, 64, 10)


def test_runs_that_cannot_be_written_say_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match=r"cannot.*runs_dir="):
        train(tmp_path / "file" / "runs")


def test_a_recorded_configuration_cannot_name_a_class(trained: Path, tmp_path: Path) -> None:
    home = tmp_path / "digits" / "classifier"
    home.mkdir(parents=True)
    config = json.loads((trained / "digits" / "classifier" / "config.json").read_text())
    config["data"]["_target_"] = "os.system"
    (home / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"data\._target_"):
        explain(tmp_path)
    config["data"]["_target_"] = "manifold_shap.data.Digits"
    planted = tmp_path / "planted"
    config["data"]["name"] = {"_target_": "pathlib.Path.touch", "_args_": [str(planted)]}
    (home / "config.json").write_text(json.dumps(config))
    with pytest.raises((ValueError, TypeError, FileNotFoundError)):
        explain(tmp_path)
    assert not planted.exists()


def test_a_forest_on_a_table_of_ones_own(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    lines = ["age,income,colour,bought"]
    for k in range(200):
        age = int(torch.randint(20, 60, (), generator=generator))
        colour = ("red", "green", "blue")[k % 3]
        lines.append(f"{age},{age * 1.5 + k % 7},{colour},{'yes' if age + k % 9 > 42 else 'no'}")
    (tmp_path / "table.csv").write_text("\n".join(lines))
    table = ["data=csv", f"data.path={tmp_path / 'table.csv'}", "data.target=bought"]
    place = f"runs_dir={tmp_path}"
    quick = ["value_function.hidden=[32]", "value_function.max_epochs=2", "progress=false"]
    train_command.train(composed("train", place, *table, "classifier=random_forest", *quick))
    # The second command needs no paths.
    config = composed("explain", place, "data=csv", "estimator=exact", "progress=false")
    summary = explain_command.explain(config, [])
    assert summary["players"] == 3
    plots = {path.name for path in (tmp_path / "csv" / "surrogate" / "plots").iterdir()}
    assert {"bars_0.png", "bars_1.png", "summary.png", "mse_by_size.png"} <= plots
    explanation = ms.Explanation.load(tmp_path / "csv" / "surrogate" / "explanations.zarr")
    assert set(explanation.features()["colour"]) <= {"red", "green", "blue"}


@pytest.mark.parametrize("output", ["ilr", "log_odds"])
def test_log_ratio_outputs_from_end_to_end(tmp_path: Path, output: str) -> None:
    data = "data=digits" if output == "ilr" else "data=csv"
    rows = [f"{k % 7},{k % 11},{'ab'[(k % 7) > 3]}" for k in range(300)]
    (tmp_path / "table.csv").write_text("\n".join(["p,q,label", *rows]))
    table = [f"data.path={tmp_path / 'table.csv'}", "data.target=label"]
    train(tmp_path, data, f"value_function.output={output}", *(table if data[5:] == "csv" else []))
    explain(tmp_path, data, f"value_function.output={output}")
    (store,) = tmp_path.rglob("explanations.zarr")
    explanation = ms.Explanation.load(store)
    assert explanation.space == output
    assert explanation.efficiency_gap < 1e-5
    assert explanation.phi.shape[-1] == (9 if output == "ilr" else 1)


def command(*words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=CONF.parent,
        capture_output=True,
        text=True,
        env={**os.environ, **settings},
        timeout=120,
    )


def test_the_commands_on_the_command_line(tmp_path: Path) -> None:
    place = f"runs_dir={tmp_path}"
    rates = "value_function.learning_rate=1e-3,1e-4"
    sweep = command("train.py", "-m", place, *QUICK, rates, "seed=0,1")
    assert sweep.returncode == 0, sweep.stderr
    jobs = sorted(path.parent.name for path in tmp_path.rglob("metrics.json"))
    assert "value_function.learning_rate-0.001" in " ".join(jobs)
    checkpoints = sorted(tmp_path.rglob("surrogate.ckpt"))
    assert len(checkpoints) == 4
    # Of the second seed, whose classifier is another one.
    checkpoint = checkpoints[-1]
    explained = command("explain.py", place, f"checkpoint='{checkpoint}'", *QUICK_EXPLAIN)
    assert explained.returncode == 0, explained.stderr
    assert (checkpoint.parent / "summary.json").exists()


def test_errors_on_the_command_line_are_one_line(tmp_path: Path) -> None:
    failed = command("explain.py", f"runs_dir={tmp_path}")
    assert failed.returncode == 1
    assert failed.stderr.startswith("FileNotFoundError: Expected a trained classifier")
    assert "Traceback" not in failed.stderr


def test_warnings_on_the_command_line_are_one_line(tmp_path: Path) -> None:
    words = ["data=iris", f"runs_dir={tmp_path}", "value_function=marginal", "progress=false"]
    forest = ["classifier=random_forest", "classifier.n_estimators=2", "value_function.output=ilr"]
    trained = command("train.py", *words, *forest)
    explained = command("explain.py", *words, "compare=[]", "instances=1")
    for done in (trained, explained):
        assert done.returncode == 0, done.stderr
        (line,) = [line for line in done.stderr.splitlines() if "are exactly zero" in line]
        assert line.startswith("Warning: ")
        assert ".py:" not in done.stderr


@pytest.mark.parametrize("script", ["train.py", "explain.py"])
def test_help_is_worth_reading(script: str) -> None:
    shown = command(script, "--help")
    assert shown.returncode == 0
    assert f"python {script} data=mnist" in shown.stdout
    assert "What is written" in shown.stdout


def test_interrupted_training_stays_usable_and_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = f"runs_dir={tmp_path}"
    words = [place, *QUICK[:-1], "value_function.max_epochs=8"]
    process = subprocess.Popen(
        [sys.executable, "train.py", *words], cwd=CONF.parent, text=True, stdout=subprocess.PIPE
    )
    work = tmp_path / "digits" / "surrogate.partial"
    deadline = time.monotonic() + 90
    while not (work / "last.ckpt").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    (line,) = [line for line in said.splitlines() if line.startswith("Interrupted")]
    assert "What was finished is kept" in line
    assert "surrogate" not in line
    assert (work / "best.ckpt").exists()
    assert not (tmp_path / "digits" / "surrogate").exists()
    explain(tmp_path, "compare=[]")
    assert "training was interrupted" in capsys.readouterr().out
    train(tmp_path, *words[1:])
    assert "going on with an interrupted training" in capsys.readouterr().out
    directory = tmp_path / "digits" / "surrogate"
    assert json.loads((directory / "metrics.json").read_text())["epochs"] > 1
    assert not (directory / "explanations.zarr").exists()


def test_precision_is_that_of_a_surrogate(trained: Path) -> None:
    explain(trained, "compare=[]", "precision=bf16-mixed")
    explanation = ms.Explanation.load(trained / "digits" / "surrogate" / "explanations.zarr")
    assert explanation.made_by["precision"] == "bf16-mixed"
    with pytest.raises(ValueError, match="Expected a surrogate for precision=bf16-mixed"):
        explain(trained, "value_function=marginal", "compare=[]", "precision=bf16-mixed")


def contents(store: Path) -> dict[str, bytes]:
    """Every file of a directory, by its name in it."""
    files = [path for path in sorted(store.rglob("*")) if path.is_file()]
    return {str(path.relative_to(store)): path.read_bytes() for path in files}


def test_many_rows_are_streamed_and_the_first_of_them_shown(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = explain(trained, "instances=all", "block=150")
    directory = trained / "digits" / "surrogate"
    assert summary == json.loads((directory / "summary.json").read_text())
    assert summary["instances"] == 359
    assert summary["instances_resumed"] == 0
    assert summary["instances_per_second"] == pytest.approx(359 / summary["seconds"])
    assert summary["efficiency_gap"] < 1e-5
    assert "349 more rows" in capsys.readouterr().out
    assert set(summary["compared"]) == {"surrogate", "marginal"}
    explanation = ms.Explanation.load(directory / "explanations.zarr")
    assert explanation.phi.shape == (359, 64, 10)
    assert explanation.made_by["settings"]["name"] == "surrogate"
    largest = explanation.standard_error.max().item()
    assert summary["largest_standard_error"] == pytest.approx(largest)


# Three starts of the interpreter; two processes are in tests/test_streaming.py, too.
@pytest.mark.slow
def test_two_processes_on_the_command_line_write_what_one_does(trained: Path) -> None:
    store = trained / "digits" / "surrogate" / "explanations.zarr"
    words = [f"runs_dir={trained}", *QUICK_EXPLAIN, "instances=40", "block=8", "compare=[]"]
    alone = command("explain.py", *words, OMP_NUM_THREADS="1")
    assert alone.returncode == 0, alone.stderr
    before = contents(store)
    shutil.rmtree(store)
    both = command("explain.py", *words, "trainer.devices=2", OMP_NUM_THREADS="1")
    assert both.returncode == 0, both.stderr
    assert contents(store) == before
    assert both.stdout.count("results and plots in") == 1


def test_an_interrupted_stream_is_gone_on_with(trained: Path) -> None:
    directory = trained / "digits" / "surrogate"
    partial = directory / ".explanations.zarr.partial"
    words = [f"runs_dir={trained}", *QUICK_EXPLAIN, "instances=all", "block=8", "compare=[]"]
    words.append("estimator.permutations=32")
    process = subprocess.Popen(
        [sys.executable, "explain.py", *words], cwd=CONF.parent, text=True, stdout=subprocess.PIPE
    )
    deadline = time.monotonic() + 90
    while not list(partial.glob("done/*.json")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "of 359 rows are kept" in said
    assert "resume=True goes on" in said
    with pytest.raises(ValueError, match=r"interrupted call.*differ: permutations"):
        explain(trained, *words[5:], "estimator.permutations=16", "resume=true")
    summary = explain(trained, *words[5:], "resume=true")
    assert 0 < summary["instances_resumed"] < 359
    assert not partial.exists()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("block=0", "`block` to be an integer of at least 1 but got 0"),
        ("trainer.devices=0", "`trainer` settings that Lightning"),
        ("seed=9223372036854775808", "`seed` to be an integer from"),
    ],
)
def test_settings_of_many_rows_are_refused_before_any_is_explained(
    trained: Path, monkeypatch: pytest.MonkeyPatch, setting: str, message: str
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("Something was explained.")

    monkeypatch.setattr(steps, "_each", never)
    with pytest.raises(ValueError, match=message):
        explain(trained, "instances=all", "block=150", setting)


def test_no_block_at_all_is_refused_in_one_line(trained: Path) -> None:
    done = command("explain.py", f"runs_dir={trained}", *QUICK_EXPLAIN, "block=null")
    assert done.returncode == 1
    assert "ValueError: Expected `block` to be an integer of at least 1 but got None" in done.stderr
    assert "Traceback" not in done.stderr


def test_settings_without_effect_on_few_rows_are_named(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    explain(trained, "compare=[]", "trainer.devices=2", "resume=true")
    said = "No effect of trainer.devices=2 and resume=true: 2 rows fit one block of 1024"
    assert said in capsys.readouterr().out
    explain(trained, "compare=[]")
    assert "No effect" not in capsys.readouterr().out
