"""Defines products of per-element distributions: log p(x_S|z) of any S is a matrix product.

Every family here is exponential: log p(x_e | z) = Σ_f t_f(x_e) η_f(z), the normaliser being the
coefficient of t = 1. So log p(x_S | z) is the statistics t of x, those outside S set to zero, times
the coefficients η of z: one matrix product serves thousands of coalitions and thousands of codes.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from numpy.polynomial import hermite_e
from torch import Tensor, nn

from manifold_shap._random import to_normal

# Values kept of each quantile bin, evenly spaced in rank.
_KEPT = 32

# Numbers kept of a column, at evenly spaced scores, up to which score before a training, and nodes
# of expectations over them.
_KNOTS, _MOST_SCORE, _NODES = 65, 8.0, 9

# The largest mean and scale of a continuous element, in units of the training rows.
_MOST_UNITS = 100.0


class Family(nn.Module, ABC):
    """An exponential family for some elements of a row.

    Args:
        elements: which of the flattened row's elements.
        parameters, statistics, features: of each element; a network gives the parameters, and
            features are inputs of an encoder.

    Attributes:
        parameter_of, statistic_of, feature_of: the element that each of them belongs to.
    """

    elements: Tensor

    def __init__(
        self, elements: Sequence[int], parameters: int = 1, statistics: int = 1, features: int = 1
    ) -> None:
        super().__init__()
        self._constant("elements", elements)
        # No buffers: a training copies each of these in every step.
        self.parameter_of = [*elements] * parameters
        self.statistic_of = [*elements] * statistics
        self.feature_of = [*elements] * features
        # A range of elements is a view of the row; others are gathered.
        first = min(elements, default=0)
        in_range = list(elements) == list(range(first, first + len(elements)))
        self._range = slice(first, first + len(elements)) if in_range else None

    def own(self, x: Float[Tensor, "*batch elements"]) -> Float[Tensor, "*batch own"]:
        """The elements of this family."""
        return x[..., self.elements if self._range is None else self._range]

    def put(self, own: Float[Tensor, "*batch own"], x: Float[Tensor, "*batch elements"]) -> None:
        """Make these the elements of this family in `x`."""
        x[..., self.elements if self._range is None else self._range] = own

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
    def inverse(self, eta: Float[Tensor, "*batch f"]) -> Float[Tensor, "*batch i"]:
        """What `quantile` needs to know of these distributions, whatever the draw."""

    @abstractmethod
    def quantile(
        self, inverse: Float[Tensor, "*batch i"], u: Float[Tensor, "*batch elements"]
    ) -> Float[Tensor, "*batch own"]:
        """Values of these elements, by the inverse of their distribution functions at `u`."""

    @abstractmethod
    def mean(self, eta: Float[Tensor, "*batch f"]) -> Float[Tensor, "*batch own"]:
        """Expected values of these elements."""


class Normal(Family):
    """Continuous elements in one unit, such as the pixels of a picture: a mean and a scale each.

    Args:
        elements: which.
        least_scale: smallest scale, in units of the training rows. Without a bound, collinear
            columns would drive the likelihood to infinity.
    """

    center: Tensor
    scale: Tensor

    def __init__(self, elements: Sequence[int], least_scale: float = 0.05) -> None:
        super().__init__(elements, parameters=2, statistics=3)
        self.least = math.log(least_scale)
        self.register_buffer("center", torch.zeros(()))
        self.register_buffer("scale", torch.ones(()))

    def describe(self, x: Tensor) -> None:
        own = x[:, self.elements]
        scale = own.std(correction=0)
        self.center.copy_(own.mean())
        self.scale.copy_(torch.where(scale > 0, scale, 1.0))

    def features(self, x: Tensor) -> Tensor:
        """The elements in these units."""
        return (self.own(x) - self.center) / self.scale

    def values(self, features: Float[Tensor, "*batch own"]) -> Float[Tensor, "*batch own"]:
        """Elements of these features."""
        return features * self.scale + self.center

    def statistics(self, x: Tensor) -> Tensor:
        own = self.features(x)
        return torch.cat((own, own.square(), torch.ones_like(own)), dim=-1)

    def coefficients(self, raw: Tensor) -> Tensor:
        mean, rough = raw.chunk(2, dim=-1)
        # Far from all rows a network extrapolates: unbounded, its numbers would overflow.
        mean = mean.clamp(-_MOST_UNITS, _MOST_UNITS)
        log_scale = self.least + F.softplus(rough - self.least)
        log_scale = log_scale.clamp(max=math.log(_MOST_UNITS))
        precision = (-2 * log_scale).exp()
        constant = -mean.square() * precision / 2 - log_scale - math.log(2 * math.pi) / 2
        return torch.cat((mean * precision, -precision / 2, constant), dim=-1)

    def inverse(self, eta: Tensor) -> Tensor:
        linear, square, _ = eta.chunk(3, dim=-1)
        precision = -2 * square
        return torch.cat((linear / precision, precision.rsqrt()), dim=-1)

    def quantile(self, inverse: Tensor, u: Tensor) -> Tensor:
        mean, scale = inverse.chunk(2, dim=-1)
        return self.values(mean + to_normal(self.own(u)) * scale)

    def mean(self, eta: Tensor) -> Tensor:
        linear, square, _ = eta.chunk(3, dim=-1)
        return self.values(linear / (-2 * square))


class Scores(Normal):
    """Columns of numbers by their normal scores: the quantiles of a standard normal distribution.

    Between the quantiles of the training rows numbers are interpolated, and no draw lies beyond
    the smallest and the largest: neither heavy tails nor an outlier decide the unit of a column.

    Args:
        elements, least_scale: see `Normal`; a unit is that of the scores.
    """

    knots: Tensor
    most: Tensor

    def __init__(self, elements: Sequence[int], least_scale: float = 0.05) -> None:
        super().__init__(elements, least_scale)
        # Numbers at evenly spaced scores; before a training they are the scores themselves.
        line = torch.linspace(-_MOST_SCORE, _MOST_SCORE, _KNOTS)
        self.register_buffer("knots", line.repeat(len(elements), 1))
        self.register_buffer("most", torch.tensor(_MOST_SCORE))

    def describe(self, x: Tensor) -> None:
        own = x[:, self.elements].sort(0).values
        rows = len(own)
        self.most.copy_(to_normal(torch.tensor(1 - 0.5 / max(2, rows), dtype=torch.float64)))
        scores = torch.linspace(-1, 1, _KNOTS, dtype=torch.float64) * self.most.double().cpu()
        rank = (torch.special.ndtr(scores) * rows - 0.5).clamp(0, rows - 1).to(x.device)
        low, share = rank.long(), rank.frac().to(x.dtype)[:, None]
        self.knots.copy_(torch.lerp(own[low], own[(low + 1).clamp(max=rows - 1)], share).T)

    def features(self, x: Tensor) -> Tensor:
        """The scores of the elements; of a value that fills a range of scores, the middle."""
        own = self.own(x)
        columns = own.flatten(0, -2).mT.contiguous()
        below, up_to = (
            torch.searchsorted(self.knots, columns, right=right) for right in (False, True)
        )
        low = (below - 1).clamp(0, _KNOTS - 2)
        first, second = (self.knots.gather(1, place) for place in (low, low + 1))
        width = (second - first).clamp(min=torch.finfo(x.dtype).tiny)
        between = low + ((columns - first) / width).clamp(0, 1)
        place = torch.where(below == up_to, between, (below + up_to - 1) / 2)
        return ((place * (2 / (_KNOTS - 1)) - 1) * self.most).mT.reshape(own.shape)

    def values(self, features: Tensor) -> Tensor:
        place = (features / self.most + 1) * ((_KNOTS - 1) / 2)
        place = place.clamp(0, _KNOTS - 1)
        low = place.long().clamp(max=_KNOTS - 2)
        index = low + torch.arange(len(self.knots), device=low.device) * _KNOTS
        return torch.lerp(self.knots.take(index), self.knots.take(index + 1), place - low)

    def mean(self, eta: Tensor) -> Tensor:
        # By the Gauss-Hermite quadrature: the mean of a score is not the score of a mean.
        mean, scale = self.inverse(eta).chunk(2, dim=-1)
        found = torch.zeros_like(mean)
        for node, weight in zip(*hermite_e.hermegauss(_NODES), strict=True):
            found += weight / math.sqrt(2 * math.pi) * self.values(mean + node * scale)
        return found


class Bernoulli(Family):
    """Elements that are 0 or 1."""

    def __init__(self, elements: Sequence[int]) -> None:
        super().__init__(elements, statistics=2)

    def statistics(self, x: Tensor) -> Tensor:
        own = self.own(x)
        return torch.cat((own, torch.ones_like(own)), dim=-1)

    def coefficients(self, raw: Tensor) -> Tensor:
        return torch.cat((raw, -F.softplus(raw)), dim=-1)

    def inverse(self, eta: Tensor) -> Tensor:
        return self.mean(eta)

    def quantile(self, inverse: Tensor, u: Tensor) -> Tensor:
        return (self.own(u) < inverse).to(u.dtype)

    def mean(self, eta: Tensor) -> Tensor:
        return eta.chunk(2, dim=-1)[0].sigmoid()


class Categorical(Family):
    """A one-hot block."""

    def statistics(self, x: Tensor) -> Tensor:
        return self.own(x)

    def coefficients(self, raw: Tensor) -> Tensor:
        return raw.log_softmax(-1)

    def inverse(self, eta: Tensor) -> Tensor:
        return eta.exp().cumsum(-1)

    def quantile(self, inverse: Tensor, u: Tensor) -> Tensor:
        position, _ = _category(inverse, self.own(u)[..., :1])
        return torch.zeros_like(inverse).scatter_(-1, position, 1)

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

    def __init__(self, elements: Sequence[int], edges: Sequence[float]) -> None:
        bins = len(edges) + 1
        super().__init__(elements, bins, bins, bins + 1)
        self.scores = Scores(elements)
        self._constant("edges", edges)
        self.register_buffer("values", torch.zeros(bins, _KEPT))

    def describe(self, x: Tensor) -> None:
        own = x[:, self.elements[0]].sort().values
        begin = torch.searchsorted(own, torch.cat((own[:1], self.edges.to(own.device))))
        end = torch.cat((begin[1:], begin.new_tensor([len(own)])))
        steps = (torch.arange(_KEPT, device=own.device) + 0.5) / _KEPT
        rank = begin[:, None] + ((end - begin)[:, None] * steps).long()
        self.values.copy_(own[rank])
        self.scores.describe(x)

    def features(self, x: Tensor) -> Tensor:
        return torch.cat((self.scores.features(x), self.statistics(x)), dim=-1)

    def statistics(self, x: Tensor) -> Tensor:
        position = torch.searchsorted(self.edges, x[..., self.elements[0]].contiguous(), right=True)
        return F.one_hot(position, len(self.edges) + 1).to(x.dtype)

    def inverse(self, eta: Tensor) -> Tensor:
        probability = eta.exp()
        return torch.cat((probability, probability.cumsum(-1)), dim=-1)

    def quantile(self, inverse: Tensor, u: Tensor) -> Tensor:
        probability, upper = inverse.chunk(2, dim=-1)
        position, wanted = _category(upper, self.own(u))
        own = probability.gather(-1, position)
        # The relative position of u within the bin.
        rest = (wanted - upper.gather(-1, position) + own) / own.clamp(min=1e-12)
        inside = (rest * _KEPT).long().clamp(0, _KEPT - 1)
        return self.values[position, inside]

    def mean(self, eta: Tensor) -> Tensor:
        return (eta.exp() @ self.values.mean(1))[..., None]


class MaybeMissing(Family):
    """A continuous element that may be missing, and its indicator: another element, 1 where it is.

    p(x, i | z) = p(i | z) p(x | z)^(1 - i): the indicator is Bernoulli, and a value that is there
    has a distribution of its own. Where it is missing, all of its statistics are zero, that of its
    normaliser too, and so is the element itself.

    Args:
        value: the family of the value, one element: its name and its arguments.
        indicator: the element that is 1 where the value is missing.
    """

    def __init__(self, value: Sequence[Any], indicator: int) -> None:
        own, missing = family_of(value), Bernoulli([indicator])
        elements = [*own.elements.tolist(), indicator]
        super().__init__(elements)
        self.value, self.missing = own, missing
        self.parameter_of = own.parameter_of + missing.parameter_of
        self.statistic_of = own.statistic_of + missing.statistic_of
        self.feature_of = own.feature_of + missing.feature_of

    def describe(self, x: Tensor) -> None:
        there = x[self.missing.own(x)[:, 0] == 0]
        if len(there):
            self.value.describe(there)

    def features(self, x: Tensor) -> Tensor:
        return self._joint(self.value.features(x), self.missing.features(x), x)

    def statistics(self, x: Tensor) -> Tensor:
        return self._joint(self.value.statistics(x), self.missing.statistics(x), x)

    def coefficients(self, raw: Tensor) -> Tensor:
        own, missing = raw[..., :-1], raw[..., -1:]
        return torch.cat((self.value.coefficients(own), self.missing.coefficients(missing)), dim=-1)

    def inverse(self, eta: Tensor) -> Tensor:
        own, missing = self._parts(eta)
        return torch.cat((self.value.inverse(own), self.missing.inverse(missing)), dim=-1)

    def quantile(self, inverse: Tensor, u: Tensor) -> Tensor:
        indicator = self.missing.quantile(inverse[..., -1:], u)
        own = self.value.quantile(inverse[..., :-1], u)
        return torch.cat((own * (1 - indicator), indicator), dim=-1)

    def mean(self, eta: Tensor) -> Tensor:
        own, missing = self._parts(eta)
        share = self.missing.mean(missing)
        return torch.cat((self.value.mean(own) * (1 - share), share), dim=-1)

    def _joint(self, own: Tensor, missing: Tensor, x: Tensor) -> Tensor:
        return torch.cat((own * (1 - self.missing.own(x)), missing), dim=-1)

    def _parts(self, eta: Tensor) -> tuple[Tensor, Tensor]:
        return eta[..., : len(self.value.statistic_of)], eta[..., len(self.value.statistic_of) :]


_FAMILIES: dict[str, Callable[..., Family]] = {
    kind.__name__: kind for kind in (Normal, Scores, Bernoulli, Categorical, Quantile, MaybeMissing)
}


def family_of(plain: Sequence[Any]) -> Family:
    """A family from its name and its arguments, as `choose_families` writes them.

    >>> family_of(["Bernoulli", [0, 1]]).parameter_of
    [0, 1]
    """
    name, *arguments = plain
    return _FAMILIES[name](*arguments)


def _category(
    upper: Float[Tensor, "*batch w"], u: Float[Tensor, "*batch 1"]
) -> tuple[Int64[Tensor, "*batch 1"], Float[Tensor, "*batch 1"]]:
    """The category at `u` of cumulative probabilities, and `u` on their scale."""
    wanted = u * upper[..., -1:]
    position = torch.searchsorted(upper.contiguous(), wanted.contiguous())
    return position.clamp_(max=upper.shape[-1] - 1), wanted


class Likelihood(nn.Module):
    """p(x | z) = Π_e p(x_e | z), with a family for each element of a row.

    Args:
        families: name and arguments of each family, e.g. `[["Bernoulli", [0, 1, 2]]]`; see
            `choose_families`.
    """

    parameter_of: Tensor
    statistic_of: Tensor
    feature_of: Tensor

    def __init__(self, families: Sequence[Sequence[Any]]) -> None:
        super().__init__()
        made = [family_of(family) for family in families]
        self.families: Any = nn.ModuleList(made)
        for name in ("parameter_of", "statistic_of", "feature_of"):
            owners = [*chain(*(getattr(family, name) for family in made))]
            self.register_buffer(name, torch.tensor(owners), persistent=False)
        self.elements = sum(len(family.elements) for family in made)
        self._parameters_wide = [len(family.parameter_of) for family in made]
        self._statistics_wide = [len(family.statistic_of) for family in made]

    def describe(self, x: Float[Tensor, "rows elements"]) -> None:
        """Take units and values from flattened training rows."""
        for family in self.families:
            family.describe(x)

    def features(self, x: Float[Tensor, "*batch elements"]) -> Float[Tensor, "*batch features"]:
        """Inputs of an encoder; `feature_of` names the element of each."""
        return torch.cat([family.features(x) for family in self.families], dim=-1)

    def statistics(self, x: Float[Tensor, "*batch elements"]) -> Float[Tensor, "*batch f"]:
        """t(x); `statistic_of` names the element of each statistic."""
        return torch.cat([family.statistics(x) for family in self.families], dim=-1)

    def forward(self, raw: Float[Tensor, "*batch parameters"]) -> "Product":
        """The distribution with these parameters; `parameter_of` names the element of each."""
        parts = raw.split(self._parameters_wide, dim=-1)
        pairs = zip(self.families, parts, strict=True)
        eta = torch.cat([family.coefficients(part) for family, part in pairs], dim=-1)
        return Product(self, eta)

    def _by_element(
        self, eta: Tensor, of: Callable[[Family, Tensor], Tensor], batch: Sequence[int]
    ) -> Tensor:
        elements = eta.new_empty(*batch, self.elements)
        for family, part in zip(
            self.families, eta.split(self._statistics_wide, dim=-1), strict=True
        ):
            family.put(of(family, part), elements)
        return elements


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
        batch = self.eta.shape[:-1]
        return self.likelihood._by_element(self.eta, lambda family, eta: family.mean(eta), batch)

    def quantile(
        self,
        u: Float[Tensor, "*draws elements"],
        place: Int64[Tensor, "*draws"] | None = None,
    ) -> Float[Tensor, "*draws elements"]:
        """Draws, from uniform numbers: the inverse distribution function of each element.

        Args:
            u: uniform numbers.
            place: the number of each draw's distribution, where draws share a list of them; by
                default each draw has its own.
        """

        def drawn(family: Family, eta: Tensor) -> Tensor:
            inverse = family.inverse(eta)
            return family.quantile(inverse if place is None else inverse[place], u)

        return self.likelihood._by_element(self.eta, drawn, u.shape[:-1])

    def log_prob(self, statistics: Float[Tensor, "... f"]) -> Float[Tensor, "..."]:
        """log p of rows with these statistics, broadcast; elements with zeros are left out."""
        return (statistics * self.eta).sum(-1)
