"""Is this checkout as fast as another one? CPU time of the same work, in both, in turn.

    python benchmarks/against.py ../other-checkout
    python benchmarks/against.py ../other-checkout --repeats 5 permutation kernel

Each checkout has a process of one thread that imports the package from there, trains the same small
value functions, and then does a work whenever it is told to. Works alternate between both. A line
has the medians of both, and the median ratio with a 95 % interval, by resampling the repeats. Where
an interval lies above 1.02 the exit code is 1.
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

NAMES = ("exact", "permutation", "kernel", "gaussian", "empirical", "bank", "training", "streaming")
SLOWER = 1.02


def main() -> None:
    if sys.argv[1:] == ["serve"]:
        return serve()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("against", type=Path, help="the other checkout")
    parser.add_argument("names", nargs="*", help=f"works, of {', '.join(NAMES)}")
    parser.add_argument("--repeats", type=int, default=15, help="of each work in each checkout")
    given = parser.parse_intermixed_args()
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    sides = [
        subprocess.Popen(
            # -P: modules beside this file are no packages to import.
            [sys.executable, "-P", __file__, "serve"],
            env={**os.environ, **one_thread, "PYTHONPATH": str(place)},
            cwd=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )
        for place in (Path(__file__).resolve().parents[1], given.against.resolve())
    ]  # fmt: skip
    print("work           here, s  there, s  here / there  95 % interval", flush=True)
    slower = [name for name in given.names or NAMES if compare(name, sides, given.repeats)]
    for side in sides:
        side.communicate("")
    sys.exit(f"slower by more than noise: {', '.join(slower)}" if slower else 0)


def compare(name: str, sides: list[Any], repeats: int) -> bool:
    """Print a line of one work; whether it is slower here by more than noise."""
    took = np.empty((repeats, 2))
    for repeat in range(-1, repeats):  # The first is not counted.
        for which in (0, 1) if repeat % 2 else (1, 0):
            sides[which].stdin.write(f"{name}\n")
            lines = (line for line in sides[which].stdout if line.startswith("took "))
            took[repeat, which] = float(next(lines).split()[1])
    ratio = took[:, 0] / took[:, 1]
    resampled = np.median(np.random.default_rng(0).choice(ratio, (2000, repeats)), 1)
    low, high = np.quantile(resampled, (0.025, 0.975))
    here, there = np.median(took, 0)
    figures = f"{here:8.3f}  {there:8.3f}  {np.median(ratio):12.3f}  {low:.3f} to {high:.3f}"
    print(f"{name:13}  {figures}", flush=True)
    return bool(low > SLOWER)


def serve() -> None:
    """In a checkout: prepare the works, and time the one that a line names."""
    works = prepared()
    for line in sys.stdin:
        start = time.process_time()
        works[line.strip()]()
        print("took", time.process_time() - start, flush=True)


def prepared() -> dict[str, Callable[[], object]]:
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

    works = (
        partial(ms.exact_shapley, patches, x[:16]),
        partial(ms.permutation_shapley, pixels, x[:16], permutations=32),
        partial(ms.kernel_shapley, pixels, x[:8], evaluations=4096),
        imputed(head, ms.imputers.GaussianImputer(table), table[:256]),
        imputed(head, ms.imputers.EmpiricalImputer(table), table[:64]),
        imputed(model, bank, binary[:2]),
        fit,
        streamed,
    )
    return dict(zip(NAMES, works, strict=True))


if __name__ == "__main__":
    main()
