"""What every data source shares: splits, checks and loaders."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import TypedDict

import torch
from jaxtyping import Int64
from lightning.pytorch import LightningDataModule
from torch import Tensor
from torch.utils.data import DataLoader

from manifold_shap._checks import shown
from manifold_shap.players import Players
from manifold_shap.tables.schema import Schema
from manifold_shap.training.batches import epoch_rows, loader

Split = tuple[Tensor, Tensor]


class Settings(TypedDict, total=False):
    """The arguments every source takes besides its own; see `TensorDataModule`."""

    batch_size: int
    validation: float
    test: float
    seed: int
    root: str | None


@dataclass(frozen=True, eq=False)
class Loaded:
    """What a source loads: three splits and what they mean.

    A split is its float32 inputs `[rows, *event]` and its int64 labels `[rows]`.
    """

    train: Split
    validation: Split
    test: Split
    classes: tuple[str, ...]
    players: Players
    schema: Schema | None = None


class TensorDataModule(LightningDataModule):
    """A data set held in memory, split into training, validation and test rows.

    A source derives from it and says in `load` what it holds. After `setup`:

    - `x_train`, `x_validation`, `x_test`: float32 inputs `[rows, *event]`;
    - `y_train`, `y_validation`, `y_test`: int64 positions in `classes`;
    - `classes`: names of the classes;
    - `players`: who owns each element of an input;
    - `schema`: how a table was encoded, None for images.
    """

    x_train: Tensor
    y_train: Tensor
    x_validation: Tensor
    y_validation: Tensor
    x_test: Tensor
    y_test: Tensor
    classes: tuple[str, ...]
    players: Players
    schema: Schema | None

    def __init__(
        self,
        *,
        name: str,
        batch_size: int = 256,
        validation: float = 0.1,
        test: float = 0.2,
        seed: int = 0,
        root: str | None = None,
    ) -> None:
        """Describe the data; nothing is read before `setup`.

        Args:
            name: the data set's name, which names the folder of its runs.
            batch_size: rows per batch.
            validation: share of the rows held out for validation.
            test: share of the rows held out for testing.
            seed: of the splits and of the order of training batches.
            root: folder with local copies; None looks in the folder named by the environment
                variable MANIFOLD_SHAP_DATA, then in the cache, then fetches.
        """
        super().__init__()
        self.name = name
        self.batch_size = batch_size
        self.validation = validation
        self.test = test
        self.seed = seed
        self.root = root

    @abstractmethod
    def load(self) -> Loaded:
        """Read the data set and split it."""

    def setup(self, stage: str | None = None) -> None:
        """Load and check the data, once; `stage` is Lightning's and changes nothing.

        Raises:
            FileNotFoundError: the data are in none of the places and could not be fetched.
            ValueError: a split without rows, inputs that are not finite, or a class that no
                training row is of.
        """
        if hasattr(self, "x_train"):
            return
        loaded = self.load()
        parts = {"train": loaded.train, "validation": loaded.validation, "test": loaded.test}
        for part, (x, y) in parts.items():
            _check_split(part, x, y)
        _check_classes(self.name, loaded.train[1], loaded.classes)
        self.classes, self.players, self.schema = loaded.classes, loaded.players, loaded.schema
        for part, (x, y) in parts.items():
            setattr(self, f"x_{part}", x)
            setattr(self, f"y_{part}", y)

    def train_dataloader(self) -> DataLoader[tuple[Tensor, ...]]:
        """Shuffled batches (x, y) of the training rows."""
        self.setup()
        return loader(
            self.x_train,
            self.y_train,
            batch_size=self.batch_size,
            shuffle=True,
            seed=self.seed,
            rows_per_epoch=epoch_rows(len(self.x_train), self.batch_size),
        )

    def val_dataloader(self) -> DataLoader[tuple[Tensor, ...]]:
        """Batches (x, y) of the validation rows, in order."""
        self.setup()
        return loader(self.x_validation, self.y_validation, batch_size=self.batch_size)

    def test_dataloader(self) -> DataLoader[tuple[Tensor, ...]]:
        """Batches (x, y) of the test rows, in order."""
        self.setup()
        return loader(self.x_test, self.y_test, batch_size=self.batch_size)


def split_rows(rows: int, held_out: dict[str, float], seed: int) -> tuple[Int64[Tensor, " _"], ...]:
    """Random disjoint row indices that cover every row: the rest, then one part per share.

    Each part is in random order, so that its first rows are a random sample too.

    Raises:
        ValueError: a share is not between 0 and 1, or a part has no row.
    """
    sizes = {name: round(share * rows) for name, share in held_out.items()}
    sizes = {"train": rows - sum(sizes.values()), **sizes}
    outside = {name: share for name, share in held_out.items() if not 0 < share < 1}
    empty = [name for name, size in sizes.items() if size < 1]
    if outside or empty:
        raise ValueError(
            f"Expected shares between 0 and 1 that leave every split some rows but got {held_out} "
            f"of {rows} rows, which makes {sizes}; change `{next(iter(outside or held_out))}`."
        )
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    return order.split(list(sizes.values()))


def _check_classes(name: str | None, y: Tensor, classes: tuple[str, ...]) -> None:
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
            f"{shown(absent)}; merge or drop rare classes, or choose another `seed` or smaller "
            "shares `validation` and `test`."
        )


def _check_split(part: str, x: Tensor, y: Tensor) -> None:
    if len(x) != len(y) or not len(x):
        raise ValueError(
            f"Expected as many inputs as labels, and at least one, in the {part} split but got "
            f"{len(x)} inputs and {len(y)} labels."
        )
    bad = ~torch.isfinite(x).flatten(1).all(dim=1)
    if bad.any():
        raise ValueError(
            f"Expected finite inputs but {int(bad.sum())} of {len(x)} rows of the {part} split "
            f"hold NaN or infinity, first row {int(bad.int().argmax())}; drop or fill them."
        )
