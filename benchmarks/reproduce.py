"""Runs experiments: `python benchmarks/reproduce.py papers/outliers --quick trees=50`.

Words with "=" are settings of `run` in the experiment's file; all others name experiments, by
default all of `papers/`. Results go to `docs/results` (papers) or `benchmarks/results` (others),
those of quick forms to `runs/papers` and the like. With `--figures` nothing is run: pages and
plots are made again from the result files. `docs/results/index.md` counts the claims that hold.
"""

import argparse
import shlex
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from omegaconf import OmegaConf

from benchmarks import report

PAPERS = {
    "Frye et al. (2021)": (
        "table1", "grid", "fewer_evaluations", "suppressed", "retraining", "splices", "one_outlier",
        "outliers", "negative", "pixels",
    ),
    "Carballo's thesis, and Heskes et al. (2020)": (
        "seven_ways", "categories", "tree_shap", "several_models",
    ),
    "Lemaire et al. (2023)": ("naive_bayes", "naive_bayes_figures"),
    "Noé et al. (2024)": ("compositions", "one_against_rest"),
    "Molnar, Interpretable Machine Learning": ("two_forests",),
}  # fmt: skip
EXPERIMENTS = tuple(name for names in PAPERS.values() for name in names)
SPEED = (
    "peers", "leverage", "equal_time", "interactions", "amortized", "million", "accelerator",
    "training", "growth", "everyday", "engines", "exports", "pictures", "reviews", "vowels",
)  # fmt: skip
TRUTH = ("draws", "global_values", "row_intervals", "value_functions", "shared_error")
NAMES = [f"papers/{one}" for one in EXPERIMENTS] + [f"speed/{one}" for one in SPEED]
NAMES += [f"truth/{one}" for one in TRUTH]
FOLDERS = {kind: Path("benchmarks/results") for kind in ("speed", "truth")}
FOLDERS["papers"] = Path("docs/results")
INDEX = """# The papers' results

What the papers claim, beside what this package measured. Each page has the claims with the \
paper's figure, ours, and whether the claim holds, or why not. Where a paper states no bound, the \
bound is ours. Made by `python benchmarks/reproduce.py`.

```{toctree}
:hidden:
:glob:

*
```
"""


def experiment(name: str) -> report.Experiment:
    """The one of `papers/<name>`, `speed/<name>` or `truth/<name>`.

    Raises:
        ValueError: there is none of this name.
    """
    if name not in NAMES:
        raise ValueError(f"Expected an experiment among {', '.join(NAMES)} but got {name!r}.")
    return report.Experiment.of(import_module(f"benchmarks.{name.replace('/', '.')}"))


def reproduce(
    name: str,
    changes: Sequence[str] = (),
    quick: bool = False,
    figures: bool = False,
    out: Path | None = None,
) -> None:
    """Run one experiment, or make its page and plots again.

    Args:
        name: as in `papers/outliers`.
        changes: settings, as in `trees=50`.
        quick: whether to begin with the settings of the quick form.
        figures: whether to run nothing.
        out: folder of the result.
    """
    kind, _, short = name.partition("/")
    chosen = experiment(name)
    settings = cast(dict[str, Any], OmegaConf.to_container(OmegaConf.from_dotlist(list(changes))))
    folder = out or (Path("runs", kind) if quick else FOLDERS[kind])
    if figures:
        result = report.load(folder, short)
    else:
        words = [name, *(["--quick"] if quick else []), *changes]
        command = f"python benchmarks/reproduce.py {shlex.join(words)}"
        result = report.measured(chosen, chosen.chosen(quick, settings), command)
    report.save(chosen, folder, short, result)
    print(f"{folder / short}.md", flush=True)
    if kind == "papers":
        (folder / "index.md").write_text(index(folder))


def index(folder: Path) -> str:
    """A table per paper, of the results in a folder: how many claims hold."""
    parts = [INDEX]
    for paper, names in PAPERS.items():
        rows = []
        for name in names:
            if (folder / f"{name}.json").exists():
                one, result = experiment(f"papers/{name}"), report.load(folder, name)
                holds = [claim.holds for claim in one.claims(result["found"])]
                counts = f"{sum(holds)} of {len(holds)}"
                rows.append([f"[{one.title}]({name}.md)", counts, result["version"]])
        if rows:
            columns = ("experiment", "claims that hold", "measured by version")
            parts += [f"## {paper}\n", report.markdown(columns, rows)]
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="experiments, and settings as in `trees=50`")
    parser.add_argument("--quick", action="store_true", help="the quick form")
    parser.add_argument("--figures", action="store_true", help="from the result files alone")
    parser.add_argument("--out", type=Path, help="folder of the results")
    given = parser.parse_intermixed_args()
    changes = [word for word in given.words if "=" in word]
    names = [word for word in given.words if "=" not in word]
    try:
        for name in names or [f"papers/{one}" for one in EXPERIMENTS]:
            reproduce(name, changes, given.quick, given.figures, given.out)
    except (ValueError, OSError) as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
