"""The outliers of Frye et al. (2021), Section 3.2: rows, and what is known of the unknown."""

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

import manifold_shap as ms
from manifold_shap import _random as noise
from manifold_shap.imputers.base import Completions

FEATURES, BROKEN = 20, 5
ROWS, SHARE = 10_000, 0.01


class Mixture:
    """Eqs. (11) and (12): four normal components of known means and one scale."""

    def __init__(self, sigma: float) -> None:
        opposite = torch.arange(FEATURES) < BROKEN
        z = torch.tensor([0.0, 1.0])[:, None].expand(2, FEATURES)
        self.sigma = sigma
        self.means = torch.cat((z, torch.where(opposite, 1 - z, z)))
        self.log_weights = torch.tensor([1 - SHARE, 1 - SHARE, SHARE, SHARE]).div(2).log()

    def draw(self, seed: int) -> tuple[Float[Tensor, "rows features"], Bool[Tensor, " rows"]]:
        """Rows, and which of them are outliers: exactly a hundredth."""
        generator = torch.Generator().manual_seed(seed)
        outlier = torch.arange(ROWS) < SHARE * ROWS
        component = 2 * outlier + torch.randint(2, (ROWS,), generator=generator)
        x = torch.randn(ROWS, FEATURES, generator=generator)
        return self.means[component] + self.sigma * x, outlier


class TrueConditional(ms.Imputer):
    """p(x'|x_S) of the mixture: a component by what is present, and its own noise."""

    name = "true_conditional"

    def __init__(self, mixture: Mixture, reference: Tensor) -> None:
        super().__init__(reference)
        self.mixture = mixture

    def impute(
        self,
        x: Float[Tensor, "batch features"],
        mask: Bool[Tensor, "batch m features"],
        draws: range,
        keys: Int64[Tensor, "batch m"],
    ) -> Completions:
        """See `Imputer.impute`."""
        mixture = self.mixture
        apart = (x[:, None] - mixture.means).square() / (-2 * mixture.sigma**2)
        weights = (mixture.log_weights + mask.float() @ apart.mT).softmax(-1)
        u = noise.uniform(noise.fold(keys, 0), (), draws)
        component = torch.searchsorted(weights.cumsum(-1), u).clamp(max=3)
        fresh = mixture.sigma * noise.normal(noise.fold(keys, 1), (FEATURES,), draws)
        return Completions(self.splice(x, mask, mixture.means[component] + fresh))
