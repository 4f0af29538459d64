"""Runs the commands `train` and `explain`: composes settings, words errors, sets exit statuses."""

import atexit
import errno
import functools
import gc
import hashlib
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, TextIO

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, MissingConfigException
from hydra.types import RunMode
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from manifold_shap._messages import check_text, closest
from manifold_shap.cli.signals import INTERRUPTED, install_handlers
from manifold_shap.data.findings import TableError

# In a wheel the files of settings lie in the package, in a checkout beside it.
_PACKAGE = Path(__file__).resolve().parents[1]
CONF = next(path for path in (_PACKAGE / "conf", _PACKAGE.parent / "conf") if path.is_dir())
# Groups whose settings are arguments of other packages: any more of them can be added.
_OPEN = ("classifier.", "trainer.")
_TABLE = "manifold_shap.data.TableFile"
# Bytes, of 255 that most disks take: names beside the directory have more in them.
_LONGEST_NAME = 180
# How often a thread looks whether the others are done before it sleeps: some microseconds.
_SPINS = "1000"


def home(runs_dir: Any, data: Any) -> Path:
    """The directory of all runs on a data set.

    Raises:
        TypeError, ValueError: it would not be a directory in `runs_dir`.
    """
    return Path(check_text("runs_dir", runs_dir), component("data.name", data))


def component(setting: str, name: Any) -> str:
    """A name of a directory inside another one, and no way out of it.

    Raises:
        ValueError: it is anything else.
    """
    is_name = isinstance(name, str) and bool(re.fullmatch(r"[^./\\:\0\s][^/\\:\0]*", name))
    if not is_name or name in ("classifier", "classifiers") or name.endswith(".partial"):
        raise ValueError(
            f"Expected `{setting}` to be the name of one directory, without slashes and with no "
            f"dot in front, but got {name!r}; runs_dir=... says where runs lie."
        )
    return name


def _sweep_dir(runs_dir: Any, data: Any, value_function: Any) -> str:
    """Where the jobs of a sweep lie. Hydra writes there before a run has checked its settings."""
    name = component("value_function.name", value_function)
    return str(home(runs_dir, data) / f"{name}-sweep")


def _job_name(settings: str) -> str:
    """A name for the directory of a job of a sweep: its settings, or as many as a name can hold."""
    name = re.sub(r"[/\\]", "_", settings).encode()
    if len(name) <= _LONGEST_NAME and name == settings.encode():
        return settings
    # Of settings that differ beyond that, or in a slash only.
    told = hashlib.sha256(settings.encode()).hexdigest()[:8]
    return f"{name[:_LONGEST_NAME].decode(errors='ignore')}-{told}"


OmegaConf.register_new_resolver(
    "stem", lambda path: Path(str(path).removesuffix(".gz")).stem, replace=True
)
OmegaConf.register_new_resolver("sweep_dir", _sweep_dir, replace=True)
OmegaConf.register_new_resolver("job_name", _job_name, replace=True)


def choices(group: str) -> list[str]:
    """Names of the files of settings of a group."""
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


def command(name: str) -> Callable[[Callable[[Any], Any]], Callable[[], None]]:
    """Make a command of a function of the settings in `conf/<name>.yaml`.

    Errors are one line, and the exit status is then 1; on Ctrl-C it is 130, and on SIGTERM 143, at
    once.
    """

    def decorate(task: Callable[[Any], Any]) -> Callable[[], None]:
        @functools.wraps(task)
        def main() -> None:
            install_handlers()
            _share_cores()
            atexit.register(_end_soon)
            # Hydra then raises its errors instead of printing them over several lines.
            os.environ.setdefault("HYDRA_FULL_ERROR", "1")
            try:
                _check_typed(name)
                hydra.main(config_path=str(CONF), config_name=name, version_base="1.3")(task)()
            except (Exception, KeyboardInterrupt) as error:
                _exit_if_interrupted(error)
                if isinstance(error, (HydraException, OmegaConfBaseException)):
                    sys.exit(_error_in_one_line(error, name))
                raise

        return main

    return decorate


def _end_soon() -> None:
    """Keep Python from looking for garbage among all that was imported, for a second."""
    # Triton's bindings would call all that is not freed a leak.
    if "triton" not in sys.modules:
        gc.freeze()


def _share_cores() -> None:
    """Let threads that wait for each other sleep soon; before torch is imported, which reads it.

    OpenMP of GNU, that of torch on Linux, otherwise has them spin for milliseconds. Where other
    processes want the cores, too, those that are waited for do not run meanwhile: a training by two
    threads on two busy cores took four times as long as alone, and so takes about twice.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", _SPINS)


def _exit_if_interrupted(error: BaseException) -> None:
    """End on Ctrl-C, and on errors of code that it hit where this was not expected."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, KeyboardInterrupt):
            print(f"Interrupted. {_one_line(cause)}".strip())
            sys.exit(INTERRUPTED)
        cause = cause.__context__


def _check_typed(config: str) -> None:
    """Say what to type to those who leave the name of a setting out, or put dashes before it."""
    listed: Any = OmegaConf.load(CONF / f"{config}.yaml")
    groups = sorted(path.name for path in CONF.iterdir() if path.is_dir())
    for before, word, after in zip(sys.argv, sys.argv[1:], [*sys.argv[2:], ""], strict=False):
        key, _, value = word.lstrip("-").partition("=")
        meant = [group for group in groups if word in choices(group)]
        if word.startswith("--") and (key in groups or key in listed):
            typed = f"{key}={value or after or '...'}"
        elif meant and not before.startswith("-"):
            typed = f"{meant[0]}={word}"
        else:
            continue
        sys.exit(f"Expected settings as key=value but got {word!r}; type {typed} instead.")


