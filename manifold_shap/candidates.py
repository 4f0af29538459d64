"""Fits the candidates among which the value function of a table is chosen, and compares them."""

import math
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap import _random
from manifold_shap._messages import UnfitError
from manifold_shap._progress import announce, progress_bar
from manifold_shap.coalitions import Coalitions, Listed
from manifold_shap.imputers import (
    CopulaImputer,
    DeletionImputer,
    EmpiricalImputer,
    GaussianImputer,
    Imputer,
    MarginalImputer,
    MixtureImputer,
    table_imputer,
)
from manifold_shap.metrics import shapley_pairs
from manifold_shap.models import Model
from manifold_shap.quality import OFF_MANIFOLD, STACKED, Quality, report
from manifold_shap.spaces import OutputSpace
from manifold_shap.surrogate.fit import fit_surrogate
from manifold_shap.tables.base import RowAdapter
from manifold_shap.vae.fit import fit_imputer
from manifold_shap.values import (
    ImputedValue,
    StackedValue,
    ValueFunction,
    imputed_value,
    reference_outputs,
    reference_space,
)
from manifold_shap.values.batches import Batches

# Those that fit in seconds, and those that are trained for minutes.
FAST = ("gaussian", "copula", "empirical", "mixture")
SLOW = ("vae", "surrogate", "guided_surrogate")
OF_TEXTS = ("deletion",)
CANDIDATES = (*FAST, *OF_TEXTS, *SLOW)

# Draws of an imputer: few, for more coalitions in the same time. To compare, twice as many.
_DRAWS, _COMPARED_DRAWS = 8, 16
# Pairs of a row and a coalition on which candidates are compared; and the part of them on which a
# single one is measured, which informs and chooses nothing.
_PAIRS, _OF_ONE = 2048, 8
# Seconds of the comparison from which it is announced; rows whose prediction is timed: so many at
# most and, beyond the rows that there are, so small a part of all that are asked.
_LONG, _TIMED_ROWS, _OF_ASKED = 10.0, 512, 64
# Rows up to which candidates are fitted to four fifths and compared on the rest, five times.
_FEW_ROWS, _FOLDS = 2000, 5
# Of more rows, the share that is held out, at most a row for each pair.
_SHARE = 0.3

# Draws of the values that teach surrogates, each a row of the model, and rows of the model for a
# training: those of 60,000 values, and predictions of drawn rows.
_TEACHER_DRAWS, _TAUGHT_ROWS = 8, 600_000
# Rows of the model for a value of those that do not ask about one for each draw.
_ROWS_FOR_A_VALUE = {"deletion": 1, "guided_surrogate": 1, "surrogate": 0}


@dataclass(frozen=True)
class CandidateTask:
    """What all candidates are fitted to.

    Attributes:
        model: from codes to predictions.
        table: of the frame.
        space: the output space.
        x: codes of all rows.
        seed: of the parts, trainings, draws and coalitions.
        progress: see `progress_bar`.
    """

    model: Model
    table: RowAdapter
    space: OutputSpace
    x: Tensor
    seed: int = 0
    progress: bool | None = None


