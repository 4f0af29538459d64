"""A million census rows in one pass each, with an audit: seconds, peak memory, and the error.

A surrogate and its amortised explainer are trained on the census data. As there are but 48,842
rows, those to explain are drawn by a VAE of the training rows, whose masked encoder knows of no
player: rows like those of the census, all different, in a file. A fresh process streams them into a
store, some of them estimated again by permutations (`audit=`); its seconds and its peak memory are
those of the table. Others of the drawn rows, which the store does not have, are then
explained by all coalitions: the error that the audit should tell. Trainings and drawn rows are
kept in a folder; after an interruption the stream continues, and seconds are of its last part.
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.lib.format import open_memmap

import manifold_shap as ms
from benchmarks.report import Found, Table, kept, records
from benchmarks.support.trained import Trained
from benchmarks.timing import in_own_process, peak_memory, timed
from manifold_shap.coalitions import Listed
from manifold_shap.io.files import write_whole

TITLE = "A million rows with an audit"
ERRORS = "95 % confidence intervals"
QUICK = {
    "rows": 2000, "audit": 200, "others": 50, "epochs": 1, "amortized_epochs": 1,
    "vae_epochs": 1, "parts": "runs/million_quick",
}  # fmt: skip
# Rows that are drawn at a time.
_DRAWN = 8192


def run(
    rows: int = 1_000_000,
    audit: int = 5000,  # rows that are estimated again
    others: int = 2000,  # rows that are enumerated
    epochs: int = 20,  # of the surrogate
    amortized_epochs: int = 12,
    vae_epochs: int = 5,
    block: int = 4096,
    precision: str = "auto",  # of the pass
    parts: str = "runs/million",  # folder of finished parts
) -> dict[str, Any]:
    """What streaming took, and both errors."""
    place = Path(parts)
    trainings = {"epochs": epochs, "amortized_epochs": amortized_epochs, "vae_epochs": vae_epochs}
    trained = kept(place / "trained.json", trainings, partial(train, place, **trainings))
    drawn = {**trainings, "rows": rows + others}
    kept(place / "drawn.json", drawn, partial(in_own_process, draw, place, rows + others))
    work = {"rows": rows, "audit": audit, "block": block, "precision": precision}
    streamed = partial(in_own_process, stream, place, rows, audit, block, precision)
    settings = {"rows": rows, "others": others, "precision": precision, **drawn}
    enumerated = partial(in_own_process, enumerate_others, place, rows, precision)
    return {
        "training": trained,
        "stream": kept(place / "stream.json", {**drawn, **work}, streamed),
        "others": kept(place / "others.json", settings, enumerated),
    }


def train(place: Path, epochs: int, amortized_epochs: int, vae_epochs: int) -> dict[str, float]:
    """Train, and write what is trained; the seconds of each."""
    census, cpu = Trained("census", seed=0), {"accelerator": "cpu"}
    data = census.data
    value, seconds = timed(lambda: census.surrogate(max_epochs=epochs, trainer=cpu))
    fit = partial(ms.fit_amortized, x_validation=data.x_validation[:512], trainer=cpu)
    explainer, pass_seconds = timed(lambda: fit(value, data.x_train, max_epochs=amortized_epochs))
    vae, vae_seconds = timed(lambda: census.vae(1, posterior="encoder", max_epochs=vae_epochs))
    work = (value, explainer, vae.imputer, data.x_train[:1])
    write_whole(place / "trained.pt", lambda beside: torch.save(work, beside))
    return {"surrogate": seconds, "amortized": pass_seconds, "vae": vae_seconds}


def load(place: Path) -> Any:
    return torch.load(place / "trained.pt", weights_only=False)


def draw(place: Path, count: int) -> float:
    """Draw rows into a file; the seconds that it took."""
    _, _, imputer, some = load(place)

    def write(beside: Path) -> None:
        rows = open_memmap(beside, "w+", np.float32, (count, *some.shape[1:]))
        for numbers in torch.arange(count).split(_DRAWN):
            nobody = torch.zeros(len(numbers), 1, len(imputer.players), dtype=torch.bool)
            x = some.expand(len(numbers), *some.shape[1:])
            found = imputer.impute(x, Listed(nobody, numbers[:, None]), range(1)).rows
            rows[numbers[0] : numbers[-1] + 1] = found[:, 0, 0].numpy()
        rows.flush()

    return timed(lambda: write_whole(place / "rows.npy", write))[1]


def stream(place: Path, rows: int, audit: int, block: int, precision: str) -> dict[str, Any]:
    """Explain the rows into a store, and say what it took."""
    value, explainer, *_ = load(place)
    x = np.load(place / "rows.npy", mmap_mode="r")[:rows]
    quick = value.in_precision(precision)
    estimator = partial(ms.amortized_shapley, explainer=explainer)
    store = place / "rows.zarr"
    how: Any = {"block": block, "audit": audit, "resume": True, "overwrite": True}
    work = partial(ms.explain_rows, store, quick, x, estimator, **how)
    explained, seconds = timed(work)
    peak = peak_memory()
    first = ms.Explanation.load(store, slice(1))
    made_by, found = first.made_by, first.audit
    assert found is not None
    bias = found.bias()
    print("streamed", explained, seconds, peak, found, flush=True)
    return {
        "rows": rows,
        "of_the_last_call": explained,
        "seconds": seconds,
        "rows_per_second": explained / seconds,
        "peak_megabytes": peak,
        "precision": made_by.get("precision", "32-true"),
        "audit": found.summary,
        "bias": {name: each.tolist() for name, each in bias._asdict().items()},
    }


def enumerate_others(place: Path, rows: int, precision: str) -> dict[str, Any]:
    """The error of the pass on rows behind those of the store, by all coalitions."""
    value, explainer, *_ = load(place)
    x = torch.from_numpy(np.load(place / "rows.npy", mmap_mode="r")[rows:].copy())
    passed = ms.amortized_shapley(value.in_precision(precision), x, explainer=explainer)
    return ms.audit(passed, value, rows=len(x), reference=ms.exact_shapley).summary


def tables(found: Found) -> list[Table]:
    streamed, others = found["stream"], found["others"]
    ratio = streamed["audit"]["relative_error"] / others["relative_error"]
    took = ("rows", "seconds", "rows_per_second", "peak_megabytes", "precision")
    errors = [
        [name, one["rows"], one["reference"], one["relative_error"], *one["interval"]]
        for name, one in (("audit", streamed["audit"]), ("other rows", others))
    ]
    columns = ["", "rows", "reference", "relative error", "from", "to"]
    return [
        records("", {"stream": {key: streamed[key] for key in took}}),
        Table(columns, errors),
        Table(["", ""], [["error of the audit / of other rows", ratio]]),
        records("seconds of training", {"": found["training"]}),
    ]
