"""The ten data sets of Lemaire et al. (2023), Table 1, and naive Bayes classifiers of their parts.

Identifiers are left out, and missing entries are NaN, or a category "?" of the census. The paper's
classifiers are of Khiops, whose three steps are rebuilt here from their criteria: intervals of
numbers (Boullé 2006, MODL), groups of categories (Boullé 2005), and weights. Intervals are found
among equally frequent cells, groups among categories in the order of their shares of the second
class, both by dynamic programming. A variable whose most probable partition is a single part is
dropped. Weights maximise the likelihood of the labels under a prior by which a variable of weight 1
costs the logarithm of their number, nearly that of Boullé (2007); Khiops averages over selections
of variables instead.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urljoin

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from pandas.api.types import is_numeric_dtype
from scipy.optimize import minimize
from scipy.special import expit, gammaln, stirling2
from sklearn.naive_bayes import CategoricalNB

import manifold_shap as ms
from manifold_shap.data import DataSet, census, sources

# Equally frequent cells whose unions are intervals, and most intervals of a variable.
_CELLS = 128
_MOST_PARTS = 32
_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/"
_IBM = "https://raw.githubusercontent.com/IBM/telco-customer-churn-on-icp4d/master/data/"


class Source(NamedTuple):
    """A file of comma-separated values, and what its columns are.

    Attributes:
        path: in the folder `naive_bayes` of the data.
        url: of the publisher, below that of UCI's repository.
        classes: both, as the file has them; log-odds are in favour of the second.
        target: the column with the class; by default the last.
        identifier: the column that numbers the rows.
        options: of `pandas.read_csv`, where they are not those of a file without a header.
    """

    path: str
    url: str
    classes: tuple[Any, Any]
    target: str | None = None
    identifier: str | None = None
    options: Mapping[str, Any] = {}


SOURCES = {
    # Two normal classes in 20 dimensions (Breiman, 1996): data set 1507 of OpenML, as a table.
    "twonorm": Source("twonorm/twonorm.csv", "", (0, 1)),
    "crx": Source("crx/crx.data", "credit-screening/crx.data", ("-", "+")),
    "ionosphere": Source("ionosphere/ionosphere.data", "ionosphere/ionosphere.data", ("b", "g")),
    "spam": Source("spambase/spambase.data", "spambase/spambase.data", (0, 1)),
    "tictactoe": Source("tic_tac_toe/tic-tac-toe.data", "tic-tac-toe/tic-tac-toe.data",
                        ("negative", "positive")),
    # The paper counts 24 numeric columns and no others: it is the publisher's numeric version.
    "german": Source("german_credit/german.data-numeric", "statlog/german/german.data-numeric",
                     (1, 2), options={"sep": r"\s+"}),
    "telco": Source("telco_churn/Telco-Customer-Churn.csv", f"{_IBM}Telco-Customer-Churn.csv",
                    ("No", "Yes"), "Churn", "customerID", {"header": 0}),
    # The other three diagnoses are inputs, as in the paper, which counts 35 of them.
    "krfcc": Source("cervical_cancer/kag_risk_factors_cervical_cancer.csv",
                    "00383/risk_factors_cervical_cancer.csv", (0, 1), "Biopsy",
                    options={"header": 0}),
    "breast": Source("breast_cancer_wisconsin/breast-cancer-wisconsin.data",
                     "breast-cancer-wisconsin/breast-cancer-wisconsin.data", (2, 4),
                     identifier="x1"),
}  # fmt: skip


def read(name: str) -> DataSet:
    """One of the data sets; columns of numbers are numeric, all others categorical.

    Raises:
        FileNotFoundError: its file is not there, and was not fetched.
    """
    if name == "adult":
        return census()
    source = SOURCES[name]
    path = sources.require(f"naive_bayes/{source.path}", urljoin(_UCI, source.url))
    words = {"na_values": ["?", " "], "keep_default_na": False, "header": None}
    frame = pd.read_csv(path, **{**words, **source.options})
    frame = frame.rename(columns=lambda name: f"x{name + 1}" if isinstance(name, int) else name)
    target = source.target or str(frame.columns[-1])
    second = torch.tensor((frame[target] == source.classes[1]).to_numpy()).long()
    left_out = [target, *([source.identifier] if source.identifier else [])]
    return DataSet(frame.drop(columns=left_out), second, tuple(map(str, source.classes)))


@dataclass(frozen=True, eq=False)
class Discretised:
    """A classifier, and the rows it was fitted to.

    Attributes:
        x: number of the part that each entry is in, `[rows, variables]`.
        y: 0 or 1.
        model: fitted to both.
        weights: w_m of Eq. (1), above zero.
        names: of the variables.
    """

    x: Int[np.ndarray, "rows variables"]
    y: Int[np.ndarray, " rows"]
    model: CategoricalNB
    weights: Float[np.ndarray, " variables"]
    names: tuple[str, ...]

    @classmethod
    def of(
        cls, x: np.ndarray, y: np.ndarray, names: Sequence[str], weights: np.ndarray | None = None
    ) -> "Discretised":
        """Fitted to rows, without the variables of weight 0."""
        weights = np.ones(x.shape[1]) if weights is None else weights
        kept = np.flatnonzero(weights)
        x = x[:, kept]
        own = tuple(names[m] for m in kept.tolist())
        return cls(x, y, CategoricalNB().fit(x, y), weights[kept], own)

    @property
    def prior(self) -> float:
        """Log-odds of the second class without any variable."""
        return np.diff(self.model.class_log_prior_).item()


def equally_frequent(table: DataSet, bins: int) -> Discretised:
    """Numbers cut at quantiles, categories as they are; all variables, unweighted."""
    columns = [cells(column, bins) for _, column in table.features.items()]
    return Discretised.of(np.stack(columns, 1), table.labels.numpy(), list(table.features.columns))


def most_probable(table: DataSet) -> Discretised:
    """The most probable parts of the variables that have several, weighted."""
    y = table.labels.numpy()
    found = {}
    for name, column in table.features.items():
        cell = cells(column, _CELLS)
        counts = np.bincount(2 * cell + y, minlength=2 * cell.max() + 2).reshape(-1, 2)
        part = most_probable_parts(counts, is_numeric_dtype(column))
        if part.max() > 0:
            found[str(name)] = part[cell]
    x = np.stack(list(found.values()), 1)
    # To name a variable among all of them.
    price = math.log(table.features.shape[1])
    weights = sparse_weights(Discretised.of(x, y, list(found)), price)
    return Discretised.of(x, y, list(found), weights)


def cells(column: pd.Series, bins: int) -> Int[np.ndarray, " rows"]:
    """Whole numbers from zero up: missing entries first, then intervals or categories."""
    missing = column.isna().to_numpy()
    if is_numeric_dtype(column):
        shares = np.arange(1, bins) / bins
        # Edges are values of the column, so that no interval is empty.
        edges = np.unique(column.quantile(shares, interpolation="lower"))
        code = np.where(missing, -1, np.searchsorted(edges, column))
    else:
        code = column.astype("category").cat.codes.to_numpy()
    return code.astype(np.int64) + int(missing.any())


def most_probable_parts(
    counts: Int[np.ndarray, "cells classes"], ordered: bool
) -> Int[np.ndarray, " cells"]:
    """Number of the part of each cell: neighbours, or any cells if not `ordered`, are united.

    Args:
        counts: rows of each class in each cell, of which none is empty.
        ordered: cells are of numbers.
    """
    if ordered:
        rank, log_prior = np.arange(len(counts)), partial(_intervals, int(counts.sum()))
    else:
        rank = np.argsort(counts[:, 1] / counts.sum(1), kind="stable")
        log_prior = partial(_groups, len(counts))
    return np.searchsorted(_united(counts[rank], log_prior), np.argsort(rank), side="right")


def _united(counts: np.ndarray, log_prior: Callable[[int], float]) -> list[int]:
    """Cells at which parts of least total cost begin, but the first."""
    size, classes = counts.shape
    total = np.concatenate((np.zeros((1, classes)), counts)).cumsum(0)
    inside = (total[None] - total[:, None]).clip(0)
    # Nats to tell how many rows of a part are of which class, and then which ones.
    cost = gammaln(inside.sum(-1) + classes) - gammaln(classes) - gammaln(inside + 1).sum(-1)
    cost[np.tril_indices(size + 1)] = np.inf
    best, origins = cost[0], []
    costs = [best[-1] + log_prior(1)]
    for parts in range(2, min(size, _MOST_PARTS) + 1):
        through = best[:, None] + cost
        origins.append(through.argmin(0))
        best = through.min(0)
        costs.append(best[-1] + log_prior(parts))
    cuts = [size]
    for origin in reversed(origins[: int(np.argmin(costs))]):
        cuts.append(int(origin[cuts[-1]]))
    return cuts[:0:-1]


def _intervals(rows: int, parts: int) -> float:
    """Nats to tell how many intervals there are, and where they end."""
    return math.log(rows) + float(gammaln(rows + parts) - gammaln(rows + 1) - gammaln(parts))


def _groups(values: int, parts: int) -> float:
    """Nats to tell how many groups there are, and which of these values are in which."""
    # The sum is of the ways to make exactly 0, 1, 2, ... groups.
    return math.log(values) + math.log(stirling2(values, np.arange(parts + 1), exact=True).sum())


def sparse_weights(bayes: Discretised, price: float) -> Float[np.ndarray, " variables"]:
    """Weights from 0 to 1 of the most probable labels, at so many nats for a whole variable."""
    evidence = ms.naive_bayes.weight_of_evidence(bayes.model, bayes.x).phi[..., 0].double().numpy()
    sign = 2 * bayes.y - 1

    def cost(weights: np.ndarray) -> tuple[float, np.ndarray]:
        odds = sign * (bayes.prior + evidence @ weights)
        slope = -(sign * expit(-odds)) @ evidence
        return float(np.logaddexp(0, -odds).sum() + price * weights.sum()), slope + price

    some = np.full(evidence.shape[1], 0.5)
    found = minimize(cost, some, jac=True, method="L-BFGS-B", bounds=[(0, 1)] * len(some), tol=1e-9)
    return found.x
