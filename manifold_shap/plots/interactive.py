"""Draws the path from base to prediction in log-ratios with plotly, to turn and to hover over."""

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from manifold_shap.explanation import Explanation
from manifold_shap.plots import arrows, style
from manifold_shap.plots.colours import LIGHT, current
from manifold_shap.plots.ilr import angles, rays, towards, walls
from manifold_shap.plots.path import View
from manifold_shap.plots.titles import cautions, notes

if TYPE_CHECKING:
    import plotly.graph_objects as go

# Points.
_NAME = 300.0
# Along an arrow: a pointer finds only the points of a line.
_ALONG = np.linspace(0, 1, 21)
# Parts of a composition that are listed.
_PARTS = 12


def interactive(
    explanation: Explanation,
    row: int = 0,
    balances: Sequence[int | str] | None = None,
    most: int = 8,
) -> "go.Figure":
    """Draws the arrows of `ilr_plane` or `ilr_space` with plotly, to turn and to hover over.

    Hovering over an arrow shows a feature and its value, the norm of its Shapley composition and
    the composition. Needs `manifold_shap[plotly]`.

        >>> import torch
        >>> import manifold_shap as ms
        >>> x = 2 * torch.eye(3)
        >>> value = ms.imputed_value(lambda x: x.softmax(1), ms.MarginalImputer(x), "ilr", draws=2)
        >>> figure = ms.plots.interactive(ms.exact_shapley(value, x))
        >>> figure.layout.xaxis.title.text
        'log-ratio 0 : 1'

    Args:
        explanation: in the space `ilr`, of three classes or more.
        row: position of the row.
        balances: two or three for the axes, by number as `str(explanation.partition)` counts them,
            from 1, or by name; by default the first two of three classes and the first three of
            more.
        most: features to show; the rest is one arrow.

    Raises:
        ImportError: plotly is not installed.
        ValueError: as `ilr_plane`.
    """
    try:
        import plotly.graph_objects as go
    except ImportError as error:
        raise ImportError(
            "plots.interactive needs the package plotly: pip install 'manifold_shap[plotly]'."
        ) from error
    if balances is None:
        balances = (1, 2, 3)[: max(2, min(3, len(explanation.classes) - 1))]
    axes = 3 if len(balances) == 3 else 2
    view = View.on_balances(explanation, row, balances, most, axes)
    # With room for text, which the axes would cut off.
    box = view.box(0.16)
    figure = go.Figure()
    if view.is_whole:
        _add_walls(figure, view, box)
    _add_classes(figure, view)
    _add_steps(figure, view)
    for name, place, parts, symbol in (
        ("base", view.points[0], view.states[0], "circle-open"),
        ("prediction", view.points[-1], view.prediction, "circle"),
    ):
        trace = _trace(
            place[None],
            mode="markers+text",
            marker={"color": style.INK, "symbol": symbol, "size": 9 if axes == 2 else 4},
            text=[name],
            textposition="bottom center",
            hovertext=_described(view, name, "probabilities", parts),
        )
        figure.add_trace(trace)
    _lay_out(figure, view, box)
    return figure


def _add_walls(figure: "go.Figure", view: View, box: Float[np.ndarray, "2 axes"]) -> None:
    flat = len(view.balances) == 2
    # Equal units widen the axes of a plane, which cut off what is beyond them.
    for ray in rays(view, 10 * box if flat else box):
        line = {"color": style.NEUTRAL, "dash": "dash", "width": 1.5}
        figure.add_trace(_trace(ray, mode="lines", line=line, hoverinfo="skip"))
    for wall in [] if flat else walls(view, box):
        # Triangles that share a corner: walls are convex.
        last = np.arange(2, len(wall))
        place = {**dict(zip("xyz", wall.T, strict=True)), "i": 0 * last, "j": last - 1, "k": last}
        figure.add_mesh3d(**place, color=style.NEUTRAL, opacity=0.12, hoverinfo="skip")


def _add_classes(figure: "go.Figure", view: View) -> None:
    flat = len(view.balances) == 2
    for number, (members, vector) in enumerate(view.class_vectors()):
        colour = {"color": arrows.class_colour(number)}
        trace = _trace(
            view.magnification * np.stack((np.zeros_like(vector), vector)),
            mode="lines+markers+text",
            line={**colour, "dash": "dash", "width": 3 if flat else 6},
            marker={**colour, "size": [0, 7 if flat else 3]},
            text=["", _plain(view.class_label(members, 80.0))],
            textposition="bottom center" if flat and vector[1] < 0 else "top center",
            textfont=colour,
            hovertext=f"class-composition of {_plain(view.class_label(members, _NAME))}",
        )
        figure.add_trace(trace)


