"""The thesis' data (ADNI) are not public, and its plots have no numbers. Here boosted trees predict
incomes above $50,000 from seven columns of the census, four of them categories; the causal order is
ours. "Asymmetric" in the claims is of the marginal game, as in the thesis. A column of categories
is a one-hot block. η² is the share of the variance of a column's values between its categories.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from sklearn.ensemble import HistGradientBoostingClassifier

import manifold_shap as ms
from benchmarks import draw
from benchmarks.report import Claim, Figures, Found, cell
from benchmarks.support import explained as of
from benchmarks.support.explained import repeated
from benchmarks.support.measures import HARDLY, SURELY, share_apart, shares_apart, sure
from manifold_shap.data import census

TITLE = "Categories in the seven ways"
SOURCE = "Carballo, Section 5.3, Figs. 5.5, 5.6 and 5.9"
ERRORS = "standard errors, of repeats with other draws; of η² and of other numbers, over people"
QUICK = {"rows": 12, "background": 300, "draws": 8, "repeats": 2}
NUMBERS = ("age", "education-num", "hours-per-week")
CATEGORIES = ("sex", "race", "relationship", "occupation")
COLUMNS = ("age", "sex", "race", "education-num", "relationship", "occupation", "hours-per-week")
OUTPUTS = ["<=50K", ">50K"]
MORE = 8  # times as many draws where orders are restricted
NUMBERED = of.GAUSSIAN, of.COPULA
SYMMETRIC, RESTRICTED = (of.MARGINAL, of.CAUSAL), (of.OF_MARGINAL, of.BOTH)
SHOWN = (*of.WAYS, of.OF_MARGINAL)
ORDERING = (("age", "sex", "race"), ("education-num", "relationship"),
            ("occupation", "hours-per-week"))  # fmt: skip
# What comes first, or of one upbringing, shares causes that the table has not.
CONFOUNDED = [True, True, False]


class Bench:
    """A model, boosted trees of scikit-learn, and people who are explained in many ways.

    Attributes:
        people: to explain; the first of them is the one whose prediction is nearest to a half.
        background: of whom all imputers are made.
    """

    def __init__(self, rows: int, background: int, draws: int, repeats: int) -> None:
        self.draws, self.repeats = draws, repeats
        table: Any = census()
        self.frame = table.features[list(COLUMNS)].astype(dict.fromkeys(CATEGORIES, "category"))
        learned, y = len(self.frame) - table.test_rows, table.labels.numpy()
        self.trees: Any = HistGradientBoostingClassifier(
            max_iter=50, max_leaf_nodes=15, random_state=0,
            categorical_features=[COLUMNS.index(name) for name in CATEGORIES],
        )  # fmt: skip
        self.trees.fit(codes(self.frame[:learned]), y[:learned])
        unseen = self.frame[learned:]
        nearest = np.abs(self.predict(unseen)[:, 1] - 0.5).argmin()
        others = np.random.default_rng(0).permutation(np.delete(np.arange(len(unseen)), nearest))
        self.people = unseen.iloc[[nearest, *others[: rows - 1]]]
        self.background = self.frame[:learned].sample(background, random_state=0)
        self.table = ms.Table.fit(self.frame)
        self.x = self.table.rows(self.people)
        self.model = ms.as_model(self.predict, self.table, OUTPUTS, returns="probabilities")

    def predict(self, frame: pd.DataFrame) -> Float[np.ndarray, "rows 2"]:
        return self.trees.predict_proba(codes(frame))

    def imputer(self, way: str) -> ms.imputers.Imputer:
        if way == of.CAUSAL:
            return ms.imputers.CausalImputer(self.imputer(of.GAUSSIAN), ORDERING, CONFOUNDED)
        return ms.imputers.table_imputer(of.IMPUTERS[way], self.table, self.background)

    def explain(self, way: str, asymmetric: bool = False) -> ms.Explanation:
        # Orders that are allowed pass through few coalitions, each of which weighs more.
        draws, order = self.draws * (MORE if asymmetric else 1), ORDERING if asymmetric else None
        imputer = self.imputer(way)
        return repeated(self.model, imputer, self.x, draws, self.repeats, "probability", order)

    def numbered(self, way: str, turned: bool) -> ms.Explanation:
        """Everybody with whole numbers for categories, in turned order or not."""
        counts = {name: len(self.frame[name].cat.categories) for name in CATEGORIES}
        # A cyclic order from the middle, so that what stood at an end has neighbours.
        places = {name: np.roll(np.arange(n), turned * (n // 2)) for name, n in counts.items()}

        def numbers(frame: pd.DataFrame) -> pd.DataFrame:
            return frame.assign(**{n: places[n][frame[n].cat.codes] for n in CATEGORIES})

        def predict(frame: pd.DataFrame) -> Float[np.ndarray, "rows 2"]:
            back = {name: np.argsort(places[name])[frame[name]] for name in CATEGORIES}
            return self.trees.predict_proba(frame.assign(**back).to_numpy(float))

        table = ms.Table.fit(numbers(self.frame))
        model = ms.as_model(predict, table, OUTPUTS, returns="probabilities")
        imputer = ms.imputers.table_imputer(of.IMPUTERS[way], table, numbers(self.background))
        people = table.rows(numbers(self.people))
        return repeated(model, imputer, people, self.draws, self.repeats, "probability")


def codes(frame: pd.DataFrame) -> Float[np.ndarray, "rows columns"]:
    """What the trees are given: numbers of categories, which they split as categories."""
    return frame.assign(**{n: frame[n].cat.codes for n in CATEGORIES}).to_numpy(float)


def run(
    rows: int = 240,  # to explain, the first of them nearest to .5
    background: int = 2000,  # of which imputers are made
    draws: int = 24,  # completions of a coalition in one repeat
    repeats: int = 4,  # with other draws, two or more, for the errors
) -> dict[str, Any]:
    """Explain the same people in every way, and try what each way does with categories."""
    bench = Bench(rows, background, draws, repeats)
    tried = {w: moved(bench.numbered(w, False), bench.numbered(w, True)) for w in NUMBERED}
    found = {way: bench.explain(way) for way in (*of.IMPUTERS, of.CAUSAL)}
    games = {of.ASYMMETRIC: of.GAUSSIAN, of.BOTH: of.CAUSAL, of.OF_MARGINAL: of.MARGINAL}
    found |= {way: bench.explain(game, asymmetric=True) for way, game in games.items()}
    return {
        "people": {name: bench.people[name].tolist() for name in COLUMNS},
        "tried": tried,
        "phi": {way: one.phi[..., 1] for way, one in found.items()},
        "standard_error": {way: one.standard_error[..., 1] for way, one in found.items()},
    }


def jackknife(figure: Callable[[Any], float], count: int) -> tuple[float, float]:
    """A figure of so many rows, with the error that leaving out each of them tells.

    Args:
        figure: of the rows that a mask keeps.
    """
    without = np.array([figure(np.arange(count) != k) for k in range(count)])
    return figure(np.ones(count, dtype=bool)), float(((count - 1) * without.var()) ** 0.5)


def most_apart(found: Found, ways: Sequence[str], columns: Sequence[str]) -> float:
    """Of any two ways, in the values of some columns."""
    which = [COLUMNS.index(name) for name in columns]
    return max(shares_apart([torch.tensor(found["phi"][way])[:, which] for way in ways]))


def moved(one: ms.Explanation, other: ms.Explanation) -> dict[str, Any]:
    """How far other numbers for categories move values, with an error over people, and draws."""
    a, b = one.phi[..., 1], other.phi[..., 1]
    by_chance = (2 / np.pi) ** 0.5 * one.standard_error.hypot(other.standard_error)[..., 1]
    return {
        "moved by other numbers": jackknife(lambda kept: share_apart(a[kept], b[kept]), len(a)),
        "moved by draws alone": (by_chance.sum() / (a.abs() + b.abs()).sum()).item(),
    }


def separation(found: Found, way: str, name: str, kept: Any = slice(None)) -> float:
    """η², without the variance that Monte Carlo draws add to either."""
    k, cells = COLUMNS.index(name), np.array(found["people"][name])
    phi, error = (np.array(found[key][way])[kept, k] for key in ("phi", "standard_error"))
    _, which = np.unique(cells[kept], return_inverse=True)
    means = np.bincount(which, phi) / np.bincount(which)
    # Draws add so much to either variance for each of its degrees of freedom.
    noise = np.mean(error**2) / len(phi)
    between = np.var(means[which]) - noise * (len(means) - 1)
    return float(np.clip(between / max(np.var(phi) - noise * (len(phi) - 1), 1e-12), 0, 1))


def lead(
    found: Found, ways: Sequence[str], others: Sequence[str], name: str
) -> tuple[float, float]:
    """By how much the least η² of some ways exceeds the largest of others; its jackknife error."""

    def of(kept: Any) -> float:
        one, other = ([separation(found, w, name, kept) for w in some] for some in (ways, others))
        return min(one) - max(other)

    return jackknife(of, len(found["people"][name]))


def claims(found: Found) -> list[Claim]:
    shifts = [found["tried"][way]["moved by other numbers"] for way in NUMBERED]
    least = min(range(len(shifts)), key=shifts.__getitem__)
    alone = max(found["tried"][way]["moved by draws alone"] for way in NUMBERED)
    few = f"not by {SURELY:g} standard errors over {len(found['people']['sex'])} people"
    which, ways = [COLUMNS.index(name) for name in NUMBERS], (of.MARGINAL, of.EMPIRICAL)
    off, on = (np.abs(found["phi"][way])[:, which].sum() for way in ways)
    order = most_apart(found, (of.MARGINAL, of.OF_MARGINAL), NUMBERS)
    laws, four = (most_apart(found, some, NUMBERS) for some in (of.WAYS[:4], of.FOUR))
    categories, bound = most_apart(found, of.FOUR, CATEGORIES), f"any two by less than {HARDLY:.0%}"
    of_sex = {way: np.array(found["phi"][way])[:, COLUMNS.index("sex")] for way in ways}
    means = pd.DataFrame(of_sex).groupby(found["people"]["sex"]).mean().T.to_numpy().tolist()
    of_race = lead(found, (of.EMPIRICAL,), (of.MARGINAL,), "race")
    ahead = {name: lead(found, RESTRICTED, SYMMETRIC, name) for name in ("sex", "race")}
    return [
        Claim("categories as whole numbers of a Gaussian or a copula make no sense: other numbers "
              f"move more than {HARDLY:.0%} of Σ|φ|", "Section 5.3.1 (left out)",
              f"{' and '.join(f'{one:.1%} ± {error:.1%}' for one, error in shifts)} (draws alone: "
              f"{alone:.0%})", all(sure((one - HARDLY, error)) for one, error in shifts),
              f"those of the {NUMBERED[least].lower()} move {shifts[least][0]:.1%}"),
        Claim("values of numbers hardly differ between marginal, Gaussian, copula and empirical: "
              f"{bound}", "Fig. 5.5", f"{laws:.0%}", laws < HARDLY,
              "empirical values of numbers are larger, as numbers tell of other features; this "
              f"alone makes {abs(on - off) / (on + off):.0%}"),
        Claim("values of numbers hardly differ between marginal, causal and both asymmetric: "
              f"{bound}", "Fig. 5.6", f"{four:.0%}", four < HARDLY,
              f"trees have interactions; in the marginal game, the order alone makes {order:.0%}"),
        Claim("these four differ more in categories than in numbers", "Fig. 5.6",
              f"{categories:.0%} against {four:.0%}", categories > four),
        Claim("empirical values separate the category of several levels that comes first (theirs "
              "APOE4, ours race) better than marginal ones", "Fig. 5.5",
              f"η² larger by {cell(of_race)}", sure(of_race), few),
        Claim("one sex has negative and the other positive values, marginal and empirical",
              "Fig. 5.5", " and ".join(f"{w:+.3f}, {m:+.3f}" for w, m in means),
              all(w * m < 0 for w, m in means)),
        *(Claim(f"both asymmetric ways separate the categories of {name} better than both "
                "symmetric ones", "Fig. 5.6", f"smallest difference of η²: {cell(one)}", sure(one),
                few) for name, one in ahead.items()),
        *claims_near_half(found),
    ]  # fmt: skip


def claims_near_half(found: Found) -> list[Claim]:
    """Of the person whose prediction is nearest to .5, whom Fig. 5.9 shows for these four ways."""
    phi = {way: torch.tensor(found["phi"][way][0]) for way in of.FOUR}
    top = {way: int(one.abs().argmax()) for way, one in phi.items()}
    first = (phi[of.CAUSAL].abs().max() / phi[of.CAUSAL].abs().sum()).item()
    told = ", ".join(f"{COLUMNS[k]} {phi[way][k]:+.2f}" for way, k in top.items())
    sizes = {way: one.abs() / one.abs().max() for way, one in phi.items()}
    small = {way: one < HARDLY for way, one in sizes.items()}
    rest = [
        f"{COLUMNS[k]} {phi[of.CAUSAL][k].abs() / phi[of.CAUSAL].abs().sum():.0%}"
        for k in sizes[of.CAUSAL].argsort(descending=True)[1:3]
    ]
    idle = [k for k in range(len(COLUMNS)) if all(small[way][k] for way in SYMMETRIC)]
    most = max((sizes[way][k].item() for way in RESTRICTED for k in idle), default=0.0)
    late = [name for k, name in enumerate(COLUMNS) if all(small[way][k] for way in SYMMETRIC)
            and not any(small[way][k] for way in RESTRICTED)]  # fmt: skip
    return [
        Claim("near .5, one feature contributes the most in all four ways, and raises it",
              "Fig. 5.9: FDG", told, len(set(top.values())) == 1
              and all(phi[way][k] > 0 for way, k in top.items())),
        Claim("near .5, the first feature has more than half of Σ|φ| in the causal way",
              "Fig. 5.9", f"{first:.0%}", first > 0.5, f"{' and '.join(rest)} follow"),
        Claim("near .5, a feature counts in both asymmetric ways and in neither symmetric one, by "
              f"{HARDLY:.0%} of the largest", "Fig. 5.9: PTAU", ", ".join(late) or "none",
              bool(late), f"only {', '.join(COLUMNS[k] for k in idle) or 'nothing'} counts in "
              f"neither symmetric way, and in an asymmetric one it has at most {most:.0%} of the "
              "largest"),
    ]  # fmt: skip


def figures(found: Found) -> Figures:
    """The person nearest to .5, as in Fig. 5.9, and how far values tell categories apart."""
    cells = [f"{name} = {found['people'][name][0]}" for name in COLUMNS]
    phi, error = ({way: found[key][way][0] for way in SHOWN} for key in ("phi", "standard_error"))
    pairs = {way: zip(phi[way], error[way], strict=True) for way in SHOWN}
    person = {way: {"phi": dict(zip(cells, pairs[way], strict=True))} for way in SHOWN}
    told = {name: {way: separation(found, way, name) for way in SHOWN} for name in ("sex", "race")}
    return {
        "": draw.dots(person, "Shapley value (probability)"),
        "eta": draw.dots({"How far values tell categories apart": told}, "η²"),
    }
