"""Writes graphs of ONNX: networks, anchors and output space as one module each.

A graph computes what a value function or an amortised explainer gives, by tensors alone: without
the checks of rows and masks, which raise errors, and in single precision.
"""

import copy
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.export import Dim

from manifold_shap._version import __version__
from manifold_shap.amortized import AmortizedExplainer
from manifold_shap.io.files import location, write_bytes
from manifold_shap.models.kinds import NetworkPredictor
from manifold_shap.models.outputs import converted
from manifold_shap.models.rows import whole
from manifold_shap.surrogate import SurrogateValue
from manifold_shap.tables.rows import EncodedRows

# What an input is called that takes the place of `x` where rows are codes: these are numbered anew
# in every process, so that no graph could tell what they stand for.
ENCODED = "encoded"
# What a third input is called, where the model is not in the graph.
PREDICTION = "prediction"
# How many axes of an input may have any length.
_FREE = {"x": 1, ENCODED: 1, "mask": 2, PREDICTION: 1}


class PredictionGraph(nn.Module):
    """v(N) = T(f(x)): by the model where it is a torch module, else from what it has returned.

    Attributes:
        inside: whether the model is in the graph.

    Args:
        value: v; of a table, a model that takes encoded rows is inside.
    """

    def __init__(self, value: SurrogateValue) -> None:
        super().__init__()
        model, of_frames = value.model, value.spec.table is not None
        takes = isinstance(model.table, EncodedRows) if of_frames else model.table is None
        self.inside = isinstance(model.predictor, NetworkPredictor) and takes
        self.predictor = model.predictor if self.inside else None
        self.module = getattr(self.predictor, "module", None)
        self.dtype = None if of_frames else model.dtype
        self.returns, self.space = model.returns, value.space

    def forward(
        self, x: Float[Tensor, "batch *event"], prediction: Tensor | None
    ) -> Float[Tensor, "batch outputs"]:
        raw = prediction
        if self.predictor is not None:
            rows = x if self.dtype is None else whole(x, self.dtype)
            raw = self.predictor.ask(self.predictor.prepared(rows))
        assert raw is not None
        raw = raw[:, None] if raw.ndim == 1 else raw
        return self.space(converted(raw, self.returns, self.space.takes)).float()


class _ValueGraph(nn.Module):
    """x, mask -> v(S) of a surrogate, anchors included, by default of all outputs.

    Here x is as the network sees it.
    """

    chosen: Tensor | None

    def __init__(self, value: SurrogateValue, chosen: Tensor | None = None) -> None:
        super().__init__()
        self.register_buffer("chosen", chosen)
        self.surrogate, self.players = value.surrogate, value.players
        self.grand = PredictionGraph(value)
        self.register_buffer("expectation", value.expectation.float())
        center = value.center
        self.register_buffer("center", None if center is None else center.float())

    def forward(
        self,
        x: Float[Tensor, "batch *event"],
        mask: Bool[Tensor, "batch m players"],
        prediction: Tensor | None = None,
    ) -> Float[Tensor, "batch m outputs"]:
        own = self.players.owned(x)[:, None]
        mask = mask & own
        values = self._values(x, mask)
        empty, full = ~mask.any(-1, keepdim=True), (mask | ~own).all(-1, keepdim=True)
        values = torch.where(empty, self.base(x)[:, None], values)
        values = torch.where(full, self.grand(x, prediction)[:, None], values)
        return values if self.chosen is None else values[..., self.chosen]

    def base(self, x: Tensor) -> Float[Tensor, "batch outputs"]:
        """v(empty coalition), as `SurrogateValue.base`."""
        if self.players.padding is None:
            return self.get_buffer("expectation").expand(x.shape[0], -1)
        none = torch.zeros_like(self.players.owned(x))[:, None]
        return self._values(x, none)[:, 0]

    def _values(self, x: Tensor, mask: Tensor) -> Tensor:
        found = self.surrogate(x, mask).float()
        return found if self.center is None else found + self.center


