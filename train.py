"""Train a classifier and a value function: `python train.py data=mnist`; see --help."""

import sys
import warnings
from pathlib import Path
from typing import Any, cast

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

FAMILIES = Path(__file__).parent / "conf" / "value_function"


def train(cfg: DictConfig, sweep: Path | None = None) -> float:
    """Train what the configuration says and return the test MSE, for sweepers to minimise.

    Args:
        cfg: composed from `conf/train.yaml`.
        sweep: where one job of a multirun writes; by default runs have no place of their own.
    """
    # Here, so that --help and a misspelled setting need not wait for them.
    from manifold_shap.cli import directories
    from manifold_shap.cli.explainer import check_explained, train_explainer
    from manifold_shap.cli.opening import teacher_of
    from manifold_shap.cli.run import Run
    from manifold_shap.cli.train import train as train_run
    from manifold_shap.cli.value_functions import teacher_settings

    home = Path(cfg.runs_dir, cfg.data.name)
    directories.check_writable(home)
    data = hydra.utils.instantiate(cfg.data)
    data.setup()
    known = {path.stem: plain(OmegaConf.load(path)) for path in FAMILIES.glob("*.yaml")}
    teacher = teacher_settings(known, plain(cfg.value_function))
    run = Run(
        data=data,
        settings=plain(cfg),
        directory=sweep or home / cfg.value_function.name,
        home=home,
        trainer=plain(cfg.trainer),
        sweep=sweep is not None,
        overwrite=cfg.overwrite,
        progress=cfg.progress,
        teacher=None if teacher is None else teacher_of(home, teacher),
    )
    if "explainer" in cfg:
        check_explained(run)
    metrics = train_run(run, hydra.utils.instantiate(cfg.classifier))
    if "explainer" in cfg:
        train_explainer(run, plain(cfg.explainer))
    return metrics["mse"]


def plain(cfg: Any) -> dict[str, Any]:
    """A configuration as nested dicts, every setting resolved and none missing."""
    return cast(dict[str, Any], OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True))


@hydra.main(config_path="conf", config_name="train", version_base="1.3")
def main(cfg: DictConfig) -> float:
    job = HydraConfig.get()
    sweep = Path(job.runtime.output_dir) if job.mode == RunMode.MULTIRUN else None
    try:
        from manifold_shap.cli.report import show_warning

        # Not `formatwarning`, which Lightning sets as well.
        warnings.showwarning = show_warning
        return train(cfg, sweep)
    except KeyboardInterrupt:
        print(
            "Interrupted. What was finished is kept, and so is the best checkpoint of a training, "
            "if there is one: explain.py can use it, and the same command goes on from here."
        )
        sys.exit(130)
    except (ValueError, TypeError, OSError) as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
