"""Keeps what an experiment found as JSON, and makes its page and plots from that alone.

A result is `<name>.json`; its page `<name>.md` and its plots `<name>*.png` are made from that file,
by the run that writes it or at any later time, without running anything again.
"""

import ast
import hashlib
import inspect
import json
import math
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, partial
from importlib.metadata import packages_distributions, version
from pathlib import Path
from statistics import mean, stdev
from types import ModuleType
from typing import Any

import torch
from matplotlib import rc_context
from matplotlib.figure import Figure

import manifold_shap as ms
from benchmarks.draw import LOOK
from manifold_shap.io.files import write_whole

Found = Mapping[str, Any]
Figures = Mapping[str, Figure]
ROOT = _CODE = Path(__file__).parents[1]
_KINDS = ("laws", "papers", "speed", "support", "truth")
_OF_PAGES = ("claims", "tables", "figures", "summary")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)
PEERS = ("captum", "lightshap", "shap", "shapiq")  # Their versions are on a page.
ROUNDING = 1e-12  # An error below this part of its figure is none.
# Finished parts that the present run has read instead of measuring them.
_SAVED: list[Found] = []


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, and whether our figures bear it out.

    Attributes:
        text: the statement, with the bound by which it is judged.
        paper: the paper's figure, or where it says so.
        ours: the figures that decide.
        holds: whether it holds of these.
        why: the reason where it does not.
    """

    text: str
    paper: str
    ours: str
    holds: bool
    why: str = ""

    def cells(self) -> list[str]:
        reason = f": {self.why}" if self.why else ""
        return [self.text, self.paper, self.ours, "yes" if self.holds else f"**no**{reason}"]


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
    """An experiment, as its module has it.

    Attributes:
        title: what it shows or measures.
        run: measures, and returns plain values that JSON can hold; the defaults of its arguments
            are the settings in full form.
        measure: measures one part of several, instead of `run`; its first argument is which.
        over: the setting that chooses parts, and its default.
        tables: of what was found.
        figures: plots of what was found, by name; the name of the main one is empty.
        claims: of the paper, asked of what was found.
        summary: the figures for the list of all experiments, by what they are.
        quick: settings of the quick form that differ.
        caption: what the figures of the summary are.
        source: the paper, and the place in it.
        errors: what the errors of the tables are.
        about: what is measured, and how.
    """

    title: str
    run: Any = None
    measure: Any = None
    over: Mapping[str, Sequence[str]] = field(default_factory=dict)
    tables: Callable[[Any], Sequence[Table]] = field(default=lambda found: ())
    figures: Callable[[Any], Figures] = field(default=lambda found: {})
    claims: Callable[[Any], Sequence[Claim]] = field(default=lambda found: ())
    summary: Callable[[Any], Mapping[str, Any]] = field(default=lambda found: {})
    quick: Mapping[str, Any] = field(default_factory=dict)
    caption: str = ""
    source: str = ""
    errors: str = "standard errors"
    about: str = ""

    @classmethod
    def of(cls, module: ModuleType) -> "Experiment":
        """Functions of these names, constants in capitals, and the docstring."""
        names = [key.name for key in fields(cls)]
        found = {key: vars(module).get(key, vars(module).get(key.upper())) for key in names}
        found |= {"about": inspect.getdoc(module)}
        return cls(**{key: entry for key, entry in found.items() if entry is not None})

    def chosen(self, quick: bool, changes: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of a run."""
        parameters = list(inspect.signature(self.run or self.measure).parameters.values())
        defaults = {one.name: one.default for one in parameters[len(self.over) :]}
        return {**self.over, **defaults, **(self.quick if quick else {}), **changes}

    def found(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        if self.run:
            return self.run(**settings)
        (which,) = self.over
        others = {key: one for key, one in settings.items() if key != which}
        return parts(settings[which], self.measure, **others)


def code_of(measure: Callable[..., Any]) -> dict[str, str]:
    """Digests of the files that were loaded to measure: what is measured, and what measures it."""
    loaded = {Path(str(getattr(one, "__file__", ""))) for one in list(sys.modules.values())}
    package, measuring, settings = _sources()
    # Of processes that the experiment has started, it is not seen what they have loaded.
    starts = hasattr(sys.modules[measure.__module__], "subprocess")
    files = package if starts else package & loaded
    files |= measuring & loaded
    files |= settings if "hydra" in sys.modules else set()
    return {name: digest_of(name) for name in sorted(str(one.relative_to(_CODE)) for one in files)}


def _sources() -> tuple[set[Path], set[Path], set[Path]]:
    """Files of the package, of experiments, and of the commands' settings."""
    package = set((_CODE / "manifold_shap").rglob("*.py"))
    # These rooms draw and print, and `draw.py` loads them for the colours alone.
    package -= {one for one in package if re.search(r"/(plots|report|interop|shown)\b", str(one))}
    measuring = {file for kind in _KINDS for file in (_CODE / "benchmarks" / kind).glob("*.py")}
    return package, measuring, set((_CODE / "conf").rglob("*.yaml"))


def is_of_today(code: Mapping[str, str]) -> bool:
    """Whether all these files do what they did."""
    return bool(code) and all(digest_of(name) == one for name, one in code.items())


@cache
def digest_of(name: str) -> str:
    """A digest of a file without comments, docstrings, messages of errors, claims and pages."""
    if not (_CODE / name).exists():
        return ""
    text = (_CODE / name).read_text()
    if not name.endswith(".py"):
        return _digest(text)
    tree = ast.parse(text)
    tree.body = [node for node in tree.body if getattr(node, "name", "") not in _OF_PAGES]
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node):
            node.body[0] = ast.Pass()
        elif isinstance(node, ast.Raise):
            node.exc = node.cause = None
    return _digest(_structure(tree))


