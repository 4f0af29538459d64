"""Shows an explanation: as text, in a notebook, by its plots, and as a report."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from torch import Tensor

from manifold_shap._messages import named_outputs
from manifold_shap.players import Players
from manifold_shap.spaces import OutputSpace

if TYPE_CHECKING:
    from manifold_shap.explanation import Explanation
    from manifold_shap.global_values import GlobalValues
    from manifold_shap.interactions import Interactions
    from manifold_shap.plots.accessor import Plots


class Displayed:
    """What an explanation shows of itself.

    Attributes:
        phi, players, outputs, space, made_by: see `Explanation`.
    """

    phi: Tensor
    players: Players
    outputs: tuple[str, ...]
    space: OutputSpace
    made_by: Mapping[str, Any]

    @property
    def plot(self) -> "Plots":
        """Its plots, such as `.waterfall(0)` and `.text(tokens)`; see `manifold_shap.plots`."""
        from manifold_shap.plots.accessor import Plots

        return Plots(self._whole)

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
            ValueError: no rows; another ending of `path`; more than one of tokens, images
                and series; any of these, global values or interactions of other rows or players.
            OSError: no space or no permission; what stood at `path` is left as it was.
        """
        from manifold_shap.report import write

        write(
            self._whole, path, title=title, tokens=tokens, images=images, series=series,
            global_values=global_values, interactions=interactions,
        )  # fmt: skip

    def __repr__(self) -> str:
        from manifold_shap import summary

        return summary.text(self._whole, self._title)

    def _repr_html_(self) -> str:
        from manifold_shap import summary

        return summary.html(self._whole, self._title)

    @property
    def _whole(self) -> "Explanation":
        """The explanation that this is: it has no other subclass."""
        return cast("Explanation", self)

    @property
    def _title(self) -> str:
        made = self.made_by.get("estimator", "unknown estimator")
        return (
            f"Explanation({len(self.phi)} instances, {len(self.players)} players, "
            f"{named_outputs(self.outputs)} in {self.space.name!r}, by {made!r})"
        )
