"""Defines how value functions and explainers are exported: one method, for all of them."""

from pathlib import Path


class Exportable:
    """What may be exported: a graph of tensors that needs neither this package nor Python."""

    def export(self, path: str | Path) -> None:
        """Write a graph that gives the same numbers elsewhere, in single precision.

        A value function gives `v`, `[batch, m, outputs]`, of `x` and `mask`, with v(∅) and v(N) in
        their places; an amortised explainer gives `phi`, `[batch, players, outputs]`, of `x`.
        Batches and numbers of coalitions may be any, of at least 1.

        v(N) is the prediction of the model itself. A torch module goes into the graph. The outputs
        of any other model are an input besides, `prediction` `[batch, classes]`: what the model
        returns for `x`, such as probabilities, of which the graph makes T.

        Rows are floats as this value function takes them. Of a frame the input is `encoded`
        `[batch, elements]` in place of `x`: `table.encode(table.rows(frame))` by `spec.table`, by
        which cells that training had none of are right, too. A graph checks neither rows nor
        masks.

        Args:
            path: the file, which ends in `.onnx`, or a URL that fsspec knows. What is written has
                standard operators alone.

        Raises:
            ImportError: packages that are not there.
            TypeError: values that are not those of one network; the error says which are.
            ValueError: a network that torch cannot trace or write.
            OSError: no space or no permission; what stood at `path` is left as it was.
        """
        from manifold_shap.exports.graphs import export

        export(self, path)
