"""Three rows of Adult, and the table that KernelSHAP makes of one row (Lemaire et al. 2023).

Fig. 1: the values of rows of which the class "more" has the probabilities 0.99, 0.50 and 0.01, over
their sum, which is negative where a row is below the mean. Fig. 2: rows of the "modified table" of
an example of Crx, all of which the classifier has to predict, by the size of the background.
"""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from benchmarks import style
from benchmarks.plots import LEGEND, WORDS, Panel, curves, label_axes
from benchmarks.report import Claim, Found, Table, number, records
from benchmarks.support.lemaire_data import read
from benchmarks.support.lemaire_measures import rows_asked, rows_near
from benchmarks.support.modl import equally_frequent, most_probable
from benchmarks.support.packages import require

TITLE = "Naive Bayes: values of three rows, and what KernelSHAP asks of the model"
SOURCE = "Lemaire et al. (2023), Sections 3 and 5.3, Figs. 1 and 2"
ERRORS = "standard errors over rows"
QUICK = {"sizes": [50, 690]}
WITHIN = 0.005  # Rows whose probability is as near as this are like the one that is shown.
# Section 3 says "the usual results", and not which; these are ours.
USUAL = ("age", "education", "marital-status", "relationship", "capital-gain")
EXACT = 1e-4  # Values are float32: gaps below this part of the largest value are rounding.
PAPER_SECONDS, LARGE = 12.13, 1_000_000  # Of one row of Crx; ours for "a very large table".
SMALL: dict[str, Any] = {"fontsize": style.SMALL, "color": style.INK}
SHAP, OURS = "KernelSHAP (shap), one row", "exact values, all rows"


def run(
    probabilities: Sequence[float] = (0.99, 0.5, 0.01),  # of the class "more", from high to low
    sizes: Sequence[int] = (50, 100, 200, 300, 400, 500, 600, 690),  # examples of the background
    seed: int = 0,  # of the choice of examples, and of coalitions
) -> dict[str, Any]:
    """Values of rows of Adult with such probabilities; rows that are asked of a model of Crx."""
    require("shap", "shap")
    adult, crx = read("adult"), read("crx")
    return {
        "adult": rows_near(most_probable(adult, weighted=True), probabilities, WITHIN),
        "crx": rows_asked(equally_frequent(crx, 10), sizes, seed),
    }


def claims(found: Found) -> list[Claim]:
    adult, crx = found["adult"], found["crx"]
    first, *_, last = adult["rows"]
    high, low = (
        {name: mean for name, (mean, _) in zip(adult["variables"], near, strict=True)}
        for near in (adult["rows"][key]["phi of near rows"] for key in (first, last))
    )
    odd = [name for name in USUAL if not high[name] > 0 > low[name]]
    each = [rows / size for rows, size in zip(crx["table"], crx["sizes"], strict=True)]
    took, every = crx["seconds"][-1], 2 ** crx["variables"]
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
              each[-1] > every / 2, "shap draws 2,048 coalitions and two for each variable"),
        Claim("Crx: KernelSHAP of all rows takes more than an hour", "8370 s (Section 5.3)",
              f"{number(took * crx['rows'])} s, by one row of {number(took)} s",
              took * crx["rows"] > 3600, "this classifier predicts faster, on another machine"),
        Claim("Crx: exact values of all rows take less time than KernelSHAP of one",
              f"\"very low\" against {PAPER_SECONDS} s (Section 5.3)",
              f"{number(crx['exact seconds'])} s against {number(took)} s",
              crx["exact seconds"] < took),
    ]  # fmt: skip


def tables(found: Found) -> list[Table]:
    crx = found["crx"]
    sizes = zip(crx["sizes"], crx["table"], crx["seconds"], strict=True)
    each = {number(n): {"rows of the table": rows, "seconds": s} for n, rows, s in sizes}
    return [records("Crx, examples of the background", each)]


def figures(found: Found) -> dict[str, Figure]:
    """Fig. 1, a panel for each row, the variables that matter most first; and Fig. 2."""
    adult, crx = found["adult"], found["crx"]
    figure = style.laid_out(5.0, 7.6)
    panels = figure.subplots(1, len(adult["rows"]), sharey=True)
    order = sorted(range(len(adult["variables"])), key=lambda k: -adult["mean |phi|"][k])
    for axes, of in zip(panels, adult["rows"].values(), strict=True):
        style.strip(axes, grid="x")
        shares = [100 * of["phi"][k] / sum(of["phi"]) for k in order]
        means = [100 * of["shares of near rows"][k][0] for k in order]
        colours = [style.RAISES if of["phi"][k] > 0 else style.LOWERS for k in order]
        for bars, up, colour in ((shares, -0.21, colours), (means, 0.21, style.NEUTRAL)):
            where = [line + up for line in range(len(order))]
            drawn = axes.barh(where, bars, 0.38, color=colour)
            axes.bar_label(
                drawn, [style.number(float(round(each))) for each in bars], padding=2, **SMALL
            )
        axes.axvline(0, color=style.INK, linewidth=0.8)
        axes.margins(x=0.12)
        (whole,) = style.signed([sum(of["phi"])])
        title = f"P(more) = {of['probability']:.2f}, sum of values {whole}"
        label_axes(axes, title, "share of the sum (%)")
    style.write_lines(panels[0], [adult["variables"][k] for k in order])
    looks = [Patch(color=colour) for colour in (style.RAISES, style.LOWERS, style.NEUTRAL)]
    words = ['raises the odds of "more"', "lowers them", f"mean of all rows within {WITHIN} of P"]
    figure.legend(looks, words, loc="outside lower center", ncols=3, **LEGEND)
    sizes, x = crx["sizes"], "examples of the background"
    counts = [(n, rows / 1e6) for n, rows in zip(sizes, crx["table"], strict=True)]
    seconds = {
        SHAP: list(zip(sizes, crx["seconds"], strict=True)),
        OURS: [(n, crx["exact seconds"]) for n in sizes],
        "KernelSHAP, one row (paper)": [(crx["rows"], PAPER_SECONDS)],
    }
    asked = Panel("Rows to predict, for one row of Crx", x, "million rows", {SHAP: counts}, log="")
    table = curves([asked, Panel("Time, Crx", x, "seconds", seconds, log="y")])
    above: Any = {"textcoords": "offset points", "ha": "right", **WORDS}
    table.axes[0].annotate(f"{number(crx['table'][-1])} rows", counts[-1], (-6, 0), **above)
    return {"": figure, "table": table}
