"""Writes graphs to files of ONNX, for any runtime."""

import importlib
from pathlib import Path
from typing import Any

import torch
from torch.export import Dim, ExportedProgram

from manifold_shap._checks import check_whole
from manifold_shap._version import __version__
from manifold_shap.exports.graphs import ENCODED, PREDICTION, Graph, graph_of
from manifold_shap.io.files import location, write_bytes

# The first version of the operators that torch writes by itself: to earlier ones it would convert.
_FIRST_OPSET = 18
_PACKAGES = ("onnx", "onnxscript")
# Axes that may have any length.
_AXES = {"x": ("batch",), ENCODED: ("batch",), "mask": ("batch", "m"), PREDICTION: ("batch",)}
_AXES |= {"v": ("batch", "m"), "phi": ("batch",)}


def export(what: Any, path: str | Path, opset: int | None = None) -> None:
    """Write a value function or an amortised explainer as a graph; see `Exportable.export`.

    Raises:
        ImportError, TypeError, ValueError, OSError: see there.
    """
    place = location("path", path)
    if Path(path).suffix.lower() != ".onnx":
        raise ValueError(
            f"Expected a path that ends in '.onnx' but got {str(path)!r}; no other kind of file is "
            "written."
        )
    _check_packages()
    if opset is not None:
        import onnx

        last = onnx.defs.onnx_opset_version()
        fix = "leave it out for the one that torch prefers, or install another version of onnx"
        check_whole("opset", opset, _FIRST_OPSET, last, fix)
    graph = graph_of(what)
    write_bytes(place, _onnx(graph, _traced(graph), opset))


def _check_packages() -> None:
    for name in _PACKAGES:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise ImportError(
                f"Expected {name}, which makes ONNX files, to be installed; "
                "`pip install 'manifold_shap[export]'`."
            ) from error


def _traced(graph: Graph) -> ExportedProgram:
    """The graph as torch traces it, for any number of rows and of coalitions.

    Raises:
        ValueError: it cannot be traced.
    """
    axes = [dict.fromkeys(range(len(_AXES[name])), Dim.DYNAMIC) for name in graph.inputs]
    inputs = tuple(graph.inputs.values())
    try:
        with torch.no_grad():
            return torch.export.export(
                graph.module, inputs, dynamic_shapes=tuple(axes), strict=False
            )
    except Exception as error:  # Modules of the user's may fail in any way.
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ValueError(
            f"Expected networks that `torch.export` can trace but it failed ({reason:.500}). Where "
            "that is the model to explain, make the value function of a plain function of it, "
            "`lambda x: model(x)`: then the model's outputs are an input of the graph."
        ) from error


def _onnx(graph: Graph, program: ExportedProgram, opset: int | None) -> bytes:
    """A model of ONNX, with weights inside.

    Raises:
        ValueError: operators that are not ONNX's own, or not of this version.
    """
    names: Any = {"input_names": list(graph.inputs), "output_names": [graph.output]}
    try:
        made = torch.onnx.export(
            program, (), dynamo=True, opset_version=opset, verbose=False, **names
        )
        assert made is not None
        model = made.model_proto
    except Exception as error:  # Operators of the user's modules may have no translation.
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise ValueError(
            f"Expected networks of which ONNX can be made but it failed ({lines[-1]:.500}); "
            "replace the layer that it names."
        ) from error
    versions = {each.domain: each.version for each in model.opset_import}
    others = sorted(name for name in versions if name not in ("", "ai.onnx"))
    if others:
        raise ValueError(
            f"Expected networks of ONNX's standard operators but some are of {others}; replace "
            "these layers."
        )
    if opset is not None and versions[""] != opset:
        raise ValueError(
            f"Expected operators of ONNX that are there in opset {opset} but the graph needs "
            f"others; leave `opset` out, which gives {versions['']}."
        )
    _name_axes(model.graph)
    for node in model.graph.node:
        del node.metadata_props[:]
    about = {"made_by": f"manifold_shap {__version__}", **graph.about}
    for key, text in about.items():
        model.metadata_props.add(key=key, value=text)
    return model.SerializeToString()


def _name_axes(graph: Any) -> None:
    """Give axes of any length the names that this package uses, in place of torch's own."""
    named: dict[str, str] = {}
    for each in (*graph.input, *graph.output):
        sides = each.type.tensor_type.shape.dim
        named |= {side.dim_param: name for side, name in zip(sides, _AXES[each.name], strict=False)}
    for each in (*graph.input, *graph.output, *graph.value_info):
        for side in each.type.tensor_type.shape.dim:
            if side.dim_param in named:
                side.dim_param = named[side.dim_param]
