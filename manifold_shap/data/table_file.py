"""Makes training, validation and test rows of a table of your own."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

import pandas as pd
import torch
from pandas.api.types import is_bool_dtype, is_numeric_dtype
from torch import Tensor

from manifold_shap._checks import to_tensor
from manifold_shap._messages import check_choice, warn
from manifold_shap.data import sources
from manifold_shap.data.base import Settings, Table, TensorDataModule
from manifold_shap.data.reading import column_of, numbered, read_frame
from manifold_shap.tables.distinct import label_of


class TableFile(TensorDataModule):
    """A table of your own, in a file, of which one column is to be predicted.

    Rows are the codes of a `Table`, and are called by their numbers in the file: the first row
    of data is row 0. Those without the target are left out.
    """

    name = "table"

    def __init__(
        self,
        *,
        path: str,
        target: str | None = None,
        task: str = "classification",
        read: Mapping[str, Any] | None = None,
        drop: Sequence[str] = (),
        left_out: Sequence[str] = (),
        categorical: Sequence[str] = (),
        **settings: Unpack[Settings],
    ) -> None:
        """As the base, and:

        Args:
            path: the file, from the working directory or from the places `root` stands for. Its
                name without its ending is the default of `name`.
            target: the column to predict; None where a model of one's own needs none.
            task: "classification", or "regression" of a target of numbers.
            read: arguments of the reader of pandas, such as `{"sep": ";", "decimal": ","}`; see
                `read_frame`.
            drop: columns that no model is given.
            left_out: columns that are no players; a model of one's own is given them all the same.
            categorical: columns that are categories, whatever they hold.

        Raises:
            TypeError, ValueError: a setting that cannot be.
        """
        self.path = path
        self.target = None if target is None else str(target)
        self.task = check_choice("task", task, ("classification", "regression"))
        self.pandas, self.drop = dict(read or {}), list(drop)
        self.left_out, self.categorical = tuple(left_out), tuple(categorical)
        self.name = Path(self.path).stem
        super().__init__(**settings)

    def read(self) -> Table:
        """The table.

        Raises:
            FileNotFoundError: there is no such file.
            KeyError, ValueError: pandas cannot read it, or it lacks a column that is named.
        """
        if self.target is None and not self.own_model:
            raise ValueError(
                f"Expected `target`, the column of {self.path} that a model is to be trained to "
                "predict, but got none."
            )
        frame = read_frame(sources.located(self.root, self.path), self.pandas)
        frame = frame.drop(columns=self.drop)
        labels, classes = torch.zeros(0), tuple[str, ...]()
        if self.target is not None:
            missing = column_of(frame, self.target, self.path).isna()
            if missing.any():
                warn(
                    f"{missing.sum()} of {len(frame)} rows lack the target {self.target!r}, and "
                    "are left out."
                )
            frame = frame[~missing]
            labels, classes = _labels(frame.pop(self.target), self.task)
        return Table(
            frame,
            labels,
            classes,
            self.categorical,
            target=self.target or "output",
            numbers=list(frame.index),
        )


def _labels(target: pd.Series, task: str) -> tuple[Tensor, tuple[str, ...]]:
    """What to predict for each row, and the names of the classes in order."""
    if task == "regression":
        return to_tensor(target.to_numpy(dtype=float), str(target.name)), ()
    is_number = is_numeric_dtype(target.dtype) and not is_bool_dtype(target.dtype)
    return numbered([label_of(cell) for cell in target], is_number)
