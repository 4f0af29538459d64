"""Gaussian mixtures as laws: posteriors of the components and conditional draws in closed form."""

import math
from typing import Any

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor, nn
from torch.distributions import Categorical, MixtureSameFamily, MultivariateNormal

from manifold_shap import _random
from manifold_shap.coalitions import distinct_coalitions
from manifold_shap.imputers.gaussian import factorised
from manifold_shap.oracles.base import ConditionalLaw, Drawn, Keys, Mask, Posterior, Rows
from manifold_shap.players import Players


class GaussianMixture(ConditionalLaw):
    """X ~ N(μ_k, Σ_k) with probability π_k; the label is the component k.

    Given x_S the components have posterior probabilities π_k N(x_S; μ_kS, Σ_kSS), up to their sum,
    and the absent elements of each are normal. One component is the multivariate normal.

        >>> law = GaussianMixture([0.5, 0.5], [[0.0, 0.0], [2.0, 2.0]], [torch.eye(2)] * 2)
        >>> x = torch.tensor([[1.0, 2.0]])
        >>> mask = torch.tensor([[[True, False], [True, True]]])
        >>> law.posterior(x, mask)[0, :, 1]
        tensor([0.5000, 0.8808], dtype=torch.float64)
        >>> law.complete(x, mask, draws=3).shape
        torch.Size([1, 2, 3, 2])

    Attributes:
        weights, means, covariances: as the arguments, in float64.

    Args:
        weights: π, positive; they are divided by their sum.
        means: μ, `[components, elements]`.
        covariances: Σ, `[components, elements, elements]`, positive definite.

    Raises:
        ValueError: arguments of shapes that do not fit together, weights that are not positive, or
            a covariance that is not symmetric and positive definite, as torch.distributions says.
    """

    name = "gaussian_mixture"

    def __init__(self, weights: Any, means: Any, covariances: Any) -> None:
        weights, means, covariances = map(_numbers, (weights, means, covariances))
        normal = MultivariateNormal(means, covariances, validate_args=True)
        MixtureSameFamily(Categorical(weights, validate_args=True), normal, validate_args=True)
        count, elements = means.shape
        super().__init__(Players.of_elements((elements,)))
        self.classes = tuple(map(str, range(count)))
        self.weights = nn.Buffer(weights / weights.sum())
        self.means, self.covariances = nn.Buffer(means), nn.Buffer(covariances)
        self._roots = nn.Buffer(normal.scale_tril)

    @classmethod
    def random(cls, elements: int, components: int = 3, seed: int = 0) -> "GaussianMixture":
        """A mixture that is itself drawn at random: another seed is another law.

        Weights are Dirichlet(4), means normal with standard deviation 1.5, and covariances
        Wishart with elements + 2 degrees of freedom, of mean identity.

        >>> GaussianMixture.random(4).means.shape
        torch.Size([3, 4])
        """
        generator = torch.Generator().manual_seed(seed)
        numbers = torch.randn(components, elements, elements + 2, generator=generator).double()
        means = 1.5 * torch.randn(components, elements, generator=generator).double()
        gamma = -torch.rand(components, 4, generator=generator).double().log().sum(1)
        return cls(gamma, means, numbers @ numbers.mT / numbers.shape[2])

    def posterior(self, x: Rows, mask: Mask) -> Posterior:
        """P(component | x_S), exactly."""
        _, which, factors = self._factors(mask)
        return self._posterior(x, mask, which, factors)

    def draw(self, x: Rows, mask: Mask, draws: range, keys: Keys) -> Drawn:
        """Exact draws: the component first, then its conditional; see `ConditionalLaw.draw`.

        Of component k, x' = x⁰ + Σ_{·S} Σ_SS⁻¹ (x_S - x⁰_S) with x⁰ ~ N(μ, Σ) (Matheron's rule).
        """
        present, which, factors = self._factors(mask)
        upper = self._posterior(x, mask, which, factors).cumsum(-1)
        uniform = _random.uniform(keys, (1 + x.shape[1],), draws)
        share = uniform[..., :1].double() * upper[:, :, None, -1:]
        label = (upper[:, :, None] < share).sum(-1)
        noise = _random.to_normal(uniform[..., 1:]).double().flatten(0, 1)
        rows = torch.zeros_like(noise)
        for k, (mean, covariance, root) in enumerate(
            zip(self.means, self.covariances, self._roots, strict=True)
        ):
            cross = torch.where(present[:, None], covariance, 0)
            regression = torch.cholesky_solve(cross.mT, factors[k]).mT
            known = torch.where(mask, x[:, None] - mean, 0).flatten(0, 1)
            own = regression[which]
            centre = mean + (own @ known[..., None]).squeeze(-1)
            spread = (root - regression @ root)[which]
            drawn = centre[:, None] + noise @ spread.mT
            rows = torch.where((label.flatten(0, 1) == k)[..., None], drawn, rows)
        rows = rows.unflatten(0, mask.shape[:2]).to(x.dtype)
        return Drawn(torch.where(mask[:, :, None], x[:, None, None], rows), label)

    def _factors(
        self, mask: Mask
    ) -> tuple[
        Bool[Tensor, "coalitions elements"],
        Int64[Tensor, " pairs"],
        Float64[Tensor, "components coalitions elements elements"],
    ]:
        """The distinct coalitions, the place of each among them, and Cholesky factors of Σ_SS."""
        present, which = distinct_coalitions(mask.flatten(0, 1))
        return present, which, factorised(self.covariances[:, None], present)

    def _posterior(
        self,
        x: Rows,
        mask: Mask,
        which: Int64[Tensor, " pairs"],
        factors: Float64[Tensor, "components coalitions elements elements"],
    ) -> Float64[Tensor, "batch m components"]:
        """π_k N(x_S; μ_kS, Σ_kSS), divided by their sum."""
        deviation = torch.where(mask[:, :, None], x[:, None, None].double() - self.means, 0)
        deviation = deviation.flatten(0, 1).movedim(1, 0)[..., None]
        white = torch.linalg.solve_triangular(factors[:, which], deviation, upper=False)
        scale = factors.diagonal(dim1=-2, dim2=-1).log().sum(-1)[:, which]
        size = mask.flatten(0, 1).sum(-1).double() * (math.log(2 * math.pi) / 2)
        log_p = -white.square().sum((-2, -1)) / 2 - scale - size + self.weights.log()[:, None]
        return log_p.mT.softmax(-1).unflatten(0, mask.shape[:2])


def _numbers(given: Any) -> Tensor:
    """Numbers of any nesting, in float64."""
    if isinstance(given, list | tuple) and any(isinstance(each, Tensor) for each in given):
        given = torch.stack([torch.as_tensor(each) for each in given])
    return torch.as_tensor(given, dtype=torch.float64)
