"""Runs that are killed and given again end as if nothing had happened, and do nothing twice."""

import os
import shutil
import signal
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import manifold_shap as ms
from tests.hostile.things import MARGINAL, X, model, typed

SIGNALS = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
MOMENTS = {"train": 7, "explain": 6, "stream": 7}
KILLS = [(what, moment) for what, count in MOMENTS.items() for moment in range(count)]
BLOCKS, BLOCK = 6, 4

# Forked from a process that has imported what is imported here, and has no threads yet.
CONTEXT = get_context("forkserver")
CONTEXT.set_forkserver_preload(["lightning.pytorch", "zarr", "sklearn", __name__])


def slow_shapley(value: Any, x: Tensor, **settings: Any) -> ms.Explanation:
    """An estimator that notes the blocks of rows that it has explained."""
    found = ms.permutation_shapley(value, x, permutations=4, **settings)
    if len(x) == BLOCK:
        time.sleep(0.1)
        with Path("explained").open("a") as file:
            file.write(f"{x[0].tolist()}\n")
    return found


def stream(again: bool) -> None:
    value = ms.imputed_value(model, MARGINAL, draws=4)
    rows = X.repeat(BLOCKS, 1) + torch.arange(len(X) * BLOCKS)[:, None] / 100
    options: dict[str, Any] = {"block": BLOCK, "resume": again, "progress": False}
    ms.explain_rows("rows.zarr", value, rows, slow_shapley, **options)


def train(again: bool) -> None:
    small = ("classifier.hidden=[16]", "value_function.hidden=[16]")
    typed("train", "data=iris", *small, "classifier.max_epochs=3", "value_function.max_epochs=8")


def explain(again: bool) -> None:
    few = ("estimator=permutation", "estimator.permutations=4", "instances=8", "block=1")
    typed("explain", "data=iris", *few, f"resume={again}")


def run(work: Callable[[bool], None], place: Path, again: bool) -> None:
    """Do the work in this process, with what it says in a file."""
    torch.set_num_threads(1)
    os.chdir(place)
    said = os.open("said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(said, 1)
    os.dup2(said, 2)
    work(again)


def started(what: str, place: Path, again: bool = False) -> ForkServerProcess:
    work = {"train": train, "explain": explain, "stream": stream}[what]
    process = CONTEXT.Process(target=run, args=(work, place, again))
    process.start()
    return process


def results(what: str, place: Path) -> dict[str, Tensor]:
    """The numbers that a run ends with."""
    runs = place / "runs" / "iris"
    if what == "train":
        files = runs.rglob("tensors.safetensors")
        return {f"{p.parents[1].name} {k}": each for p in files for k, each in load_file(p).items()}
    stores = {"stream": place / "rows.zarr", "explain": runs / "surrogate" / "explanations.zarr"}
    found = ms.Explanation.load(stores[what])
    return {"phi": found.phi, "standard error": found.standard_error}


def prepared(what: str, place: Path, trained: Path) -> Path:
    """A new folder, for `explain` with what was trained."""
    place.mkdir()
    if what == "explain":
        shutil.copytree(trained / "runs", place / "runs")
    return place


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, float]]:
    """Folders of runs that nothing disturbs, and their seconds."""
    home, found = tmp_path_factory.mktemp("whole"), {}
    # The first process also waits for the imports of the one that all are forked from.
    for what in ("stream", *MOMENTS):
        shutil.rmtree(home / what, ignore_errors=True)
        place, began = prepared(what, home / what, home / "train"), time.monotonic()
        process = started(what, place)
        process.join()
        assert process.exitcode == 0, (place / "said").read_text()
        found[what] = place, time.monotonic() - began
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("what", "moment"), KILLS)
def test_what_is_killed_and_given_again_ends_as_if_undisturbed(
    what: str, moment: int, tmp_path: Path, whole: dict[str, tuple[Path, float]]
) -> None:
    expected, seconds = whole[what]
    place = prepared(what, tmp_path / "place", whole["train"][0])
    process = started(what, place)
    process.join((moment + 0.5) / MOMENTS[what] * seconds)
    if process.exitcode is None and process.pid is not None:
        os.kill(process.pid, SIGNALS[moment % len(SIGNALS)])
    process.join()
    classifier = {
        path: path.stat().st_mtime_ns for path in place.rglob("classifiers/*/*.safetensors")
    }
    if process.exitcode != 0:
        again = started(what, place, again=True)
        again.join()
        assert again.exitcode == 0, (place / "said").read_text()
    assert classifier == {path: path.stat().st_mtime_ns for path in classifier}
    torch.testing.assert_close(results(what, place), results(what, expected), rtol=0, atol=0)
    if what == "stream":
        # The block that the signal has met may have been explained, and not written.
        assert len((place / "explained").read_text().splitlines()) <= BLOCKS + 1
