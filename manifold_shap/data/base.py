"""Defines what every data source shares: its settings, its splits and their checks."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypedDict

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int64
from numpy.typing import NDArray
from torch import Tensor

from manifold_shap import plots
from manifold_shap._checks import check_finite
from manifold_shap._messages import shown
from manifold_shap._stored import PartRows, StoredRows
from manifold_shap.explanation import Explanation
from manifold_shap.players import Players
from manifold_shap.tables.table import Table as Cells
from manifold_shap.training.rows import checked_rows
from manifold_shap.values.grouped import members_by_name

# Rows that have a figure of their own.
DRAWN_ROWS = 8
# Makes label maps, and says how many groups a row has at most: see `GroupedValue`.
Grouping = Callable[[], tuple[Callable[[Tensor], Tensor], int]]


class Settings(TypedDict, total=False):
    """The arguments that every source takes besides its own; see `TensorDataModule`."""

    name: str | None
    batch_size: int
    validation: float
    test: float
    seed: int
    root: str | None
    groups: Mapping[str, Sequence[str]] | None
    own_model: bool


@dataclass(frozen=True, eq=False)
class Table:
    """A data set as its publisher has it.

    Attributes:
        features: a frame with one column per player, in original units, or inputs
            `[rows, *event]` that need no encoding, in memory or elsewhere.
        labels: what to predict, one per row: a position in `classes` or, for a regression, a
            number; none where that is not known.
        classes: names of the classes; none for a regression.
        categorical: columns of a frame to encode one-hot whatever they hold.
        test_rows: how many of the last rows are the publisher's test rows, if any are.
        target: name of the number that a regression predicts.
        players: which player owns each element of an input, where that is no frame.
        numbers: of the rows in the file that they come from, by which they are then called.
    """

    features: pd.DataFrame | Float[Tensor, "rows *event"] | StoredRows
    labels: Int64[Tensor, " labels"] | Float[Tensor, " labels"]
    classes: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    test_rows: int | None = None
    target: str = "target"
    players: Players | None = None
    numbers: Sequence[int] | None = None


class TensorDataModule(ABC):
    """A data set, in memory or as its source has it, split into training, validation and test rows.

    A source derives from it and says in `read` what it holds. Rows of a frame are the codes of
    its cells, see `ms.Table`, which is fitted to the training rows. After `setup`:

    - `x_train`, `x_validation`, `x_test`: float32 inputs `[rows, *event]`, tensors or `StoredRows`;
    - `y_train`, `y_validation`, `y_test`: int64 positions in `classes`, or float32 numbers;
    - `task`: "classification" or "regression";
    - `classes`: names of the classes; none for a regression;
    - `outputs`: names of what a model of them returns: the classes, or the target's name;
    - `players`: which player owns each element of an input;
    - `table`: whose codes the rows of a frame are; None for images.

    Attributes:
        left_out: columns of a frame that are no players.
        usual_batch_size: rows per step of a classifier.
    """

    name: str
    usual_batch_size: int = 256
    task: str = "classification"
    left_out: tuple[str, ...] = ()
    x_train: Any
    y_train: Tensor
    x_validation: Any
    y_validation: Tensor
    x_test: Any
    y_test: Tensor
    classes: tuple[str, ...]
    outputs: tuple[str, ...]
    players: Players
    table: Cells | None
    _numbers: NDArray[np.int64] | None = None

    def __init__(
        self,
        *,
        name: str | None = None,
        batch_size: int | None = None,
        validation: float = 0.1,
        test: float = 0.2,
        seed: int = 0,
        root: str | None = None,
        groups: Mapping[str, Sequence[str]] | None = None,
        own_model: bool = False,
    ) -> None:
        """Describe the data; nothing is read before `setup`.

        Args:
            name: the data set's name, which names the folder of its runs; by default the source's.
            batch_size: rows per step of a classifier that is trained on them; by default
                `usual_batch_size`.
            validation: share of the rows held out for validation.
            test: share of the rows held out for testing.
            seed: of the splits.
            root: folder with local copies; None looks in the folder named by the environment
                variable MANIFOLD_SHAP_DATA, then in the cache, then fetches.
            groups: names of groups of players, and the players in each; the rest are on their own.
            own_model: whether the rows are for a model of the user's own, which takes the frame:
                rows are then codes, and nothing needs to be known of what is predicted.
        """
        self.name = name or self.name
        self.batch_size = self.usual_batch_size if batch_size is None else batch_size
        self.validation, self.test, self.seed, self.root = validation, test, seed, root
        # Names of players are text.
        named = {str(name): [*map(str, own)] for name, own in (groups or {}).items()}
        self.groups = named or None
        self.own_model = own_model
        self._is_set_up = False

    # -- must be defined --------------------------------------------------------------------

    @abstractmethod
    def read(self) -> Table:
        """The whole data set."""

    # -- may be overridden ------------------------------------------------------------------

    def figures(self, explanations: Mapping[str, Explanation], main: str) -> dict[str, Any]:
        """Figures that suit the rows, by file name; pages of HTML as text.

        Args:
            explanations: of the same rows, by the titles of their value functions.
            main: the title of the one that is drawn alone where only one can be.
        """
        explanation, drawn = explanations[main], {}
        for k, label in enumerate(explanation.instances[:DRAWN_ROWS]):
            if len(explanations) == 1:
                drawn[f"waterfall_{label}.png"] = plots.waterfall(explanation, k)
            else:
                drawn[f"bar_{label}.png"] = plots.bar(explanations, row=k)
        drawn["bar.png"] = plots.bar(explanations)
        return drawn | {"beeswarm.png": plots.beeswarm(explanation)}

    def report_settings(self, explanation: Explanation) -> dict[str, Any]:
        """What `explanation.report` is to be given for rows of this kind, such as tokens."""
        return {}

    @property
    def groupings(self) -> Mapping[str, Grouping]:
        """Ways to put the players of each row together, by name."""
        return {}

    @property
    def content(self) -> list[Any]:
        """What tells these data from others with the same settings: training rows, and codes."""
        rows: list[Any] = [self.x_train, self.y_train]
        table = self.table
        if table is not None:  # Codes are alike in tables of other units or names.
            rows += [table.encode(self.x_train), [asdict(own) for own in table.encodings]]
        return rows

    @property
    def few_rows(self) -> Any:
        """A few rows as a model of the user's own gets them, or the table of rows of codes."""
        return self.table or self.x_test[:64]

    # -- final ------------------------------------------------------------------------------

    def setup(self) -> None:
        """Read, split, encode and check the data, once.

        Raises:
            FileNotFoundError: the data are in none of the places and could not be fetched.
            ValueError: a split without rows, inputs or numbers to predict that are not finite, or
                a class that no training row is of.
        """
        if self._is_set_up:
            return
        table = self.read()
        inputs, labels = len(table.features), len(table.labels)
        if inputs != labels and not (self.own_model and labels == 0):
            raise ValueError(f"Expected {inputs} labels in {self.name!r} but got {labels}.")
        parts = self.split(inputs, table.test_rows)
        x, self.players, self.table = self._encoded(table, parts[0].numpy())
        self.classes, self.outputs = table.classes, table.classes or (table.target,)
        self.x_train, self.x_validation, self.x_test = (
            PartRows(x, rows) if isinstance(x, StoredRows) else x[rows] for rows in parts
        )
        known = [table.labels[rows] if labels else table.labels for rows in parts]
        self.y_train, self.y_validation, self.y_test = known
        if table.numbers is not None:
            self._numbers = np.asarray(table.numbers)[torch.cat(parts).numpy()]
        if self.own_model:
            pass  # Nothing is trained to predict them.
        elif self.task == "classification":
            _check_classes(self.name, self.y_train, self.classes)
        else:
            check_finite(self.y_train, "y_train", "drop or fill these rows")
        self._is_set_up = True

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

    def split(self, rows: int, test_rows: int | None = None) -> tuple[Int64[Tensor, " _"], ...]:
        """Row indices of the training, validation and test rows, by the shares and the seed.

        Args:
            rows: of the data set.
            test_rows: the last of them, which are the test rows whatever the share.

        Raises:
            ValueError: a part has no row.
        """
        if test_rows is None:
            shares = {"validation": self.validation, "test": self.test}
            return split_rows(rows, shares, self.seed)
        rest = rows - test_rows
        kept = split_rows(rest, {"validation": self.validation}, self.seed)
        return (*kept, torch.arange(rest, rows))

    def _encoded(self, table: Table, train: NDArray[np.int64]) -> tuple[Any, Players, Cells | None]:
        """All inputs, the players, and the table of a frame, fitted to its training rows."""
        if not isinstance(table.features, pd.DataFrame):
            players = table.players or Players.of_elements(table.features.shape[1:])
            x = checked_rows(table.features, players, "features")
            return x, self._grouped(players), None
        frame = table.features
        cells = Cells.fit(frame.iloc[train], self.groups, self.left_out, table.categorical)
        x = cells.rows(frame)
        if table.numbers is not None:  # A file of the user's own.
            cells.warn_of_columns(x)
        return x, cells.players, cells

    def _grouped(self, players: Players) -> Players:
        if not self.groups:
            return players
        names, member = members_by_name(self.groups, players)
        return players.grouped(names, member)


