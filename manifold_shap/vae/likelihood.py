"""Defines products of per-element distributions: log p(x_S|z) of any S is a matrix product.

Every family of `distributions` is exponential: log p(x_e | z) = Σ_f t_f(x_e) η_f(z). So
log p(x_S | z) is the statistics t of x, those outside S set to zero, times the coefficients η of z:
one matrix product serves thousands of coalitions and thousands of codes.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from manifold_shap.vae.distributions import Family, family_of


class Likelihood(nn.Module):
    """p(x | z) = Π_e p(x_e | z), with a family for each element of a row.

    Args:
        families: name and arguments of each family, e.g. `[["Bernoulli", [0, 1, 2]]]`; see
            `choose_families`.

    Attributes:
        plain: these names and arguments, from which the same families come.
    """

    parameter_of: Tensor
    statistic_of: Tensor
    feature_of: Tensor

    def __init__(self, families: Sequence[Sequence[Any]]) -> None:
        super().__init__()
        self.plain = families
        made = [family_of(family) for family in families]
        self.families = nn.ModuleList(made)
        owners = {
            "parameter_of": [family.parameter_of for family in made],
            "statistic_of": [family.statistic_of for family in made],
            "feature_of": [family.feature_of for family in made],
        }
        for name, own in owners.items():
            self.register_buffer(name, torch.tensor([*chain(*own)]), persistent=False)
        self.elements = sum(len(family.elements) for family in made)
        self._parameters_wide = [len(family.parameter_of) for family in made]
        self._statistics_wide = [len(family.statistic_of) for family in made]

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
        """The distribution with these parameters; `parameter_of` names the element of each."""
        parts = raw.split(self._parameters_wide, dim=-1)
        pairs = zip(self._each(), parts, strict=True)
        eta = torch.cat([family.coefficients(part) for family, part in pairs], dim=-1)
        return Product(self, eta)

    def typical(self, mean: Float[Tensor, "*batch elements"]) -> Float[Tensor, "*batch elements"]:
        """Rows that there may be, closest to expected ones: whole categories, not shares."""
        rows = torch.empty_like(mean)
        for family in self._each():
            family.put(family.typical(family.own(mean)), rows)
        return rows

    def _each(self) -> list[Any]:
        return list(self.families)

    def _by_element(
        self, eta: Tensor, of: Callable[[Family, Tensor], Tensor], batch: Sequence[int]
    ) -> Tensor:
        elements = eta.new_empty(*batch, self.elements)
        for family, part in zip(
            self._each(), eta.split(self._statistics_wide, dim=-1), strict=True
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
