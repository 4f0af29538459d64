"""Explain test rows with a trained value function: `python explain.py data=mnist`; see --help."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, ListConfig, OmegaConf

if TYPE_CHECKING:
    import torch

CONF = Path(__file__).parent / "conf"


def explain(cfg: DictConfig, given: list[str]) -> dict[str, Any]:
    """Explain what the configuration says; return what `summary.json` holds.

    Args:
        cfg: composed from `conf/explain.yaml`.
        given: names of the settings that the user gave, which must agree with the run.
    """
    # Here, so that --help and a misspelled setting need not wait for them.
    from manifold_shap.commands import explain as steps

    home = Path(cfg.runs_dir, cfg.data.name)
    current = {"data": plain(cfg.data), "classifier": plain(cfg.classifier)}
    kept = steps.recorded_data(home, current, given, cfg.checkpoint)
    data = hydra.utils.get_class(cfg.data._target_)(**kept)
    data.setup()
    open_value = partial(steps.open_value, home, data, seed=cfg.seed)
    value, directory = open_value(plain(cfg.value_function), given=given, checkpoint=cfg.checkpoint)
    values = {value.name: value}
    for name in other_names(cfg.compare, value.name):
        settings = plain(OmegaConf.load(CONF / "value_function" / f"{name}.yaml"))
        values[name], _ = open_value({**settings, "output": value.space}, model=value.model)
    instances = plain(cfg)["instances"]
    if "instances" not in given:
        instances = min(instances, len(data.x_test))
    device = pick_device(cfg.device)
    summary = steps.explain(
        {name: entry.to(device) for name, entry in values.items()},
        data,
        steps.test_rows(data, instances),
        partial(hydra.utils.instantiate(cfg.estimator, _partial_=True), progress=cfg.progress),
        directory,
    )
    print(f"{summary['seconds']:.1f} s for {value.name}; results and plots in {directory}")
    return summary


def other_names(names: str | list[str] | None, name: str) -> list[str]:
    """Names of the value functions to draw beside the one of this name."""
    listed = [names] if isinstance(names, str) else list(names or [])
    known = sorted(path.stem for path in (CONF / "value_function").glob("*.yaml"))
    for other in listed:
        if other not in known:
            raise ValueError(f"Expected `compare` to name some of {known} but got {other!r}.")
    return [other for other in listed if other != name]


def pick_device(name: str) -> "torch.device":
    """The device of this name; `auto` is CUDA where there is one."""
    import torch

    available = torch.cuda.is_available()
    if name == "auto":
        return torch.device("cuda" if available else "cpu")
    if name != "cpu" and not (available and name.startswith("cuda")):
        raise ValueError(
            f"Expected `device` to be cpu, auto, or cuda where torch finds one ({available}), but "
            f"got {name!r}."
        )
    return torch.device(name)


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