# Of bare mappings, checks at run time look at no item, which would fit it.
class Fits(Mapping):
    """Candidates that are fitted to the same rows, each when it is first asked for.

    Args:
        task: what they are fitted to.
        names: of the candidates.
        x: the rows, which are the background data, too.
        draws: of an imputer.
        weights: of candidates in a mean of several.
        products: of the errors by which they were compared; see `report`.
    """

    def __init__(
        self,
        task: CandidateTask,
        names: Collection[str],
        x: Tensor,
        draws: int = _DRAWS,
        weights: Mapping[str, float] | None = None,
        products: Float[Tensor, "rows candidates candidates"] | None = None,
    ) -> None:
        self.task, self.names, self.x, self.draws = task, tuple(names), x, draws
        self.weights, self.products = weights or {}, products
        self.quality: Quality | None = None
        self._fitted = dict[str, ValueFunction]()

    def __getitem__(self, name: str) -> ValueFunction:
        """The candidate of this name, which others may be made of.

        Raises:
            UnfitError: it cannot be fitted to these rows.
            KeyError: there is none of this name.
        """
        if name not in FITS:
            raise KeyError(f"Expected one of {[*self]} but got {name!r}.")
        if name not in self._fitted:
            self._fitted[name] = FITS[name](self)
            if self.quality is not None and name in self.quality.mse:
                self._fitted[name].update(quality=self.quality.of(name))
        return self._fitted[name]

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({[*self]})"

    def half(self, number: int) -> ValueFunction:
        """Chosen by a random half of the errors, and learned from a random half of the rows.

        The errors are those by which all rows chose; nothing is compared again.
        Numbers 2k and 2k + 1 are the halves of one division.
        """
        assert self.products is not None
        names = [name for name in self.names if name != STACKED]
        quality = report(names, self.products[self._half(len(self.products), number)], SLOW)
        rows = self.x[self._half(len(self.x), number)]
        return Fits(self.task, quality.mse, rows, self.draws, quality.weights)[quality.chosen]

    def _half(self, count: int, number: int) -> Tensor:
        division, side = divmod(number, 2)
        generator = torch.Generator().manual_seed(self.task.seed + division)
        return torch.randperm(count, generator=generator).tensor_split(2)[side]

    @cached_property
    def base(self) -> tuple[OutputSpace, Tensor]:
        """The output space, and v(∅), of which the model is asked once for all candidates."""
        model, space = self.task.model, reference_space(self.task.model, self.task.space, self.x)
        return space, reference_outputs(model, space, self.x).mean(0)

    def imputed(self, imputer: Imputer, draws: int | None = None) -> ImputedValue:
        """The value function of an imputer."""
        model, last = self.task.model, (draws or self.draws, self.task.seed)
        if torch.equal(imputer.reference, self.x):
            return ImputedValue(imputer, model, *self.base, *last)
        return imputed_value(model, imputer, self.task.space, *last)


def choose(
    task: CandidateTask, names: Collection[str], fit_seconds: float | None = None
) -> tuple[Fits, Quality]:
    """Compare candidates on rows that they were not fitted to, and choose one.

    Of up to 2,000 rows each is compared on all: by five fits, each to the rows but a fifth.
    What cannot be fitted to these rows (`UnfitError`) is left out. Steps of trainings follow from
    the size of the table alone, so that another machine makes the same choice. Ctrl-C while a
    network is trained ends the comparison: the rest is left out, what was compared is kept.

    Args:
        task: what they are fitted to.
        names: of the candidates.
        fit_seconds: a stop for safety before each fit: candidates that were not compared by then
            are left out, and the first one is compared by fewer fits.

    Returns:
        Fits to all rows, and the comparison.

    Raises:
        ValueError: none can be fitted, or the model's outputs are not finite.
    """
    wanted = [OFF_MANIFOLD, *(name for name in CANDIDATES if name in names)]
    pairs = _PAIRS if len(wanted) > 2 else _PAIRS // _OF_ONE
    folds = _folds(len(task.x), task.seed, pairs)
    fits = [Fits(task, wanted, task.x[train], _COMPARED_DRAWS) for train, _ in folds]
    errors, seconds, skipped = dict[str, list[_Errors]](), dict[str, float](), dict[str, str]()
    _announce(task, wanted, [len(held_out) for _, held_out in folds], pairs)
    share, stop = pairs // len(folds), time.perf_counter() + (fit_seconds or math.inf)
    with progress_bar(task.progress, name="value functions", over=wanted) as bar:
        for number, name in enumerate(bar):
            bar.set_postfix_str(name.replace("_", " "), refresh=False)
            of_folds, took = list[_Errors](), 0.0
            try:
                for fold, (own, (_, held_out)) in enumerate(zip(fits, folds, strict=True)):
                    start = time.perf_counter()
                    if start > stop and len(errors) > 1:
                        raise UnfitError(f"fit_seconds={fit_seconds:g} had passed")
                    if start > stop and of_folds:
                        break
                    value, known = own[name], errors.get(OFF_MANIFOLD, [None] * len(folds))[fold]
                    took += time.perf_counter() - start
                    of_folds.append(_errors(task, value, fold, held_out, share, number, known))
                errors[name], seconds[name] = of_folds, took
                # All are compared on the same rows.
                fits, folds = fits[: len(of_folds)], folds[: len(of_folds)]
                errors = {each: known[: len(of_folds)] for each, known in errors.items()}
            except (UnfitError, torch.linalg.LinAlgError) as error:
                skipped[name] = str(error).splitlines()[0]
            except KeyboardInterrupt:
                if name not in SLOW or len(errors) == 1:
                    raise
                skipped |= dict.fromkeys(wanted[wanted.index(name) :], "interrupted")
                break
    if len(errors) == 1:
        raise ValueError(
            f"Expected at least one of `candidates` to be fitted but of {wanted[1:]} none was: "
            f"{skipped}; name others, such as 'empirical'."
        )
    products = torch.cat([_products(of_fold) for of_fold in zip(*errors.values(), strict=True)])
    predictions = torch.cat([fold.predictions for fold in errors[OFF_MANIFOLD]])
    few = "a fit" if len(folds) == 1 else f"{len(folds)} fits"
    of_rows = f"{few} to {len(folds[0][0])} of {len(task.x)} rows"
    quality = report(
        list(errors),
        products,
        SLOW,
        variance=predictions.var(0, correction=0).mean().item(),
        fits=of_rows if learns(errors) else "nothing is fitted",
        seconds=seconds,
        skipped=skipped,
    )
    found = Fits(task, [*quality.mse], task.x, weights=quality.weights, products=products)
    found.quality = quality
    return found, quality


