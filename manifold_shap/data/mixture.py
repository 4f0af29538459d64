"""Generates a messy table whose law is known: absent cells can be drawn exactly given present ones.

Every row belongs to a hidden class. Given the class, the four numbers and dates are jointly normal
(one of them on a logarithmic scale), counts, flags and categories are independent, and a cell is
missing with a probability of its column and class. So p(x' | x_S) is a mixture over the classes,
weighted by their posterior probabilities, in closed form.
"""

import itertools
from typing import Any, Unpack

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int64
from numpy.typing import NDArray
from torch import Tensor

from manifold_shap import _random
from manifold_shap._checks import check_known, check_seed, check_whole
from manifold_shap._messages import check_choice
from manifold_shap.data.base import Settings, Table, TensorDataModule

# Columns that are normal given the class: their names, locations and scales. `amount` is so on a
# logarithmic scale, `since` in seconds from the first of January 2020.
_NORMAL = {"amount": (4.0, 0.5), "balance": (0.0, 1000.0), "rating": (50.0, 10.0),
           "since": (4e7, 1e7)}  # fmt: skip
_START = np.datetime64("2020-01-01", "s")
_VISITS = 16
VALUES: dict[str, tuple[Any, ...]] = {
    "visits": tuple(range(_VISITS)),
    "member": (False, True),
    "region": ("north", "east", "south", "west", "coast", "abroad"),
    "product": ("basic", "plus", "family", "business"),
    "grade": ("low", "fair", "good", "best"),
}
_MISSING = ("amount", "rating", "member", "region", "grade")
NAMES = (*_NORMAL, *VALUES)

_CLASSES = 8
_PAIRS = 4
_SPREAD = 2.0
_SCORED = 4096

Cells = Float[NDArray[np.float64], "rows columns"]


