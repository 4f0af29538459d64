"""Fig. 1: values of rows of Adult with three probabilities of the class "more", over their sum,
which is negative where a row is below the mean. Fig. 2: rows of the table that KernelSHAP makes of
one example of Crx. The classifiers are those of [naive_bayes](naive_bayes.md); shap has its
defaults before version 0.47, and draws a sample of coalitions beyond 11 variables.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

import manifold_shap as ms
from benchmarks import draw
from benchmarks.report import Claim, Figures, Found, number, spread
from benchmarks.support.lemaire import Discretised, equally_frequent, most_probable, read
from benchmarks.support.measures import timed

TITLE = "Naive Bayes: values of three rows, and what KernelSHAP asks of the model"
SOURCE = "Lemaire et al. (2023), Sections 3 and 5.3, Figs. 1 and 2"
ERRORS = "standard errors over rows"
QUICK = {"sizes": [50, 690]}
WITHIN = 0.005  # Rows whose probability is as near as this are like the one that is shown.
# Section 3 says "the usual results", and not which; these are ours.
USUAL = ("age", "education", "marital-status", "relationship", "capital-gain")
EXACT = 1e-4  # Values are float32: gaps below this part of the largest value are rounding.
PAPER_SECONDS, LARGE = 12.13, 1_000_000  # Of one row of Crx; ours for "a very large table".
SHAP, OURS = "KernelSHAP (shap), one row", "exact values, all rows"


def run(
    probabilities: Sequence[float] = (0.99, 0.5, 0.01),  # of the class "more", from high to low
    sizes: Sequence[int] = (50, 100, 200, 300, 400, 500, 600, 690),  # examples of the background
) -> dict[str, Any]:
    """Values of rows of Adult with such probabilities; rows that are asked of a model of Crx."""
    adult, crx = read("adult"), read("crx")
    return {
        "adult": rows_near(most_probable(adult), probabilities),
        "crx": rows_asked(equally_frequent(crx, 10), sizes),
    }


def by_shap(
    model: Callable[[np.ndarray], np.ndarray],
    donors: Float[np.ndarray, "donors variables"],
    x: Float[np.ndarray, "rows variables"],
) -> Float[np.ndarray, "rows variables"]:
    """Values of rows by KernelSHAP of the package shap, with its defaults before version 0.47."""
    import shap

    # It warns of more than 100 donors.
    logging.getLogger("shap").setLevel(logging.ERROR)
    np.random.seed(0)  # The global one, which shap draws from.
    # Variables were selected where coalitions are few of all, as they are of Crx.
    return shap.KernelExplainer(model, donors).shap_values(x, l1_reg="aic", silent=True)


def rows_near(bayes: Discretised, probabilities: Sequence[float]) -> dict[str, Any]:
    """Of the rows nearest to these probabilities, of all rows near these, and what all obey."""
    x, weights = bayes.x, bayes.weights
    explained = ms.naive_bayes.naive_bayes_shapley(bayes.model, x, x, weights=weights)
    phi, odds = explained.phi[..., 0].double(), explained.prediction[:, 0].double()
    turned = Discretised.of(x, 1 - bayes.y, bayes.names, weights)
    of_other = ms.naive_bayes.naive_bayes_shapley(turned.model, x, x, weights=weights).phi[..., 0]
    constant = odds - phi.sum(1)
    gaps = {
        "mean of a variable's values (Section 3: zero)": phi.mean(0).abs().max(),
        "log-odds less the sum of values (Eq. 12: a constant)": constant.max() - constant.min(),
        "values for both classes, added (Section 3: zero)": (phi + of_other).abs().max(),
    }
    rows = {}
    for probability in probabilities:
        apart = (odds.sigmoid() - probability).abs()
        # The nearest row itself in any case.
        near, row = apart <= max(WITHIN, apart.min().item()), apart.argmin()
        shares = phi[near] / phi[near].sum(1, keepdim=True)
        rows[str(probability)] = {
            "probability": odds[row].sigmoid(),
            "phi": phi[row],
            "phi of near rows": [spread(column.tolist(), of_mean=True) for column in phi[near].T],
            "shares of near rows": [spread(column.tolist(), of_mean=True) for column in shares.T],
        }
    sizes = {"variables": bayes.names, "mean |phi|": phi.abs().mean(0)}
    return {**sizes, "rows": rows, "gaps": {k: gap / phi.abs().max() for k, gap in gaps.items()}}


def rows_asked(bayes: Discretised, sizes: Sequence[int]) -> dict[str, Any]:
    """Rows that shap asks of the classifier to explain one row, and seconds, by background."""
    order = np.random.default_rng(0).permutation(len(bayes.x))
    counts: list[int] = []

    def model(rows: np.ndarray) -> np.ndarray:
        counts.append(len(rows))
        return bayes.model.predict_proba(rows.astype(np.int64))[:, 1]

    table, seconds = [], []
    by_shap(model, bayes.x[:2], bayes.x[:1])  # The first time takes longer.
    for size in sizes:
        counts.clear()
        donors, x = bayes.x[order[:size]], bayes.x[order[:1]]
        seconds.append(timed(partial(by_shap, model, donors, x))[1])
        # The background and the row itself come first.
        table.append(sum(counts) - size - 1)
    exact = timed(lambda: ms.naive_bayes.naive_bayes_shapley(bayes.model, bayes.x, bayes.x))[1]
    of_all = {"rows": len(bayes.x), "variables": bayes.x.shape[1], "exact seconds": exact}
    return {"sizes": list(sizes), "table": table, "seconds": seconds, **of_all}


def claims(found: Found) -> list[Claim]:
    adult, crx = found["adult"], found["crx"]
    first, *_, last = adult["rows"]
    high, low = (
        {name: mean for name, (mean, _) in zip(adult["variables"], near, strict=True)}
        for near in (adult["rows"][key]["phi of near rows"] for key in (first, last))
    )
    odd = [name for name in USUAL if not high[name] > 0 > low[name]]
    each = [rows / size for rows, size in zip(crx["table"], crx["sizes"], strict=True)]
    took, exact, every = crx["seconds"][-1], crx["exact seconds"], 2 ** crx["variables"]
    return [
        Claim(f"Adult: {', '.join(USUAL)} raise the odds of \"more\" in rows of probability "
              f"{first}, and lower them in those of {last}, on average", "Fig. 1 (\"the usual "
              "results\")", f"all but {', '.join(odd)}" if odd else "all do", not odd),
        *(Claim(f"Adult: {what}, to {EXACT:g} of the largest value", "Section 3",
                number(gap), gap < EXACT) for what, gap in adult["gaps"].items()),
        Claim("Crx: the table that KernelSHAP makes of a row grows in proportion to the background",
              "Fig. 2 (linear)", f"{number(min(each))} to {number(max(each))} rows per example",
              max(each) < 1.01 * min(each)),
        Claim("Crx: with all examples it is very large: a million rows or more, for one row",
              "Fig. 2", f"{number(crx['table'][-1])} rows", crx["table"][-1] >= LARGE),
        Claim("Crx: it has about as many rows per example as there are coalitions, within a factor "
              "of 2", "2^d (Section 5.3)", f"{number(each[-1])} of {number(every)}",
              each[-1] > every / 2, "shap's default is two for each variable and "
              f"{number(each[-1] - 2 * crx['variables'])} more"),
        Claim("Crx: KernelSHAP of all rows takes more than an hour", "8370 s (Section 5.3)",
              f"{number(took * crx['rows'])} s, by one row of {number(took)} s",
              took * crx["rows"] > 3600, f"shap asks {number(every / each[-1])} times fewer rows; "
              f"all coalitions would take {number(took * crx['rows'] * every / each[-1])} s"),
        Claim("Crx: exact values of all rows take less time than KernelSHAP of one",
              f"\"very low\" against {PAPER_SECONDS} s (Section 5.3)",
              f"{number(exact)} s against {number(took)} s", exact < took),
    ]  # fmt: skip


def figures(found: Found) -> Figures:
    """Fig. 1, a panel for each row, the variables that matter most first; and Fig. 2."""
    adult, crx = found["adult"], found["crx"]
    order = sorted(range(len(adult["variables"])), key=lambda k: -adult["mean |phi|"][k])
    panels = {}
    for of in adult["rows"].values():
        shares = {"the row": [100 * phi / sum(of["phi"]) for phi in of["phi"]]}
        shares["mean of rows like it"] = [100 * share for share, _ in of["shares of near rows"]]
        title = f"P(more) = {of['probability']:.2f}, sum of values {sum(of['phi']):.2f}"
        panels[title] = {
            side: {adult["variables"][k]: each[k] for k in order} for side, each in shares.items()
        }
    sizes, x = crx["sizes"], "examples of the background"
    counts = [(n, rows / 1e6) for n, rows in zip(sizes, crx["table"], strict=True)]
    seconds = {
        SHAP: list(zip(sizes, crx["seconds"], strict=True)),
        OURS: [(n, crx["exact seconds"]) for n in sizes],
        "KernelSHAP, one row (paper)": [(crx["rows"], PAPER_SECONDS)],
    }
    asked = draw.Panel("Rows to predict, Crx", x, "million rows", {SHAP: counts}, log="")
    table = draw.curves([asked, draw.Panel("Time, Crx", x, "seconds", seconds, log="y")])
    return {"": draw.dots(panels, "% of the sum"), "table": table}
