"""Explains a model of incomes, whose table has categories, by any imputer and in three codings.

A coding is a frame that means the same people: categories as they are, or whole numbers in their
place, which may number them otherwise. Of numbers, a drawn one becomes the nearest that occurs.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from sklearn.ensemble import HistGradientBoostingClassifier
from torch import Tensor

import manifold_shap as ms
from manifold_shap.coalitions import Listed
from manifold_shap.data import census

NUMBERS = ("age", "education-num", "hours-per-week")
CATEGORIES = ("sex", "race", "relationship", "occupation")
COLUMNS = ("age", "sex", "race", "education-num", "relationship", "occupation", "hours-per-week")
OUTPUTS = ["<=50K", ">50K"]
MORE = 8  # times as many draws where orders are restricted
DRAWN = 256  # completions of a row, to compare with the table
# Of each relationship that tells it, the other sex.
COUPLES = {"Husband": "Female", "Wife": "Male"}
MARGINAL, GAUSSIAN, COPULA, EMPIRICAL = "marginal", "Gaussian", "copula", "empirical"
CAUSAL, ASYMMETRIC, BOTH = "causal", "asymmetric", "asymmetric causal"
WAYS = (MARGINAL, GAUSSIAN, COPULA, EMPIRICAL, ASYMMETRIC, CAUSAL, BOTH)
EXACT, OF_MARGINAL = "exact match", "asymmetric, of the marginal game"
OF_EXACT = "asymmetric, exact match"
IMPUTERS: Mapping[str, type[ms.imputers.Imputer]] = {
    MARGINAL: ms.imputers.MarginalImputer,
    GAUSSIAN: ms.imputers.GaussianImputer,
    COPULA: ms.imputers.CopulaImputer,
    EMPIRICAL: ms.imputers.EmpiricalImputer,
    EXACT: ms.imputers.ExactMatchImputer,
}
ORDERING = (("age", "sex", "race"), ("education-num", "relationship"),
            ("occupation", "hours-per-week"))  # fmt: skip
# What comes first, or of one upbringing, shares causes that the table has not.
CONFOUNDED = [True, True, False]


class Bench:
    """A model, boosted trees of scikit-learn, and people who are explained in many ways.

    Attributes:
        people: to explain; the first of them is the one whose prediction is nearest to a half.
        background: of whom all imputers are made.
        accuracy: of the model, on all people that it has not seen.
        couples: share of people whose relationship and sex contradict each other, in the table.

    Args:
        rows: how many to explain.
        background: how many.
        draws: completions of a coalition in one repeat.
        repeats: with other draws, by which errors are known.
        seed: of the choice of people, and of the model.
    """

    def __init__(self, rows: int, background: int, draws: int, repeats: int, seed: int) -> None:
        self.draws, self.repeats = draws, repeats
        table: Any = census()
        self.frame = table.features[list(COLUMNS)].astype(dict.fromkeys(CATEGORIES, "category"))
        learned, y = len(self.frame) - table.test_rows, table.labels.numpy()
        self.trees: Any = HistGradientBoostingClassifier(
            max_iter=50, max_leaf_nodes=15, random_state=seed,
            categorical_features=[COLUMNS.index(name) for name in CATEGORIES],
        )  # fmt: skip
        self.trees.fit(codes(self.frame[:learned]), y[:learned])
        unseen = self.frame[learned:]
        self.accuracy = self.trees.score(codes(unseen), y[learned:])
        self.couples = float(contradicting(self.frame).mean())
        nearest = np.abs(self.predict(unseen)[:, 1] - 0.5).argmin()
        others = np.random.default_rng(seed).permutation(np.delete(np.arange(len(unseen)), nearest))
        self.people = unseen.iloc[[nearest, *others[: rows - 1]]]
        self.labels = y[learned:][[nearest, *others[: rows - 1]]]
        self.background = self.frame[:learned].sample(background, random_state=seed)
        self.table = ms.Table.fit(self.frame)
        self.players, self.x = self.table.players, self.table.rows(self.people)
        self.model = ms.as_model(self.predict, self.table, OUTPUTS, returns="probabilities")

    def predict(self, frame: pd.DataFrame) -> Float[np.ndarray, "rows 2"]:
        return self.trees.predict_proba(codes(frame))

    def imputer(self, way: str) -> ms.imputers.Imputer:
        """Of categories as they are: one-hot blocks, or cells of the background."""
        return ms.imputers.table_imputer(IMPUTERS[way], self.table, self.background)

    def causal(self) -> ms.imputers.Imputer:
        return ms.imputers.CausalImputer(self.imputer(GAUSSIAN), ORDERING, CONFOUNDED)

    def explain(
        self,
        imputer: ms.imputers.Imputer,
        model: Any = None,
        people: Any = None,
        asymmetric: bool = False,
    ) -> ms.Explanation:
        """Over all coalitions, or those of orders that `ORDERING` allows; the mean of repeats."""
        x = self.x if people is None else people
        order = ORDERING if asymmetric else None
        # Orders that are allowed pass through few coalitions, each of which weighs more.
        draws = self.draws * (MORE if asymmetric else 1)
        found = [
            ms.exact_shapley(
                ms.imputed_value(model or self.model, imputer, "probability", draws, seed),
                x,
                ordering=order,
            )
            for seed in range(self.repeats)
        ]
        phi = torch.stack([one.phi for one in found])
        error = phi.std(0) / self.repeats**0.5
        return replace(found[0], phi=phi.mean(0), standard_error=error)

    def ways(self) -> dict[str, ms.Explanation]:
        """The seven of the thesis, and what becomes of some of them by other choices."""
        imputers = {way: self.imputer(way) for way in IMPUTERS}
        found = {way: self.explain(one) for way, one in imputers.items()}
        causal = self.causal()
        found[CAUSAL] = self.explain(causal)
        of = {ASYMMETRIC: imputers[GAUSSIAN], BOTH: causal, OF_MARGINAL: imputers[MARGINAL]}
        of[OF_EXACT] = imputers[EXACT]
        found |= {way: self.explain(one, asymmetric=True) for way, one in of.items()}
        return {way: found[way] for way in (*WAYS, EXACT, OF_MARGINAL, OF_EXACT)}

    def numbered(self, way: str, turned: bool) -> ms.Explanation:
        """Everybody with whole numbers for categories, in turned order or not."""
        labels = {name: self.frame[name].cat.categories for name in CATEGORIES}
        # A cyclic order from the middle, so that what stood at an end has neighbours.
        places = {name: np.roll(np.arange(len(labels[name])), turned * (len(labels[name]) // 2))
                  for name in CATEGORIES}  # fmt: skip

        def numbers(frame: pd.DataFrame) -> pd.DataFrame:
            new = {name: places[name][frame[name].cat.codes] for name in CATEGORIES}
            return frame.assign(**new)

        def predict(frame: pd.DataFrame) -> Float[np.ndarray, "rows 2"]:
            back = {name: np.argsort(places[name])[frame[name]] for name in CATEGORIES}
            return self.trees.predict_proba(frame.assign(**back).to_numpy(float))

        table = ms.Table.fit(numbers(self.frame))
        model = ms.as_model(predict, table, OUTPUTS, returns="probabilities")
        imputer = ms.imputers.table_imputer(IMPUTERS[way], table, numbers(self.background))
        people = table.rows(numbers(self.people))
        return self.explain(imputer, model, people)

    def drawn(self, imputer: ms.imputers.Imputer, x: Tensor, absent: Sequence[str]) -> Tensor:
        """Rows completed where the given columns are absent."""
        mask = torch.tensor([name not in absent for name in COLUMNS]).expand(len(x), 1, -1)
        keys = torch.arange(len(x))[:, None]
        return imputer.sample(x, Listed(mask, keys), range(DRAWN)).flatten(0, 2)

    def unlike(self, imputer: ms.imputers.Imputer) -> dict[str, float]:
        """How the cells that an imputer draws for absent categories differ from the table's."""
        frames = {
            absent: self.table.frame(self.drawn(imputer, self.x, absent))
            for absent in (COLUMNS, ("sex",), ("relationship",))
        }
        apart = [
            frames[COLUMNS][name].value_counts(normalize=True)
            - self.background[name].value_counts(normalize=True)
            for name in CATEGORIES
        ]
        return {
            "shares of categories apart": float(np.mean([one.abs().sum() / 2 for one in apart])),
            "contradictions, sex drawn": float(contradicting(frames["sex",]).mean()),
            "contradictions, relationship drawn":
                float(contradicting(frames["relationship",]).mean()),
        }  # fmt: skip

    def as_they_are(self, way: str) -> dict[str, Any]:
        """What an imputer makes of text, of whole numbers, and of one-hot blocks as numbers."""
        kind, x = IMPUTERS[way], self.table.rows(self.background)
        try:
            kind(self.background)
            text = "taken"
        except TypeError:
            text = "refused"
        with warnings.catch_warnings():
            # The elements of a block sum to 1.
            warnings.filterwarnings("ignore", "The covariance of `reference`")
            blocks = kind(self.table.encode(x), self.table.elements)
        drawn = self.drawn(kind(x, self.players), self.x, COLUMNS)
        numbers = drawn[:, [COLUMNS.index(name) for name in CATEGORIES]]
        elements = self.drawn(blocks, self.table.encode(self.x), COLUMNS)
        widths = [column.width for column in self.table.encodings]
        own = dict(zip(COLUMNS, elements.split(widths, 1), strict=True))
        whole = [((own[name] == 0) | (own[name] == 1)).all(1) for name in CATEGORIES]
        return {
            "frame of text": text,
            "whole numbers drawn that are no category":
                (numbers != numbers.round()).double().mean().item(),
            "one-hot blocks drawn that are no category":
                1 - torch.stack(whole).double().mean().item(),
        }  # fmt: skip


def codes(frame: pd.DataFrame) -> Float[np.ndarray, "rows columns"]:
    """What the trees are given: numbers of categories, which they split as categories."""
    new = {name: frame[name].cat.codes for name in CATEGORIES}
    return frame.assign(**new).to_numpy(float)


def contradicting(frame: pd.DataFrame) -> "pd.Series[bool]":
    """Husbands who are women, and wives who are men."""
    return frame["sex"].astype(str) == frame["relationship"].astype(str).map(COUPLES)
