"""Games whose Shapley values are known, and estimators of two papers, in numpy.

In games of trees an absent player has the mean of its column, as in the benchmark of Musco and
Witter (2025); their Shapley values are known exactly (interventional TreeSHAP, the means as the
only background).
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

import manifold_shap as ms
from manifold_shap.data import census

# Values of coalitions, one for each row of a mask; and Shapley values from it, for a number of
# players, within a budget, by a seed.
Values = Callable[[np.ndarray], np.ndarray]
Explain = Callable[[Values, int, int, int], np.ndarray]


class Games(NamedTuple):
    """Rows of a model with one output, each of them a game.

    Attributes:
        value: a value function, or a callable.
        x: rows, `[rows, *event]`.
        phi: their Shapley values, `[rows, players]`.
    """

    value: Any
    x: Tensor
    phi: Float[Tensor, "rows players"]

    def row(self, number: int) -> Values:
        """The game of one row, in numpy."""
        x = self.x[[number]]

        def values(mask: np.ndarray) -> np.ndarray:
            some = torch.from_numpy(np.atleast_2d(mask) > 0.5)
            return self.value(x, some[None])[0, :, 0].double().numpy()

        return values


def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Columns as numbers, and what is to be predicted."""
    if name == "census":
        data = census()
        frame: Any = data.features
        codes = frame.select_dtypes(exclude="number").columns
        frame = frame.assign(**{c: frame[c].astype("category").cat.codes for c in codes})
        return frame.to_numpy(float), np.asarray(data.labels, dtype=float)
    if name in ("iris", "diabetes"):
        from sklearn import datasets

        found = getattr(datasets, f"load_{name}")()
        return found.data, found.target.astype(float)
    return _sixty(correlated=name == "correlated")


def _sixty(correlated: bool) -> tuple[np.ndarray, np.ndarray]:
    """Sixty columns, ten of which are summed; three each of the first thirty may be alike.

    As `corrgroups60` and `independentlinear60` of shap, but for the random numbers.
    """
    random, rows, width = np.random.default_rng(0), 1000, 60
    x = random.normal(size=(rows, width))
    x -= x.mean(0)
    if correlated:
        alike = np.eye(width)
        for first in range(0, 30, 3):
            alike[first : first + 3, first : first + 3] += 0.99 * (1 - np.eye(3))
        white = x @ np.linalg.inv(np.linalg.cholesky(x.T @ x / rows)).T
        x = white @ np.linalg.cholesky(alike).T
    return x, x[:, :30:3].sum(1) + 0.01 * random.normal(size=rows)


def tree_games(name: str, model: Any, rows: int, seed: int = 0) -> Games:
    """Random rows of a table, explained of a model of trees that is fitted here.

    Args:
        name: iris, diabetes, census, independent or correlated.
        model: of trees, with `fit` and `predict`.
        rows: how many.
        seed: of their choice.
    """
    import shap

    x, y = table(name)
    model.fit(x, y)
    random, baseline = np.random.default_rng(seed), x.mean(0)
    chosen = x[random.integers(len(x), size=rows)]
    # Every player has another value than the baseline, as in the benchmark.
    while (same := chosen == baseline).any():
        chosen = np.where(same, x[random.integers(len(x), size=rows)], chosen)
    explainer = shap.TreeExplainer(
        model, data=baseline[None], feature_perturbation="interventional"
    )
    phi = torch.from_numpy(np.asarray(explainer.shap_values(chosen), dtype=np.float64))

    def value(x: Float[Tensor, "b n"], mask: Bool[Tensor, "b m n"]) -> Float[Tensor, "b m 1"]:
        rows = np.where(mask.numpy(), x[:, None].numpy(), baseline)
        found = model.predict(rows.reshape(-1, rows.shape[2])).astype(np.float64)
        return torch.from_numpy(found).reshape(*mask.shape[:2], 1)

    return Games(value, torch.from_numpy(chosen), phi)


