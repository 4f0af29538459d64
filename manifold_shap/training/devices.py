"""Starts the processes of a training on several devices, and ends them together."""

import os
import pickle
import socket
from collections.abc import Callable, Mapping
from multiprocessing.queues import SimpleQueue
from typing import Any, TypeVar, cast

from torch import distributed, multiprocessing

# Seconds that the others have to end by themselves, once one process has failed.
_GRACE = 5

# Why a process may have ended without an error message.
_HINTS = {
    "SIGKILL": ", as where memory is short",
    "exit status 1": "; a script that trains on several devices has all of its calls under "
    "`if __name__ == '__main__':`",
}


T = TypeVar("T")


def is_first() -> bool:
    """Whether this is the first, or the only one, of processes that `torchrun` and the like start.

    >>> is_first()
    True
    """
    return int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0"))) == 0


def broadcast_from_first(read: Callable[[], T]) -> T:
    """What a function returns, or raises, in the first of the processes of a training.

    >>> import os, tempfile
    >>> place = f"file://{tempfile.mktemp()}"
    >>> distributed.init_process_group("gloo", place, rank=0, world_size=1)
    >>> broadcast_from_first(lambda: "read")
    'read'
    >>> distributed.destroy_process_group()
    """
    outcome: list[Any] = [None, None]
    if distributed.get_rank() == 0:
        try:
            outcome[0] = read()
        except Exception as error:  # The others would wait for ever.
            outcome[1] = error
    distributed.broadcast_object_list(outcome)
    if outcome[1] is not None:
        raise outcome[1]
    return cast(T, outcome[0])


def on_devices(count: int, work: Callable[..., Any], *arguments: Any) -> Any:
    """What `work(*arguments)` returns in the first of several processes that do it together.

    They find each other by the variables of the environment that `torchrun` sets, too.

    Args:
        count: number of processes.
        work: a function of a module.
        arguments: of it; tensors are shared, not copied.

    Raises:
        ChildProcessError: one of the processes ended, or could not start.
        Exception: what `work` raised in the first process that failed.
    """
    context = multiprocessing.get_context("spawn")
    results: SimpleQueue[tuple[Any, BaseException | None]] = context.SimpleQueue()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "NODE_RANK": "0"}
    processes = multiprocessing.start_processes(
        _work, (environment, results, work, arguments), count, join=False, start_method="spawn"
    )
    end = _wait_for(processes)
    found, raised = (None, None) if results.empty() else results.get()
    if end is None or (found is not None and raised is None):
        return found
    raise _process_error(end) if raised is None or end.signal_name is not None else raised


def _process_error(end: multiprocessing.ProcessExitedException) -> ChildProcessError:
    how = end.signal_name or f"exit status {end.exit_code}"
    return ChildProcessError(
        f"Expected every process of the training to come to its end but number {end.error_index} "
        f"ended before ({how}{_HINTS.get(how, '')}). Checkpoints in `directory` stay, and the same "
        "call continues from the last."
    )


def _wait_for(processes: Any) -> multiprocessing.ProcessExitedException | None:
    """Wait for processes to end; returns how the first that failed ended, None where none did."""
    try:
        while not processes.join(grace_period=_GRACE):
            pass
    except multiprocessing.ProcessExitedException as error:
        return error
    finally:
        for process in processes.processes:
            if process.is_alive():  # Ctrl-C has reached them, too.
                process.join(_GRACE)
                process.kill()
    return None


def _work(
    rank: int,
    environment: Mapping[str, str],
    results: SimpleQueue[tuple[Any, BaseException | None]],
    work: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    os.environ.update(environment, LOCAL_RANK=str(rank))
    try:
        found = work(*arguments)
    except BaseException as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # An exception of another package whose arguments do not make it again.
            results.put((None, RuntimeError(f"{type(error).__name__}: {error}")))
        else:
            results.put((None, error))
        raise SystemExit(1) from None
    if rank == 0:
        results.put((found, None))
    if distributed.is_initialized():
        distributed.destroy_process_group()
