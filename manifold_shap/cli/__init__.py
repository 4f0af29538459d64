"""Runs the commands `train` and `explain`: composes settings, and tells errors in one line."""

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

# In a wheel the files of settings lie in the package, in a checkout beside it.
_PACKAGE = Path(__file__).resolve().parents[1]
CONF = next(path for path in (_PACKAGE / "conf", _PACKAGE.parent / "conf") if path.is_dir())
# Exit status on Ctrl-C.
_INTERRUPTED = 130

OmegaConf.register_new_resolver(
    "stem", lambda path: Path(str(path).removesuffix(".gz")).stem, replace=True
)


@contextmanager
def told() -> Iterator[None]:
    """Print errors and warnings as one line each; with HYDRA_FULL_ERROR=1 errors as they are."""
    before = warnings.showwarning
    # Not `formatwarning`, which Lightning sets as well.
    warnings.showwarning = lambda message, *_: print(
        f"Warning: {_one_line(message)}", file=sys.stderr
    )
    try:
        yield
    except KeyboardInterrupt as error:
        print(f"Interrupted. {_one_line(error)}".strip())
        sys.exit(_INTERRUPTED)
    except Exception as error:  # A model of the user's own may fail in any way.
        if os.environ.get("HYDRA_FULL_ERROR") == "1":
            raise
        notes = getattr(error, "__notes__", ())
        sys.exit(f"{type(error).__name__}: {_one_line(' '.join([str(error), *notes]))}")
    finally:
        warnings.showwarning = before


def _one_line(message: object) -> str:
    return " ".join(str(message).split())


@hydra.main(config_path=str(CONF), config_name="train", version_base="1.3")
def main_train(cfg: Any) -> float:
    """`train.py`: the MSE on validation rows is what a sweeper minimises."""
    with told():
        # Here, so that --help and a misspelled setting need not wait for it.
        from manifold_shap.cli.train import train

        metrics = train(cfg, HydraConfig.get())
    return metrics.get("mse_validation", metrics["mse"])


@hydra.main(config_path=str(CONF), config_name="explain", version_base="1.3")
def main_explain(cfg: Any) -> None:
    """`explain.py`."""
    with told():
        from manifold_shap.cli.explain import explain

        explain(cfg, HydraConfig.get())
