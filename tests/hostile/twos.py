"""Starts two of everything at once: one wins, the other is told, and nothing is lost."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

import manifold_shap as ms
from tests.hostile.campaign import Campaign, differences
from tests.hostile.processes import forked
from tests.hostile.workloads import contents, explain, model, rows, stream, train

# What the one that is told reads.
TOLD = (
    "another train.py or explain.py is at work",
    "is still at it",
    "another one is at work in it",
)
# After which shares of the first run the second one starts.
SHARES = (0.0, 0.3, 0.6)


def fit(place: Path, again: bool = False) -> None:
    """A surrogate in a directory of checkpoints, with its weights in a file."""
    options = {"max_epochs": 4, "trainer": {"limit_train_batches": 5}, "hidden": [16]}
    x = rows(200, 4)
    value = ms.fit_surrogate(model, x, directory=place / "fit", progress=False, **options)
    value.save(place / f"{'again' if again else 'first'}.ckpt")


PAIRS: dict[str, tuple[str, Callable[..., object], Callable[..., object]]] = {
    "train.py and train.py": ("train", train, train),
    "explain.py and explain.py": ("explain", explain, explain),
    "explain.py and train.py": ("explain", explain, train),
    "explain_rows and explain_rows": ("stream", stream, stream),
}


def at_once(own: Campaign, name: str, share: float) -> list[str]:
    """What is not as promised where two runs work at once in one directory."""
    what, first, second = PAIRS[name]
    seconds, expected = own.whole(what)
    place = own.prepared(what)
    one = forked(partial(first, place), own.place / f"{place.name}.one")
    time.sleep(share * seconds)
    two = forked(partial(second, place), own.place / f"{place.name}.two")
    ends = [(child.wait(), child.said.read_text()) for child in (one, two)]
    misses = []
    if not any(status == 0 for status, _ in ends):
        misses.append(f"neither wins: {ends}")
    for status, said in ends:
        if status and not any(words in said for words in TOLD):
            misses.append(f"not told: exit status {status}: {said[-800:]}")
    if ends[0][0]:  # It was told; what it was to do is still to be done.
        return misses + own.misses_in_the_end(what, place)
    return misses + differences(expected, contents(place))


def trainings_at_once(own: Campaign, share: float) -> list[str]:
    """The same of two calls of `fit_surrogate` with one directory."""
    alone, place = own.place / f"alone{share}", own.place / f"both{share}"
    for directory in (alone, place):
        directory.mkdir()
    child = forked(partial(fit, alone), own.place / f"alone{share}.said")
    assert child.wait() == 0, child.said.read_text()
    seconds = time.monotonic() - child.began
    one = forked(partial(fit, place), own.place / f"one{share}.said")
    time.sleep(share * seconds)
    two = forked(partial(fit, place, True), own.place / f"two{share}.said")
    ends = [(child.wait(), child.said.read_text()) for child in (one, two)]
    misses, expected = [], _weights(alone / "first.ckpt")
    if not any(status == 0 for status, _ in ends):
        misses.append(f"neither wins: {ends}")
    for (status, said), name in zip(ends, ("first", "again"), strict=True):
        if status == 0 and not torch.equal(_weights(place / f"{name}.ckpt"), expected):
            misses.append(f"the {name} one has other weights than alone")
        if status and not any(words in said for words in TOLD):
            misses.append(f"not told: exit status {status}: {said[-800:]}")
    return misses


def _weights(path: Path) -> torch.Tensor:
    state = torch.load(path, weights_only=True)["state_dict"]
    return torch.cat([weight.double().flatten() for weight in state.values()])
