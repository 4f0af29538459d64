"""Frames of every kind: their cells go in, to the model and back as they are."""

from collections.abc import Callable, Mapping
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import torch

import manifold_shap as ms
from tests.reference.compare import AFTER, Inputs, Results
from tests.reference.doors import RIDGE, alike, estimated, of_frame, same
from tests.reference.learned import CODES, STEPS

TOWNS = np.array(["Bern", "Oslo", "Rome", "Ulm"], dtype=object)
LEVELS = ["low", "middle", "high"]
OF_TOWNS = {"Oslo": 0.8, "Rome": -0.7, "None": 0.3, "Ulm": 0.1}
FEW = {"evaluations": 60, "seed": 1}


def people(inputs: Inputs) -> pd.DataFrame:
    """Whole numbers, decimals with gaps, text with gaps, yes and no, ordered and zoned columns."""
    stored = inputs["people"]
    income, town = stored["income"].numpy(), stored["town"].numpy()
    return pd.DataFrame(
        {
            "age": stored["age"].numpy(),
            "income": income.astype("float64"),
            "town": np.where(town < 0, None, TOWNS[town]),
            "member": stored["member"].numpy(),
            "level": pd.Categorical.from_codes(stored["level"].numpy(), LEVELS, ordered=True),
            "since": pd.Timestamp("2020-03-28", tz="Europe/Berlin")
            + pd.to_timedelta(stored["since"].numpy() * 7, unit="h"),
        },
        index=[f"p{k}" for k in range(len(town))],
    )


def _kinds(frame: pd.DataFrame) -> dict[str, Any]:
    """The same people in frames of other libraries and types."""
    plain = frame.assign(since=frame["since"].dt.tz_convert("UTC").dt.tz_localize(None))
    arrow = plain.assign(level=plain["level"].astype(str)).convert_dtypes(dtype_backend="pyarrow")
    columns = {name: plain[name].astype(object).tolist() for name in plain}
    columns["since"] = [each.to_pydatetime() for each in plain["since"]]
    for name in ("income", "town"):
        columns[name] = [None if each != each else each for each in columns[name]]
    return {
        "numpy": frame,
        "nullable": frame.convert_dtypes(),
        "arrow": arrow,
        "polars": pl.DataFrame(columns).with_columns(
            pl.col("level").cast(pl.Enum(LEVELS)), pl.col("town").cast(pl.Categorical)
        ),
    }


def cells(column: Any) -> list[Any]:
    """The cells of a column of any library, None where one is missing."""
    found = column.to_list() if hasattr(column, "to_list") else list(column)
    return [None if each is None or each is pd.NA or each != each else each for each in found]


def numbers(frame: Any) -> np.ndarray:
    """Two logits of people, from their cells."""
    known = nw.from_native(frame)
    age = _floats(known["age"]) / 20
    income = _floats(known["income"].fill_null(-0.5))
    town = _floats(_text(known["town"].cast(nw.String)), OF_TOWNS)
    member = _floats(known["member"]) * 1.4 - 0.4
    level = _floats(
        _text(known["level"].cast(nw.String)), {name: k for k, name in enumerate(LEVELS)}
    )
    hour = _floats(known["since"].dt.hour())
    return np.stack((income * member + 0.2 * level, town * age - 0.05 * hour), axis=1)


def _text(column: Any) -> np.ndarray:
    return np.array(column.to_list(), dtype=object)


def _floats(column: Any, of: Mapping[str, float] | None = None) -> np.ndarray:
    if of is None:
        return np.asarray(column.to_numpy(), dtype=float)
    return np.array([of.get(each, 0.0) for each in column])


def probabilities(frame: Any) -> np.ndarray:
    """Of three classes."""
    logits = np.concatenate((numbers(frame), np.zeros((len(frame), 1))), axis=1)
    odds = np.exp(logits)
    return odds / odds.sum(1, keepdims=True)


class Watched:
    """A model that remembers the cells that it has been given, by column."""

    def __init__(self, model: Callable[[Any], np.ndarray]) -> None:
        self.model, self.types = model, set()
        self.seen: dict[str, set[Any]] = {}

    def __call__(self, frame: Any) -> np.ndarray:
        known = nw.from_native(frame)
        for name in known.columns:
            self.seen.setdefault(name, set()).update(cells(known[name].unique()))
        self.types.add(str([str(frame[name].dtype) for name in frame.columns]))
        return self.model(frame)


