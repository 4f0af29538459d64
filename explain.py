"""Explain test rows with a trained value function: `python explain.py data=mnist`; see --help."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, ListConfig, OmegaConf

if TYPE_CHECKING:
    from manifold_shap.commands.run import Run
    from manifold_shap.values import ValueFunction

CONF = Path(__file__).parent / "conf"


def explain(cfg: DictConfig, given: list[str]) -> dict[str, Any]:
    """Explain what the configuration says; return what `summary.json` holds.

    Args:
        cfg: composed from `conf/explain.yaml`.
        given: names of the settings that the user gave, which must agree with the run.
    """
    # Here, so that --help and a misspelled setting need not wait for them.
    from manifold_shap.commands import directories
    from manifold_shap.commands import explain as steps
    from manifold_shap.commands.run import Run

    home = Path(cfg.runs_dir, cfg.data.name)
    kept = steps.recorded_data(home, plain(cfg.data), given)
    data = hydra.utils.instantiate(kept)
    data.setup()
    run = Run(
        data=data,
        settings={"data": kept, "seed": cfg.seed},
        directory=home / cfg.value_function.name,
        home=home,
        trainer={},
    )
    settings = plain(cfg.value_function)
    value, directory = steps.open_value(run, settings, given, cfg.checkpoint)
    values = {value.name: value, **compared(cfg.compare, run, value)}
    instances = cfg.instances if isinstance(cfg.instances, int) else list(cfg.instances)
    device = directories.pick_device(cfg.device)
    summary = steps.explain(
        {name: entry.to(device) for name, entry in values.items()},
        data,
        steps.test_rows(data, instances),
        partial(hydra.utils.instantiate(cfg.estimator, _partial_=True), progress=cfg.progress),
        directory,
    )
    print(f"{summary['seconds']:.1f} s for {value.name}; results and plots in {directory}")
    return summary


def compared(names: list[str], run: "Run", value: "ValueFunction") -> dict[str, "ValueFunction"]:
    """The value functions drawn beside this one, in its output space."""
    from manifold_shap.commands.explain import open_value

    others = {}
    for name in names:
        path = CONF / "value_function" / f"{name}.yaml"
        if not path.exists():
            known = sorted(entry.stem for entry in path.parent.glob("*.yaml"))
            raise ValueError(f"Expected `compare` to name some of {known} but got {name!r}.")
        if name != value.name:
            settings = {**plain(OmegaConf.load(path)), "output": value.space.name}
            others[name], _ = open_value(run, settings)
    return others


def plain(cfg: DictConfig | ListConfig) -> dict[str, Any]:
    """A configuration as nested dicts."""
    return cast(dict[str, Any], OmegaConf.to_container(cfg, resolve=True))


@hydra.main(config_path="conf", config_name="explain", version_base="1.3")
def main(cfg: DictConfig) -> None:
    overrides = HydraConfig.get().overrides.task
    given = [override.lstrip("+~").split("=")[0] for override in overrides]
    try:
        explain(cfg, given)
    except KeyboardInterrupt:
        print("Interrupted. Earlier results are as they were.")
        sys.exit(130)
    except (ValueError, TypeError, OSError) as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
