"""A surrogate and an amortised explainer are briefly trained, written as ONNX, and asked about the
same test rows in onnxruntime and in torch, in turn, with as many threads.
"""

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import onnxruntime
import torch

import manifold_shap as ms
from benchmarks.report import Found, Table, records
from benchmarks.support.measures import seconds
from benchmarks.support.trained import brief_surrogate
from manifold_shap.exports.graphs import PREDICTION, PredictionGraph
from manifold_shap.laws import SizeUniform

TITLE = "Exported graphs in onnxruntime"
QUICK = {"data": ["digits"], "epochs": 1, "rows": [1, 64], "repeats": 3}
ONNX, TORCH = "onnxruntime", "torch"
OVER = {"data": ("mnist", "mnist conv", "digits")}
COALITIONS = 64  # Of each row, of as many rows.


def measure(
    name: str,
    epochs: int = 1,  # of the trainings of the surrogate and of the explainer
    rows: Sequence[int] = (1, 16, 128, 1024),  # of a batch
    repeats: int = 15,  # of each measurement, of which the median counts
) -> dict[str, Any]:
    """Times over those of torch, and the largest difference."""
    source, *network = name.split()
    value, loaded = brief_surrogate(source, epochs, "cpu", network[0] if network else "mlp")
    trainer = {"accelerator": "cpu"}
    explainer = ms.fit_amortized(value, loaded.x_train, max_epochs=epochs, trainer=trainer)
    with tempfile.TemporaryDirectory() as place:
        phi, v = (_session(each, Path(place)) for each in (explainer, value))
    found: dict[str, Any] = {}
    for count in rows:
        x = loaded.x_test[torch.arange(count) % len(loaded.x_test)]
        works = partial(explainer, x), partial(phi, _inputs(value, x))
        found[f"phi, batches of {count}"] = _compared(*works, repeats)
    x = loaded.x_test[:COALITIONS]
    generator = torch.Generator().manual_seed(0)
    mask = SizeUniform(len(value.players)).sample((len(x), COALITIONS), generator)
    works = partial(value, x, mask), partial(v, {**_inputs(value, x), "mask": mask})
    found[f"v, {COALITIONS} coalitions of {len(x)} rows"] = _compared(*works, repeats)
    return found


def _session(what: Any, place: Path) -> Any:
    path = place / "graph.onnx"
    what.export(path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def ask(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        (found,) = session.run(None, {name: each.numpy() for name, each in inputs.items()})
        return torch.from_numpy(found)

    return ask


def _inputs(value: ms.SurrogateValue, x: torch.Tensor) -> dict[str, torch.Tensor]:
    """Of a graph; where the model is not in it, what that returns takes no time here."""
    if PredictionGraph(value).inside:
        return {"x": x}
    return {"x": x, PREDICTION: value.model.predictor(x.clone()).float()}


def _compared(
    in_torch: Callable[[], torch.Tensor], in_onnx: Callable[[], torch.Tensor], repeats: int
) -> dict[str, float]:
    times = seconds({TORCH: in_torch, ONNX: in_onnx}, repeats)
    gap = (in_onnx() - in_torch()).abs().max().item()
    return {"of torch": times[ONNX] / times[TORCH], "largest difference": gap}


def tables(found: Found) -> list[Table]:
    lines = {f"{name}, {what}": one for name, of in found.items() for what, one in of.items()}
    return [records("graph", lines)]


def summary(found: Found) -> dict[str, Any]:
    """Of batches of the amortised explainer."""
    ratios = [
        m["of torch"] for of in found.values() for what, m in of.items() if what.startswith("phi")
    ]
    return {"ONNX over torch, least time": min(ratios), "most time": max(ratios)}