class MixtureLaw:
    """The law of a table of nine columns, itself drawn at random: another seed is another law.

    Of the eight hidden classes, weights are Dirichlet(4), means of the normal columns have a
    standard deviation of 2 in units of about one within a class, covariances are Wishart with 5
    degrees of freedom, values of a category Dirichlet(1/2), rates of counts Gamma(2, 2), and shares
    of missing cells Beta(1/2, 2).

        >>> law = MixtureLaw(seed=0)
        >>> frame = law.sample(3, seed=1)
        >>> frame.columns.tolist()
        ['amount', 'balance', 'rating', 'since', 'visits', 'member', 'region', 'product', 'grade']
        >>> mask = torch.tensor([False] + 8 * [True]).expand(3, 1, 9)
        >>> drawn = law.complete(law.cells(frame), mask, range(2), torch.zeros(3, 1).long())
        >>> drawn.shape, bool((drawn[0, 0, :, 1] == frame["balance"][0]).all())
        ((3, 1, 2, 9), True)

    Args:
        seed: of the law.
    """

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(check_seed(seed))
        count, normal = _CLASSES, len(_NORMAL)
        self._log_weights = np.log(rng.dirichlet(np.full(count, 4.0)))
        self._means = rng.normal(0, 2, (count, normal))
        roots = rng.normal(size=(count, normal, normal + 1))
        covariances = roots @ roots.mT / roots.shape[2]
        # By which normal columns are seen: bit j of the position is for column j.
        seen = [bits[::-1] for bits in itertools.product([False, True], repeat=normal)]
        by_seen = [_given(covariances, np.array(bits)) for bits in seen]
        self._gain, self._factor, self._precision, self._log_scale = map(
            np.stack, zip(*by_seen, strict=True)
        )
        values = [np.ones((count, 1))] * normal
        values.append(_poisson(rng.gamma(2, 2, (count, 1)), _VISITS))
        values += [rng.dirichlet(np.full(len(of), 0.5), count) for of in [*VALUES.values()][1:]]
        missing = rng.beta(0.5, 2, (count, len(NAMES))) * np.isin(NAMES, _MISSING)
        # Probabilities of what a cell may hold, by class: any number or each value; nothing, last.
        self._tables = [
            np.concatenate(((1 - gone) * value, gone), axis=1)
            for value, gone in zip(values, np.split(missing, len(NAMES), axis=1), strict=True)
        ]
        self._effects: list[Any] = [rng.normal(size=table.shape[1]) for table in self._tables]
        self._slopes = rng.normal(size=len(NAMES))
        self._pairs = [rng.choice(len(NAMES), 2, replace=False) for _ in range(_PAIRS)]
        scores = self._raw_score(self._draw(_SCORED, 0))
        self._centre, self._scale = np.median(scores), scores.std() / _SPREAD

    def sample(self, rows: int, seed: int = 0) -> pd.DataFrame:
        """Independent rows of the table."""
        return self.frame(self._draw(check_whole("rows", rows), check_seed(seed)))

    def score(self, frame: pd.DataFrame) -> Float[NDArray[np.float64], " rows"]:
        """What targets depend on: effects of all columns, of missing cells, and of four pairs.

        Its median over the table is about 0, and its standard deviation 2.
        """
        return (self._raw_score(self.cells(frame)) - self._centre) / self._scale

    def complete(
        self,
        cells: Cells,
        mask: Bool[Tensor, "rows m columns"],
        draws: range,
        keys: Int64[Tensor, "rows m"],
    ) -> Float[NDArray[np.float64], "rows m draws columns"]:
        """Exact draws of x' ~ p(x' | x_S): absent cells, missing ones among them, given present.

        That a present cell is missing is known as well. Draw number k depends on the key alone, so
        that it is the same in any batch.

        Args:
            cells: rows as numbers, see `cells`.
            mask: `True` = in the coalition; empty and full ones are allowed.
            draws: numbers of the draws.
            keys: equal keys share their random numbers.
        """
        present = mask.numpy()
        size = (1 + len(NAMES) + len(_NORMAL),)
        numbers = _random.uniform(keys, size, draws)
        noise = _random.to_normal(numbers[..., -len(_NORMAL) :]).double().numpy()
        uniform = numbers.double().numpy()
        pattern, deviation = self._seen(cells, present)
        log_p = self._log_posterior(cells, present, pattern, deviation)
        share = np.exp(log_p - log_p.max(-1, keepdims=True)).cumsum(-1)
        upper = (share / share[..., -1:])[:, :, None, :-1]
        label = (uniform[..., :1] > upper).sum(-1)
        shift = np.einsum("bmkij,bkj->bmki", self._gain[pattern], deviation)
        normal = np.take_along_axis(self._means + shift, label[..., None], axis=2)
        factor = self._factor[pattern[:, :, None], label]
        normal += np.einsum("bmdij,bmdj->bmdi", factor, noise)
        drawn = np.empty((*label.shape, len(NAMES)))
        drawn[..., : len(_NORMAL)] = _to_cells(normal)
        for column, table in enumerate(self._tables):
            held = _choose(table, label, uniform[..., 1 + column])
            if column >= len(_NORMAL):
                drawn[..., column] = held
            drawn[held == table.shape[1] - 1, column] = np.nan
        return np.where(present[:, :, None], cells[:, None, None], drawn)

    def cells(self, frame: pd.DataFrame) -> Cells:
        """A frame as numbers: seconds for a date, the position of a category, NaN if missing.

        Raises:
            ValueError: columns that are missing.
        """
        check_known(NAMES, [*frame.columns], "columns of the law")
        return np.stack([_to_numbers(name, frame[name]) for name in NAMES], axis=1)

    def frame(self, cells: Float[NDArray[np.float64], "rows columns"]) -> pd.DataFrame:
        """The frame of these numbers, in its own types: what `cells` came from, bit for bit."""
        pairs = zip(NAMES, cells.T, strict=True)
        return pd.DataFrame({name: _to_column(name, numbers) for name, numbers in pairs})

    def _draw(self, rows: int, seed: int) -> Cells:
        nothing, key = np.full((1, len(NAMES)), np.nan), torch.full((1, 1), seed)
        nobody = torch.zeros(1, 1, len(NAMES), dtype=torch.bool)
        return self.complete(nothing, nobody, range(rows), key)[0, 0]

    def _seen(self, cells: Cells, present: NDArray[np.bool_]) -> tuple[Any, Any]:
        """Which normal columns are seen, as bits, and by how much a row is off each class' mean."""
        normal = _from_cells(cells[:, : len(_NORMAL)])
        seen = present[..., : len(_NORMAL)] & ~np.isnan(normal)[:, None]
        deviation = np.nan_to_num(normal)[:, None] - self._means
        return seen @ (1 << np.arange(len(_NORMAL))), deviation

    def _log_posterior(
        self, cells: Cells, present: NDArray[np.bool_], pattern: Any, deviation: Any
    ) -> Float[NDArray[np.float64], "rows m classes"]:
        """log p(class | x_S), up to a constant of the pair."""
        with np.errstate(divide="ignore"):
            by_column = [
                np.log(table)[:, held].T
                for table, held in zip(self._tables, self._held(cells), strict=True)
            ]
        # A class that cannot have a value is out where that is seen: -inf, which 0 must not touch.
        told = np.stack(by_column, axis=1)[:, None]
        log_p = np.where(present[..., None], told, 0).sum(2) + self._log_weights
        distance = np.einsum("bki,bmkij,bkj->bmk", deviation, self._precision[pattern], deviation)
        return log_p - distance / 2 - self._log_scale[pattern]

    def _held(self, cells: Cells) -> list[NDArray[np.int64]]:
        """The column of each table that a cell is in."""
        last = np.array([table.shape[1] - 1 for table in self._tables])
        place = np.where(np.arange(len(NAMES)) < len(_NORMAL), 0 * cells, cells)
        return list(np.where(np.isnan(place), last, np.nan_to_num(place)).astype(np.int64).T)

    def _raw_score(self, cells: Cells) -> Float[NDArray[np.float64], " rows"]:
        pairs = zip(self._effects, self._held(cells), strict=True)
        effects = [effect[held] for effect, held in pairs]
        normal: Any = _from_cells(cells[:, : len(_NORMAL)]) / 5**0.5
        for column in range(len(_NORMAL)):
            here = normal[:, column]
            effects[column] = np.where(np.isnan(here), effects[column], here)
        of: Any = np.stack(effects, axis=1)
        return of @ self._slopes + sum(of[:, i] * of[:, j] for i, j in self._pairs)


