"""Several models of the same patients, explained alike (Carballo, Section 5.4, Figs. 5.3 and 5.11).

The thesis compares XGBoost with logistic regression by four kinds of Shapley values. Its data are
not public. Here the patients are those of scikit-learn's diabetes data, whose disease progressed by
more than the median or not; seven features, as many as the thesis has, one of them the sex. Random
forests and a network are beside, and conditional values, by one empirical law for all the models.
"""

from collections.abc import Sequence
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from benchmarks import style
from benchmarks.plots import LEGEND, grouped_bars
from benchmarks.report import Claim, Found, Table, number, records, spread
from benchmarks.support import patients
from benchmarks.support.associations import associations, network
from benchmarks.support.differences import HARDLY, gap, sure
from benchmarks.support.patients import BOOSTED, CONDITIONAL, LOGISTIC, MODELS, by_ways, of_splits

TITLE = "Several models of the same patients, explained alike"
SOURCE = "Carballo, Sections 5.2 and 5.4, Figs. 5.3 and 5.11"
ERRORS = "standard errors of means over splits, too small because the splits share patients"
QUICK = {"splits": 2, "rows": 24, "draws": 8}
# Ours: so strong is a strong association, and so large a clear separation.
STRONG, CLEARLY = 0.5, 0.99
COLUMNS, CATEGORICAL = (*patients.NAMES, patients.OUTCOME), ("sex", patients.OUTCOME)
TOTAL = "sex brings about later what undoes its own effect here, and causal ways count both"
WAYS = (*patients.OF_THESIS, CONDITIONAL)


def run(
    splits: int = 5,  # of the patients, two or more, for the errors
    rows: int | None = 40,  # patients to explain for each; None: all that models have not seen
    draws: int = 64,  # completions of a coalition, four times as many in asymmetric ways
    seed: int = 0,  # of the first split, its models and draws
) -> dict[str, Any]:
    """How the values of all models by all ways look, and how far they are apart."""
    if splits < 2:
        raise ValueError(f"Expected 2 or more `splits` but got {splits}.")
    x, y = patients.patients()
    columns = dict(zip(COLUMNS, (*x.T.tolist(), y.tolist()), strict=True))
    told = []
    for k in range(seed, seed + splits):
        split = patients.Split(k, rows, draws)
        phi = {way: one.phi.double() for way, one in split.ways().items()}
        told.append({"accuracy": split.accuracy} | patients.described(split.x, phi))
        if k == seed:
            first = {"x": split.x, "phi": phi}
    return {"associations": associations(columns, CATEGORICAL), "splits": told, "first": first}


def exceeds(text: str, larger: Sequence[Tensor], smaller: Sequence[Tensor]) -> Claim:
    """Of the same splits, in every one of the ways."""
    holds = all(sure(gap(a, b)) for a, b in zip(larger, smaller, strict=True))
    ours = f"{patients.means(larger)} against {patients.means(smaller)}"
    return Claim(text, "thesis, Fig. 5.11", ours, holds)


