"""What a reproduction leaves: figures beside those of the paper, claims, a plot, and their page."""

import json
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


def save(
    report: Report, folder: Path, name: str, command: str, settings: Mapping[str, Any], took: float
) -> None:
    """Write `<name>.json` and its plots, `<name>*.png`; an earlier result makes room for them.

    All is written beside first. A result counts by its JSON, and there is none while files change.
    """
    kept: dict[str, Any] = {
        "title": report.title,
        "source": report.source,
        "command": command,
        "settings": dict(settings),
        "seconds": took,
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
        (beside / f"{name}.json").write_text(json.dumps(kept, indent=2) + "\n")
        (folder / f"{name}.json").unlink(missing_ok=True)
        for file in (*(f"{plot}.png" for plot in plots), f"{name}.json"):
            (beside / file).replace(folder / file)


def write(path: Path, text: str) -> None:
    """Replace a file, which is never there in part."""
    beside = path.with_name(f".{path.name}")
    beside.write_text(text)
    beside.replace(path)


def page(folder: Path, names: Iterable[str]) -> str:
    """All finished results of a folder in Markdown, in this order."""
    parts = [
        "# What the papers say, and what comes out here\n",
        "Made by `python benchmarks/reproduce.py`, which writes this page anew; every section has "
        "its own command.\n",
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
    plots = [f"![{kept['title']}]({folder.name}/{plot}.png)\n" for plot in kept["plots"]]
    parts = [
        f"## {kept['title']}\n",
        f"{kept['source']}. `{kept['command']}`, {number(kept['seconds'])} s on {on}.\n",
        markdown(["", "paper", f"ours (± {kept['errors']})"], rows),
        *tables,
        "\n".join(claims) + "\n" if claims else "",
        *plots,
        kept["remarks"].strip() + "\n" if kept["remarks"] else "",
    ]
    return "\n".join(part for part in parts if part)


def _cell(entry: Any) -> str:
    """A figure, or one with its error."""
    if not isinstance(entry, list):
        return number(entry).replace("|", r"\|")
    ours, error = entry
    return number(ours) if error is None else f"{number(ours)} ± {number(float(f'{error:.1g}'))}"
