"""Numbers the cells of a user's frame, and gives the frame back from these codes, bit for bit.

A row of a frame is a tensor with one element per column: the number of the cell's value among the
distinct values of the column. Value functions and estimators compute with codes as with any rows,
imputers and networks with their encoding as floats, and the model sees the user's own frame: the
cells that are known are its own, and those that are drawn are values that were observed. So whole
numbers stay whole, categories valid, and a missing cell is a value like any other.
"""

from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from typing import Any

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from jaxtyping import Float
from pandas.api import types
from torch import Tensor

from manifold_shap._checks import check_known
from manifold_shap._messages import shown, warn
from manifold_shap._saved import saved
from manifold_shap.players import Players
from manifold_shap.tables.coded import CodedColumn
from manifold_shap.tables.forms import form_from_dict, form_of
from manifold_shap.tables.forms.base import Codes, Form
from manifold_shap.tables.groups import named_groups, players_of
from manifold_shap.tables.plain import from_plain, to_plain
from manifold_shap.tables.schema import Schema
from manifold_shap.tables.vocabulary import label_of, numbered

# Rows that are needed to tell that a column identifies them.
_LEAST_IDENTIFIED = 20


@saved
class Codebook:
    """The distinct values of each column of a frame, numbered.

        >>> frame = pd.DataFrame({"age": [30, 20, 40], "town": ["Oslo", None, "Rome"]})
        >>> codebook = Codebook.fit(frame)
        >>> x = codebook.rows(frame)
        >>> x
        tensor([[1., 0.],
                [0., 2.],
                [2., 1.]])
        >>> codebook.frame(x).equals(frame)
        True
        >>> codebook.encode(x).shape
        torch.Size([3, 4])

    Codes are float32 and finite. Those of training are sorted, numbers and dates by size and text
    by its letters, missing cells last. Cells that training never saw get codes behind them when
    they are met; codes never change.

    Attributes:
        names: of the columns that play, as text.
        players: each column, or group of columns, as a player; an input row is a row of codes.
        schema: how the columns are encoded as floats.
        left_out: columns that do not play although they vary; the model is given what the first row
            of training holds.
        constants: the value of each column that has but one; they do not play either.
    """

    def __init__(
        self,
        form: Form,
        coded: Sequence[CodedColumn],
        held: Mapping[Any, Any],
        groups: Mapping[str, Sequence[Any]] | None = None,
        left_out: Iterable[Any] = (),
    ) -> None:
        self._form, self._coded = form, list(coded)
        self.schema = Schema(tuple(own.column for own in coded))
        self._held, self.groups = dict(held), dict(groups or {})
        self.left_out = tuple(left_out)
        self.players = players_of(self.names, self.groups)
        self._lock = Lock()

    @classmethod
    def fit(
        cls,
        frame: Any,
        players: Mapping[str, Sequence[Any]] | None = None,
        left_out: Iterable[Any] = (),
        categorical: Iterable[Any] = (),
    ) -> "Codebook":
        """Number the values of a training frame.

        Args:
            frame: of pandas or polars, or an array, a tensor or a list of rows, whose columns are
                then x0, x1, ...
            players: groups of columns that enter and leave coalitions together, by name; each other
                column is a player of its own.
            left_out: columns that the model needs to be given but that do not play.
            categorical: columns that are categories although they hold numbers or two values.

        Raises:
            TypeError: no table, or a column of lists or of complex numbers.
            ValueError: no rows or columns, a name that occurs twice or is unknown, infinite
                numbers, dates in several time zones, no column that varies.
        """
        form = form_of(frame)
        out, categories = frozenset(left_out), frozenset(categorical)
        check_known(out, form.columns, "`left_out` to name columns")
        check_known(categories, form.columns, "`categorical` to name columns")
        columns = dict(zip(form.columns, form.read(frame), strict=True))
        playing = [name for name in form.columns if name not in out]
        found = [CodedColumn.fit(form, name, columns[name], name in categories) for name in playing]
        coded = [own for own in found if len(own.values) > 1]
        if not coded:
            raise ValueError(
                f"Expected at least one column that varies but every one holds one value: "
                f"{shown(playing)}; pass the rows that the model was trained on."
            )
        varying = [own.name for own in coded]
        first = np.zeros(1, dtype=np.int64)
        rest = (name for name in form.columns if name not in frozenset(varying))
        held = {name: form.take(columns[name], first) for name in rest}
        return cls(form, coded, held, named_groups(players, form.columns, playing), out)

    @property
    def names(self) -> tuple[str, ...]:
        return self.schema.names

    @property
    def columns(self) -> tuple[Any, ...]:
        """Names of all columns, as the user has them."""
        return self._form.columns

    @property
    def constants(self) -> dict[str, Any]:
        held = ((name, own) for name, own in self._held.items() if name not in self.left_out)
        return {str(name): self._form.cells(own).iloc[0] for name, own in held}

    @property
    def elements(self) -> Players:
        """The players as owners of the elements of an encoded row."""
        widths = torch.tensor([column.width for column in self.schema.columns])
        return Players(self.players.names, self.players.index.repeat_interleave(widths))

    def rows(self, frame: Any) -> Float[Tensor, "rows columns"]:
        """The codes of a frame's cells; columns are matched by name.

        Warns where cells hold categories that training did not, or are missing where none was:
        value functions take them for "other", or for an average cell.

        Raises:
            TypeError: a frame of another library.
            ValueError: columns that are missing, too many or of another dtype, or infinite numbers.
        """
        read = dict(zip(self._form.columns, self._form.read(frame), strict=True))
        with self._lock:
            codes = [own.codes(read[own.name]) for own in self._coded]
        self._warn_of(codes)
        self._warn_of_held(read)
        return torch.from_numpy(np.stack(codes, axis=1).astype(np.float32))

    def check(self, x: Float[Tensor, "rows columns"], name: str = "x") -> None:
        """Raise ValueError unless these are codes; `name` is what the error calls them."""
        counts = torch.tensor([len(own.values) for own in self._coded], device=x.device)
        odd = (x < 0) | (x >= counts) | (x != x.round())
        if bool(odd.any()):
            row, column = odd.nonzero()[0].tolist()
            raise ValueError(
                f"Expected `{name}` to be a frame or its codes, whole numbers below "
                f"{int(counts[column])} in column {self.names[column]!r}, but row {row} has "
                f"{x[row, column]:g} there; pass the frame itself, or `codebook.rows(frame)`."
            )

    def frame(self, x: Float[Tensor, "rows columns"]) -> Any:
        """The frame with these cells: columns, order, dtypes and categories of the user's own."""
        made = {
            own.name: self._form.take(own.values.native, codes)
            for own, codes in zip(self._coded, _whole(x), strict=True)
        }
        first = np.zeros(len(x), dtype=np.int64)
        made |= {name: self._form.take(own, first) for name, own in self._held.items()}
        return self._form.build([made[name] for name in self._form.columns])

    def encode(self, x: Float[Tensor, "*batch columns"]) -> Float[Tensor, "*batch width"]:
        """Codes as float32 elements; see `Schema`."""
        pairs = zip(x.unbind(-1), self._coded, strict=True)
        return torch.cat(
            [F.embedding(codes.long(), own.elements.to(x.device)) for codes, own in pairs], -1
        )

    def nearest(
        self, elements: Float[Tensor, "*batch width"], u: Float[Tensor, "*batch columns"]
    ) -> Float[Tensor, "*batch columns"]:
        """Codes of the values of training that are nearest to encoded cells.

        Args:
            elements: encoded rows, such as an imputer draws.
            u: uniform numbers, which choose among the values that share one element: rare
                categories, mostly.
        """
        parts = elements.split([column.width for column in self.schema.columns], dim=-1)
        codes = elements.new_empty(*elements.shape[:-1], len(parts))
        for k, (own, part) in enumerate(zip(self._coded, parts, strict=True)):
            codes[..., k] = own.nearest(part, u[..., k])
        return codes

    def decode(self, x: Float[Tensor, "rows columns"]) -> pd.DataFrame:
        """Cells in original units, for people: a data frame of pandas."""
        return pd.DataFrame(
            {
                str(own.name): own.values.cells.take(codes).reset_index(drop=True)
                for own, codes in zip(self._coded, _whole(x), strict=True)
            }
        )

    def warn_of_columns(self, x: Float[Tensor, "rows columns"]) -> None:
        """Warn of columns that a game of these rows takes otherwise than people may expect.

        Text and whole numbers that hold another value in each row; players with the same cells, up
        to units; numbers so far out that half of the others are alike in float32.
        """
        identifiers = [
            str(own.name)
            for own, codes in zip(self._coded, x.T, strict=True)
            if own.column.kind == "categorical" or types.is_integer_dtype(own.values.cells.dtype)
            if len(codes.unique()) == len(x) >= _LEAST_IDENTIFIED
        ]
        if identifiers:
            warn(
                f"No value repeats in columns {shown(identifiers)}: where they number or name the "
                "rows, leave them out of the game by `left_out`, or drop them."
            )
        copies = dict[bytes, dict[int, str]]()
        for name, codes, player in zip(self.names, x.T, self.players.index.tolist(), strict=True):
            copies.setdefault(codes.numpy().tobytes(), {})[player] = name
        if same := [[*names.values()] for names in copies.values() if len(names) > 1]:
            warn(
                f"Columns that tell the same in every row, {shown(same)}, share one effect, "
                "whichever of them the model reads: make them one player by `players`, or drop all "
                "but one."
            )
        far = [
            own.column.name
            for own in self._coded
            if own.column.kind == "continuous"
            if np.ptp(np.quantile(own.elements[:, 0], (0.25, 0.75))) < torch.finfo().eps
        ]
        if far:
            warn(
                f"Columns {shown(far)} hold numbers so far out that float32 hardly tells the "
                "others apart: correct these cells, or leave them empty."
            )

    def with_constants(self) -> "Codebook":
        """The same with the constant columns behind the others: players, or of a group's player.

        For explanations: a code of 0 stands for the constant.
        """
        names = [name for name in self._held if name not in self.left_out]
        more = [CodedColumn.fit(self._form, name, self._held[name]) for name in names]
        held = {name: self._held[name] for name in self.left_out}
        return Codebook(self._form, [*self._coded, *more], held, self.groups, self.left_out)

    def only(
        self, x: Float[Tensor, "rows columns"]
    ) -> "tuple[Float[Tensor, 'rows columns'], Codebook]":
        """The same rows, and a codebook that holds no other values: to store them with.

        >>> codebook = Codebook.fit(pd.DataFrame({"age": [20, 30, 40]}))
        >>> x, small = codebook.only(torch.tensor([[2.0], [1.0], [2.0]]))
        >>> x.flatten(), small.decode(x)["age"].tolist()
        (tensor([1., 0., 1.]), [40, 30, 40])
        """
        pairs = [own.only(codes) for own, codes in zip(self._coded, _whole(x), strict=True)]
        small = [own for _, own in pairs]
        codes = torch.from_numpy(np.stack([codes for codes, _ in pairs], 1).astype(np.float32))
        return codes, Codebook(self._form, small, self._held, self.groups, self.left_out)

    def to_dict(self) -> dict[str, Any]:
        """Numbers, text, lists and dicts, for a JSON file, from which the same codebook comes.

        Raises:
            ValueError: a dtype or cells that cannot be written.
        """
        store = self._form.store
        return {
            "form": self._form.to_dict(),
            "vocabularies": [own.to_dict() for own in self._coded],
            **self.schema.to_dict(),
            "held": [[to_plain(name), store(cell)] for name, cell in self._held.items()],
            "groups": {name: list(members) for name, members in self.groups.items()},
            "left_out": [to_plain(name) for name in self.left_out],
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Codebook":
        """The codebook that `to_dict` wrote.

        >>> import json
        >>> frame = pd.DataFrame({"age": [30, 20, 40]})
        >>> written = json.dumps(Codebook.fit(frame).to_dict())
        >>> Codebook.from_dict(json.loads(written)).rows(frame).flatten()
        tensor([1., 0., 2.])

        Raises:
            ImportError: it is of a frame of polars, which is not installed.
        """
        form, schema = form_from_dict(plain["form"]), Schema.from_dict(plain)
        pairs = zip(plain["vocabularies"], schema.columns, strict=True)
        coded = [CodedColumn.from_dict(form, *pair) for pair in pairs]
        held = [(from_plain(name), cells) for name, cells in plain["held"]]
        cells = {name: form.restore(name, cells) for name, cells in held}
        left_out = [from_plain(name) for name in plain["left_out"]]
        return cls(form, coded, cells, plain["groups"], left_out)

    kind = "table"

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        return self.to_dict(), {}

    @classmethod
    def restored(cls, settings: dict[str, Any], _: dict[str, Tensor], __: Any) -> "Codebook":
        return cls.from_dict(settings)

    def __getstate__(self) -> dict[str, Any]:
        # A lock is neither copied nor sent to another process.
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=Lock())

    def _warn_of(self, codes: Sequence[Codes]) -> None:
        met = []
        for own, rows in zip(self._coded, codes, strict=True):
            odd = np.unique(rows[own.unknown[rows]])
            if len(odd):
                labels = [label_of(cell) for cell in own.values.cells.iloc[odd[:4]]]
                more = f" and {len(odd) - 3} more" if len(odd) > 3 else ""
                met.append(f"{str(own.name)!r} holds {labels[:3]}{more}")
        if met:
            warn(
                f"Cells that training had none of: {'; '.join(met)}. The model sees them as they "
                "are; the value function takes them for rare categories, or for average cells.",
            )

    def _warn_of_held(self, read: Mapping[Any, Any]) -> None:
        constant = [name for name in self._held if name not in self.left_out]
        changed = []
        for name in constant:
            both = self._form.join(self._held[name], read[name])
            if len(numbered(*self._form.keys(both))[1]) > 1:
                changed.append(str(name))
        if changed:
            warn(
                f"Expected columns {shown(changed)} to hold what they did throughout training but "
                "other values occur; the model sees those of training, in `codebook.constants`.",
            )


def _whole(x: Float[Tensor, "rows columns"]) -> Codes:
    """Codes by column."""
    return np.ascontiguousarray(x.detach().cpu().numpy().T.astype(np.int64))
