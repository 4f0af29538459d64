"""Four tables of which few rows are taken: two published ones, and two of known generators."""

from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

import manifold_shap as ms
from manifold_shap.data import SOURCES


def rows_of(name: str, part: int, train: int, test: int, seed: int) -> tuple[Tensor, Any, Any]:
    """Encoded rows, first those of the training, with labels, and their schema."""
    random = np.random.default_rng(100 + seed)
    categorical: tuple[str, ...] = ()
    frame: Any
    if name in ("abalone", "census"):
        table = SOURCES["abalone" if name == "abalone" else "census"]()
        order = random.permutation(len(table.features))
        test = min(test, len(order) - train)
        order = np.roll(order, -part * test)[np.r_[test : test + train, :test]]
        features: Any = table.features
        frame, y = features.iloc[order], table.labels.numpy()[order]
        categorical = table.categorical
    else:
        frame, y = (factors if name == "factors" else classes)(train + test, random)
    schema = ms.tables.Schema.fit(frame.iloc[:train], categorical, categories_from=frame)
    return schema.encode(frame), y, schema


def factors(rows: int, random: np.random.Generator) -> tuple[pd.DataFrame, Any]:
    """Four kinds; sixteen measurements are curves in three hidden factors, with 15 % of noise."""
    law = np.random.default_rng(7)
    linear, bent = law.normal(size=(3, 16)), law.normal(size=(3, 16)) * 0.7
    square, centre = law.normal(size=(9, 16)) * 0.25, law.normal(size=(4, 3)) * 1.1
    kind = random.integers(0, 4, rows)
    z = centre[kind] + 0.8 * random.normal(size=(rows, 3))
    products = (z[:, :, None] * z[:, None]).reshape(rows, 9)
    x = z @ linear + 1.5 * np.tanh(z @ bent) + products @ square
    x += 0.15 * x.std(0) * random.normal(size=x.shape)
    x[:, :6] = np.exp(0.4 * x[:, :6] / x[:, :6].std(0))
    return pd.DataFrame(x, columns=[f"x{i}" for i in range(16)]), kind


def classes(rows: int, random: np.random.Generator) -> tuple[pd.DataFrame, Any]:
    """Six hidden classes and a hidden trend, behind five numbers and five categories."""
    law = np.random.default_rng(11)
    hidden = random.choice(6, rows, p=law.dirichlet(np.full(6, 5.0)))
    trend, columns = random.normal(size=rows), {}
    shapes: Any = (lambda v: np.exp(v / 2), np.exp, lambda v: np.round(3 * v))
    for j, made in enumerate(shapes):
        columns[f"number {j}"] = made(_number(law, random, hidden, trend))
    columns |= {f"number {j}": _number(law, random, hidden, trend) for j in (3, 4)}
    for j, levels in enumerate((2, 3, 4, 5, 6)):
        score = 1.8 * law.normal(size=(6, levels))[hidden] + trend[:, None] * law.normal(
            size=levels
        )
        columns[f"text {j}"] = np.char.add(
            "v", (score + random.gumbel(size=score.shape)).argmax(1).astype(str)
        )
    a, b, c = columns["number 3"], columns["text 3"] == "v1", columns["number 4"] > 0
    score = 0.8 * np.sin(1.5 * a) + 0.9 * trend + 1.2 * b * c - 0.7 * (columns["text 4"] == "v2")
    return pd.DataFrame(columns), (score + 0.5 * random.logistic(size=rows) > 0).astype(int)


def _number(law: Any, random: Any, hidden: Any, trend: Any) -> Any:
    centre = 1.5 * law.normal(size=6)[hidden]
    return centre + 0.8 * law.normal() * trend + 0.5 * random.normal(size=len(trend))
