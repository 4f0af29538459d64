"""Makes figures and pictures parts of a page."""

import io
import re
import warnings
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib import get_backend
from matplotlib import pyplot as plt
from matplotlib.collections import PathCollection

from manifold_shap.plots import canvas

# Stand for the colours of the page, light or dark.
_INK, _GROUND = "#010203", "#fcfdfe"
# In the size that columns of text have; text stays text, and the same figure is the same text.
_SETTINGS: dict[str, Any] = {
    **dict.fromkeys(("text.color", "axes.labelcolor", "ytick.labelcolor"), _INK),
    "axes.facecolor": _GROUND,
    "figure.figsize": (5.4, 4.0),
    "font.size": 9.0,
    "font.sans-serif": ["DejaVu Sans"],
    "savefig.transparent": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "manifold_shap",
}


def svg(draw: Callable[[], Any]) -> str:
    """What a plot draws, as a part of the page, in its colours."""
    file = io.StringIO()
    # With the first figure, pyplot chooses its backend and what is interactive: for good.
    get_backend()
    # Neither in the caller's look nor in a window.
    with plt.style.context(["default", _SETTINGS]), plt.ioff(), warnings.catch_warnings():
        # Of characters that matplotlib has no letters for: browsers have fonts.
        warnings.filterwarnings("ignore", "Glyph")
        figure = draw().figure
        for points in figure.findobj(PathCollection):
            # Thousands of points are small as pixels, and large as text.
            points.set_rasterized(True)
        figure.savefig(file, format="svg", metadata={"Date": None})
        plt.close(figure)
    text = file.getvalue()
    text = re.sub(r'<g id="[^"]*"', "<g", text[text.index("<svg") :])
    return text.replace(_INK, "currentColor").replace(_GROUND, "var(--ground)")


def picture(pixels: Float[np.ndarray, "height width *colours"], limit: float | None = None) -> str:
    """A picture, or a map of values in colours up to this limit, as a `data:` URL."""
    file = io.BytesIO()
    low, high, cmap = (0.0, 1.0, "gray") if limit is None else (-limit, limit, canvas.DIVERGING)
    plt.imsave(file, pixels, vmin=low, vmax=high, cmap=cmap, format="png")
    return f"data:image/png;base64,{b64encode(file.getvalue()).decode()}"
