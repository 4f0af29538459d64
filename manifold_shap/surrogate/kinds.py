"""Says which networks a surrogate may have, and checks what they give."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from manifold_shap.models import Model
from manifold_shap.models.outputs import check_outputs
from manifold_shap.nn import options_given
from manifold_shap.spaces import OutputSpace
from manifold_shap.surrogate.adapted import AdaptedModel, OwnNetwork
from manifold_shap.surrogate.convolution import Convolution
from manifold_shap.surrogate.network import SurrogateNetwork
from manifold_shap.surrogate.perceptron import Perceptron
from manifold_shap.surrogate.transformer import Transformer

# The kinds of networks by name: "own" is a module of the user's, which is not called by a name.
KINDS: dict[str, type[SurrogateNetwork]] = {
    "mlp": Perceptron,
    "conv": Convolution,
    "transformer": Transformer,
    "model": AdaptedModel,
    "own": OwnNetwork,
}
NAMED = tuple(name for name in KINDS if name != "own")


def network_settings(
    kind: str,
    options: Mapping[str, Any],
    rows: Sequence[Tensor],
    model: Model,
    space: OutputSpace,
    drawn: bool = False,
) -> dict[str, Any]:
    """The kind of a network, and its arguments, as plain data.

    Args:
        kind: one of `KINDS`.
        options: `hidden`, `activation`, `patch`, `vocabulary` and `layer`; None for the usual ones
            of this kind.
        rows, model, space, drawn: see `SurrogateNetwork.settings_for`.

    Raises:
        ValueError: an option that this kind does not have; rows that are no tokens.
    """
    given = options_given(KINDS[kind], kind, options)
    return {"kind": kind, **KINDS[kind].settings_for(rows, model, space, drawn), **given}


@torch.no_grad()
def check_network(network: SurrogateNetwork, x: Tensor) -> None:
    """Raise ValueError unless a network gives finite outputs and, on the simplex, distributions.

    Args:
        network: to be asked about coalitions of half of the players, and about all of them.
        x: a few rows, as it sees them.
    """
    half = torch.arange(network.players) % 2 == 0
    mask = torch.stack((half, torch.ones_like(half))).expand(len(x), 2, -1)
    found = network.eval()(x, mask).flatten(0, 1)
    network.train()
    try:
        check_outputs(found, "probabilities" if network.game.on_simplex else "values")
    except ValueError as error:
        raise ValueError(
            str(error).replace("model(x)", "network(x, mask)").replace("the model", "`network`")
        ) from error
