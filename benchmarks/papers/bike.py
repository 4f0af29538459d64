"""Bicycles rented in Washington, D.C., day by day (Heskes et al. 2020, Section 6), and a model."""

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

import manifold_shap as ms
from manifold_shap.data import sources

FILE, ARCHIVE = "bike/day.csv", "bike/Bike-Sharing-Dataset.zip"
URL = "https://archive.ics.uci.edu/ml/machine-learning-databases/00275/Bike-Sharing-Dataset.zip"
PLAYERS = ms.Players.of_elements((6,), ("trend", "cosyear", "sinyear", "temp", "hum", "windspeed"))
# Hardly different temperatures, and the first is cold for its season: Heskes et al., Fig. 4.
OCTOBER, DECEMBER = "2012-10-09", "2012-12-03"
TEST_SHARE = 0.2
# What the model predicts.
UNIT = "bicycles"


@dataclass(frozen=True)
class Rentals:
    """Days to learn from and days to explain, the first two of them `OCTOBER` and `DECEMBER`.

    Attributes:
        dates: of the test days, as in 20121009.
    """

    x_train: Float[Tensor, "train 6"]
    y_train: Float[Tensor, " train"]
    x_test: Float[Tensor, "test 6"]
    y_test: Float[Tensor, " test"]
    dates: tuple[int, ...]


def read() -> pd.DataFrame:
    """The publisher's table, from a folder of data, or else fetched.

    Raises:
        FileNotFoundError: it is in none of the folders and was not fetched.
    """
    path = sources.find(None, FILE)
    if path is None:
        archive = sources.require(None, ARCHIVE, URL)
        with zipfile.ZipFile(archive) as parts, parts.open("day.csv") as file:
            return pd.read_csv(file, parse_dates=["dteday"])
    return pd.read_csv(path, parse_dates=["dteday"])


def features(table: pd.DataFrame) -> pd.DataFrame:
    """What the model sees: days since the first, place in the year, °C, % and km/h."""
    trend = (table["dteday"] - table["dteday"].iloc[0]).dt.days
    angle = 2 * np.pi * trend / 365
    found = {
        "trend": trend,
        "cosyear": np.cos(angle),
        "sinyear": np.sin(angle),
        "temp": 47 * table["temp"] - 8,
        "hum": 100 * table["hum"],
        "windspeed": 67 * table["windspeed"],
    }
    return pd.DataFrame(found)[list(PLAYERS.names)]


def split(seed: int, days: int | None = None) -> Rentals:
    """At random, a fifth to explain, or its first `days`, two of them or more: those of Fig. 4.

    Raises:
        ValueError: fewer than two days.
    """
    if days is not None and days < 2:
        raise ValueError(
            f"Expected `days` to be 2 or more, for {OCTOBER} and {DECEMBER} are compared, but got "
            f"{days}; leave it empty to explain all."
        )
    table = read()
    x = torch.from_numpy(features(table).to_numpy(np.float32))
    y = torch.from_numpy(table["cnt"].to_numpy(np.float32))
    dates = table["dteday"].dt.strftime("%Y%m%d").astype(int).tolist()
    two = [dates.index(int(date.replace("-", ""))) for date in (OCTOBER, DECEMBER)]
    others = _others(len(x), two, seed)
    held_out = round(TEST_SHARE * len(x)) - len(two)
    test = torch.cat((torch.tensor(two), others[:held_out]))[:days]
    train = others[held_out:]
    return Rentals(x[train], y[train], x[test], y[test], tuple(dates[k] for k in test.tolist()))


def _others(rows: int, but: Sequence[int], seed: int) -> Tensor:
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    return order[~torch.isin(order, torch.tensor(but))]


def fit(data: Rentals, seed: int) -> Any:
    """Boosted trees with the settings that scikit-learn has for them."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(random_state=seed)
    return model.fit(data.x_train.numpy(), data.y_train.numpy())


class Bench:
    """One model, and rows that are explained in many ways.

    Args:
        data: days to learn from and to explain.
        ordering: names of the features in causal order.
        draws: completions of a coalition in one repeat, where they are random.
        repeats: with other draws, by which errors are known.
        seed: of the model.
    """

    def __init__(
        self,
        data: Rentals,
        ordering: Sequence[Sequence[str]],
        draws: int,
        repeats: int,
        seed: int,
    ) -> None:
        self.data, self.ordering = data, ordering
        self.draws, self.repeats = draws, repeats
        self.regressor = fit(data, seed)
        self.model = ms.as_model(self.regressor, data.x_train[:8], [UNIT], returns="values")

    def explain(
        self, imputer: ms.Imputer, asymmetric: bool = False, draws: int | None = None
    ) -> ms.Explanation:
        """Over all coalitions; where completions are random, the mean of all repeats.

        Args:
            imputer: completes coalitions.
            asymmetric: whether only the orders that `ordering` allows count.
            draws: of a repeat; by default those of all.
        """
        order = self.ordering if asymmetric else None
        draws = imputer.support or draws or self.draws
        repeats = self.repeats if imputer.left_out(draws) > 0 else 1
        found = [
            ms.exact_shapley(
                ms.imputed_value(self.model, imputer, "identity", draws, seed),
                self.data.x_test,
                ordering=order,
            )
            for seed in range(repeats)
        ]
        mean = found[0].with_labels(self.data.dates)
        if repeats == 1:
            return mean
        phi = torch.stack([one.phi for one in found])
        error = phi.std(0) / repeats**0.5
        return replace(mean, phi=phi.mean(0), standard_error=error)
