"""The thesis' data (ADNI) are not public. Here the 442 patients are those of scikit-learn's
diabetes data, whose disease progressed by more than the median or not, with seven features. All
models get the same completed rows, of one empirical law. The order of causes is ours.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy import stats
from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

import manifold_shap as ms
from benchmarks.report import Claim, Figures, Found, number
from benchmarks.support.explained import explanation
from benchmarks.support.measures import HARDLY, gap, share_apart, shares_apart, sure

TITLE = "Several models of the same patients, explained alike"
SOURCE = "Carballo, Sections 5.2 and 5.4, Figs. 5.3 and 5.11"
QUICK = {"splits": 2, "rows": 24, "draws": 8}
# Columns of scikit-learn's table: the other three serum measurements are nearly functions of these.
COLUMNS = {
    "age": "age", "sex": "sex", "bmi": "body mass", "bp": "blood pressure", "s3": "HDL",
    "s5": "triglycerides", "s6": "glucose",
}  # fmt: skip
NAMES = tuple(COLUMNS.values())
PLAYERS = ms.Players.of_elements((len(NAMES),), NAMES)
SEX, OUTCOME = NAMES.index("sex"), "progression"
CONTINUOUS = [k for k in range(len(NAMES)) if k != SEX]
ORDERING = (("age", "sex"), ("body mass",), NAMES[3:])
LOGISTIC, FOREST, BOOSTED, NETWORK = "logistic", "random forest", "boosted trees", "network"
MODELS = (LOGISTIC, FOREST, BOOSTED, NETWORK)
PAIR = f"{LOGISTIC}, {BOOSTED}"
CONDITIONAL = "conditional"
OF_THESIS = ("marginal", "causal", "asymmetric", "asymmetric causal")
WAYS = (*OF_THESIS, CONDITIONAL)
RELATED = "rank correlation of continuous features and their values"
APART = "sexes told apart by the value of sex (area under the curve)"
WITHIN = "standard deviation within a sex, over the gap between sexes"
# Ours: so strong is a strong association, and so large a clear separation.
STRONG, CLEARLY = 0.5, 0.99
TOTAL = "what sex brings about later undoes its own effect, and causal ways count both"


def run(
    splits: int = 5,  # of the patients, two or more, for the errors
    rows: int | None = 40,  # patients to explain for each; None: all that models have not seen
    draws: int = 64,  # completions of a coalition, four times as many in asymmetric ways
) -> dict[str, Any]:
    """How the values of all models by all ways look, and how far they are apart."""
    table: Any = load_diabetes(as_frame=True, scaled=False)
    x = torch.tensor(table.data[list(COLUMNS)].to_numpy(np.float32))
    y = torch.tensor((table.target > table.target.median()).to_numpy(np.int64))
    every = [of_split(x, y, k, rows, draws) for k in range(splits)]
    told, first = [described(*one) for one in every], dict(zip(("x", "phi"), every[0], strict=True))
    # Of two groups, the root of the share of the variance between them is |Pearson's correlation|.
    return {"associations": np.corrcoef(x.T).tolist(), "splits": told, "first": first}


def of_split(
    x: Tensor, y: Tensor, seed: int, rows: int | None, draws: int
) -> tuple[Tensor, dict[str, Tensor]]:
    """Patients that no model has seen, and values by way, a column for each model."""
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    test, train = order[: len(x) // 4], order[len(x) // 4 :]
    network = MLPClassifier((16,), alpha=1.0, max_iter=2000, random_state=seed)
    classifiers: dict[str, Any] = {
        LOGISTIC: make_pipeline(StandardScaler(), LogisticRegression()),
        FOREST: RandomForestClassifier(50, min_samples_leaf=5, random_state=seed),
        BOOSTED: GradientBoostingClassifier(random_state=seed),
        NETWORK: make_pipeline(StandardScaler(), network),
    }
    for one in classifiers.values():
        one.fit(x[train].numpy(), y[train].numpy())

    def chances(batch: Tensor) -> Tensor:
        each = [one.predict_proba(batch.numpy())[:, 1] for one in classifiers.values()]
        return torch.from_numpy(np.stack(each, 1))

    # One output for each model, so that all get the same completed rows.
    models = ms.Model(chances, MODELS, "values")
    marginal = ms.imputers.MarginalImputer(x[train], PLAYERS)
    law = ms.imputers.EmpiricalImputer(x[train], PLAYERS, bandwidth="aicc")
    causal = ms.imputers.CausalImputer(law, ORDERING)
    # These orders have few coalitions, of which the better known are worth their time.
    ways = dict(zip(WAYS, (marginal, causal, marginal, causal, law), strict=True))
    phi = {}
    for way, imputer in ways.items():
        asymmetric = way.startswith("asymmetric")
        order_of, count = (ORDERING, 4 * draws) if asymmetric else (None, draws)
        value = ms.imputed_value(models, imputer, "identity", count, seed)
        phi[way] = ms.exact_shapley(value, x[test][:rows], ordering=order_of).phi.double()
    return x[test][:rows], phi


def described(x: Tensor, phi: Mapping[str, Tensor]) -> dict[str, Any]:
    """What the thesis reads from its plots."""
    found: dict[str, Any] = {"models": {}, "between models": {}, "between ways": {}}
    for way, every in phi.items():
        of = dict(zip(MODELS, every.unbind(-1), strict=True))
        found["models"][way] = {name: of_model(x, of[name]) for name in (LOGISTIC, BOOSTED)}
        found["between models"][way] = {PAIR: share_apart(of[LOGISTIC], of[BOOSTED])}
    own = [phi[way][:, CONTINUOUS, MODELS.index(LOGISTIC)] for way in OF_THESIS]
    found["between ways"][LOGISTIC] = max(shares_apart(own))
    return found


def of_model(x: Tensor, phi: Float[Tensor, "rows players"]) -> dict[str, Any]:
    """How the values of one model go with the features."""
    related = [abs(stats.spearmanr(x[:, k], phi[:, k]).statistic) for k in CONTINUOUS]
    one, other = (phi[x[:, SEX] == sex, SEX] for sex in x[:, SEX].unique())
    larger = (one[:, None] - other).sign().mean().item()
    between = (one.mean() - other.mean()).abs()
    return {
        RELATED: sum(related) / len(related),
        APART: (1 + abs(larger)) / 2,
        WITHIN: (min(one.std(), other.std()) / between).item(),
        "spreads": dict(zip(NAMES, phi.std(0).tolist(), strict=True)),
    }


def of_splits(found: Found, *path: str) -> Tensor:
    """One figure of every split."""
    figures: list[Any] = found["splits"]
    for key in path:
        figures = [one[key] for one in figures]
    return torch.tensor(figures, dtype=torch.float64)


def by_ways(found: Found, model: str, *what: str) -> list[Tensor]:
    """One figure of a model, by the four ways of the thesis."""
    return [of_splits(found, "models", way, model, *what) for way in OF_THESIS]


def means(figures: Sequence[Tensor], form: str = ".2g") -> str:
    return ", ".join(f"{one.mean():{form}}" for one in figures)


def exceeds(text: str, larger: Sequence[Tensor], smaller: Sequence[Tensor]) -> Claim:
    """Of the same splits, in every one of the ways."""
    holds = all(sure(gap(a, b)) for a, b in zip(larger, smaller, strict=True))
    ours = f"{means(larger)} against {means(smaller)}"
    return Claim(text, "thesis, Fig. 5.11", ours, holds)


def of_spreads(found: Found, model: str) -> Float[Tensor, "features ways splits"]:
    """Standard deviations of values of continuous features."""
    spreads = (by_ways(found, model, "spreads", NAMES[k]) for k in CONTINUOUS)
    return torch.stack([torch.stack(one) for one in spreads])


def claims(found: Found) -> list[Claim]:
    ways = "in all four ways"
    shares = [of_splits(found, "between models", way, PAIR) for way in OF_THESIS]
    related = [by_ways(found, model, RELATED) for model in (LOGISTIC, BOOSTED)]
    one, other = (of_spreads(found, model) for model in (BOOSTED, LOGISTIC))
    age, *others = (one.mean((1, 2)) / other.mean((1, 2))).tolist()
    alone = one[:, 0].mean(1) / other[:, 0].mean(1)
    within, sexes = by_ways(found, LOGISTIC, WITHIN), by_ways(found, LOGISTIC, APART)
    symmetric, ordered = torch.stack(by_ways(found, BOOSTED, APART)).split(2)
    between = of_splits(found, "between ways", LOGISTIC)
    first, second = found["first"], torch.tensor(found["first"]["x"])[:, SEX] == 2
    ends = [torch.tensor(first["phi"][way]) for way in (OF_THESIS[0], OF_THESIS[-1])]
    early = " and ".join(f"{phi[:, CONTINUOUS[:2], 0].abs().sum(1).mean():.2f}" for phi in ends)

    def undone(model: str) -> str:
        every = (phi[:, SEX, MODELS.index(model)] for phi in ends)
        gaps = " and ".join(f"{phi[second].mean() - phi[~second].mean():+.2f}" for phi in every)
        return f"{TOTAL}: the sexes are {gaps} apart (marginal and asymmetric causal)"

    strongest = float(np.abs(np.tril(found["associations"], -1)[: len(NAMES)]).max())
    return [
        Claim("logistic regression and boosted trees have over "
              f"{HARDLY:.0%} of Σ|φ| at other features, {ways}", "thesis, Chapter 6",
              means(shares, ".0%"), all(sure(gap(one, 0 * one + HARDLY)) for one in shares)),
        exceeds("values of continuous features go with the features more closely in logistic "
                f"regression (rank correlation), {ways}", *related),
        exceeds("values of continuous features are more spread out in boosted trees (standard "
                f"deviation), {ways}", [*one.mean(0)], [*other.mean(0)]),
        Claim("of these, most so for age", "thesis, Fig. 5.11", f"{age:.2g} times, others "
              f"up to {max(others):.2g} times as spread out", age > max(others),
              f"it is so in the marginal way, {alone[0]:.2g} against {alone[1:].max():.2g}; causal "
              "ones give age in logistic regression what it brings about"),
        Claim(f"the value of sex clearly tells the sexes apart in logistic regression, {ways}: "
              f"area under the curve over {CLEARLY}", "thesis, Fig. 5.11", means(sexes),
              all(one.mean() > CLEARLY for one in sexes), undone(LOGISTIC)),
        Claim("in boosted trees it does so better in the two asymmetric ways than in the others",
              "thesis, Figs. 5.6 and 5.11", f"{means([*ordered])} against {means([*symmetric])}",
              sure(gap(ordered.amin(0), symmetric.amax(0))), undone(BOOSTED)),
        Claim("all of one sex have one value of it in logistic regression: a standard deviation "
              f"below {HARDLY:.0%} of the gap between the sexes, {ways}", "thesis, Fig. 5.11",
              means(within, ".0%"), all(one.mean() < HARDLY for one in within), undone(LOGISTIC)),
        Claim("in logistic regression the four ways hardly differ for continuous features: any two "
              f"have less than {HARDLY:.0%} of Σ|φ| at other features", "thesis, Section 5.4",
              f"{between.mean():.0%}", bool(between.mean() < HARDLY),
              "age and body mass get what they bring about: together, they have a mean "
              f"|φ| of {early} (marginal and asymmetric causal)"),
        Claim(f"features are not very strongly associated: none of two over {STRONG}",
              "thesis, Fig. 5.3", number(strongest), strongest < STRONG),
    ]  # fmt: skip


def figures(found: Found) -> Figures:
    """Sina plots of the models, and of logistic regression by the ways, as in Fig. 5.11."""
    first = {way: torch.tensor(phi) for way, phi in found["first"]["phi"].items()}
    shown = {
        "": dict(zip(MODELS, first[CONDITIONAL].unbind(-1), strict=True)),
        "ways": {way: first[way][..., MODELS.index(LOGISTIC)] for way in OF_THESIS},
    }
    figures = {}
    for which, phi in shown.items():
        many = {n: explanation(one, found["first"]["x"], NAMES, OUTCOME) for n, one in phi.items()}
        axes: Any = ms.plots.beeswarm(many)
        figures[which] = axes.figure
    return figures
