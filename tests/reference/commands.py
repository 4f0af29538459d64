"""The two commands, by their own entry points."""

import sys
import tempfile
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import manifold_shap as ms
from manifold_shap.cli import main_explain, main_train
from tests.reference.compare import AFTER
from tests.reference.examples import people

SHORT = ["classifier.max_epochs=1", "+trainer.limit_train_batches=3", "trainer.accelerator=cpu"]
GAUSSIAN = "value_function=gaussian"
# Data, what is trained, and how it explains.
RUNS = {
    "iris": (["data=iris"], ["value_function.hidden=[8]", "value_function.max_epochs=1"], []),
    "people": (
        ["data=table", "data.path=people.csv", "data.target=answer"],
        [GAUSSIAN, "value_function.draws=8"],
        [GAUSSIAN],
    ),
}


def commands() -> dict[str, Any]:
    """A classifier, a value function and explanations, trainings of three steps each."""
    results: dict[str, Any] = {}
    frame = people().drop(columns="since")
    answer = frame["member"].map({True: "yes", False: "no"}).where(frame["age"] > 30, "perhaps")
    for name, (data, settings, explain) in RUNS.items():
        with tempfile.TemporaryDirectory() as folder, chdir(folder), redirect_stdout(StringIO()):
            frame.assign(answer=answer).to_csv("people.csv", index=False)
            words = ["", f"runs_dir={folder}", "progress=false", *data, "classifier.hidden=[8]"]
            with patch.object(sys, "argv", [*words, *SHORT, *settings]):
                main_train()
            few = ["instances=2", "report=false", "device=cpu"]
            with patch.object(sys, "argv", [*words, *explain, *few]):
                main_explain()
            (store,) = Path(folder).rglob("explanations.zarr.zip")
            found = ms.Explanation.load(store)
        results[f"{name}, instances"] = ", ".join(map(str, found.instances))
        results[f"{name}, {AFTER}"] = found
    return results
