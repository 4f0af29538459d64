"""Keeps what an experiment found as JSON, and writes its claims, tables and plots from that alone.

A result is `<name>.json`; its page `<name>.md` and its plots `<name>*.png` are made from that file,
by the run that writes it or at any later time, without running anything again. Remarks at the end
of a page are written by hand, and stay.
"""

import inspect
import json
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from statistics import mean, stdev
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import torch
from matplotlib.figure import Figure

import manifold_shap as ms
from manifold_shap.io.files import write_whole

Found = Mapping[str, Any]
REMARKS = "\n## Remarks\n"
ROUNDING = 1e-12  # An error below this part of its figure is none.


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

    def cells(self) -> list[str]:
        """As under the columns `CLAIMS`."""
        verdict = "yes" if self.holds else f"**no**{f': {self.why}' if self.why else ''}"
        return [self.text, self.paper, self.ours, verdict]


CLAIMS = ("claim", "paper", "ours", "holds")


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
    """All that there is to know about an experiment, as its module has it.

    Attributes:
        title: what it shows or measures.
        run: measures, and returns plain values that JSON can hold; the defaults of its arguments
            are the settings in full form.
        tables: of what was found.
        figures: plots of what was found, by name; the name of the main one is empty.
        claims: of the paper, asked of what was found.
        quick: settings of the quick form that differ.
        source: the paper, and the place in it.
        errors: what the errors of the tables are.
    """

    title: str
    run: Callable[..., dict[str, Any]]
    tables: Callable[[Any], Sequence[Table]]
    figures: Callable[[Any], Mapping[str, Figure]] = field(default=lambda found: {})
    claims: Callable[[Any], Sequence[Claim]] = field(default=lambda found: ())
    quick: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    errors: str = "standard errors"

    @classmethod
    def of(cls, module: ModuleType) -> "Experiment":
        """Functions of these names, and constants `TITLE`, `QUICK`, `SOURCE` and `ERRORS`."""
        constants = ("title", "quick", "source", "errors")
        names = [key.name for key in fields(cls)]
        found = {key: vars(module).get(key.upper() if key in constants else key) for key in names}
        return cls(**{key: entry for key, entry in found.items() if entry is not None})

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
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "command": command,
        "settings": dict(settings),
        # Where parts are of earlier runs, the seconds of all parts.
        "seconds": found.pop("seconds", time.perf_counter() - start),
        "machine": {"torch": torch.__version__, "threads": torch.get_num_threads(), "gpu": gpu},
        "version": ms.__version__,
        "note": "",
        "found": found,
    }


def load(folder: Path, name: str) -> dict[str, Any]:
    return json.loads((folder / f"{name}.json").read_text())


def save(experiment: Experiment, folder: Path, name: str, result: Mapping[str, Any]) -> None:
    """Write a result with its page and plots; an earlier one is replaced.

    All is written beside first. A result counts by its JSON, and there is none while files change.
    """
    folder.mkdir(parents=True, exist_ok=True)
    text, old = dumps(result), folder / f"{name}.md"
    before = old.read_text() if old.exists() else ""
    with TemporaryDirectory(dir=folder, prefix=f".{name}-") as place:
        beside = Path(place)
        figures = experiment.figures(json.loads(text)["found"])
        plots = [f"{name}_{which}" if which else name for which in figures]
        for plot, figure in zip(plots, figures.values(), strict=True):
            figure.savefig(beside / f"{plot}.png")
        new = page(experiment, json.loads(text), plots)
        (beside / f"{name}.md").write_text(new + "".join(before.partition(REMARKS)[1:]))
        (beside / f"{name}.json").write_text(text)
        (folder / f"{name}.json").unlink(missing_ok=True)
        for plot in re.findall(r"\]\((\w+\.png)\)", before):
            (folder / plot).unlink(missing_ok=True)
        for file in sorted(beside.iterdir(), key=lambda file: file.suffix == ".json"):
            file.replace(folder / file.name)


def dumps(entry: Any) -> str:
    """JSON with a line for each row of numbers, and null for what is no finite number."""
    text = json.dumps(_plain(entry), indent=1, allow_nan=False, ensure_ascii=False)
    rows = re.compile(r"\[\s+([^\[\]{}]*?)\s+\]")
    return rows.sub(lambda row: "[" + re.sub(r" *\n *", " ", row[1]) + "]", text) + "\n"


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
        path: the file of a finished part, from which an interrupted experiment is resumed.
        settings: all that decides on the outcome, as plain values.
        make: measures what JSON can hold.
    """
    if not path.exists() or json.loads(path.read_text())["settings"] != _plain(settings):
        text = dumps({"settings": settings, "found": make()})
        write_whole(path, lambda beside: beside.write_text(text))
    return json.loads(path.read_text())["found"]


def number(entry: Any) -> str:
    """Three digits of a fraction, all of a whole number; words as they are."""
    if entry is None:
        return ""
    if isinstance(entry, bool):
        return "yes" if entry else "no"
    if isinstance(entry, float):
        return f"{entry:,.0f}" if abs(entry) >= 1000 else f"{entry:.3g}"
    return f"{entry:,}" if isinstance(entry, int) else str(entry)


def spread(figures: Sequence[float], of_mean: bool = False) -> tuple[float, float | None]:
    """Mean, and standard deviation of two or more, or the standard error of the mean."""
    if len(figures) < 2:
        return mean(figures), None
    return mean(figures), stdev(figures) / (len(figures) ** 0.5 if of_mean else 1)


def cell(entry: Any) -> str:
    """A figure, or one with its error; a bar would end a cell of Markdown."""
    if not isinstance(entry, (list, tuple)):
        return number(entry).replace("|", r"\|")
    figure, error = entry
    if error is None or 0 < error < ROUNDING * abs(figure):
        return number(figure)
    return f"{number(figure)} ± {number(float(f'{error:.1g}'))}"


def markdown(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(map(cell, line))} |" for line in lines) + "\n"


def page(experiment: Experiment, result: Mapping[str, Any], plots: Sequence[str]) -> str:
    """A result in Markdown: claims, tables with their errors, plots, and how it was made."""
    claims, threads = experiment.claims(result["found"]), result["machine"]["threads"]
    seconds = result["seconds"] and f", {number(result['seconds'])} s"
    made = f"`{result['command']}`{seconds or ''} on {threads} thread{'s' * (threads > 1)}, "
    made += f"version {result['version']}. {result['note']}".strip()
    made += " All numbers are in the JSON file beside this page."
    asked = markdown(CLAIMS, [claim.cells() for claim in claims]) if claims else ""
    tables = [markdown(one.columns, one.rows) for one in experiment.tables(result["found"])]
    parts = [
        f"# {experiment.title}\n",
        f"{experiment.source}.\n" if experiment.source else "",
        asked,
        f"Figures after ± are {experiment.errors}.\n" if "±" in "".join((asked, *tables)) else "",
        *tables,
        *(f"![{experiment.title}]({plot}.png)\n" for plot in plots),
        f"{made}\n",
    ]
    return "\n".join(part for part in parts if part)
