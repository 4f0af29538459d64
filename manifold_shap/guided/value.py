"""A value function that a network regresses from one model call and what a mixture makes of x_S."""

from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from manifold_shap.coalitions import Coalitions
from manifold_shap.guided.network import GuidedNetwork
from manifold_shap.imputers.mixture import Mixture
from manifold_shap.models import Model
from manifold_shap.players import Players
from manifold_shap.spaces import OutputSpace
from manifold_shap.tables.rows import codebook_of, encoded
from manifold_shap.tables.schema import Schema
from manifold_shap.training.task import centred
from manifold_shap.values.base import Estimate
from manifold_shap.values.model import ModelValue

if TYPE_CHECKING:
    from manifold_shap.tables.codebook import Codebook


class GuidedValue(ModelValue):
    """v(S) = w T(f(x_S, x̂_{S̄})) + (1 - w) g, one model row a value.

    The guide, a finite mixture, gives E[X | x_S] in closed form, and x̂ as the nearest row that
    there may be. The model at the row that x̂ completes is right where most players are known, trees
    and all, which a network would have to learn. A network chooses w by x_S, E[X | x_S] and that
    answer, and adds an output g.

    `fit_guided` makes one.

    >>> import manifold_shap as ms
    >>> x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    >>> few = {"max_epochs": 1, "trainer": {"accelerator": "cpu", "limit_train_batches": 5}}
    >>> teacher = ms.imputed_value(lambda x: x[:, :2].softmax(-1), ms.MixtureImputer(x), draws=8)
    >>> value = ms.fit_guided(teacher, teacher_pairs=100, hidden=[8], **few)
    >>> value.name, value.draws
    ('guided_surrogate', 1)

    Attributes:
        guide: the mixture.
        network: gives w and g.
        schema: columns of the table that rows come from, if they come from one; with a `Codebook`,
            rows are its codes.
        checkpoint: of the training: tensors and plain data, without the training rows.
        training_record: epochs, seconds and validation error, where it was trained in this process:
            a squared error, off the simplex in mean variances of the target.
    """

    name, cost = "guided_surrogate", "model"  # One call of the model for each value.
    # A call completes rows besides asking the model, so that fewer calls pay.
    batch_size = 65_536

    def __init__(
        self,
        guide: Mixture,
        network: GuidedNetwork,
        model: Model,
        players: Players,
        space: OutputSpace,
        expectation: Tensor,
        *,
        schema: "Schema | Codebook | None" = None,
        checkpoint: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(model, players, space, expectation)
        self.guide, self.network = guide.eval(), network.eval()
        self.schema = schema
        self.checkpoint = checkpoint or {}
        self.training_record: dict[str, Any] = {}

    @property
    def provenance(self) -> dict[str, Any]:
        return {**super().provenance, "components": len(self.guide)}

    def to(self, device: torch.device | str) -> "GuidedValue":
        super().to(device)
        self.guide.to(device)
        self.network.to(device)
        return self

    def values(self, x: Tensor, coalitions: Coalitions) -> Estimate:
        mask = coalitions.masks()
        expected, _, hint = self.hints(x, mask)
        seen = encoded(x, self.schema).flatten(1).repeat_interleave(mask.shape[1], 0)
        parts = (part.flatten(0, 1) for part in (mask, expected, hint))
        return Estimate(self.placed(self.network(seen, *parts).unflatten(0, coalitions.shape)))

    @torch.no_grad()
    def hints(
        self, x: Float[Tensor, "batch *event"], mask: Bool[Tensor, "batch m players"]
    ) -> tuple[
        Float[Tensor, "batch m elements"],
        Float[Tensor, "batch m *event"],
        Float[Tensor, "batch m outputs"],
    ]:
        """E[X | x_S] of the elements, of which the absent ones count; a completed row; its T(f(x)).

        These predictions are differences from `center`. One call of the model, for all rows.
        """
        expected, typical = self.guide.expected(encoded(x, self.schema).flatten(1), mask)
        codebook = codebook_of(self.schema)
        if codebook is not None:
            halves = typical.new_full((*mask.shape[:2], *self.players.event), 0.5)
            typical = codebook.nearest(typical, halves)
        drawn = typical.unflatten(-1, self.players.event)
        completed = torch.where(self.players.expand(mask), x[:, None], drawn)
        predicted = centred(self.prediction(completed.flatten(0, 1)), self.center)
        return expected, completed, predicted.unflatten(0, mask.shape[:2])
