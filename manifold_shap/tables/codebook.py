"""Numbers the cells of a user's frame, and gives the frame back from these codes, bit for bit.

A row of a frame is a tensor with one element per column: the number of the cell's value among the
distinct values of the column. Value functions and estimators compute with codes as with any rows,
imputers and networks with their encoding as floats, and the model sees the user's own frame: the
cells that are known are its own, and those that are drawn are values that were observed. So whole
numbers stay whole, categories valid, and a missing cell is a value like any other.
"""

import warnings
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

from manifold_shap._checks import all_at_once, check_known
from manifold_shap._words import shown
from manifold_shap.players import Players
from manifold_shap.tables.drawing import ValueOf, value_of
from manifold_shap.tables.encoding import encode_values, fit_column
from manifold_shap.tables.forms import Form, form_of
from manifold_shap.tables.schema import Schema
from manifold_shap.tables.vocabulary import Vocabulary

# Whole numbers up to this are exact in float32.
_MOST_CODES = 2**24

# Share of rows with a value of their own from which text is taken for an identifier of the rows;
# and the rows that are needed to tell.
_IDENTIFYING, _LEAST_IDENTIFIED = 0.9, 20


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
        vocabularies: Sequence[Vocabulary],
        schema: Schema,
        held: Mapping[Any, Any],
        groups: Mapping[str, Sequence[Any]] | None = None,
        left_out: Iterable[Any] = (),
    ) -> None:
        self._form, self._vocabularies, self.schema = form, list(vocabularies), schema
        self._held, self.groups = dict(held), dict(groups or {})
        self.left_out = tuple(left_out)
        self.players = _players(self.names, self.groups)
        self._lock = Lock()
        self._values_of: list[ValueOf] = []
        self._elements: list[Tensor] = []
        self._unknown: list[Any] = []
        self._encode_new()

    @classmethod
    def fit(
        cls,
        frame: Any,
        players: Mapping[str, Sequence[Any]] | None = None,
        left_out: Iterable[Any] = (),
    ) -> "Codebook":
        """Number the values of a training frame.

        Args:
            frame: of pandas or polars, or an array, a tensor or a list of rows, whose columns are
                then x0, x1, ...
            players: groups of columns that enter and leave coalitions together, by name; each other
                column is a player of its own.
            left_out: columns that the model needs to be given but that do not play.

        Raises:
            TypeError: no table, or a column of lists or of complex numbers.
            ValueError: no rows or columns, a name that occurs twice or is unknown, infinite
                numbers, dates in several time zones, no column that varies. What is wrong with
                several columns is said at once.
        """
        form = form_of(frame)
        out = frozenset(left_out)
        check_known(out, form.columns, "`left_out` to name columns")
        columns = dict(zip(form.columns, form.read(frame), strict=True))

        def known(name: Any) -> Vocabulary:
            return Vocabulary(form, name, columns[name])

        playing = [name for name in form.columns if name not in out]
        found = dict(zip(playing, all_at_once(known, playing), strict=True))
        varying = [name for name in playing if len(found[name].values) > 1]
        if not varying:
            raise ValueError(
                "Expected at least one column that varies but every one holds a single value: "
                f"{shown(playing)}."
            )
        fitted = [fit_column(found[name], found[name].codes(columns[name])) for name in varying]
        rest = (name for name in form.columns if name not in varying)
        held = {name: form.take(columns[name], np.zeros(1, dtype=np.int64)) for name in rest}
        chosen = [found[name] for name in varying]
        groups = _named(players, varying, held)
        book = cls(form, chosen, Schema(tuple(fitted)), held, groups, out)
        for place, name in enumerate(varying):
            book._values_of[place].weigh(found[name].codes(columns[name]))
        return book

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
        return {str(name): self._form.values(own).iloc[0] for name, own in held}

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
            pairs = [(known, read[known.name]) for known in self._vocabularies]
            codes = all_at_once(lambda pair: pair[0].codes(pair[1]), pairs)
            self._encode_new()
            unknown = self._unknown
        self._warn_of(codes, unknown)
        return torch.from_numpy(np.stack(codes, axis=1).astype(np.float32))

    def frame(self, x: Float[Tensor, "rows columns"]) -> Any:
        """The frame with these cells: columns, order, dtypes and categories of the user's own."""
        codes = x.detach().cpu().numpy().astype(np.int64).T
        made = {
            known.name: self._form.take(known.native, own)
            for known, own in zip(self._vocabularies, codes, strict=True)
        }
        first = np.zeros(len(x), dtype=np.int64)
        made |= {name: self._form.take(own, first) for name, own in self._held.items()}
        return self._form.build([made[name] for name in self._form.columns])

    def encode(self, x: Float[Tensor, "*batch columns"]) -> Float[Tensor, "*batch width"]:
        """Codes as float32 elements; see `Schema`."""
        pairs = zip(x.unbind(-1), self._elements, strict=True)
        return torch.cat([F.embedding(own.long(), of.to(x.device)) for own, of in pairs], -1)

    def nearest(
        self, elements: Float[Tensor, "*batch width"], u: Float[Tensor, "*batch columns"]
    ) -> Float[Tensor, "*batch columns"]:
        """Codes of the values of training that are nearest to encoded cells.

        Args:
            elements: encoded rows, such as an imputer draws.
            u: uniform numbers, which choose among the rare categories where these share one
                element.
        """
        parts = elements.split([column.width for column in self.schema.columns], dim=-1)
        codes = elements.new_empty(*elements.shape[:-1], len(parts))
        for k, (value, own) in enumerate(zip(self._values_of, parts, strict=True)):
            codes[..., k] = value(own, u[..., k])
        return codes

    def decode(self, x: Float[Tensor, "rows columns"]) -> pd.DataFrame:
        """Cells in original units, for people: a data frame of pandas."""
        codes = x.detach().cpu().numpy().astype(np.int64).T
        known = zip(self.names, self._vocabularies, codes, strict=True)
        return pd.DataFrame(
            {name: own.values.take(code).reset_index(drop=True) for name, own, code in known}
        )

    @property
    def columns_in_play(self) -> tuple[Any, ...]:
        """The columns that play, as the user names them."""
        return tuple(known.name for known in self._vocabularies)

    def identifiers(self, x: Float[Tensor, "rows columns"]) -> list[int]:
        """The columns, by number, that seem to identify the rows rather than describe them.

        That is text of which nearly every row has its own, and whole numbers, all of them distinct.
        """
        if len(x) < _LEAST_IDENTIFIED:
            return []
        found = []
        for place, (known, own) in enumerate(zip(self._vocabularies, x.T, strict=True)):
            distinct = len(own.unique()) / len(x)
            text = known.numbers is None and distinct > _IDENTIFYING
            whole = types.is_integer_dtype(known.values.dtype) and distinct == 1
            if text or whole:
                found.append(place)
        return found

    def with_constants(self) -> "Codebook":
        """The same with the constant columns behind the others, of which each is a player.

        For explanations: a code of 0 stands for the constant.
        """
        names = [name for name in self._held if name not in self.left_out]
        more = [Vocabulary(self._form, name, self._held[name]) for name in names]
        columns = [fit_column(known, np.zeros(1, dtype=np.int64)) for known in more]
        held = {name: self._held[name] for name in self.left_out}
        return Codebook(
            self._form,
            [*self._vocabularies, *more],
            Schema((*self.schema.columns, *columns)),
            held,
            self.groups,
            self.left_out,
        )

    def index(self, frame: Any) -> tuple[Any, ...] | None:
        """The labels of a frame's rows; None where it has none of its own."""
        return self._form.index(frame)

    def __getstate__(self) -> dict[str, Any]:
        # A lock is neither copied nor sent to another process.
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=Lock())

    def _encode_new(self) -> None:
        pairs = list(zip(self.schema.columns, self._vocabularies, strict=True))
        if [len(each) for each in self._elements] == [len(known.values) for _, known in pairs]:
            return
        encoded = [encode_values(column, known) for column, known in pairs]
        most = max(len(elements) for elements, _ in encoded)
        if most > _MOST_CODES:
            raise ValueError(
                f"Expected at most {_MOST_CODES} distinct values in a column but got {most}; "
                "round its numbers, or explain the rows in parts with explainers of their own."
            )
        if not self._values_of:
            trained = zip(pairs, encoded, strict=True)
            self._values_of = [value_of(*pair, elements) for pair, (elements, _) in trained]
        self._elements = [torch.from_numpy(elements) for elements, _ in encoded]
        self._unknown = [unknown for _, unknown in encoded]

    def _warn_of(self, codes: Sequence[Any], unknown: Sequence[Any]) -> None:
        met = {}
        for known, own, odd in zip(self._vocabularies, codes, unknown, strict=True):
            labels = known.labels[np.unique(own[odd[own]])]
            if len(labels):
                met[str(known.name)] = shown(labels.tolist(), 3)
        if met:
            which = "; ".join(f"{name!r} holds {labels}" for name, labels in met.items())
            warnings.warn(
                f"Cells that training had none of: {which}. The model sees them as they are; the "
                "value function takes them for rare categories, or for average cells.",
                stacklevel=3,
            )


def _named(
    players: Mapping[str, Sequence[Any]] | None, names: Sequence[Any], held: Mapping[Any, Any]
) -> dict[str, list[str]]:
    """Groups of the columns that vary, checked, as text."""
    groups: dict[str, list[str]] = {}
    for group, members in (players or {}).items():
        listed = [members] if isinstance(members, str) else list(members)
        check_known(listed, [*names, *held], f"columns of the group {group!r}")
        own = [str(name) for name in listed if name in names]
        if own:
            groups[str(group)] = own
    return groups


def _players(names: Sequence[str], groups: Mapping[str, Sequence[str]]) -> Players:
    group_of = {name: group for group, members in groups.items() for name in members}
    if len(group_of) < sum(map(len, groups.values())):
        raise ValueError(
            "Expected every column in one group at most but got "
            f"{shown({group: list(members) for group, members in groups.items()})}."
        )
    owners = [group_of.get(name, name) for name in names]
    order = list(dict.fromkeys(owners))
    return Players(order, [order.index(owner) for owner in owners])
