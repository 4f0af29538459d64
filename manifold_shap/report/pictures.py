"""Draws pictures and maps of their Shapley values as images for a page."""

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from manifold_shap.explanation import Explanation
from manifold_shap.plots import style
from manifold_shap.plots.pixels import images_of, maps_of

# Pixels of the longer side; small pictures are enlarged by the browser.
_LARGEST = 144
# Of a map: few colours make small files, and eyes tell no more apart.
_SHADES = 64
_PHOTO = 64


def are_pictures(explanation: Explanation, images: Any) -> bool:
    """Whether rows are pictures: (channels, height, width), or anything with `images`."""
    event = explanation.players.event
    if images is not None:
        return True
    return (
        isinstance(explanation.x, Tensor)
        and len(event) == 3
        and event[0] in (1, 3, 4)
        and min(event[1:]) > 1
    )


def of_rows(explanation: Explanation, rows: Sequence[int], images: Any) -> list[str]:
    """The pictures of rows, by position, as `data:` URLs."""
    drawn = images_of(explanation.x, images, list(rows))
    return [_url(Image.fromarray((255 * each).round().astype(np.uint8))) for each in drawn]


def maps(
    explanation: Explanation, rows: Sequence[int], outputs: Sequence[Sequence[int]]
) -> tuple[list[list[str]], float]:
    """Maps of some outputs of each row as `data:` URLs, on one scale, and the end of that scale.

    Half a percent of the pixels may lie beyond it, as in `plots.pixel_maps`.
    """
    values = maps_of(explanation, list(rows), torch.tensor(outputs)).numpy()
    limit = float(np.quantile(np.abs(values), 0.995)) or float(np.abs(values).max()) or 1.0
    return [[map_url(each / limit) for each in row] for row in values], limit


def mean_map(explanation: Explanation, rows: Sequence[int], output: int) -> str:
    """The mean size of the values of each pixel over some rows, as a `data:` URL."""
    chosen = torch.full((len(rows), 1), output)
    mean = maps_of(explanation, list(rows), chosen).abs().mean((0, 1)).numpy()
    return map_url(mean / (float(mean.max()) or 1.0))


def map_url(shares: Float[np.ndarray, "height width"], largest: int = _LARGEST) -> str:
    """A map of numbers from -1 to 1 in colours, as a `data:` URL."""
    shades = ((shares.clip(-1, 1) + 1) / 2 * _SHADES).round().astype(np.uint8)
    image = Image.fromarray(shades, mode="P")
    colours = style.DIVERGING(np.linspace(0, 1, _SHADES + 1))[:, :3]
    image.putpalette((255 * colours).round().astype(np.uint8).flatten().tolist())
    return _url(image, largest)


def _url(image: Image.Image, largest: int = _LARGEST) -> str:
    """A photo as JPEG, anything small or of few colours as PNG."""
    if max(image.size) > largest:
        scale = largest / max(image.size)
        width, height = (max(1, round(scale * side)) for side in image.size)
        smooth = image.mode != "P"
        how = Image.Resampling.LANCZOS if smooth else Image.Resampling.NEAREST
        image = image.resize((width, height), how)
    file = io.BytesIO()
    kind = "jpeg" if max(image.size) > _PHOTO and image.mode in ("L", "RGB") else "png"
    image.save(file, kind, quality=85, optimize=True)
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}"