def frames(inputs: Inputs) -> Results:
    """One explanation of frames of every kind, and the cells that the model saw."""
    frame = people(inputs)
    for name, own in _kinds(frame).items():
        few = own.head(4)
        model = Watched(probabilities)
        candidates = ["empirical", *(["gaussian"] if name == "numpy" else [])]
        settings = {"classes": ["a", "b", "c"], "candidates": candidates}
        explainer = ms.Explainer(model, own, returns="probabilities", progress=False, **settings)
        found = explainer(few, **FEW)
        yield f"{name}, chosen", explainer.quality.chosen
        yield f"{name}, auto", found
        yield f"{name}, instances", ", ".join(map(str, found.instances))
        yield f"{name}, columns", ", ".join(found.players.names)
        was = {column: set(cells(own[column])) for column in own.columns}
        yield (
            f"{name}, the model saw cells of the frame",
            torch.tensor([model.seen[each] <= was[each] for each in own.columns]),
        )
        types = {str([str(own[column].dtype) for column in own.columns])}
        yield f"{name}, and their types", torch.tensor(model.types == types)
        table = found.data
        yield (
            f"{name}, cells back",
            torch.tensor([_back(table[each]) == _back(few[each]) for each in own.columns]),
        )
        yield f"{name}, cells", str([_back(few[each]) for each in own.columns])
        mask = ms.metrics.shapley_pairs(4, len(found.players), least=24, seed=3)
        yield from estimated(
            f"{name}, every candidate", explainer.candidates["empirical"], found.x, mask
        )
        other = explainer(own.tail(30).head(2), estimator=ms.exact_shapley, outputs=["b"])
        yield f"{name}, exact of one class", other


def _back(column: Any) -> list[str]:
    """Cells in words, alike for all libraries."""
    return [each.isoformat() if hasattr(each, "hour") else str(each) for each in cells(column)]


def fitted(inputs: Inputs) -> Results:
    """Value functions by each fit function and imputer of a frame, of groups of columns too."""
    frame = people(inputs)
    few, kept = frame.head(3), frame.iloc[:150]
    groups = {"money": ["income", "member"]}
    imputers: dict[str, tuple[type[ms.imputers.Imputer], dict[str, Any]]] = {
        "marginal": (ms.imputers.MarginalImputer, {}),
        "gaussian": (ms.imputers.GaussianImputer, {"regularisation": RIDGE}),
        "copula": (ms.imputers.CopulaImputer, {"regularisation": RIDGE}),
        "empirical": (ms.imputers.EmpiricalImputer, {"bandwidth": 0.5, "regularisation": RIDGE}),
        "exact match": (ms.imputers.ExactMatchImputer, {}),
        "contrastive": (ms.imputers.ContrastiveImputer, {}),
    }
    for name, (kind, settings) in imputers.items():
        imputer = of_frame(kind, kept, **settings)
        value = ms.imputed_value(probabilities, imputer, draws=8, seed=2)
        yield f"people, {name}, exact", ms.exact_shapley(value, few)
        yield f"people, {name}, permutation", ms.permutation_shapley(value, few, permutations=4)
    settings = {"hidden": [8], **STEPS}
    value = ms.fit_surrogate(probabilities, kept, **settings)
    yield f"people, surrogate {AFTER}, exact", ms.exact_shapley(value, few)
    value = ms.fit_surrogate(numbers, kept, players=groups, space="identity", **settings)
    yield f"people, surrogate of groups {AFTER}, exact", ms.exact_shapley(value, few)
    for continuous in ("normal", "quantile"):
        imputer = ms.fit_imputer(
            kept, temper=0.3, bank_size=CODES, latent=2, continuous=continuous, bins=5, **settings
        )
        value = ms.imputed_value(probabilities, imputer, draws=8, seed=2)
        found = ms.permutation_shapley(value, few, permutations=4)
        yield f"people, {continuous} vae {AFTER}, permutation", found
    x = value.imputer.reference
    taught = {
        "teacher": value,
        "guide": ms.imputers.table_imputer(ms.imputers.MixtureImputer, value.spec.table, x),
    }
    guided = ms.fit_surrogate(value.model, x, teacher_pairs=200, **taught, **settings)
    yield f"people, guided {AFTER}, exact", ms.exact_shapley(guided, few)


def front_door(inputs: Inputs) -> Results:
    """Explainers of groups, of a regression, of arrays, of columns that say nothing."""
    frame = people(inputs)
    y = numbers(frame)[:, 0]
    explainer = ms.Explainer(
        lambda frame: numbers(frame)[:, 0] * 100,
        frame,
        players={"money": ["income", "member"], "when": ["since"]},
        returns="values",
        unit="EUR",
        candidates=["gaussian"],
    )
    found = explainer(frame.head(40), **FEW)
    yield "regression, players", ", ".join(found.players.names)
    yield "regression, unit", found.unit
    yield "regression, auto", found
    yield "regression, global", ms.global_values(found, y[:40])
    x = frame[["age", "income"]].fillna(0.0).to_numpy()
    x = np.concatenate((x, x[:, :1] * x[:, 1:], np.ones((len(x), 1))), axis=1)
    arrays = ms.Explainer(
        lambda x: np.tanh(np.asarray(x)[:, 1] + np.asarray(x)[:, 2] / 40),
        x,
        returns="values",
        candidates=["gaussian"],
    )
    found = arrays(x[:3], **FEW)
    yield "arrays, players", ", ".join(found.players.names)
    yield "arrays, auto", found
    yield "arrays, lists alike", alike(found, arrays(x[:3].tolist(), **FEW))
    yield "arrays, tensors alike", same(found.phi, arrays(torch.from_numpy(x[:3]), **FEW).phi)
