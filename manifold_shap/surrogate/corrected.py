"""Corrects a surrogate by the model's own prediction of one completed row.

A network learns a sharp model, such as boosted trees, only roughly, and where most of a row is
known that is most of its error. The model itself is exact there: with x' a completion of x_S,

    v(S) = g(x_S) + w_|S| (T(f(x')) - g(x')),

what f has and g lacks at x' is added. It is certain where x' is all but known, and noise where much
of it is drawn; so the weights w, one for each size of coalition, are fitted to held-out rows. This
is the difference estimator of survey sampling (Särndal et al. 1992, Section 6.3), g its auxiliary.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from manifold_shap import _random
from manifold_shap._checks import check_rows, check_seed
from manifold_shap.coalitions import SizeUniform
from manifold_shap.imputers import Imputer
from manifold_shap.surrogate.value import SurrogateValue
from manifold_shap.tables.rows import rows_of
from manifold_shap.values.model import ModelValue

# Coalitions of each held-out row by which the weights are fitted, and rows at a time.
_COALITIONS = 32
_ROWS = 256


class CorrectedValue(ModelValue):
    """v(S) = g(x_S) + w_|S| (T(f(x')) - g(x')): two calls of the network and one of the model.

    `correct_surrogate` makes one.

    Attributes:
        surrogate: the value function g.
        imputer: draws x' given x_S, once for each coalition.
        weights: w of the coalitions with 0, 1, ... players, between 0 and 1.
        seed: of the draws.
    """

    name = "corrected_surrogate"
    sampled = True

    def __init__(
        self,
        surrogate: SurrogateValue,
        imputer: Imputer,
        weights: Float[Tensor, " sizes"],
        seed: int = 0,
    ) -> None:
        base = surrogate.expectation
        super().__init__(surrogate.model, surrogate.players, surrogate.space, base)
        self.surrogate, self.imputer, self.weights = surrogate, imputer, weights
        self.schema, self.seed = surrogate.schema, check_seed(seed)

    @property
    def provenance(self) -> dict[str, Any]:
        drawn = {"corrected_by": self.imputer.name, "draws_seed": self.seed}
        return {**super().provenance, **drawn, **self.imputer.provenance}

    def to(self, device: torch.device | str) -> "CorrectedValue":
        super().to(device)
        self.surrogate.to(device)
        self.imputer.to(device)
        self.weights = self.weights.to(device)
        return self

    def values(self, x: Tensor, mask: Tensor, keys: Tensor) -> Tensor:
        learned, missed = self.parts(x, mask, keys)
        return learned + self.weights[mask.sum(-1), None] * missed

    def parts(
        self,
        x: Float[Tensor, "batch *event"],
        mask: Bool[Tensor, "batch m players"],
        keys: Int64[Tensor, "batch m"],
    ) -> tuple[Float[Tensor, "batch m outputs"], Float[Tensor, "batch m outputs"]]:
        """g(x_S), and T(f(x')) - g(x')."""
        own = _random.fold(keys, self.seed)
        rows = self.imputer.sample(x, mask, range(1), own).flatten(0, 2)
        known = torch.ones(len(rows), 1, len(self.players), dtype=torch.bool, device=rows.device)
        learned = self.surrogate.values(rows, known, keys.reshape(-1, 1))[:, 0]
        missed = self.space(self.model(rows, scale=self.space.takes)).float() - learned
        return self.surrogate.values(x, mask, keys), missed.unflatten(0, mask.shape[:2])


def correct_surrogate(
    surrogate: Any, imputer: Any, x_validation: Any, seed: int = 0
) -> CorrectedValue:
    """Correct a surrogate by its model at one completed row of each coalition.

    It pays where the network has learned the model roughly, of the order of a single call of the
    model instead of the dozens of an imputed value function.

    Args:
        surrogate: of `fit_surrogate`, best with a teacher: then the network has learned f itself.
        imputer: completes rows, for the same players.
        x_validation: rows `[rows, *event]`, or a frame, that neither was trained on.
        seed: of the coalitions that the weights are fitted to, and of the draws.

    Raises:
        TypeError, ValueError: no surrogate, no imputer or another one's players, or rows that are
            not finite or of another shape.

    >>> from manifold_shap import GaussianImputer, fit_surrogate
    >>> x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    >>> few = {"max_epochs": 1, "trainer": {"accelerator": "cpu", "limit_train_batches": 5}}
    >>> surrogate = fit_surrogate(lambda x: x[:, :2].softmax(-1), x, hidden=[8], **few)
    >>> value = correct_surrogate(surrogate, GaussianImputer(x), x)
    >>> value(x[:1], torch.tensor([[[True, False, True]]])).shape
    torch.Size([1, 1, 2])
    """
    for name, given, kind in (
        ("surrogate", surrogate, SurrogateValue),
        ("imputer", imputer, Imputer),
    ):
        if not isinstance(given, kind):
            raise TypeError(
                f"Expected `{name}` to be one of class {kind.__name__} but got "
                f"{type(given).__name__}; see `ms.correct_surrogate`."
            )
    players = surrogate.players
    theirs = imputer.players
    if theirs.names != players.names or not torch.equal(theirs.index, players.index):
        raise ValueError(
            f"Expected `imputer` to have the surrogate's {len(players)} players "
            f"{players.names[:5]} but it has {len(theirs)}, {theirs.names[:5]}, or they own other "
            "elements; give the same `players` to both."
        )
    x = check_rows(rows_of(x_validation, surrogate.schema), players, "x_validation")
    value = CorrectedValue(surrogate, imputer, torch.zeros(len(players) + 1), seed)
    value.weights = _fitted_weights(value, x.to(value.device), seed)
    return value


@torch.no_grad()
def _fitted_weights(
    value: CorrectedValue, x: Float[Tensor, "rows *event"], seed: int
) -> Float[Tensor, " sizes"]:
    """The weights of least squared error to T(f(x)), each by the coalitions of its size."""
    generator = torch.Generator().manual_seed(seed)
    mask = SizeUniform(len(value.players)).sample((len(x), _COALITIONS), generator)
    keys = torch.arange(mask[..., 0].numel()).reshape(mask.shape[:2])
    products = torch.zeros(2, len(value.players) + 1, dtype=torch.float64)
    for some in torch.arange(len(x)).split(_ROWS):
        own = mask[some].to(x.device)
        learned, missed = value.parts(x[some], own, keys[some].to(x.device))
        wanted = value.prediction(x[some])[:, None] - learned
        pair = torch.stack(((wanted * missed).sum(-1), missed.square().sum(-1))).flatten(1)
        products.index_add_(1, mask[some].sum(-1).flatten(), pair.cpu().double())
    weights = products[0] / products[1].clamp(min=torch.finfo(torch.float64).tiny)
    return weights.clamp(0, 1).float().to(x.device)
