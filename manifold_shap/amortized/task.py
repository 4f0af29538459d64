"""Defines what an amortised explainer learns, and by which network."""

import copy
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap._messages import check_choice
from manifold_shap.amortized.network import AmortizedNetwork
from manifold_shap.amortized.perceptron import AmortizedPerceptron
from manifold_shap.amortized.transformer import AmortizedTransformer
from manifold_shap.io.files import digest
from manifold_shap.nn import options_given
from manifold_shap.surrogate.game import GameShape
from manifold_shap.surrogate.network import SurrogateNetwork
from manifold_shap.surrogate.perceptron import Perceptron
from manifold_shap.training.task import Task

# The kinds of networks by name.
KINDS: dict[str, type[AmortizedNetwork]] = {
    "mlp": AmortizedPerceptron,
    "transformer": AmortizedTransformer,
}


def network_settings(
    surrogate: SurrogateNetwork, network: str | None, options: Mapping[str, Any], x: Tensor
) -> dict[str, Any]:
    """Settings of the network of an explainer, as plain data: its kind, the game, its arguments.

    Args:
        surrogate: the network to explain.
        network: one of `KINDS`; None for what suits the surrogate.
        options: of the network, None for the usual ones; and `chosen`, numbers of the outputs that
            are learned, where these are not all.
        x: training rows, as the surrogate sees them.

    Raises:
        ValueError: an option that this kind does not have, or a kind that does not suit.
    """
    if network is None:
        network = "mlp" if isinstance(surrogate, Perceptron) else "transformer"
    kind = KINDS[check_choice("network", network, tuple(KINDS))]
    own = kind.settings_for(surrogate, x)
    if options.get("chosen") is not None and not kind.takes_some_outputs:
        raise ValueError(
            f"Expected all outputs for the network {network!r}, whose passes share the layers of "
            "the surrogate, but got some of them; leave `outputs` out, and choose among those of "
            "`explain`."
        )
    given = options_given(kind, network, options)
    return {"kind": network, "game": asdict(surrogate.game), **own, **given}


class AmortizedTask(Task):
    """An amortised explainer, by the loss of its network; see `AmortizedNetwork.loss`.

    Batches are `(x, v(N) - v(∅), v(∅))`. The surrogate itself is given by `describe`.

    Settings: `network`, see `network_settings`; `surrogate`, the `fingerprint` of the one that it
    is trained for; and the options of the training.
    """

    kind = "explainer"

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        own = dict(self.settings["network"])
        kind, game = KINDS[own.pop("kind")], GameShape(**own.pop("game"))
        self.explainer = kind(game, **own)
        # In a tuple the surrogate is not a submodule, which would be trained and saved.
        self._unregistered: tuple[SurrogateNetwork, ...] = ()

    @torch.no_grad()
    def describe(self, surrogate: SurrogateNetwork, change: Tensor) -> None:
        """Take the surrogate, and v(N) - v(∅) of training rows."""
        # A copy: the caller may continue to use the surrogate on its device, or to train it.
        self._unregistered = (copy.deepcopy(surrogate).eval().requires_grad_(False),)
        self.explainer.start(surrogate, change)

    @property
    def _surrogate(self) -> SurrogateNetwork:
        (surrogate,) = self._unregistered
        return surrogate.to(self.explainer.scale.device)

    def loss(
        self, batch: tuple[Tensor, ...], generator: torch.Generator
    ) -> Float[Tensor, " batch"]:
        x, change, base = batch
        return self.explainer.loss(self._surrogate, x, change, base, generator)


def fingerprint(surrogate: SurrogateNetwork) -> str:
    """A checksum of the weights and scales of a surrogate, by which to recognise it."""
    return digest(*(each for _, each in sorted(surrogate.state_dict().items())))
