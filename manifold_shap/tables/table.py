"""Numbers the cells of a user's frame, and gives the frame back from these codes, bit for bit.

A row of a frame is a tensor with one element per column: the place of the cell among the distinct
cells of the column. Value functions and estimators compute with codes as with any rows, imputers
and networks with their encoding as floats, and the model sees the user's own frame: the cells that
are present are its own, and those that are drawn were observed. So whole numbers stay whole,
categories valid, and a missing cell is a value like any other.
"""

from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from typing import Any

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap._checks import check_distinct, check_known
from manifold_shap._messages import shown, warn
from manifold_shap._saved import saved
from manifold_shap.players import Players
from manifold_shap.tables.base import RowAdapter
from manifold_shap.tables.cells import from_plain, to_plain
from manifold_shap.tables.column import Column
from manifold_shap.tables.distinct import Codes, label_of, numbered, to_pandas
from manifold_shap.tables.encoding import MISSING, Encoding, largest
from manifold_shap.tables.frames import FrameAdapter, joined
from manifold_shap.tables.rows import constant_players, named_groups, players_of

# Rows that are needed to tell that a column identifies them.
_LEAST_IDENTIFIED = 20
# While one thread numbers new cells, others wait.
_NUMBERING = Lock()


@saved
class Table(RowAdapter):
    """The distinct cells of each column of a frame, numbered.

        >>> import pandas as pd
        >>> frame = pd.DataFrame({"age": [30, 20, 40], "town": ["Oslo", None, "Rome"]})
        >>> table = Table.fit(frame)
        >>> x = table.rows(frame)
        >>> x
        tensor([[1., 0.],
                [0., 2.],
                [2., 1.]])
        >>> table.frame(x).equals(frame)
        True
        >>> table.encode(x).shape
        torch.Size([3, 4])

    Codes are float32 and finite. Those of training are sorted, numbers and dates by size and text
    by its letters, missing cells last. Cells that training never saw get codes behind them when
    they are met; codes never change.

    Attributes:
        header: names of all columns, as the user has them.
        names: of the columns that play, as text.
        players: each column, or group of columns, as a player; an input row is a row of codes.
        elements: the players as owners of the elements of an encoded row.
        encodings: how the columns that play are encoded.
        one_hot: positions of columns that are one category together: those of a player of which
            one was 1 or True, and the others 0 or False, in every row of training.
        groups: names of the columns of the players that are several.
        left_out: columns that do not play although they vary; the model is given what the first row
            of training holds.
        constants: the cell of each column that has but one; they do not play either.
    """

    def __init__(
        self,
        adapter: FrameAdapter,
        columns: Mapping[Any, Column],
        playing: Iterable[Any],
        groups: Mapping[str, Sequence[str]],
        left_out: Iterable[Any],
        one_hot: Sequence[Sequence[int]] = (),
    ) -> None:
        self._adapter, self._columns = adapter, dict(columns)
        self._playing = [columns[name] for name in playing]
        self.header, self.left_out, self.groups = tuple(adapter.header), tuple(left_out), groups
        self.encodings = tuple(column.encoding for column in self._playing)
        self.names = tuple(encoding.name for encoding in self.encodings)
        check_distinct(self.names, "column names", "rename or drop the copies")
        self.players = players_of(self.names, groups)
        self.one_hot = one_hot

    @classmethod
    def fit(
        cls,
        frame: Any,
        players: Mapping[str, Sequence[Any]] | None = None,
        left_out: Iterable[Any] = (),
        categorical: Iterable[Any] = (),
    ) -> "Table":
        """Number the cells of a training frame, and standardise by its statistics.

        Args:
            frame: of pandas or polars, or an array, a tensor or a list of rows, whose columns are
                then x0, x1, ...
            players: groups of columns that enter and leave coalitions together, by name; each other
                column is a player of its own. A group that is one-hot in every row is one category.
            left_out: columns that the model needs to be given but that do not play.
            categorical: columns that are categories although they hold numbers or two values.

        Raises:
            TypeError: no table, or a column of lists or of complex numbers.
            ValueError: a name that occurs twice or is unknown, infinite numbers, no column that
                varies.
        """
        adapter = FrameAdapter.of(frame)
        header = tuple(adapter.header)
        out, forced = (
            frozenset([names] if isinstance(names, str) else names)
            for names in (left_out, categorical)
        )
        check_known(out, header, "`left_out` to name columns")
        check_known(forced, header, "`categorical` to name columns")
        columns = dict[Any, Column]()
        for name, cells in zip(header, adapter.read(frame), strict=True):
            if name in out:
                unread = Encoding(str(name), "categorical", (MISSING,))
                one = np.ones(1, dtype=np.int64)
                columns[name] = Column(name, cells[:0], cells[:1], one, unread)
            else:
                columns[name] = Column.fit(name, cells, name in forced)
        playing = [name for name, column in columns.items() if len(column.cells) > 1]
        if not playing:
            raise ValueError(
                "Expected at least one column that varies but every one holds one value: "
                f"{shown(header)}; pass the rows that the model was trained on."
            )
        groups = named_groups(players, header, [name for name in header if name not in out])
        table = cls(adapter, columns, playing, groups, out)
        if groups:
            table.one_hot = table._one_hot_groups(table.rows(frame))
        return table

    @property
    def constants(self) -> dict[str, Any]:
        return {str(c.name): to_pandas(c.cells).iloc[0] for c in self._constant_columns}

    @property
    def constant_players(self) -> tuple[str, ...]:
        owners = dict.fromkeys(map(self._player_of, self.constants))
        return tuple(name for name in owners if name not in self.players.names)

    @property
    def width(self) -> int:
        """Elements of an encoded row."""
        return sum(encoding.width for encoding in self.encodings)

    def owners(self, players: Players) -> Players:
        """Players of the columns as owners of the elements of an encoded row."""
        widths = torch.tensor([encoding.width for encoding in self.encodings])
        return Players(players.names, players.index.repeat_interleave(widths))

    def grouped(self, groups: Mapping[str, Any]) -> Players:
        """Groups of columns by name, and each other column, as players.

        Raises:
            ValueError: an unknown column, one that is in two groups, or a group without columns.

        >>> import pandas as pd
        >>> table = Table.fit(pd.DataFrame({"kind": ["a", "b"], "size": [1, 2]}))
        >>> table.grouped({"all": ["kind", "size"]}).index.tolist()
        [0, 0]
        """
        return players_of(self.names, named_groups(groups, self.header, self.header))

    def rows(self, frame: Any) -> Float[Tensor, "rows columns"]:
        """The codes of a frame's cells; columns are matched by name, and others left aside.

        Warns where cells are such as training had none of: categories, missing cells, or fractions
        among whole numbers. Value functions take them for "other", or for average cells.

        Raises:
            TypeError: no frame, or cells that are no numbers among numbers.
            ValueError: a column that is missing, or of another library or dtype that does not fit,
                an array with more columns, or infinite numbers.
        """
        read = dict(zip(self.header, self._adapter.read(frame), strict=True))
        with _NUMBERING:
            codes = [column.codes(read[column.name]) for column in self._playing]
        self._warn_of_new(codes)
        for column in self._constant_columns:
            if numbered(joined(column.cells, read[column.name])).any():
                warn(
                    f"Expected column {str(column.name)!r} to hold what it did throughout training "
                    "but other values occur; the model sees that of training, in "
                    "`table.constants`."
                )
        return torch.from_numpy(np.stack(codes, axis=1).astype(np.float32))

    def check(self, x: Float[Tensor, "rows columns"], name: str = "x") -> None:
        """Raise ValueError unless these are codes; `name` is what the error calls them."""
        counts = torch.tensor([len(column.cells) for column in self._playing], device=x.device)
        odd = (x < 0) | (x >= counts) | (x != x.round())
        if bool(odd.any()):
            row, column = odd.nonzero()[0].tolist()
            raise ValueError(
                f"Expected `{name}` to be a frame or its codes, whole numbers below "
                f"{int(counts[column])} in column {self.names[column]!r}, but row {row} has "
                f"{x[row, column]:g} there; pass the frame itself, or `table.rows(frame)`."
            )

    def frame(self, x: Float[Tensor, "rows columns"]) -> Any:
        """The frame with these cells: columns, order, dtypes and categories of the user's own."""
        codes = {c.name: own for c, own in zip(self._playing, _whole(x), strict=True)}
        first = np.zeros(len(x), dtype=np.int64)
        columns = [self._columns[name].take(codes.get(name, first)) for name in self.header]
        return self._adapter.build(columns)

    def encode(self, x: Float[Tensor, "*batch columns"]) -> Float[Tensor, "*batch width"]:
        """Codes as float32 elements; see `Encoding`."""
        pairs = zip(x.unbind(-1), self._playing, strict=True)
        return torch.cat(
            [F.embedding(own.long(), column.elements.to(x.device)) for own, column in pairs], -1
        )

    def explained(
        self,
        x: Float[Tensor, "rows columns"],
        players: Players,
        owners: Int64[Tensor, "rows columns"] | None,
    ) -> tuple[Any, Players, Tensor | None]:
        """The frame that the model sees, and who owns its columns.

        Constant columns are players of their own, behind the others, or belong to their group's
        player; columns that are left out belong to nobody. An array of numbers comes as a tensor.

        >>> import pandas as pd
        >>> table = Table.fit(pd.DataFrame({"year": 2024, "size": [1, 2, 3]}))
        >>> frame, players, _ = table.explained(torch.tensor([[2.0]]), table.players, None)
        >>> frame.to_numpy().tolist(), players.names, players.index.tolist()
        ([[2024, 3]], ('size', 'year'), [1, 0])
        """
        frame, columns = self.frame(x), list(map(str, self.header))
        of_column = torch.full((len(columns),), -1)
        own = torch.tensor([columns.index(name) for name in self.names])
        if owners is not None:
            owners = of_column.expand(len(x), -1).index_copy(1, own, owners)
        of_column[own] = players.index
        if not players.by_row:
            names = [*players.names, *constant_players(players, self)]
            for name in self.constants:
                owner = self._player_of(name)
                # A constant in a group with columns that vary belongs to their player.
                of_column[columns.index(name)] = (
                    players.index[self.players.index == self.players.names.index(owner)][0]
                    if owner in self.players.names
                    else names.index(owner)
                )
            players = Players.of_elements((len(names),), names)
        if isinstance(frame, np.ndarray) and frame.dtype.kind in "biuf":
            frame = torch.from_numpy(frame)
        elif isinstance(frame, np.ndarray):
            frame = pd.DataFrame(frame, columns=columns)
        return frame, players.owning(of_column), owners

    def nearest(
        self, elements: Float[Tensor, "*batch width"], u: Float[Tensor, "*batch columns"]
    ) -> Float[Tensor, "*batch columns"]:
        """Codes of the cells of training that are nearest to encoded cells.

        Args:
            elements: encoded rows, such as an imputer draws.
            u: uniform numbers, which choose among the cells that share one element: rare
                categories, mostly.
        """
        parts = elements.split([encoding.width for encoding in self.encodings], dim=-1)
        codes = elements.new_empty(*elements.shape[:-1], len(parts))
        for k, (column, part) in enumerate(zip(self._playing, parts, strict=True)):
            codes[..., k] = column.nearest(part, u[..., k])
        for group in self.one_hot:
            members: Any = [self._playing[k].nearest for k in group]
            often = torch.stack([member.often[1] for member in members])
            place, _ = largest(torch.cat([parts[k] for k in group], -1), u[..., group[0]], often)
            for k, member in enumerate(members):
                codes[..., group[k]] = member.first.to(place.device)[(place == k).long()]
        return codes

    def warn_of_columns(self, x: Float[Tensor, "rows columns"]) -> None:
        """Warn of columns that a game of these rows takes otherwise than people may expect.

        Text and whole numbers that hold another value in each row; players with the same cells, up
        to units; numbers so far out that half of the others are alike in float32.
        """
        identifiers = [
            column.encoding.name
            for column, codes in zip(self._playing, x.T, strict=True)
            if column.encoding.kind == "categorical" or column.like.dtype.is_integer()
            if len(codes.unique()) == len(x) >= _LEAST_IDENTIFIED
        ]
        if identifiers:
            warn(
                f"No value repeats in columns {shown(identifiers)}: where they number or name the "
                f'rows, drop them (in commands by "data.drop={identifiers}") or, where the '
                "model needs them, leave them out of the game by `left_out`."
            )
        copies = dict[bytes, dict[int, str]]()
        for name, codes, player in zip(self.names, x.T, self.players.index.tolist(), strict=True):
            numbers = codes.numpy()
            # Of few values, those of which each goes with one of the other column.
            if len(np.unique(numbers)) ** 2 <= len(x):
                numbers = pd.factorize(numbers)[0]
            copies.setdefault(numbers.tobytes(), {})[player] = name
        if same := [[*names.values()] for names in copies.values() if len(names) > 1]:
            warn(
                f"Columns that tell the same in every row, {shown(same)}, share one effect, "
                "whichever of them the model reads: make them one player by `players`, or drop all "
                "but one."
            )
        far = [
            column.encoding.name
            for column in self._playing
            if column.encoding.kind == "continuous"
            if np.ptp(np.quantile(column.elements[:, 0], (0.25, 0.75))) < torch.finfo().eps
        ]
        if far:
            warn(
                f"Columns {shown(far)} hold numbers so far out that float32 hardly tells the "
                "others apart: correct these cells, or leave them empty."
            )

    kind = "table"

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Numbers, text, lists and dicts, for a JSON file; and no tensors.

        Raises:
            ValueError: a dtype or cells that cannot be written.
        """
        settings = {
            "rows": self._adapter.state(),
            "columns": [column.state() for column in self._columns.values()],
            "playing": [to_plain(column.name) for column in self._playing],
            "groups": {name: list(members) for name, members in self.groups.items()},
            "left_out": [to_plain(name) for name in self.left_out],
            "one_hot": [list(group) for group in self.one_hot],
        }
        return settings, {}

    @classmethod
    def restored(
        cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor], passed: Any
    ) -> "Table":
        """The table whose `state` these are.

        >>> import json
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"age": [30, 20, 40]})
        >>> written = json.dumps(Table.fit(frame).state())
        >>> Table.restored(*json.loads(written), None).rows(frame).flatten()
        tensor([1., 0., 2.])

        Raises:
            ImportError: it is of a frame of polars, which is not installed.
        """
        columns = [Column.restored(plain) for plain in settings["columns"]]
        playing, left_out = (map(from_plain, settings[key]) for key in ("playing", "left_out"))
        by_name = {column.name: column for column in columns}
        groups, one_hot = settings["groups"], settings["one_hot"]
        return cls(
            FrameAdapter.restored(settings["rows"]), by_name, playing, groups, left_out, one_hot
        )

    def _player_of(self, name: str) -> str:
        return next((group for group, own in self.groups.items() if name in own), name)

    @property
    def _constant_columns(self) -> list[Column]:
        playing = {column.name for column in self._playing}
        rest = (name for name in self.header if name not in playing.union(self.left_out))
        return [self._columns[name] for name in rest]

    def _one_hot_groups(self, x: Float[Tensor, "rows columns"]) -> list[list[int]]:
        encoded, found = self.encode(x), []
        for player in range(len(self.players)):
            group = (self.players.index == player).nonzero()[:, 0].tolist()
            categories = {self.encodings[k].categories for k in group}
            if len(group) > 1 and categories <= {("0", "1"), ("False", "True")}:
                sums = encoded[:, self.elements.index == player].sum(1)
                found += [group] if bool((sums == 1).all()) else []
        return found

    def _warn_of_new(self, codes: Sequence[Codes]) -> None:
        met, new = [], []
        for column, own in zip(self._playing, codes, strict=True):
            odd = np.unique(own[column.unknown[own]])
            if len(odd):
                cells = to_pandas(column.cells[odd])
                labels = [label_of(cell) for cell in cells.dropna()]
                held = [shown(labels, 3)] if labels else []
                held += ["missing cells"] if len(labels) < len(cells) else []
                met.append(f"{column.encoding.name!r} holds {' and '.join(held)}")
                new.append(column.encoding.name)
            elif (wider := column.take(own).to_native().dtype) != column.like.to_native().dtype:
                met.append(f"{column.encoding.name!r} is {wider}")
        if met:
            taken = (
                f"; the value function takes those of {shown(new)} for rare categories, or for "
                "average cells"
            )
            warn(
                f"Cells that training had none of: {'; '.join(met)}. A model of frames sees them "
                f"as they are{taken * bool(new)}."
            )


def _whole(x: Float[Tensor, "rows columns"]) -> Codes:
    """Codes by column."""
    return np.ascontiguousarray(x.detach().cpu().numpy().T.astype(np.int64))
