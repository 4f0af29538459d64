"""Curves of trainings, read back from what a logger of Lightning has written."""

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from lightning.pytorch.loggers import CSVLogger

from tests.training.test_loop import interrupted
from tests.training.test_task import fit, line

EPOCHS = {"max_epochs": 3, "batch_size": 32}


def of_csv(directory: Path, version: int = 0) -> pd.DataFrame:
    return pd.read_csv(directory / "logs" / "line" / f"version_{version}" / "metrics.csv")


def logged(directory: Path) -> dict[str, Any]:
    logger = CSVLogger(directory / "logs", "line")
    return {"directory": directory, "trainer": {"logger": logger}, **EPOCHS}


def test_a_csv_file_has_both_curves(tmp_path: Path) -> None:
    trained = fit(**logged(tmp_path))
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
    assert torch.equal(line(plain), line(fit(**logged(tmp_path))))


def test_a_continued_training_has_curves_of_its_own_that_count_on(
    tmp_path: Path,
) -> None:
    whole = fit(**logged(tmp_path / "whole"))
    steps = of_csv(tmp_path / "whole")["step"].max() + 1
    given = logged(tmp_path)
    given["trainer"]["limit_train_batches"] = 1.0
    interrupted(steps * 2 // 3 + 1, **given)
    continued = fit(**logged(tmp_path))
    assert torch.equal(line(continued), line(whole))
    expected = of_csv(tmp_path / "whole")["validation"].dropna().tolist()
    found = [of_csv(tmp_path, k)["validation"].dropna().tolist() for k in (0, 1)]
    assert found[0] + found[1] == pytest.approx(expected, rel=1e-6)
    assert of_csv(tmp_path, 1)["step"].min() >= steps * 2 // 3


def test_nothing_is_written_unless_it_is_asked_for(tmp_path: Path) -> None:
    fit(directory=tmp_path, **EPOCHS)
    assert not (tmp_path / "logs").exists()


def test_the_curve_of_a_training_that_diverged_ends_before(tmp_path: Path) -> None:
    given = {**logged(tmp_path), "learning_rate": 1e30, "schedule": "constant"}
    with pytest.raises(ValueError, match="diverged"):
        fit(**given)
    found = of_csv(tmp_path) if (tmp_path / "logs").exists() else pd.DataFrame({"training": []})
    assert all(math.isfinite(value) for value in found["training"].dropna())
