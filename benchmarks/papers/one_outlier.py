"""One outlier explained off and on the manifold (Frye et al. 2021, Section 3.2, Figs. 3(a) to (c)).

Its first five features read the opposite of the hidden bit that all others read. The first outlier
is shown whose explanation off the manifold is wrong beyond doubt: another feature is above one of
the five by more than three standard errors of their difference.
"""

from typing import Any

import torch
from matplotlib.figure import Figure

import manifold_shap as ms
from benchmarks import style
from benchmarks.plots import bars, label_axes, make_room, say_whiskers
from benchmarks.report import Claim, Found, Table, number, records
from benchmarks.support.forests import BROKEN, GAMES, OFF, ON, Detector, error_rate

TITLE = "One outlier, explained off and on the manifold"
SOURCE = "Frye et al. (2021), Section 3.2, Figs. 3(a) to (c)"
ERRORS = "standard errors over pairs of orders"
QUICK = {"outliers": 6, "orders": 256}
DOUBT = 3.0  # Standard errors.
OUTRANKED = 3  # As x7 in the paper: of the five broken features.


def run(
    sigma: float = 0.05,  # noise of the data
    trees: int = 100,  # of the forest
    outliers: int = 20,  # how many are explained
    orders: int = 1024,  # of the players, half of them reverses of the others
    draws: int = 1,  # completions of a coalition; those of other orders are others
    seed: int = 0,  # of data, forest, orders and draws
) -> dict[str, Any]:
    """Both explanations of the outlier that is shown, and how many of all are wrong."""
    made = Detector(sigma, trees, seed, outliers, orders, draws)
    x = made.x[made.is_outlier][:outliers]
    explained = {
        name: ms.permutation_shapley(made.values[name], x, permutations=orders, seed=seed)
        for name in GAMES
    }
    phi, error = (
        {name: vars(one)[key][..., 0] for name, one in explained.items()}
        for key in ("phi", "standard_error")
    )
    lead = [doubtless(*pair) for pair in zip(phi[OFF], error[OFF], strict=True)]
    shown = next((k for k, certain in enumerate(lead) if certain > DOUBT), 0)
    return {
        "sigma": sigma,
        "shown": shown,
        "lead": lead,
        "x": x[shown],
        "score": float(made.score(x[shown : shown + 1])),
        "phi": {name: phi[name][shown] for name in GAMES},
        "standard_error": {name: error[name][shown] for name in GAMES},
        "wrong": {name: error_rate(phi[name]) for name in GAMES},
    }


def doubtless(phi: torch.Tensor, error: torch.Tensor) -> float:
    """How far the strongest sound feature is above the weakest broken one, in standard errors."""
    low, high = phi[:BROKEN].argmin(), BROKEN + phi[BROKEN:].argmax()
    spread = (error[low].square() + error[high].square()).sqrt()
    return float((phi[high] - phi[low]) / spread)


def outranked(phi: list[float]) -> int:
    """How many broken features are below the strongest sound one."""
    return sum(value < max(phi[BROKEN:]) for value in phi[:BROKEN])


def claims(found: Found) -> list[Claim]:
    phi, lead = found["phi"], found["lead"]
    certain = sum(each > DOUBT for each in lead)
    return [
        Claim("off the manifold an explanation is wrong beyond doubt: a sound feature is above a "
              "broken one by three standard errors", "Fig. 3(b)",
              f"of {certain} of {len(lead)} outliers", certain > 0),
        Claim(f"off the manifold the strongest sound feature of the outlier shown outranks "
              f"{OUTRANKED} or more of the five", "x7 above x2, x4 and x5",
              f"{outranked(phi[OFF])}", outranked(phi[OFF]) >= OUTRANKED,
              "the outlier is another one"),
        Claim("on the manifold the five largest values of the same outlier are those of the five "
              "broken features", "Fig. 3(c)", f"{outranked(phi[ON])} of the five are outranked",
              outranked(phi[ON]) == 0),
    ]  # fmt: skip


def tables(found: Found) -> list[Table]:
    return [records("", {"share of wrong explanations": found["wrong"]})]


def figures(found: Found) -> dict[str, Figure]:
    """The outlier, and the Shapley values of its features."""
    figure = style.laid_out(3.6, 7.0)
    panels = figure.subplots(1, 3, sharey=True)
    panels[2].sharex(panels[1])
    names = [f"x{k + 1}" for k in range(len(found["x"]))]
    colours = [style.SERIES[5] if k < BROKEN else style.NEUTRAL for k in range(len(names))]
    panels[0].scatter(found["x"], range(len(names)), c=colours, s=14, zorder=2)
    label_axes(panels[0], f"Outlier (score {number(found['score'])})", "feature value")
    for axes, name in zip(panels[1:], GAMES, strict=True):
        values, errors = found["phi"][name], found["standard_error"][name]
        bars(axes, range(len(names)), values, errors, style.SMALL, height=0.7, color=colours)
        axes.axvline(0, color=style.INK, linewidth=0.8)
        label_axes(axes, f"Explained {name}", "Shapley value (outlier score)")
    for axes in panels:
        style.strip(axes, grid="x")
    style.write_lines(panels[0], names)
    for axes in panels[1:]:
        make_room(axes)
    told = "Orange: the five features that read the opposite of the others."
    style.write_below(figure, [told, say_whiskers()])
    return {"": figure}
