"""A messy table as a law: numbers, dates, categories and missing cells, with hidden classes.

Given its class, the four numbers and dates of a row are jointly normal (one of them on a
logarithmic scale), counts, flags and categories are independent, and a cell is missing with a
probability of its column and class. So p(x' | x_S) is a mixture over the classes, weighted by their
posterior probabilities, in closed form.
"""

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from manifold_shap import _random
from manifold_shap._arrays import is_frame
from manifold_shap._checks import check_rows
from manifold_shap.oracles.base import (
    ConditionalLaw,
    Drawn,
    Keys,
    Mask,
    Posterior,
    Rows,
    check_possible,
)
from manifold_shap.players import Players

if TYPE_CHECKING:
    import pandas as pd

# Columns that are normal given the class: their names, locations and scales. `amount` is so on a
# logarithmic scale, `since` in minutes from the first of January 2020.
_NORMAL = {"amount": (4.0, 0.5), "balance": (0.0, 1000.0), "rating": (50.0, 10.0),
           "since": (4e7 / 60, 1e7 / 60)}  # fmt: skip
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

# What a row holds for a missing cell: rows are finite.
MISSING = torch.finfo(torch.float32).min

_CLASSES = 8
_PAIRS = 4
_SPREAD = 2.0
_SCORED = 4096


