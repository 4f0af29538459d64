"""A surrogate and an amortised explainer are briefly trained, written as ONNX, and asked about the
same test rows in onnxruntime and in torch, in turn, with as many threads.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnxruntime
import torch

import manifold_shap as ms
from benchmarks.report import Found, Table, parts, records
from benchmarks.support.measures import seconds
from benchmarks.support.trained import brief_surrogate
from manifold_shap.exports.graphs import PREDICTION, PredictionGraph
from manifold_shap.laws import SizeUniform

TITLE = "Exported graphs in onnxruntime"
QUICK = {"data": ["digits"], "epochs": 1, "rows": [1, 64], "repeats": 3}
ONNX, TORCH = "onnxruntime", "torch"


def run(
    data: Sequence[str] = ("mnist", "mnist conv", "digits"),
    epochs: int = 1,  # of the trainings of the surrogate and of the explainer
    rows: Sequence[int] = (1, 16, 128, 1024),  # of a batch
    coalitions: int = 64,  # of each row, of 64 rows
    repeats: int = 15,  # of each measurement, of which the median counts
) -> dict[str, Any]:
    """Milliseconds for a row, and the largest difference."""
    how = {"rows": list(rows), "coalitions": coalitions, "repeats": repeats}
    return parts(data, measure, epochs=epochs, **how)


def measure(
    name: str, epochs: int, rows: Sequence[int], coalitions: int, repeats: int
) -> dict[str, Any]:
    source, *network = name.split()
    value, loaded = brief_surrogate(source, epochs, "cpu", network[0] if network else "mlp")
    trainer = {"accelerator": "cpu"}
    explainer = ms.fit_amortized(value, loaded.x_train, max_epochs=epochs, trainer=trainer)
    with tempfile.TemporaryDirectory() as place:
        phi, v = (_session(each, Path(place)) for each in (explainer, value))
    found: dict[str, Any] = {"model": "inside" if _inside(value) else "an input"}
    for count in rows:
        x = loaded.x_test[torch.arange(count) % len(loaded.x_test)]
        inputs = _inputs(value, x)
        times = seconds({TORCH: lambda: explainer(x), ONNX: lambda: phi(inputs)}, repeats)  # noqa: B023
        gap = (phi(inputs) - explainer(x)).abs().max().item()
        found[f"phi, batches of {count}"] = _compared(times, count, gap)
    x = loaded.x_test[:64]
    generator = torch.Generator().manual_seed(0)
    mask = SizeUniform(len(value.players)).sample((len(x), coalitions), generator)
    asked = {**_inputs(value, x), "mask": mask}
    times = seconds({TORCH: lambda: value(x, mask), ONNX: lambda: v(asked)}, repeats)
    gap = (v(asked) - value(x, mask)).abs().max().item()
    found[f"v, {coalitions} coalitions of {len(x)} rows"] = _compared(times, len(x), gap)
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


def _inside(value: ms.SurrogateValue) -> bool:
    return PredictionGraph(value).inside


def _inputs(value: ms.SurrogateValue, x: torch.Tensor) -> dict[str, torch.Tensor]:
    """Of a graph; where the model is not in it, what that returns takes no time here."""
    if _inside(value):
        return {"x": x}
    return {"x": x, PREDICTION: value.model.predictor(x.clone()).float()}


def _compared(times: dict[Any, float], rows: int, gap: float) -> dict[str, Any]:
    each = {f"ms per row, {name}": 1e3 * took / rows for name, took in times.items()}
    return {**each, "of torch": times[ONNX] / times[TORCH], "largest difference": gap}


def tables(found: Found) -> list[Table]:
    keys = ("of torch", "largest difference")
    lines = {
        f"{name}, {what}": {key: measured[key] for key in keys}
        for name, of in found.items()
        for what, measured in of.items()
        if what != "model"
    }
    return [records("graph", lines)]


def summary(found: Found) -> dict[str, Any]:
    """Of batches of the amortised explainer."""
    ratios = [
        m["of torch"] for of in found.values() for what, m in of.items() if what.startswith("phi")
    ]
    return {"ONNX over torch, least time": min(ratios), "most time": max(ratios)}
