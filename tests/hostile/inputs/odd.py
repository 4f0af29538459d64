"""Rows, masks and labels that look odd and are sound: they give the numbers of the plain ones."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import polars
import pyarrow
import torch

import manifold_shap as ms
from tests.hostile.inputs.table import Odd
from tests.hostile.inputs.things import (
    ROWS,
    codebook,
    explained,
    explanation,
    frame,
    given,
    imputed,
)

ARRAY = ROWS.numpy()
MASK = torch.tensor([[True, False, True]]).expand(4, 2, 3)
WHOLE = np.array([[1, 0, 3], [2, 5, 4]])


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


def mapped() -> np.ndarray:
    """An array in a file."""
    with TemporaryDirectory() as place:
        path = Path(place) / "rows.npy"
        np.save(path, ARRAY)
        return np.load(path, mmap_mode="r")


def phi(x: Any) -> torch.Tensor:
    return explained(x).phi


def plain() -> torch.Tensor:
    return phi(ROWS)


def whole() -> torch.Tensor:
    return phi(torch.from_numpy(WHOLE).float())


def values() -> torch.Tensor:
    return given(MASK.clone())


def codes() -> torch.Tensor:
    return codebook().rows(frame())


INPUTS = [
    Odd("a read-only array", lambda: phi(read_only(ARRAY)), plain),
    Odd("an array in Fortran's order", lambda: phi(np.asfortranarray(ARRAY)), plain),
    Odd(
        "an array that is reversed twice", lambda: phi(ARRAY[::-1, ::-1].copy()[::-1, ::-1]), plain
    ),
    Odd("every second element", lambda: phi(ARRAY.repeat(2, 1)[:, ::2]), plain),
    Odd("a big-endian array", lambda: phi(ARRAY.astype(">f8")), plain),
    Odd("a big-endian array of whole numbers", lambda: phi(WHOLE.astype(">i4")), whole),
    Odd("float16", lambda: phi(WHOLE.astype(np.float16)), whole),
    Odd("extended precision", lambda: phi(ARRAY.astype(np.longdouble)), plain),
    Odd("bfloat16", lambda: phi(torch.from_numpy(WHOLE).bfloat16()), whole),
    Odd("8 bits without a sign", lambda: phi(WHOLE.astype(np.uint8)), whole),
    Odd("an array in a file", lambda: phi(mapped()), plain),
    Odd("a list of tuples", lambda: phi([tuple(row) for row in ROWS.tolist()]), plain),
    Odd("a list of arrays", lambda: phi(list(ARRAY)), plain),
    Odd("a tensor with a gradient", lambda: phi(ROWS.clone().requires_grad_()), plain),
    Odd("a parameter", lambda: phi(torch.nn.Parameter(ROWS)), plain),
    Odd("a transposed tensor", lambda: phi(ROWS.T.contiguous().T), plain),
    Odd("an expanded tensor", lambda: phi(ROWS[:1].expand(4, 3))[3], lambda: plain()[0]),
    Odd("a frame with numbers for names", lambda: phi(pd.DataFrame(ARRAY)), plain),
    Odd("a frame of nullable numbers", lambda: phi(pd.DataFrame(WHOLE).astype("Int64")), whole),
    Odd(
        "a frame with an index that repeats",
        lambda: phi(pd.DataFrame(ARRAY, index=[1, 1, 1, 1])),
        plain,
    ),
    Odd(
        "a frame with missing labels",
        lambda: phi(pd.DataFrame(ARRAY, index=[None, 1, "a", 2.5])),
        plain,
    ),
    Odd("a frame of polars", lambda: phi(polars.DataFrame(ARRAY)), plain),
    Odd(
        "a table of pyarrow",
        lambda: phi(pyarrow.table({"a": ARRAY[:, 0], "b": ARRAY[:, 1], "c": ARRAY[:, 2]})),
        plain,
    ),
    Odd("one player", lambda: phi(ROWS[:, :1])[:, 0, 0], lambda: ROWS[:, 0]),
    Odd("a mask of numpy", lambda: given(MASK.numpy()), values),
    Odd("a read-only mask", lambda: given(read_only(MASK.numpy())), values),
    Odd("a mask that is reversed twice", lambda: given(MASK.flip(0).numpy()[::-1]), values),
    Odd("a mask that is expanded", lambda: given(MASK), values),
    Odd("a seed of numpy", lambda: explained(ROWS, seed=np.int64(3)).phi, plain),
    Odd(
        "an output's position of numpy",
        lambda: ms.exact_shapley(imputed(), ROWS, outputs=[np.int64(1)]).phi,
        lambda: explanation().phi[..., 1:],
    ),
    Odd(
        "columns in another order",
        lambda: codebook().rows(frame()[["town", "age", "price"]]),
        codes,
    ),
    Odd(
        "an index of dates",
        lambda: codebook().rows(frame().set_index(pd.date_range("2024", periods=40))),
        codes,
    ),
]