def claims(found: Found) -> list[Claim]:
    ways, pair = "in all four ways", f"{LOGISTIC}, {BOOSTED}"
    shares = [of_splits(found, "between models", way, pair) for way in patients.OF_THESIS]
    ratios = patients.times_as_spread(found)
    age, most = ratios.pop("age"), max(ratios.values())
    within = by_ways(found, LOGISTIC, patients.WITHIN)
    sexes = by_ways(found, LOGISTIC, patients.APART)
    symmetric, ordered = torch.stack(by_ways(found, BOOSTED, patients.APART)).split(2)
    told = f"{patients.means([*ordered])} against {patients.means([*symmetric])}"
    between = of_splits(found, "between ways", LOGISTIC)
    strongest = max(abs(one) for k, row in enumerate(found["associations"][:-1]) for one in row[:k])
    return [
        Claim("explanations change with the model: logistic regression and boosted trees have over "
              f"{HARDLY:.0%} of Σ|φ| at other features, {ways}", "thesis, Chapter 6",
              patients.means(shares, ".0%"),
              all(sure(gap(one, 0 * one + HARDLY)) for one in shares)),
        exceeds("values of continuous features go with the features more closely in logistic "
                f"regression (rank correlation), {ways}",
                by_ways(found, LOGISTIC, patients.RELATED),
                by_ways(found, BOOSTED, patients.RELATED)),
        exceeds("values of continuous features are more spread out in boosted trees (standard "
                f"deviation), {ways}",
                by_ways(found, BOOSTED, patients.SPREAD),
                by_ways(found, LOGISTIC, patients.SPREAD)),
        Claim("of these, most so for age", "thesis, Fig. 5.11", f"{age:.2g} times, others "
              f"up to {most:.2g} times as spread out", bool(age > most),
              "logistic regression hardly uses the glucose"),
        Claim(f"the value of sex clearly tells the sexes apart in logistic regression, {ways}: "
              f"area under the curve over {CLEARLY}", "thesis, Fig. 5.11", patients.means(sexes),
              all(one.mean() > CLEARLY for one in sexes), TOTAL),
        Claim("in boosted trees it does so better in the two asymmetric ways than in the others",
              "thesis, Figs. 5.6 and 5.11", told,
              sure(gap(ordered.amin(0), symmetric.amax(0))), TOTAL),
        Claim("all of one sex have the same value of it in logistic regression: a standard "
              f"deviation below {HARDLY:.0%} of the gap between the sexes, {ways}",
              "thesis, Fig. 5.11", patients.means(within, ".0%"),
              all(one.mean() < HARDLY for one in within), TOTAL),
        Claim("in logistic regression the four ways hardly differ for continuous features: any two "
              f"have less than {HARDLY:.0%} of Σ|φ| at other features", "thesis, Section 5.4",
              f"{between.mean():.0%}", bool(between.mean() < HARDLY),
              "in causal order, body mass is given what later features share with it"),
        Claim(f"features are not very strongly associated: none of two over {STRONG}",
              "thesis, Fig. 5.3", number(strongest), strongest < STRONG),
    ]  # fmt: skip


def tables(found: Found) -> list[Table]:
    def summary(*path: str) -> Any:
        return spread(of_splits(found, *path).tolist(), of_mean=True)

    most = "largest share of Σ|φ| at other features, of two of the four ways, without sex"
    accuracy = {
        name: {"accuracy": summary("accuracy", name), most: summary("between ways", name)}
        for name in MODELS
    }
    between = {
        pair: {way: summary("between models", way, pair) for way in WAYS} for pair in patients.PAIRS
    }
    sizes = {
        name: {model: summary("models", CONDITIONAL, model, "sizes", name) for model in MODELS}
        | {"association with progression": found["associations"][-1][k]}
        for k, name in enumerate(patients.NAMES)
    }
    return [
        records("", accuracy),
        records("share of Σ|φ| at other features", between),
        records("mean |φ|, conditional", sizes),
    ]


def figures(found: Found) -> dict[str, Figure]:
    """Sina plots of the models, and of logistic regression by the ways; how all are associated."""
    first = {way: torch.tensor(phi) for way, phi in found["first"]["phi"].items()}
    models = dict(zip(MODELS, first[CONDITIONAL].unbind(-1), strict=True))
    ways = {way: first[way][..., MODELS.index(LOGISTIC)] for way in patients.OF_THESIS}
    x = torch.tensor(found["first"]["x"])
    figure = style.laid_out(4.0, 8.5)
    left, right = figure.subplots(1, 2, width_ratios=(1.6, 1))
    network(left, COLUMNS, found["associations"], CATEGORICAL)
    apart = {
        way: {
            pair: of_splits(found, "between models", way, pair).mean().item()
            for pair in patients.PAIRS
        }
        for way in ("marginal", CONDITIONAL)
    }
    grouped_bars(right, apart, "How far two models are apart", "share of Σ|φ| at other features")
    legend = right.get_legend_handles_labels()
    figure.legend(*legend, loc="outside lower right", ncols=2, **LEGEND)
    return {
        "": patients.swarms(x, models, "four models, conditional values"),
        "ways": patients.swarms(x, ways, "logistic regression in four ways"),
        "associations": figure,
    }