class _AmortizedGraph(nn.Module):
    """x -> phi of an amortised explainer."""

    def __init__(self, explainer: AmortizedExplainer) -> None:
        super().__init__()
        self.values, self.network = _ValueGraph(explainer.value), explainer.network

    def forward(
        self, x: Float[Tensor, "batch *event"], prediction: Tensor | None = None
    ) -> Float[Tensor, "batch players outputs"]:
        change = self.values.grand(x, prediction) - self.values.base(x)
        chosen = self.network.chosen
        change = change if chosen is None else change[:, chosen]
        return self.network(self.values.surrogate, x, change)


def export(what: Any, path: str | Path) -> None:
    """Write a value function or an amortised explainer as a graph; see `Exportable.export`.

    Raises:
        ImportError, TypeError, ValueError, OSError: see there.
    """
    import onnxscript  # noqa: F401  It makes ONNX files for torch.

    if isinstance(what, AmortizedExplainer):
        content = _graph(what.value, _AmortizedGraph(what), "phi", what.game.outputs)
    elif (network := what.one_network()) is not None:
        content = _graph(network.value, _ValueGraph(*network), "v", what.outputs)
    else:
        raise TypeError(
            "Expected a value function that is one network, a surrogate of `ms.fit_surrogate` with "
            f"the players it was trained with, but got {type(what).__name__} ({what.name}); "
            "`ms.fit_surrogate(model, x, teacher=value, players=value.players)` makes a surrogate "
            "of it."
        )
    write_bytes(location("path", path), content)


def _graph(value: SurrogateValue, module: nn.Module, output: str, outputs: Any) -> bytes:
    table = value.spec.table
    # A copy: the value function stays where it is, and trainable where it was.
    module = copy.deepcopy(module).cpu().eval().requires_grad_(False)
    for each in (*module.parameters(), *module.buffers()):
        each.data = each.data.clone(memory_format=torch.contiguous_format)
    # Two of each: of one row an exporter would take the axis to be of this length always.
    event = value.players.event if table is None else (table.width,)
    x = torch.zeros(2, *event)
    if value.spec.table is None and value.players.padding is not None:
        x += 1  # No padding.
    inputs = {"x" if table is None else ENCODED: x}
    if output == "v":
        inputs["mask"] = torch.ones(2, 3, len(value.players), dtype=torch.bool)
    inside = PredictionGraph(value).inside
    if not inside:
        inputs[PREDICTION] = torch.full((2, len(value.model.classes)), 1 / len(value.model.classes))
    about = {
        "players": json.dumps(value.players.names, ensure_ascii=False),
        "outputs": json.dumps(list(outputs), ensure_ascii=False),
        "output_space": value.space.name,
        "model": "inside" if inside else f"input: {value.model.returns}",
    }
    if table is not None:
        columns = [asdict(encoding) for encoding in table.encodings]
        about["columns"] = json.dumps(columns, ensure_ascii=False)
    return _onnx(module, inputs, output, about)


def _onnx(
    module: nn.Module, inputs: dict[str, Tensor], output: str, about: dict[str, str]
) -> bytes:
    """A model of ONNX, with weights inside, for any number of rows and of coalitions.

    Args:
        module: on the CPU, in evaluation mode; it takes `inputs` in their order.
        inputs: example inputs by name, of two rows and three coalitions.
        output: the name of what it gives: `v` or `phi`.
        about: texts that say what it is, for whoever has the file alone.
    """
    axes = tuple(dict.fromkeys(range(_FREE[name]), Dim.DYNAMIC) for name in inputs)
    names: Any = {"input_names": list(inputs), "output_names": [output]}
    try:
        with torch.no_grad():
            example = tuple(inputs.values())
            program = torch.export.export(module, example, dynamic_shapes=axes, strict=False)
        made = torch.onnx.export(program, (), dynamo=True, verbose=False, **names)
    except Exception as error:  # Modules of the user's may fail in any way.
        raise ValueError(
            f"Expected networks that torch can trace and write but it failed ({error!s:.500}). "
            "Where that is the model to explain, make the value function of a plain function of "
            "it, `lambda x: model(x)`: then the model's outputs are an input of the graph."
        ) from error
    assert made is not None
    model = made.model_proto
    for node in model.graph.node:
        del node.metadata_props[:]  # Places in files of this machine.
    for key, text in {"made_by": f"manifold_shap {__version__}", **about}.items():
        model.metadata_props.add(key=key, value=text)
    return model.SerializeToString()
