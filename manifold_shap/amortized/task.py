"""Defines what an amortised explainer learns."""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap.amortized.kinds import make_network
from manifold_shap.io.files import digest
from manifold_shap.surrogate.network import SurrogateNetwork
from manifold_shap.training.task import Task


class AmortizedTask(Task):
    """An amortised explainer, by the loss of its network; see `AmortizedNetwork.loss`.

    Batches are `(x, v(N) - v(∅), v(∅))`. The surrogate itself is given by `describe`.

    Settings: `network`, see `kinds.make_network`; `surrogate`, the `fingerprint` of the one that it
    is trained for; and the options of the training.
    """

    kind = "explainer"

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        self.explainer = make_network(self.settings["network"])
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