def learns(names: Collection[str]) -> bool:
    """Whether some of these candidates are fitted to rows."""
    return not {*names} <= {OFF_MANIFOLD, *OF_TEXTS}


def _announce(
    task: CandidateTask, wanted: Sequence[str], held_out: Sequence[int], pairs: int
) -> None:
    """Say what the comparison will take, where that is long.

    Args:
        task, wanted, pairs: see `choose`.
        held_out: how many rows each fit is scored on.
    """
    folds, trained = len(held_out), [name for name in wanted if name in SLOW]
    scored = sum(rows * -(-(pairs // folds) // rows) for rows in held_out)
    asked = scored * sum(_ROWS_FOR_A_VALUE.get(name, _COMPARED_DRAWS) for name in wanted)
    asked += folds * len(task.x)
    if not task.table.players.by_row:
        asked += folds * _TAUGHT_ROWS * len({*trained} - {"vae"})
    # A call of a few rows would mostly take what any call takes.
    timed = torch.arange(min(_TIMED_ROWS, max(len(task.x), asked // _OF_ASKED))) % len(task.x)
    start = time.perf_counter()
    task.model(task.x[timed], scale=task.space.takes)
    seconds = asked * (time.perf_counter() - start) / len(timed)
    if not trained and seconds < _LONG:
        return
    trainings = (
        f", and {folds * len(trained)} trainings of networks, of one to several minutes each"
        if trained
        else ""
    )
    announce(
        task.progress,
        f"Comparing {len(wanted)} value functions: about {asked:,} rows of the model, "
        f"{seconds:.0f} s{trainings}.",
    )


def _folds(rows: int, seed: int, pairs: int) -> list[tuple[Tensor, Tensor]]:
    """Numbers of rows to fit to, and of those that errors are measured on."""
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    if rows <= _FEW_ROWS:
        parts = order.chunk(_FOLDS)
        return [
            (torch.cat([*parts[:k], *parts[k + 1 :]]), part[: pairs // _FOLDS])
            for k, part in enumerate(parts)
        ]
    held_out = min(pairs, round(_SHARE * rows))
    return [(order[held_out:], order[:held_out])]


class _Errors(NamedTuple):
    """Of a value function, on coalitions of some rows.

    Attributes:
        predictions: of the model, `[rows, outputs]`.
        deviation: from these, `[rows, m * outputs]`.
        variance: of the draws in it, a mean by row, `[rows]`.
    """

    predictions: Tensor
    deviation: Tensor
    variance: Tensor


def _errors(
    task: CandidateTask,
    value: ValueFunction,
    fold: int,
    rows: Tensor,
    least: int,
    number: int,
    known: _Errors | None,
) -> _Errors:
    """The errors of a value function; on the same coalitions for every one, by draws of its own.

    Args:
        task, value: see `choose`.
        fold, number: of the fit, and of the candidate.
        rows: that are held out.
        least: pairs of a row and a coalition.
        known: those of another candidate, with the predictions of these rows.

    Raises:
        ValueError: squares of the model's outputs are too large for a number.
    """
    x, players = task.x[rows], len(task.table.players)
    counts = value.counts(x) if value.players.by_row else None
    pairs = shapley_pairs(len(rows), players, least, task.seed + fold, counts=counts)
    keys = torch.arange(pairs.shape[0] * pairs.shape[1]).reshape(pairs.shape[:2])
    keys = _random.fold(keys, number)

    def estimated(some: Tensor, asked: Coalitions) -> Tensor:
        found = value.estimate(some, asked.masks(), asked.keys)
        return torch.cat((found.values, found.noise()), -1).double()

    batches = Batches(value, progress=False)
    values, variance = batches(estimated, x, Listed(pairs, keys)).chunk(2, -1)
    predictions = value.prediction(x).double() if known is None else known.predictions
    deviation = (values - predictions[:, None]).flatten(1)
    if not math.isfinite(deviation.float().square().sum()):
        raise ValueError(
            "Expected predictions whose squares are finite, to compare value functions by their "
            f"squared errors, but got some as large as {predictions.abs().max().item():.3g}; have "
            "the model return them in a larger unit."
        )
    return _Errors(predictions, deviation, variance.mean((1, 2)))


def _products(errors: Sequence[_Errors]) -> Float[Tensor, "rows candidates candidates"]:
    """Mean products of the errors of each two candidates, by row, without the variance of draws."""
    deviations = torch.stack([each.deviation for each in errors], 1)
    products = deviations @ deviations.mT / deviations.shape[2]
    return products - torch.stack([each.variance for each in errors], 1).diag_embed()


def _stacked(fits: Fits) -> ValueFunction:
    """The mean of candidates by their weights, with about as many draws in all as one has."""
    parts = [
        fits[name].with_draws(max(2, round(weight * fits.draws)))
        for name, weight in fits.weights.items()
    ]
    return StackedValue(parts, [*fits.weights.values()])


def _of_table(kind: type[Imputer], fits: Fits) -> ValueFunction:
    return fits.imputed(table_imputer(kind, fits.task.table, fits.x))


def _vae(fits: Fits) -> ValueFunction:
    task = fits.task
    imputer = fit_imputer(fits.x, table=task.table, seed=task.seed, progress=task.progress)
    return fits.imputed(imputer)


def _deletion(fits: Fits) -> ValueFunction:
    return fits.imputed(DeletionImputer(fits.task.table.players))


def _surrogate(fits: Fits) -> ValueFunction:
    if fits.task.table.players.by_row:  # Of words, which the mixture does not take.
        return _learned(fits, network="transformer")
    return _taught(
        fits,
        teacher_pairs=60_000,
        # So much is taught at new rows that a smaller network learns as much, and none overfits.
        teacher_share=0.875,
        batch_size=512,
        hidden=(256, 256),
        patience=None,
    )


def _guided_surrogate(fits: Fits) -> ValueFunction:
    return _taught(fits, guide=cast(ImputedValue, fits["mixture"]).imputer)


def _taught(fits: Fits, **options: Any) -> ValueFunction:
    """A surrogate that the mixture teaches, with few draws, each a row of the model."""
    mixture = cast(ImputedValue, fits["mixture"]).imputer
    return _learned(fits, teacher=fits.imputed(mixture, _TEACHER_DRAWS), **options)


def _learned(fits: Fits, **options: Any) -> ValueFunction:
    task = fits.task
    with warnings.catch_warnings():
        # The comparison says it of the one that is chosen.
        warnings.filterwarnings("ignore", ".* is not clearly better than off the manifold")
        return fit_surrogate(
            task.model,
            fits.x,
            table=task.table,
            space=task.space,
            seed=task.seed,
            progress=task.progress,
            **options,
        )


# How each is fitted.
FITS: Mapping[str, Callable[[Fits], ValueFunction]] = {
    OFF_MANIFOLD: partial(_of_table, MarginalImputer),
    STACKED: _stacked,
    "gaussian": partial(_of_table, GaussianImputer),
    "copula": partial(_of_table, CopulaImputer),
    "empirical": partial(_of_table, EmpiricalImputer),
    "mixture": partial(_of_table, MixtureImputer),
    "deletion": _deletion,
    "vae": _vae,
    "surrogate": _surrogate,
    "guided_surrogate": _guided_surrogate,
}
