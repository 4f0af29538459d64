"""Many rows: paths, labels, blocks, executors, and work in progress that was tampered with."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import manifold_shap as ms
from tests.hostile.inputs.table import Input
from tests.hostile.inputs.things import ROWS, frame, imputed, value

FEW = partial(ms.permutation_shapley, permutations=2)


def streamed(here: Path, **changes: Any) -> object:
    call = {"value": value, "x": ROWS, "estimator": FEW, "block": 2, "progress": False}
    return ms.explain_rows(**{"path": here / "s.zarr", **call, **changes})


def tabled(here: Path, **settings: Any) -> object:
    """Rows of a Parquet file."""
    frame().to_parquet(here / "rows.parquet")
    return ms.read_rows(here / "rows.parquet", **settings)


class Lost:
    """An executor that never works."""

    def submit(self, function: Any, *arguments: Any) -> Any:
        raise ConnectionError("no scheduler")


def interrupted(here: Path, change: Callable[[Path], object], **changes: Any) -> object:
    """Resume a call that was interrupted, after a change of what it left."""
    calls = []

    def stops(game: Any, x: Any, **settings: Any) -> Any:
        calls.append(1)
        if len(calls) > 2:
            raise KeyboardInterrupt
        return FEW(game, x, **settings)

    try:
        streamed(here, estimator=stops)
    except KeyboardInterrupt:
        change(here / ".s.zarr.partial")
    return streamed(here, resume=True, **changes)


class Rows:
    """Something with a length and nothing else."""

    def __len__(self) -> int:
        return 4


class Unreadable(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, number: int) -> Any:
        raise OSError("the disk is gone")


INPUTS = [
    Input(
        "a path that is a number",
        lambda here: streamed(here, path=3),
        TypeError,
        "Expected `path` to be text but got 3 (int); it comes first, then the value function.",
        mark="library",
    ),
    Input(
        "a path with a null byte",
        lambda here: streamed(here, path="a\0b"),
        ValueError,
        "Expected `path` to be text without null bytes but got 'a\\x00b'; leave them out.",
        mark="library",
    ),
    Input(
        "a path that is empty",
        lambda here: streamed(here, path=""),
        FileExistsError,
        "Expected ... to be free or to hold an earlier explanation, but something else stands there; move it away or choose another path.",
        mark="library",
    ),
    Input(
        "a path that is a file",
        lambda here: (here / "s.zarr").touch() or streamed(here),
        FileExistsError,
        "Expected ... to be free or to hold an earlier explanation, but something else stands there; move it away or choose another path.",
        mark="kept",
    ),
    Input(
        "a path that is a folder of the user's",
        lambda here: streamed(here, path=here),
        FileExistsError,
        "Expected ... to be free or to hold an earlier explanation, but something else stands there; move it away or choose another path.",
        mark="kept",
    ),
    Input(
        "a path below a file",
        lambda here: (here / "f").touch() or streamed(here, path=here / "f" / "s.zarr"),
        NotADirectoryError,
        "[Errno 20] Expected a folder at ..., to write s.zarr to, but it is a file; choose another path.",
        mark="library",
    ),
    Input(
        "a path of 300 letters",
        lambda here: streamed(here, path=here / ("n" * 300)),
        OSError,
        "[Errno 36] Expected a path to write to but got one of ... letters (File name too long); choose another one.",
        mark="library",
    ),
    Input(
        "an estimator that is text",
        lambda here: streamed(here, estimator="exact"),
        TypeError,
        "Expected `estimator` to be a function from a value function and rows to an explanation, such as `ms.permutation_shapley`, but got 'exact'.",
        mark="library",
    ),
    Input(
        "an estimator that returns numbers",
        lambda here: streamed(here, estimator=lambda game, x: x),
        TypeError,
        "Expected `estimator` to return an `Explanation` but got Tensor; `ms.permutation_shapley` does, and a function of your own may end with a call of it.",
        mark="kept",
    ),
    Input(
        "an estimator that returns None",
        lambda here: streamed(here, estimator=lambda game, x: None),
        TypeError,
        "Expected `estimator` to return an `Explanation` but got NoneType; `ms.permutation_shapley` does, and a function of your own may end with a call of it.",
        mark="twin",
    ),
    Input(
        "a misspelled setting of the estimator",
        lambda here: streamed(here, estimator=partial(FEW, permutation=3)),
        ValueError,
        "Expected settings that the estimator takes but got ['permutation', 'permutations']; `help(ms.permutation_shapley)` and so on list them.",
        mark="library",
    ),
    Input(
        "block=0",
        lambda here: streamed(here, block=0),
        ValueError,
        "Expected `block` to be a whole number of at least 1 but got 0; 1024 rows suit most tables.",
        mark="kept",
    ),
    Input(
        "block=1.5",
        lambda here: streamed(here, block=1.5),
        TypeError,
        "Expected `block` to be a whole number of at least 1 but got 1.5 (float); 1024 rows suit most tables.",
        mark="library",
    ),
    Input(
        "resume='yes'",
        lambda here: streamed(here, resume="yes"),
        TypeError,
        "Expected `resume` to be true or false but got 'yes' (str).",
        mark="library",
    ),
    Input(
        "a seed of text",
        lambda here: streamed(here, seed="abc"),
        TypeError,
        "Expected `seed` to be a whole number from 0 to 9223372036854775807 but got 'abc' (str); 0 is as good as any other.",
        mark="twin",
    ),
    Input(
        "an executor that is a number",
        lambda here: streamed(here, executor=2),
        TypeError,
        "Expected `executor` to have a method `submit`, as those of `concurrent.futures`, but got 2; `ThreadPoolExecutor(2)` is one of two threads.",
        mark="library",
    ),
    Input(
        "an executor that is text",
        lambda here: streamed(here, executor="dask"),
        TypeError,
        "Expected `executor` to have a method `submit`, as those of `concurrent.futures`, but got 'dask'; `ThreadPoolExecutor(2)` is one of two threads.",
        mark="library",
    ),
    Input(
        "a lambda for other processes",
        lambda here: streamed(here, value=lambda x, mask: value(x, mask), executor=Lost()),
        TypeError,
        "Expected a value function and an estimator that can be sent to other processes but pickle refuses: Can't pickle local ... (`functools.partial` can be sent). `explain_rows` with no `executor`, or with a `ThreadPoolExecutor`, sends nothing.",
        mark="library",
    ),
    Input(
        "labels that are too few",
        lambda here: streamed(here, instances=[1, 2]),
        ValueError,
        "Expected 4 labels in `instances`, one per row, but got 2; leave it out to have 0, 1, ...",
        mark="kept",
    ),
    Input(
        "labels that are a number",
        lambda here: streamed(here, instances=4),
        TypeError,
        "Expected `instances` to list labels, one per row, but got 4; leave it out to have 0, 1, ...",
        mark="library",
    ),
    Input(
        "rows that are None",
        lambda here: streamed(here, x=None),
        TypeError,
        "Expected `x` to be rows that can be sliced but got NoneType; a tensor, an array or a data frame of numbers.",
        mark="library",
    ),
    Input(
        "rows that are a path",
        lambda here: streamed(here, x="rows.npy"),
        FileNotFoundError,
        "Expected rows at .../rows.npy, in Parquet files (names that end with .parquet, of a folder) or a zarr array, but none are there; see whether the path is right.",
        mark="gone",
    ),
    Input(
        "a file of a frame explainer in an object store",
        lambda here: ms.FrameExplainer("memory://x/v.ckpt", imputed()),
        ValueError,
        "Expected `path` to be on a file system that all processes share but got memory://x/v.ckpt; an object store cannot hold this file.",
        mark="gone",
    ),
    Input(
        "columns to keep that are one name",
        lambda here: ms.FrameExplainer(here / "v.ckpt", imputed(), keep="id"),
        TypeError,
        "Expected `keep` to list names but got 'id'; give them as in ['id'].",
        mark="gone",
    ),
    Input(
        "columns to keep that are a number",
        lambda here: ms.FrameExplainer(here / "v.ckpt", imputed(), keep=3),
        TypeError,
        "Expected `keep` to list names but got 3; give them as in ['id'].",
        mark="gone",
    ),
    Input(
        "columns of rows that are one name",
        lambda here: tabled(here, columns="age"),
        TypeError,
        "Expected `columns` to list names but got 'age'; give them as in ['id'].",
        mark="gone",
    ),
    Input(
        "labels of rows that are a number",
        lambda here: tabled(here, labels=3),
        TypeError,
        "Expected `labels` to be text but got 3 (int).",
        mark="gone",
    ),
    Input(
        "rows in a CSV file",
        lambda here: frame().to_csv(here / "a.csv") or ms.read_rows(here / "a.csv"),
        ValueError,
        "Expected Parquet files with the same columns at ... but they cannot be read: ... Tables of other formats become one by `frame.to_parquet(...)`.",
        mark="gone",
    ),
    Input(
        "an audit of a number",
        lambda here: ms.audit(3, value),
        TypeError,
        "Expected an `Explanation` to audit but got int; give what an estimator returned.",
        mark="library",
    ),
    Input(
        "an audited estimator that is a number",
        lambda here: ms.audited_shapley(value, ROWS, estimator=3, share=0.5),
        TypeError,
        "Expected an estimator, such as `ms.permutation_shapley`, but got 3.",
        mark="gone",
    ),
    Input(
        "a reference that returns a number",
        lambda here: ms.audited_shapley(
            value, ROWS, estimator=FEW, share=1.0, reference=lambda game, x: 3
        ),
        TypeError,
        "Expected `reference` to return an `Explanation` but got int; `ms.permutation_shapley` does, and a function of your own may end with a call of it.",
        mark="gone",
    ),
    Input(
        "rows with a length and no rows",
        lambda here: streamed(here, x=Rows()),
        TypeError,
        "Expected `x` to be rows that can be sliced but got Rows; a tensor, an array or a data frame of numbers.",
        mark="twin",
    ),
    Input(
        "no rows",
        lambda here: streamed(here, x=ROWS[:0]),
        ValueError,
        "Expected `x` of shape (rows, *event), with at least one row, but got (0, 3); pass rows of the shape that `players` own.",
        mark="twin",
    ),
    Input(
        "rows of a frame with words",
        lambda here: streamed(here, x=frame()),
        TypeError,
        "Expected `x` to hold numbers but these columns do not: ['town (String)']; `ms.Explainer(model, frame)` explains such a table as it is and, step by step, `ms.Codebook.fit(frame)` makes rows of it.",
        mark="twin",
    ),
    Input(
        "rows with a NaN in the last block",
        lambda here: streamed(here, x=torch.cat((ROWS, ROWS[:1] * torch.nan))),
        ValueError,
        "Expected finite numbers but 3 of 3 entries of `x` are NaN or infinite, the first in row 4, element 0 (nan); impute or drop these rows first.",
        mark="kept",
    ),
    Input(
        "rows of a data set that fails",
        lambda here: streamed(here, x=Unreadable()),
        ValueError,
        "Expected `x[0]` to be a row but the data set failed with OSError: the disk is gone.",
        mark="library",
    ),
    Input(
        "complex rows",
        lambda here: streamed(here, x=np.ones((4, 3)) * 1j),
        TypeError,
        "Expected `x` to be a tensor or an array of numbers but got an array of complex128; take its real part.",
        mark="twin",
    ),
    Input(
        "the number of outputs inside the estimator",
        lambda here: streamed(here, estimator=partial(FEW, outputs=1)),
        ValueError,
        "Expected names of `outputs` in the settings of the estimator, or their positions, since the largest ones may differ from block to block; give outputs=1 to `explain_rows`.",
        mark="kept",
    ),
    Input(
        "an unknown output",
        lambda here: streamed(here, outputs=["cat"]),
        ValueError,
        "Expected `outputs` to be one of ['0'] but got 'cat'.",
        mark="twin",
    ),
    Input(
        "resuming with another seed",
        lambda here: interrupted(here, lambda p: None, seed=3),
        ValueError,
        "Expected the rows and settings of the interrupted call, 1 blocks of which are in ..., but these differ: seed. Give the same ones again, or start from the first row with resume=False.",
        slow=True,
        mark="kept",
    ),
    Input(
        "resuming with other rows",
        lambda here: interrupted(here, lambda p: None, x=ROWS + 1),
        ValueError,
        "Expected the rows and settings of the interrupted call, 1 blocks of which are in ..., but these differ: x or instances, phi, prediction. Give the same ones again, or start from the first row with resume=False.",
        slow=True,
        mark="kept",
    ),
    Input(
        "resuming with another value function",
        lambda here: interrupted(here, lambda p: None, value=lambda x, mask: 2 * value(x, mask)),
        ValueError,
        "Expected the rows and settings of the interrupted call, 1 blocks of which are in ..., but these differ: phi, prediction. Give the same ones again, or start from the first row with resume=False.",
        slow=True,
        mark="kept",
    ),
    Input(
        "resuming after the record was cut",
        lambda here: interrupted(here, lambda p: next(p.glob("*.zarr/.zmetadata")).write_text("{")),
        ValueError,
        "Expected work in progress that can be resumed in ... but its record is damaged; start again with resume=False.",
        slow=True,
        mark="gone",
    ),
    Input(
        "resuming after a block was cut",
        lambda here: interrupted(
            here, lambda p: next(p.glob("*/0*.zarr/phi/0.0.0")).write_bytes(b"")
        ),
        UserWarning,
        "2 rows that an interrupted call had left are damaged; they are explained again.",
        slow=True,
        mark="gone",
    ),
]
