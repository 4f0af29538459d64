"""Says which faults tests find: `python -m tests.faults run NAME... [--tests PATH...]`.

Without names it tries all of them, or five with `--turn K`, others for the next K; without paths
the tests of the room of each. The exit status is 1 if one was missed.
"""

import argparse
import sys
import time

import pytest

from tests.faults.faults import FAULTS
from tests.faults.runner import run


def main() -> None:
    parser = argparse.ArgumentParser("python -m tests.faults", description=__doc__)
    parser.add_argument("command", choices=["list", "run"])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--tests", nargs="+", default=(), metavar="PATH")
    parser.add_argument("--turn", type=int, metavar="K")
    given = parser.parse_args()
    if unknown := set(given.names) - set(FAULTS):
        parser.error(f"no such faults: {', '.join(sorted(unknown))}; `list` names all")
    if given.command == "list":
        for name, fault in FAULTS.items():
            print(f"{fault.room:15} {name:40} {fault.target}")
        return
    words = {pytest.ExitCode.TESTS_FAILED: "found", pytest.ExitCode.OK: "missed"}
    missed = 0
    names = given.names or list(FAULTS)
    if given.turn is not None:
        names = [names[(5 * given.turn + k) % len(names)] for k in range(5)]
    for name in names:
        start = time.monotonic()
        done = run(name, given.tests)
        word = words.get(done.returncode, "no tests run")
        lines = done.stdout.splitlines()
        by = [line for line in lines if line.startswith(("FAILED", "ERROR"))][:1]
        end = by or (lines or done.stderr.splitlines())[-1:]
        print(f"{word:6} {name} ({time.monotonic() - start:.0f} s): {' '.join(end)}", flush=True)
        missed += word != "found"
    sys.exit(min(missed, 1))


if __name__ == "__main__":
    main()
