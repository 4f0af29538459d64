"""Holds the result of every estimator: Shapley values over instances, players and outputs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from manifold_shap import shown, simplex
from manifold_shap._arrays import Label, as_instances, label_index, pandas_columns, rows_at
from manifold_shap._checks import check_distinct
from manifold_shap._messages import Instead
from manifold_shap.io import zarr as storage
from manifold_shap.learning_error import half_width, total_error
from manifold_shap.players import Players
from manifold_shap.quality import in_words
from manifold_shap.simplex import compositions
from manifold_shap.simplex.partition import Partition, Tree
from manifold_shap.spaces import OutputSpace, Probability, check_partition
from manifold_shap.values.selected import output_position

if TYPE_CHECKING:
    import pandas as pd
    import shap
    import shapiq
    import xarray as xr

    from manifold_shap.estimators.audit import Audit
    from manifold_shap.global_values import GlobalValues
    from manifold_shap.interactions import Interactions
    from manifold_shap.plots import Plots

# Of what is printed: rows, and players of each row.
_ROWS, _PLAYERS = 5, 3


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Instead):
    """Shapley values of a model's outputs for some rows, and how they were made.

    It is an array of rows: `len(explanation)`, `explanation[0]`, `explanation[-10:]`,
    `explanation[mask]` and `explanation[[3, 1]]` by position, `explanation.loc["Ann"]` by label,
    and `for row in explanation`; all of these are explanations again, of one or more rows.

    `base + phi.nansum(1)` is `prediction`, for every row and output.

    Where rows have players of their own, such as the words of a text, the axis of players is as
    long as the most that a row can have, and the entries of players that a row lacks are NaN.

    Attributes:
        phi: Shapley values `[instances, players, outputs]`, in units of the output space.
        standard_error: of `phi`, same shape: from the sampling of orders or coalitions and of the
            draws that each takes afresh, not from other errors of the value function; zero where
            all were taken, NaN where not known.
        model_error: of `phi`, same shape: from the learning of the value function, where it was
            estimated; see `with_learning_error`.
        base: v(empty coalition) of each row, `[instances, outputs]`.
        prediction: v(grand coalition) of each row, `[instances, outputs]`.
        x: the rows explained: a tensor `[instances, *event]`; of a table what the model sees, a
            frame or a tensor; of texts a frame of their words, with None behind the last; of
            several tensors one, with all elements of a row in turn. `data` says what each player
            was.
        players: names, and the player that owns each element of a row, or each column of a frame;
            -1 for columns that are not players.
        outputs: names of the outputs.
        space: the output space.
        instances: labels of the rows, see `as_instances`: whole numbers, text or dates; by default
            0, 1, ...
        made_by: version of this package, estimator, value function and their settings: plain
            numbers and strings.
        partition: of the classes, what each output compares; for log-ratio coordinates only.
        covariance: of the errors of each player's outputs, `[instances, players, outputs,
            outputs]`, where it was kept; `standard_error` is the root of its diagonal.
        degrees_of_freedom: of the standard errors, by row, `[instances]`; None where they are as
            good as known, so that normal quantiles serve.
        owners: int64 `[instances, *event]`, the player that owns each element of each row, -1 for
            padding; where rows have players of their own, and there only.

    Raises:
        ValueError: shapes, names, space or owners that do not fit together.

    >>> from manifold_shap import exact_shapley
    >>> def value(x, mask):
    ...     return (x[:, None] * mask).sum(-1, keepdim=True)
    >>> explanation = exact_shapley(value, torch.tensor([[1.0, 2.0], [3.0, 5.0]]))
    >>> explanation
    Explanation(2 instances, 2 players, model output, by 'exact')
       prediction  base  largest contributions
    0  3           0     x1 = 2: +2.00, x0 = 1: +1.00
    1  8           0     x1 = 5: +5.00, x0 = 3: +3.00
    >>> explanation[1].phi[..., 0]
    tensor([[3., 5.]])
    >>> len(explanation[explanation.prediction[:, 0] > 5])
    1
    """

    phi: Float[Tensor, "instances players outputs"]
    standard_error: Float[Tensor, "instances players outputs"]
    base: Float[Tensor, "instances outputs"]
    prediction: Float[Tensor, "instances outputs"]
    x: Any
    players: Players
    outputs: tuple[str, ...]
    space: OutputSpace = Probability()  # noqa: RUF009
    instances: tuple[Label, ...] = ()
    made_by: Mapping[str, Any] = field(default_factory=dict)
    partition: Partition | None = None
    covariance: Float[Tensor, "instances players outputs outputs"] | None = None
    owners: Int64[Tensor, "instances *event"] | None = None
    degrees_of_freedom: Float[Tensor, " instances"] | None = None
    model_error: Float[Tensor, "instances players outputs"] | None = None

    def __post_init__(self) -> None:
        labels = as_instances(self.instances) or tuple(range(len(self.phi)))
        object.__setattr__(self, "instances", labels)
        if len(labels) != len(self.phi):
            raise ValueError(
                f"Expected a label for each of {len(self.phi)} rows but got {len(labels)}."
            )
        sizes = {"instances": len(labels), "players": len(self.players)}
        sizes |= dict.fromkeys(("outputs", "outputs_too"), len(self.outputs))
        for name, rows in self._by_row().items():
            expected = [sizes[axis] for axis in storage.AXES[name]]
            expected += self.players.event if name in storage.OF_EVENTS else ()
            if [*rows.shape] != expected:
                raise ValueError(
                    f"Expected `{name}` of shape {tuple(expected)} for {len(labels)} instances, "
                    f"{len(self.players)} players and {len(self.outputs)} outputs but got "
                    f"{tuple(rows.shape)}."
                )
        if self.players.by_row != (self.owners is not None):
            raise ValueError(
                "Expected `owners` where rows have players of their own, and there only, but got "
                f"{'none' if self.owners is None else 'some'} for {self.players}."
            )
        check_partition(self.partition, self.space, self.outputs)

    # -- an array of rows -------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.phi)

    def __iter__(self) -> Iterator["Explanation"]:
        return (self[k] for k in range(len(self)))

    def __getitem__(self, rows: Any) -> "Explanation":
        """Some rows by position: a number, a slice, a mask, or a list of numbers.

        Raises:
            IndexError: no such rows, or a mask of another length.
        """
        at = positions(rows, len(self))
        labels = tuple(self.instances[k] for k in at)
        chosen: Any = {name: rows_at(each, at) for name, each in self._by_row().items()}
        return replace(self, **chosen, instances=labels)

    @property
    def loc(self) -> "_ByLabel":
        """Rows by label: `explanation.loc["Ann"]`, `explanation.loc[["Ann", "Bob"]]`."""
        return _ByLabel(self)

    def _by_row(self) -> dict[str, Any]:
        """All that has an entry for every instance, by name."""
        tensors = {name: each for name, each in vars(self).items() if isinstance(each, Tensor)}
        return {**tensors, "x": self.x}

    def with_labels(self, instances: Iterable[Any]) -> "Explanation":
        """The same explanation with these labels of rows."""
        others = {key: found for key, found in self.made_by.items() if key != "levels"}
        return replace(self, instances=as_instances(instances), made_by=others)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """`phi`, for numpy."""
        return np.array(self.phi.numpy(), dtype)

    # -- what was explained -----------------------------------------------------------------

    @property
    def data(self) -> "pd.DataFrame | None":
        """What each player was, in original units: a line for each row, a column for each player.

        A group of columns has all of them as text: "Area = 3.1, Perimeter = 7"; a player that a row
        lacks has NaN. None where players own several elements of rows that are no table, as
        superpixels do.
        """
        import pandas as pd

        from manifold_shap.tables.features import row_text

        columns = self.columns(range(len(self.players)))
        if not all(each.shape[1] for each in columns):
            return None
        single = [
            each.iloc[:, 0]
            if each.shape[1] == 1
            else pd.Series([row_text(each, k) for k in range(len(each))], dtype=object)
            for each in columns
        ]
        found = dict(zip(self.players.names, single, strict=True))
        return pd.DataFrame(found).set_axis(list(self.instances))

    def columns(self, players: Iterable[int]) -> list["pd.DataFrame"]:
        """For each of some players, by position, the columns that it owns, a line for each row.

        Those of a table have their names and original units. Elements of tensors are numbered, with
        NaN in rows that have fewer; several of rows that are no table are left out. Of players that
        own other columns in each row, such as words of texts, there is the text of all.
        """
        import pandas as pd

        from manifold_shap.tables.features import row_text

        index, x = self.players.index, self.x
        if not isinstance(x, Tensor):
            frame = pandas_columns(x)
            if not self.players.by_row:
                return [frame.iloc[:, (index == k).numpy().nonzero()[0]] for k in players]
            cells, of_texts = frame.to_numpy(), shown.has_words(self)

            def said(row: int, mine: Any) -> str | None:
                if not mine.any():
                    return None
                return "".join(cells[row, mine]) if of_texts else row_text(frame.loc[:, mine], row)

            texts = [[said(*of) for of in enumerate((self.owner == k).numpy())] for k in players]
            return [pd.DataFrame({"text": each}, dtype=object) for each in texts]
        own, x = self.owner.flatten(1), x.flatten(1)
        found = []
        for k in players:
            owned = own == k
            count = int(owned.sum(1).amax()) if len(self) else 1
            if index.ndim > 1 and count > 1:
                found.append(pd.DataFrame(index=range(len(self))))
                continue
            elements = x.new_full(
                (len(self), count), torch.nan, dtype=torch.promote_types(x.dtype, torch.float32)
            )
            elements[owned.nonzero()[:, 0], (owned.cumsum(1) - 1)[owned]] = x[owned].to(elements)
            found.append(pd.DataFrame(elements.numpy()))
        return found

    @property
    def owner(self) -> Int64[Tensor, "instances *event"]:
        """The player that owns each element of each row; -1 where none does."""
        if self.owners is None:
            return self.players.index.expand(len(self), *self.players.event)
        return self.owners

    @property
    def counts(self) -> Int64[Tensor, " instances"]:
        """How many players each row has."""
        if self.owners is None:
            return torch.full((len(self),), len(self.players))
        return self.owners.flatten(1).amax(1) + 1

    @property
    def present(self) -> Bool[Tensor, "instances players"]:
        """The players that each row has."""
        return torch.arange(len(self.players)) < self.counts[:, None]

    # -- how far it can be trusted ----------------------------------------------------------

    @property
    def efficiency_gap(self) -> float:
        """Largest |Σ phi - (prediction - base)|, relative to the largest |prediction - base|.

        The sum is over the players that a row has. It is 0 where there are no rows.
        """
        if len(self) == 0:
            return 0.0
        change = (self.prediction - self.base).double()
        total = self.phi.double().where(self.present[..., None], 0.0).sum(1)
        gap = (total - change).abs().max()
        return (gap / change.abs().max().clamp(min=torch.finfo(torch.float32).tiny)).item()

    @property
    def quality(self) -> Mapping[str, Any] | None:
        """What a `Quality` says of the value function, as plain data; None if not measured."""
        return self.made_by.get("quality")

    @property
    def audit(self) -> "Audit | None":
        """The error that `explain_rows` measured on some rows; None if it did not."""
        from manifold_shap.estimators.audit import Audit

        known = self.made_by.get("audit")
        return None if known is None else Audit.from_dict(known)

    @property
    def selected(self) -> bool:
        """Whether some outputs of the value function are not in it: `outputs` of an estimator."""
        return self.made_by.get("outputs_of", len(self.outputs)) > len(self.outputs)

    @property
    def unit(self) -> str:
        """Of `phi`, `base` and `prediction`."""
        return self.space.unit

    def interval(
        self, level: float = 0.95
    ) -> tuple[
        Float[Tensor, "instances players outputs"], Float[Tensor, "instances players outputs"]
    ]:
        """The ends of confidence intervals of `phi`.

        They hold the error of its estimation and, where there is a `model_error`, that of learning
        the value function.

        Raises:
            ValueError: `level`, the coverage, is not between 0 and 1; no standard error is known.
        """
        half = half_width(self, level)
        return self.phi - half, self.phi + half

    # -- for other packages -----------------------------------------------------------------

    def to_xarray(self) -> "xr.Dataset":
        """A labelled `xarray.Dataset`, made without loss; it shares no memory with this."""
        return storage.to_dataset(self)

    @classmethod
    def from_xarray(cls, dataset: "xr.Dataset") -> "Explanation":
        """The explanation that `to_xarray` made a dataset of; ValueError for another one."""
        return cls(**storage.fields(dataset))

    def save(self, path: str | Path) -> None:
        """Write one zarr store, which is never seen in part at a path of this machine.

        It is a folder or, where `path` ends in ".zip", one file.

        Of an object store `path` is the text of a URL: `s3://`, `gs://` or what else fsspec knows.

        Raises:
            FileExistsError: something that is not an explanation stands at `path`.
            OSError: no space or no permission; what stood at a path of this machine is left as it
                was.
        """
        storage.save(self.to_xarray(), path)

    @classmethod
    def load(cls, path: str | Path, rows: slice | None = None) -> "Explanation":
        """Read what `save` or `explain_rows` wrote.

        Args:
            path: the store, or the text of its URL.
            rows: read these only, of a store that may be larger than memory.

        Raises:
            FileNotFoundError: nothing at `path`.
            ValueError: it is damaged, not finished, or no explanation.
        """
        return cls.from_xarray(storage.load(path, rows))

    def to_frame(self, output: str | int | None = None) -> "pd.DataFrame":
        """A line per instance, with its label as index, and a column per player: `phi`.

        Players that a row lacks have NaN. What each player was, such as a word, is in `data`.

        Args:
            output: its name or position; by default all of several: columns then have an output and
                a player, so that `frame["yes"]` is what `output="yes"` gives.

        Raises:
            ValueError: no such output.
        """
        import pandas as pd

        names = pd.Index(self.players.names, name="player")
        chosen = self.outputs
        if output is not None:
            chosen = (chosen[output_position("output", output, chosen)],)
        values = {name: self.phi[..., self.outputs.index(name)].numpy() for name in chosen}
        parts = {k: pd.DataFrame(v, self.index, names, copy=True) for k, v in values.items()}
        if len(chosen) == 1:
            return parts[chosen[0]]
        return pd.concat(parts, axis=1, names=["output", "player"])

    def words(self, output: str | int | None = None) -> "pd.DataFrame":
        """Of texts, what each word adds wherever it stands, the largest mean first.

        A line per word, in small letters and without the punctuation around it, or per sentence.
        Columns are `mean`, of its Shapley values; `standard_error` of this mean, as texts vary, NaN
        where a single one has it; and `count` of its places. Of one text `explanation[0].words()`.

        Args:
            output: its name or position; by default as of `plot.bar`.

        Raises:
            ValueError: rows that are no texts which an `Explainer` has explained; no such output.
        """
        import pandas as pd

        if not shown.has_words(self):
            raise ValueError(
                "Expected texts that an `Explainer` has explained but got "
                f"{'numbers' if isinstance(self.x, Tensor) else 'a table'}; of tokens, "
                "`plot.text(vocabulary.decode(x))` shows the words."
            )
        k, cells = shown.output_of_all(self, output)[0], self.data
        words: Any = pd.DataFrame(None if cells is None else cells.to_numpy()).stack().dropna()
        found = shown.by_word(words, self.phi[None, ..., k])
        return found.droplevel(1, axis=1).rename_axis(
            index=shown.noun(self), columns=shown.quantity(self, k)
        )

    @property
    def index(self) -> "pd.Index":
        """Labels of the rows as pandas has them, to join a frame's own columns to `to_frame()`."""
        index = label_index(self.instances)
        known = index.nlevels > 1 and "levels" in self.made_by
        return index.set_names(self.made_by["levels"]) if known else index

    def to_shap(
        self,
        data: "Sequence[Any] | None" = None,
        elements: bool = False,
        output: str | int | None = None,
    ) -> "shap.Explanation":
        """A `shap.Explanation`, for the plots of shap (install `manifold_shap[shap]`).

        Its axes are `(instances, players)` for one output, which is what most of these plots draw,
        and `(instances, players, outputs)` for several.

        Args:
            data: what each player was, `[instances, players]`, such as words; by default
                `data`, with text for what is no number, or nothing where that is None.
            elements: whether every element of `x` has its share of its player's value, as
                `shap.plots.image` wants pictures, of which channels then come last.
            output: its name or position; by default the second of two classes, and all of more.

        Raises:
            ImportError: shap is not installed.
            ValueError: `data` of other rows or players, or with `elements`; no such output.
        """
        from manifold_shap.interop import shap_explanation

        return shap_explanation.to_shap(self, data, elements, output)

    def to_shapiq(self, row: int, output: str | int) -> "shapiq.InteractionValues":
        """The Shapley values of a row and an output for shapiq (`manifold_shap[shapiq]`).

        Raises:
            ImportError: shapiq is not installed.
            ValueError: no such row or output.
        """
        from manifold_shap.interop import shapiq_values

        return shapiq_values.interaction_values(self, row, output)

    # -- of log-ratios ----------------------------------------------------------------------

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes that `phi` has log-ratios of.

        Raises:
            ValueError: the output space is not `ilr`; so for all that follows here.
        """
        return self._on_simplex().classes

    @property
    def basis(self) -> Float[Tensor, "outputs classes"]:
        """Of the log-ratio coordinates: orthonormal rows that sum to zero, float64."""
        return self._on_simplex().basis

    def compositions(self) -> Float[Tensor, "instances players classes"]:
        """Shapley compositions, points of the simplex (Noé et al. 2024, Eq. 10): `ilr_inv(phi)`.

        The uniform one moves nothing; a row's compositions perturb the base to the prediction.
        Players that a row lacks have NaN.
        """
        there = self.present[..., None]
        found = simplex.ilr_inv(self.phi.where(there, 0.0), self.basis).exp()
        return found.where(there, torch.nan)

    def norms(self) -> Float[Tensor, "instances players"]:
        """How strongly each player moves the prediction, whatever the direction."""
        self._on_simplex()
        return compositions.norms(self.phi)

    def norm_errors(self) -> Float[Tensor, "instances players"]:
        """Standard errors of the norms; NaN where they are not known, see `in_basis`."""
        self._on_simplex()
        sampling = _exact_or_nan(self.standard_error)[..., 0]
        if self.covariance is not None:
            sampling = compositions.norm_errors(self.phi, self.covariance)
        if self.model_error is None:
            return sampling
        return sampling + _exact_or_nan(self.model_error)[..., 0]

    def cosines(self) -> Float[Tensor, "instances players players"]:
        """Of the angles between players' compositions; NaN for one that moves nothing."""
        self._on_simplex()
        return compositions.cosines(self.phi)

    def projections(self) -> Float[Tensor, "instances players classes"]:
        """On the class-compositions (Noé et al., Eq. 26): in favour of, or against, which class."""
        return compositions.projections(self.phi, self.basis)

    def summarize(self, instance: int = 0, most: int = 10) -> "pd.DataFrame":
        """Norms, projections and cosines of one row's players, the largest norm first.

        Columns: the `text` of words, `norm` with its `standard_error`, `on <class>` for the
        projection on each class-composition, `cosine with <player>` (Noé et al. 2024, Section 6.3).

        Args:
            instance: position of the row.
            most: players to list.
        """
        import pandas as pd

        row = self[instance]
        words: Any = row.data
        size, errors, by_class, angles = (
            part[0] for part in (row.norms(), row.norm_errors(), row.projections(), row.cosines())
        )
        names, largest = row.players.names, size.argsort(descending=True, stable=True)
        order = largest[row.present[0, largest]][:most].tolist()
        columns = {
            **({"text": words.iloc[0].to_numpy()} if shown.has_words(row) else {}),
            "norm": size,
            "standard_error": errors,
            **{f"on {name}": by_class[:, k] for k, name in enumerate(row.classes)},
            **{f"cosine with {names[k]}": angles[:, k] for k in order},
        }
        frame = pd.DataFrame({name: np.asarray(column) for name, column in columns.items()})
        return frame.set_axis(list(names)).iloc[order].rename_axis("players")

    def in_basis(self, partition: Partition | Tree) -> "Explanation":
        """The same explanation in the log-ratio coordinates of another partition of the classes.

        A rotation: compositions, norms and angles stay what they are. Standard errors stay known
        where they are zero, or where `covariance` is; a `model_error` where it is zero: put
        explanations into the basis before `with_learning_error`. An audit, which is of the
        coordinates that were, is left behind.

        Args:
            partition: a `Partition`, or nested pairs of class names such as `[["a", "b"], "c"]`.

        Raises:
            ValueError: the output space is not `ilr`, or these are other classes.
        """
        own = self._on_simplex()
        if not isinstance(partition, Partition):
            partition = Partition.of_tree(partition, own.classes)
        partition = partition.aligned(own.classes)
        if partition == own:
            return self
        turn = own.rotation(partition).to(self.phi)
        covariance, errors = self.covariance, _exact_or_nan(self.standard_error)
        if covariance is not None:
            covariance = turn @ covariance @ turn.T
            errors = covariance.diagonal(dim1=-2, dim2=-1).clamp(min=0).sqrt()
        return replace(
            self,
            phi=self.phi @ turn.T,
            standard_error=errors,
            covariance=covariance,
            model_error=None if self.model_error is None else _exact_or_nan(self.model_error),
            made_by={name: each for name, each in self.made_by.items() if name != "audit"},
            base=self.base @ turn.T,
            prediction=self.prediction @ turn.T,
            outputs=partition.names,
            partition=partition,
        )

    def _on_simplex(self) -> Partition:
        if self.partition is None:
            raise ValueError(
                "Expected an explanation with space='ilr' but this one is in "
                f"{self.space.name!r}; make the value function with space='ilr'."
            )
        return self.partition

    @property
    def plot(self) -> "Plots":
        """Its plots, such as `.waterfall(0)` and `.text(tokens)`; see `manifold_shap.plots`."""
        from manifold_shap.plots import Plots

        return Plots(self)

    def report(
        self,
        path: str | Path,
        *,
        title: str | None = None,
        tokens: Sequence[Sequence[str]] | None = None,
        images: Any = None,
        series: Any = None,
        global_values: "GlobalValues | None" = None,
        interactions: "Interactions | None" = None,
    ) -> None:
        """Write one HTML file for people who would rather look than read.

        It needs no other file and no internet. It has the model and the quality of the value
        function, all rows together, a table of rows to choose from, the values and errors of each,
        and how it was made. Of many rows or outputs some are shown, and the page says so; it is 3
        MB at most, unless a single row takes more.

            explanation.report("report.html", global_values=ms.global_values(explanation, y))

        Args:
            path: of the file, which ends in ".html"; of an object store the text of its URL.
            title: of the page; by default what is explained.
            tokens: of rows that are texts, as of `plots.text`, such as
                `vocabulary.decode(explanation.x)`.
            images: what to show of rows that are pictures, as of `plots.pixel_maps`. Rows of shape
                (channels, height, width) are shown themselves without it; rows of shape (height,
                width) are taken for pictures only with it.
            series: what to show of rows that are series: as many rows of the same shape, such as
                `x * std + mean`, or their channels by name, `{"pressure": x[:, 0], ...}`. Rows of
                shape (channels, time) are shown themselves without it if players are segments of
                time or channels; others are taken for series only with it.
            global_values: of these players, see `manifold_shap.global_values`.
            interactions: of the same rows, players and outputs.

        Raises:
            ImportError: jinja2 is not installed (`manifold_shap[report]`).
            TypeError: `global_values`, `interactions`, `tokens` or `series` are something else.
            ValueError: no rows; another ending of `path`; tokens, images, series or interactions
                of other rows or players.
            OSError: no space or no permission; what stood at `path` is left as it was.
        """
        from manifold_shap.report import write

        write(
            self, path, title=title, tokens=tokens, images=images, series=series,
            global_values=global_values, interactions=interactions,
        )  # fmt: skip

    # -- in few lines -----------------------------------------------------------------------

    def __repr__(self) -> str:
        table, notes = self._printed()
        columns = [["", *table.index], *([name, *table[name]] for name in table)]
        padded = [[cell.ljust(max(map(len, column))) for cell in column] for column in columns]
        lines = (
            ["  ".join(cells).rstrip() for cells in zip(*padded, strict=True)] if len(self) else []
        )
        return "\n".join([self._title, *lines, *notes])

    def _repr_html_(self) -> str:
        table, notes = self._printed()
        words = "".join(f"<p>{escape(line)}</p>" for line in notes)
        rows = table.to_html() if len(self) else ""
        return f"<div><p>{escape(self._title)}</p>{rows}{words}</div>"

    @property
    def _title(self) -> str:
        made = self.made_by.get("estimator", "unknown estimator")
        if isinstance(made, Mapping):
            # By how many players rows have.
            made = ", ".join(dict.fromkeys(made.values()))
        counts = self.counts.unique().tolist() or [len(self.players)]
        some = f"{counts[0]} to " * (len(counts) > 1) + shown.count(counts[-1], "player")
        return (
            f"Explanation({shown.count(len(self), 'instance')}, {some}, "
            f"{self.space.named(self.outputs)}, by {made!r})"
        )

    def _printed(self) -> "tuple[pd.DataFrame, list[str]]":
        """The first rows as text, and notes below them."""
        import pandas as pd

        from manifold_shap.tables.features import as_text

        some = self[:_ROWS]
        at = list(enumerate(shown.outputs_of_rows(some).tolist()))
        lines = {
            "output": [self.outputs[k] for _, k in at],
            "prediction": [shown.amount(some, some.prediction[place].item()) for place in at],
            "base": [shown.amount(some, some.base[place].item()) for place in at],
            "largest contributions": some._contributions(at),
        }
        if len(self.outputs) == 1:
            del lines["output"]
        left, notes = len(self) - _ROWS, [] if len(self) else ["no rows"]
        if left > 0:
            notes.append(f"and {left} more row{'s' if left > 1 else ''}")
        if base := shown.base_of(self):
            notes.append(f"base: of {base}")
        errors = total_error(self)[self.present].flatten()
        notes += filter(None, [shown.of_errors([self], errors, "± is one standard error")])
        if words := in_words(self.quality or {}, self.unit) or shown.unmeasured(self.made_by):
            of = self.made_by.get("value_function")
            notes.append(f"{of!r} {words}")
        if warning := (self.quality or {}).get("warning"):
            notes.append(f"Caution: {warning}")
        return pd.DataFrame(lines, index=list(map(as_text, some.instances))), notes

    def _contributions(self, places: Sequence[tuple[int, int]]) -> list[str]:
        """The largest of an output of each row: "age = 70: +0.31 ± 0.020, height = 2: −0.10"."""
        errors, found = total_error(self), []
        for row, k in places:
            phi, parts = self.phi[row, :, k], []
            largest = phi.abs().nan_to_num(-1).argsort(descending=True, stable=True)
            largest = largest[torch.isfinite(phi[largest])][:_PLAYERS]
            numbers = shown.signed(phi[largest].tolist())
            names = shown.players_with_values(self, row, largest.tolist())
            for player, name, plain in zip(largest.tolist(), names, numbers, strict=True):
                number = shown.with_error(phi[player].item(), errors[row, player, k].item(), "+")
                parts.append(f"{name}: {number if '±' in number else plain}")
            found.append(", ".join(parts))
        return found


