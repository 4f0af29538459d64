"""Reproduce a claim of a paper: `python benchmarks/reproduce.py experiment=papers/outliers`.

An experiment is a configuration in `conf/experiment/papers/` and a module of the same name in
`benchmarks/papers/`, whose `run` takes its `settings`. With `quick=true` those in `quick_settings`
take the place of their namesakes, unless the command line names these, as `settings.seeds=[0]`.

The result, `<name>.json` and `<name>.png`, goes to `docs/results/`, and the page of all results,
`docs/results.md`, is written anew. Quick results go to `runs/papers/` instead. Long experiments
keep what they have finished in `runs/papers/parts/`, and go on from there.
"""

import inspect
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
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


def reproduce(cfg: DictConfig, words: Sequence[str] = ()) -> Path:
    """Run the experiment of a configuration; returns the folder of its result.

    Args:
        cfg: the configuration.
        words: of the command line, for the record; by default those that name the experiment.
            With `cfg.quick`, settings that they name stay.

    Raises:
        ValueError: no experiment of `EXPERIMENTS`, or other settings than those of its `run`.
    """
    if cfg.get("name") not in EXPERIMENTS:
        names = ", ".join(f"papers/{name}" for name in EXPERIMENTS)
        raise ValueError(f"Expected `experiment` to be one of {names}; see conf/experiment/papers.")
    settings = _settings(cfg, words)
    run = import_module(f"benchmarks.papers.{cfg.name}").run
    _check_settings(run, settings)
    folder = Path(cfg.out or ("runs/papers" if cfg.quick else "docs/results"))
    start = time.perf_counter()
    found = run(**settings)
    took = time.perf_counter() - start
    said = [word for word in words if not word.startswith("out=")] or [
        f"experiment=papers/{cfg.name}"
    ]
    command = f"python benchmarks/reproduce.py {shlex.join(said)}"
    report.save(found, folder, cfg.name, command, settings, took)
    page = folder.with_name(f"{folder.name}.md")
    report.write(page, report.page(folder, EXPERIMENTS))
    print(f"{folder / cfg.name}.json, {page}: {took:.0f} s")
    return folder


def _settings(cfg: DictConfig, words: Sequence[str]) -> dict[str, Any]:
    settings = cast(dict[str, Any], OmegaConf.to_container(cfg.settings, resolve=True))
    if cfg.quick:
        quick = cast(dict[str, Any], OmegaConf.to_container(cfg.quick_settings, resolve=True))
        settings |= {key: entry for key, entry in quick.items() if key not in _named(words)}
    return settings


def _named(words: Sequence[str]) -> set[str]:
    """Settings that the command line names, one by one or as a dictionary."""
    named: set[str] = set()
    for override in OverridesParser.create().parse_overrides(list(words)):
        group, _, key = override.key_or_group.partition(".")
        if group == "settings":
            named |= {key} if key else set(cast(Mapping[str, Any], override.value()))
    return named


def _check_settings(run: Callable[..., report.Report], settings: Mapping[str, Any]) -> None:
    expected = inspect.signature(run)
    try:
        expected.bind(**settings)
    except TypeError as error:
        known = ", ".join(expected.parameters)
        raise ValueError(f"Expected the settings {known} but {error}.") from error


@hydra.main(config_path="../conf", config_name="reproduce", version_base="1.3")
def main(cfg: DictConfig) -> None:
    words = HydraConfig.get().overrides.task
    # Experiments compose the configurations of the commands themselves.
    GlobalHydra.instance().clear()
    try:
        reproduce(cfg, words)
    except (ValueError, OSError) as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
