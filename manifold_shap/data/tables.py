"""Tables: published ones, and files of one's own. Each original column is a player."""

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from manifold_shap import oracles
from manifold_shap._messages import check_choice, shown, warn
from manifold_shap.data import sources
from manifold_shap.data.base import DataSet
from manifold_shap.data.pictures import read_digits
from manifold_shap.tables.distinct import label_of

_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"

_DRUG = (
    "ID Age Gender Education Country Ethnicity Nscore Escore Oscore Ascore Cscore Impulsive SS "
    "Alcohol Amphet Amyl Benzos Caff Cannabis Choc Coke Crack Ecstasy Heroin Ketamine Legalh LSD "
    "Meth Mushrooms Nicotine Semer VSA"
)
_DRUG_FEATURES = "Amphet Benzos Cannabis Coke Ecstasy Ketamine Legalh Meth Mushrooms Nicotine"
_ABALONE = (
    "Sex,Length,Diameter,Height,Whole weight,Shucked weight,Viscera weight,Shell weight,Rings"
)
_CENSUS = (
    "age workclass fnlwgt education education-num marital-status occupation relationship race sex "
    "capital-gain capital-loss hours-per-week native-country income"
)


def iris() -> DataSet:
    """Fisher's irises: 150 flowers, 4 lengths in cm, 3 species."""
    from sklearn.datasets import load_iris

    found = load_iris(as_frame=True)
    return DataSet(found.data, found.target, tuple(map(str, found.target_names)))


def drug() -> DataSet:
    """Whether 1,885 people ever used LSD, by whether they ever used ten other drugs.

    The experiment of Frye et al. (2021), App. B.1: every feature is binary.
    """
    name = "drug_consumption.data"
    path = sources.require(f"drug/{name}", f"{_UCI}/00373/{name}")
    frame = pd.read_csv(path, header=None, names=_DRUG.split())
    features = _DRUG_FEATURES.split()
    used = (frame[[*features, "LSD"]] != "CL0").astype(int)
    return DataSet(used[features], used["LSD"], ("never", "ever"))


def abalone() -> DataSet:
    """Whether 4,177 abalone are older than the median, by their sex and 7 measurements.

    Lengths are in units of 200 mm, weights in units of 200 g, as published. The age of an abalone
    is its number of rings plus 1.5 years (Frye et al., 2021, App. B.3).
    """
    path = sources.require("abalone/abalone.data", f"{_UCI}/abalone/abalone.data")
    frame = pd.read_csv(path, header=None, names=_ABALONE.split(","))
    rings = frame.pop("Rings").astype(int)
    return DataSet(frame, rings > rings.median(), ("younger", "older"), categorical=("Sex",))


def census() -> DataSet:
    """Whether income exceeds 50,000 dollars a year, by 13 columns of the 1994 US census.

    The sampling weight `fnlwgt` is left out, and "?" is a category of its own (Frye et al., 2021,
    App. B.2). The publisher's two files give 32,561 training and 16,281 test rows.
    """
    # The first line of adult.test is a remark that starts with a bar.
    about: dict[str, Any] = {"names": _CENSUS.split(), "skipinitialspace": True, "comment": "|"}
    names = ("adult.data", "adult.test")
    paths = [sources.require(f"census/{name}", f"{_UCI}/adult/{name}") for name in names]
    frames = [pd.read_csv(path, **about) for path in paths]
    frame = pd.concat(frames, ignore_index=True)
    rich = frame["income"].str.rstrip(".") == ">50K"
    features = frame.drop(columns=["fnlwgt", "income"])
    return DataSet(features, rich, ("<=50K", ">50K"), test_rows=len(frames[1]))


def diabetes() -> DataSet:
    """The progression of diabetes in 442 patients after a year, by 10 measurements: a regression.

    Age, sex, body mass index, blood pressure and six of the blood serum, in their own units
    (Efron et al., "Least angle regression", Annals of Statistics 2004).
    """
    from sklearn.datasets import load_diabetes

    patients = load_diabetes(as_frame=True, scaled=False)
    return DataSet(patients.data, patients.target, target="progression", task="regression")


def bike() -> DataSet:
    """Bicycles rented on 731 days in Washington, D.C., by date and weather: a regression.

    The features of Heskes et al. (2020, Section 6): days since the first, cosine and sine of the
    time of the year, °C, humidity in % and wind in km/h.
    """
    path: Any = sources.find("bike/day.csv")
    if path is None:
        archive = "Bike-Sharing-Dataset.zip"
        packed = sources.require(f"bike/{archive}", f"{_UCI}/00275/{archive}")
        path = zipfile.Path(packed, "day.csv")
    with path.open("rb") as file:
        days = pd.read_csv(file, parse_dates=["dteday"])
    trend = (days["dteday"] - days["dteday"].iloc[0]).dt.days
    angle = 2 * np.pi * trend / 365
    columns = {
        "trend": trend,
        "cosyear": np.cos(angle),
        "sinyear": np.sin(angle),
        "temp": 47 * days["temp"] - 8,
        "hum": 100 * days["hum"],
        "windspeed": 67 * days["windspeed"],
    }
    return DataSet(pd.DataFrame(columns), days["cnt"], target="bicycles", task="regression")