class _ByLabel:
    """Rows of an explanation by their labels; see `Explanation.loc`."""

    def __init__(self, explanation: Explanation) -> None:
        self.explanation = explanation

    def __getitem__(self, label: Any) -> Explanation:
        """One or several, as `.loc` of pandas; KeyError where there is no such label."""
        import pandas as pd

        labels = list(self.explanation.instances)
        return self.explanation[pd.Series(range(len(labels)), labels).loc[label]]


def check_explanation(explanation: Any) -> None:
    """Raise TypeError where something else is passed."""
    if not isinstance(explanation, Explanation):
        raise TypeError(
            "Expected an explanation, as of `explainer(frame)` or `ms.auto_shapley(value, x)`, but "
            f"got {type(explanation).__name__}."
        )


def positions(rows: Any, count: int) -> list[int]:
    """Rows among so many: a number, a slice, a mask, or numbers, in any form that numpy takes.

    >>> positions(-1, 3), positions([True, False, True], 3), positions(torch.tensor([2, 0]), 3)
    ([2], [0, 2], [2, 0])

    Raises:
        IndexError: no such rows, or a mask of another length.
    """
    given = rows
    if not isinstance(rows, slice | tuple):
        rows = np.atleast_1d(rows.cpu().numpy() if isinstance(rows, Tensor) else np.asarray(rows))
        rows = rows if rows.size else rows.astype(np.int64)
    if isinstance(rows, tuple) or (isinstance(rows, np.ndarray) and rows.dtype.kind not in "biu"):
        raise IndexError(
            f"Expected positions of rows, such as `[0]`, `[:5]` or `[mask]`, but got {given!r:.100}"
            "; `.loc[label]` has rows by label, and `.phi[row, player, output]` single values."
        )
    return np.arange(count)[rows].tolist()


