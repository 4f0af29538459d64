"""Reads an explanation in log-ratio coordinates as Shapley compositions on the simplex."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap.simplex import compositions, geometry
from manifold_shap.simplex.partition import Partition, Tree

if TYPE_CHECKING:
    import pandas as pd

Explained = TypeVar("Explained", bound="OnSimplex")


class OnSimplex:
    """What an explanation offers where its outputs are log-ratio coordinates of probabilities.

    Attributes:
        phi, standard_error, base, prediction, covariance, partition, outputs, space: see
            `Explanation`.
    """

    phi: Tensor
    standard_error: Tensor
    base: Tensor
    prediction: Tensor
    covariance: Tensor | None
    partition: Partition | None
    outputs: tuple[str, ...]
    space: Any

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes that `phi` has log-ratios of.

        Raises:
            ValueError: the output space is not `ilr`; so for all that follows here.
        """
        return self._on_simplex().classes

    @property
    def basis(self) -> Float[Tensor, "outputs classes"]:
        """Of the log-ratio coordinates: orthonormal rows that sum to zero, float64."""
        return self._on_simplex().basis

    def compositions(self) -> Float[Tensor, "instances players classes"]:
        """Shapley compositions, points of the simplex (Noé et al. 2024, Eq. 10): `ilr_inv(phi)`.

        The uniform one moves nothing; a row's compositions perturb the base to the prediction.
        """
        return geometry.ilr_inv(self.phi, self.basis).exp()

    def norms(self) -> Float[Tensor, "instances players"]:
        """How strongly each player moves the prediction, whatever the direction."""
        self._on_simplex()
        return compositions.norms(self.phi)

    def norm_errors(self) -> Float[Tensor, "instances players"]:
        """Standard errors of the norms; NaN where they are not known."""
        self._on_simplex()
        if self.covariance is None:
            return self._exact_or_nan()[..., 0]
        return compositions.norm_errors(self.phi, self.covariance)

    def cosines(self) -> Float[Tensor, "instances players players"]:
        """Of the angles between players' compositions; NaN for one that moves nothing."""
        self._on_simplex()
        return compositions.cosines(self.phi)

    def projections(self) -> Float[Tensor, "instances players classes"]:
        """On the class-compositions (Noé et al., Eq. 26): in favour of, or against, which class."""
        return compositions.projections(self.phi, self.basis)

    def summarize(self, instance: int = 0, most: int = 10) -> "pd.DataFrame":
        """Norms, projections and cosines of one row's players, the largest norm first.

        Columns: `norm` with its `standard_error` (to first order), `on <class>` for the projection
        on each class-composition, `cosine with <player>` (Noé et al. 2024, Section 6.3).

        Args:
            instance: position of the row.
            most: players to list.
        """
        self._on_simplex()
        return compositions.summary(self, instance, most)  # type: ignore[arg-type]

    def in_basis(self: Explained, partition: Partition | Tree) -> Explained:
        """The same explanation in the log-ratio coordinates of another partition of the classes.

        A rotation: compositions, norms and angles stay what they are. Standard errors stay known
        where they are zero, or where `covariance` is.

        Args:
            partition: a `Partition`, or nested pairs of class names such as `[["a", "b"], "c"]`.

        Raises:
            ValueError: the output space is not `ilr`, or these are other classes.
        """
        own = self._on_simplex()
        if not isinstance(partition, Partition):
            partition = Partition.of_tree(partition, own.classes)
        partition = partition.aligned(own.classes)
        if partition == own:
            return self
        turn = own.rotation(partition).to(self.phi)
        covariance = None if self.covariance is None else turn @ self.covariance @ turn.T
        # A dataclass inherits this.
        return replace(  # type: ignore[type-var]
            self,
            phi=self.phi @ turn.T,
            standard_error=self._exact_or_nan() if covariance is None else _root(covariance),
            covariance=covariance,
            base=self.base @ turn.T,
            prediction=self.prediction @ turn.T,
            outputs=partition.names,
            partition=partition,
        )

    def _exact_or_nan(self) -> Float[Tensor, "instances players outputs"]:
        """Errors where the covariance between outputs is not known."""
        exact = (self.standard_error == 0).all(-1, keepdim=True)
        return torch.where(exact, 0.0, torch.nan).expand_as(self.phi).clone()

    def _on_simplex(self) -> Partition:
        if self.partition is None:
            raise ValueError(
                "Expected an explanation with output='ilr' but this one is in "
                f"{self.space.name!r}; make the value function with output='ilr'."
            )
        return self.partition


def _root(
    covariance: Float[Tensor, "instances players outputs outputs"],
) -> Float[Tensor, "instances players outputs"]:
    return covariance.diagonal(dim1=-2, dim2=-1).clamp(min=0).sqrt()
