"""Round trips: a thing that is written and read is the thing, bit for bit, whatever the format."""

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import manifold_shap as ms
from tests.reference.compare import Inputs, Results
from tests.reference.doors import (
    RIDGE,
    alike,
    long_frame,
    network,
    players_of,
    same,
)
from tests.reference.learned import OwnModel, stored
from tests.reference.tables import FEW, people, probabilities


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as place:
        yield Path(place)


def explanations(inputs: Inputs) -> Results:
    """Explanations in stores and in frames of others."""
    mixed = inputs["mixed"]
    model, x = network(mixed["model"]), mixed["reference"][:11]
    imputer = ms.imputers.GaussianImputer(mixed["reference"], players_of(mixed), RIDGE)
    value = ms.imputed_value(model, imputer, "ilr", draws=6)
    found = ms.permutation_shapley(value, x, permutations=4, seed=1)
    with _folder() as place:
        found.save(place / "one.zarr")
        yield "store, whole", alike(found, ms.Explanation.load(place / "one.zarr"))
        some = ms.Explanation.load(place / "one.zarr", rows=slice(3, 6))
        yield "store, some rows", same(found.phi[3:6], some.phi)
        estimate = partial(ms.permutation_shapley, permutations=4)
        settings = {"block": 4, "seed": 3, "progress": False}
        ms.explain_rows(place / "rows.zarr", value, x, estimate, **settings)
        streamed = ms.Explanation.load(place / "rows.zarr")
        yield "streamed", streamed
        again = ms.explain_rows(place / "again.zarr", value, x, estimate, **settings)
        yield "streamed, rows", torch.tensor(again)
        yield "streamed, again", alike(streamed, ms.Explanation.load(place / "again.zarr"))
        shares = ms.imputed_value(model, imputer, draws=6)
        ms.explain_rows(place / "some.zarr", shares.select([1]), x, estimate, **settings)
        yield "streamed, one output", ms.Explanation.load(place / "some.zarr")
        plain = ms.imputed_value(model, ms.imputers.BaselineImputer(x[0], value.players), "ilr")
        exact = ms.exact_shapley(plain, x)
        ms.explain_rows(
            place / "exact.zarr",
            plain,
            x,
            ms.exact_shapley,
            labels=[f"r{k}" for k in range(11)],
            block=5,
        )
        read = ms.Explanation.load(place / "exact.zarr")
        yield "streamed, exact", read.phi
        yield "streamed, exact, as alone", (read.phi - exact.phi).abs().max() < 1e-5
        yield "streamed, labels", ", ".join(map(str, read.instances))
    yield "data set, there and back", alike(found, ms.Explanation.from_xarray(found.to_xarray()))
    yield from _in_frames(found)


def _in_frames(found: ms.Explanation) -> Results:
    """The numbers of frames and of the objects of other packages."""
    frames = {
        "frame": found.to_frame(found.outputs[0]),
        "long frame": long_frame(found),
        "wide frame": ms.wide_frame(found),
        "summary": found.summarize(2),
    }
    for name, frame in frames.items():
        yield f"{name}, columns", ", ".join(map(str, frame.columns))
        yield f"{name}, numbers", _numbers(frame)
    theirs = found.to_shap()
    yield "shap, values", torch.from_numpy(np.array(theirs.values))
    yield "shap, base", torch.from_numpy(np.array(theirs.base_values))
    yield "shap, data", str(np.array(theirs.data)[:2, -2:].tolist())
    pairs = found.to_shapiq(0, found.outputs[0])
    yield (
        "shapiq, values of an explanation",
        torch.from_numpy(np.array(pairs.get_n_order_values(1))),
    )


def _numbers(frame: pd.DataFrame) -> torch.Tensor:
    return torch.from_numpy(frame.select_dtypes("number").to_numpy(float, copy=True))


def learned(inputs: Inputs) -> Results:
    """Surrogates, imputers and amortised explainers in files."""
    mixed, digits = inputs["mixed"], inputs["digits"]
    x, mask, reference = mixed["x"], mixed["mask"], mixed["reference"]
    model = network(mixed["model"])
    with _folder() as place:
        value = stored("mixed surrogate")
        ms.save(value, place)
        read: Any = ms.load(place, model)
        yield "surrogate, read", same(value(x, mask), read(x, mask))
        value = stored("digits, the model")
        own = OwnModel(digits["own model"])
        ms.save(value, place)
        read = ms.load(place, own)
        pairs = ms.metrics.shapley_pairs(3, len(value.players), least=24)
        yield (
            "surrogate by the model, read",
            same(value(digits["x"], pairs), read(digits["x"], pairs)),
        )
        explainer = stored("mixed amortised")
        ms.save(explainer, place)
        read = ms.load(place, model)
        yield "amortised, read", same(explainer(x), read(x))
        imputer = ms.fit_imputer(
            reference,
            players=players_of(mixed),
            hidden=[8],
            latent=2,
            temper=0.6,
            max_epochs=1,
            trainer={"accelerator": "cpu", "limit_train_batches": 1},
        )
        ms.save(imputer, place)
        read = ms.load(place)
        values = [ms.imputed_value(model, each, draws=4, seed=1) for each in (imputer, read)]
        yield "vae, read", same(*(each(x, mask) for each in values))


def explainers(inputs: Inputs) -> Results:
    """Explainers of frames in folders: what they say of new rows, before and after."""
    frame = people(inputs)
    small = {
        "hidden": [8],
        "max_epochs": 1,
        "trainer": {"accelerator": "cpu", "limit_train_batches": 2},
    }
    for candidate in ("gaussian", "copula"):
        explainer = ms.Explainer(
            probabilities, frame, returns="probabilities", candidates=[candidate], progress=False
        )
        before = explainer(frame.head(3), **FEW)
        with _folder() as place:
            ms.save(explainer, place / "saved")
            read = ms.load(place / "saved", probabilities)
            yield f"explainer, {candidate}, read", alike(before, read(frame.head(3), **FEW))
        yield f"explainer, {candidate}", before
    value = ms.fit_surrogate(probabilities, frame, **small)
    with _folder() as place, warnings.catch_warnings():
        ms.save(value, place)
        read = ms.load(place, probabilities)
        found = ms.exact_shapley(value, frame.head(2))
        yield "surrogate of a frame, read", alike(found, ms.exact_shapley(read, frame.head(2)))
        found.save(place / "one.zarr")
        loaded = ms.Explanation.load(place / "one.zarr")
        # The store numbers the cells of its own rows.
        yield "store of a frame", alike(found, replace(loaded, x=found.x))
        one, other = found.data, loaded.data
        yield (
            "store of a frame, cells",
            torch.tensor(bool(one.astype(str).equals(other.astype(str)))),
        )
        yield "store of a frame, types", ", ".join(map(str, other.dtypes))
