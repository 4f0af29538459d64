"""Explains four models of patients' diabetes by one imputer that serves them all."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from scipy.stats import spearmanr
from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

import manifold_shap as ms
from benchmarks import style
from benchmarks.support.differences import share_apart, shares_apart

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
CONDITIONAL = "conditional"
PAIRS = {f"{a}, {b}": (a, b) for a, b in itertools.combinations(MODELS, 2)}
RELATED = "rank correlation of continuous features and their values"
SPREAD = "standard deviation of values of continuous features"
APART = "sexes told apart by the value of sex (area under the curve)"
WITHIN = "standard deviation within a sex, over the gap between sexes"
OF_THESIS = ("marginal", "causal", "asymmetric", "asymmetric causal")


def patients() -> tuple[Float[Tensor, "patients 7"], Tensor]:
    """Their features, and whether the disease progressed by more than the median in a year."""
    table: Any = load_diabetes(as_frame=True, scaled=False)
    x = torch.tensor(table.data[list(COLUMNS)].to_numpy(np.float32))
    return x, torch.tensor((table.target > table.target.median()).to_numpy(np.int64))


class Split:
    """Four models, and a quarter of the patients that none of them has seen.

    Args:
        seed: of the split, the models and the draws.
        rows: patients to explain; None: the whole quarter.
        draws: completions of a coalition, and four times as many in asymmetric ways.
    """

    def __init__(self, seed: int, rows: int | None, draws: int) -> None:
        x, y = patients()
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
        test, train = order[: len(x) // 4], order[len(x) // 4 :]
        self.seed, self.draws, self.x_train, self.x = seed, draws, x[train], x[test][:rows]
        classifiers: dict[str, Any] = {
            LOGISTIC: make_pipeline(StandardScaler(), LogisticRegression()),
            FOREST: RandomForestClassifier(50, min_samples_leaf=5, random_state=seed),
            BOOSTED: GradientBoostingClassifier(random_state=seed),
            NETWORK: make_pipeline(
                StandardScaler(), MLPClassifier((16,), alpha=1.0, max_iter=2000, random_state=seed)
            ),
        }
        for one in classifiers.values():
            one.fit(x[train].numpy(), y[train].numpy())
        self.accuracy = {
            name: one.score(x[test].numpy(), y[test].numpy()) for name, one in classifiers.items()
        }

        def chances(batch: Tensor) -> Tensor:
            each = [one.predict_proba(batch.numpy())[:, 1] for one in classifiers.values()]
            return torch.from_numpy(np.stack(each, 1))

        # One output for each model, so that all get the same completed rows.
        self.models = ms.Model(chances, MODELS, "values")

    def explain(self, imputer: ms.imputers.Imputer, asymmetric: bool = False) -> ms.Explanation:
        """Probabilities of progression, by all coalitions or those that `ORDERING` allows."""
        # These orders have few coalitions, of which the better known are worth their time.
        draws = 4 * self.draws if asymmetric else self.draws
        value = ms.imputed_value(self.models, imputer, "identity", draws, self.seed)
        return ms.exact_shapley(value, self.x, ordering=ORDERING if asymmetric else None)

    def ways(self) -> dict[str, ms.Explanation]:
        """The four that the thesis compares models by, and conditional ones."""
        marginal = ms.imputers.MarginalImputer(self.x_train, PLAYERS)
        law = ms.imputers.EmpiricalImputer(self.x_train, PLAYERS, bandwidth="aicc")
        causal = ms.imputers.CausalImputer(law, ORDERING)
        return {
            "marginal": self.explain(marginal),
            "causal": self.explain(causal),
            "asymmetric": self.explain(marginal, asymmetric=True),
            "asymmetric causal": self.explain(causal, asymmetric=True),
            CONDITIONAL: self.explain(law),
        }


def described(x: Tensor, phi: dict[str, Tensor]) -> dict[str, Any]:
    """Of values by way, with a column for each model, what the thesis reads from its plots."""
    found: dict[str, Any] = {"models": {}, "between models": {}, "between ways": {}}
    for way, every in phi.items():
        of = dict(zip(MODELS, every.unbind(-1), strict=True))
        found["models"][way] = {name: described_model(x, one) for name, one in of.items()}
        found["between models"][way] = {
            pair: share_apart(of[a], of[b]) for pair, (a, b) in PAIRS.items()
        }
    for k, name in enumerate(MODELS):
        own = [phi[way][:, CONTINUOUS, k] for way in OF_THESIS]
        found["between ways"][name] = max(shares_apart(own))
    return found


def described_model(x: Tensor, phi: Tensor) -> dict[str, Any]:
    """How the values of one model go with the features."""
    related = [abs(spearmanr(x[:, k], phi[:, k]).statistic) for k in CONTINUOUS]
    one, other = (phi[x[:, SEX] == sex, SEX] for sex in x[:, SEX].unique())
    larger = (one[:, None] - other).sign().mean().item()
    between = (one.mean() - other.mean()).abs()
    return {
        RELATED: sum(related) / len(related),
        SPREAD: phi[:, CONTINUOUS].std(0).mean().item(),
        APART: (1 + abs(larger)) / 2,
        WITHIN: (min(one.std(), other.std()) / between).item(),
        "spreads": dict(zip(NAMES, phi.std(0).tolist(), strict=True)),
        "sizes": dict(zip(NAMES, phi.abs().mean(0).tolist(), strict=True)),
    }


def of_splits(found: Mapping[str, Any], *path: str) -> Tensor:
    """One figure of every split."""
    figures: list[Any] = found["splits"]
    for key in path:
        figures = [one[key] for one in figures]
    return torch.tensor(figures, dtype=torch.float64)


def by_ways(found: Mapping[str, Any], model: str, *what: str) -> list[Tensor]:
    """One figure of a model, by the four ways of the thesis."""
    return [of_splits(found, "models", way, model, *what) for way in OF_THESIS]


def times_as_spread(found: Mapping[str, Any]) -> dict[str, float]:
    """Values of continuous features in boosted trees, over those in logistic regression."""
    names = [NAMES[k] for k in CONTINUOUS]
    trees, logistic = (
        {name: torch.stack(by_ways(found, model, "spreads", name)).mean() for name in names}
        for model in (BOOSTED, LOGISTIC)
    )
    return {name: float(trees[name] / logistic[name]) for name in names}


def means(figures: Sequence[Tensor], form: str = ".2g") -> str:
    return ", ".join(f"{one.mean():{form}}" for one in figures)


def swarms(x: Tensor, values: Mapping[str, Tensor], what: str) -> Figure:
    """Sina plots side by side, as in Fig. 5.11 of the thesis, of rows of one split.

    Args:
        x: rows `[rows, features]`.
        values: Shapley values `[rows, features]` by title.
        what: what is drawn.
    """
    base, space = torch.zeros(len(x), 1), ms.spaces.as_space("identity")
    shown = {
        name: ms.Explanation(phi, 0 * phi, base, phi.sum(1), x, PLAYERS, (OUTCOME,), space)
        for name, phi in ((name, each[..., None]) for name, each in values.items())
    }
    drawn: Any = ms.plots.beeswarm(shown).figure
    title = f"What each feature adds to the risk of {OUTCOME}: {what}, {len(x)} patients"
    style.write_above(drawn, [title])
    return drawn
