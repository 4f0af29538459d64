"""Writes graphs to files of ONNX, for any runtime."""

from pathlib import Path
from typing import Any

import torch
from torch.export import Dim

from manifold_shap._version import __version__
from manifold_shap.exports.graphs import ENCODED, PREDICTION, Graph, graph_of
from manifold_shap.io.files import location, write_bytes

# How many axes of an input may have any length.
_FREE = {"x": 1, ENCODED: 1, "mask": 2, PREDICTION: 1}


def export(what: Any, path: str | Path) -> None:
    """Write a value function or an amortised explainer as a graph; see `Exportable.export`.

    Raises:
        ImportError, TypeError, ValueError, OSError: see there.
    """
    import onnxscript  # noqa: F401  It makes ONNX files for torch.

    write_bytes(location("path", path), _onnx(graph_of(what)))


def _onnx(graph: Graph) -> bytes:
    """A model of ONNX, with weights inside, for any number of rows and of coalitions."""
    axes = tuple(dict.fromkeys(range(_FREE[name]), Dim.DYNAMIC) for name in graph.inputs)
    inputs = tuple(graph.inputs.values())
    names: Any = {"input_names": list(graph.inputs), "output_names": [graph.output]}
    try:
        with torch.no_grad():
            program = torch.export.export(graph.module, inputs, dynamic_shapes=axes, strict=False)
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
    about = {"made_by": f"manifold_shap {__version__}", **graph.about}
    for key, text in about.items():
        model.metadata_props.add(key=key, value=text)
    return model.SerializeToString()
