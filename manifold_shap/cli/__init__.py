"""Runs the commands `train` and `explain`: composes settings, and words errors."""

import re
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

# In a wheel the files of settings lie in the package, in a checkout beside it.
_PACKAGE = Path(__file__).resolve().parents[1]
CONF = next(path for path in (_PACKAGE / "conf", _PACKAGE.parent / "conf") if path.is_dir())
# Exit status on Ctrl-C.
_INTERRUPTED = 130
# Errors that are told in one line, without where in the code they were raised.
_TOLD = (
    BrokenExecutor,
    ImportError,
    ValueError,
    TypeError,
    OSError,
    MemoryError,
    HydraException,
    OmegaConfBaseException,
)


def component(setting: str, name: Any) -> str:
    """A name of a directory inside another one, and no way out of it.

    Raises:
        ValueError: it is anything else.
    """
    taken = name in ("classifier", "classifiers") or str(name).endswith(".partial")
    if taken or not re.fullmatch(r"[^./\\:\0\s][^/\\:\0]*", str(name or "")):
        raise ValueError(
            f"Expected `{setting}` to be the name of one directory, without slashes and with no "
            f"dot in front, but got {name!r}; runs_dir=... says where runs lie."
        )
    return str(name)


OmegaConf.register_new_resolver(
    "stem", lambda path: Path(str(path).removesuffix(".gz")).stem, replace=True
)


@contextmanager
def reported() -> Iterator[list[str]]:
    """Print errors and warnings as one line each; gives the names of the settings of the user."""
    # Not `formatwarning`, which Lightning sets as well.
    before = warnings.showwarning
    warnings.showwarning = lambda message, *_: print(
        f"Warning: {_one_line(message)}", file=sys.stderr
    )
    try:
        yield _given()
    except KeyboardInterrupt as error:
        print(f"Interrupted. {_one_line(error)}".strip())
        sys.exit(_INTERRUPTED)
    except _TOLD as error:
        said = " ".join([str(error), *getattr(error, "__notes__", ())])
        sys.exit(f"{type(error).__name__}: {_one_line(said)}")
    finally:
        warnings.showwarning = before


def _given() -> list[str]:
    """Names of the settings on the command line.

    Raises:
        ValueError: two models are named.
    """
    overrides = HydraConfig.get().overrides.task
    names = [override.lstrip("+~").split("=")[0] for override in overrides]
    groups = {name.partition(".")[0] for name in names}
    if {"model", "classifier"} <= groups and "model=null" not in overrides:
        raise ValueError("Expected settings of a `model` or of a `classifier` but got both.")
    return names


def _one_line(message: object) -> str:
    return " ".join(str(message).split())


@hydra.main(config_path=str(CONF), config_name="train", version_base="1.3")
def main_train(cfg: Any) -> float:
    """`train.py`: the MSE on validation rows is what a sweeper minimises."""
    job = HydraConfig.get()
    sweep = Path(job.runtime.output_dir) if job.mode == RunMode.MULTIRUN else None
    with reported() as given:
        # Here, so that --help and a misspelled setting need not wait for it.
        from manifold_shap.cli.train import OBJECTIVE, train

        metrics = train(cfg, sweep, given)
        return metrics["mse" if sweep is None else OBJECTIVE]


@hydra.main(config_path=str(CONF), config_name="explain", version_base="1.3")
def main_explain(cfg: Any) -> None:
    """`explain.py`."""
    with reported() as given:
        from manifold_shap.cli.explain import explain

        explain(cfg, given)
