"""Compares today's results with the stored ones, or replaces these.

    python -m tests.reference.make            # compare as the test does
    python -m tests.reference.make --exact    # compare bit for bit; on the same machine only
    python -m tests.reference.make --store    # replace the results, and print what has moved
    python -m tests.reference.make --weights  # train again, and replace weights and results

Rows and models stay as they are in `inputs.pt`. What `--store` prints goes into the message of the
commit that moves the numbers. Names of parts limit the first three to these.
"""

import argparse
import sys
import time
import warnings

import torch

from tests.learned import few_pairs
from tests.reference.cases import PARTS
from tests.reference.compare import (
    INPUTS,
    Result,
    apart,
    gaps_of,
    load,
    store_results,
    stored_results,
    tolerance,
)
from tests.reference.doors import results_of


def main() -> int:
    """0 where all results agree."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--exact", action="store_true", help="compare bit for bit")
    how.add_argument("--store", action="store_true", help="replace results, and print what moved")
    how.add_argument("--weights", action="store_true", help="train again, and replace all")
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join(PARTS)}; by default all")
    parser.add_argument("--threads", type=int, default=1, help="of torch; results are of one")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    warnings.filterwarnings("ignore")
    if asked.weights:
        _train_again()
    some = asked.parts or list(PARTS)
    with few_pairs():
        today = _results(some)
    if asked.store or asked.weights:
        return _store(today)
    return _compare(today, 0.0 if asked.exact else None)


def _results(parts: list[str]) -> dict[str, dict[str, Result]]:
    found, inputs = {}, load(INPUTS)
    for name in parts:
        start = time.process_time()
        found[name] = results_of(PARTS[name], inputs)
        seconds = time.process_time() - start
        print(f"{seconds:6.1f} CPU s  {len(found[name]):4d} results  {name}")
    return found


def _compare(today: dict[str, dict[str, Result]], most: float | None) -> int:
    """Print what is farther apart than it may be."""
    stored = stored_results()
    gaps = {
        f"{part}: {name}": far
        for part, results in today.items()
        for name, far in gaps_of(results, stored.get(part, {})).items()
    }
    moved = apart(gaps, most)
    for name, far in moved.items():
        print(f"{far:9.2e}  {name}")
    closest = {name: far for name, far in gaps.items() if name not in moved}
    name = max(closest, key=lambda name: closest[name] / tolerance(name))
    print(
        f"{len(gaps)} results: {sum(far == 0 for far in gaps.values())} equal bit for bit, "
        f"{len(moved)} apart, the closest to that by {closest[name]:.1e}, {name}"
    )
    return min(1, len(moved))


def _store(today: dict[str, dict[str, Result]]) -> int:
    """Replace the results, and print each that is apart, or new, or gone."""
    stored = stored_results()
    for part, results in today.items():
        for name, far in apart(gaps_of(results, stored.get(part, {}))).items():
            print(
                f"{part}: {name}: {_moved(stored.get(part, {}).get(name), results.get(name), far)}"
            )
    gone = stored.keys() - PARTS.keys()
    kept = {part: today.get(part, stored.get(part)) for part in PARTS}
    whole = {part: each for part, each in kept.items() if each is not None}
    store_results(whole)
    print(f"stored {sum(map(len, whole.values()))} results; parts that are gone: {sorted(gone)}")
    return 0


def _moved(old: Result | None, new: Result | None, far: float) -> str:
    """The old and the new number where they differ most."""
    if old is None or new is None:
        return "new" if old is None else "gone"
    if isinstance(old, str) or isinstance(new, str):
        return f"{old!r} -> {new!r}"
    if old.shape != new.shape:
        return f"shape {tuple(old.shape)} -> {tuple(new.shape)}"
    difference = (new.double() - old.double()).abs().nan_to_num(torch.inf).flatten()
    most = int(difference.argmax())
    return f"{old.flatten()[most]:.6g} -> {new.flatten()[most]:.6g} (relative {far:.1e})"


def _train_again() -> None:
    """Weights of everything that is learned, on the stored rows."""
    from tests.reference.learned import train_again

    inputs = load(INPUTS)
    train_again(inputs["weights"])
    torch.save(inputs, INPUTS)


if __name__ == "__main__":
    sys.exit(main())