def _add_steps(figure: "go.Figure", view: View) -> None:
    head = 0.04 * np.ptp(view.segments, axis=(0, 1)).max()
    norms = zip(view.phi.norm(dim=1).tolist(), view.norm_errors.tolist(), strict=True)
    described = zip(view.labels(_NAME), norms, view.compositions, strict=True)
    for number, (name, norm, parts) in enumerate(described):
        start, end = view.points[number : number + 2]
        colour = style.NEUTRAL if number == len(view.shown) else style.INK
        texts = [""] * len(_ALONG)
        texts[len(_ALONG) // 2] = str(number + 1)
        line = _trace(
            start + _ALONG[:, None] * (end - start),
            mode="lines+text",
            name=f"{number + 1}: {_plain(name)}",
            showlegend=True,
            line={"color": colour, "width": 2 if len(start) == 2 else 5},
            text=texts,
            textposition="top center",
            hovertext=_described(view, name, f"norm {style.with_error(*norm)}", parts),
        )
        for trace in (line, *_heads(start, end, head, colour)):
            figure.add_trace({**trace, "legendgroup": str(number)})


def _heads(
    start: Float[np.ndarray, " axes"], end: Float[np.ndarray, " axes"], size: float, colour: str
) -> list[dict[str, Any]]:
    """The head of an arrow of any length: a marker in two dimensions, a cone in three."""
    length = np.linalg.norm(end - start)
    if length == 0:
        return []
    if len(start) == 2:
        marker = {"symbol": "arrow", "angleref": "previous", "size": [0, 11], "color": colour}
        return [_trace(np.stack((start, end)), mode="markers", marker=marker, hoverinfo="skip")]
    along = min(size, 0.6 * length) * (end - start) / length
    cone = {"type": "cone", "anchor": "tip", "sizemode": "raw", "showscale": False}
    place = dict(zip("xyzuvw", (*end[:, None], *along[:, None]), strict=True))
    return [{**cone, **place, "colorscale": [[0, colour], [1, colour]], "hoverinfo": "skip"}]


def _lay_out(figure: "go.Figure", view: View, box: Float[np.ndarray, "2 axes"]) -> None:
    titles = [_plain(title) for title in view.axis_labels(150.0)]
    lines = [*view.headline(), *cautions({"": view.explanation}), *notes({"": view.explanation})]
    first, *others = map(_plain, lines)
    heading = f"{first}<br><sup>{'; '.join(others)}</sup>"
    margins = {"l": 20, "r": 20, "t": 80, "b": 20}
    figure.update_layout(**_ground(), title=heading, height=600, margin=margins)
    if len(titles) == 2:
        figure.update_xaxes(title=titles[0], range=box[:, 0])
        figure.update_yaxes(title=titles[1], range=box[:, 1], scaleanchor="x")
        return
    axes = {
        f"{name}axis": {"title": title, "nticks": 5, "range": limits}
        for name, title, limits in zip("xyz", titles, box.T, strict=True)
    }
    eye = 1.3 * towards(*angles(np.diff(view.points, axis=0)))
    camera = {"projection": {"type": "orthographic"}, "eye": dict(zip("xyz", eye, strict=True))}
    figure.update_layout(scene={**axes, "aspectmode": "data", "camera": camera})


def _ground() -> dict[str, Any]:
    template = "plotly_white" if current() is LIGHT else "plotly_dark"
    return {"template": template, "paper_bgcolor": style.GROUND, "plot_bgcolor": style.GROUND}


def _trace(points: Float[np.ndarray, "points axes"], **settings: Any) -> dict[str, Any]:
    """A line or markers, in two dimensions or in three."""
    kind = "scatter" if points.shape[1] == 2 else "scatter3d"
    place = dict(zip("xyz", points.T, strict=False))
    hover = {} if "hoverinfo" in settings else {"hoverinfo": "text"}
    return {"type": kind, "showlegend": False, **hover, **place, **settings}


def _described(view: View, name: str, what: str, parts: Float[Tensor, " classes"]) -> str:
    """Lines shown on hovering: the largest parts of a composition, under a name."""
    classes = view.explanation.classes
    largest = parts.argsort(descending=True, stable=True)[:_PARTS].tolist()
    lines = [f"{_plain(classes[k])}: {style.number(parts[k].item())}" for k in largest]
    more = [f"and {len(classes) - _PARTS} more"] if len(classes) > _PARTS else []
    return "<br>".join((f"<b>{_plain(name)}</b>", what, *lines, *more))


def _plain(text: str) -> str:
    """The text as it is: neither tags nor formulas."""
    return html.escape(text, quote=False).replace("$", "&#36;")
