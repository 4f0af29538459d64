"""Draws all rows together for a page: bars, swarms and interactions as SVG, and words in lines."""

import base64
import io
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from matplotlib import rc_context
from matplotlib.collections import PathCollection

from manifold_shap.explanation import Explanation
from manifold_shap.plots import style
from manifold_shap.plots.bar import bar
from manifold_shap.plots.beeswarm import beeswarm
from manifold_shap.report.rows import Rows, short

# Rows of a swarm; more points hide each other.
_POINTS = 300
_WORDS = 12
# Text stays text, and the same figure is the same file.
_SVG: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "manifold_shap"}


def of_output(explanation: Explanation, order: Sequence[int], output: int) -> dict[str, str]:
    """Bars of mean sizes over all rows, and a swarm of some rows, for one output, as `data:` URLs.

    Both are empty where no value is known, and the swarm where there is a single row.

    Args:
        explanation: of all rows.
        order: positions of the rows of the swarm; it has the first of them, where all are too many.
        output: its position.
    """
    known = explanation.phi.isfinite()
    if not bool(known[..., output].any()):
        return {"bars": "", "swarm": ""}
    explanation = replace(explanation, phi=explanation.phi.where(known, torch.nan))
    some = explanation[sorted(order[:_POINTS])]
    several = len(some.phi) > 1 and bool(some.phi[..., output].isfinite().any())
    return {
        "bars": drawn(bar(explanation, output=output)),
        "swarm": drawn(beeswarm(some, output=output)) if several else "",
    }


def drawn(axes: Any) -> str:
    """A figure as SVG, in a `data:` URL."""
    figure, file = axes.figure, io.BytesIO()
    for points in figure.findobj(PathCollection):
        # Thousands of points are small as pixels, and large as text.
        points.set_rasterized(True)
    with rc_context(_SVG):
        figure.savefig(file, format="svg", metadata={"Date": None})
    return f"data:image/svg+xml;base64,{base64.b64encode(file.getvalue()).decode()}"


def of_words(found: Rows, output: int) -> list[dict[str, Any]]:
    """Words with the largest mean values for an output, over where they occur in some texts."""
    values: dict[str, list[float]] = defaultdict(list)
    for row in found.data:
        of = next((each for each in row["outputs"] if each["output"] == output), None)
        phi = {} if of is None else {step[0]: step[1] for step in of["steps"]}
        owned: dict[int, list[str]] = defaultdict(list)
        for _, text, player in row["words"]:
            owned[player].append(text)
        for player, texts in owned.items():
            if len(texts) == 1 and player in phi and any(map(str.isalnum, texts[0])):
                values[texts[0].lower()].append(phi[player])
    # Of a word that occurs once, little is known.
    often = {word: own for word, own in values.items() if len(own) > 1}
    means = {word: float(np.mean(own)) for word, own in (often or values).items()}
    largest = sorted(means, key=lambda word: (-abs(means[word]), word))[:_WORDS]
    reach = max((abs(means[word]) for word in largest), default=0.0) or 1.0
    numbers = style.signed([means[word] for word in largest])
    return [
        {
            "name": short(word),
            "count": len(values[word]),
            "said": said,
            "raises": means[word] >= 0,
            "width": f"{100 * abs(means[word]) / reach:.2f}",
        }
        for word, said in zip(largest, numbers, strict=True)
    ]
