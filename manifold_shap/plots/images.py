"""Shows images beside and under their maps, and finds the borders of what owns their pixels."""

from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from matplotlib.axes import Axes
from torch import Tensor

from manifold_shap._checks import to_tensor

_CHANNELS = (1, 3, 4)
# Of red, green and blue in brightness (ITU-R BT.601).
_BRIGHTNESS = np.array([0.299, 0.587, 0.114])
_BLACK_TO_WHITE: dict[str, Any] = {"cmap": "gray", "vmin": 0, "vmax": 1}
# Pixels, of the longer side.
_LARGEST_OUTLINED = 64


class Image(NamedTuple):
    """An image as matplotlib draws it.

    Attributes:
        pixels: grey values, or red, green, blue and perhaps opacity from 0 to 1 on the last axis.
        look: what grey values mean.
    """

    pixels: Float[np.ndarray, "height width *colours"]
    look: dict[str, Any]

    def draw(self, axes: Axes) -> None:
        axes.imshow(self.pixels, **self.look)

    def draw_pale(self, axes: Axes, opacity: float) -> None:
        """In pale grey over what stands there: its colours would be taken for those of a map."""
        bright, look = self.pixels, self.look
        if bright.ndim == 3:
            bright, look = bright[..., :3] @ _BRIGHTNESS, _BLACK_TO_WHITE
        span = (look["vmax"] - look["vmin"]) / 2
        # Beyond the data, towards black.
        end = "vmin" if look["cmap"] == "gray" else "vmax"
        pale = {**look, end: look[end] + (span if end == "vmax" else -span)}
        axes.imshow(bright, **pale, alpha=opacity)


def images_of(x: Tensor, images: Any, rows: list[int]) -> list[Image]:
    """Of some rows of `x`, or in their place of `images`; see `pixel_maps`."""
    if images is None:
        _check_channels(x, "rows", "; give `images` to show instead of them")
        return [_stretched(_channels(x[row])) for row in rows]
    bytes_ = isinstance(images, Tensor | np.ndarray) and images.dtype in (torch.uint8, np.uint8)
    given = to_tensor(images, "images") / (255 if bytes_ else 1)
    _check_channels(given, "`images`", "")
    if len(given) != len(x) or given.shape[-2:] != x.shape[-2:]:
        raise ValueError(
            f"Expected `images` for {len(x)} rows, of {x.shape[-2]} x {x.shape[-1]} pixels as "
            f"these, but got shape {tuple(given.shape)}."
        )
    if not (given >= 0).all() or not (given <= 1).all():
        raise ValueError(
            f"Expected `images` of numbers from 0 to 1, or of bytes, but got {given.min():.3g} to "
            f"{given.max():.3g}; undo their standardisation by `x * std + mean`."
        )
    return [_as_is(_channels(given[row])) for row in rows]


def _check_channels(images: Tensor, what: str, fix: str) -> None:
    channels = images.shape[1] if images.ndim == 4 else 1
    if images.ndim not in (3, 4) or channels not in _CHANNELS:
        raise ValueError(
            f"Expected {what} of 1, 3 or 4 channels, [rows, channels, height, width], but got "
            f"shape {tuple(images.shape)}{fix}."
        )


def _channels(image: Tensor) -> Float[np.ndarray, "channels height width"]:
    return image.reshape(-1, *image.shape[-2:]).numpy()


def _as_is(image: Float[np.ndarray, "channels height width"]) -> Image:
    if len(image) == 1:
        return Image(image[0], _BLACK_TO_WHITE)
    return Image(image.transpose(1, 2, 0), {})


def _stretched(image: Float[np.ndarray, "channels height width"]) -> Image:
    if len(image) == 1:
        # Ink on paper, as in print, whatever the data's own scale.
        low, high = float(image.min()), float(image.max())
        return Image(image[0], {"cmap": "gray_r", "vmin": low, "vmax": max(high, low + 1e-6)})
    colours = image[:3]
    low, high = min(colours.min(), 0), max(colours.max(), 1)
    if (low, high) != (0, 1):
        low, high = colours.min(), colours.max()
    opacity = image[3:].clip(0, 1)
    return _as_is(np.concatenate(((colours - low) / max(high - low, 1e-12), opacity)))


def borders(owners: Int64[np.ndarray, "*channels height width"]) -> np.ndarray:
    """Edges between pixels of different players, of which one has several pixels at least."""
    layers = owners.reshape(-1, *owners.shape[-2:])
    several = owns_several(layers)
    upright = layers[..., 1:] != layers[..., :-1]
    level = layers[:, 1:] != layers[:, :-1]
    return _edges(
        (upright & (several[..., 1:] | several[..., :-1])).any(0),
        (level & (several[:, 1:] | several[:, :-1])).any(0),
    )


def owns_several(
    owners: Int64[np.ndarray, "channels height width"],
) -> Bool[np.ndarray, "channels height width"]:
    """Of each element, whether its player has others at other places, be it in any channel."""
    size = owners[0].size
    place = np.broadcast_to(np.arange(size).reshape(owners.shape[1:]), owners.shape)
    taken = np.unique((owners * size + place)[owners >= 0])
    # Nobody, -1, has none.
    return np.append(np.bincount(taken // size) > 1, False)[owners]


def outline(image: Float[np.ndarray, "*channels height width"]) -> np.ndarray:
    """Edges between pixels above and below half of the range of a small image with one channel.

    The texture of a colour image, or of a large one, would hide the map.
    """
    if (image.ndim == 3 and len(image) > 1) or max(image.shape[-2:]) > _LARGEST_OUTLINED:
        return np.empty((0, 2, 2))
    grey = image.reshape(image.shape[-2:])
    ink = grey > (grey.min() + grey.max()) / 2
    return _edges(ink[:, 1:] != ink[:, :-1], ink[1:] != ink[:-1])


def _edges(
    upright: Bool[np.ndarray, "height fewer"], level: Bool[np.ndarray, "less width"]
) -> Float[np.ndarray, "edges 2 2"]:
    """Lines to the right of some pixels, and below others; their ends as (x, y)."""
    # An edge is half a pixel away from the middles of the two pixels that it parts.
    return np.concatenate(
        (
            np.argwhere(upright)[:, None, ::-1] + [[0.5, -0.5], [0.5, 0.5]],
            np.argwhere(level)[:, None, ::-1] + [[-0.5, 0.5], [0.5, 0.5]],
        )
    )
