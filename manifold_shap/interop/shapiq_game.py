"""Hands a value function to shapiq as a game, for its other indices and its plots."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from manifold_shap._checks import check_seed
from manifold_shap.coalitions import Listed
from manifold_shap.estimators.evaluator import Evaluator
from manifold_shap.interop.shapiq_values import imported
from manifold_shap.values.selected import output_position
from manifold_shap.values.wrapped import as_value_function

if TYPE_CHECKING:
    import shapiq


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
    base_class: Any = imported("to_shapiq").Game
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
            inner = mask[(size > 0) & (size < mask.shape[1])]
            if len(inner):
                found = game.evaluate(torch.tensor([0]), Listed(inner[None], keys))
                values[(size > 0) & (size < mask.shape[1])] = found[0, :, 0].double()
            return values.cpu().numpy()

    return RowGame(len(game.players), normalize=False, player_names=list(game.players.names))
