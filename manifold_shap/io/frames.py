"""Explains data frames part by part, as engines of tables hand them out: frame in, frame out."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap import _random
from manifold_shap._arrays import is_frame
from manifold_shap._checks import check_distinct, check_seed
from manifold_shap._messages import check_names, shown
from manifold_shap.estimators.audited import accepted
from manifold_shap.estimators.auto import auto_shapley
from manifold_shap.explanation import Explanation
from manifold_shap.io import transfer
from manifold_shap.io.places import LocalPlace, place_of
from manifold_shap.players import Players
from manifold_shap.values.base import ValueFunction
from manifold_shap.values.selected import Outputs

if TYPE_CHECKING:
    import pandas as pd

# Rows that are explained at the same time where it does not matter which others there are.
_ROWS = 1024


def wide_frame(explanation: Explanation) -> "pd.DataFrame":
    """A line per instance, with all that is known of it in columns of numbers (float64).

    Columns are `prediction`, `base`, then `phi_<player>` and `standard_error_<player>` for every
    player and, where it is known, `model_error_<player>`. Several outputs have columns of their
    own: `prediction_<output>`, `base_<output>`, `phi_<output>_<player>` and so on. Players that a
    row lacks have NaN.

    Raises:
        ValueError: names of outputs and players that make the same column twice.

    >>> from manifold_shap import exact_shapley
    >>> def value(x, mask):
    ...     return (x[:, None] * mask).sum(-1, keepdim=True)
    >>> wide_frame(exact_shapley(value, torch.tensor([[1.0, 2.0]]))).loc[0].to_dict()
    {'prediction': 3.0, 'base': 0.0, 'phi_x0': 1.0, 'phi_x1': 2.0, ...}
    """
    import pandas as pd

    known = [] if explanation.model_error is None else ["model_error"]
    columns = _columns(explanation.players, explanation.outputs, known)
    index = pd.Index(list(explanation.instances), name="instance")
    return pd.DataFrame(_numbers(explanation).numpy(), index, columns)


class FrameExplainer:
    """A function from a data frame to a frame of its explanation, for engines of large tables.

    It is pickled as a reference to a file with the numbers of the value function, which every
    process reads once. So it can be handed to pandas, `dask.dataframe.map_partitions`, Ray Data's
    `map_batches` and, as its method `each`, Spark's `mapInPandas`.

    How a table is cut into parts does not matter. Where rows have draws of their own (orders of the
    players, a value function that draws) or a `target_error` stops them, they are explained one by
    one, each by a seed that is made of `seed` and its own numbers: results are the same bytes in
    any part, and equal rows have equal ones. Elsewhere (all coalitions, an amortised explainer,
    regressions without draws) rows are explained together, and a cut may move the last digits.

        >>> import tempfile
        >>> import pandas as pd
        >>> import manifold_shap as ms
        >>> from sklearn.linear_model import LinearRegression
        >>> frame = pd.DataFrame({"id": ["a", "b"], "age": [1.0, 2.0], "size": [5.0, 7.0]})
        >>> rows = frame[["age", "size"]]
        >>> model = LinearRegression().fit(rows.to_numpy(), [11.0, 16.0])
        >>> value = ms.imputed_value(model, ms.MarginalImputer(rows), "identity", draws=2)
        >>> place = tempfile.TemporaryDirectory()
        >>> file = Path(place.name) / "value.ckpt"
        >>> explain_frame = FrameExplainer(file, value, ms.exact_shapley, keep=["id"])
        >>> explain_frame.columns[:4]
        ('prediction', 'base', 'phi_age', 'phi_size')
        >>> explain_frame(frame)[["id", "phi_age", "phi_size"]]
          id  phi_age  phi_size
        0  a     -0.5      -2.0
        1  b      0.5       2.0
        >>> place.cleanup()

    Attributes:
        columns: names of the columns of numbers that a result has; see `wide_frame`.
        keep: names of columns that are passed on, before these.

    Args:
        path: of the file to be written, which all processes have to see. A file of another one is
            replaced, which must then no longer be in use.
        value: the value function; of an `Explainer`, its `value`.
        estimator: from `value` and rows to an explanation; it is given a `seed` if it takes one.
            For settings: `functools.partial(permutation_shapley, permutations=64)`.
        outputs: names of those to explain, or their positions; by default all.
        keep: columns of a frame that are no players but go into the result as they are, such as
            the key of a table. Ray and Spark know no index to join by.
        seed: of all rows.

    Raises:
        TypeError: a bare callable in place of a value function; what cannot be pickled.
        ValueError: rows that have players of their own, and so no columns in common; names that
            make the same column twice; a `path` in an object store.
        OSError: no space or no permission.
    """

    def __init__(
        self,
        path: str | Path,
        value: ValueFunction,
        estimator: Callable[..., Explanation] = auto_shapley,
        *,
        outputs: Outputs = None,
        keep: Sequence[str] = (),
        seed: int = 0,
    ) -> None:
        place = place_of(path, fix="it comes first, then the value function")
        if not isinstance(place, LocalPlace):
            raise ValueError(
                f"Expected `path` to be on a file system that all processes share but got {place}; "
                "an object store cannot hold this file."
            )
        value = _checked(value).select(outputs)
        self._seed, self.keep = check_seed(seed), check_names("keep", keep)
        self.columns = _columns(value.players, value.outputs)
        check_distinct([*self.keep, *self.columns], "names of columns that are kept or made")
        self._reference = transfer.refer((value, estimator), place.path)

    def __call__(self, frame: "pd.DataFrame") -> "pd.DataFrame":
        """The explanation of the rows of a frame, under its index.

        Args:
            frame: of pandas, with the columns that the value function knows and those to `keep`. It
                may be empty: `meta=explain_frame(frame.head(0))` says to Dask what comes out.

        Raises:
            TypeError: no frame of pandas.
            ValueError: rows that the value function refuses; an estimator that explains other
                outputs; the file has been replaced or is damaged.
            FileNotFoundError: this process does not see the file.
        """
        import pandas as pd

        if not isinstance(frame, pd.DataFrame):
            fix = "its `to_pandas()` is one" if is_frame(frame) else "`pandas.DataFrame(...)`"
            raise TypeError(
                f"Expected a data frame of pandas but got {type(frame).__name__}; {fix}."
            )
        if missing := set(self.keep) - set(frame.columns):
            raise ValueError(
                f"Expected a frame with the columns to keep but it lacks {shown(sorted(missing))}; "
                f"it has {shown(frame.columns)}."
            )
        kept, rows = frame[list(self.keep)], frame.drop(columns=list(self.keep))
        numbers = self._explained(rows) if len(rows) else torch.zeros(0, len(self.columns)).double()
        found = pd.DataFrame(numbers.numpy(), frame.index, list(self.columns))
        return pd.concat([kept, found], axis=1) if self.keep else found

    def each(self, frames: Iterable["pd.DataFrame"]) -> Iterator["pd.DataFrame"]:
        """The explanations of several frames, one after the other, as Spark wants them."""
        return map(self, frames)

    def __repr__(self) -> str:
        return f"FrameExplainer({str(self._reference.path)!r}, {len(self.columns)} columns)"

    def _explained(self, frame: "pd.DataFrame") -> Float[Tensor, "rows columns"]:
        value, estimator = transfer.load(self._reference)
        x = value.rows(frame)
        parts: Iterable[tuple[Tensor, int]] = ((part, self._seed) for part in x.split(_ROWS))
        if _depends_on_others(value, estimator, x[:1], self._seed):
            parts = zip(x.split(1), _seeds(x, self._seed), strict=True)
        return torch.cat([self._of_part(_explain(value, estimator, *part)) for part in parts])

    def _of_part(self, explanation: Explanation) -> Float[Tensor, "rows columns"]:
        found = _columns(explanation.players, explanation.outputs)
        if found != self.columns or explanation.model_error is not None:
            raise ValueError(
                f"Expected an estimator that explains the outputs of the value function but it "
                f"gives the columns {shown(found)}; choose by `outputs` of the `FrameExplainer`."
            )
        return _numbers(explanation)


def _checked(value: Any) -> ValueFunction:
    if not isinstance(value, ValueFunction):
        raise TypeError(
            f"Expected a value function but got {type(value).__name__}; of an `ms.Explainer` give "
            "its `value`, and of a function of rows and coalitions write a subclass of "
            "`ms.ValueFunction`, which knows players and outputs before any row is there."
        )
    if value.players.by_row:
        raise ValueError(
            "Expected players that all rows share, for a column of each, but here every row has "
            "its own; explain them by `ms.explain_rows`, or as `explanation.to_long_frame()`."
        )
    return value


def _depends_on_others(
    value: ValueFunction, estimator: Callable[..., Explanation], x: Tensor, seed: int
) -> bool:
    """Whether numbers of a row depend on which rows are explained with it."""
    settings = estimator.keywords if isinstance(estimator, partial) else {}
    if value.sampled or settings.get("target_error") is not None:
        return True
    # It has a seed where anything was drawn.
    return "seed" in _explain(value, estimator, x, seed).made_by


def _explain(
    value: ValueFunction, estimator: Callable[..., Explanation], x: Tensor, seed: int
) -> Explanation:
    return estimator(value, x, **accepted(estimator, {"seed": seed, "progress": False}))


def _seeds(x: Float[Tensor, "rows *event"], seed: int) -> list[int]:
    """A seed for each row, of its numbers alone."""
    # Adding zero makes 0 of -0.
    numbers: Int64[Tensor, "rows width"] = (x.cpu().flatten(1).double() + 0.0).view(torch.int64)
    mixed = _random.fold(numbers, torch.arange(numbers.shape[1]))
    keys = _random.fold(mixed.sum(1), seed)
    return (keys & (2**63 - 1)).tolist()


def _columns(
    players: Players, outputs: Sequence[str], known: Sequence[str] = ()
) -> tuple[str, ...]:
    """Names of the columns of numbers, in the order of `_numbers`."""
    of = [f"_{output}" for output in outputs] if len(outputs) > 1 else [""]
    ends = [f"{end}{output}" for end in ("prediction", "base") for output in of]
    measures = ("phi", "standard_error", *known)
    own = ["".join(name) for name in product(measures, of, (f"_{n}" for n in players.names))]
    names = (*ends, *own)
    check_distinct(names, "names of columns, of outputs and players,", "rename some of them")
    return names


def _numbers(explanation: Explanation) -> Float[Tensor, "instances columns"]:
    """All columns of numbers, in double precision."""
    by_player = [explanation.phi, explanation.standard_error]
    if explanation.model_error is not None:
        by_player.append(explanation.model_error)
    own = [each.transpose(1, 2).flatten(1) for each in by_player]
    return torch.cat([explanation.prediction, explanation.base, *own], dim=1).double()
