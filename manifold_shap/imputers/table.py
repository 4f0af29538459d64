"""Imputes cells of a table: an imputer of floats draws them, and they become observed values."""

import warnings
from typing import Any

from jaxtyping import Float
from torch import Tensor

from manifold_shap import _random
from manifold_shap._checks import check_rows
from manifold_shap._saved import KINDS, codes
from manifold_shap.coalitions import Coalitions
from manifold_shap.imputers.base import (
    CompletedRows,
    Completions,
    Imputer,
    Keys,
    Rows,
)
from manifold_shap.tables.base import RowAdapter
from manifold_shap.tables.rows import rows_of

# The stream of random numbers that choose among rare categories; streams of imputers are from 1.
_CELLS = 100


class TableImputer(Imputer):
    """Completes rows of codes by an imputer of the rows that the table encodes.

    A drawn cell becomes the nearest value that the training frame holds, which may be a missing
    cell: whole numbers stay whole, and categories valid. Draws that are reference rows are these
    rows themselves. Present cells are the row's own. `table_imputer` makes one.

    >>> import pandas as pd
    >>> import manifold_shap as ms
    >>> frame = pd.DataFrame({"age": [30, 20, 40, 30], "town": ["Oslo", None, "Rome", "Rome"]})
    >>> table = ms.Table.fit(frame)
    >>> imputer = ms.imputers.table_imputer(ms.imputers.GaussianImputer, table, frame)
    >>> type(imputer).__name__, imputer.name
    ('TableImputer', 'gaussian')

    Attributes:
        inner: the imputer of encoded rows.

    Args:
        table: numbers the cells, and encodes them.
        inner: draws the elements of encoded rows, whose players are `table.elements`.
        reference: the frame whose encoded rows are those of `inner`, or its codes.

    Raises:
        TypeError, ValueError: `reference` is no frame like that of the table.
    """

    table: RowAdapter

    def __init__(self, table: RowAdapter, inner: Imputer, reference: Any) -> None:
        super().__init__(rows_of(reference, table), table.players)
        self.table, self.inner, self.name = table, inner, inner.name
        self.distinct_draws = inner.distinct_draws
        self.learned = inner.learned

    @property
    def training_record(self) -> dict[str, Any]:
        """That of the inner imputer: epochs, seconds and validation loss; where it was trained."""
        return getattr(self.inner, "training_record", {})

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The table, the codes, and the inner imputer but for its rows, which encode these."""
        settings, tensors = self.inner.state()
        tensors.pop("reference")
        inner = {"kind": self.inner.kind, "settings": settings}
        return {"table": self.table, "inner": inner}, {
            "codes": codes(self.reference),
            **tensors,
        }

    @classmethod
    def restored(
        cls, settings: dict[str, Any], tensors: dict[str, Tensor], passed: Any
    ) -> "TableImputer":
        table, inner = settings["table"], settings["inner"]
        rows = tensors.pop("codes").float()
        tensors["reference"] = table.encode(rows)
        made = KINDS[inner["kind"]].restored(inner["settings"], tensors, passed)
        return cls(table, made, rows)

    @property
    def provenance(self) -> dict[str, Any]:
        return self.inner.provenance

    def impute(self, x: Rows, coalitions: Coalitions, draws: range) -> Completions:
        """Complete each coalition by the inner imputer; see `Imputer.impute`."""
        completed = self.inner.impute(self.table.encode(x), coalitions, draws)
        if completed.donors is None:
            drawn = self._nearest(completed.rows, draws, coalitions.each_key())
        else:
            drawn = self.reference[completed.donors]
        return completed._replace(rows=self.splice(x, coalitions.masks(), drawn))

    def sample(self, x: Rows, coalitions: Coalitions, draws: range) -> CompletedRows:
        """Equally weighted draws, as the inner imputer samples them."""
        drawn = self.inner.sample(self.table.encode(x), coalitions, draws)
        nearest = self._nearest(drawn, draws, coalitions.each_key())
        return self.splice(x, coalitions.masks(), nearest)

    def _nearest(
        self, elements: Float[Tensor, "batch m draws elements"], draws: range, keys: Keys
    ) -> Float[Tensor, "batch m draws columns"]:
        u = _random.uniform(_random.fold(keys, _CELLS), self.players.event, draws)
        return self.table.nearest(elements, u)


def table_imputer(
    kind: type[Imputer], table: RowAdapter, reference: Any, **settings: Any
) -> Imputer:
    """An imputer of the cells of a table, of texts or of several tensors.

    The marginal, contrastive and exact-match imputers take cells of the reference rows as they are.
    Others compute with the encoded rows, and what they draw becomes observed values; see
    `TableImputer`.

    Args:
        kind: class of the imputer, such as `ms.imputers.GaussianImputer`.
        table: numbers the cells of the table; see `Table`.
        reference: the frame of background data, or its codes.
        settings: of the imputer, such as `regularisation=0.1`.

    Raises:
        TypeError, ValueError: `reference` is no frame like that of the table; what the imputer
            raises.

    >>> import pandas as pd
    >>> import torch
    >>> import manifold_shap as ms
    >>> frame = pd.DataFrame({"age": [30, 20, 40, 30], "town": ["Oslo", None, "Rome", "Rome"]})
    >>> table = ms.Table.fit(frame)
    >>> imputer = table_imputer(ms.imputers.GaussianImputer, table, frame)
    >>> x, mask = table.rows(frame[:1]), torch.tensor([[[True, False]]])
    >>> from manifold_shap.coalitions import Listed
    >>> completed = imputer.impute(x, Listed(mask, torch.tensor([[0]])), range(3)).rows
    >>> table.frame(completed.flatten(0, 2))["age"].tolist()
    [30, 30, 30]
    """
    codes = check_rows(rows_of(reference, table), table.players, "reference")
    if kind.copies:
        made = kind(codes, table.players, **settings)
        made.table = table
        return made
    with warnings.catch_warnings():
        # The elements of a category sum to 1, and what ridge that needs, `provenance` says.
        warnings.filterwarnings("ignore", "The covariance of `reference`")
        inner = kind(table.encode(codes), table.elements, **settings)
    return TableImputer(table, inner, codes)