def digit_components(digits: Sequence[str | int] | None = None, components: int = 6) -> DataSet:
    """Principal components of scikit-learn's 8 x 8 digits, standardised (Noé et al., Section 6).

    The directions, means and scales are those of the training rows.

    Args:
        digits: which; by default all ten.
        components: how many, the largest first.
    """
    chosen = tuple(map(str, range(10) if digits is None else digits))
    pixels, y = read_digits()
    rows = np.isin(y.astype(str), chosen)
    pixels, labels = pixels[rows], [chosen.index(str(digit)) for digit in y[rows]]

    def projected(train: torch.Tensor) -> DataSet:
        from sklearn.decomposition import PCA

        # The full solver: exact, and the same on every machine but for rounding.
        pca = PCA(components, svd_solver="full").fit(pixels[train.numpy()])
        names = [f"PC{k + 1}" for k in range(components)]
        return DataSet(pd.DataFrame(pca.transform(pixels), columns=names), labels, chosen)

    return DataSet(projected, labels, chosen, rows=len(labels))


def gaussian_mixture(
    rows: int = 3000, elements: int = 10, components: int = 3, law: int = 0
) -> DataSet:
    """Rows of a random Gaussian mixture; the class of a row is its component.

    True values are those of `oracles.true_value(model, law)` with the law
    `oracles.GaussianMixture.random(elements, components, law)`.

    Args:
        rows: how many.
        elements: of a row.
        components: of the mixture.
        law: seed of the law, and of the rows.
    """
    found = oracles.GaussianMixture.random(elements, components, law)
    x, y = found.sample(rows, law)
    return DataSet(x, y, found.classes, players=found.players)


def table(
    path: str,
    *,
    target: str | None = None,
    task: str = "classification",
    read: Mapping[str, Any] | None = None,
    drop: Sequence[str] = (),
    left_out: Sequence[str] = (),
    categorical: Sequence[str] = (),
) -> DataSet:
    """A table of your own, in a file, of which one column is to be predicted.

    Rows are the codes of a `Table`, and are called by their numbers in the file: the first row
    of data is row 0. Those without the target are left out.

    Args:
        path: the file.
        target: the column to predict; None where a model of one's own needs none.
        task: "classification", or "regression" of a target of numbers.
        read: arguments of the reader of pandas, such as `{"sep": ";", "decimal": ","}`; see
            `read_frame`.
        drop: columns that no model is given.
        left_out: columns that are no players; a model of one's own is given them all the same.
        categorical: columns that are categories, whatever they hold.

    Raises:
        FileNotFoundError: there is no such file.
        KeyError, ValueError: pandas cannot read it, or it lacks a column that is named.
    """
    check_choice("task", task, ("classification", "regression"))
    frame = read_frame(path, read).drop(columns=list(drop))
    labels: Any = []
    classes: tuple[str, ...] = ()
    if target is not None:
        check_choice("target", str(target), list(map(str, frame.columns)))
        lacking = frame[str(target)].isna()
        if lacking.any():
            lost = f"{lacking.sum()} of {len(frame)} rows lack the target {target!r}"
            warn(f"{lost}, and are left out.")
        frame = frame[~lacking]
        labels = frame.pop(str(target))
        if task == "classification":
            labels, classes = numbered(labels)
        else:
            labels = labels.astype(float)
    return DataSet(
        frame,
        labels,
        classes,
        target=str(target or "output"),
        task=task,
        categorical=tuple(categorical),
        left_out=tuple(left_out),
        numbers=list(frame.index),
    )


def read_frame(path: str, read: Mapping[str, Any] | None = None) -> pd.DataFrame:
    """A table, with columns that are named by text, and rows by their numbers in the file.

    Args:
        path: a Parquet or Feather file by the end of its name, otherwise separated values, which
            may be packed.
        read: arguments of `pandas.read_parquet`, `read_feather` or `read_csv`.
    """
    readers: dict[str, Any] = {".parquet": pd.read_parquet, ".feather": pd.read_feather}
    found = readers.get(Path(path).suffix.lower(), pd.read_csv)(path, **(read or {}))
    return found.rename(columns=str).reset_index(drop=True)


def check_filled(what: str, column: pd.Series, lacking: Any) -> None:
    """Raise ValueError where some rows of a column have none."""
    if rows := column.index[lacking].tolist():
        raise ValueError(
            f"Expected {what} in every row of {column.name!r} but {len(rows)} of {len(column)} "
            f"have none: rows {shown(rows, 10)}; fill them, or remove these rows."
        )


def numbered(column: pd.Series) -> tuple[Any, tuple[str, ...]]:
    """Cells of a column as positions among the classes, and the names of these in order.

    Raises:
        ValueError: a cell is missing.
    """
    positions, found = pd.factorize(column, sort=True)
    check_filled("a label", column, positions < 0)
    return positions, tuple(label_of(cell) for cell in found)
