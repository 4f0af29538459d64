"""ONNX sessions: inputs by name and type, outputs that are told apart, and every error."""

from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import torch
from onnx import TensorProto, checker, helper
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType, Int64TensorType
from sklearn.linear_model import LogisticRegression

import manifold_shap as ms
from manifold_shap.models import as_model, predictor_of

FRAME = pd.DataFrame({"a b": [1, 2, 3, 4], "c": [0.5, 1.5, 0.0, 3.0]})


def session(nodes: list[Any], inputs: list[Any], outputs: list[Any]) -> Any:
    graph = helper.make_graph(nodes, "graph", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(model)
    return onnxruntime.InferenceSession(model.SerializeToString())


def tensor(name: str, kind: int = TensorProto.FLOAT, width: Any = 1) -> Any:
    return helper.make_tensor_value_info(name, kind, ["rows", width])


def summed() -> Any:
    """The sum of a whole number and a number, from two inputs."""
    nodes = [
        helper.make_node("Cast", ["a_b"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["real", "c"], ["y"]),
    ]
    return session(nodes, [tensor("a_b", TensorProto.INT64), tensor("c")], [tensor("y")])


def test_one_input_per_column_by_name_and_type() -> None:
    table = ms.Table.fit(FRAME)
    model = as_model(summed(), table)
    assert model.returns == "values"
    expected = FRAME["a b"] + FRAME["c"]
    np.testing.assert_array_equal(model(table.rows(FRAME))[:, 0], expected)
    turned = predictor_of(summed())(FRAME[["c", "a b"]])
    np.testing.assert_array_equal(turned[:, 0], expected)
    np.testing.assert_array_equal(predictor_of(summed())(FRAME.to_numpy())[:, 0], expected)


@pytest.mark.parametrize("shape", [["rows"], [3], [3, 1]])
def test_an_input_per_column_may_have_one_axis_and_a_fixed_size(shape: list[Any]) -> None:
    one, other, sums = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("a", "b", "y")
    )
    found = session([helper.make_node("Add", ["a", "b"], ["y"])], [one, other], [sums])
    x = torch.arange(10.0).reshape(5, 2)
    assert torch.equal(as_model(found, x, returns="values")(x), x.sum(1, keepdim=True))


def test_names_of_classes_come_from_a_zipmap() -> None:
    labels = np.array(["no", "yes", "no", "yes"])
    model = LogisticRegression().fit(FRAME.to_numpy(), labels)
    written = to_onnx(model, initial_types=[("x", FloatTensorType([None, 2]))])
    mapped = onnxruntime.InferenceSession(written.SerializeToString())
    table = ms.Table.fit(FRAME)
    wrapped = as_model(mapped, table)
    assert (wrapped.returns, wrapped.classes) == ("probabilities", ("no", "yes"))
    found = wrapped(table.rows(FRAME), scale="probabilities")
    expected = torch.from_numpy(model.predict_proba(FRAME.to_numpy())).float()
    torch.testing.assert_close(found, expected)


def test_rows_that_the_inputs_do_not_take() -> None:
    model = predictor_of(summed())
    with pytest.raises(ValueError, match=r"columns that the ONNX model was .* \['y'\] besides"):
        model(FRAME.assign(y=0))
    with pytest.raises(ValueError, match="longer"):
        model(np.zeros((2, 3)))
    for column in ([1.5] * 4, [1.0, np.nan, 1, 1]):
        with pytest.raises(ValueError, match=r"whole numbers for the input 'a_b'"):
            model(FRAME.assign(**{"a b": column}))
    one = to_onnx(
        LogisticRegression().fit(FRAME.to_numpy(), [0, 1, 0, 1]),
        initial_types=[("x", Int64TensorType([None, 2]))],
    )
    single = predictor_of(onnxruntime.InferenceSession(one.SerializeToString()))
    with pytest.raises(RuntimeError, match=r"Got: 1 Expected: 2"):
        single(FRAME[["a b"]])


def test_logits_of_a_network_are_told_from_probabilities() -> None:
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    network = session(nodes, [tensor("x", width=2)], [tensor("y", width=2)])
    x = torch.tensor([[3.0, -1.0], [0.0, 2.0]])
    assert as_model(network, x).returns == "logits"
    assert as_model(network, x.softmax(-1)).returns == "probabilities"
    assert torch.equal(as_model(network, x, returns="values")(x), x)


FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)


@pytest.mark.parametrize("size", [None, 1, 8, 20])
@pytest.mark.parametrize("kind", FLOATS)
def test_files_of_a_fixed_batch_size_take_any_number_of_rows(kind: int, size: int | None) -> None:
    inputs = helper.make_tensor_value_info("x", kind, [size, 3])
    outputs = helper.make_tensor_value_info("y", kind, [size, 3])
    found = session([helper.make_node("Softmax", ["x"], ["y"])], [inputs], [outputs])
    x = torch.randn(13, 3, generator=torch.Generator().manual_seed(0))
    model = as_model(found, x)
    assert model.returns == "probabilities"
    for batch_size in (None, 5):
        model = as_model(found, x, batch_size=batch_size)
        for rows in (x, x[:2]):
            p = model(rows, scale="probabilities")
            assert p.dtype in (torch.float32, torch.float64)
            torch.testing.assert_close(p.float(), rows.softmax(-1), rtol=0, atol=2e-3)
    explained = ms.exact_shapley(
        ms.imputed_value(model, ms.imputers.MarginalImputer(x), draws=4), x[:3]
    )
    assert explained.efficiency_gap < 1e-5
