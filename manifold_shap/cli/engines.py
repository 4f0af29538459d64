"""Makes the executors among which streamed rows are shared: `conf/engine` names them."""

from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from multiprocessing import get_context
from typing import Any

from manifold_shap._checks import check_number, check_whole
from manifold_shap._messages import check_text
from manifold_shap.cli import registry


def check(settings: Mapping[str, Any]) -> None:
    """Raise TypeError or ValueError at settings of an engine that cannot be."""
    check_whole("engine.workers", settings["workers"])
    if settings.get("address") is not None:
        check_text("engine.address", settings["address"])
    if "seconds" in settings:
        check_number("engine.seconds", settings["seconds"], above=0)


def executor(settings: Mapping[str, Any]) -> AbstractContextManager[Executor | None]:
    """The executor of an engine, which ends with the context; None for this process alone."""
    own = {name: entry for name, entry in settings.items() if name != "_target_"}
    return registry.code(settings["_target_"])(**own)


@contextmanager
def processes(workers: int) -> Iterator[Executor | None]:
    """Processes of this machine; with one worker, none beside this one."""
    if workers == 1:
        yield None
        return
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        yield pool


@contextmanager
def dask(workers: int, address: str | None, seconds: float | int) -> Iterator[Executor]:
    """Workers of a Dask cluster.

    Args:
        workers: processes of a cluster on this machine, where no scheduler is named.
        address: of a scheduler.
        seconds: to wait for it, and then for its first worker.

    Raises:
        ImportError: Dask is not installed.
        TimeoutError: no scheduler answers, or it has no workers.
    """
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise ImportError(
            "engine=dask needs the package distributed: pip install 'manifold_shap[dask]'."
        ) from error
    if address is None:
        # One thread each, and no port for a page of figures.
        local = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "memory_limit": None}
        with LocalCluster(n_workers=workers, **local) as cluster, Client(cluster) as client:
            yield client.get_executor()
        return
    try:
        client = Client(address, timeout=seconds)
    except (OSError, ValueError) as error:
        raise TimeoutError(
            f"Expected a Dask scheduler at engine.address={address} but none has answered in "
            f"engine.seconds={seconds}: {error}. `dask scheduler` starts one; without an address a "
            "cluster on this machine is started."
        ) from error
    with client:
        try:
            client.wait_for_workers(1, seconds)
        except TimeoutError as error:
            raise TimeoutError(
                f"Expected the Dask scheduler at engine.address={address} to have workers but none "
                f"has joined in engine.seconds={seconds}; `dask worker {address}` starts one."
            ) from error
        yield client.get_executor()
