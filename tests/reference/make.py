"""Trains small networks and stores them with the results of `cases.py`, or compares with these.

    python -m tests.reference.make            # compare as the test does, up to rounding
    python -m tests.reference.make --exact    # compare bit for bit; on the same machine only
    python -m tests.reference.make --train    # train again, and compare squared errors
    python -m tests.reference.make --store    # train again, and replace what is stored

The files in this folder were stored under version 0.1.0, on one thread.
"""

import argparse
import sys
import warnings
from typing import Any

import torch
from sklearn.datasets import load_digits, load_iris
from torch import Tensor, nn

import manifold_shap as ms
from manifold_shap.data import Census
from tests.reference.cases import (
    INPUTS,
    OUTPUTS,
    PARTS,
    TOLERANCE,
    Inputs,
    gaps_of,
    load,
    network,
    players_of,
    surrogate,
    vae,
)


def main() -> int:
    """0 where all results agree."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--exact", action="store_true", help="compare bit for bit")
    how.add_argument("--train", action="store_true", help="train again, and compare squared errors")
    how.add_argument("--store", action="store_true", help="train again, and replace what is stored")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "The covariance of `reference`")
    if asked.store:
        torch.save(make_inputs(), INPUTS)
        inputs = load(INPUTS)
        torch.save({name: dict(part(inputs)) for name, part in PARTS.items()}, OUTPUTS)
        return 0
    return compare_trainings() if asked.train else compare(0.0 if asked.exact else TOLERANCE)


def compare(tolerance: float) -> int:
    """Print what is farther apart than this, relative to the largest number of a result."""
    inputs, stored = load(INPUTS), load(OUTPUTS)
    gaps = {name: far for part in PARTS for name, far in gaps_of(part, inputs, stored).items()}
    apart = {name: far for name, far in gaps.items() if not far <= tolerance}
    for name, far in sorted(apart.items(), key=lambda item: -item[1]):
        print(f"{far:9.2e}  {name}")
    equal = sum(far == 0 for far in gaps.values())
    print(
        f"{len(gaps)} results: {equal} equal bit for bit, {len(apart)} apart, largest relative "
        f"difference {max(gaps.values()):.2e}"
    )
    return min(1, len(apart))


def compare_trainings() -> int:
    """Print squared errors of the stored networks, and of those that are trained today."""
    stored, today = load(INPUTS), make_inputs()
    for data in ("digits", "census"):
        part = stored[data]
        x = part["reference"]
        pairs = ms.shapley_pairs(len(x), len(players_of(part)))
        for name, make in {
            "surrogate": surrogate,
            "vae": lambda one: ms.imputed_value(
                network(one["model"]), vae(one, bank_size=2000), draws=32
            ),
        }.items():
            before, after = (
                ms.mean_squared_error(make({**one, "model": part["model"]}), x, pairs).mse
                for one in (part, today[data])
            )
            print(f"{data}, {name}: MSE {before:.5f} stored, {after:.5f} today")
    return 0


def make_inputs() -> Inputs:
    """Rows, coalitions and trained weights."""
    digits, iris = load_digits(), load_iris()
    images = torch.from_numpy(digits.images).float().div(16)[:, None]
    census = Census()
    census.setup()
    return {
        "games": {"small": _game(6, 2), "large": _game(20, 3)},
        "digits": _trained(
            images, torch.from_numpy(digits.target), ms.Players.of_elements((1, 8, 8)), 10
        ),
        "census": _trained(
            census.x_train[:8000], census.y_train[:8000], census.players, 2, census.schema
        ),
        "discrete": _discrete(),
        "iris": _classifier_alone(
            torch.from_numpy(iris.data).float(), torch.from_numpy(iris.target), 3
        ),
    }


def _game(players: int, outputs: int) -> Inputs:
    generator = torch.Generator().manual_seed(players)
    shapes = {"x": (3, players), "first": (players, 8), "second": (8, outputs)}
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def _discrete() -> Inputs:
    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(3, (400, 5), generator=generator).float()
    rows[:, 1] = (rows[:, 0] + rows[:, 1]) // 2
    labels = (rows.sum(1) > 4).long()
    return {**_classifier_alone(rows, labels, 2), "mask": _masks(4, 5)}


def _classifier_alone(x: Tensor, y: Tensor, classes: int) -> Inputs:
    some = torch.arange(4) * 30
    return {"reference": x, "x": x[some], "y": y[some], "model": _classifier(x, y, classes)}


def _classifier(x: Tensor, y: Tensor, classes: int) -> Inputs:
    torch.manual_seed(0)
    width = x[0].numel()
    model = nn.Sequential(nn.Flatten(), nn.Linear(width, 16), nn.ReLU(), nn.Linear(16, classes))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(150):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimiser.step()
    return dict(model.state_dict())


def _masks(rows: int, players: int) -> Tensor:
    """Coalitions of Shapley's sum, the empty one and the grand one."""
    mask = ms.shapley_pairs(rows, players, least=12 * rows, seed=7)
    mask[:, 0], mask[:, 1] = False, True
    return mask


def _trained(
    x: Tensor, y: Tensor, players: ms.Players, classes: int, schema: ms.Schema | None = None
) -> Inputs:
    """A classifier, its surrogate, the amortised explainer of this, and a VAE."""
    weights = _classifier(x, y, classes)
    short: dict[str, Any] = {"players": players, "seed": 0, "max_epochs": 6}
    value = ms.fit_surrogate(network(weights), x, hidden=(48, 48), **short)
    amortized = ms.fit_amortized(value, x, hidden=(24, 16), max_epochs=2)
    vae = ms.fit_imputer(
        x, schema=schema, hidden=(32, 32), latent=4, components=2, temper=1.0, **short
    )
    made = vae.checkpoint["hyper_parameters"]
    return {
        "names": list(players.names),
        "index": players.index,
        "reference": x[:200].clone(),
        "x": x[-3:].clone(),
        "mask": _masks(3, len(players)),
        "model": weights,
        "surrogate": {
            "weights": dict(value.surrogate.state_dict()),
            "hidden": [48, 48],
            "space": "probability",
            "base": value.expectation,
        },
        "amortized": {"weights": dict(amortized.network.state_dict()), "hidden": [24, 16]},
        "vae": {
            "weights": dict(vae.network.state_dict()),
            **{name: made[name] for name in ("families", "latent", "hidden", "components")},
        },
    }


if __name__ == "__main__":
    sys.exit(main())
