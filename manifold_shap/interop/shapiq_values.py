"""Hands games, Shapley values and interactions of a row to shapiq, for its indices and plots."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from manifold_shap._checks import check_seed, check_whole
from manifold_shap.coalitions import Listed
from manifold_shap.estimators.evaluator import Evaluator
from manifold_shap.values.selected import Output, output_position
from manifold_shap.values.wrapped import as_value_function

if TYPE_CHECKING:
    import shapiq

    from manifold_shap.explanation import Explanation
    from manifold_shap.interactions import Interactions


def to_shapiq(
    value: Any, x: Any, output: str | int, *, seed: int = 0, batch_size: int | None = None
) -> "shapiq.Game":
    """The coalitions of one row and their values of one output, as a `shapiq.Game`.

    It is what approximators and exact computations of shapiq take, of which a game has players with
    names and one output (install `manifold_shap[shapiq]`). Its values are v(S), that of the empty
    coalition being the base. All coalitions of a sampled value function share their random numbers,
    so that a coalition has one value.

        >>> import manifold_shap as ms
        >>> product = lambda x, mask: torch.where(mask, x[:, None], 0.0).prod(-1, keepdim=True)
        >>> game = ms.interop.to_shapiq(product, torch.tensor([[2.0, 3.0]]), output=0)
        >>> game.exact_values("k-SII", 2).get_n_order_values(2)
        array([[0., 6.],
               [6., 0.]])

    Args:
        value: a `ValueFunction`, or a callable; see `as_value_function`.
        x: the row, `[1, *event]`, or a frame of one.
        output: name or position of the output.
        seed: of a sampled value function's draws.
        batch_size: model rows per call; changes memory and time, not the numbers.

    Raises:
        ImportError: shapiq is not installed.
        ValueError: not one row, or no such output.
    """
    import shapiq

    base_class: Any = shapiq.Game
    value, seed = as_value_function(value, x), check_seed(seed)
    chosen = value.outputs[output_position("output", output, value.outputs)]
    game = Evaluator(value.select([chosen]), value.rows(x), None, batch_size, progress=False)
    if len(game.x) != 1:
        raise ValueError(
            f"Expected one row, of which a game of shapiq is, but got {len(game.x)}; pass for "
            "example `x[:1]`."
        )
    keys, (base, prediction) = game.keys(seed)[:, None], (game.base[0, 0], game.prediction[0, 0])

    class RowGame(base_class):
        def value_function(self, coalitions: np.ndarray) -> np.ndarray:
            mask = torch.tensor(np.array(coalitions, dtype=bool), device=game.device)
            size = mask.sum(1)
            values = torch.where(size == 0, base, prediction).double()
            inner = (size > 0) & (size < mask.shape[1])
            if bool(inner.any()):
                found = game.evaluate(torch.tensor([0]), Listed(mask[inner][None], keys))
                values[inner] = found[0, :, 0].double()
            return values.cpu().numpy()

    return RowGame(len(game.players), normalize=False, player_names=list(game.players.names))


def interaction_values(
    explanation: "Explanation", row: int, output: Output, pairs: "Interactions | None" = None
) -> "shapiq.InteractionValues":
    """Shapley values of a row and an output, or interactions of its pairs; see `to_shapiq` there.

    >>> from manifold_shap import exact_shapley
    >>> def value(x, mask):
    ...     return (x[:, None] * mask).sum(-1, keepdim=True)
    >>> found = interaction_values(exact_shapley(value, torch.tensor([[1.0, 2.0]])), 0, "0")
    >>> found.index, found.get_n_order_values(1)
    ('SV', array([1., 2.]))
    """
    import shapiq

    rows = len(explanation)
    row = check_whole("row", row, -rows, rows - 1) % rows
    k = output_position("output", output, explanation.outputs)
    count = int(explanation.counts[row])
    if pairs is None:
        phi, error = (
            each[row, :count, k] for each in (explanation.phi, explanation.standard_error)
        )
        values: dict[Any, float] = {(i,): own for i, own in enumerate(phi.tolist())}
    else:
        found, error = (
            each[row, :count, :count, k] for each in (pairs.values, pairs.standard_error)
        )
        of_pairs = found.tolist()
        values = {
            (i, j) if i < j else (i,): of_pairs[i][j] for i in range(count) for j in range(i, count)
        }
    base, budget = explanation.base[row, k].item(), explanation.made_by.get("evaluations")
    if budget is not None:
        # Of all rows together, which have as many each only where they have as many players.
        budget = None if explanation.players.by_row else round(budget / rows)
    return shapiq.InteractionValues(
        {(): base, **values},
        index="SV" if pairs is None else pairs.index,
        max_order=1 if pairs is None or count < 2 else 2,
        min_order=0,
        n_players=count,
        # Where errors are not known they are not zero.
        estimated=not bool((error == 0).all()),
        estimation_budget=budget,
        baseline_value=base,
    )
