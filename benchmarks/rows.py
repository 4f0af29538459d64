"""Explaining a hundred thousand rows: memory, speed, and two processes against one.

    MANIFOLD_SHAP_DATA=... python benchmarks/rows.py --out benchmarks/results

A surrogate for the census data is briefly trained; test rows, repeated until there are enough, are
then explained into zarr stores by fresh processes, each with one thread:

- peak memory with many rows against that with few (the rows themselves included), of the first of
  two processes;
- rows per second of two processes against one, on few rows: of explaining, and of the whole call,
  in which the second process starts, imports and loads for itself;
- whether the two have written the same bytes.

The sides alternate; times are medians. `--out` names a folder for `rows.json`, `rows.md` and
`rows.png`.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import OmegaConf

import manifold_shap as ms
from benchmarks.figures import Panel, draw, machine, markdown, write
from benchmarks.scaling import peak_memory
from manifold_shap.data.base import TensorDataModule
from manifold_shap.training.classifier import fit_classifier, load_classifier

CONF = Path(__file__).resolve().parent.parent / "conf"
CPU = {"accelerator": "cpu"}


def census(*overrides: str) -> tuple[Any, TensorDataModule]:
    """The default settings, and the data."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        chosen = compose("train", ["data=census", *overrides])
    data = instantiate(chosen.data)
    data.setup()
    return chosen, data


def prepare(place: Path, epochs: int) -> None:
    """Train a classifier and the default surrogate, briefly."""
    chosen, data = census(f"value_function.max_epochs={epochs}")
    fit_classifier(instantiate(chosen.classifier), data, place, CPU)
    model = load_classifier(place, data)
    settings: Any = OmegaConf.to_container(chosen.value_function, resolve=True)
    own = {key: entry for key, entry in settings.items() if key not in ("name", "teacher_draws")}
    rows = {key: getattr(data, key) for key in ("x_train", "x_validation", "players", "schema")}
    ms.fit_surrogate(model, **rows, **own, trainer=CPU).save(place / "surrogate.ckpt")


def explain(place: Path, store: Path, rows: int, processes: int, pairs: int) -> dict[str, Any]:
    """Explain so many rows, and say what it took."""
    _, data = census()
    value = ms.load_surrogate(place / "surrogate.ckpt", load_classifier(place, data))
    x = data.x_test[torch.arange(rows) % len(data.x_test)]
    start = time.perf_counter()
    with ExitStack() as stack:
        executor = None
        if processes > 1:
            spawn = multiprocessing.get_context("spawn")
            executor = stack.enter_context(ProcessPoolExecutor(processes, mp_context=spawn))
            for begun in [executor.submit(ms.Players.of_elements, (2,)) for _ in range(processes)]:
                begun.result()  # Every process has imported the package.
        started = time.perf_counter()
        ms.explain_rows(
            store,
            value,
            x,
            partial(ms.permutation_shapley, permutations=2 * pairs),
            executor=executor,
            progress=True,
        )
        seconds = time.perf_counter() - started
    return {
        "rows": rows,
        "processes": processes,
        "seconds": seconds,
        "seconds_of_call": time.perf_counter() - start,
        "peak_megabytes": peak_memory(),
    }


def fresh(place: Path, rows: int, processes: int, pairs: int) -> dict[str, Any]:
    """The same in a process of its own."""
    store = place / f"{rows}-{processes}.zarr"
    words = ["--place", place, "--store", store, "--processes", processes]
    command = [__file__, "--rows", rows, "--pairs", pairs, *words]
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    figures = json.loads(done.stdout.splitlines()[-1])
    print(json.dumps(figures), flush=True)
    return figures


def same_bytes(one: Path, other: Path) -> bool:
    files = [{p.relative_to(s): p for p in s.rglob("*") if p.is_file()} for s in (one, other)]
    if files[0].keys() != files[1].keys():
        return False
    return all(path.read_bytes() == files[1][name].read_bytes() for name, path in files[0].items())


def measure(few: int, many: int, pairs: int, epochs: int, repeats: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        prepare(place, epochs)
        runs: dict[int, list[dict[str, Any]]] = {1: [], 2: []}
        for _ in range(repeats):
            for processes, figures in runs.items():
                figures.append(fresh(place, few, processes, pairs))
        same = same_bytes(place / f"{few}-1.zarr", place / f"{few}-2.zarr")
        large = fresh(place, many, 2, pairs)
    peak = statistics.median(figures["peak_megabytes"] for figures in runs[2])

    def gain(key: str) -> float:
        one, two = (statistics.median(figures[key] for figures in runs[k]) for k in (1, 2))
        return one / two

    return {
        "pairs": pairs,
        "runs": [*runs[1], *runs[2], large],
        "rows_per_second": large["rows"] / large["seconds"],
        "peak memory, many rows / few": large["peak_megabytes"] / peak,
        "speed, two processes / one": gain("seconds"),
        "speed, two processes / one, with their start": gain("seconds_of_call"),
        "same_bytes": same,
    }


# What is shown of a run, and under which name.
COLUMNS = {
    "rows": "rows",
    "processes": "processes",
    "seconds": "seconds",
    "with their start": "seconds_of_call",
    "peak MB": "peak_megabytes",
}
RATIOS = (
    "peak memory, many rows / few",
    "speed, two processes / one",
    "speed, two processes / one, with their start",
)


def table(report: Mapping[str, Any]) -> str:
    runs = [[run[key] for key in COLUMNS.values()] for run in report["runs"]]
    ratios = [[name, report[name]] for name in RATIOS]
    ratios.append(["rows per second, many rows", report["rows_per_second"]])
    ratios.append(["same bytes", "yes" if report["same_bytes"] else "no"])
    return markdown(list(COLUMNS), runs) + "\n" + markdown(["", "figure"], ratios)


def panels(report: Mapping[str, Any]) -> list[Panel]:
    """Peak memory of the first of two processes, medians over repeats."""
    peaks: dict[int, list[float]] = {}
    for run in report["runs"]:
        if run["processes"] == 2:
            peaks.setdefault(run["rows"], []).append(run["peak_megabytes"])
    points = [(float(rows), statistics.median(found)) for rows, found in sorted(peaks.items())]
    return [Panel("two processes", "rows", "peak MB", {"the first of them": points}, log="x")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--pairs", type=int, default=64, help="of orders, for each row")
    parser.add_argument("--epochs", type=int, default=3, help="of the surrogate")
    parser.add_argument("--repeats", type=int, default=3, help="of the runs on few rows")
    parser.add_argument("--out", type=Path)
    for name, kind in (("--place", Path), ("--store", Path), ("--processes", int)):
        parser.add_argument(name, type=kind, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.store is not None:
        done = explain(chosen.place, chosen.store, chosen.rows[0], chosen.processes, chosen.pairs)
        print(json.dumps(done))
        return
    few, many = chosen.rows
    report = measure(few, many, chosen.pairs, chosen.epochs, chosen.repeats)
    print(json.dumps(report, indent=2))
    print(table(report))
    if chosen.out:
        about = {**machine(), "threads": 1}  # Of each process, whatever this one has.
        write(chosen.out, "rows", {**about, **report}, table(report), draw(panels(report)))


if __name__ == "__main__":
    main()
