"""Compares results with the stored ones, each kind as closely as it can be.

Bit for bit
    are whole numbers, yes and no, and text: coalitions and orders that a seed draws, labels of
    superpixels and tokens, choices of an estimator, cells of frames, and whether one result is
    another (a file read back, another batch size, a grouped game against the same game spelled
    out). Nothing is rounded in them, so that no machine has other ones.

To 1e-5
    are numbers of weights that are stored, or of none. Products and sums in single precision, and
    exponentials, differ in their last bits between processors, numbers of threads and libraries.

To 1e-4
    are errors and angles, in which last bits count more: variances are of differences of values
    that are nearly the same, and the angle of a small composition is its rounding over its norm.
    And so is what three steps of a training lead to (`AFTER` in the name): differences of the last
    bits of a gradient are divided by its size in the first steps of AdamW.

A difference is relative to the largest number of the same output, the last axis: outputs may have
units of their own, and players and rows of one output share a rounding error, that of v(S), whose
size is that of v(S) and not that of the player's small value. An output that is less than a
hundredth of the largest is compared in units of that hundredth, or the rounding of a value that is
zero by symmetry would be all that is compared. NaNs have to be in the same places.
"""

import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

FOLDER = Path(__file__).parent
INPUTS = FOLDER / "inputs.pt"
OUTPUTS = FOLDER / "outputs.pt"

Result = Tensor | str
Results = Iterator[tuple[str, Result]]
Inputs = dict[str, Any]

ROUNDING, AMPLIFIED = 1e-5, 1e-4
# In the names of results in which rounding is amplified.
AMPLIFYING = ("error", "variance", "interval", "cosines", "summary")
# In the names of results of a training of three steps.
AFTER = "after three steps"


@cache
def load(path: Path) -> dict[str, Any]:
    """What `make.py` stored: tensors, numbers and strings."""
    return torch.load(path, weights_only=True)


@cache
def stored_results() -> dict[str, dict[str, Result]]:
    """Those of each part by name; none where none are stored."""
    return (
        {part: _unpacked(each) for part, each in load(OUTPUTS).items()} if OUTPUTS.exists() else {}
    )


def store_results(results: dict[str, dict[str, Result]]) -> None:
    """Replace all results."""
    torch.save({part: _packed(each) for part, each in results.items()}, OUTPUTS)


def _packed(results: dict[str, Result]) -> dict[str, Any]:
    """Text, and all tensors of a type in one: a file spends more on a small one than it holds."""
    tensors = {name: each for name, each in results.items() if isinstance(each, Tensor)}
    types = sorted({str(each.dtype) for each in tensors.values()})
    of_type = {kind: {n: e for n, e in tensors.items() if str(e.dtype) == kind} for kind in types}
    return {
        "text": {name: each for name, each in results.items() if isinstance(each, str)},
        "shapes": {
            kind: {n: list(e.shape) for n, e in own.items()} for kind, own in of_type.items()
        },
        "numbers": {
            k: torch.cat([e.flatten() for e in own.values()]) for k, own in of_type.items()
        },
    }


def _unpacked(packed: dict[str, Any]) -> dict[str, Result]:
    found: dict[str, Result] = dict(packed["text"])
    for kind, shapes in packed["shapes"].items():
        parts = packed["numbers"][kind].split([math.prod(shape) for shape in shapes.values()])
        found |= {n: e.view(shape) for (n, shape), e in zip(shapes.items(), parts, strict=True)}
    return found


def plain(result: Result) -> Result:
    """A result as it is stored: floats in single precision."""
    if isinstance(result, str):
        return result
    result = result.detach()
    return (result.float() if result.is_floating_point() else result).clone()


def tolerance(name: str) -> float:
    """How far a float may be from the stored one."""
    return AMPLIFIED if any(word in name for word in (AFTER, *AMPLIFYING)) else ROUNDING


def gap(got: Result, wanted: Result) -> float:
    """Largest difference, see above; infinite where shapes, kinds, exact results or NaNs differ."""
    if isinstance(got, str) or isinstance(wanted, str):
        return 0.0 if got == wanted else math.inf
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return math.inf
    if not wanted.is_floating_point():
        return 0.0 if torch.equal(got, wanted) else math.inf
    if not torch.equal(got.isnan(), wanted.isnan()):
        return math.inf
    if wanted.numel() == 0:
        return 0.0
    got, wanted = got.double().nan_to_num(), wanted.double().nan_to_num()
    own = wanted.abs().reshape(-1, wanted.shape[-1] if wanted.ndim > 1 else 1).amax(0)
    scale = own.maximum(own.max() / 100).clamp(min=torch.finfo(torch.float32).tiny)
    far = (got - wanted).abs().reshape(-1, len(scale)) / scale
    return far.max().item()


def gaps_of(got: dict[str, Result], wanted: dict[str, Result]) -> dict[str, float]:
    """The gap of each result of a part; infinite where one is new or missing."""
    missing = dict.fromkeys(wanted.keys() ^ got.keys(), math.inf)
    return missing | {name: gap(got[name], wanted[name]) for name in wanted.keys() & got.keys()}


def apart(gaps: dict[str, float], most: float | None = None) -> dict[str, float]:
    """Those that are farther from the stored result than they may be, the farthest first."""
    far = {
        name: each
        for name, each in gaps.items()
        if not each <= (tolerance(name) if most is None else most)
    }
    return dict(sorted(far.items(), key=lambda item: -item[1]))