@contextmanager
def reported() -> Iterator[list[str]]:
    """Print errors and warnings as one line each; gives the names of the settings of the user.

    Of a table, each problem has a line.
    """
    # Not `formatwarning`, which Lightning sets as well.
    before, warnings.showwarning = warnings.showwarning, _show_warning
    try:
        yield _given()
    except KeyboardInterrupt as error:
        _exit_if_interrupted(error)
    except TableError as error:
        sys.exit(str(error))
    except (
        BrokenExecutor,
        ImportError,
        ValueError,
        TypeError,
        OSError,
        MemoryError,
        HydraException,
        OmegaConfBaseException,
    ) as error:
        _exit_if_interrupted(error)
        said = " ".join([str(error), *getattr(error, "__notes__", ())])
        if isinstance(error, OmegaConfBaseException):
            sys.exit(f"Expected settings that can be read but: {_one_line(said)}; correct them.")
        is_full = isinstance(error, OSError) and error.errno == errno.ENOSPC
        if is_full and "runs_dir" not in said and "free some space" not in said:
            said += "; free some space, or choose another place with runs_dir=..."
        sys.exit(f"{type(error).__name__}: {_one_line(said)}")
    finally:
        warnings.showwarning = before


def _given() -> list[str]:
    """Names of the settings on the command line.

    Raises:
        ValueError: one was to be added or taken away where there is no use for that; or two
            models are named.
    """
    overrides = HydraConfig.get().overrides.task
    names = [override.lstrip("+~").split("=")[0] for override in overrides]
    for override, name in zip(overrides, names, strict=True):
        if override[0] in "+~" and not name.startswith(_OPEN):
            raise ValueError(_unknown(name, str(HydraConfig.get().job.config_name)))
    groups = {name.partition(".")[0] for name in names}
    if {"model", "classifier"} <= groups and "model=null" not in overrides:
        raise ValueError(
            "Expected settings of a `model` of your own, or of a `classifier` that is trained, but "
            "got both; leave one out."
        )
    return names


def _unknown(name: str, config: str) -> str:
    known = _known(config)
    if name in known:
        return f"Expected a setting as {name}=value but got {name!r} with + or ~; leave that out."
    return (
        f"Expected settings among those that --help lists but got {name!r}"
        f"{closest(name, known) or closest(name.split('.')[-1], known) or '.'}"
    )


def _known(config: str) -> list[str]:
    """All groups, and the settings by their full names that there are with the groups chosen."""
    listed: Any = OmegaConf.load(CONF / f"{config}.yaml")
    groups = [key for entry in listed.defaults if OmegaConf.is_dict(entry) for key in entry]
    names = [group for group in groups if (CONF / group).is_dir()]
    words = [word.partition("=") for word in sys.argv[1:]]
    chosen = [f"{key}={to}" for key, _, to in words if key in names and to in choices(key)]
    GlobalHydra.instance().clear()
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        found: list[Any] = [hydra.compose(config, chosen)]
    for cfg in found:
        keys = [key for key in cfg if not str(key).startswith("_")]
        names.extend(cfg._get_full_key(key) for key in keys)
        found.extend(cfg._get_node(key) for key in keys if OmegaConf.is_dict(cfg._get_node(key)))
    return names


def _error_in_one_line(error: Exception, config: str) -> str:
    """An error of Hydra's in one line."""
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, option = str(error.missing_cfg_file).rpartition("/")
        known = choices(group)
        return f"Expected {group} to be one of {known} but got {option!r}{closest(option, known)}"
    # What a resolver of this module refuses.
    refused = re.match(r"(\w+) raised while resolving interpolation: (.*)", str(error))
    if refused:
        return f"{refused[1]}: {refused[2]}"
    unknown = re.search(
        r"Could not (?:override|delete|append to config)[^']*'([^'=@]+)", str(error)
    )
    if unknown:
        return _unknown(unknown[1], config)
    return f"Expected settings as key=value but: {' '.join(str(error).split())}"


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    print(f"Warning: {_one_line(message)}", file=file or sys.stderr)


def _one_line(message: object) -> str:
    """A message in one line, with flags as they are typed here."""
    return " ".join(str(message).split()).replace("resume=True", "resume=true")


def _read_first(cfg: Any) -> None:
    """Read a table of one's own, and say what is wrong with it before torch is imported."""
    data = cfg.data
    if data.get("_target_") != _TABLE or OmegaConf.is_missing(data, "path"):
        return
    if data.target is None and cfg.get("model") is None:
        raise ValueError(
            "Expected data.target=..., the column that a model is to be trained to predict, or "
            "model=file model.path=... with a model of your own, but got neither."
        )
    from manifold_shap.data.reading import TableReader

    settings: Any = OmegaConf.to_container(data, resolve=True)
    known = [field.name for field in fields(TableReader)]
    read = TableReader(**{name: settings[name] for name in known}).read()
    for line in (read.about, *(f"Note: {remark}" for remark in read.remarks)):
        print(line)


@command("train")
def main_train(cfg: Any) -> float:
    """`train.py`: the MSE on validation rows is what a sweeper minimises."""
    job = HydraConfig.get()
    sweep = Path(job.runtime.output_dir) if job.mode == RunMode.MULTIRUN else None
    with reported() as given:
        _read_first(cfg)
        # Here, so that --help and a misspelled setting need not wait for it.
        from manifold_shap.cli.train import OBJECTIVE, train

        metrics = train(cfg, sweep, given)
        return metrics["mse" if sweep is None else OBJECTIVE]


@command("explain")
def main_explain(cfg: Any) -> None:
    """`explain.py`."""
    with reported() as given:
        from manifold_shap.cli.explain import explain

        explain(cfg, given)
