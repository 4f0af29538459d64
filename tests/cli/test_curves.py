"""Curves of trainings that a command has run."""

from pathlib import Path

import pandas as pd
import pytest

from tests.cli.commands import QUICK, SHORT, train

LOGGED = "trainer.logger=csv"
AMORTIZED = ["amortized=default", "amortized.max_epochs=1", "amortized.hidden=[16]"]


def curves(place: Path) -> pd.DataFrame:
    return pd.read_csv(place / "version_0" / "metrics.csv")


def test_they_lie_beside_what_was_trained_and_go_with_it(tmp_path: Path) -> None:
    home = tmp_path / "digits"
    train(tmp_path, *QUICK, *SHORT, LOGGED)
    for name in ("classifier", "surrogate"):
        found = curves(home / name / "logs" / name)
        assert {"training", "validation", "epoch", "step"} <= set(found)
        assert len(found["validation"].dropna()) == 2
    train(tmp_path, *QUICK, *SHORT, LOGGED, *AMORTIZED)
    assert len(curves(home / "surrogate" / "amortized_logs" / "explainer")["validation"]) >= 1
    assert (home / "surrogate" / "logs").exists()
    # They are the run's own, and in nobody's way.
    train(tmp_path, *QUICK, *SHORT, "overwrite=true")
    assert not (home / "surrogate" / "logs").exists()
    assert not (home / "surrogate" / "amortized_logs").exists()


def test_they_stay_where_only_scores_are_new(tmp_path: Path) -> None:
    quick = ["value_function=vae", "value_function.max_epochs=1", "value_function.latent=2"]
    quick = [*quick, "value_function.hidden=[16]", "data=iris", "classifier=random_forest", *SHORT]
    train(tmp_path, *quick, LOGGED, "value_function.draws=2")
    train(tmp_path, *quick, "value_function.draws=4")
    assert len(curves(tmp_path / "iris" / "vae" / "logs" / "vae")["validation"].dropna()) == 1


def test_a_job_of_another_logger_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"to be one of .'csv', 'tensorboard', 'mlflow'"):
        train(tmp_path, *QUICK, *SHORT, "trainer.logger=wandb")
