"""Splits a data set into training, validation and test rows, and encodes them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int64
from torch import Tensor

from manifold_shap._checks import check_finite
from manifold_shap._messages import shown
from manifold_shap._stored import PartRows, StoredRows
from manifold_shap.players import Players
from manifold_shap.tables.table import Table
from manifold_shap.training.rows import checked_rows
from manifold_shap.values.grouped import members_by_name

if TYPE_CHECKING:
    from manifold_shap.text import Vocabulary


@dataclass(frozen=True, eq=False)
class DataSet:
    """A data set as its publisher, or its file, has it.

    Attributes:
        features: a frame with one column per player, in original units; or inputs `[rows, *event]`
            that need no encoding, in memory or elsewhere. Where training rows decide what inputs
            are, as by a vocabulary: a function that makes the whole data set from their numbers.
        labels: what to predict, one per row: a position in `classes` or, for a regression, a
            number; none where that is not known. They become a tensor.
        classes: names of the classes; none for a regression.
        target: name of the number that a regression predicts.
        task: "classification" or "regression".
        kind: of the rows: "table", "pictures", "series" or "texts".
        categorical: columns of a frame that are categories, whatever they hold.
        left_out: columns of a frame that are no players.
        test_rows: how many of the last rows are the publisher's test rows, if any are.
        players: which player owns each element of an input, where that is no frame.
        numbers: of the rows in the file that they come from, by which they are then called.
        vocabulary: the tokens of texts.
        files: that rows on a disk are read from, one for each.
        rows: how many, where `features` is a function.
    """

    features: Any
    labels: Any
    classes: Sequence[str] = ()
    target: str = "target"
    task: str = "classification"
    kind: str = "table"
    categorical: Sequence[str] = ()
    left_out: Sequence[str] = ()
    test_rows: int | None = None
    players: Players | None = None
    numbers: Sequence[int] | None = None
    vocabulary: "Vocabulary | None" = None
    files: Sequence[str] = ()
    rows: int | None = None

    def __post_init__(self) -> None:
        kind = np.int64 if self.task == "classification" else np.float32
        labels = torch.from_numpy(np.asarray(self.labels).astype(kind))
        object.__setattr__(self, "labels", labels)


class Data:
    """A data set, split into training, validation and test rows, and encoded.

    Kinds and categories of a frame come from every row, so that no row holds an unknown category;
    means and scales come from the training rows only.

    Attributes:
        x_train, x_validation, x_test: float32 inputs `[rows, *event]`, tensors or `StoredRows`.
        y_train, y_validation, y_test: int64 positions in `classes`, or float32 numbers.
        classes: names of the classes; none for a regression.
        outputs: names of what a model of them returns: the classes, or the target's name.
        players: which player owns each element of an input.
        table: whose codes the rows of a frame are; None for other inputs.
        task, kind, vocabulary: see `DataSet`.

    Args:
        found: the data set.
        name: of the data, which names the folder of its runs.
        batch_size: rows per step of a classifier that is trained on them.
        validation, test: shares of the rows that are held out.
        seed: of the splits.
        groups: names of groups of players, and the players in each; the rest are on their own.
        own_model: whether the rows are for a model of the user's own, which takes the frame:
            nothing needs to be known of what is predicted.

    Raises:
        ValueError: a split without rows, inputs or numbers to predict that are not finite, or a
            class that no training row is of.
    """

    x_train: Any
    x_validation: Any
    x_test: Any

    def __init__(
        self,
        found: DataSet,
        *,
        name: str = "data",
        batch_size: int = 256,
        validation: float = 0.1,
        test: float = 0.2,
        seed: int = 0,
        groups: Mapping[str, Sequence[str]] | None = None,
        own_model: bool = False,
    ) -> None:
        self.name, self.batch_size, self.own_model = name, batch_size, own_model
        rows = found.rows or len(found.features)
        shares = {"validation": validation, "test": test}
        parts = split_rows(rows, shares, seed, found.test_rows)
        if callable(found.features):
            found = found.features(parts[0])
        self.task, self.kind, self.vocabulary = found.task, found.kind, found.vocabulary
        self.classes = tuple(map(str, found.classes))
        self.outputs = self.classes or (found.target,)
        named = {str(name): [*map(str, own)] for name, own in (groups or {}).items()}
        x, self.players, self.table = self._encoded(found, named, parts[0])
        self.x_train, self.x_validation, self.x_test = (
            PartRows(x, part) if isinstance(x, StoredRows) else x[part] for part in parts
        )
        y = found.labels
        # For a model of one's own nothing needs to be known of what it predicts.
        if len(y) != rows and (len(y) or not own_model):
            raise ValueError(
                f"Expected {rows} labels in {name!r} but got {len(y)}: a model is to be trained to "
                "predict them."
            )
        self.y_train, self.y_validation, self.y_test = (y[part] if len(y) else y for part in parts)
        if not own_model:
            self._check_labels()
        self._numbers = None
        self._files = [found.files[k] for k in parts[0].tolist()] if found.files else []
        if found.numbers is not None:
            self._numbers = np.asarray(found.numbers)[torch.cat(parts).numpy()]

    @property
    def test_numbers(self) -> list[int]:
        """What test rows are called: their numbers in their file, or else 0, 1, ..."""
        count = len(self.x_test)
        return list(range(count)) if self._numbers is None else self._numbers[-count:].tolist()

    def find(self, name: str, numbers: Sequence[Any], split: str) -> Tensor:
        """Rows by their numbers: any of their file or, where they have none, those of a split.

        Args:
            name: what the error calls the numbers.
            numbers: from 0 on.
            split: "training" or "test".

        Raises:
            ValueError: none, or no such row.
        """
        if self._numbers is None:
            rows = self.x_train if split == "training" else self.x_test
            known, of = np.arange(len(rows)), f"{split} rows"
        else:
            rows = torch.cat((self.x_train, self.x_validation, self.x_test))
            known, of = self._numbers, f"rows of {self.name} that have a target, by their numbers"
        asked = [row if type(row) is int else -1 for row in numbers]
        places = pd.Index(known).get_indexer(pd.Index(asked, dtype=np.int64))
        if len(asked) == 0 or (places < 0).any():
            raise ValueError(
                f"Expected `{name}` to list {of} from 0 to {known.max()} but got {list(numbers)}."
            )
        return rows[torch.from_numpy(places)]

    @property
    def content(self) -> list[Any]:
        """What tells these data from others with the same settings: training rows, and codes.

        Of pictures on a disk these are the bytes of their files, which are read faster.
        """
        if isinstance(self.x_train, StoredRows):
            return [(np.fromfile(path, np.uint8) for path in self._files), self.y_train]
        rows: list[Any] = [self.x_train, self.y_train]
        table = self.table
        if table is not None:  # Codes are alike in tables of other units or names.
            rows += [table.encode(self.x_train), [asdict(own) for own in table.encodings]]
        return rows + ([list(self.vocabulary.tokens)] if self.vocabulary else [])

    @property
    def few_rows(self) -> Any:
        """A few rows as a model of the user's own gets them, or the table of rows of codes."""
        rows = self.x_test[:64]
        return self.table or (rows.long() if self.kind == "texts" else rows)

    def _encoded(
        self, found: DataSet, groups: Mapping[str, Sequence[str]], train: Int64[Tensor, " train"]
    ) -> tuple[Any, Players, "Table | None"]:
        """All inputs, the players, and the table of a frame, fitted to its training rows."""
        frame = found.features
        if isinstance(frame, pd.DataFrame):
            some = frame.iloc[train.numpy()]
            table = Table.fit(some, groups or None, found.left_out, found.categorical)
            codes = table.rows(frame)
            if found.numbers is not None:  # A file of the user's own.
                table.warn_of_columns(codes)
            return codes, table.players, table
        players = found.players or Players.of_elements(frame.shape[1:])
        x = checked_rows(frame, players, "features")
        if groups:
            players = players.grouped(*members_by_name(groups, players))
        return x, players, None

    def _check_labels(self) -> None:
        """Raise ValueError unless numbers are finite, and training rows are of every class."""
        if self.task == "regression":
            check_finite(self.y_train, "y_train", "drop or fill these rows")
            return
        present = torch.bincount(self.y_train, minlength=len(self.classes)) > 0
        absent = [name for name, there in zip(self.classes, present, strict=True) if not there]
        if absent or len(self.classes) < 2:
            raise ValueError(
                "Expected training rows of every one of at least two classes in "
                f"{self.name!r} but the {len(self.y_train)} are of {int(present.sum())} of "
                f"{len(self.classes)}{f', none of {shown(absent)}' if absent else ''}; check the "
                "target, merge or drop rare classes, choose another `seed` or smaller shares "
                "`validation` and `test`, or predict numbers by task=regression."
            )


