"""Curves of trainings that a command has run."""

from pathlib import Path

import pandas as pd

from tests.cli.commands import QUICK, SHORT, train


def test_each_training_has_a_version_of_the_logger_that_is_named(tmp_path: Path) -> None:
    logger = "+trainer.logger._target_=lightning.pytorch.loggers.CSVLogger"
    more = ["amortized=default", "amortized.max_epochs=1", "amortized.hidden=[16]"]
    place = f"+trainer.logger.save_dir={tmp_path / 'curves'}"
    train(tmp_path, "data=iris", *QUICK, *SHORT, *more, logger, place)
    for number, epochs in enumerate((2, 2, 1)):  # Classifier, surrogate and amortised explainer.
        path = tmp_path / "curves" / "lightning_logs" / f"version_{number}" / "metrics.csv"
        found = pd.read_csv(path)
        assert {"training", "validation", "epoch", "step"} <= set(found)
        assert len(found["validation"].dropna()) == epochs
