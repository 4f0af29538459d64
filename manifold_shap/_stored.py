"""Rows that need not fit memory: gathered by their numbers from a data set or a file."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    default_collate,
    default_convert,
)

from manifold_shap._checks import check_finite, check_padding, to_tensor
from manifold_shap._messages import warn

if TYPE_CHECKING:
    from manifold_shap.players import Players

# Bytes of rows in memory at once: of a pass over all of them, and of those that stand for all.
_PASSED, _SAMPLED = 2**24, 2**24
_MOST_SAMPLED = 16_384
# Items that are asked for twice.
_READ_TWICE = 32


class StoredRows(ABC):
    """A tensor `[rows, *event]` in what a training needs of one, whose rows lie elsewhere.

    >>> rows = DatasetRows(torch.utils.data.TensorDataset(torch.arange(6.0).reshape(3, 2)))
    >>> rows.shape, rows[1:].tolist(), [len(part) for part in rows.split(2)]
    (torch.Size([3, 2]), [[2.0, 3.0], [4.0, 5.0]], [2, 1])

    Args:
        shape: `[rows, *event]`.
        name: what errors call the rows.
        workers: options of the `DataLoader` that gathers them, such as `num_workers`.

    Attributes:
        device: on which they are gathered.
        known: the smallest and the largest value of each element, once all were passed over.
        players: those that own the elements, where they are known: of padded rows they say where
            padding may be.
    """

    players: "Players | None" = None
    device = torch.device("cpu")
    known: Float[Tensor, "2 *event"] | None = None

    def __init__(self, shape: torch.Size, name: str, workers: dict[str, Any]) -> None:
        if shape.numel() == 0:
            raise ValueError(
                f"Expected `{name}` of shape (rows, *event), with at least one row, but got "
                f"{tuple(shape)}."
            )
        self.shape, self.name, self.workers = shape, name, workers

    # -- must be defined --------------------------------------------------------------------

    @abstractmethod
    def gather(self, index: Int64[Tensor, " batch"]) -> Float[Tensor, "batch *event"]:
        """Some rows, by their numbers.

        Raises:
            TypeError, ValueError: a row is none, of another shape, or not finite.
        """

    # -- may be overridden ------------------------------------------------------------------

    @property
    def first(self) -> Any:
        """A row in the type that it is stored in."""
        return self[:1]

    # -- as of a tensor ---------------------------------------------------------------------

    def __deepcopy__(self, memo: dict[int, Any]) -> "StoredRows":
        return self

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, which: slice | Tensor) -> Float[Tensor, "batch *event"]:
        return self.gather(torch.arange(len(self))[which])

    def index_select(self, dim: int, index: Int64[Tensor, " batch"]) -> Tensor:
        return self.gather(index)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def split(self, size: int) -> Iterator[Float[Tensor, "batch *event"]]:
        """All rows in their order, at most so many at a time and no more than memory holds."""
        size = max(1, min(size, _PASSED // (4 * self.shape[1:].numel())))
        parts = torch.arange(len(self)).split(size)
        low, high = torch.full(self.shape[1:], torch.inf), torch.full(self.shape[1:], -torch.inf)
        # Without a generator of its own it would draw a number from the global one.
        options = {**self.workers, "generator": torch.Generator()}
        for x in DataLoader(cast("Any", self), None, sampler=parts, **options):
            low, high = torch.minimum(low, x.amin(0)), torch.maximum(high, x.amax(0))
            yield x
        self.known = torch.stack((low, high))

    # -- for networks -----------------------------------------------------------------------

    @cached_property
    def sample(self) -> Float[Tensor, "some *event"]:
        """Rows that stand for all: these themselves where they are few, else every k-th."""
        most = max(1, min(_MOST_SAMPLED, _SAMPLED // (4 * self.shape[1:].numel())))
        count = min(len(self), most)
        chosen = PartRows(self, torch.arange(count) * len(self) // count)
        return torch.cat(list(chosen.split(count)))

    @property
    def extent(self) -> Float[Tensor, "2 *event"]:
        """The smallest and the largest value of each element."""
        if self.known is None:
            for _ in self.split(len(self)):
                pass
        assert self.known is not None
        return self.known

    @property
    def with_extremes(self) -> Float[Tensor, "some *event"]:
        """The sample and, where it is not all rows, two more that have the extremes of all."""
        whole = len(self.sample) == len(self)
        return self.sample if whole else torch.cat((self.sample, self.extent))


class ArrayRows(StoredRows):
    """Rows of an array in a file.

    Args:
        array: of numbers, such as `numpy.load(path, mmap_mode="r")`.
        name: see `StoredRows`.
    """

    def __init__(self, array: np.memmap, name: str = "x_train") -> None:
        super().__init__(torch.Size(array.shape), name, {})
        self.array = array

    def __getstate__(self) -> dict[str, Any]:
        # For another process the name of the file does, where numpy would copy what is in it.
        state, array, whole = dict(self.__dict__), self.array, self.array
        while isinstance(whole.base, np.memmap):
            whole = whole.base
        if whole.mode == "r" and whole.filename is not None and array.flags.c_contiguous:
            # A part has the `offset` of the whole.
            offset = whole.offset + array.ctypes.data - whole.ctypes.data
            state["array"] = (whole.filename, array.dtype, "r", offset, array.shape)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if isinstance(self.array, tuple):
            self.array = np.memmap(*self.array)

    @property
    def first(self) -> np.ndarray:
        return np.asarray(self.array[:1])

    def gather(self, index: Int64[Tensor, " batch"]) -> Float[Tensor, "batch *event"]:
        return _checked(to_tensor(np.asarray(self.array[index.numpy()]), self.name), index, self)


class DatasetRows(StoredRows):
    """The items of a map-style data set, or the first entries of these where they are tuples.

    Args:
        dataset: with `len`; an item is the same whenever it is asked for.
        name, workers: see `StoredRows`.
    """

    def __init__(
        self, dataset: Dataset, name: str = "x_train", workers: dict[str, Any] | None = None
    ) -> None:
        self.dataset, self.name = dataset, name
        count = len(dataset)  # type: ignore[arg-type]
        event = self._item(0).shape if count else torch.Size()
        super().__init__(torch.Size((count, *event)), name, workers or {})
        self._warn_if_random()

    def _warn_if_random(self) -> None:
        count = min(len(self), _READ_TWICE)
        numbers = [k * len(self) // count for k in range(count)]
        if differ := [k for k in numbers if not torch.equal(self._item(k), self._item(k))]:
            warn(
                f"{len(differ)} of {count} items of `{self.name}` differ when they are asked for "
                f"twice, such as item {differ[0]}: a random augmentation, with which a row and its "
                "prediction are not of the same item. Take a data set with the transforms of "
                "validation."
            )

    @property
    def first(self) -> Tensor:
        return self._item(0)[None]

    def gather(self, index: Int64[Tensor, " batch"]) -> Float[Tensor, "batch *event"]:
        items = torch.stack([self._item(number) for number in index.tolist()])
        return _checked(to_tensor(items, self.name), index, self)

    def _item(self, number: int) -> Tensor:
        item = self.dataset[number]
        x = item[0] if isinstance(item, tuple | list) and item else item
        x = torch.from_numpy(x) if isinstance(x, np.ndarray) and x.dtype.kind in "biuf" else x
        if not isinstance(x, Tensor):
            raise TypeError(
                f"Expected items of `{self.name}` to be tensors, or tuples that begin with one, "
                f"but item {number} is {type(item).__name__}"
                f"{'' if x is item else f' that begins with {type(x).__name__}'}."
            )
        return x.detach()


class PartRows(StoredRows):
    """Some of other rows, by their numbers, in that order."""

    def __init__(self, rows: StoredRows, index: Int64[Tensor, " some"]) -> None:
        super().__init__(torch.Size((len(index), *rows.shape[1:])), rows.name, rows.workers)
        self.rows, self.index = rows, index

    @property
    def first(self) -> Any:
        return self.rows.first

    def gather(self, index: Int64[Tensor, " batch"]) -> Float[Tensor, "batch *event"]:
        return self.rows.gather(self.index[index])


class MappedRows(StoredRows):
    """Other rows, each batch of them changed by a function as it is gathered."""

    def __init__(self, rows: StoredRows, change: Callable[[Tensor], Tensor]) -> None:
        event = change(rows[:1]).shape[1:]
        super().__init__(torch.Size((len(rows), *event)), rows.name, rows.workers)
        self.rows, self.change = rows, change

    def gather(self, index: Int64[Tensor, " batch"]) -> Float[Tensor, "batch *event"]:
        return self.change(self.rows.gather(index))


def stored(x: Any, name: str = "x_train") -> Any:
    """Rows of a data set, of a loader's data set or of a file, as `StoredRows`; others as they are.

    Of a loader the rows are gathered in an order of their own: a training, which cuts its own
    batches, takes each as often as any other.

    >>> stored(torch.zeros(2, 3))
    tensor([[0., 0., 0.],
            [0., 0., 0.]])

    Raises:
        TypeError: a data set that can only be iterated over, or whose items are no tensors.
        ValueError: no rows; a loader that chooses among them by a sampler, or has a `collate_fn`.
    """
    dataset = x.dataset if isinstance(x, DataLoader) else x
    if isinstance(dataset, IterableDataset):
        raise TypeError(
            f"Expected `{name}` to be a data set whose items have numbers but got "
            f"{type(dataset).__name__}, which can only be iterated over; give it `__len__` and "
            "`__getitem__`, or write its rows to one array and pass `numpy.load(path, "
            "mmap_mode='r')`."
        )
    if isinstance(x, DataLoader):
        _check_order(x, name)
        workers = {"num_workers": x.num_workers, "worker_init_fn": x.worker_init_fn}
        if x.num_workers:
            workers["multiprocessing_context"] = x.multiprocessing_context
        return DatasetRows(x.dataset, name, workers)
    if isinstance(x, Dataset):
        return DatasetRows(x, name)
    return ArrayRows(x, name) if isinstance(x, np.memmap) else x


def sample_of(x: Tensor | StoredRows) -> Tensor:
    """All rows if they are in memory, else some that stand for them."""
    return x if isinstance(x, Tensor) else x.sample


def with_extremes(x: Tensor | StoredRows) -> Tensor:
    """All rows if they are in memory, else some that stand for them, and their extremes."""
    return x if isinstance(x, Tensor) else x.with_extremes


def _checked(x: Tensor, index: Tensor, rows: StoredRows) -> Tensor:
    if not bool(x.isfinite().all()):
        first = int((~x.isfinite()).flatten(1).any(1).nonzero()[0])
        fix = "impute or drop such rows first"
        check_finite(x[first : first + 1], rows.name, fix, int(index[first]))
    return x if rows.players is None else check_padding(x, rows.players, rows.name, index.tolist())


def _check_order(loader: DataLoader, name: str) -> None:
    """Raise ValueError unless a loader has the items of its data set, each as likely as any other.

    >>> _check_order(DataLoader([1.0, 2.0], shuffle=True), "x_train")
    """
    batches = loader.batch_sampler
    sampler = loader.sampler if type(batches) in (BatchSampler, type(None)) else batches
    plain = loader.collate_fn in (default_collate, default_convert)
    if type(sampler) not in (SequentialSampler, RandomSampler) or not plain:
        raise ValueError(
            f"Expected `{name}` to be a loader of all rows alike, without `collate_fn`, but its "
            f"sampler is a {type(sampler).__name__}; a training cuts its own batches of a data set "
            "whose items are rows, so choose some by `torch.utils.data.Subset(dataset, numbers)`."
        )
