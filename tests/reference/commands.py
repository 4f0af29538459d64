"""The two commands, by their own entry points."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import manifold_shap as ms
from manifold_shap.cli import main_explain, main_train
from tests.reference.compare import AFTER, Inputs, Results
from tests.reference.tables import people

SHORT = ["classifier.max_epochs=1", "+trainer.limit_train_batches=3", "trainer.accelerator=cpu"]
QUIET = ["report=false", "device=cpu"]
# Data, what is trained, and how it explains.
RUNS = {
    "iris": (
        ["data=iris", "classifier.hidden=[8]"],
        ["value_function.hidden=[8]", "value_function.max_epochs=1"],
        [],
    ),
    "people": (
        ["data=table", "data.path=people.csv", "data.target=answer", "classifier.hidden=[8]"],
        ["value_function=gaussian", "value_function.draws=8"],
        ["value_function=gaussian"],
    ),
}


@contextmanager
def _typed(place: str, command: str, *words: str) -> Iterator[None]:
    argv = [f"{command}.py", f"runs_dir={place}", "progress=false", *words]
    with patch.object(sys, "argv", argv), chdir(place), redirect_stdout(StringIO()):
        yield


def commands(inputs: Inputs) -> Results:
    """A classifier, a value function and explanations, trainings of three steps each."""
    for name, (data, settings, explain) in RUNS.items():
        with tempfile.TemporaryDirectory() as place:
            frame = people(inputs).drop(columns="since")
            frame.assign(
                answer=frame["member"]
                .map({True: "yes", False: "no"})
                .where(frame["age"] > 30, "perhaps")
            ).to_csv(f"{place}/people.csv", index=False)
            with _typed(place, "train", *data, *SHORT, *settings):
                main_train()
            with _typed(place, "explain", data[0], *data[1:], *explain, "instances=2", *QUIET):
                main_explain()
            (store,) = Path(place).rglob("explanations.zarr.zip")
            found = ms.Explanation.load(store)
        yield f"{name}, instances", ", ".join(map(str, found.instances))
        yield f"{name}, players", ", ".join(found.players.names[:20])
        yield f"{name}, {AFTER}", found
