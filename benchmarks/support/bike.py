"""Explains a model of bicycles rented per day (Heskes et al. 2020, Section 6) by any imputer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from sklearn.ensemble import HistGradientBoostingRegressor
from torch import Tensor

import manifold_shap as ms
from benchmarks import style
from benchmarks.plots import WORDS
from manifold_shap.data import bike

PLAYERS = ms.Players.of_elements((6,), ("trend", "cosyear", "sinyear", "temp", "hum", "windspeed"))
# Hardly different temperatures, and the first is cold for its season: Heskes et al., Fig. 4.
OCTOBER, DECEMBER = "2012-10-09", "2012-12-03"
TEST_SHARE = 0.2
UNIT = "bicycles"
WAYS = ("marginal", "Gaussian", "copula", "empirical", "asymmetric", "causal", "asymmetric causal")
OF_MARGINAL, AICC = "asymmetric, of the marginal game", "empirical, bandwidth by AICc"


@dataclass(frozen=True)
class Rentals:
    """Days to learn from and days to explain, the first two of them `OCTOBER` and `DECEMBER`."""

    x_train: Float[Tensor, "train 6"]
    y_train: Float[Tensor, " train"]
    x_test: Float[Tensor, "test 6"]
    y_test: Float[Tensor, " test"]
    dates: tuple[int, ...]  # of the test days, as in 20121009


def split(seed: int, days: int | None = None) -> Rentals:
    """At random, a fifth to explain, or its first `days`, two of them or more: those of Fig. 4."""
    table: Any = bike()
    x, y = torch.from_numpy(table.features.to_numpy(np.float32)), table.labels
    date = pd.Timestamp("2011-01-01") + pd.to_timedelta(table.features["trend"], "D")
    two = torch.tensor([int((date == each).argmax()) for each in (OCTOBER, DECEMBER)])
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    others = order[~torch.isin(order, two)]
    held_out = round(TEST_SHARE * len(x)) - len(two)
    test, train = torch.cat((two, others[:held_out]))[:days], others[held_out:]
    dates = tuple(date[test.tolist()].dt.strftime("%Y%m%d").astype(int))
    return Rentals(x[train], y[train], x[test], y[test], dates)


class Bench:
    """One model, boosted trees of scikit-learn, and days that are explained in many ways.

    Args:
        data: days to learn from and to explain.
        ordering: names of the features in causal order.
        draws: completions of a coalition in one repeat, where they are random.
        repeats: with other draws, by which errors are known.
        seed: of the model.
    """

    def __init__(
        self, data: Rentals, ordering: Sequence[Sequence[str]], draws: int, repeats: int, seed: int
    ) -> None:
        self.data, self.ordering = data, ordering
        self.draws, self.repeats = draws, repeats
        self.regressor: Any = HistGradientBoostingRegressor(random_state=seed)
        self.regressor.fit(data.x_train.numpy(), data.y_train.numpy())
        self.model = ms.as_model(self.regressor, data.x_train[:8], [UNIT], returns="values")

    def explain(
        self, imputer: ms.imputers.Imputer, asymmetric: bool = False, draws: int | None = None
    ) -> ms.Explanation:
        """Over all coalitions, or those of orders that `ordering` allows; the mean of repeats."""
        chosen = imputer.distinct_draws or draws or self.draws
        order = self.ordering if asymmetric else None
        found = []
        for seed in range(self.repeats):
            value = ms.imputed_value(self.model, imputer, "identity", chosen, seed)
            found.append(ms.exact_shapley(value, self.data.x_test, ordering=order))
            if not value.spec.work.sampled:
                return found[0]
        phi = torch.stack([one.phi for one in found])
        error = phi.std(0) / self.repeats**0.5
        return replace(found[0], phi=phi.mean(0), standard_error=error)

    def ways(self, confounding: Sequence[bool]) -> dict[str, ms.Explanation]:
        """The seven of the thesis, and what becomes of some of them by other choices."""
        x, order, hidden = self.data.x_train, self.ordering, list(confounding)
        marginal, gaussian = (
            ms.imputers.MarginalImputer(x, PLAYERS),
            ms.imputers.GaussianImputer(x, PLAYERS),
        )
        empirical = ms.imputers.EmpiricalImputer(x, PLAYERS)
        aicc = ms.imputers.EmpiricalImputer(x, PLAYERS, bandwidth="aicc", targets=self.model(x))
        causal = ms.imputers.CausalImputer(gaussian, order, hidden)
        by_rows = ms.imputers.CausalImputer(empirical, order, hidden)
        return {
            "marginal": self.explain(marginal),
            "Gaussian": self.explain(gaussian),
            "copula": self.explain(ms.imputers.CopulaImputer(x, PLAYERS)),
            "empirical": self.explain(empirical),
            "asymmetric": self.explain(gaussian, asymmetric=True),
            "causal": self.explain(causal),
            "asymmetric causal": self.explain(causal, asymmetric=True),
            OF_MARGINAL: self.explain(marginal, asymmetric=True),
            AICC: self.explain(aicc),
            "causal, nothing confounded": self.explain(ms.imputers.CausalImputer(gaussian, order)),
            # A draw of a row's own takes the weights of all rows of the data.
            "causal, empirical": self.explain(by_rows, draws=max(2, self.draws // 4)),
        }


def figures(found: Mapping[str, Any]) -> dict[str, Figure]:
    """Sina plots as in Figs. 5.5 and 5.6 of the thesis, and bars as in its Figs. 5.7 to 5.9."""
    prediction, x = torch.tensor(found["prediction"])[:, None], torch.tensor(found["x"])
    base, days = torch.full_like(prediction, found["base"]), tuple(found["days"])
    space, shown = ms.spaces.as_space("identity"), {}
    for way in WAYS:
        phi, error = (torch.tensor(found[key][way])[..., None] for key in ("phi", "standard_error"))
        shown[way] = ms.Explanation(phi, error, base, prediction, x, PLAYERS, (UNIT,), space, days)
    swarms: Any = ms.plots.beeswarm(shown).figure
    style.write_above(swarms, [f"What each feature adds, {len(days)} days"])
    drawn = {"": swarms}
    for row, (name, date) in enumerate((("october", OCTOBER), ("december", DECEMBER))):
        axes: Any = ms.plots.bar(shown, row=row)
        predicted = f"Predicted for {date}: {found['prediction'][row]:,.0f} {UNIT}"
        whiskers = f"mean prediction: {found['base']:,.0f}; whiskers: two standard errors"
        style.write_above(axes.figure, [predicted, whiskers])
        axes.set_xlabel(f"Shapley value ({UNIT})", **WORDS)
        drawn[name] = axes.figure
    return drawn
