"""The thesis' data (ADNI) are not public, and its plots have no numbers. Here boosted trees predict
bicycles rented per day, the data of Heskes et al., in their order of causes: trend, season,
weather. Conditional values behind asymmetric and causal ones are Gaussian. Heskes et al. restrict
the orders of the conditional game, the thesis those of the marginal one. "Larger" is by three
standard errors.
"""

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from sklearn.ensemble import HistGradientBoostingRegressor
from torch import Tensor

import manifold_shap as ms
from benchmarks.report import Claim, Figures, Found, cell, number
from benchmarks.support import explained as of
from benchmarks.support.explained import explanation, repeated
from benchmarks.support.measures import HARDLY, apart, gap, share_apart, sure
from manifold_shap.data import bike

TITLE = "Seven ways to explain one model"
SOURCE = "Carballo, Section 5.3, Figs. 5.5-5.9; Heskes et al. (2020), Section 6"
ERRORS = "standard errors, of means over days, or of two days from repeats"
QUICK = {"draws": 32, "repeats": 3, "days": 40}
NAMES = ("trend", "cosyear", "sinyear", "temp", "hum", "windspeed")
PLAYERS = ms.Players.of_elements((len(NAMES),), NAMES)
# Components in causal order, of which hidden causes confound the second.
ORDERING = (("trend",), ("cosyear", "sinyear"), ("temp", "hum", "windspeed"))
CONFOUNDED = [False, True, False]
EARLIER = [name not in ORDERING[-1] for name in NAMES]
# Hardly different temperatures, and the first is cold for its season: Heskes et al., Fig. 4.
OCTOBER, DECEMBER = "2012-10-09", "2012-12-03"
TEST_SHARE = 0.2
UNIT = "bicycles"
SIMILAR = {
    "marginal, Gaussian, copula and empirical values are very similar": ("5.5", of.WAYS[:4]),
    "marginal, causal, asymmetric (marginal game) and asymmetric causal values hardly differ":
        ("5.6", of.FOUR),
}  # fmt: skip


@dataclass(frozen=True)
class Rentals:
    """Days to learn from and days to explain, the first two of them `OCTOBER` and `DECEMBER`."""

    x_train: Float[Tensor, "train 6"]
    y_train: Float[Tensor, " train"]
    x_test: Float[Tensor, "test 6"]
    dates: tuple[int, ...]  # of the test days, as in 20121009


def split(days: int | None = None) -> Rentals:
    """At random, a fifth to explain, or its first `days`, two of them or more: those of Fig. 4."""
    table: Any = bike()
    x, y = torch.from_numpy(table.features.to_numpy(np.float32)), table.labels
    date = pd.Timestamp("2011-01-01") + pd.to_timedelta(table.features["trend"], "D")
    two = torch.tensor([int((date == each).argmax()) for each in (OCTOBER, DECEMBER)])
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    others = order[~torch.isin(order, two)]
    held_out = round(TEST_SHARE * len(x)) - len(two)
    test, train = torch.cat((two, others[:held_out]))[:days], others[held_out:]
    dates = tuple(date[test.tolist()].dt.strftime("%Y%m%d").astype(int))
    return Rentals(x[train], y[train], x[test], dates)


def run(
    draws: int = 64,  # completions of a coalition in one repeat, where they are random
    repeats: int = 8,  # with other draws, two or more, for the errors
    days: int | None = None,  # to explain, two or more; None: all that the model has not seen
) -> dict[str, Any]:
    """Explain the same days in every way."""
    data = split(days)
    trees: Any = HistGradientBoostingRegressor(random_state=0)
    trees.fit(data.x_train.numpy(), data.y_train.numpy())
    model = ms.as_model(trees, data.x_train[:8], [UNIT], returns="values")
    by = {way: make(data.x_train, PLAYERS) for way, make in of.IMPUTERS.items()}
    causal = ms.imputers.CausalImputer(by[of.GAUSSIAN], ORDERING, CONFOUNDED)
    games: dict[str, tuple[Any, Any]] = {
        **{way: (imputer, None) for way, imputer in by.items()},
        of.ASYMMETRIC: (by[of.GAUSSIAN], ORDERING),
        of.CAUSAL: (causal, None),
        of.BOTH: (causal, ORDERING),
        of.OF_MARGINAL: (by[of.MARGINAL], ORDERING),
    }
    found = {
        way: repeated(model, imputer, data.x_test, draws, repeats, ordering=order)
        for way, (imputer, order) in games.items()
    }
    return {
        "days": list(data.dates),
        "x": data.x_test,
        "base": found[of.MARGINAL].base.flatten()[0],
        "phi": {way: one.phi[..., 0] for way, one in found.items()},
        "standard_error": {way: one.standard_error[..., 0] for way, one in found.items()},
    }


