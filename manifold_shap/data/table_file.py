"""Makes training, validation and test rows of a table of your own."""

from pathlib import Path
from typing import Any, Unpack

import pandas as pd
import torch
from pandas.api.types import is_bool_dtype, is_numeric_dtype
from torch import Tensor

from manifold_shap._checks import to_tensor
from manifold_shap.data.base import Settings, Table, TensorDataModule
from manifold_shap.data.reading import ReadOptions, TableReader
from manifold_shap.tables.vocabulary import label_of


class _Options(ReadOptions, Settings):
    """The settings of a reader, and those of every source."""


class TableFile(TensorDataModule):
    """A table of your own, in a file, of which one column is to be predicted.

    Rows are the codes of a `Codebook`, and are called by their numbers in the file.
    """

    name = "table"
    codes = True

    def __init__(
        self,
        *,
        path: str,
        target: str | None = None,
        task: str = "classification",
        **options: Unpack[_Options],
    ) -> None:
        """As the base, and:

        Args:
            path, target, task: see `TableReader`. The name of the file without its ending is the
                default of `name`.
            options: how to read it; see `TableReader`.

        Raises:
            TypeError, ValueError: see `TableReader`.
        """
        plain: dict[str, Any] = dict(options)
        own = {key: plain.pop(key) for key in ReadOptions.__annotations__ if key in plain}
        self.reader = TableReader(
            path=path, target=target, task=task, root=plain.get("root"), **own
        )
        self.name, self.task = Path(path).stem, self.reader.task
        self.described = (*self.reader.keep, *self.reader.categorical)
        super().__init__(**plain)

    def read(self) -> Table:
        read, target = self.reader.read(), self.reader.target
        if target is None and not self.own_model:
            raise ValueError(
                f"Expected `target`, the column of {self.reader.path} that a model is to be "
                f"trained to predict, but got none; set data.target to one of "
                f"{list(read.frame.columns)[:20]}."
            )
        features = read.frame.copy(deep=False)
        labels, classes = torch.zeros(0), tuple[str, ...]()
        if target is not None:
            labels, classes = _labels(features.pop(target), self.task)
        return Table(
            features,
            labels,
            classes,
            tuple(name for name in self.reader.categorical if name in features),
            target=target or "output",
            identifiers=read.identifiers,
            numbers=list(features.index),
        )


def _labels(target: pd.Series, task: str) -> tuple[Tensor, tuple[str, ...]]:
    """What to predict for each row, and the names of the classes in order."""
    if task == "regression":
        return to_tensor(target.to_numpy(dtype=float), str(target.name)), ()
    labels = target.map(label_of)
    is_number = is_numeric_dtype(target.dtype) and not is_bool_dtype(target.dtype)
    classes = tuple(sorted(labels.unique(), key=float if is_number else None))
    return torch.from_numpy(pd.Index(classes).get_indexer(pd.Index(labels))).long(), classes
