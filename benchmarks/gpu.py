"""All figures that need a GPU, in one call: `python benchmarks/gpu.py`, or with `--quick`.

Runs the tests that compare CUDA with the CPU, then the experiments that make sense on one GPU, and
writes pages to `benchmarks/results/gpu`. Without a CUDA device it says so and ends.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.reproduce import reproduce

FOLDER = Path("benchmarks/results/gpu")
# With their settings on a GPU.
EXPERIMENTS = {
    "speed/accelerator": [],
    "speed/amortized": ["device=cuda"],
}


def counted(words: Sequence[str]) -> dict[str, int]:
    """How many of these tests passed, failed and so on; what failed is printed.

    Raises:
        RuntimeError: pytest could not run them.
    """
    command = [sys.executable, "-m", "pytest", "-q", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"pytest ended with status {done.returncode}: {done.stdout[-2000:]}")
    lines = done.stdout.splitlines()
    print("\n".join(line for line in lines if line.startswith(("FAILED", "ERROR"))), flush=True)
    return {
        what: int(count) for count, what in re.findall(r"(\d+) (passed|failed|errors?)", lines[-1])
    }


def main(words: Sequence[str] | None = None) -> int:
    """Everything; the exit status is 1 where a test failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the quick forms, and no slow tests")
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of the results")
    given = parser.parse_args(words)
    if not torch.cuda.is_available():
        print("No CUDA device here: nothing was measured. `make test` has what is known without.")
        return 0
    name = torch.cuda.get_device_name()
    counts = counted(["tests", "-m", "gpu and not slow" if given.quick else "gpu"])
    given.out.mkdir(parents=True, exist_ok=True)
    text = ", ".join(f"{count} {what}" for what, count in counts.items())
    (given.out / "tests.md").write_text(
        f"# Tests on {name}\n\n{text}; torch {torch.__version__}.\n"
    )
    print(f"{name}: {text}", flush=True)
    for experiment, settings in EXPERIMENTS.items():
        reproduce(experiment, settings, given.quick, out=given.out)
    return int(set(counts) != {"passed"})


if __name__ == "__main__":
    sys.exit(main())