def _structure(node: Any) -> str:
    """The same by all versions of Python, unlike `ast.unparse`."""
    if not isinstance(node, ast.AST):
        return f"[{','.join(map(_structure, node))}]" if isinstance(node, list) else repr(node)
    parts = {name: _structure(one) for name, one in ast.iter_fields(node) if one not in (None, [])}
    return f"{type(node).__name__}({','.join(f'{name}={one}' for name, one in parts.items())})"


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def commit_of_code() -> str:
    changed = git("status", "--porcelain", "--", "manifold_shap", "benchmarks/*.py", "conf")
    return git("rev-parse", "HEAD") + ("-dirty" if changed else "")


def machine() -> dict[str, Any]:
    """The place on which figures depend, and how busy it is."""
    cpu = Path("/proc/cpuinfo")
    models = re.findall(r"model name\s*: (.*)", cpu.read_text()) if cpu.exists() else []
    return {
        "processor": models[0] if models else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "load": os.getloadavg()[0],
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def _packages() -> dict[str, str]:
    """Versions of all that was imported."""
    homes = packages_distributions()
    used = {name for module in list(sys.modules) for name in homes.get(module, ())}
    return {name: version(name) for name in sorted(used, key=str.lower)}


def measured(experiment: Experiment, settings: Mapping[str, Any], command: str) -> dict[str, Any]:
    """Run an experiment; what it found, and all that this depends on."""
    place, start, commit = machine(), time.perf_counter(), commit_of_code()
    for file in set().union(*_sources()):
        digest_of(str(file.relative_to(_CODE)))  # Before anything is written to the files.
    _SAVED.clear()
    found = experiment.found(settings)
    return {
        "command": command,
        "settings": dict(settings),
        "seconds": time.perf_counter() - start + sum(part["seconds"] for part in _SAVED),
        "machine": place,
        "packages": _packages(),
        "version": ms.__version__,
        "commit": commit,
        "code": {key: one for part in _SAVED for key, one in part["code"].items()}
        | code_of(experiment.run or experiment.measure),
        "note": "",
        "found": found,
    }


def parts(keys: Iterable[str], make: Callable[..., Any], **settings: Any) -> dict[str, Any]:
    """What `make(key, **settings)` returns for each key, as JSON holds it.

    A part that is finished is kept in `runs/parts`, and read instead while settings, code and
    machine are the same: an interrupted run is resumed from there.
    """
    found, place = {}, dumps({**machine(), "load": None})
    for key in keys:
        name = re.sub(r"\W+", "_", key)
        which = f"{name}_{_digest(key, dumps(settings), place)}.json"
        path = Path("runs/parts", make.__module__.rpartition(".")[2], which)
        part = json.loads(path.read_text()) if path.exists() else {"code": {}}
        if is_of_today(part["code"]):
            _SAVED.append(part)
        else:
            start = time.perf_counter()
            part = {"found": make(key, **settings), "seconds": time.perf_counter() - start}
            part |= {"code": code_of(make), "commit": commit_of_code()}
            part = json.loads(dumps(part))
            write_whole(path, partial(Path.write_text, data=dumps(part)))
            print(key, number(part["seconds"]), "s", flush=True)
        found[key] = part["found"]
    return found


def load(folder: Path, name: str) -> dict[str, Any]:
    return json.loads((folder / f"{name}.json").read_text())


def save(experiment: Experiment, folder: Path, name: str, result: Mapping[str, Any]) -> None:
    """Write a result, its plots and its page."""
    folder.mkdir(parents=True, exist_ok=True)
    text = dumps(result)
    read = json.loads(text)
    with rc_context(LOOK):
        figures = experiment.figures(read["found"])
        plots = {f"{name}_{which}" if which else name: each for which, each in figures.items()}
        for plot, figure in plots.items():
            figure.savefig(folder / f"{plot}.png", dpi=200)
    (folder / f"{name}.md").write_text(page(experiment, read, list(plots)))
    write_whole(folder / f"{name}.json", partial(Path.write_text, data=text))


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


def number(entry: Any) -> str:
    """Three digits of a fraction, all of a whole number; words as they are."""
    if entry is None or isinstance(entry, bool):
        return {None: "", False: "no", True: "yes"}[entry]
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
    return f"{number(figure)} ± {number(abs(float(f'{error:.1g}')))}"


def markdown(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [[name.replace("_", " ") for name in columns], ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(map(cell, line))} |" for line in lines) + "\n"


def page(experiment: Experiment, result: Mapping[str, Any], plots: Sequence[str]) -> str:
    """A result in Markdown: claims, tables with their errors, plots, and how it was made."""
    claims = [claim.cells() for claim in experiment.claims(result["found"])]
    asked = [markdown(("claim", "paper", "ours", "holds"), claims)] if claims else []
    tables = [markdown(one.columns, one.rows) for one in experiment.tables(result["found"])]
    errors = [f"Figures after ± are {experiment.errors}.\n"]
    versions = [one for one in result.get("packages", {}).items() if one[0] in PEERS]
    places = [*result["machine"].items(), *versions]
    place = ", ".join(f"{key} {number(one)}" for key, one in places if one)
    commit, dash, dirty = result.get("commit", "").partition("-")
    made = f"version {result['version']} {commit[:12]}{dash}{dirty}".strip()
    return "\n".join([
        f"# {experiment.title}\n",
        f"{experiment.about}\n",
        *([f"Source: {experiment.source}.\n"] if experiment.source else []),
        *asked,
        *(errors if any("±" in text for text in (*asked, *tables)) else []),
        *tables,
        *(f"![{experiment.title}]({plot}.png)\n" for plot in plots),
        f"`OMP_NUM_THREADS={result['machine']['threads']} {result['command']}`: "
        f"{number(result['seconds'])} s; {made}; {place}. {result['note']}".strip() + "\n",
    ])  # fmt: skip
