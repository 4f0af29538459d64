"""Rows as models want them: frames of pandas and polars, arrays and tensors, made each other."""

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from manifold_shap._arrays import is_frame
from manifold_shap._messages import shown

if TYPE_CHECKING:
    import pandas as pd


def whole(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Numbers rounded to a type of whole numbers; beyond its range, to the nearest it has.

    An imputer may draw -3 for a model of bytes, which a bare cast would make 253.

    >>> whole(torch.tensor([-3.0, 2.6, 300.0]), torch.uint8)
    tensor([  0,   3, 255], dtype=torch.uint8)
    """
    if x.dtype == dtype:
        return x
    if dtype == torch.bool:
        return x > 0.5
    low, high = torch.iinfo(dtype).min, min(torch.iinfo(dtype).max, 2**63 - 1)
    if not x.is_floating_point():
        return x.long().clamp(low, high).to(dtype)
    # A float would round the largest number up, beyond the type.
    digits = 1 - round(math.log2(torch.finfo(x.dtype).eps))
    spare = max(0, high.bit_length() - digits)
    return x.round().clamp(low, high >> spare << spare).to(dtype)


def in_fitted_order(frame: Any, fitted: Sequence[str] | None, model: str) -> Any:
    """The frame with its columns in the order in which a model was fitted to them.

    Args:
        frame: of pandas or polars.
        fitted: names of the columns that the model was fitted to; None where it does not know.
        model: its name, for the error.

    Raises:
        ValueError: the frame has other columns, such as the target among them.

    >>> import pandas as pd
    >>> list(in_fitted_order(pd.DataFrame({"a": [1], "b": [2]}), ["b", "a"], "tree"))
    ['b', 'a']
    """
    import narwhals as nw

    given = nw.from_native(frame, eager_only=True)
    names = [str(name) for name in given.columns]
    if fitted is None or names == list(fitted):
        return frame
    # Names as they are come first: LightGBM and ONNX may know others with characters replaced.
    left = dict(zip(names, given.columns, strict=True))
    found = {name: left.pop(name) for name in fitted if name in left}
    # Those with the fewest `_` fit the fewest of what is left.
    for name in sorted(fitted, key=lambda name: name.count("_")):
        alike = next((own for own in left if name not in found and _became(own, name)), None)
        if alike is not None:
            found[name] = left.pop(alike)
    beyond, absent = list(left), [name for name in fitted if name not in found]
    if beyond or absent:
        problems = [f"has {shown(beyond)} besides"] if beyond else []
        problems += [f"has no {shown(absent)}"] if absent else []
        raise ValueError(
            f"Expected a frame with the columns that {model} was fitted to but it "
            f"{' and '.join(problems)}; drop columns that are no features, such as the target."
        )
    order = [found[name] for name in fitted]
    return frame if order == given.columns else given.select(order).to_native()


def _became(name: str, fitted: str) -> bool:
    """Whether a name becomes the fitted one where some special characters are replaced by `_`."""
    return len(name) == len(fitted) and all(
        one == other or (other == "_" and re.match(r"\W", one))
        for one, other in zip(name, fitted, strict=True)
    )


def as_array(rows: Any) -> np.ndarray:
    """Rows as an array `[rows, columns]`, a missing number as NaN; texts make it one of objects.

    Of whole numbers throughout, it holds whole numbers.

    >>> as_array([[1, 2]]).dtype.kind
    'i'
    """
    if isinstance(rows, Tensor):
        return rows.detach().cpu().flatten(1).numpy()
    if not is_frame(rows):
        return np.asarray(rows)
    import narwhals as nw

    return np.column_stack([column_array(s) for s in nw.from_native(rows).iter_columns()])


def column_array(column: Any) -> np.ndarray:
    """A column of narwhals as an array; numbers with missing ones among them as float64."""
    import narwhals as nw

    if column.dtype.is_numeric() or column.dtype == nw.Boolean:
        if column.dtype == nw.Decimal or column.is_null().any():
            column = column.cast(nw.Float64)
        return column.to_numpy()
    return np.asarray(column.to_list(), dtype=object)


def as_pandas(frame: Any) -> "pd.DataFrame":
    """A frame of pandas: of polars, yes/no columns with missing cells become numbers.

    >>> import polars as pl
    >>> as_pandas(pl.DataFrame({"a": [True, None]}))["a"].tolist()
    [1.0, nan]
    """
    import narwhals as nw

    given = nw.from_native(frame, eager_only=True)
    if given.implementation.is_pandas():
        return frame
    gaps = [s.name for s in given.iter_columns() if s.dtype == nw.Boolean and s.is_null().any()]
    return (given.with_columns(nw.col(*gaps).cast(nw.Float64)) if gaps else given).to_pandas()