class LatentClasses(ConditionalLaw):
    """The law of a table of nine columns, itself drawn at random: another seed is another law.

    Of the eight hidden classes, weights are Dirichlet(4), means of the normal columns have a
    standard deviation of 2 in units of about one within a class, covariances are Wishart with 5
    degrees of freedom, values of a category Dirichlet(1/2), rates of counts Gamma(2, 2), and shares
    of missing cells Beta(1/2, 2). The label is the hidden class.

    A row holds numbers, minutes since 2020 for the date, the position of a category, and `MISSING`.
    That a present cell is missing is known as well.

        >>> law = LatentClasses(seed=0)
        >>> frame = law.frame(law.sample(3, seed=1).x)
        >>> frame.columns.tolist()
        ['amount', 'balance', 'rating', 'since', 'visits', 'member', 'region', 'product', 'grade']
        >>> mask = torch.tensor([False] + 8 * [True]).expand(3, 1, 9)
        >>> drawn = law.complete(frame, mask, draws=2)
        >>> drawn.shape, law.frame(drawn[0, 0])["balance"].eq(frame["balance"][0]).all()
        (torch.Size([3, 1, 2, 9]), np.True_)

    Args:
        seed: of the law.
    """

    name = "latent_classes"
    _log_weights: Tensor
    _means: Tensor
    _gain: Tensor
    _factor: Tensor
    _precision: Tensor
    _log_scale: Tensor

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        super().__init__(Players.of_elements((len(NAMES),), NAMES))
        count, normal = _CLASSES, len(_NORMAL)
        self.classes = tuple(map(str, range(count)))
        buffers = {"log_weights": np.log(rng.dirichlet(np.full(count, 4.0)))}
        buffers["means"] = rng.normal(0, 2, (count, normal))
        roots = rng.normal(size=(count, normal, normal + 1))
        covariances = roots @ roots.mT / roots.shape[2]
        # By which normal columns are seen: bit j of the position is for column j.
        seen = [bits[::-1] for bits in itertools.product([False, True], repeat=normal)]
        by_seen = [_given(covariances, np.array(bits)) for bits in seen]
        names = ("gain", "factor", "precision", "log_scale")
        buffers |= dict(zip(names, map(np.stack, zip(*by_seen, strict=True)), strict=True))
        for name, numbers in buffers.items():
            self.register_buffer(f"_{name}", torch.from_numpy(numbers))
        values = [np.ones((count, 1))] * normal
        values.append(_poisson(rng.gamma(2, 2, (count, 1)), _VISITS))
        values += [rng.dirichlet(np.full(len(of), 0.5), count) for of in [*VALUES.values()][1:]]
        missing = rng.beta(0.5, 2, (count, len(NAMES))) * np.isin(NAMES, _MISSING)
        # Probabilities of what a cell may hold, by class: any number or each value; nothing, last.
        self._tables = [
            torch.from_numpy(np.concatenate(((1 - gone) * value, gone), axis=1))
            for value, gone in zip(values, np.split(missing, len(NAMES), axis=1), strict=True)
        ]
        self._effects = [torch.from_numpy(rng.normal(size=t.shape[1])) for t in self._tables]
        self._slopes = torch.from_numpy(rng.normal(size=len(NAMES)))
        self._pairs = [rng.choice(len(NAMES), 2, replace=False) for _ in range(_PAIRS)]
        scores = self._raw_score(self.sample(_SCORED).x)
        self._centre, self._scale = float(np.median(scores)), scores.std(correction=0) / _SPREAD

    def score(self, x: Any) -> Float64[Tensor, " rows"]:
        """What targets depend on: effects of all columns, of missing cells, and of four pairs.

        Its median over the table is about 0, and its standard deviation 2.

        Args:
            x: rows, or a frame of them.
        """
        return (self._raw_score(self.rows(x).cpu()) - self._centre) / self._scale

    def posterior(self, x: Rows, mask: Mask) -> Posterior:
        """P(hidden class | x_S), exactly."""
        return self._log_posterior(x, mask, *self._seen(x, mask)).softmax(-1)

    def draw(self, x: Rows, mask: Mask, draws: range, keys: Keys) -> Drawn:
        """Exact draws: the class first, then each cell; see `ConditionalLaw.draw`."""
        uniform = _random.uniform(keys, (1 + len(NAMES) + len(_NORMAL),), draws)
        noise = _random.to_normal(uniform[..., -len(_NORMAL) :]).double()
        uniform = uniform.double()
        pattern, deviation = self._seen(x, mask)
        share = self._log_posterior(x, mask, pattern, deviation).softmax(-1).cumsum(-1)
        upper = (share / share[..., -1:])[:, :, None, :-1]
        label = (uniform[..., :1] > upper).sum(-1)
        shift = torch.einsum("bmkij,bkj->bmki", self._gain[pattern], deviation)
        places = label[..., None].expand(*label.shape, len(_NORMAL))
        normal = (self._means + shift).gather(2, places)
        factor = self._factor[pattern[:, :, None], label]
        normal = normal + torch.einsum("bmdij,bmdj->bmdi", factor, noise)
        columns = list(_to_cells(normal).unbind(-1))
        for column, table in enumerate(self._tables):
            held = _choose(table.to(x.device), label, uniform[..., 1 + column])
            cell = columns[column] if column < len(_NORMAL) else held.double()
            gone = held == table.shape[1] - 1
            columns[column : column + 1] = [torch.where(gone, MISSING, cell)]
        drawn = torch.stack(columns, -1).to(x.dtype)
        return Drawn(torch.where(mask[:, :, None], x[:, None, None], drawn), label)

    def rows(self, x: Any) -> Float[Tensor, "rows columns"]:
        """Rows of the law; a frame becomes what `frame` made it from."""
        if is_frame(x):
            x = torch.stack([_to_numbers(name, x[name]) for name in NAMES], dim=1)
        return check_rows(x, self.players)

    def frame(self, x: Float[Tensor, "rows columns"]) -> "pd.DataFrame":
        """The frame of these rows, in its own types: what `rows` came from, bit for bit."""
        import pandas as pd

        cells = x.cpu().double().T.numpy()
        cells = np.where(cells == MISSING, np.nan, cells)
        pairs = zip(NAMES, cells, strict=True)
        return pd.DataFrame({name: _to_column(name, numbers) for name, numbers in pairs})

    def _seen(
        self, x: Rows, mask: Mask
    ) -> tuple[Int64[Tensor, "batch m"], Float64[Tensor, "batch classes normal"]]:
        """Which normal columns are seen, as bits, and by how much a row is off each class' mean."""
        own = x[:, : len(_NORMAL)]
        seen = mask[..., : len(_NORMAL)] & (own != MISSING)[:, None]
        deviation = _from_cells(own)[:, None] - self._means
        bits = seen.long() << torch.arange(len(_NORMAL), device=x.device)
        return bits.sum(-1), deviation

    def _log_posterior(
        self,
        x: Rows,
        mask: Mask,
        pattern: Int64[Tensor, "batch m"],
        deviation: Float64[Tensor, "batch classes normal"],
    ) -> Float64[Tensor, "batch m classes"]:
        """log p(class | x_S), up to a constant of the pair."""
        x, present = torch.where(mask.any(1), x, 0), mask.any(1) & (x != MISSING)
        held = self._held(x)
        tables = zip(self._tables, held.unbind(1), strict=True)
        told = torch.stack([table.to(x.device).log()[:, own].T for table, own in tables], 1)
        # A class that cannot have a value is out where that is seen: -inf, which 0 must not touch.
        log_p = torch.where(mask[..., None], told[:, None], 0).sum(2) + self._log_weights
        no_amount = mask[..., 0] & (present[:, 0] & (x[:, 0] <= 0))[:, None]
        check_possible((log_p.isfinite().any(-1) & ~no_amount).flatten())
        precision = self._precision[pattern]
        distance = torch.einsum("bki,bmkij,bkj->bmk", deviation, precision, deviation)
        return log_p - distance / 2 - self._log_scale[pattern]

    def _held(self, x: Rows) -> Int64[Tensor, "batch columns"]:
        """The column of each table that a cell is in."""
        last = torch.tensor([table.shape[1] - 1 for table in self._tables], device=x.device)
        number = torch.arange(len(NAMES), device=x.device) < len(_NORMAL)
        place = torch.where(number | (x == MISSING), 0, x).long()
        return torch.where(x == MISSING, last, torch.minimum(place, last))

    def _raw_score(self, x: Rows) -> Float64[Tensor, " rows"]:
        held, normal = self._held(x), _from_cells(x[:, : len(_NORMAL)]) / 5**0.5
        effects = [effect[own] for effect, own in zip(self._effects, held.unbind(1), strict=True)]
        for column in range(len(_NORMAL)):
            gone = x[:, column] == MISSING
            effects[column] = torch.where(gone, effects[column], normal[:, column])
        of = torch.stack(effects, dim=1)
        return of @ self._slopes + sum(of[:, i] * of[:, j] for i, j in self._pairs)


