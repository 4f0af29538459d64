"""Makes the executors among which streamed rows are shared: `conf/engine` names them."""

from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from multiprocessing import get_context
from pkgutil import resolve_name
from typing import Any


def executor(settings: Mapping[str, Any]) -> AbstractContextManager[Executor | None]:
    """The executor of an engine, which ends with the context; None for this process alone."""
    own = {name: entry for name, entry in settings.items() if name != "_target_"}
    return resolve_name(settings["_target_"])(**own)


def processes(workers: int) -> AbstractContextManager[Executor | None]:
    """Processes of this machine; with one worker, none beside this one."""
    return nullcontext() if workers == 1 else ProcessPoolExecutor(workers, get_context("spawn"))


@contextmanager
def dask(workers: int, address: str | None, seconds: float) -> Iterator[Executor]:
    """Workers of a Dask cluster.

    Args:
        workers: processes of a cluster on this machine, where no scheduler is named.
        address: of a scheduler.
        seconds: to wait for it, and then for its first worker.

    Raises:
        ImportError: Dask is not installed.
        OSError: no scheduler answers, or it has no workers.
    """
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise ImportError(
            "engine=dask needs the package distributed: pip install 'manifold_shap[dask]'."
        ) from error
    # One thread each, and no port for a page of figures.
    local = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "memory_limit": None}
    cluster = nullcontext(address) if address else LocalCluster(n_workers=workers, **local)
    with cluster as scheduler, Client(scheduler, timeout=seconds) as client:
        client.wait_for_workers(1, seconds)
        yield client.get_executor()
