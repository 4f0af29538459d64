"""The same woman and day as in the book, by the columns that it uses, off the manifold. Beside the
values is what changes when a forest is fitted without the feature. The book's forests are of R's
randomForest, with factors; here categories are numbers, and forests of other seeds predict much
else for the woman.
"""

import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression

import manifold_shap as ms
from benchmarks import draw
from benchmarks.report import Claim, Figures, Found, number

TITLE = "Two random forests, and what a Shapley value is not"
SOURCE = "Molnar, Interpretable Machine Learning, Section 9.5"
ERRORS = "standard errors over pairs of orders"
QUICK = {"trees": 40, "permutations": 32}
CANCER, BIKES = "cervical cancer", "bicycles"
FILES = {
    CANCER: "naive_bayes/cervical_cancer/kag_risk_factors_cervical_cancer.csv",
    BIKES: "bike/day.csv",
}
COLUMNS = {
    CANCER: {
        "Age": "age", "Number of sexual partners": "partners",
        "First sexual intercourse": "first intercourse", "Num of pregnancies": "pregnancies",
        "Smokes": "smokes", "Smokes (years)": "years of smoking",
        "Hormonal Contraceptives": "contraceptives",
        "Hormonal Contraceptives (years)": "years of contraceptives",
        "IUD": "IUD", "IUD (years)": "years of IUD", "STDs": "any STD", "STDs (number)": "STDs",
        "STDs: Number of diagnosis": "diagnosed STDs",
        "STDs: Time since first diagnosis": "years since first diagnosis",
        "STDs: Time since last diagnosis": "years since last diagnosis",
    },
    BIKES: {
        "season": "season", "yr": "year", "mnth": "month", "holiday": "holiday",
        "weekday": "weekday", "workingday": "working day", "weathersit": "weather",
        "temp": "temperature, °C", "hum": "humidity, %", "windspeed": "wind, km/h",
        "instant": "day",
    },
}  # fmt: skip
TARGETS = {CANCER: "Biopsy", BIKES: "cnt"}
# The table has weather in units between zero and one.
SCALES = {"temp": (47.0, -8.0), "hum": (100.0, 0.0), "windspeed": (67.0, 0.0)}
# Of the captions: prediction, and mean prediction.
BOOK = {CANCER: (0.57, 0.03), BIKES: (2409.0, 4518.0)}
ROWS = {CANCER: 325, BIKES: 284}  # As in the book, which counts from one.
NEAR, ALIKE, ROUNDING = 0.1, 0.9, 1e-4


def run(
    trees: int = 30,  # of each forest, as in the book
    permutations: int = 1024,  # of the features, with their reverses
) -> dict[str, Any]:
    """Explanations, what forests without a feature predict, and a linear model."""
    found: dict[str, Any] = {"forests": {}}
    for name, row in ROWS.items():
        x, y, features = read(name)
        forest = fitted(name, x, y, trees)
        explained = explain(forest, x, row, permutations)
        others = [np.delete(x, k, axis=1) for k in range(len(features))]
        without = [predicted(fitted(name, other, y, trees), other)[row] for other in others]
        parts = ("base", "prediction", "phi", "standard_error")
        found["forests"][name] = {
            "features": features,
            "values": x[row].tolist(),
            **{part: vars(explained)[part][0, ..., 0] for part in parts},
            "without": (predicted(forest, x)[row] - np.array(without)).tolist(),
        }
    linear = LinearRegression().fit(x, y)
    phi = explain(linear, x, row, 2, draws=len(x)).phi[0, :, 0]
    formula = linear.coef_ * (x[row] - x.mean(0, dtype=np.float64))
    return found | {"gap": float(np.abs(phi.numpy() - formula).max() / np.abs(formula).max())}


def read(name: str) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """The book's columns, missing cells by the mode as there; what is predicted; and the names."""
    table = pd.read_csv(Path(os.environ["MANIFOLD_SHAP_DATA"], FILES[name]), na_values="?")
    x = table[list(COLUMNS[name])].astype(np.float32)
    for column, (scale, shift) in SCALES.items():
        if column in x:
            x[column] = scale * x[column] + shift
    whole = x.fillna(x.mode().iloc[0]).to_numpy()
    return whole, table[TARGETS[name]].to_numpy(), [*COLUMNS[name].values()]


