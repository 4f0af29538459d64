"""Measures what scoring takes, beside explaining, here and in another checkout.

    python benchmarks/reproduce.py speed/scoring against=../checkout-of-0.1.0

The two figures that `train.py` ends with on digits, the error of the surrogate and that off the
manifold (64 draws), on the same pairs of test rows and coalitions; and the explanation of 8 digits
from as many evaluations in both checkouts. Each checkout has a process of its own, which imports
the package from there.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.report import Found, Table, records

TITLE = "Scoring beside explaining"
QUICK = {"repeats": 1}
HERE = Path(__file__).resolve().parents[2]
# Seconds by what is done, medians after a first time that warms up.
CODE = """
import json, statistics, sys, time, torch, manifold_shap as ms
from sklearn.datasets import load_digits
x = torch.tensor(load_digits().data, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
torch.manual_seed(0)
layers = [torch.nn.Flatten(), torch.nn.Linear(64, 512), torch.nn.ReLU()]
layers += [torch.nn.Linear(512, 10), torch.nn.LogSoftmax(-1)]
model = torch.nn.Sequential(*layers).eval()
value = ms.fit_surrogate(model, x[:1437], max_epochs=1, trainer={"accelerator": "cpu"})
off = ms.imputed_value(model, ms.imputers.MarginalImputer(x[:1437]), "probability", draws=64)
x_test = x[1437:]
mask = ms.metrics.shapley_pairs(len(x_test), 64)
work = {
    "scoring the surrogate": lambda: ms.metrics.mean_squared_error(value, x_test, mask),
    "scoring off the manifold": lambda: ms.metrics.mean_squared_error(off, x_test, mask),
    "explaining 8": lambda: ms.auto_shapley(value, x_test[:8], evaluations=16384),
    "explaining 8 off the manifold": lambda: ms.auto_shapley(off, x_test[:8], evaluations=4096),
}
found = {name: [] for name in work}
for _ in range(1 + int(sys.argv[1])):
    for name, do in work.items():
        start = time.perf_counter()
        do()
        found[name].append(time.perf_counter() - start)
print(json.dumps({name: statistics.median(each[1:]) for name, each in found.items()}))
"""


def run(
    against: str | None = None,  # another checkout, such as one of version 0.1.0
    repeats: int = 5,
) -> dict[str, dict[str, float]]:
    """Seconds by what is done, by checkout."""
    places = {"here": HERE} | ({} if against is None else {"there": Path(against).resolve()})
    return {name: seconds(place, repeats) for name, place in places.items()}


def seconds(place: Path, repeats: int) -> dict[str, float]:
    """By what is done, with the package of a checkout."""
    environment = {**os.environ, "PYTHONPATH": str(place)}
    words = [sys.executable, "-c", CODE, str(repeats)]
    done = subprocess.run(
        words, cwd=place, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    print(place, found, flush=True)
    return found


def tables(found: Found) -> list[Table]:
    return [records("seconds", found)]
