"""Loads published tables. Inputs are `[rows, width]`, and each original column is a player."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int64
from torch import Tensor

from manifold_shap.data import sources
from manifold_shap.data.base import Table, TensorDataModule

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


class Iris(TensorDataModule):
    """Fisher's irises: 150 flowers, 4 lengths in cm, 3 species."""

    name = "iris"

    def read(self) -> Table:
        from sklearn.datasets import load_iris

        iris = load_iris(as_frame=True)
        return Table(
            iris.data, _labels(iris.target), tuple(str(name) for name in iris.target_names)
        )


class Drug(TensorDataModule):
    """Whether 1,885 people ever used LSD, by whether they ever used ten other drugs.

    The experiment of Frye et al. (2021), App. B.1: every feature is binary.
    """

    name = "drug"

    def read(self) -> Table:
        relative = "drug/drug_consumption.data"
        path = sources.require(self.root, relative, f"{_UCI}/00373/drug_consumption.data")
        frame = pd.read_csv(path, header=None, names=_DRUG.split())
        features = _DRUG_FEATURES.split()
        used = (frame[[*features, "LSD"]] != "CL0").astype(int)
        return Table(used[features], _labels(used["LSD"]), ("never", "ever"))


class Abalone(TensorDataModule):
    """Whether 4,177 abalone are older than the median, by their sex and 7 measurements.

    Lengths are in units of 200 mm, weights in units of 200 g, as published. The age of an abalone
    is its number of rings plus 1.5 years (Frye et al., 2021, App. B.3).
    """

    name = "abalone"

    def read(self) -> Table:
        relative = "abalone/abalone.data"
        path = sources.find(self.root, relative)
        if path is not None:
            frame = pd.read_csv(path, header=None, names=_ABALONE.split(","))
        else:
            with sources.fetching(self.root, relative):
                frame = sources.openml("abalone", 1, _ABALONE.split(","))
        rings = frame.pop("Rings").astype(int)
        older = _labels(rings > rings.median())
        return Table(frame, older, ("younger", "older"), categorical=("Sex",))


class Census(TensorDataModule):
    """Whether income exceeds 50,000 dollars a year, by 13 columns of the 1994 US census.

    The sampling weight `fnlwgt` is left out, and "?" is a category of its own (Frye et al., 2021,
    App. B.2). The publisher's two files give 32,561 training and 16,281 test rows; OpenML has all
    rows in one table, and only then does the share `test` count.
    """

    name = "census"

    def read(self) -> Table:
        columns = _CENSUS.split()
        # The first line of adult.test is a remark that starts with a bar.
        about: dict[str, Any] = {"names": columns, "skipinitialspace": True, "comment": "|"}
        relative = ("census/adult.data", "census/adult.test")
        paths = [sources.find(self.root, name) for name in relative]
        frames = [pd.read_csv(path, **about) for path in paths if path is not None]
        if len(frames) == 2:
            frame, test_rows = pd.concat(frames, ignore_index=True), len(frames[1])
        else:
            with sources.fetching(self.root, relative[0 if paths[0] is None else 1]):
                frame, test_rows = sources.openml("adult", 2, columns), None
            text = frame.select_dtypes(exclude="number").columns
            frame = frame.assign(**frame[text].astype(object).fillna("?").astype(str))
        income = frame["income"].str.rstrip(".")
        features = frame.drop(columns=["fnlwgt", "income"])
        rich = _labels(income == ">50K")
        return Table(features, rich, ("<=50K", ">50K"), test_rows=test_rows)


class Diabetes(TensorDataModule):
    """The progression of diabetes in 442 patients after a year, by 10 measurements: a regression.

    Age, sex, body mass index, blood pressure and six of the blood serum, in their own units
    (Efron et al., "Least angle regression", Annals of Statistics 2004).
    """

    name = "diabetes"
    task = "regression"

    def read(self) -> Table:
        from sklearn.datasets import load_diabetes

        patients = load_diabetes(as_frame=True, scaled=False)
        target = torch.tensor(patients.target.to_numpy(), dtype=torch.float32)
        return Table(patients.data, target, target="progression")


class Bike(TensorDataModule):
    """Bicycles rented on 731 days in Washington, D.C., by date and weather: a regression.

    The features of Heskes et al. (2020, Section 6): days since the first, cosine and sine of the
    time of the year, °C, humidity in % and wind in km/h.
    """

    name = "bike"
    task = "regression"

    def read(self) -> Table:
        path: Path | zipfile.Path | None = sources.find(self.root, "bike/day.csv")
        if path is None:
            archive = "Bike-Sharing-Dataset.zip"
            packed = sources.require(self.root, f"bike/{archive}", f"{_UCI}/00275/{archive}")
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
        rented = torch.tensor(days["cnt"].to_numpy(), dtype=torch.float32)
        return Table(pd.DataFrame(columns), rented, target="bicycles")


def _labels(series: pd.Series) -> Int64[Tensor, " rows"]:
    return torch.tensor(series.to_numpy()).long()
