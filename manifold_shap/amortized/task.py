"""Defines what an amortised explainer learns."""

import copy
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from manifold_shap.amortized.kinds import make_network
from manifold_shap.surrogate.network import SurrogateNetwork
from manifold_shap.training.task import Task

_NUMBERS = 64


class AmortizedTask(Task):
    """An amortised explainer, by the loss of its network; see `AmortizedNetwork.loss`.

    Batches are `(x, v(N) - v(∅), v(∅))`. The surrogate itself is given by `describe`.

    Settings: `network`, see `kinds.make_network`, and the options of the training.
    """

    kind = "explainer"
    probe: Tensor

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        self.explainer = make_network(self.settings["network"])
        # Recognises the surrogate that it was trained for.
        self.register_buffer("probe", torch.zeros(_NUMBERS))
        # In a tuple the surrogate is not a submodule, which would be trained and saved.
        self._unregistered: tuple[SurrogateNetwork, ...] = ()

    @torch.no_grad()
    def describe(self, surrogate: SurrogateNetwork, change: Tensor) -> None:
        """Take the surrogate, and v(N) - v(∅) of training rows."""
        # A copy: the caller may continue to use the surrogate on its device, or to train it.
        surrogate = copy.deepcopy(surrogate).eval().requires_grad_(False)
        self._unregistered = (surrogate,)
        self.probe.copy_(fingerprint(surrogate))
        self.explainer.start(surrogate, change)

    @property
    def _surrogate(self) -> SurrogateNetwork:
        (surrogate,) = self._unregistered
        return surrogate.to(self.probe.device)

    def loss(
        self, batch: tuple[Tensor, ...], generator: torch.Generator
    ) -> Float[Tensor, " batch"]:
        x, change, base = batch
        return self.explainer.loss(self._surrogate, x, change, base, generator)


@torch.no_grad()
def fingerprint(surrogate: SurrogateNetwork) -> Float[Tensor, " numbers"]:
    """Sums of weights and scales, by which to recognise a surrogate."""
    parts = (each.float().flatten() for each in surrogate.state_dict().values())
    folded = [F.pad(each, (0, -len(each) % _NUMBERS)).reshape(-1, _NUMBERS) for each in parts]
    return sum((each.mean(0) for each in folded), torch.zeros(_NUMBERS, device=folded[0].device))
