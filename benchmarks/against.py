"""Is this checkout as fast as another one? CPU time of the same work, in both, in turn.

    python benchmarks/speed/against.py --against ../other-checkout
    python benchmarks/speed/against.py --against ../other-checkout --repeats 5 permutation kernel

Each checkout has a process of its own, of one thread, that imports the package from there, trains
the same small value functions by the public functions that both have, and then does a work whenever
it is told to. Works alternate between both, which of them begins alternates, too, and CPU time is
what counts. A line has the medians of both, and the median ratio with a 95 % interval, by
resampling the repeats. A work is slower by more than noise where that interval lies above
1 + `--tolerance`; then the exit code is 1.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

NAMES = "exact permutation kernel coalition gaussian empirical bank training streaming compositions"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="name", help=f"of: {NAMES}")
    parser.add_argument("--against", type=Path, help="the other checkout; without one, serve")
    parser.add_argument("--repeats", type=int, default=15, help="of each work in each checkout")
    parser.add_argument("--tolerance", type=float, default=0.02, help="a ratio may exceed 1 by it")
    given = parser.parse_args()
    if given.against is None:
        return serve()
    names = given.names or NAMES.split()
    if unknown := sorted(set(names) - set(NAMES.split())):
        parser.error(f"expected names among {NAMES} but got {', '.join(unknown)}")
    here = Path(__file__).resolve().parents[2]
    sides = [_start(place.resolve()) for place in (here, given.against)]
    print("work           here, s  there, s  here / there  95 % interval", flush=True)
    slower = [name for name in names if _compare(name, sides, given.repeats, given.tolerance)]
    for side in sides:
        side.communicate("")
    sys.exit(f"slower by more than noise: {', '.join(slower)}" if slower else 0)


def _start(checkout: Path) -> "subprocess.Popen[str]":
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    # -P: modules beside this file are no packages to import.
    return subprocess.Popen(
        [sys.executable, "-P", __file__],
        env={**os.environ, **one_thread, "PYTHONPATH": str(checkout)},
        cwd=checkout,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )


def _compare(name: str, sides: list[Any], repeats: int, tolerance: float) -> bool:
    """Print a line of one work; whether it is slower here by more than noise."""
    took = np.empty((repeats, 2))
    for repeat in range(-1, repeats):  # The first is not counted.
        for which in (0, 1) if repeat % 2 else (1, 0):
            took[repeat, which] = _ask(sides[which], name)
    ratio = took[:, 0] / took[:, 1]
    resampled = np.random.default_rng(0).choice(ratio, (2000, repeats))
    low, high = np.quantile(np.median(resampled, 1), (0.025, 0.975))
    here, there = np.median(took, 0)
    figures = f"{here:8.3f}  {there:8.3f}  {np.median(ratio):12.3f}  {low:.3f} to {high:.3f}"
    print(f"{name:13}  {figures}", flush=True)
    return bool(low > 1 + tolerance)


def _ask(side: Any, name: str) -> float:
    side.stdin.write(f"{name}\n")
    for line in side.stdout:
        if line.startswith("took "):
            return float(line.split()[1])
    raise RuntimeError("Expected a time but the process of a checkout ended; its error is above.")


def serve() -> None:
    """In a checkout: prepare the works, and time the one that a line names."""
    works = _works()
    for line in sys.stdin:
        start = time.process_time()
        works[line.strip()]()
        print("took", time.process_time() - start, flush=True)


def _works() -> dict[str, Callable[[], object]]:
    import torch
    from sklearn.datasets import load_digits
    from torch import nn

    import manifold_shap as ms

    torch.manual_seed(0)
    cpu = {"accelerator": "cpu"}
    x = torch.from_numpy(load_digits().data).float() / 16
    model: Any = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).eval()
    with torch.no_grad():
        model[2].weight.mul_(8)
    fit = partial(ms.fit_surrogate, model, x, max_epochs=1, trainer=cpu)
    names = tuple(f"patch {k}" for k in range(11))
    pixels, patches = fit(), fit(players=ms.Players(names, torch.arange(64) // 6))
    table = torch.randn(2000, 12) @ torch.randn(12, 12)
    head = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 3)).eval()
    binary = (x > 0.5).float()
    bank = ms.fit_imputer(binary, posterior="bank", temper=1.0, max_epochs=1, trainer=cpu)

    def imputed(of: nn.Module, imputer: Any, rows: torch.Tensor) -> Callable[[], object]:
        value = ms.imputed_value(of, imputer, draws=32)
        return partial(ms.permutation_shapley, value, rows, permutations=8)

    def streamed() -> None:
        with tempfile.TemporaryDirectory() as place:
            estimator = partial(ms.permutation_shapley, permutations=2)
            ms.explain_rows(Path(place, "rows.zarr"), pixels, x.repeat(2, 1)[:2048], estimator)

    ratios = ms.imputed_value(head, ms.imputers.MarginalImputer(table[:50]), "ilr", draws=50)
    explained = ms.permutation_shapley(ratios, table[:500], permutations=2)

    def composed() -> None:
        for _ in range(200):
            for told in ("compositions", "norms", "cosines", "projections"):
                getattr(explained, told)()

    return {
        "exact": partial(ms.exact_shapley, patches, x[:16]),
        "permutation": partial(ms.permutation_shapley, pixels, x[:16], permutations=32),
        "kernel": partial(ms.kernel_shapley, pixels, x[:8], evaluations=4096),
        "coalition": partial(ms.coalition_shapley, pixels, x[:8], coalitions=128),
        "gaussian": imputed(head, ms.imputers.GaussianImputer(table), table[:256]),
        "empirical": imputed(head, ms.imputers.EmpiricalImputer(table), table[:64]),
        "bank": imputed(model, bank, binary[:2]),
        "training": fit,
        "streaming": streamed,
        "compositions": composed,
    }


if __name__ == "__main__":
    main()
