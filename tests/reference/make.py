"""Compares today's results with the stored ones, or replaces these.

    python -m tests.reference.make            # compare as the test does
    python -m tests.reference.make --exact    # compare bit for bit; on the same machine only
    python -m tests.reference.make --store    # replace the results, and print what has moved
    python -m tests.reference.make --inputs   # train again, and replace inputs and results

What `--store` prints goes into the message of the commit that moves the numbers. Names of parts
limit the first three to these.
"""

import argparse
import sys
import time
import warnings
from typing import Any

import torch
from sklearn.datasets import load_digits, load_iris, load_wine
from torch import Tensor, nn

import manifold_shap as ms
from tests.learned import few_pairs
from tests.reference.cases import PARTS
from tests.reference.compare import (
    INPUTS,
    Inputs,
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
    how.add_argument("--inputs", action="store_true", help="train again, and replace all")
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join(PARTS)}; by default all")
    parser.add_argument("--threads", type=int, default=1, help="of torch; results are of one")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    warnings.filterwarnings("ignore")
    if asked.inputs:
        _make_inputs()
    some = asked.parts or list(PARTS)
    with few_pairs():
        today = _results(some)
    if asked.store or asked.inputs:
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


def _make_inputs() -> None:
    """Rows, coalitions, models and weights of everything that is learned."""
    from tests.reference.learned import weights

    made = rows()
    torch.save(made, INPUTS)
    made["weights"] = weights(made)
    torch.save(made, INPUTS)
    load.cache_clear()


def rows() -> Inputs:
    """All but the weights of what is learned."""
    return {
        "games": {"small": _game(6, 2), "ten": _game(10, 2), "large": _game(20, 3)},
        "mixed": _mixed(),
        "digits": _digits(),
        "discrete": _discrete(),
        "iris": _iris(),
        "series": _series(),
        "tokens": _tokens(),
        "people": _people(),
    }


def _game(players: int, outputs: int) -> Inputs:
    generator = torch.Generator().manual_seed(players)
    shapes = {"x": (3, players), "first": (players, 8), "second": (8, outputs)}
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def _mixed() -> Inputs:
    """Wines: five numbers, and two more as one-hot columns of three and four categories."""
    wine = load_wine()
    data = torch.from_numpy(wine.data).float()
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))
    data, y = data[order], torch.from_numpy(wine.target)[order].long()
    numbers = data[:, [0, 1, 6, 9, 10]]
    numbers = (numbers - numbers.mean(0)) / numbers.std(0)
    columns = [numbers]
    for column, cuts in ((11, [0.35, 0.7]), (12, [0.25, 0.5, 0.75])):
        ends = data[:, column].quantile(torch.tensor(cuts))
        columns.append(nn.functional.one_hot(torch.bucketize(data[:, column], ends)).float())
    x = torch.cat(columns, 1)
    index = torch.tensor([0, 1, 2, 3, 4, 5, 5, 5, 6, 6, 6, 6])
    return {
        "names": ["alcohol", "acid", "flavanoids", "colour", "hue", "dilution", "proline"],
        "index": index,
        "reference": x[:160],
        "labels": y[:160],
        "x": x[[161, 165, 170]],
        "mask": _masks(3, 7),
        "model": _classifier(x[:160], y[:160], 3),
    }


def _digits() -> Inputs:
    digits = load_digits()
    x = torch.from_numpy(digits.images).float().div(16)[:, None]
    y = torch.from_numpy(digits.target).long()
    generator = torch.Generator().manual_seed(1)
    return {
        "names": list(ms.Players.pixels((1, 8, 8)).names),
        "index": ms.Players.pixels((1, 8, 8)).index,
        "reference": x[:150].clone(),
        "x": x[-3:].clone(),
        "mask": _masks(3, 64)[:, :10],
        "model": _classifier(x, y, 10),
        "own model": {
            "filters": torch.randn(4, 1, 3, 3, generator=generator),
            "last": torch.randn(10, 36, generator=generator) / 2,
        },
    }


def _discrete() -> Inputs:
    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(3, (300, 5), generator=generator).float()
    rows[:, 1] = (rows[:, 0] + rows[:, 1]) // 2
    labels = (rows.sum(1) > 4).long()
    model = _classifier(rows, labels, 2)
    return {
        "reference": rows,
        "labels": labels,
        "x": rows[[0, 30, 60, 90]].clone(),
        "mask": _masks(4, 5),
        "model": model,
    }


def _iris() -> Inputs:
    iris = load_iris()
    x, y = torch.from_numpy(iris.data).float(), torch.from_numpy(iris.target).long()
    generator = torch.Generator().manual_seed(2)
    fourth = {"weight": torch.randn(4, 16, generator=generator) / 2, "bias": torch.zeros(4)}
    return {
        "reference": x,
        "labels": y,
        "x": x[[0, 55, 110, 149]].clone(),
        "model": _classifier(x, y, 3),
        "fourth": fourth,
    }


def _series() -> Inputs:
    from tests.reference.rows import PADDING

    generator = torch.Generator().manual_seed(3)
    x = torch.randn(80, 2, 12, generator=generator).cumsum(-1) / 2
    lengths = torch.randint(2, 7, (80, 1, 1), generator=generator) * 2
    lengths[:3, 0, 0] = torch.tensor([12, 6, 8])
    x = x.where(torch.arange(12) < lengths, PADDING)
    return {"x": x, "weight": torch.randn(2, 12, generator=generator) / 4}


def _tokens() -> Inputs:
    generator = torch.Generator().manual_seed(4)
    x = torch.randint(2, 9, (80, 6), generator=generator)
    lengths = torch.randint(2, 7, (80, 1), generator=generator)
    lengths[:4, 0] = torch.tensor([6, 3, 5, 2])
    vectors = torch.randn(9, 8, generator=generator)
    vectors[0] = 0
    return {
        "x": x.where(torch.arange(6) < lengths, 0),
        "vectors": vectors,
        "last": torch.randn(1, 8, generator=generator),
    }


def _people() -> Inputs:
    """Columns of few distinct values: drawn cells are the nearest of these, never at a tie."""
    generator = torch.Generator().manual_seed(5)
    age = torch.randint(2, 9, (200,), generator=generator) * 10
    income = (age / 20 + torch.randint(0, 5, (200,), generator=generator)).round() / 2
    gone = torch.rand(200, generator=generator) < 0.25
    return {
        "age": age,
        "income": income.masked_fill(gone, torch.nan),
        "town": torch.randint(-1, 4, (200,), generator=generator),
        "member": torch.rand(200, generator=generator) < age / 100,
        "level": torch.randint(0, 3, (200,), generator=generator),
        "since": torch.randint(0, 12, (200,), generator=generator),
    }


def _classifier(x: Tensor, y: Tensor, classes: int) -> dict[str, Any]:
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
    mask = ms.metrics.shapley_pairs(rows, players, least=12 * rows, seed=7)
    mask[:, 0], mask[:, 1] = False, True
    return mask


if __name__ == "__main__":
    sys.exit(main())
