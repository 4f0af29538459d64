"""Explain test rows with a trained value function: `python explain.py data=mnist`; see --help."""

import sys
import warnings
from contextlib import nullcontext, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any, cast

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

FAMILIES = Path(__file__).parent / "conf" / "value_function"


def explain(cfg: DictConfig, given: list[str]) -> dict[str, Any]:
    """Explain what the configuration says; return what `summary.json` holds.

    Args:
        cfg: composed from `conf/explain.yaml`.
        given: names of the settings that the user gave, which must agree with the run.
    """
    # Here, so that --help and a misspelled setting need not wait for them.
    from manifold_shap.cli import explain as steps
    from manifold_shap.cli.many_rows import ManyRows
    from manifold_shap.cli.on_simplex import OnSimplex
    from manifold_shap.cli.opening import open_value
    from manifold_shap.cli.orders import Orders
    from manifold_shap.cli.value_functions import defaults

    home, settings = Path(cfg.runs_dir, cfg.data.name), plain(cfg)
    orders = Orders(settings["ordering"], settings["asymmetric"], settings["confounding"])
    simplex = OnSimplex(
        settings["basis"], settings["balances"], log_ratio_of_mean=settings["log_ratio_of_mean"]
    )
    name = cfg.value_function.name
    steps.check_takes_ordering(hydra.utils.get_method(cfg.estimator._target_), orders)
    names = steps.drawn_names(settings["compare"], name)
    known = {path.stem: plain(OmegaConf.load(path)) for path in FAMILIES.glob("*.yaml")}
    others = {other: defaults(known, other) for other in names if other != name}
    recipe = {key: settings[key] for key in ("data", "classifier")}
    kept = steps.recorded_data(home, recipe, given, cfg.checkpoint)
    data = hydra.utils.get_class(cfg.data._target_)(**kept)
    data.setup()
    begin = partial(open_value, home, data, seed=cfg.seed)
    opened = begin(settings["value_function"], given=given, checkpoint=cfg.checkpoint)
    values = {name: opened.value}
    for other, own in others.items():
        values[other] = begin(own, source=opened.source, space=opened.value.space).value
    seed = settings["estimator"].get("seed", cfg.seed)
    many = ManyRows(cfg.block, seed, cfg.resume, settings["trainer"], cfg.progress)
    instances = settings["instances"]
    if "instances" not in given:
        instances = min(instances, len(data.x_test))
    device = steps.pick_device(cfg.device)
    summary = steps.explain(
        steps.in_precision({which: values[which].to(device) for which in names}, cfg.precision),
        opened,
        steps.test_rows(data, instances),
        partial(hydra.utils.instantiate(cfg.estimator, _partial_=True), progress=cfg.progress),
        orders,
        simplex,
        many,
    )
    if not summary:  # This process was started by another one, which has all that there is to say.
        return summary
    took = f"{summary['seconds']:.1f} s for {name} ({summary['estimator']})"
    print(f"{took}; results and plots in {opened.directory}")
    return summary


def _say_nothing(*_: Any, **__: Any) -> None:
    """A warning that the first process gives, too."""


def plain(cfg: Any) -> dict[str, Any]:
    """A configuration as nested dicts."""
    return cast(dict[str, Any], OmegaConf.to_container(cfg, resolve=True))


@hydra.main(config_path="conf", config_name="explain", version_base="1.3")
def main(cfg: DictConfig) -> None:
    overrides = HydraConfig.get().overrides.task
    given = [override.lstrip("+~").split("=")[0] for override in overrides]
    try:
        from manifold_shap.cli.many_rows import is_first_process
        from manifold_shap.cli.report import show_warning

        # Not `formatwarning`, which Lightning sets as well.
        warnings.showwarning = show_warning if is_first_process() else _say_nothing
        with nullcontext() if is_first_process() else redirect_stdout(None):
            explain(cfg, given)
    except KeyboardInterrupt as error:
        print(f"Interrupted. Earlier results are as they were. {error}".strip())
        sys.exit(130)
    except (ValueError, TypeError, OSError) as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
