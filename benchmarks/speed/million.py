"""A surrogate and its amortised explainer are trained on the census data; a VAE draws as many rows
like them. A fresh process streams these into a store, some of them estimated again (`audit=`).
Others are explained by all coalitions: the error that the audit should tell.
"""

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

import manifold_shap as ms
from benchmarks.report import Found, Table, records
from benchmarks.support.measures import in_own_process, peak_memory, timed
from benchmarks.support.trained import Trained

TITLE = "A million rows with an audit"
QUICK = {
    "rows": 2000, "audit": 200, "others": 50, "epochs": 1, "amortized_epochs": 1, "vae_epochs": 1,
}  # fmt: skip


def run(
    rows: int = 1_000_000,
    audit: int = 5000,  # rows that are estimated again
    others: int = 2000,  # rows that are enumerated
    epochs: int = 20,  # of the surrogate
    amortized_epochs: int = 12,
    vae_epochs: int = 5,
) -> dict[str, Any]:
    """What streaming took, and both errors."""
    census, cpu = Trained("census", seed=0), {"accelerator": "cpu"}
    x = census.data.x_train
    value = census.surrogate(max_epochs=epochs, trainer=cpu)
    how: Any = {"x_validation": census.data.x_validation[:512], "trainer": cpu}
    explainer = ms.fit_amortized(value, x, max_epochs=amortized_epochs, **how)
    vae = census.vae(1, posterior="encoder", max_epochs=vae_epochs)
    quick = value.in_precision("auto")
    with TemporaryDirectory() as folder:
        place = Path(folder)
        np.save(place / "rows.npy", vae.draw_rows(rows + others, seed=0).numpy())
        torch.save((quick, explainer), place / "trained.pt")
        streamed = in_own_process(stream, place, rows, audit)
        rest = torch.from_numpy(np.load(place / "rows.npy", mmap_mode="r")[rows:].copy())
    passed = ms.amortized_shapley(quick, rest, explainer=explainer)
    enumerated = ms.audit(passed, value, rows=len(rest), reference=ms.exact_shapley)
    return {"stream": streamed, "others": enumerated.summary}


def stream(place: Path, rows: int, audit: int) -> dict[str, Any]:
    """Explain the rows into a store, and say what it took."""
    value, explainer = torch.load(place / "trained.pt", weights_only=False)
    x, store = np.load(place / "rows.npy", mmap_mode="r")[:rows], place / "rows.zarr"
    estimator = partial(ms.amortized_shapley, explainer=explainer)
    work = partial(ms.explain_rows, store, value, x, estimator, block=4096, audit=audit)
    explained, seconds = timed(work)
    peak = peak_memory()
    first = ms.Explanation.load(store, slice(1))
    assert first.audit is not None
    return {
        "rows": rows,
        "seconds": seconds,
        "rows_per_second": explained / seconds,
        "peak_megabytes": peak,
        "precision": first.made_by.get("precision", "32-true"),
        "audit": first.audit.summary,
    }


def tables(found: Found) -> list[Table]:
    streamed, others = found["stream"], found["others"]
    took = ("rows", "seconds", "rows_per_second", "peak_megabytes", "precision")
    errors = [
        [name, one["rows"], one["reference"], one["relative_error"], *one["interval"]]
        for name, one in (("audit", streamed["audit"]), ("other rows", others))
    ]
    columns = ["", "rows", "reference", "relative error", "95 % from", "to"]
    return [records("", {"stream": {key: streamed[key] for key in took}}), Table(columns, errors)]


def summary(found: Found) -> dict[str, Any]:
    streamed, others = found["stream"], found["others"]
    audited = streamed["audit"]["relative_error"]
    return {
        f"seconds of {streamed['rows']:,} rows": streamed["seconds"],
        "peak memory, MB": streamed["peak_megabytes"],
        "relative error by the audit": audited,
        "error of the audit over that of other rows": audited / others["relative_error"],
    }
