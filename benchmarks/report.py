"""Keeps what an experiment found as JSON, and writes its claims, tables and plots from that alone.

A result is `<name>.json`; its page `<name>.md` and its plots `<name>*.png` are made from that file,
by the run that writes it or at any later time, without running anything again.
"""

import inspect
import json
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from matplotlib.figure import Figure

import manifold_shap as ms

Found = Mapping[str, Any]


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, and whether our figures bear it out.

    Attributes:
        text: the statement, with the bound by which it is judged.
        paper: what the paper has to say it by: a figure, or where it says so.
        ours: the figures that decide.
        holds: whether it holds of these.
        why: the reason where it does not, as far as it is known.
    """

    text: str
    paper: str
    ours: str
    holds: bool
    why: str = ""


@dataclass(frozen=True)
class Table:
    """Figures of one kind; an entry may be a pair of a figure and its error, None is empty."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


def records(heading: str, rows: Mapping[str, Mapping[str, Any]]) -> Table:
    """A line for each record, and a column for each of their figures, nested ones included."""
    flat = {name: _flat(row) for name, row in rows.items()}
    columns = list(dict.fromkeys(key for row in flat.values() for key in row))
    return Table([heading, *columns], [[n, *map(row.get, columns)] for n, row in flat.items()])


def _flat(entry: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, one in entry.items():
        found |= _flat(one, f"{before}{key}: ") if isinstance(one, Mapping) else {before + key: one}
    return found


@dataclass(frozen=True)
class Experiment:
    """All that there is to know about an experiment.

    Attributes:
        title: what it shows or measures.
        run: measures, and returns plain values that JSON can hold; the defaults of its arguments
            are the settings in full form.
        tables: of what was found.
        figures: plots of what was found, by name; the name of the main one is empty.
        quick: settings of the quick form that differ.
        claims: of the paper, asked of what was found.
        source: the paper, and the place in it.
        errors: what the errors of the tables are.
        remarks: readings of ours, and what differs from the paper, in Markdown.
    """

    title: str
    run: Callable[..., dict[str, Any]]
    tables: Callable[[Any], Sequence[Table]]
    figures: Callable[[Any], Mapping[str, Figure]] = field(default=lambda found: {})
    quick: Mapping[str, Any] = field(default_factory=dict)
    claims: Callable[[Any], Sequence[Claim]] = field(default=lambda found: ())
    source: str = ""
    errors: str = "standard errors"
    remarks: str = ""

    def chosen(self, quick: bool, changes: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of a run.

        Raises:
            ValueError: `changes` has a setting that `run` does not take.
        """
        known = {key: p.default for key, p in inspect.signature(self.run).parameters.items()}
        unknown = sorted(set(changes) - set(known))
        if unknown:
            raise ValueError(
                f"Expected settings among {', '.join(known)} but got {', '.join(unknown)}."
            )
        return {**known, **(self.quick if quick else {}), **changes}


def measured(experiment: Experiment, settings: Mapping[str, Any], command: str) -> dict[str, Any]:
    """Run an experiment; what it found, and all that this depends on."""
    start = time.perf_counter()
    found = experiment.run(**settings)
    # Where parts are of earlier runs, the seconds of all parts.
    seconds = found.pop("seconds", time.perf_counter() - start)
    return {
        "command": command,
        "settings": dict(settings),
        "seconds": seconds,
        "machine": machine(),
        "version": ms.__version__,
        "note": "",
        "found": found,
    }


def machine() -> dict[str, Any]:
    """What figures depend on besides their settings."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {"torch": torch.__version__, "threads": torch.get_num_threads(), "gpu": gpu}


def load(folder: Path, name: str) -> dict[str, Any]:
    return json.loads((folder / f"{name}.json").read_text())


def save(experiment: Experiment, folder: Path, name: str, result: Mapping[str, Any]) -> None:
    """Write a result with its page and plots; an earlier one makes room for it.

    All is written beside first. A result counts by its JSON, and there is none while files change.
    """
    folder.mkdir(parents=True, exist_ok=True)
    text = dumps(result)
    figures = experiment.figures(json.loads(text)["found"])
    plots = [f"{name}_{which}" if which else name for which in figures]
    with TemporaryDirectory(dir=folder, prefix=f".{name}-") as place:
        beside = Path(place)
        for plot, figure in zip(plots, figures.values(), strict=True):
            figure.savefig(beside / f"{plot}.png")
        (beside / f"{name}.md").write_text(page(experiment, json.loads(text), plots))
        (beside / f"{name}.json").write_text(text)
        (folder / f"{name}.json").unlink(missing_ok=True)
        for old in _plots_of(folder / f"{name}.md"):
            (folder / old).unlink(missing_ok=True)
        for file in sorted(beside.iterdir(), key=lambda file: file.suffix == ".json"):
            file.replace(folder / file.name)


def _plots_of(page: Path) -> list[str]:
    return re.findall(r"\]\((\w+\.png)\)", page.read_text()) if page.exists() else []


def dumps(entry: Any) -> str:
    """JSON with a line for each row of numbers, and null for what is no finite number."""
    text = json.dumps(_plain(entry), indent=1, allow_nan=False, ensure_ascii=False)
    short = re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda m: "[" + _joined(m[1]) + "]", text)
    return short + "\n"


def _joined(lines: str) -> str:
    return " ".join(line.strip() for line in lines.splitlines())


def _plain(entry: Any) -> Any:
    if isinstance(entry, torch.Tensor):
        return _plain(entry.tolist())
    if isinstance(entry, Mapping):
        return {str(key): _plain(one) for key, one in entry.items()}
    if isinstance(entry, (list, tuple)):
        return [_plain(one) for one in entry]
    return None if isinstance(entry, float) and not math.isfinite(entry) else entry


def kept(path: Path, settings: Mapping[str, Any], make: Callable[[], Any]) -> Any:
    """What `make` returns, or returned when `path` was written with the same settings.

    Args:
        path: the file of a finished part, by which an interrupted experiment goes on.
        settings: all that decides on the outcome, as plain values.
        make: measures what JSON can hold.
    """
    if path.exists():
        part = json.loads(path.read_text())
        if part["settings"] == json.loads(dumps(settings)):
            return part["found"]
    text = dumps({"settings": settings, "found": make()})
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}")
    beside.write_text(text)
    beside.replace(path)
    return json.loads(text)["found"]


