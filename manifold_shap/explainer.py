"""The front door: from a model and a data frame to explanations, in a few lines."""

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from manifold_shap._arrays import row_labels, row_levels
from manifold_shap._checks import check_known, check_number, check_seed, check_whole
from manifold_shap._messages import Instead, check_choice, shown, warn
from manifold_shap._saved import saved
from manifold_shap.candidates import FAST, OF_TEXTS, SLOW, CandidateTask, Fits, choose, learns
from manifold_shap.estimators.auto import auto_shapley
from manifold_shap.estimators.permutation import permutation_shapley
from manifold_shap.explanation import Explanation, wide_frame
from manifold_shap.learning_error import with_learning_error
from manifold_shap.models import Model, as_model
from manifold_shap.quality import Quality
from manifold_shap.spaces import Identity, OutputSpace, as_space
from manifold_shap.tables.fitted import fit_table
from manifold_shap.tables.frames import check_no_pictures
from manifold_shap.values import ValueFunction

if TYPE_CHECKING:
    import pandas as pd

# Rows of a frame, at least: to learn from, and to choose on.
_LEAST_ROWS = 20
_EFFORTS = ("low", "high")
# Rows from which what a model returns is detected.
_CHECKED_ROWS = 64


@saved
class Explainer(Instead):
    """Explains a model's predictions on the rows of a data frame.

    It numbers the frame's cells (`Table`), fits several value functions v(S) = E[T(f(X)) | x_S]
    to a part of the rows, chooses the one with the least error on the others, fits it to all rows,
    and explains by it. Of up to 2,000 rows each is held out once, by five fits. Each step is
    there for itself: `as_model`, `Table`, `fit_surrogate`, `fit_imputer`, `imputed_value`,
    `mean_squared_error`, `auto_shapley`.

        >>> import pandas as pd
        >>> from sklearn.linear_model import LinearRegression
        >>> size = [k % 13 for k in range(90)]
        >>> rooms = [s // 3 + k % 2 for k, s in enumerate(size)]
        >>> frame = pd.DataFrame({"size": size, "rooms": rooms})
        >>> model = LinearRegression().fit(frame, frame["size"] + 2.0 * frame["rooms"])
        >>> explainer = Explainer(model, frame, candidates=["gaussian", "empirical"])
        >>> explanation = explainer(frame.head(3))
        >>> explanation.phi.shape, explanation.players.names
        (torch.Size([3, 2, 1]), ('size', 'rooms'))

    Attributes:
        model: from codes of rows to predictions.
        table: the columns, their values and the players.
        value: the value function that was chosen.
        candidates: all value functions that were compared, by name, `marginal` and `stacked`, the
            weighted mean, among them: each is fitted to all rows when it is first asked for; of an
            explainer that was loaded, the chosen one alone.
        quality: the error of every candidate.

    Args:
        model: fitted: of scikit-learn, xgboost, lightgbm or catboost, an ONNX file or session, a
            torch module, or a function of the frame; see `as_model`. It sees frames like this one.
        frame: rows of the data distribution with the model's columns, without the target: a data
            frame of pandas or polars, an array, a tensor or a list of rows; or a list of texts; or
            a tuple or a dictionary of tensors, which the model takes as arguments. Missing cells
            are values. Those that the model was trained on serve, others as well.
        more: nothing: a target, which others take here, is an error that says so.
        space: the output space T; by default `probability` for a classifier and `identity` for a
            regression.
        players: groups of columns that count as one, by name, such as `{"size": ["length",
            "width"]}`; each other column is a player of its own. Of texts "words" or "sentences".
        left_out: columns that the model is given but that are no players.
        classes: names of the classes, or of the outputs of a regression.
        returns: what a function returns, see `as_model`; by default detected.
        unit: of what a regression predicts, for figures.
        effort: "low" compares what fits in seconds: `gaussian`, `copula`, `empirical`, `mixture`;
            of texts it takes `deletion`, which is measured as well, whatever its error. "high"
            compares `vae`, `surrogate` and `guided_surrogate` as well, each trained for minutes,
            five times up to 2,000 rows; Ctrl-C leaves out those that were not compared by then.
        candidates: value functions to choose among, by name, in place of those of an effort.
        model_batch_size: most rows in one call of the model.
        seed: of the split, the trainings and the draws: same seed, same choice.
        fit_seconds: a stop for safety before each fit: candidates that were not compared by then
            are left out, which a warning and `quality` say; one is compared in any case.
        progress: whether to show progress bars; by default where a person looks.

    Raises:
        TypeError: no model, or no frame; a column of lists.
        ValueError: a frame with fewer than 20 rows, a model that fails on it or returns no numbers,
            an argument that is unknown or out of range.
    """

    def __init__(
        self,
        model: Any,
        frame: Any,
        *more: Any,
        space: str | OutputSpace | None = None,
        players: Mapping[str, Sequence[Any]] | str | None = None,
        left_out: Collection[Any] = (),
        classes: Sequence[str] | None = None,
        returns: str | None = None,
        unit: str | None = None,
        effort: str = "low",
        candidates: Collection[str] | None = None,
        model_batch_size: int | None = None,
        seed: int = 0,
        fit_seconds: float | None = None,
        progress: bool | None = None,
    ) -> None:
        if more:
            raise TypeError(
                "Expected a model and a frame but got a third argument; leave the target out "
                "(`ms.global_values(explanation, y)` takes it), and give settings by name."
            )
        check_choice("effort", effort, _EFFORTS)
        if fit_seconds is not None:
            check_number("fit_seconds", fit_seconds, above=0)
        self.seed = check_seed(seed)

        self.table = fit_table(frame, players, left_out)
        of_words = self.table.players.by_row
        fast, slow = (OF_TEXTS, ("surrogate",)) if of_words else (FAST, SLOW)
        if candidates is None:
            candidates = fast if effort == "low" else (*fast, *slow)
        candidates = [candidates] if isinstance(candidates, str) else candidates
        check_known(candidates, (*fast, *slow), "`candidates` (beside 'marginal', always there)")
        x = self.table.rows(frame)
        for shape in getattr(self.table, "shapes", {}).values():
            check_no_pictures((len(x), *shape))
        own = (classes, returns, model_batch_size, self.table)
        self.model = as_model(model, x[:_CHECKED_ROWS], *own)
        self.table.warn_of_columns(x)
        if constants := list(self.table.constants):
            warn(f"Columns that hold a single value have a share of exactly 0: {shown(constants)}.")
        space = _space(space, self.model, unit)
        if len(x) < _LEAST_ROWS:
            raise ValueError(
                f"Expected a frame of at least {_LEAST_ROWS} rows, to learn from and to choose on, "
                f"but got {len(x)}; pass the rows that the model was trained on."
            )
        task = CandidateTask(self.model, self.table, space, x, self.seed, progress)
        self.candidates: Mapping[str, ValueFunction]
        self.candidates, self.quality = choose(task, candidates, fit_seconds)
        # Any of them: what estimators ask for differs from one to another.
        self.value: Any = self.candidates[self.quality.chosen]
        self._halves: list[ValueFunction] = []
        if self.quality.skipped:
            warn(f"Candidates that were left out: {dict(self.quality.skipped)}.")
        if self.quality.warning:
            even = "Of the candidates even " if len(candidates) > 1 else ""
            warn(f"{even}{self.quality.warning}.")

    def __call__(
        self,
        frame: Any,
        *,
        halves: int = 0,
        estimator: Callable[..., Explanation] = auto_shapley,
        seed: int = 0,
        progress: bool | None = None,
        **settings: Any,
    ) -> Explanation:
        """Shapley values of the predictions on these rows.

            explanation = explainer(frame.head(20), halves=8)
            low, high = explanation.interval(0.95)

        Args:
            frame: rows with the same columns as the frame of training.
            halves: how many times a value function is chosen and learned again, from random halves
                of the frame of training, and explains these rows as well: `model_error` and
                `interval` then hold the error of learning, see `with_learning_error`. Each takes
                the time of a fit, in the first call that needs it, and of an explanation.
            estimator: see `auto_shapley`.
            seed: of the coalitions.
            progress: whether to show a progress bar; by default where a person looks.
            settings: of the estimator, such as `evaluations` and `outputs`.

        Returns:
            An explanation whose instances are labelled as the rows of the frame.

        Raises:
            TypeError, ValueError: rows that do not fit the frame of training; see `Table.rows`.
            ValueError: settings that the estimator does not take; `halves` is 1, or not 0 where
                nothing is learned, or where the explainer was loaded: the frame of training is not
                saved.
        """
        x = self.table.rows(frame)
        if check_whole("halves", halves, 0) == 1:
            raise ValueError("Expected `halves` to be 0, or at least 2 to compare, but got 1.")
        if not callable(estimator):
            raise TypeError(
                "Expected `estimator` to be a function, such as `ms.exact_shapley`, but got "
                f"{estimator!r:.100}."
            )
        taken = inspect.signature(estimator).parameters
        if not any(each.kind is each.VAR_KEYWORD for each in taken.values()):
            check_known(settings, [*taken][2:], "settings of the estimator")
        values = [self.value, *self._learned_again(halves)]
        found, *others = [
            estimator(value, x, seed=seed + k, progress=progress, **settings)
            for k, value in enumerate(values)
        ]
        if others:
            found = with_learning_error(found, others)
        made_by = {
            **found.made_by,
            "model": {"name": self.model.predictor.name},
            **row_levels(frame),
        }
        return replace(found, made_by=made_by, instances=row_labels(frame) or ())

    def frame(self, frame: "pd.DataFrame", **settings: Any) -> "pd.DataFrame":
        """Shapley values of the rows of a frame as a frame with the same index, see `wide_frame`.

        So engines of large tables explain theirs part by part: `table.map_partitions(
        explainer.frame, meta=explainer.frame(part.head(0)))` of Dask. Where coalitions or values
        are drawn, another cut into parts draws others.

        Args:
            frame: of pandas, with the columns of training; it may have no rows.
            settings: see `__call__`.

        Raises:
            ValueError: another frame.
        """
        rows: Any = frame
        if not len(frame):  # A row of known cells, quickly, tells which columns there are.
            rows = self.table.frame(torch.zeros(1, len(self.table.names)))
            settings = {name: settings[name] for name in ("outputs", "halves") if name in settings}
            settings |= {"estimator": permutation_shapley, "permutations": 2}
        found = wide_frame(self(rows, **{"progress": False, **settings}))
        return found[: len(frame)].set_axis(frame.index)

    kind = "front door"

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """All but the model and the other candidates; see `ms.save`."""
        quality = self.quality.to_dict()
        return {"seed": self.seed, "quality": quality, "model": self.model, "value": self.value}, {}

    @classmethod
    def restored(cls, settings: dict[str, Any], _: dict[str, Tensor], __: Any) -> "Explainer":
        self = cls.__new__(cls)
        self.seed, self.quality = settings["seed"], Quality(**settings["quality"])
        self.model, self.value = settings["model"], settings["value"]
        self.table = self.value.spec.table
        self.candidates, self._halves = _Loaded({self.quality.chosen: self.value}), []
        return self

    def _learned_again(self, halves: int) -> list[ValueFunction]:
        """Value functions that are chosen by and learned from halves of the rows."""
        if halves and not isinstance(self.candidates, Fits):
            raise ValueError(
                f"Expected halves=0 of an explainer that was loaded but got {halves}: it has no "
                "rows to learn from. Make an `Explainer` of the model and the frame."
            )
        if halves and not learns(self.candidates):
            raise ValueError(
                f"Expected halves=0 of {self.quality.chosen!r} but got {halves}: nothing is "
                "learned there, so that halves tell nothing."
            )
        fits: Any = self.candidates
        for number in range(len(self._halves), halves):
            self._halves.append(fits.half(number))
        return self._halves[:halves]

    def __repr__(self) -> str:
        named = self.value.space.named(self.value.outputs)
        return f"Explainer({len(self.table.players)} players, {named}, by {self.quality.chosen!r})"


class _Loaded(dict[str, ValueFunction]):
    """The candidate of an explainer that was loaded."""

    def __missing__(self, name: str) -> ValueFunction:
        raise KeyError(
            f"Expected {[*self]}, all that a loaded explainer has, but got {name!r}; make the "
            "`Explainer` again to compare value functions."
        )


def _space(space: str | OutputSpace | None, model: Model, unit: str | None) -> OutputSpace:
    regression = model.returns == "values"
    space = as_space(space or ("identity" if regression else "probability"))
    if unit is None:
        return space
    if not isinstance(space, Identity):
        raise ValueError(
            f"Expected `unit` for the values of a regression but got {unit!r} with "
            f"space={space.name!r}; leave it out."
        )
    return Identity(unit)
