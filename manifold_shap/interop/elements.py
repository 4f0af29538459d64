"""Spreads Shapley values of players over the elements of the rows that they own."""

from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

if TYPE_CHECKING:
    from manifold_shap.explanation import Explanation


def by_element(
    explanation: "Explanation", shared: bool
) -> Float[Tensor, "instances *event outputs"]:
    """For every element of a row the Shapley value of its player; zero for padding.

        >>> import manifold_shap as ms
        >>> x = torch.tensor([[1.0, 1.0, 5.0]])
        >>> game = ms.as_value_function(lambda x, mask: (x[:, None] * mask).sum(-1, True), x)
        >>> explanation = ms.exact_shapley(game.grouped([0, 0, 1]), x)
        >>> by_element(explanation, shared=False)[0, :, 0].tolist()
        [2.0, 2.0, 5.0]
        >>> by_element(explanation, shared=True)[0, :, 0].tolist()
        [1.0, 1.0, 5.0]

    Args:
        explanation: of any players.
        shared: whether elements share the value of their player, so that a row sums to what its
            players sum to; otherwise each has all of it.
    """
    phi, event = explanation.phi, explanation.players.event
    own = explanation.owner.flatten(1)
    player = own.clamp(min=0)
    found = phi.gather(1, player[..., None].expand(-1, -1, phi.shape[2]))
    if shared:
        elements = torch.zeros(phi.shape[:2], dtype=phi.dtype)
        elements.scatter_add_(1, player, (own >= 0).to(phi.dtype))
        found = found / elements.gather(1, player).clamp(min=1)[..., None]
    return found.where(own[..., None] >= 0, 0.0).unflatten(1, event)
