"""Runs experiments: `python benchmarks/reproduce.py papers/outliers --quick trees=50`.

Words with "=" are settings of `run` in the experiment's file; all others name experiments. `all`
stands for every experiment whose result is older than the code, or not there; what was finished
before an interruption is not run again. Those of `speed` run one after another, others by one
thread, as many at once as there are cores. `--plan` only says what there is to run, and for how
long. Results go to `docs/results` (papers) or `benchmarks/results`, those of quick forms to `runs`.
With `--pages` nothing is run: pages and plots are made again from the result files.
"""

import argparse
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from subprocess import run
from typing import Any, cast

from omegaconf import OmegaConf
from packaging.version import Version

from benchmarks import report
from manifold_shap.io.files import write_whole

KINDS = {"papers": "docs/results", "speed": "benchmarks/results", "truth": "benchmarks/results"}
NAMES = tuple(
    f"{kind}/{file.stem}"
    for kind in KINDS
    for file in sorted((report.ROOT / "benchmarks" / kind).glob("*.py"))
)
BLOCK = "<!-- made by reproduce.py from here on -->\n"
INDEX = """# The papers' results

Which claims hold, by the papers' figures and ours. Where a paper states no bound, it is ours.

```{toctree}
:hidden:
:glob:

*
```
"""


def experiment(name: str) -> report.Experiment:
    """The one of `papers/<name>`, `speed/<name>` or `truth/<name>`."""
    return report.Experiment.of(import_module(f"benchmarks.{name.replace('/', '.')}"))


def folder_of(name: str, quick: bool = False) -> Path:
    kind = name.partition("/")[0]
    return Path("runs", kind) if quick else report.ROOT / KINDS[kind]


def stored(name: str, quick: bool = False) -> Mapping[str, Any]:
    """The result of an experiment; empty where there is none."""
    folder, short = folder_of(name, quick), name.partition("/")[2]
    return report.load(folder, short) if (folder / f"{short}.json").exists() else {}


def plan(names: Sequence[str], quick: bool) -> list[str]:
    """Experiments whose results are older than the code, or not there, and what they took."""
    results = {name: stored(name, quick) for name in names}
    due = [name for name, one in results.items() if not report.is_of_today(one.get("code", {}))]
    seconds = {name: results[name].get("seconds") or 0.0 for name in due}
    for name, took in seconds.items():
        print(f"{name:28} {f'{took / 60:8.1f} min' if took else '   not run before'}")
    timed = sum(seconds[name] for name in due if name.startswith("speed/"))
    hours = (timed + (sum(seconds.values()) - timed) / (os.cpu_count() or 1)) / 3600
    print(f"{len(due)} to run, {hours:.1f} hours by their last runs")
    return due


def check_peers(name: str) -> None:
    """Exits if a result would be of fewer or older packages of others."""
    then = stored(name).get("packages", {})
    for peer in report.PEERS:
        here = version(peer) if find_spec(peer) else "0"
        if Version(here) < Version(then.get(peer, "0")):
            sys.exit(
                f"{name} is to be measured beside {peer} {then[peer]} or later, and here is "
                f"{here if find_spec(peer) else 'none'}; by Python 3.12: pip install '.[peers]'"
            )


def reproduce(
    name: str,
    changes: Sequence[str] = (),
    quick: bool = False,
    pages: bool = False,
    out: Path | None = None,
) -> None:
    """Run one experiment, or make its page and plots again.

    Args:
        name: as in `papers/outliers`.
        changes: settings, as in `trees=50`.
        quick: whether to begin with the settings of the quick form.
        pages: whether to run nothing.
        out: folder of the result.
    """
    chosen, folder, short = experiment(name), out or folder_of(name, quick), name.partition("/")[2]
    settings = cast(dict[str, Any], OmegaConf.to_container(OmegaConf.from_dotlist(list(changes))))
    if pages:
        result = report.load(folder, short)
    else:
        if not quick and not out:
            check_peers(name)
        words = [name, *(["--quick"] if quick else []), *changes]
        command = f"python benchmarks/reproduce.py {shlex.join(words)}"
        result = report.measured(chosen, chosen.chosen(quick, settings), command)
    report.save(chosen, folder, short, result)
    print(folder / f"{short}.md", flush=True)


