"""Asks models in ONNX files, by onnxruntime."""

from itertools import chain
from typing import Any

import numpy as np

from manifold_shap._arrays import is_frame
from manifold_shap._messages import shown
from manifold_shap.models.predictor import Predictor, is_of
from manifold_shap.models.rows import as_array, column_array, in_fitted_order

# Types that numpy has by other names.
_TYPES = {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(string)": "object"}
_REAL = ("tensor(float)", "tensor(double)", "tensor(float16)")


class OnnxPredictor(Predictor):
    """A session of onnxruntime: one input of all columns, or one per column, by name.

    Inputs of single columns are `[rows, 1]` or `[rows]`. Numbers are given in the types of the
    inputs, a missing text as "", and as many rows in a call as a file of a fixed batch size takes.
    Of the outputs, a classifier has labels, which are left aside, and probabilities, as a tensor or
    a ZipMap; any other model has one.

    Raises:
        ValueError: outputs that are none of these.
    """

    def __init__(self, model: Any, returns: str | None = None, method: Any = None) -> None:
        super().__init__(model, returns)
        self.name = "the ONNX model"
        self._inputs = model.get_inputs()
        sizes = [i.shape[0] for i in self._inputs if i.shape]
        self._size = next((size for size in sizes if isinstance(size, int)), None)
        if len(self._inputs) > 1:
            self.columns = tuple(each.name for each in self._inputs)
        self._output, self._by_class = self._chosen(model.get_outputs())

    @classmethod
    def takes(cls, model: Any) -> bool:
        return is_of(model, "onnxruntime", ["InferenceSession"])

    def prepared(self, rows: Any) -> dict[str, np.ndarray]:
        if len(self._inputs) == 1:
            only, several_axes = self._inputs[0], len(self._inputs[0].shape) > 2
            as_they_are = several_axes and not is_frame(rows)
            return {only.name: _typed(np.asarray(rows) if as_they_are else as_array(rows), only)}
        if is_frame(rows):
            import narwhals as nw

            ordered = nw.from_native(in_fitted_order(rows, self.columns, self.name))
            columns = [column_array(column) for column in ordered.iter_columns()]
        else:
            columns = list(as_array(rows).T)
        pairs = zip(self._inputs, columns, strict=True)
        return {
            each.name: _typed(column if len(each.shape) == 1 else column[:, None], each)
            for each, column in pairs
        }

    def ask(self, rows: dict[str, np.ndarray]) -> Any:
        if self._size is None:
            return self._run(rows)
        count = len(next(iter(rows.values())))
        # The last call is filled up by copies of the last row.
        numbers = np.arange(-(-count // self._size) * self._size).clip(max=count - 1)
        parts = numbers.reshape(-1, self._size)
        answers = [self._run({name: each[k] for name, each in rows.items()}) for k in parts]
        return np.concatenate(answers)[:count]

    def _run(self, rows: dict[str, np.ndarray]) -> Any:
        (answer,) = self.model.run([self._output], rows)
        if not self._by_class:
            return answer
        # A ZipMap is a dict for every row.
        self.classes = tuple(map(str, answer[0]))
        numbers = chain.from_iterable(map(dict.values, answer))
        return np.fromiter(numbers, np.float32).reshape(len(answer), len(self.classes))

    def _chosen(self, outputs: Any) -> tuple[str, bool]:
        """The output to ask for, and whether it is a dict by class for every row."""
        by_class = [each.name for each in outputs if each.type.startswith("seq(map")]
        real = [each for each in outputs if each.type in _REAL]
        if len(by_class) + len(real) != 1:
            listed = shown([f"{each.name}: {each.type}" for each in outputs])
            raise ValueError(
                f"Expected an ONNX model with one output of real numbers but got {listed}; wrap "
                "the one that you mean: `lambda rows: session.run([name], {...: rows})[0]`."
            )
        found = "probabilities" if len(outputs) > 1 else None
        if not by_class and real[0].shape[1:] in ([], [1]):
            found = "values"
        if self.returns is None:
            self.returns = found
        return (by_class or [real[0].name])[0], bool(by_class)


def _typed(array: np.ndarray, wanted: Any) -> np.ndarray:
    """The array in the type of an input.

    Raises:
        ValueError: text for numbers, or what is no whole number for one, or beyond its range.
    """
    dtype = np.dtype(_TYPES.get(wanted.type, wanted.type[len("tensor(") : -1]))
    if dtype.kind == "O":
        import pandas as pd

        return np.where(pd.isna(array), "", array.astype(str)).astype(object)
    with np.errstate(invalid="ignore"):
        found = np.ascontiguousarray(array, dtype=dtype)
    if dtype.kind in "iub" and (found != array).any():
        raise ValueError(
            f"Expected whole numbers for the input {wanted.name!r} of the ONNX model, which is "
            f"{wanted.type}, but got fractions, missing numbers or others that it cannot hold."
        )
    return found
