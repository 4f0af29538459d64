"""Compares results with the stored ones, each kind as closely as it can be.

What is stored is what no closed form decides: draws by their seeds, trainings, and what is made of
these. Of other results the tests of their rooms have an independent one.

Bit for bit
    are whole numbers, yes and no, and text: coalitions and orders that a seed draws, labels of
    superpixels and tokens, choices of an estimator, names. Nothing is rounded in them, so that no
    machine has other ones.

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
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

OUTPUTS = Path(__file__).parent / "outputs.safetensors"

ROUNDING, AMPLIFIED = 1e-5, 1e-4
# In the names of results in which rounding is amplified.
AMPLIFYING = ("error", "variance", "interval", "cosines", "summary")
# In the names of results of a training of three steps.
AFTER = "after three steps"

# Tensors by name; text is its bytes.
Results = dict[str, Tensor]


def stored(part: str) -> Results:
    """What `make.py` stored of a part."""
    prefix = f"{part}: "
    return {
        name.removeprefix(prefix): each
        for name, each in load_file(OUTPUTS).items()
        if name.startswith(prefix)
    }


def tolerance(name: str) -> float:
    """How far a float may be from the stored one."""
    return AMPLIFIED if any(word in name for word in (AFTER, *AMPLIFYING)) else ROUNDING


def gap(got: Tensor | None, wanted: Tensor | None) -> float:
    """Largest difference, see above; infinite where shapes, types, exact results or NaNs differ."""
    if got is None or wanted is None or (got.shape, got.dtype) != (wanted.shape, wanted.dtype):
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


def apart(got: Results, wanted: Results, most: float | None = None) -> dict[str, float]:
    """Gaps of those that are farther from the stored result than they may be, or new, or gone."""
    gaps = {name: gap(got.get(name), wanted.get(name)) for name in wanted | got}
    return {
        name: far
        for name, far in gaps.items()
        if not far <= (tolerance(name) if most is None else most)
    }