def index() -> str:
    """A table per paper, of the stored results: how many claims hold."""
    papers: dict[str, list[list[str]]] = {}
    for name in NAMES:
        if name.startswith("papers/") and (result := stored(name)):
            one, short = experiment(name), name.partition("/")[2]
            holds = [claim.holds for claim in one.claims(result["found"])]
            row = [f"[{one.title}]({short}.md)", f"{sum(holds)} of {len(holds)}", result["version"]]
            papers.setdefault(one.source.partition(",")[0], []).append(row)
    columns = ("experiment", "claims that hold", "measured by version")
    tables = (f"## {paper}\n\n{report.markdown(columns, rows)}" for paper, rows in papers.items())
    return "\n".join([INDEX, *tables])


def overview() -> str:
    """The table and the plots of the README of benchmarks, of the stored results."""
    rows, plots = [], []
    for name in NAMES:
        if not name.startswith("papers/") and (result := stored(name)):
            one, short = experiment(name), name.partition("/")[2]
            link = f"[{one.title}](results/{short}.md)"
            told = one.summary(result["found"]).items()
            text = "; ".join(f"{what} {report.number(figure)}" for what, figure in told)
            rows.append([link, f"{one.caption}: {text}" if one.caption else text])
            if (folder_of(name) / f"{short}.png").exists():
                plots.append(f'<img src="results/{short}.png" alt="{one.title}" width="760">\n')
    return "\n".join([report.markdown(("experiment", "figures"), rows), *plots])


def write_lists() -> None:
    """The index of the papers' results, and the README's table."""
    (report.ROOT / "docs/results/index.md").write_text(index())
    readme = report.ROOT / "benchmarks/README.md"
    whole = f"{readme.read_text().partition(BLOCK)[0]}{BLOCK}\n{overview()}"
    write_whole(readme, partial(Path.write_text, data=whole))  # Others may read it just now.


def run_apart(names: Sequence[str], words: Sequence[str]) -> list[str]:
    """Runs each in a process of its own; returns those that failed."""
    failed = []
    for timed, at_once, more in ((False, os.cpu_count(), {"OMP_NUM_THREADS": "1"}), (True, 1, {})):
        some = [name for name in names if name.startswith("speed/") == timed]
        # A process loads the files of its experiment alone, and the result keeps which these are.
        commands = ([sys.executable, __file__, name, *words] for name in some)
        with ThreadPoolExecutor(at_once) as pool:
            ended = pool.map(partial(run, env=os.environ | more), commands)
            failed += [name for name, one in zip(some, ended, strict=True) if one.returncode]
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="experiments, or all; settings as in `trees=50`")
    parser.add_argument("--quick", action="store_true", help="the quick form")
    parser.add_argument("--plan", action="store_true", help="only say what there is to run")
    parser.add_argument("--pages", action="store_true", help="from the result files alone")
    parser.add_argument("--out", type=Path, help="folder of the results")
    given = parser.parse_intermixed_args()
    changes = [word for word in given.words if "=" in word]
    names = [word for word in given.words if "=" not in word]
    if "all" in names and changes:
        parser.error("settings are of one experiment: name it, in place of all")
    if "all" in names and given.pages:
        names = [name for name in NAMES if stored(name, given.quick)]
    elif "all" in names or given.plan:
        names = plan(NAMES if "all" in names else names, given.quick)
    if given.plan:
        sys.exit()
    options = ["--quick"] * given.quick + (["--out", str(given.out)] if given.out else [])
    apart = len(names) > 1 and not given.pages
    failed = run_apart(names, [*changes, *options]) if apart else []
    for name in [] if apart else names:
        reproduce(name, changes, given.quick, given.pages, given.out)
    if not given.quick and not given.out:
        write_lists()
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
