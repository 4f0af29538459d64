"""Defines products of per-element distributions: log p(x_S|z) of any S is a matrix product.

Every family here is exponential: log p(x_e | z) = Σ_f t_f(x_e) η_f(z), the normaliser being the
coefficient of t = 1. So log p(x_S | z) is the statistics t of x, those outside S set to zero, times
the coefficients η of z: one matrix product serves thousands of coalitions and thousands of codes.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from manifold_shap._random import to_normal

# Values kept of each quantile bin, evenly spaced in rank.
_KEPT = 32


class Family(nn.Module, ABC):
    """An exponential family for some elements of a row.

    Args:
        elements: which of the flattened row's elements.
        parameters: number of parameters that a network gives; by default one for each element.
        statistics, features: of each element; features are inputs of an encoder.

    Attributes:
        statistic_of, feature_of: the element that each statistic, or each feature, belongs to.
    """

    elements: Tensor
    statistic_of: Tensor
    feature_of: Tensor

    def __init__(
        self,
        elements: Sequence[int],
        parameters: int | None = None,
        statistics: int = 1,
        features: int = 1,
    ) -> None:
        super().__init__()
        self.parameters_wide = parameters or len(elements)
        self._constant("elements", elements)
        self._constant("statistic_of", list(elements) * statistics)
        self._constant("feature_of", list(elements) * features)
        # A range of elements is a view of the row; others are gathered.
        first = min(elements, default=0)
        in_range = list(elements) == list(range(first, first + len(elements)))
        self._range = slice(first, first + len(elements)) if in_range else None

    def own(self, x: Float[Tensor, "*batch elements"]) -> Float[Tensor, "*batch own"]:
        """The elements of this family."""
        return x[..., self.elements if self._range is None else self._range]

    def _constant(self, name: str, numbers: Sequence[int] | Sequence[float]) -> None:
        self.register_buffer(name, torch.tensor(list(numbers)), persistent=False)

    def describe(self, x: Float[Tensor, "rows elements"]) -> None:
        """Take units and values from training rows."""

    def features(self, x: Float[Tensor, "*batch elements"]) -> Float[Tensor, "*batch features"]:
        """Inputs of an encoder for these elements."""
        return self.own(x)

    @abstractmethod
    def statistics(self, x: Float[Tensor, "*batch elements"]) -> Float[Tensor, "*batch f"]:
        """t(x)."""

    @abstractmethod
    def coefficients(self, raw: Float[Tensor, "*batch p"]) -> Float[Tensor, "*batch f"]:
        """η, from the parameters that a network gives."""

    @abstractmethod
    def quantile(
        self, eta: Float[Tensor, "*batch f"], u: Float[Tensor, "*batch elements"]
    ) -> Float[Tensor, "*batch own"]:
        """Values of these elements, by the inverse of their distribution functions at `u`."""

    @abstractmethod
    def mean(self, eta: Float[Tensor, "*batch f"]) -> Float[Tensor, "*batch own"]:
        """Expected values of these elements."""


class Normal(Family):
    """Continuous elements, with a mean and a scale each.

    Args:
        elements: which.
        least_scale: smallest scale, in standard deviations of the training rows. Without a bound,
            collinear columns would drive the likelihood to infinity.
        shared_unit: whether all elements have one unit, as the pixels of an image do.
    """

    center: Tensor
    scale: Tensor

    def __init__(
        self, elements: Sequence[int], least_scale: float = 0.05, shared_unit: bool = False
    ) -> None:
        super().__init__(elements, parameters=2 * len(elements), statistics=3)
        self.least, self.shared_unit = math.log(least_scale), shared_unit
        self.register_buffer("center", torch.zeros(len(elements)))
        self.register_buffer("scale", torch.ones(len(elements)))

    def describe(self, x: Tensor) -> None:
        own = x[:, self.elements]
        center, scale = own.mean(0), own.std(0, correction=0)
        if self.shared_unit:
            center, scale = own.mean(), own.std(correction=0)
        self.center.copy_(center.expand_as(self.center))
        self.scale.copy_(torch.where(scale > 0, scale, 1.0).expand_as(self.scale))

    def features(self, x: Tensor) -> Tensor:
        return (self.own(x) - self.center) / self.scale

    def statistics(self, x: Tensor) -> Tensor:
        own = self.features(x)
        return torch.cat((own, own.square(), torch.ones_like(own)), dim=-1)

    def coefficients(self, raw: Tensor) -> Tensor:
        mean, rough = raw.chunk(2, dim=-1)
        log_scale = self.least + F.softplus(rough - self.least)
        precision = (-2 * log_scale).exp()
        constant = -mean.square() * precision / 2 - log_scale - math.log(2 * math.pi) / 2
        return torch.cat((mean * precision, -precision / 2, constant), dim=-1)

    def quantile(self, eta: Tensor, u: Tensor) -> Tensor:
        linear, square, _ = eta.chunk(3, dim=-1)
        precision = -2 * square
        own = linear / precision + to_normal(self.own(u)) * precision.rsqrt()
        return own * self.scale + self.center

    def mean(self, eta: Tensor) -> Tensor:
        linear, square, _ = eta.chunk(3, dim=-1)
        return linear / (-2 * square) * self.scale + self.center


class Bernoulli(Family):
    """Elements that are 0 or 1."""

    def __init__(self, elements: Sequence[int]) -> None:
        super().__init__(elements, statistics=2)

    def statistics(self, x: Tensor) -> Tensor:
        own = self.own(x)
        return torch.cat((own, torch.ones_like(own)), dim=-1)

    def coefficients(self, raw: Tensor) -> Tensor:
        return torch.cat((raw, -F.softplus(raw)), dim=-1)

    def quantile(self, eta: Tensor, u: Tensor) -> Tensor:
        return (self.own(u) < self.mean(eta)).to(u.dtype)

    def mean(self, eta: Tensor) -> Tensor:
        return eta.chunk(2, dim=-1)[0].sigmoid()


class Categorical(Family):
    """A one-hot block."""

    def statistics(self, x: Tensor) -> Tensor:
        return self.own(x)

    def coefficients(self, raw: Tensor) -> Tensor:
        return raw.log_softmax(-1)

    def quantile(self, eta: Tensor, u: Tensor) -> Tensor:
        position, _ = _invert(eta, u[..., self.elements[:1]])
        return F.one_hot(position, eta.shape[-1]).to(u.dtype)

    def mean(self, eta: Tensor) -> Tensor:
        return eta.exp()


class Quantile(Categorical):
    """A continuous element as a category: a bin between two quantiles of the training rows.

    A value that many rows share has a bin of its own. Draws are values that were observed in the
    bin, so that skewed columns with peaks keep their distribution.

    Args:
        elements: one element.
        edges: smallest values of all bins but the first; see `bin_edges`.
    """

    edges: Tensor
    values: Tensor
    center: Tensor
    scale: Tensor

    def __init__(self, elements: Sequence[int], edges: Sequence[float]) -> None:
        bins = len(edges) + 1
        super().__init__(elements, bins, bins, bins + 1)
        self._constant("edges", edges)
        self.register_buffer("values", torch.zeros(bins, _KEPT))
        self.register_buffer("center", torch.zeros(1))
        self.register_buffer("scale", torch.ones(1))

    def describe(self, x: Tensor) -> None:
        own = x[:, self.elements[0]].sort().values
        begin = torch.searchsorted(own, torch.cat((own[:1], self.edges.to(own.device))))
        end = torch.cat((begin[1:], begin.new_tensor([len(own)])))
        steps = (torch.arange(_KEPT, device=own.device) + 0.5) / _KEPT
        rank = begin[:, None] + ((end - begin)[:, None] * steps).long()
        self.values.copy_(own[rank])
        self.center.copy_(own.mean())
        scale = own.std(correction=0)
        self.scale.copy_(torch.where(scale > 0, scale, 1.0))

    def features(self, x: Tensor) -> Tensor:
        own = (x[..., self.elements] - self.center) / self.scale
        return torch.cat((own, self.statistics(x)), dim=-1)

    def statistics(self, x: Tensor) -> Tensor:
        position = torch.searchsorted(self.edges, x[..., self.elements[0]].contiguous(), right=True)
        return F.one_hot(position, len(self.edges) + 1).to(x.dtype)

    def quantile(self, eta: Tensor, u: Tensor) -> Tensor:
        position, rest = _invert(eta, u[..., self.elements])
        inside = (rest * _KEPT).long().clamp(0, _KEPT - 1)
        return self.values[position, inside][..., None]

    def mean(self, eta: Tensor) -> Tensor:
        return (eta.exp() @ self.values.mean(1))[..., None]


def _invert(eta: Tensor, u: Tensor) -> tuple[Int64[Tensor, "*batch"], Float[Tensor, "*batch"]]:
    """The category at `u` (one number per block), and the relative position of `u` within it."""
    probability = eta.exp()
    upper = probability.cumsum(-1)
    u = u * upper[..., -1:]
    position = torch.searchsorted(upper, u.contiguous()).clamp(max=eta.shape[-1] - 1)
    own = probability.gather(-1, position)
    rest = (u - upper.gather(-1, position) + own) / own.clamp(min=1e-12)
    return position.squeeze(-1), rest.squeeze(-1)


class Likelihood(nn.Module):
    """p(x | z) = Π_e p(x_e | z), with a family for each element of a row.

    Args:
        families: name and arguments of each family, e.g. `[["Bernoulli", [0, 1, 2]]]`; see
            `choose_families`.
    """

    statistic_of: Tensor
    feature_of: Tensor
    restored: Tensor

    def __init__(self, families: Sequence[Sequence[Any]]) -> None:
        super().__init__()
        known: dict[str, Callable[..., Family]] = {
            kind.__name__: kind for kind in (Normal, Bernoulli, Categorical, Quantile)
        }
        made = [known[name](*arguments) for name, *arguments in families]
        self.families = nn.ModuleList(made)
        owners = {
            "statistic_of": [family.statistic_of for family in made],
            "feature_of": [family.feature_of for family in made],
        }
        for name, own in owners.items():
            self.register_buffer(name, torch.cat(own), persistent=False)
        order = torch.cat([family.elements for family in made]).argsort()
        self.register_buffer("restored", order, persistent=False)
        self._in_order = order.tolist() == list(range(len(order)))
        self._parameters_wide = [family.parameters_wide for family in made]
        self._statistics_wide = [len(family.statistic_of) for family in made]

    @property
    def parameters_wide(self) -> int:
        """Number of parameters that a network gives."""
        return sum(self._parameters_wide)

    def describe(self, x: Float[Tensor, "rows elements"]) -> None:
        """Take units and values from flattened training rows."""
        for family in self._each():
            family.describe(x)

    def features(self, x: Float[Tensor, "*batch elements"]) -> Float[Tensor, "*batch features"]:
        """Inputs of an encoder; `feature_of` names the element of each."""
        return torch.cat([family.features(x) for family in self._each()], dim=-1)

    def statistics(self, x: Float[Tensor, "*batch elements"]) -> Float[Tensor, "*batch f"]:
        """t(x); `statistic_of` names the element of each statistic."""
        return torch.cat([family.statistics(x) for family in self._each()], dim=-1)

    def forward(self, raw: Float[Tensor, "*batch parameters"]) -> "Product":
        """The distribution with these parameters."""
        parts = raw.split(self._parameters_wide, dim=-1)
        pairs = zip(self._each(), parts, strict=True)
        eta = torch.cat([family.coefficients(part) for family, part in pairs], dim=-1)
        return Product(self, eta)

    def _each(self) -> list[Any]:
        return list(self.families)

    def _by_element(self, eta: Tensor, of: Callable[[Family, Tensor], Tensor]) -> Tensor:
        parts = eta.split(self._statistics_wide, dim=-1)
        pairs = zip(self._each(), parts, strict=True)
        together = torch.cat([of(family, part) for family, part in pairs], dim=-1)
        return together if self._in_order else together[..., self.restored]


class Product:
    """A product of distributions of the elements.

    Attributes:
        eta: coefficients of the statistics, `[*batch, f]`.
    """

    def __init__(self, likelihood: Likelihood, eta: Float[Tensor, "*batch f"]) -> None:
        self.likelihood = likelihood
        self.eta = eta

    @property
    def mean(self) -> Float[Tensor, "*batch elements"]:
        """Expected values; of a one-hot block its probabilities."""
        return self.likelihood._by_element(self.eta, lambda family, eta: family.mean(eta))

    def quantile(self, u: Float[Tensor, "*batch elements"]) -> Float[Tensor, "*batch elements"]:
        """A draw, from uniform numbers: the inverse distribution function of each element."""
        return self.likelihood._by_element(self.eta, lambda family, eta: family.quantile(eta, u))

    def log_prob(self, statistics: Float[Tensor, "... f"]) -> Float[Tensor, "..."]:
        """log p of rows with these statistics, broadcast; elements with zeros are left out."""
        return (statistics * self.eta).sum(-1)
