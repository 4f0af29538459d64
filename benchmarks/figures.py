"""What benchmarks write: JSON, a table in Markdown, and plots on logarithmic axes."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from manifold_shap.plots import style

PANEL = (3.1, 2.7)  # inches
_MARKERS = "osD^vPX"


@dataclass(frozen=True)
class Panel:
    """One plot: curves by name, and lines across it.

    Attributes:
        curves: name to points (x, y).
        levels: label to y of a horizontal line.
        marks: name to x of a vertical line, in the colour of that name.
        log: which axes are logarithmic.
    """

    title: str
    x: str
    y: str
    curves: Mapping[str, Sequence[tuple[float, float]]]
    levels: Mapping[str, float] = field(default_factory=dict)
    marks: Mapping[str, float] = field(default_factory=dict)
    log: str = "xy"


def machine(device: torch.device | str = "cpu") -> dict[str, Any]:
    """What the figures of a run depend on besides its settings."""
    on = torch.device(device)
    name = torch.cuda.get_device_name(on) if on.type == "cuda" else str(on)
    return {"torch": torch.__version__, "threads": torch.get_num_threads(), "device": name}


def wait(device: torch.device) -> None:
    """Until a device has done what it was given: a GPU returns before."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def number(entry: Any) -> str:
    """Three digits of a fraction, all of a whole number; words as they are."""
    if entry is None:
        return ""
    if isinstance(entry, float):
        return f"{entry:,.0f}" if abs(entry) >= 1000 else f"{entry:.3g}"
    return f"{entry:,}" if isinstance(entry, int) else str(entry)


def markdown(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table; None is an empty cell."""
    lines = [columns, ["---"] * len(columns), *([number(entry) for entry in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def draw(panels: Sequence[Panel], columns: int = 3) -> Figure:
    """Panels side by side; a name has one colour in all of them, and one entry in the legend."""
    columns = min(columns, len(panels))
    height = -(-len(panels) // columns)
    figure = style.laid_out(PANEL[1] * height + 0.6, PANEL[0] * columns)
    looks = _looks(panels)
    grid = figure.subplots(height, columns, squeeze=False).flatten()
    for axes, panel in zip(grid, panels, strict=False):
        _draw(axes, panel, looks)
    for axes in grid[len(panels) :]:
        axes.remove()
    handles: dict[str, Artist] = {}
    for axes in grid[: len(panels)]:
        for line, name in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(name, line)
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=max(1, min(len(handles), 2 * columns)),
        frameon=False,
        fontsize=style.TEXT,
        labelcolor=style.INK,
    )
    return figure


def ranked(panels: Mapping[str, Mapping[str, float]], measure: str, ours: str) -> Figure:
    """Names from the best to the worst of a measure, smaller being better, for each panel.

    Args:
        panels: title to name to figure.
        measure: what the figures are.
        ours: how the names begin that are set off by their colour.
    """
    most = max(len(entries) for entries in panels.values())
    figure = style.laid_out(0.22 * most + 0.8, (PANEL[0] + 0.4) * len(panels))
    words: dict[str, Any] = {"fontsize": style.TEXT, "color": style.INK}
    grid = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (title, entries) in zip(grid, panels.items(), strict=True):
        style.strip(axes, grid="x")
        names = sorted(entries, key=entries.__getitem__, reverse=True)
        own = [name.startswith(ours) for name in names]
        colours = [style.SERIES[0] if mine else style.NEUTRAL for mine in own]
        axes.scatter([entries[name] for name in names], names, c=colours, s=22, zorder=2)
        axes.set_xscale("log")
        _sparse(axes.xaxis, steps=(1,))
        axes.set_title(style.plain(title), loc="left", **words)
        axes.set_xlabel(measure, **words)
    return figure


def write(
    folder: Path, name: str, report: Mapping[str, Any], text: str, figure: Figure | None = None
) -> None:
    """`<name>.json`, `<name>.md` and, with a figure, `<name>.png` in a folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(report, indent=2) + "\n")
    (folder / f"{name}.md").write_text(text)
    if figure is not None:
        figure.savefig(folder / f"{name}.png")


def _looks(panels: Sequence[Panel]) -> dict[str, dict[str, Any]]:
    names = dict.fromkeys(name for panel in panels for name in (*panel.curves, *panel.marks))
    # Seven colours and six markers meet in 42 pairs before one comes again.
    looks = zip(cycle(style.SERIES), cycle(_MARKERS[:6]), strict=False)
    return {
        name: {"color": colour, "marker": marker}
        for name, (colour, marker) in zip(names, looks, strict=False)
    }


def _sparse(axis: Axis, steps: Sequence[int]) -> None:
    """Few ticks in each power of ten, whose labels are plain numbers."""
    axis.set_major_locator(LogLocator(subs=steps, numticks=8))
    axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,g}" if x < 1e6 else f"{x:.0e}"))
    axis.set_minor_locator(NullLocator())


def _draw(axes: Axes, panel: Panel, looks: Mapping[str, Mapping[str, Any]]) -> None:
    style.strip(axes, grid="y")
    words: dict[str, Any] = {"fontsize": style.TEXT, "color": style.INK}
    for name, points in panel.curves.items():
        axes.plot(*zip(*points, strict=True), label=name, markersize=3.5, **looks[name])
    for name, x in panel.marks.items():
        axes.axvline(x, color=looks[name]["color"], linestyle="--", linewidth=1, label=name)
    for label, y in panel.levels.items():
        axes.axhline(y, color=style.NEUTRAL, linestyle=":", linewidth=1)
        axes.annotate(
            label, (1, y), (0, 2), ("axes fraction", "data"), "offset points", ha="right", **words
        )
    if "x" in panel.log:
        axes.set_xscale("log")
        low, high = axes.get_xlim()
        _sparse(axes.xaxis, steps=(1, 3) if high < 3000 * low else (1,))
    if "y" in panel.log:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        # At least a power of ten, or noise on a flat curve would look like a slope.
        wider = max(1.0, (10 * low / high) ** 0.5)
        axes.set_ylim(low / wider, high * wider)
        _sparse(axes.yaxis, steps=(1, 2, 5))
    else:
        seen = [y for points in panel.curves.values() for _, y in points]
        axes.set_ylim(0, 1.1 * max(*seen, *panel.levels.values(), 0.0))
    axes.set_title(style.plain(panel.title), loc="left", **words)
    axes.set_xlabel(panel.x, **words)
    axes.set_ylabel(panel.y, **words)
