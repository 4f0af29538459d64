"""What a reproduction leaves: figures beside those of the paper, claims, a plot, and their page."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from matplotlib.figure import Figure

from benchmarks.figures import machine, markdown, number


@dataclass(frozen=True)
class Line:
    """One figure.

    Attributes:
        what: it is.
        ours: measured.
        error: of it, as `Report.errors` says.
        paper: the paper's, in its own words where they are no number; None where it has none.
    """

    what: str
    ours: float
    error: float | None = None
    paper: float | str | None = None


@dataclass(frozen=True)
class Table:
    """Figures of one kind; an entry may be a pair of a figure and its error."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Claim:
    """What the paper says, and whether our figures say so, too."""

    text: str
    holds: bool


@dataclass(frozen=True)
class Report:
    """The outcome of an experiment.

    Attributes:
        title: what it shows.
        source: paper and place.
        lines: its figures.
        claims: of the paper.
        tables: of more figures.
        remarks: where ours differs, and why.
        figure: a plot like the paper's.
        more: all else that is worth keeping, as plain values.
        errors: what the errors are.
        figures: more plots, by name.
        seconds: of all that was measured, where parts of it are of earlier runs.
    """

    title: str
    source: str
    lines: Sequence[Line]
    claims: Sequence[Claim]
    tables: Sequence[Table] = ()
    remarks: str = ""
    figure: Figure | None = None
    more: Mapping[str, Any] = field(default_factory=dict)
    errors: str = "standard errors"
    figures: Mapping[str, Figure] = field(default_factory=dict)
    seconds: float | None = None


def save(
    report: Report, folder: Path, name: str, command: str, settings: Mapping[str, Any], took: float
) -> None:
    """Write `<name>.json` and its plots, `<name>*.png`; an earlier result makes room for them.

    All is written beside first. A result counts by its JSON, and there is none while files change.
    What is not a number is null there.
    """
    kept: dict[str, Any] = {
        "title": report.title,
        "source": report.source,
        "command": command,
        "settings": dict(settings),
        "seconds": took if report.seconds is None else report.seconds,
        "machine": machine(),
        "lines": [asdict(line) for line in report.lines],
        "claims": [asdict(claim) for claim in report.claims],
        "tables": [asdict(table) for table in report.tables],
        "errors": report.errors,
        "remarks": report.remarks,
        "more": dict(report.more),
    }
    plots = {name: report.figure} if report.figure is not None else {}
    plots |= {f"{name}_{which}": figure for which, figure in report.figures.items()}
    kept["plots"] = list(plots)
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder, prefix=f".{name}-") as place:
        beside = Path(place)
        for plot, figure in plots.items():
            figure.savefig(beside / f"{plot}.png")
        text = json.dumps(_finite(kept), indent=2, allow_nan=False)
        (beside / f"{name}.json").write_text(f"{text}\n")
        _remove(folder, name)
        for file in (*(f"{plot}.png" for plot in plots), f"{name}.json"):
            (beside / file).replace(folder / file)


def _remove(folder: Path, name: str) -> None:
    """An earlier result, and the plots that it had."""
    earlier = folder / f"{name}.json"
    if earlier.exists():
        plots = json.loads(earlier.read_text())["plots"]
        earlier.unlink()
        for plot in plots:
            (folder / f"{plot}.png").unlink(missing_ok=True)


def _finite(entry: Any) -> Any:
    """The same with None for every figure that is no number."""
    if isinstance(entry, Mapping):
        return {key: _finite(one) for key, one in entry.items()}
    if isinstance(entry, (list, tuple)):
        return [_finite(one) for one in entry]
    return None if isinstance(entry, float) and not math.isfinite(entry) else entry


def write(path: Path, text: str) -> None:
    """Replace a file, which is never there in part."""
    beside = path.with_name(f".{path.name}")
    beside.write_text(text)
    beside.replace(path)


def page(folder: Path, names: Iterable[str]) -> str:
    """All finished results of a folder in Markdown, in this order."""
    parts = [
        "# What the papers say, and what comes out here\n",
        "Made by `python benchmarks/reproduce.py`, which writes this page anew. Each experiment's "
        "command is under its tables.\n",
    ]
    for name in names:
        if (folder / f"{name}.json").exists():
            parts.append(_section(folder, name))
    return "\n".join(parts)


def _section(folder: Path, name: str) -> str:
    kept = json.loads((folder / f"{name}.json").read_text())
    rows = [
        (_cell(line["what"]), _cell(line["paper"]), _cell([line["ours"], line["error"]]))
        for line in kept["lines"]
    ]
    tables = []
    for table in kept["tables"]:
        head, *body = (
            [_cell(entry) for entry in row] for row in (table["columns"], *table["rows"])
        )
        tables.append(markdown(head, body))
    claims = [
        f"- {claim['text']}: **{'holds' if claim['holds'] else 'does not hold'}**"
        for claim in kept["claims"]
    ]
    threads = kept["machine"]["threads"]
    on = f"{threads} thread" + "s" * (threads > 1)
    command = f"`{kept['command']}`, {number(kept['seconds'])} s on {on}\n"
    plots = [_plot(folder, name, plot, kept["title"]) for plot in kept["plots"]]
    parts = [
        f"## {kept['title']}\n",
        f"{kept['source']}.\n",
        markdown(["", "paper", f"ours (± {kept['errors']})"], rows),
        *tables,
        command,
        "\n".join(claims) + "\n" if claims else "",
        *plots,
        kept["remarks"].strip() + "\n" if kept["remarks"] else "",
    ]
    return "\n".join(part for part in parts if part)


def _plot(folder: Path, name: str, plot: str, title: str) -> str:
    """With a caption, where it is one of several."""
    which = plot.removeprefix(name).strip("_").replace("_", " ").capitalize()
    image = f"![{title}]({folder.name}/{plot}.png)\n"
    return f"{which}:\n\n{image}" if which else image


def _cell(entry: Any) -> str:
    """A figure, or one with its error."""
    if not isinstance(entry, list):
        return number(entry).replace("|", r"\|")
    ours, error = entry
    return number(ours) if error is None else f"{number(ours)} ± {number(float(f'{error:.1g}'))}"