class Mixture(TensorDataModule):
    """A messy table drawn from a known law: numbers, a date, text, missing cells; see `MixtureLaw`.

        >>> Mixture(rows=100).read().features["grade"].dtype.ordered
        True

    Args:
        rows: how many.
        law: seed of the law.
        task: "classification": whether a row buys, with log-odds of `MixtureLaw.score`; or
            "regression": what it spends, that score with normal noise of standard deviation 1/2.
        **settings: see `TensorDataModule`; its `seed` draws the rows, too.
    """

    name = "mixture"

    def __init__(
        self,
        *,
        rows: int = 3000,
        law: int = 0,
        task: str = "classification",
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(**settings)
        self.task = check_choice("task", task, ("classification", "regression"))
        self.rows = check_whole("rows", rows)
        self.law = MixtureLaw(law)

    def read(self) -> Table:
        frame = self.law.sample(self.rows, self.seed)
        score = torch.from_numpy(self.law.score(frame)).float()
        key = torch.full((self.rows,), self.seed) ^ (torch.arange(self.rows) << 1)
        noise = _random.uniform(_random.fold(key, 1), ())
        if self.task == "regression":
            return Table(frame, score + _random.to_normal(noise) / 2, target="spending")
        return Table(frame, (noise < score.sigmoid()).long(), ("leaves", "buys"))


def _given(covariances: Any, seen: NDArray[np.bool_]) -> tuple[Any, ...]:
    """By class: of unseen normal numbers given seen ones, the gain and the factor of the spread;
    of seen ones, the precision and the logarithm of the density's scale. Zero for all others."""
    both = np.ix_(np.arange(len(covariances)), seen, seen)
    precision = np.zeros_like(covariances)
    precision[both] = np.linalg.inv(covariances[both])
    gain = np.where(~seen[:, None] & seen, covariances @ precision, 0)
    left = covariances - gain @ covariances
    others = np.ix_(np.arange(len(covariances)), ~seen, ~seen)
    factor = np.zeros_like(covariances)
    factor[others] = np.linalg.cholesky(left[others])
    return gain, factor, precision, np.linalg.slogdet(covariances[both])[1] / 2


def _poisson(rate: Any, values: int) -> Any:
    """Of counts below `values`."""
    log_factorial = np.log(np.maximum(1, np.arange(values))).cumsum()
    p = np.exp(np.arange(values) * np.log(rate) - log_factorial)
    return p / p.sum(1, keepdims=True)


def _choose(table: Any, label: NDArray[np.int64], uniform: Any) -> NDArray[np.int64]:
    """The column of a row of probabilities, of row number `label`, that a uniform number falls to.

    All rows at once: the k-th is cumulated from k to k + 1.
    """
    upper = table.cumsum(1)
    upper = upper / upper[:, -1:] + np.arange(len(table))[:, None]
    return np.searchsorted(upper.ravel(), label + uniform) - label * table.shape[1]


def _from_cells(cells: Any) -> Any:
    """Standard normal numbers of the normal columns, within classes up to their law."""
    location, scale = np.array([*_NORMAL.values()]).T
    with np.errstate(invalid="ignore", divide="ignore"):
        plain = np.concatenate((np.log(cells[..., :1]), cells[..., 1:]), axis=-1)
    return (plain - location) / scale


def _to_cells(normal: Any) -> Any:
    location, scale = np.array([*_NORMAL.values()]).T
    plain = normal * scale + location
    return np.concatenate((np.exp(plain[..., :1]), plain[..., 1:-1], plain[..., -1:].round()), -1)


def _to_numbers(name: str, column: "pd.Series[Any]") -> Any:
    if name == "since":
        since = column.to_numpy(dtype="datetime64[s]")
        return np.where(np.isnat(since), np.nan, (since - _START).astype(np.float64))
    if name in _NORMAL:
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    values: Any = pd.Index(VALUES[name]).astype(object)
    position = values.get_indexer(column.astype(object))
    return np.where(position < 0, np.nan, position)


def _to_column(name: str, numbers: Any) -> Any:
    if name == "since":
        return _START + numbers.astype("timedelta64[s]")
    if name in _NORMAL:
        return numbers
    gone = np.isnan(numbers)
    position = np.where(gone, -1, numbers).astype(np.int64)
    if name == "visits":
        return position
    if name == "member":
        return pd.arrays.BooleanArray(position > 0, gone)
    if name == "grade":
        return pd.Categorical.from_codes(position, pd.Index(VALUES[name]), ordered=True)
    return np.array([*VALUES[name], None], dtype=object)[position]