def drawn_games(rows: int, trees: int = 20, draws: int = 200) -> Games:
    """Ten rows of diabetes, again and again; who is absent is drawn once, as Gaussian given x_S."""
    from sklearn.ensemble import RandomForestRegressor

    x, y = table("diabetes")
    model = RandomForestRegressor(trees, random_state=0).fit(x, y)
    rows_of = torch.from_numpy(x).float()
    imputer = ms.imputers.GaussianImputer(rows_of)
    value = ms.imputed_value(
        lambda x: torch.from_numpy(model.predict(x.numpy())).float()[:, None],
        imputer,
        space="identity",
        draws=1,
    )
    chosen = rows_of[: min(rows, 10)]
    exact = ms.exact_shapley(value, chosen, evaluations=draws * 2 ** x.shape[1])
    again = torch.arange(rows) % len(chosen)
    return Games(value, chosen[again], exact.phi[again, :, 0].double())


class Drawn(NamedTuple):
    """Distinct coalitions in pairs, and their probabilities to be drawn."""

    mask: np.ndarray
    probability: np.ndarray


def drawn_once(players: int, budget: int, seed: int) -> Drawn:
    """As many coalitions of every size, or all that there are (Musco & Witter 2025, Section 4)."""
    random, sizes = np.random.default_rng(seed), range(1, players // 2 + 1)
    # Pairs of a coalition of this size and its complement.
    half = [2 if 2 * size == players else 1 for size in sizes]
    there = [math.comb(players, size) // h for size, h in zip(sizes, half, strict=True)]
    wanted = min((budget - 2) // 2, sum(there))
    low, high = 0.0, 2.0 * (wanted + max(there))
    for _ in range(200):
        level = (low + high) / 2
        most = [min(level / h, t) for h, t in zip(half, there, strict=True)]
        low, high = (low, level) if sum(most) >= wanted else (level, high)
    counts = [int(one + 1e-9) for one in most]
    rest = sorted(range(len(counts)), key=lambda i: counts[i] - most[i])
    for i in rest[: wanted - sum(counts)]:
        counts[i] += 1
    masks, probability = [np.zeros((0, players), dtype=bool)], []
    for size, count, every in zip(sizes, counts, there, strict=True):
        found: dict[bytes, np.ndarray] = {}
        while len(found) < count:
            one = np.zeros(players, dtype=bool)
            one[random.permutation(players)[:size]] = True
            one ^= 2 * size == players and not one[-1]
            found.setdefault(one.tobytes(), one)
        masks += [np.stack((one, ~one)) for one in found.values()]
        probability += [count / every] * (2 * count)
    return Drawn(np.concatenate(masks), np.array(probability))


def leverage_shap(values: Values, players: int, budget: int, seed: int) -> np.ndarray:
    """LeverageSHAP (Musco & Witter 2025): weighted least squares on coalitions drawn once."""
    mask, probability = drawn_once(players, budget, seed)
    empty, full = values(np.array([[False] * players, [True] * players]))
    size = mask.sum(1)
    target = values(mask) - empty - (full - empty) * size / players
    number = np.array([math.comb(players, s) for s in range(players + 1)], dtype=float)[size]
    root = 1 / np.sqrt(number * size * (players - size) * probability)
    centred = mask - size[:, None] / players
    found = np.linalg.lstsq(root[:, None] * centred, root * target, rcond=None)[0]
    return found - found.mean() + (full - empty) / players


def regression_msr(values: Values, players: int, budget: int, seed: int) -> np.ndarray:
    """RegressionMSR (Witter, Liu & Musco 2025): boosted trees, and sample reuse of the rest."""
    import shap
    import xgboost

    mask, probability = drawn_once(players, budget, seed)
    ends = np.array([[False] * players, [True] * players])
    mask, probability = np.concatenate((ends, mask)), np.concatenate((np.ones(2), probability))
    y = values(mask)
    y = y - y[0]
    trees = xgboost.XGBRegressor(random_state=seed, n_jobs=1).fit(mask.astype(float), y)
    explainer = shap.TreeExplainer(trees, data=np.zeros((1, players)))
    found = explainer.shap_values(np.ones((1, players)))[0]
    rest, size = (y - trees.predict(mask.astype(float))) / probability, mask.sum(1)
    share = [1 / (players * math.comb(players - 1, s)) for s in range(players)]
    joined = np.array([0.0, *share])[size][:, None] * mask
    left = np.array([*share, 0.0])[size][:, None] * ~mask
    return found + rest @ (joined - left)
