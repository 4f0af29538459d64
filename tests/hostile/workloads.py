"""What is killed, and what it has to end with: commands and calls of about a second."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.cli import main_explain, main_train
from manifold_shap.io.files import digest

TRAIN = (
    "data=iris",
    "classifier.hidden=[16]",
    "classifier.max_epochs=3",
    "+trainer.limit_train_batches=5",
    "value_function.hidden=[16]",
    "value_function.max_epochs=4",
    "progress=false",
)
EXPLAIN = (
    "data=iris",
    "compare=[]",
    "estimator=permutation",
    "estimator.permutations=4",
    "block=2",
    "instances=6",
    "progress=false",
)
# What the clock decides, or where a run lies, or that it was interrupted. All else is compared.
UNCOMPARED = (
    "train_seconds",
    "seconds",
    "instances_per_second",
    "evaluations_per_second",
    "instances_resumed",
    "checkpoint",  # The checksum of a file with its seconds; checked to be that of the file.
    "dirpath",
    "best_model_path",
    "best_k_models",
    "kth_best_model_path",
    "last_model_path",
)


@dataclass(frozen=True)
class Workload:
    """Something that is killed and then run again as a user would.

    Attributes:
        prepare: makes what has to be there.
        run: does the work in this process, again if it says so.
        words: of Python, for a fresh process.
    """

    prepare: Callable[[Path], object]
    run: Callable[[Path, bool], object]
    words: Callable[[Path, bool], list[str]]


def command(main: Callable[[], object], *words: str) -> None:
    """One of the commands in this process, with what is typed after its name."""
    sys.argv = ["a command", *words]
    main()


def train(place: Path, again: bool = False, *more: str) -> None:
    command(main_train, *TRAIN, f"runs_dir={place}", *more)


def explain(place: Path, again: bool = False, *more: str) -> None:
    command(main_explain, *EXPLAIN, f"runs_dir={place}", f"resume={again}", *more)


def model(x: Tensor) -> Tensor:
    return (x @ torch.linspace(-1, 1, 15).reshape(5, 3)).softmax(-1)


def rows(count: int, seed: int) -> Tensor:
    return torch.randn(count, 5, generator=torch.Generator().manual_seed(seed))


def stream(place: Path, again: bool = False, executor: Any = None) -> int:
    """Rows in six blocks into a store that replaces an earlier one."""
    value = ms.imputed_value(model, ms.MarginalImputer(rows(50, 1)), "probability", 16)
    estimator = partial(ms.permutation_shapley, permutations=8)
    store, x = place / "rows.zarr", rows(24, 2)
    return ms.explain_rows(store, value, x, estimator, block=4, resume=again, executor=executor)


def with_dask(address: str, place: Path, again: bool = False) -> int:
    """The same on workers of a cluster."""
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        return stream(place, again, client.get_executor(pure=False))


def _earlier(place: Path) -> None:
    value = ms.imputed_value(model, ms.MarginalImputer(rows(50, 1)), "probability", 1)
    ms.exact_shapley(value, rows(3, 3)).save(place / "rows.zarr")


def _script(name: str, place: Path, again: bool) -> list[str]:
    return ["-m", "tests.hostile.workloads", name, str(place), *["again"] * again]


def workloads(trained: Path) -> dict[str, Workload]:
    """By name; `trained` holds what `train` has made and an explanation of other rows."""
    return {
        "train": Workload(
            Path.mkdir, train, lambda place, _: ["train.py", *TRAIN, f"runs_dir={place}"]
        ),
        "explain": Workload(
            partial(shutil.copytree, trained),
            explain,
            lambda place, again: ["explain.py", *EXPLAIN, f"runs_dir={place}", f"resume={again}"],
        ),
        "stream": Workload(_earlier, stream, partial(_script, "stream")),
    }


def contents(place: Path) -> dict[str, str]:
    """Checksums of all files in a directory but locks, by path; see `UNCOMPARED`."""
    paths = [path for path in sorted(place.rglob("*")) if path.is_file() or not any(path.iterdir())]
    kept = [path for path in paths if path.suffix != ".lock"]
    return {str(path.relative_to(place)): _content(path) for path in kept}


def _content(path: Path) -> str:
    if path.is_dir():
        return "an empty directory"
    if path.name == "metrics.json":
        recorded = json.loads(path.read_text()).get("checkpoint")
        beside = path.with_name(f"{path.parent.name.removesuffix('.partial')}.ckpt")
        if recorded and recorded != digest(beside.read_bytes()):
            return "the checksum of another checkpoint"
    if path.suffix == ".json":
        return digest(_compared(json.loads(path.read_text())))
    if path.suffix == ".ckpt":
        return _plain(_compared(torch.load(path, weights_only=True)))
    return digest(path.read_bytes())


def _compared(content: Any) -> Any:
    if isinstance(content, Mapping):
        return {key: _compared(content[key]) for key in content if key not in UNCOMPARED}
    return content


def _plain(content: Any) -> str:
    """A checksum of tensors in dicts and lists."""
    if isinstance(content, Mapping):
        parts = [f"{key}={_plain(entry)}" for key, entry in content.items()]
    elif isinstance(content, (list, tuple)):
        parts = list(map(_plain, content))
    else:
        return digest(content)
    return digest("\n".join(parts))


def main(place: Path, *words: str) -> None:
    """`stream` in a process of its own; its functions are sent by name, so not from `__main__`."""
    torch.set_num_threads(1)
    addresses = [word.removeprefix("on=") for word in words if word.startswith("on=")]
    for each in addresses:
        with_dask(each, place, "again" in words)
    if not addresses:
        stream(place, "again" in words)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from tests.hostile import workloads as named

    named.main(Path(sys.argv[2]), *sys.argv[3:])
