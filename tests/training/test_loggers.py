"""Curves of trainings, read back from what each logger has written."""

import math
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from lightning.pytorch.loggers import CSVLogger

import manifold_shap as ms
from tests.training.test_loop import interrupted
from tests.training.test_task import fit, line

EPOCHS = {"max_epochs": 3, "batch_size": 32}


def of_csv(directory: Path, version: int = 0) -> pd.DataFrame:
    return pd.read_csv(directory / "logs" / "line" / f"version_{version}" / "metrics.csv")


def of_tensorboard(directory: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(directory / "logs" / "line" / "version_0")).Reload()
    return {
        name: [(each.step, each.value) for each in events.Scalars(name)]
        for name in events.Tags()["scalars"]
    }


def test_a_csv_file_has_both_curves(tmp_path: Path) -> None:
    trained = fit(directory=tmp_path, trainer={"logger": "csv"}, **EPOCHS)
    curves = of_csv(tmp_path)
    validation = curves["validation"].dropna()
    assert len(validation) == 3
    assert trained.record["validation"] == pytest.approx(validation.iloc[-1], rel=1e-6)
    training = curves.dropna(subset="training")
    assert training["step"].is_monotonic_increasing
    assert len(training) >= 3
    assert training["training"].iloc[-1] < training["training"].iloc[0]


def test_curves_change_nothing_of_a_training(tmp_path: Path) -> None:
    plain = fit(trainer={}, **EPOCHS)
    logged = fit(directory=tmp_path, trainer={"logger": "csv"}, **EPOCHS)
    assert torch.equal(line(plain), line(logged))


def test_a_continued_training_has_curves_of_its_own_that_count_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"directory": tmp_path, "trainer": {"logger": "csv"}, **EPOCHS}
    whole = fit(directory=tmp_path / "whole", trainer={"logger": "csv"}, **EPOCHS)
    steps = of_csv(tmp_path / "whole")["step"].max() + 1
    interrupted(monkeypatch, steps * 2 // 3 + 1, **given)
    continued = fit(**given)
    assert torch.equal(line(continued), line(whole))
    expected = of_csv(tmp_path / "whole")["validation"].dropna().tolist()
    found = [of_csv(tmp_path, k)["validation"].dropna().tolist() for k in (0, 1)]
    assert found[0] + found[1] == pytest.approx(expected, rel=1e-6)
    assert of_csv(tmp_path, 1)["step"].min() >= steps * 2 // 3


def test_tensorboard_reads_both_curves(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    fit(directory=tmp_path / "csv", trainer={"logger": "csv"}, **EPOCHS)
    fit(directory=tmp_path, trainer={"logger": "tensorboard"}, **EPOCHS)
    curves, expected = of_tensorboard(tmp_path), of_csv(tmp_path / "csv")
    for name in ("training", "validation"):
        found = expected.dropna(subset=name)
        assert [step for step, _ in curves[name]] == found["step"].tolist()
        assert [value for _, value in curves[name]] == pytest.approx(found[name].tolist(), 1e-5)


@pytest.mark.slow  # mlflow takes ten seconds to import and to make its tables.
@pytest.mark.filterwarnings("ignore")  # Of mlflow, of its server and of its tables.
def test_mlflow_reads_both_curves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    fit(directory=tmp_path / "csv", trainer={"logger": "csv"}, **EPOCHS)
    fit(directory=tmp_path, trainer={"logger": "mlflow"}, **EPOCHS)
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path / 'logs' / 'mlflow.db'}")
    (run,) = client.search_runs([client.get_experiment_by_name("line").experiment_id])
    expected = of_csv(tmp_path / "csv")
    for name in ("training", "validation"):
        found = [each.value for each in client.get_metric_history(run.info.run_id, name)]
        assert found == pytest.approx(expected[name].dropna().tolist(), rel=1e-5)


def test_a_logger_of_lightning_is_taken_as_it_is(tmp_path: Path) -> None:
    fit(trainer={"logger": CSVLogger(tmp_path, "mine"), "log_every_n_steps": 1}, **EPOCHS)
    assert (tmp_path / "mine" / "version_0" / "metrics.csv").exists()


def test_nothing_is_written_unless_it_is_asked_for(tmp_path: Path) -> None:
    fit(directory=tmp_path, **EPOCHS)
    assert not (tmp_path / "logs").exists()


def test_the_curve_of_a_training_that_diverged_ends_before(tmp_path: Path) -> None:
    given = {**EPOCHS, "learning_rate": 1e30, "schedule": "constant"}
    with pytest.raises(ms._messages.UnfitError, match="diverged"):
        fit(directory=tmp_path, trainer={"logger": "csv"}, **given)
    found = of_csv(tmp_path) if (tmp_path / "logs").exists() else pd.DataFrame({"training": []})
    assert all(math.isfinite(value) for value in found["training"].dropna())


@pytest.mark.parametrize(
    ("settings", "error", "says"),
    [
        ({"trainer": {"logger": "tensorbord"}}, ValueError, r"'csv', 'tensorboard', 'mlflow'\]"),
        ({"trainer": {"logger": "csv"}, "directory": None}, ValueError, "a `directory` for the cu"),
    ],
)
def test_bad_settings(
    settings: dict[str, Any], error: type[Exception], says: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=says):
        fit(**{"directory": tmp_path, **EPOCHS, **settings})


@pytest.mark.parametrize("name", ["tensorboard", "mlflow"])
def test_a_missing_package_is_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(*_: Any, **__: Any) -> None:
        raise ModuleNotFoundError(f"No module named '{name}'")

    monkeypatch.setattr(f"manifold_shap.training.loggers.{_CLASSES[name]}", absent)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=rf"pip install 'manifold_shap\[{name}\]'"):
        fit(directory=tmp_path, trainer={"logger": name}, **EPOCHS)


_CLASSES = {"tensorboard": "TensorBoardLogger", "mlflow": "MLFlowLogger"}
