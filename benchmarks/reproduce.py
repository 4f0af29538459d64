"""Reproduce a claim of a paper: `python benchmarks/reproduce.py experiment=papers/outliers`.

An experiment is a configuration in `conf/experiment/papers/` and a module of the same name in
`benchmarks/papers/`, whose `run` takes its settings; `quick=true` takes those of its quick form.
The result, `<name>.json` and `<name>.png`, goes to `docs/results/`, and the page of all results,
`docs/results.md`, is written anew. Quick results go to `runs/papers/` instead. Long experiments
keep what they have finished in `runs/papers/parts/`, and go on from there.
"""

import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import hydra
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf

from benchmarks.papers import report

# In the order of the page.
EXPERIMENTS = (
    "table1",
    "suppressed",
    "retraining",
    "outliers",
    "negative",
    "pixels",
    "seven_ways",
    "naive_bayes",
    "compositions",
)


def reproduce(cfg: DictConfig) -> Path:
    """Run the experiment of a configuration; returns the folder of its result."""
    if cfg.get("name") not in EXPERIMENTS:
        names = ", ".join(f"papers/{name}" for name in EXPERIMENTS)
        raise ValueError(f"Expected `experiment` to be one of {names}; see conf/experiment/papers.")
    settings = cast(dict[str, Any], OmegaConf.to_container(cfg.settings, resolve=True))
    if cfg.quick:
        settings |= cast(dict[str, Any], OmegaConf.to_container(cfg.quick_settings, resolve=True))
    folder = Path(cfg.out or ("runs/papers" if cfg.quick else "docs/results"))
    start = time.perf_counter()
    found = import_module(f"benchmarks.papers.{cfg.name}").run(**settings)
    took = time.perf_counter() - start
    command = f"python benchmarks/reproduce.py experiment=papers/{cfg.name}"
    command += " quick=true" if cfg.quick else ""
    report.save(found, folder, cfg.name, command, settings, took)
    folder.with_suffix(".md").write_text(report.page(folder, EXPERIMENTS))
    print(f"{folder / cfg.name}.json, {folder.with_suffix('.md')}: {took:.0f} s")
    return folder


@hydra.main(config_path="../conf", config_name="reproduce", version_base="1.3")
def main(cfg: DictConfig) -> None:
    # Experiments compose the configurations of the commands themselves.
    GlobalHydra.instance().clear()
    try:
        reproduce(cfg)
    except (ValueError, TypeError, OSError) as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
