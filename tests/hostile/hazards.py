"""What else goes wrong: folders that are read-only, clocks that jump, no memory left."""

import os
import resource
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from unittest.mock import patch

import torch
from torch import Tensor

import manifold_shap as ms
from tests.hostile.campaign import Campaign
from tests.hostile.processes import forked
from tests.hostile.workloads import explain, model, rows, stream, train

_NOBODY = 65534
# Jumps of a clock, in seconds, one after the other.
_JUMPS = (-3600.0, 86400.0 * 3650, -86400.0 * 365, 0.5)


# Folders that are read-only.


def _saves(place: Path) -> None:
    ms.exact_shapley(ms.imputed_value(model, ms.MarginalImputer(rows(9, 1))), rows(2, 2)).save(
        place / "deep" / "some.zarr"
    )


def _fits(place: Path) -> None:
    ms.fit_surrogate(model, rows(90, 4), directory=place / "fit", max_epochs=1, progress=False)


READ_ONLY: dict[str, tuple[str | None, Callable[[Path], object], str]] = {
    "train.py": (None, train, "runs_dir="),
    "train.py overwrite=true": (
        "explain",
        lambda place: train(place, False, "overwrite=true"),
        "runs_dir=",
    ),
    "explain.py": ("explain", explain, "runs_dir="),
    "explain_rows": ("stream", stream, "choose another place"),
    "Explanation.save": (None, _saves, "choose another place"),
    "fit_surrogate": (None, _fits, "choose another"),
}


def read_only(own: Campaign, name: str) -> list[str]:
    """What is not as promised where a user may read but not write."""
    what, work, words = READ_ONLY[name]
    place = own.place / f"read-only{list(READ_ONLY).index(name)}"
    if what is None:
        place.mkdir()
    else:
        own.runs[what].prepare(place)
    for path in [own.place, *place.rglob("*"), place]:
        path.chmod(0o555 if path.is_dir() and path != own.place else path.stat().st_mode | 0o055)
    child = forked(partial(_as_nobody, partial(work, place)), own.place / f"{name}.said")
    status, said = child.wait(), child.said.read_text()
    last = said.strip().splitlines()[-1] if said.strip() else ""
    misses = [] if status == 1 else [f"exit status {status}"]
    if words not in last or "ermission denied" not in last:
        misses.append(f"unclear: {said[-1500:]}")
    if name.partition(" ")[0].endswith(".py") and "Traceback" in said:
        misses.append(f"a traceback: {said[-1500:]}")
    return misses


def _as_nobody(work: Callable[[], object]) -> None:
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)
    work()


# Clocks.


def _jumping() -> Iterator[float]:
    real = time.time
    for number in count():
        yield real() + _JUMPS[number % len(_JUMPS)]


def clock(own: Campaign, what: str) -> list[str]:
    """What differs where the clock jumps, and where files are from the future."""
    place = own.prepared(what)
    for path in place.rglob("*"):
        os.utime(path, (4e9, 4e9))
    times = _jumping()

    def work() -> None:
        with patch("time.time", lambda: next(times)):
            own.runs[what].run(place, False)

    child = forked(work, own.place / f"clock {what}.said")
    misses = [f"failed: {child.said.read_text()[-800:]}"] if child.wait() else []
    return misses + own.misses_in_the_end(what, place, again=False)


# Memory.


def _wide(x: Tensor) -> Tensor:
    """A model that takes eight megabytes for each row."""
    return (x.mean(1, keepdim=True) + torch.zeros(2**21)).softmax(-1)[:, :2]


def memory(own: Campaign) -> list[str]:
    """Whether chunks are halved where the address space ends, without a change of the results."""
    place = own.place / "memory"
    place.mkdir()

    def explained(name: str, limit: int | None) -> None:
        value = ms.imputed_value(_wide, ms.MarginalImputer(rows(8, 1)), "identity", 4)
        if limit is not None:
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + limit, used + limit))
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            found = ms.exact_shapley(value, rows(3, 2), batch_size=64 if limit else 1)
        torch.save(found.phi, place / f"{name}.pt")
        (place / f"{name}.txt").write_text("\n".join(str(each.message) for each in given))

    misses = []
    for name, limit in (("enough", None), ("little", 2**28)):
        child = forked(partial(explained, name, limit), place / f"{name}.said")
        if child.wait():
            misses.append(f"failed with {name}: {child.said.read_text()[-1500:]}")
    if misses:
        return misses
    if "halved" not in (place / "little.txt").read_text():
        misses.append("nothing was halved")
    one, other = (torch.load(place / f"{name}.pt") for name in ("enough", "little"))
    return misses if torch.equal(one, other) else [*misses, "other numbers"]