def split_rows(
    rows: int, held_out: Mapping[str, float], seed: int, test_rows: int | None = None
) -> tuple[Int64[Tensor, " _"], ...]:
    """Random disjoint row indices that cover every row: the rest, then one part per share.

    Each part is in random order, so that its first rows are a random sample too.

    Args:
        rows: of the data set.
        held_out: shares of the parts, by name.
        seed: of the order.
        test_rows: how many of the last rows are the last part, whatever its share.

    >>> [part.tolist() for part in split_rows(5, {"validation": 0.2, "test": 0.4}, seed=0)]
    [[4, 0], [1], [3, 2]]

    Raises:
        ValueError: a part has no row.
    """
    if test_rows is not None:
        shares = {name: held_out[name] for name in [*held_out][:-1]}
        return *split_rows(rows - test_rows, shares, seed), torch.arange(rows - test_rows, rows)
    sizes = {name: round(share * rows) for name, share in held_out.items()}
    sizes = {"train": rows - sum(sizes.values()), **sizes}
    if min(sizes.values()) < 1:
        raise ValueError(
            f"Expected shares that leave every split some rows but got {dict(held_out)} of {rows} "
            f"rows, which makes {sizes}; change {' or '.join(f'`{name}`' for name in held_out)}."
        )
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    return order.split(list(sizes.values()))
