"""Draws the pictures of the README: a row of a table, and what "off the manifold" means.

python docs/figures.py        # writes docs/table.png and docs/manifold.png
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

import manifold_shap as ms
from manifold_shap.coalitions import Listed

HERE = Path(__file__).parent
CLASSES = ["Barolo", "Grignolino", "Barbera"]
ON, OFF = "#0072b2", "#e69f00"  # as of bars side by side


def table() -> None:
    """The first row of the README's example."""
    frame, target = load_wine(return_X_y=True, as_frame=True)
    model = HistGradientBoostingClassifier(max_iter=20, random_state=0).fit(frame, target)
    explainer = ms.Explainer(model, frame, classes=CLASSES, progress=False)
    explainer(frame.head(5)).plot.waterfall(0).save(HERE / "table.png", dpi=150)


def manifold() -> None:
    """Two columns that go together: completions of a row, and its Shapley values, both ways."""
    generator = np.random.default_rng(0)
    size = generator.normal(80, 25, 500).clip(30)
    frame = pd.DataFrame({"size": size, "rooms": size / 25 + generator.normal(0, 0.35, 500)})
    price = 3 * frame["size"] + generator.normal(0, 20, 500)
    model = HistGradientBoostingRegressor(max_iter=60, random_state=0).fit(frame, price)
    row = pd.DataFrame({"size": [125.0], "rooms": [5.1]})

    space = ms.spaces.Identity("thousand EUR")
    imputers = {"on": ms.imputers.GaussianImputer(frame), "off": ms.imputers.MarginalImputer(frame)}
    x, mask = torch.tensor(row.to_numpy(np.float32)), torch.tensor([[[True, False]]])
    explained = {
        f"{name} the manifold": ms.exact_shapley(
            ms.imputed_value(model, imputer, space, draws=500), row, evaluations=8
        )
        for name, imputer in imputers.items()
    }
    _, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    left.scatter(frame["size"], frame["rooms"], s=6, color="0.75", label="the data")
    for (name, imputer), colour, aside in zip(imputers.items(), (ON, OFF), (-1, 1), strict=True):
        coalitions = Listed(mask, torch.zeros(1, 1, dtype=torch.int64))
        drawn = imputer.sample(x, coalitions, range(30))[0, 0]
        label = f"completed {name} the manifold"
        left.scatter(drawn[:, 0] + aside, drawn[:, 1], s=10, color=colour, label=label)
    left.scatter(row["size"], row["rooms"], color="black", s=50, zorder=3, label="the row")
    left.set(xlabel="size (m²)", ylabel="rooms", title="Size is kept, rooms are completed")
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.18), "ncols": 2}
    left.legend(fontsize="small", frameon=False, **place)
    ms.plots.bar(explained, row=0, ax=right)
    plt.savefig(HERE / "manifold.png", dpi=150)


if __name__ == "__main__":
    table()
    manifold()
