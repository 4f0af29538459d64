"""Defines what sources of pictures share: their players, their figures and their superpixels."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from manifold_shap._checks import check_whole
from manifold_shap.data import figures
from manifold_shap.data.base import Grouping, Settings, TensorDataModule
from manifold_shap.explanation import Explanation
from manifold_shap.players import Players
from manifold_shap.segmentation import superpixels

# Superpixels of a picture, at most.
_SEGMENTS = 50


class PictureSettings(Settings, total=False):
    """The arguments that every source of pictures takes besides its own; see `Pictures`."""

    patch: int | None


class Pictures(TensorDataModule):
    """Pictures `[rows, channels, height, width]`, whose players are pixels or patches of them."""

    def __init__(self, *, patch: int | None = None, **settings: Unpack[Settings]) -> None:
        """As the base, and:

        Args:
            patch: side of the squares of pixels that are players; by default every pixel is one.

        Raises:
            TypeError, ValueError: a `patch` that is no whole number of at least 1.
        """
        super().__init__(**settings)
        self.patch = None if patch is None else check_whole("patch", patch)

    def players_of(self, event: Sequence[int]) -> Players:
        """The players of pictures of this shape, with the channels of a pixel together."""
        return Players.pixels(event) if self.patch is None else Players.patches(event, self.patch)

    def figures(
        self, explanations: Mapping[str, Explanation], main: str, notes: Mapping[str, str]
    ) -> dict[str, Any]:
        return figures.of_pictures(explanations, notes)

    @property
    def groupings(self) -> Mapping[str, Grouping]:
        return {"superpixels": lambda: (superpixels(_SEGMENTS), _SEGMENTS)}
