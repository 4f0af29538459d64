"""Hands Shapley values and interactions of a row to shapiq, for its plots."""

from typing import TYPE_CHECKING, Any

from torch import Tensor

from manifold_shap._checks import check_whole
from manifold_shap.values.selected import Output, output_position

if TYPE_CHECKING:
    import shapiq

    from manifold_shap.explanation import Explanation
    from manifold_shap.interactions import Interactions

# Values of players, and of pairs of players, by their numbers.
Terms = dict[tuple[int, ...], float]


def imported(what: str) -> Any:
    """The package shapiq, for `what`, which an error names.

    Raises:
        ImportError: it is not installed.
    """
    try:
        import shapiq
    except ImportError as error:
        raise ImportError(
            f"{what} needs the package shapiq: pip install 'manifold_shap[shapiq]'."
        ) from error
    return shapiq


def of_explanation(
    explanation: "Explanation", row: int, output: Output
) -> "shapiq.InteractionValues":
    """The Shapley values of a row and an output; see `Explanation.to_shapiq`, which this is.

    >>> from manifold_shap import exact_shapley
    >>> import torch
    >>> def value(x, mask):
    ...     return (x[:, None] * mask).sum(-1, keepdim=True)
    >>> found = of_explanation(exact_shapley(value, torch.tensor([[1.0, 2.0]])), 0, "0")
    >>> found.index, found.get_n_order_values(1)
    ('SV', array([1., 2.]))
    """
    shapiq = imported("Explanation.to_shapiq")
    row, k = _place(explanation, row, output)
    players = range(int(explanation.counts[row]))
    phi, error = explanation.phi[row, :, k], explanation.standard_error[row, :, k]
    values: Terms = {(i,): phi[i].item() for i in players}
    return _values(shapiq, explanation, (row, k), "SV", values, error[: len(players)])


def of_interactions(
    interactions: "Interactions", row: int, output: Output
) -> "shapiq.InteractionValues":
    """Pairs and first-order terms of a row and an output; see `Interactions.to_shapiq`."""
    shapiq, explanation = imported("Interactions.to_shapiq"), interactions.shapley
    row, k = _place(explanation, row, output)
    count = int(explanation.counts[row])
    found = interactions.values[row, :count, :count, k]
    error = interactions.standard_error[row, :count, :count, k]
    pairs = [(i, j) for i in range(count) for j in range(i, count)]
    values: Terms = {(i, j) if i < j else (i,): found[i, j].item() for i, j in pairs}
    return _values(shapiq, explanation, (row, k), interactions.index, values, error)


def _place(explanation: "Explanation", row: int, output: Output) -> tuple[int, int]:
    """The positions of a row and of an output."""
    rows = len(explanation.phi)
    row = check_whole("row", row, -rows, rows - 1) % rows
    return row, output_position("output", output, explanation.outputs)


def _values(
    shapiq: Any,
    explanation: "Explanation",
    place: tuple[int, int],
    index: str,
    values: Terms,
    error: Tensor,
) -> "shapiq.InteractionValues":
    base, budget = explanation.base[place].item(), explanation.made_by.get("evaluations")
    if budget is not None:
        # Of all rows together, which have as many each only where they have as many players.
        budget = None if explanation.players.by_row else round(budget / len(explanation.phi))
    return shapiq.InteractionValues(
        {(): base, **values},
        index=index,
        max_order=max(map(len, values)),
        min_order=0,
        n_players=sum(len(players) == 1 for players in values),
        # Where errors are not known they are not zero.
        estimated=not bool((error == 0).all()),
        estimation_budget=budget,
        baseline_value=base,
    )