def _given(covariances: Any, seen: Any) -> tuple[Any, ...]:
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


def _choose(
    table: Float64[Tensor, "classes values"],
    label: Int64[Tensor, "batch m draws"],
    uniform: Float64[Tensor, "batch m draws"],
) -> Int64[Tensor, "batch m draws"]:
    """The column of a row of probabilities, of row number `label`, that a uniform number falls to.

    All rows at once: the k-th is cumulated from k to k + 1.
    """
    upper = table.cumsum(1)
    upper = upper / upper[:, -1:] + torch.arange(len(table), device=table.device)[:, None]
    return torch.searchsorted(upper.flatten(), label + uniform) - label * table.shape[1]


def _from_cells(cells: Float[Tensor, "*shape columns"]) -> Float64[Tensor, "*shape columns"]:
    """Standard normal numbers of the normal columns, within classes up to their law."""
    location, scale = torch.tensor([*_NORMAL.values()], dtype=torch.float64, device=cells.device).T
    # What is missing, or no amount, is some number: nothing depends on it.
    plain = torch.where(cells == MISSING, 1, cells).double()
    amount = plain[..., :1]
    plain = torch.cat((torch.where(amount > 0, amount, 1).log(), plain[..., 1:]), -1)
    return (plain - location) / scale


def _to_cells(normal: Float64[Tensor, "*shape columns"]) -> Float64[Tensor, "*shape columns"]:
    location, scale = torch.tensor([*_NORMAL.values()], dtype=torch.float64, device=normal.device).T
    plain = normal * scale + location
    return torch.cat((plain[..., :1].exp(), plain[..., 1:-1], plain[..., -1:].round()), -1)


def _to_numbers(name: str, column: "pd.Series[Any]") -> Tensor:
    import pandas as pd

    numbers: Any
    if name == "since":
        since = column.to_numpy(dtype="datetime64[s]")
        minutes = (since - _START).astype(np.float64) / 60
        numbers = np.where(np.isnat(since), np.nan, minutes)
    elif name in _NORMAL:
        numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        values: Any = pd.Index(VALUES[name]).astype(object)
        position = values.get_indexer(column.astype(object))
        numbers = np.where(position < 0, np.nan, position)
    return torch.from_numpy(np.where(np.isnan(numbers), MISSING, numbers).astype(np.float32))


def _to_column(name: str, numbers: Any) -> Any:
    import pandas as pd

    if name == "since":
        return _START + (60 * numbers).astype("timedelta64[s]")
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
