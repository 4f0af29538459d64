"""Runs the commands `train` and `explain`: composes settings, and tells errors in one line."""

import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import OverrideParseException
from omegaconf import OmegaConf

# In a wheel the files of settings lie in the package, in a checkout beside it.
_PACKAGE = Path(__file__).resolve().parents[1]
CONF = next(path for path in (_PACKAGE / "conf", _PACKAGE.parent / "conf") if path.is_dir())
# Exit status on Ctrl-C.
_INTERRUPTED = 130
# Whether a user asked for errors as they are. Hydra is told so in any case, see `_run`.
_AS_THEY_ARE = os.environ.get("HYDRA_FULL_ERROR") == "1"

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
        if _AS_THEY_ARE:
            raise
        notes = list(getattr(error, "__notes__", ()))
        if isinstance(error, OverrideParseException):
            notes.append(f"Read {error.override}; a value with `=` needs quotes: \"key='a=b'\".")
        said = f"{type(error).__name__}: {_one_line(' '.join([str(error), *notes]))}"
        # Of a setting that others refer to, Hydra names one of these.
        if missing := re.search(r"Missing mandatory value.*?: (\w+\.\S+)", said):
            said = (
                f"Expected a value of the setting {missing[1]} but got none; add {missing[1]}=..."
            )
        sys.exit(said)
    finally:
        warnings.showwarning = before


def _one_line(message: object) -> str:
    return " ".join(str(message).split())


def _run(command: str, task: Callable[[Any], Any]) -> None:
    # Then Hydra raises its errors, instead of printing them over twenty lines.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    with told():
        hydra.main(str(CONF), command, "1.3")(task)()


def _train(cfg: Any) -> float:
    with told():
        # Here, so that --help and a misspelled setting need not wait for it.
        from manifold_shap.cli.train import train

        metrics = train(cfg, HydraConfig.get())
    return metrics.get("mse_validation", metrics["mse"])


def _explain(cfg: Any) -> None:
    with told():
        from manifold_shap.cli.explain import explain

        explain(cfg, HydraConfig.get())


def main_train() -> None:
    """`train.py`: the MSE on validation rows is what a sweeper minimises."""
    _run("train", _train)


def main_explain() -> None:
    """`explain.py`."""
    _run("explain", _explain)
