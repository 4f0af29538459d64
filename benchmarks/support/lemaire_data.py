"""Reads the ten data sets of Lemaire et al. (2023), Table 1, as their publishers have them.

Identifiers are left out, and missing entries are NaN, or a category "?" of the census.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import torch

from manifold_shap.data import DataSet, census, sources

_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
_IBM = "https://raw.githubusercontent.com/IBM/telco-customer-churn-on-icp4d/master/data"
_TWONORM = "naive_bayes/twonorm/twonorm.csv"
_TWONORM_COLUMNS = (*(f"x{number}" for number in range(1, 21)), "class")


@dataclass(frozen=True)
class Source:
    """A file of comma-separated values, and what its columns are.

    Attributes:
        path: in the folder `naive_bayes` of the data.
        url: of the publisher.
        classes: both, as the file has them; log-odds are in favour of the second.
        target: the column with the class; by default the last.
        identifiers: columns that number the rows.
        options: of `pandas.read_csv`, where they are not those of a file without a header.
    """

    path: str
    url: str
    classes: tuple[Any, Any]
    target: str | None = None
    identifiers: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


SOURCES = {
    "crx": Source("crx/crx.data", f"{_UCI}/credit-screening/crx.data", ("-", "+")),
    "ionosphere": Source(
        "ionosphere/ionosphere.data", f"{_UCI}/ionosphere/ionosphere.data", ("b", "g")
    ),
    "spam": Source("spambase/spambase.data", f"{_UCI}/spambase/spambase.data", (0, 1)),
    "tictactoe": Source(
        "tic_tac_toe/tic-tac-toe.data",
        f"{_UCI}/tic-tac-toe/tic-tac-toe.data",
        ("negative", "positive"),
    ),
    # The paper counts 24 numeric columns and no others: it is the publisher's numeric version.
    "german": Source(
        "german_credit/german.data-numeric",
        f"{_UCI}/statlog/german/german.data-numeric",
        (1, 2),
        options={"sep": r"\s+"},
    ),
    "telco": Source(
        "telco_churn/Telco-Customer-Churn.csv",
        f"{_IBM}/Telco-Customer-Churn.csv",
        ("No", "Yes"),
        "Churn",
        ("customerID",),
        {"header": 0},
    ),
    # The other three diagnoses are inputs, as in the paper, which counts 35 of them.
    "krfcc": Source(
        "cervical_cancer/kag_risk_factors_cervical_cancer.csv",
        f"{_UCI}/00383/risk_factors_cervical_cancer.csv",
        (0, 1),
        "Biopsy",
        options={"header": 0},
    ),
    "breast": Source(
        "breast_cancer_wisconsin/breast-cancer-wisconsin.data",
        f"{_UCI}/breast-cancer-wisconsin/breast-cancer-wisconsin.data",
        (2, 4),
        identifiers=("x1",),
    ),
}

# In the order of the paper.
NAMES: tuple[str, ...] = ("twonorm", "crx", "ionosphere", "spam", "tictactoe", "german")
NAMES += ("telco", "adult", "krfcc", "breast")


def read(name: str) -> DataSet:
    """One of the data sets; columns of numbers are numeric, all others categorical.

    Raises:
        ValueError: no such data set.
        FileNotFoundError: its file is not there, and was not fetched.
    """
    if name == "twonorm":
        return _twonorm()
    if name == "adult":
        return census()
    if name not in SOURCES:
        raise ValueError(f"Expected the data set to be one of {NAMES} but got {name!r}.")
    source = SOURCES[name]
    path = sources.require(f"naive_bayes/{source.path}", source.url)
    words = {"na_values": ["?", " "], "keep_default_na": False, "header": None, **source.options}
    frame: pd.DataFrame = pd.read_csv(path, **words)
    if "header" not in source.options:
        frame.columns = pd.Index([f"x{number}" for number in range(1, frame.shape[1] + 1)])
    return _table(frame, source.target or str(frame.columns[-1]), source)


def _twonorm() -> DataSet:
    """Two normal classes in 20 dimensions (Breiman, 1996); fetched from OpenML."""
    path = sources.find(_TWONORM)
    if path is not None:
        frame = pd.read_csv(path, header=None, names=list(_TWONORM_COLUMNS))
    else:
        frame = sources.fetched(_TWONORM, sources.openml("twonorm", 1, _TWONORM_COLUMNS))
    target = frame["class"].astype(int)
    source = Source(_TWONORM, "", (target.min(), target.max()))
    return _table(frame.assign(**{"class": target}), "class", source)


def _table(frame: pd.DataFrame, target: str, source: Source) -> DataSet:
    features = frame.drop(columns=[target, *source.identifiers])
    second = torch.tensor((frame[target] == source.classes[1]).to_numpy()).long()
    return DataSet(features, second, tuple(map(str, source.classes)))
