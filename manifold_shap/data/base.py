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
from manifold_shap._stored import PartRows, StoredRows, sample_of
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
        rows: how many, where `features` is a function.
        files: of each row, where rows stay on a disk.
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
    rows: int | None = None
    files: Sequence[str] = ()

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
            Those of a frame are codes of its cells: `table.frame(x)` has the cells, and
            `table.encode(x)` the numbers that a model of one's own can be trained on.
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

    Raises:
        ValueError: a split without rows, inputs that are not finite, or other than one label a row.
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
    ) -> None:
        self.name, self.batch_size = name, batch_size
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
        self._files = [found.files[k] for k in parts[0].tolist()] if found.files else []
        y = found.labels
        if len(y) not in (0, rows):
            raise ValueError(f"Expected {rows} labels in {name!r} but got {len(y)}.")
        self.y_train, self.y_validation, self.y_test = (y[part] if len(y) else y for part in parts)
        order = torch.cat(parts).numpy()
        self._numbers = None if found.numbers is None else np.asarray(found.numbers)[order]

    @property
    def test_numbers(self) -> list[int]:
        """What test rows are called: their numbers in their file, or else 0, 1, ..."""
        count = len(self.x_test)
        return list(range(count)) if self._numbers is None else self._numbers[-count:].tolist()

    def find(self, numbers: Sequence[Any]) -> tuple[Tensor, Tensor]:
        """Rows and labels by their numbers: any of their file or, where they have none, test rows.

        Raises:
            ValueError: none, or no such row.
        """
        x, y, known = self.x_test, self.y_test, np.arange(len(self.x_test))
        if self._numbers is not None:
            x = torch.cat((self.x_train, self.x_validation, self.x_test))
            y, known = torch.cat((self.y_train, self.y_validation, self.y_test)), self._numbers
        places = pd.Index(known).get_indexer(pd.Index(numbers, dtype=object))
        if len(places) == 0 or (places < 0).any():
            raise ValueError(
                f"Expected test rows, or rows of the file that have a target, by numbers from 0 to "
                f"{known.max()}, but got {list(numbers)}."
            )
        chosen = torch.from_numpy(places)
        return x[chosen], y[chosen] if len(y) else y

    @property
    def content(self) -> list[Any]:
        """What tells these data from others with the same settings: training rows, and codes."""
        table, tokens = self.table, self.vocabulary.tokens if self.vocabulary else []
        rows: list[Any] = [sample_of(self.x_train), self.y_train, list(tokens)]
        # Of pictures on a disk, their files: a sample of them would miss a change.
        rows.append(np.fromfile(file, np.uint8) for file in self._files)
        if table is not None:  # Codes are alike in tables of other units or names.
            rows += [table.encode(self.x_train), [asdict(own) for own in table.encodings]]
        return rows

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

    def check_labels(self) -> None:
        """Raise ValueError unless a model can be trained to predict the labels."""
        if self.task == "regression":
            check_finite(self.y_train, "y_train", "drop or fill these rows")
            return
        counts = torch.bincount(self.y_train, minlength=len(self.classes))
        absent = [name for name, count in zip(self.classes, counts, strict=True) if not count]
        if absent or len(self.classes) < 2:
            raise ValueError(
                f"Expected labels of {self.name!r} in two classes or more, each of which some "
                f"training row is of, but got {len(self.y_train)} labels of {len(self.classes)} "
                f"classes{f', none of {shown(absent, 3)}' if absent else ''}; check the target, "
                "drop rare classes, choose another `seed`, or predict numbers by "
                "data.task=regression and classifier=random_forest_regressor."
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