def _exact_or_nan(
    error: Float[Tensor, "instances players outputs"],
) -> Float[Tensor, "instances players outputs"]:
    """Errors in other coordinates, where the covariance between those that were is not known."""
    exact = (error == 0).all(-1, keepdim=True)
    return torch.where(exact, 0.0, torch.nan).to(error).expand_as(error).clone()


def wide_frame(explanation: Explanation) -> "pd.DataFrame":
    """A line per instance, with all that is known of it in columns of numbers (float64).

    Columns are `prediction`, `base`, then `phi_<player>` and `standard_error_<player>` for every
    player and, where it is known, `model_error_<player>`. Several outputs have columns of their
    own: `prediction_<output>`, `base_<output>`, `phi_<output>_<player>` and so on. Players that a
    row lacks have NaN.

    Raises:
        TypeError: something else than an explanation.
        ValueError: names of outputs and players that make the same column twice.

    >>> from manifold_shap import exact_shapley
    >>> def value(x, mask):
    ...     return (x[:, None] * mask).sum(-1, keepdim=True)
    >>> wide_frame(exact_shapley(value, torch.tensor([[1.0, 2.0]]))).loc[0].to_dict()
    {'prediction': 3.0, 'base': 0.0, 'phi_x0': 1.0, 'phi_x1': 2.0, ...}
    """
    import pandas as pd

    check_explanation(explanation)
    players, outputs = explanation.players.names, explanation.outputs
    of = [f"_{output}" for output in outputs] if len(outputs) > 1 else [""]
    names, columns = list[str](), list[Tensor]()
    for measure in ("prediction", "base", "phi", "standard_error", "model_error"):
        numbers = getattr(explanation, measure)
        if numbers is not None:
            ends = [f"_{name}" for name in players] if numbers.ndim == 3 else [""]
            names += map("".join, product([measure], of, ends))
            columns.append(numbers.movedim(1, -1).flatten(1))
    check_distinct(names, "names of columns, of outputs and players,", "rename some of them")
    values = torch.cat([own.double() for own in columns], 1).numpy()
    return pd.DataFrame(values, explanation.index, names)
