"""Compares today's results with the stored ones, or replaces these.

    python -m tests.reference.make            # compare as the test does
    python -m tests.reference.make --exact    # compare bit for bit; on the same machine only
    python -m tests.reference.make --store    # replace the results
    python -m tests.reference.make --weights  # train again, and replace weights and results

Rows and models stay as they are in `inputs.pt`. What this prints goes into the message of the
commit that moves the numbers.
"""

import argparse
import sys
import warnings

import torch
from safetensors.torch import save_file
from torch import Tensor

from tests.learned import few_pairs
from tests.reference.cases import PARTS
from tests.reference.compare import OUTPUTS, apart, stored
from tests.reference.learned import train_again
from tests.reference.results import results_of


def main() -> int:
    """0 where all results agree, or have been replaced."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for how, does in (("exact", "compare bit for bit"), ("store", "replace results")):
        parser.add_argument(f"--{how}", action="store_true", help=does)
    parser.add_argument("--weights", action="store_true", help="train again, and replace all")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    if asked.weights:
        train_again()
    count, whole, moved = 0, {}, 0
    for part, make in PARTS.items():
        with few_pairs():
            today = results_of(make)
        before = stored(part) if OUTPUTS.exists() else {}
        gaps = apart(today, before, 0.0 if asked.exact else None)
        for name, far in gaps.items():
            print(f"{far:9.2e}  {part}: {name}: {_moved(before.get(name), today.get(name))}")
        count, moved = count + len(today), moved + len(gaps)
        whole |= {f"{part}: {name}": each for name, each in today.items()}
    print(f"{count} results, {moved} apart")
    if asked.store or asked.weights:
        save_file(whole, OUTPUTS)
        return 0
    return min(1, moved)


def _moved(old: Tensor | None, new: Tensor | None) -> str:
    """The old and the new number where they differ most."""
    if old is None or new is None:
        return "new" if old is None else "gone"
    if old.dtype == torch.uint8:
        return f"{bytes(old.tolist()).decode()!r} -> {bytes(new.tolist()).decode()!r}"
    if old.shape != new.shape:
        return f"shape {tuple(old.shape)} -> {tuple(new.shape)}"
    most = (new.double() - old.double()).abs().nan_to_num(torch.inf).argmax()
    return f"{old.flatten()[most]:.6g} -> {new.flatten()[most]:.6g}"


if __name__ == "__main__":
    sys.exit(main())
