"""What a figure is about: which explanations together, which rows and outputs of theirs."""

import difflib
from collections.abc import Mapping

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap.explanation import Explanation


def named(explanations: Explanation | Mapping[str, Explanation]) -> dict[str, Explanation]:
    """Explanations by name, of the same rows, players and outputs.

    Raises:
        ValueError: there is none, one is empty, or they do not explain the same.
    """
    if isinstance(explanations, Explanation):
        explanations = {"Shapley values": explanations}
    by_name = dict(explanations)
    if not by_name:
        raise ValueError(
            "Expected at least one named explanation but got none; pass for example "
            "{'on manifold': explanation}."
        )
    first_name, first = next(iter(by_name.items()))
    for name, explanation in by_name.items():
        if explanation.phi.numel() == 0:
            raise ValueError(
                f"Expected {name!r} to hold at least one row, player and output but its `phi` has "
                f"shape {tuple(explanation.phi.shape)}; there is nothing to plot."
            )
        difference = _difference(first, explanation)
        if difference:
            raise ValueError(
                f"Expected explanations of the same rows, players and outputs but {first_name!r} "
                f"and {name!r} differ in their {difference}; explain the same `x` with both, or "
                "plot them apart."
            )
    return by_name


def _difference(first: Explanation, other: Explanation) -> str:
    if first.players.names != other.players.names or not torch.equal(
        first.players.index, other.players.index
    ):
        return f"players ({len(first.players)} and {len(other.players)})"
    if first.space != other.space or first.outputs != other.outputs:
        return (
            f"outputs ({first.space.name} of {list(first.outputs)[:10]} and {other.space.name} of "
            f"{list(other.outputs)[:10]})"
        )
    if first.x.shape != other.x.shape:
        return f"rows ({len(first.x)} and {len(other.x)})"
    if not torch.allclose(first.x, other.x, atol=1e-6):
        return f"rows (`x` by up to {(first.x - other.x).abs().max():.3g})"
    return ""


def output_index(explanation: Explanation, output: str) -> int:
    """The position of an output.

    Raises:
        ValueError: there is none of this name.
    """
    if output in explanation.outputs:
        return explanation.outputs.index(output)
    close = difflib.get_close_matches(str(output), explanation.outputs, n=1)
    hint = f"did you mean {close[0]!r}?" if close else "None chooses for you."
    shown = list(explanation.outputs)[:20]
    raise ValueError(f"Expected `output` to be one of {shown} but got {output!r}; {hint}")


def outputs_of_rows(explanation: Explanation, output: str | None) -> Int64[Tensor, " instances"]:
    """The output to explain for each row: the named one, or each row's predicted one.

    The predicted output is the largest; among ilr coordinates, which have no winner, the one that
    the row moves furthest from the base.
    """
    rows = len(explanation.phi)
    if output is not None:
        return torch.full((rows,), output_index(explanation, output))
    if explanation.partition is not None:
        return (explanation.prediction - explanation.base).abs().argmax(1)
    return explanation.prediction.argmax(1)


def row_index(explanation: Explanation, row: int, argument: str) -> int:
    """A position among the rows, counted from the end where negative.

    Raises:
        ValueError: out of range.
    """
    rows = len(explanation.phi)
    if not -rows <= row < rows:
        raise ValueError(
            f"Expected `{argument}` to be a position from 0 to {rows - 1} among the {rows} "
            f"explained rows but got {row}."
        )
    return row % rows


def largest(size: Float[Tensor, " players"], most: int) -> Int64[Tensor, " shown"]:
    """Players in order of size, the largest first, where more than `most` would not fit.

    One player too many is shown all the same: its own line takes no more room than "1 other".

    Raises:
        ValueError: `most` is not positive.
    """
    if most < 1:
        raise ValueError(f"Expected `most` of at least 1 feature but got {most}.")
    order = size.argsort(descending=True, stable=True)
    return order if len(size) <= most + 1 else order[:most]