def earlier_share(phi: Tensor) -> Float[Tensor, " days"]:
    """Part of Σ|φ| that all components but the last have."""
    return phi[:, EARLIER].abs().sum(1) / phi.abs().sum(1)


def between_days(found: Found, way: str, player: str) -> tuple[float, float]:
    """By how much a value is larger in October than in December, and its error."""
    k = NAMES.index(player)
    (one, other), (a, b) = ([row[k] for row in found[key][way][:2]]
                            for key in ("phi", "standard_error"))  # fmt: skip
    return one - other, (a**2 + b**2) ** 0.5


def claims(found: Found) -> list[Claim]:
    phi = {name: torch.tensor(one) for name, one in found["phi"].items()}
    made = []
    r = torch.corrcoef(torch.tensor(found["x"]).T).fill_diagonal_(0)
    two = list(divmod(int(r.abs().argmax()), len(NAMES)))
    for text, (figure, ways) in SIMILAR.items():
        share, way, far = max((share_apart(phi[a], phi[b]), a, b) for a, b in combinations(ways, 2))
        gaps = (phi[way] - phi[far]).abs().sum(0)
        why = (f"{NAMES[two[0]]} and {NAMES[two[1]]} correlate by {r[*two]:.2f} and have "
               f"{gaps[two].sum() / gaps.sum():.0%} of the largest difference")  # fmt: skip
        text += f": any two have less than {HARDLY:.0%} of Σ|φ| at other features"
        made.append(Claim(text, f"thesis, Fig. {figure}", f"{share:.0%}", share < HARDLY, why))
    pairs = (of.MARGINAL, of.OF_MARGINAL), (of.CAUSAL, of.BOTH)
    orders = [apart(phi[a], phi[b]) for a, b in pairs]
    games = [apart(phi[a], phi[b]) for a, b in zip(*pairs, strict=True)]
    ours = " against ".join(", ".join(number(o.mean().item()) for o in each)
                            for each in (orders, games))  # fmt: skip
    text = "restricting the orders moves marginal and causal values more than the two games differ"
    by = [share_apart(phi[of.MARGINAL], phi[way]) for way in (of.OF_MARGINAL, of.CAUSAL)]
    why = "orders move {:.0%} of marginal values, by interactions alone; games {:.0%}".format(*by)
    made.append(Claim(text, "thesis, Chapter 6", f"{ours} bicycles",
                      all(sure(gap(a, b)) for a in orders for b in games), why))  # fmt: skip
    for way in (of.CAUSAL, of.ASYMMETRIC, of.BOTH):
        one, other = (earlier_share(phi[name]) for name in (way, of.MARGINAL))
        text = f"{way} values give more to trend and season than marginal ones"
        ours = f"{one.mean():.0%} against {other.mean():.0%}"
        made.append(Claim(text, "Heskes et al., Fig. 3", ours, sure(gap(one, other))))
    for way, player, rival in ((of.MARGINAL, "temp", "cosyear"), (of.CAUSAL, "cosyear", "temp")):
        one, other = (phi[way][:, NAMES.index(name)].abs() for name in (player, rival))
        ours = f"{number(one.mean().item())} against {number(other.mean().item())} bicycles"
        why = f"the difference is {cell(gap(one, other))}"
        text = f"{way} values are larger for {player} than for {rival}"
        made.append(Claim(text, "Heskes et al., Fig. 3", ours, sure(gap(one, other)), why))
    for player, month, sign in (("cosyear", "October", 1), ("temp", "December", -1)):
        (a, e), (b, f) = (between_days(found, way, player) for way in (of.CAUSAL, of.MARGINAL))
        text = f"causal values of {player} favour {month} of the two days more than marginal ones"
        ours = f"by {cell((sign * a, e))} against {cell((sign * b, f or None))} bicycles"
        holds = sure((sign * (a - b), (e**2 + f**2) ** 0.5))
        made.append(Claim(text, "Heskes et al., Fig. 4", ours, holds))
    return made


def figures(found: Found) -> Figures:
    """Sina plots as in Figs. 5.5 and 5.6 of the thesis, and bars as in its Figs. 5.7 to 5.9."""
    about: dict[str, Any] = {"base": found["base"], "labels": found["days"]}
    shown = {way: explanation(found["phi"][way], found["x"], NAMES, UNIT,
                              found["standard_error"][way], **about)
             for way in of.WAYS}  # fmt: skip
    drawn: dict[str, Any] = {"": ms.plots.beeswarm(shown)}
    drawn |= {day: ms.plots.bar(shown, row=k) for k, day in enumerate(("october", "december"))}
    return {name: axes.figure for name, axes in drawn.items()}
