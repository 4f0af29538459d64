"""Starts what is to be killed: a process forked after the imports, or a fresh one."""

import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Seconds after which a process counts as hanging.
_PATIENCE = 300
# Seconds between two looks.
_TURN = 0.002


class Child:
    """A process, with what it says in a file.

    Args:
        pid: of a child of this process.
        said: the file.
    """

    def __init__(self, pid: int, said: Path) -> None:
        self.pid, self.said, self.began = pid, said, time.monotonic()
        self.status: int | None = None
        self._used = 0.0

    def send(self, sent: signal.Signals) -> None:
        """Send a signal, if the process is still there."""
        if self.poll() is None:
            os.kill(self.pid, sent)

    def poll(self) -> int | None:
        """The exit status as a shell has it, 128 + the number of a signal; None before the end."""
        if self.status is None:
            pid, status, used = os.wait4(self.pid, os.WNOHANG)
            if pid:
                self._used = used.ru_utime + used.ru_stime
                code = os.waitstatus_to_exitcode(status)
                self.status = code if code >= 0 else 128 - code
        return self.status

    @property
    def processor_seconds(self) -> float:
        """Seconds that it has computed so far; 0 where the system does not say."""
        stat = Path(f"/proc/{self.pid}/stat")
        if self.status is not None or not stat.exists():
            return self._used
        used = stat.read_text().rpartition(")")[2].split()[11:13]
        return sum(map(int, used)) / os.sysconf("SC_CLK_TCK")

    def wait(self) -> int:
        """Wait for the end; a process that hangs is killed, and raises.

        Raises:
            TimeoutError: there was none.
        """
        waited = 0
        while self.poll() is None:
            # By turns, not by a clock: this process may be stopped, too.
            if waited > _PATIENCE / _TURN:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                raise TimeoutError(f"no end after {_PATIENCE} s:\n{self.said.read_text()[-2000:]}")
            time.sleep(_TURN)
            waited += 1
        return self.status or 0


def forked(work: Callable[[], object], said: Path) -> Child:
    """Do work in a copy of this process, which has to have no locks held by other threads."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return Child(pid, said)
    status = 1
    try:
        _as_started(said)
        work()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if status and not isinstance(end.code, int):
            sys.stderr.write(f"{end.code}\n")
    except KeyboardInterrupt:
        traceback.print_exc()
        status = 128 + signal.SIGINT
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _as_started(said: Path) -> None:
    """What a started process has and a fork lacks: signals as usual, and outputs of its own."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    file = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(file, 1)
    os.dup2(file, 2)


def started(words: Sequence[str], said: Path) -> Child:
    """Start Python with these words."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with said.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, *words],
            cwd=ROOT,
            env=environment,
            stdout=file,
            stderr=file,
            # A script that runs in the background ignores interrupts; what it starts does, too.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
    process.returncode = 0  # It is waited for by its number.
    return Child(process.pid, said)
