"""Random forests of cervical cancer and bicycles (Interpretable Machine Learning, Section 9.5.2).

Off the manifold, as in the book, with orders and donors drawn together. The book warns that a
Shapley value is not the change of the prediction when the model does without the feature: here
forests without each feature are fitted, too. Its formula for linear models is asked of ours.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression

import manifold_shap as ms
from benchmarks.plots import bars, label_axes, make_room
from benchmarks.report import Claim, Found, Table, number, records
from manifold_shap.plots import canvas, style

TITLE = "Two random forests, and what a Shapley value is not"
SOURCE = "Molnar, Interpretable Machine Learning, Section 9.5"
ERRORS = "standard errors over pairs of orders"
QUICK = {"trees": 20, "permutations": 32}
CANCER, BIKES = "cervical cancer", "bicycles"
UNITS = {CANCER: "probability", BIKES: "bicycles"}
FILES = {
    CANCER: "naive_bayes/cervical_cancer/kag_risk_factors_cervical_cancer.csv",
    BIKES: "bike/day.csv",
}
LEFT_OUT = {
    CANCER: ["Biopsy", "Hinselmann", "Schiller", "Citology"],
    BIKES: ["cnt", "instant", "dteday", "casual", "registered", "yr"],
}
SHOWN, ALIKE, ROUNDING = 8, 0.9, 1e-4


def run(
    trees: int = 100,  # of each forest
    permutations: int = 1024,  # of the features, with their reverses
    day: int = 285,  # that is explained, as in the book; the woman is the one of largest risk
    seed: int = 0,  # of forests, orders and donors
) -> dict[str, Any]:
    """Explanations, what forests without a feature predict, and a linear model."""
    found: dict[str, Any] = {"forests": {}}
    for name in FILES:
        x, y = read(name)
        forest = fitted(name, x, y, trees, seed)
        row = day - 1 if name == BIKES else int(predicted(forest, x).argmax())
        explained = explain(forest, x, row, permutations, seed)
        without = [
            predicted(forest, x)[row]
            - predicted(fitted(name, x.drop(columns=one), y, trees, seed), x.drop(columns=one))[row]
            for one in x.columns
        ]
        found["forests"][name] = {
            "features": [f"{key} = {value:g}" for key, value in x.iloc[row].items()],
            "base": explained.base[0, -1],
            "prediction": explained.prediction[0, -1],
            "phi": explained.phi[0, :, -1],
            "standard_error": explained.standard_error[0, :, -1],
            "without": without,
        }
    x, y = read(BIKES)
    linear = LinearRegression().fit(x, y)
    phi = explain(linear, x, day - 1, 2, seed, draws=len(x)).phi[0, :, 0]
    formula = linear.coef_ * (x.iloc[day - 1] - x.mean())
    found["gap"] = float(np.abs(phi.numpy() - formula.to_numpy()).max() / np.abs(formula).max())
    return found


def read(name: str) -> tuple[pd.DataFrame, pd.Series]:
    """Columns of numbers, missing cells by the median, and what is predicted."""
    table = pd.read_csv(Path(os.environ["MANIFOLD_SHAP_DATA"], FILES[name]), na_values="?")
    x = table.drop(columns=LEFT_OUT[name])
    return x.fillna(x.median()).astype(np.float32), table[LEFT_OUT[name][0]]


def fitted(name: str, x: pd.DataFrame, y: pd.Series, trees: int, seed: int) -> Any:
    kind = RandomForestClassifier if name == CANCER else RandomForestRegressor
    return kind(trees, random_state=seed, min_samples_leaf=2).fit(x, y)


def predicted(model: Any, x: pd.DataFrame) -> Any:
    return model.predict_proba(x)[:, 1] if hasattr(model, "classes_") else model.predict(x)


def explain(
    model: Any, x: pd.DataFrame, row: int, permutations: int, seed: int, draws: int = 1
) -> ms.Explanation:
    """Off the manifold."""
    rows = torch.from_numpy(x.to_numpy())
    players = ms.Players.of_elements((x.shape[1],), list(x.columns))

    def answers(batch: torch.Tensor) -> torch.Tensor:
        frame = pd.DataFrame(batch.numpy(), columns=x.columns)
        return torch.as_tensor(predicted(model, frame), dtype=torch.float32)[:, None]

    imputer = ms.MarginalImputer(rows, players)
    plain = ms.Model(answers, ("prediction",), "values")
    value = ms.imputed_value(plain, imputer, "identity", draws=draws, seed=seed)
    return ms.permutation_shapley(value, rows[row : row + 1], permutations=permutations, seed=seed)


def claims(found: Found) -> list[Claim]:
    gaps, alike = {}, {}
    for name, one in found["forests"].items():
        total = one["prediction"] - one["base"]
        gaps[name] = abs(sum(one["phi"]) - total) / abs(total)
        alike[name] = float(np.corrcoef(one["phi"], one["without"])[0, 1])
    told = ", ".join(f"{number(each)} ({name})" for name, each in alike.items())
    return [
        Claim("values sum to the prediction less the mean prediction", "efficiency",
              f"up to {number(max(gaps.values()))} of the sum apart",
              max(gaps.values()) < ROUNDING),
        Claim("a value is not the change of the prediction without the feature: over features, "
              f"their correlation is below {ALIKE}", "Section 9.5.2", told,
              max(alike.values()) < ALIKE),
        Claim("values of a linear model are its weight times the feature, less the mean of that",
              "Section 9.5.3", f"up to {number(found['gap'])} of the largest apart",
              found["gap"] < ROUNDING),
    ]  # fmt: skip


def tables(found: Found) -> list[Table]:
    made = []
    for name, one in found["forests"].items():
        lines = {
            feature: {"Shapley value": (phi, error), "change without the feature": change}
            for feature, phi, error, change in zip(
                one["features"], one["phi"], one["standard_error"], one["without"], strict=True
            )
        }
        ends = f"{number(one['base'])} to {number(one['prediction'])} {UNITS[name]}"
        made.append(records(f"{name}, {ends}", lines))
    return made


def figures(found: Found) -> dict[str, Figure]:
    """The largest values of both, red to the right and blue to the left."""
    figure = canvas.laid_out(2.8, 8.0)
    for axes, (name, one) in zip(figure.subplots(1, 2), found["forests"].items(), strict=True):
        style.strip(axes, grid="x")
        order = np.argsort(-np.abs(one["phi"]))[:SHOWN]
        phi = [one["phi"][k] for k in order]
        colours = [style.RAISES if value > 0 else style.LOWERS for value in phi]
        errors = [one["standard_error"][k] for k in order]
        bars(axes, range(len(phi)), phi, errors, height=0.7, color=colours)
        axes.axvline(0, color=style.INK, linewidth=0.8)
        style.write_lines(axes, [one["features"][k] for k in order])
        ends = f"{number(one['base'])} to {number(one['prediction'])}"
        label_axes(axes, f"{name}: {ends}", f"Shapley value ({UNITS[name]})")
    for axes in figure.axes:
        make_room(axes)
    return {"": figure}