def split_rows(rows: int, held_out: dict[str, float], seed: int) -> tuple[Int64[Tensor, " _"], ...]:
    """Random disjoint row indices that cover every row: the rest, then one part per share.

    Each part is in random order, so that its first rows are a random sample too.

    >>> [part.tolist() for part in split_rows(5, {"validation": 0.2, "test": 0.4}, seed=0)]
    [[4, 0], [1], [3, 2]]

    Raises:
        ValueError: a part has no row.
    """
    sizes = {name: round(share * rows) for name, share in held_out.items()}
    sizes = {"train": rows - sum(sizes.values()), **sizes}
    if min(sizes.values()) < 1:
        raise ValueError(
            f"Expected shares that leave every split some rows but got {held_out} of {rows} rows, "
            f"which makes {sizes}; change {' or '.join(f'`{name}`' for name in held_out)}."
        )
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    return order.split(list(sizes.values()))


def _check_classes(name: str, y: Tensor, classes: tuple[str, ...]) -> None:
    """Raise ValueError unless training rows are of every one of two or more classes."""
    present = torch.bincount(y, minlength=len(classes)) > 0
    if present.sum() < 2:
        raise ValueError(
            f"Expected training rows of at least two classes in {name!r} but every one is "
            f"{classes[int(y[0])]!r}; check the target, or use more rows."
        )
    if not present.all():
        absent = [label for label, found in zip(classes, present, strict=True) if not found]
        raise ValueError(
            f"Expected training rows of every class in {name!r} but none of the {len(y)} is of "
            f"{shown(absent)}; merge or drop rare classes, choose another `seed` or smaller shares "
            "`validation` and `test`, or predict numbers by task=regression."
        )