def number(entry: Any) -> str:
    """Three digits of a fraction, all of a whole number; words as they are."""
    if entry is None:
        return ""
    if isinstance(entry, bool):
        return "yes" if entry else "no"
    if isinstance(entry, float):
        return f"{entry:,.0f}" if abs(entry) >= 1000 else f"{entry:.3g}"
    return f"{entry:,}" if isinstance(entry, int) else str(entry)


def cell(entry: Any) -> str:
    """A figure, or one with its error; a bar would end a cell of Markdown."""
    if not isinstance(entry, (list, tuple)):
        return number(entry).replace("|", r"\|")
    figure, error = entry
    return (
        number(figure) if error is None else f"{number(figure)} ± {number(float(f'{error:.1g}'))}"
    )


def markdown(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(map(cell, line))} |" for line in lines) + "\n"


def page(experiment: Experiment, result: Mapping[str, Any], plots: Sequence[str]) -> str:
    """A result in Markdown: claims, tables with their errors, plots, and how it was made."""
    claims, threads = experiment.claims(result["found"]), result["machine"]["threads"]
    seconds = result["seconds"] and f", {number(result['seconds'])} s"
    made = f"`{result['command']}`{seconds or ''} on {threads} thread{'s' * (threads > 1)}, "
    made += f"version {result['version']}. {result['note']}".strip()
    parts = [
        f"# {experiment.title}\n",
        f"{experiment.source}.\n" if experiment.source else "",
        markdown(CLAIMS, [claim_cells(claim) for claim in claims]) if claims else "",
        f"Figures after ± are {experiment.errors}.\n",
        *(markdown(table.columns, table.rows) for table in experiment.tables(result["found"])),
        *(f"![{experiment.title}]({plot}.png)\n" for plot in plots),
        experiment.remarks.strip() + "\n" if experiment.remarks else "",
        f"{made}\n",
    ]
    return "\n".join(part for part in parts if part)


CLAIMS = ("claim", "paper", "ours", "holds")


def claim_cells(claim: Claim) -> list[str]:
    verdict = "yes" if claim.holds else f"**no**{f': {claim.why}' if claim.why else ''}"
    return [claim.text, claim.paper, claim.ours, verdict]


def index(folder: Path, papers: Mapping[str, Mapping[str, Experiment]]) -> str:
    """One table of claims per paper, of the results in a folder.

    Args:
        folder: of the results, to which the page links.
        papers: experiments by name, by paper.
    """
    parts = [
        "# Reproduction of the papers' results\n",
        "The claims of each paper, its own figure, ours, and whether the claim holds of ours or "
        "why not. Bounds that a paper does not state are ours; the pages behind *details* have all "
        "figures and plots. Made by `python benchmarks/reproduce.py`.\n",
    ]
    for paper, experiments in papers.items():
        rows = []
        for name, experiment in experiments.items():
            if (folder / f"{name}.json").exists():
                link = f"[{name}]({folder.name}/{name}.md)"
                claims = experiment.claims(load(folder, name)["found"])
                rows += [[*claim_cells(claim), link] for claim in claims]
        if rows:
            parts += [f"## {paper}\n", markdown((*CLAIMS, "details"), rows)]
    return "\n".join(parts)