def fitted(name: str, x: np.ndarray, y: np.ndarray, trees: int) -> Any:
    """Trees as deep as by R's randomForest: nodes of six or more numbers, or two labels, are split.

    Out-of-bag scores choose how many features a split may take; the book's caret chooses among the
    same three by bootstrap samples.
    """
    regressor = partial(RandomForestRegressor, min_samples_split=6)
    forest: Any = RandomForestClassifier if name == CANCER else regressor
    count = x.shape[1]
    forests = [
        forest(trees, max_features=most, random_state=0, oob_score=True).fit(x, y)
        for most in (2, (2 + count) // 2, count)
    ]
    return max(forests, key=lambda forest: forest.oob_score_)


def predicted(model: Any, x: np.ndarray, dtype: Any = float) -> np.ndarray:
    """Of a forest of classes the share of trees that vote for the second, as in R."""
    if isinstance(model, RandomForestClassifier):
        return np.mean([tree.predict(x) for tree in model.estimators_], axis=0).astype(dtype)
    return model.predict(x).astype(dtype)


def explain(model: Any, x: np.ndarray, row: int, orders: int, draws: int = 1) -> ms.Explanation:
    """Off the manifold."""
    answers = partial(predicted, model, dtype=np.float32)
    asked = ms.as_model(answers, x[:8], ["prediction"], returns="values")
    value = ms.imputed_value(asked, ms.imputers.MarginalImputer(x), "identity", draws=draws)
    return ms.permutation_shapley(value, x[[row]], permutations=orders)


def claims(found: Found) -> list[Claim]:
    gaps, alike, ranked, near = [], {}, {}, {}
    for name, one in found["forests"].items():
        total = one["prediction"] - one["base"]
        gaps.append(abs(sum(one["phi"]) - total) / abs(total))
        alike[name] = float(np.corrcoef(one["phi"], one["without"])[0, 1])
        ranked[name] = [one["features"][k] for k in np.argsort(one["phi"])]
        prediction, mean = BOOK[name]
        near[name] = abs(total - (prediction - mean)) < NEAR * abs(prediction - mean)
    told = ", ".join(f"{number(each)} ({name})" for name, each in alike.items())
    bikes, woman = found["forests"][BIKES], found["forests"][CANCER]
    warmth, lowest = bikes["phi"][bikes["features"].index("temperature, °C")], ranked[BIKES][:2]
    vote = min((abs(one) for one in woman["without"] if abs(one) > ROUNDING), default=1.0)
    chance = (woman["prediction"] * (1 - woman["prediction"]) * vote) ** 0.5
    of = dict(zip(woman["features"], woman["phi"], strict=True))
    return [
        Claim(f"the woman's risk less the mean: within {NEAR:.0%} of the book's",
              "0.57, mean 0.03, Fig. 9.20", ends(woman), near[CANCER],
              f"a share of {1 / vote:.0f} votes has a standard error of {number(chance)}"),
        Claim("the number of diagnosed STDs raises it the most", "Fig. 9.20",
              ", then ".join(ranked[CANCER][:-3:-1]), ranked[CANCER][-1] == "diagnosed STDs",
              f"it has {number(of['diagnosed STDs'])}, and the two other columns that count STDs "
              f"have {number(of['any STD'] + of['STDs'])}"),
        Claim(f"bicycles of day 285 less the mean: within {NEAR:.0%} of the book's",
              "2,409, mean 4,518, Fig. 9.21", ends(bikes), near[BIKES]),
        Claim("weather and humidity lower them the most", "Fig. 9.21",
              ", then ".join(lowest), set(lowest) == {"weather", "humidity, %"}),
        Claim("the temperature raises them", "Fig. 9.21", number(warmth), warmth > 0),
        Claim("values sum to the prediction less the mean prediction", "efficiency",
              f"up to {number(max(gaps))} of the sum apart", max(gaps) < ROUNDING),
        Claim("a value is not the change of the prediction without the feature: over features, "
              f"their correlation is below {ALIKE}", "Section 9.5.2", told,
              max(alike.values()) < ALIKE),
        Claim("values of a linear model are its weight times the feature, less the mean of that",
              "Section 9.5.3", f"up to {number(found['gap'])} of the largest apart",
              found["gap"] < ROUNDING),
    ]  # fmt: skip


def ends(one: dict[str, Any]) -> str:
    """The prediction and the mean prediction."""
    return f"{number(one['prediction'])}, mean {number(one['base'])}"


def figures(found: Found) -> Figures:
    """Both forests: Shapley values, and the changes without each feature."""
    drawn = {}
    for name, one in found["forests"].items():
        pairs = zip(one["features"], one["values"], strict=True)
        lines = [f"{feature} = {value:.4g}" for feature, value in pairs]
        phi = zip(one["phi"], one["standard_error"], strict=True)
        sides = {"Shapley value": phi, "change without the feature": one["without"]}
        panel = {side: dict(zip(lines, each, strict=True)) for side, each in sides.items()}
        drawn["" if name == CANCER else "bikes"] = draw.dots({name: panel}, "prediction")
    return drawn
