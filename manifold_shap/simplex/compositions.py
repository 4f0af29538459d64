"""Reads Shapley values in log-ratio coordinates as compositions: norms, angles, projections.

Noé et al. (2024), Sections 5 and 6.3. Norms, cosines and projections do not depend on the basis of
the coordinates.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap.simplex import geometry
from manifold_shap.simplex.partition import Partition, Tree

if TYPE_CHECKING:
    import pandas as pd

Explained = TypeVar("Explained", bound="OnSimplex")

# Where log t is cut off in `norm_errors`, and its steps.
_LOG_T, _STEP = (-13.0, 21.0), 0.6
_TINY = torch.finfo(torch.float64).tiny


class OnSimplex:
    """What an explanation offers where its outputs are log-ratio coordinates of probabilities.

    Attributes:
        phi, standard_error, model_error, base, prediction, covariance, partition, outputs, space,
            made_by: see `Explanation`.
    """

    phi: Tensor
    standard_error: Tensor
    base: Tensor
    prediction: Tensor
    covariance: Tensor | None
    model_error: Tensor | None
    partition: Partition | None
    outputs: tuple[str, ...]
    space: Any
    made_by: Mapping[str, Any]

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
        return self.phi.norm(dim=-1)

    def norm_errors(self) -> Float[Tensor, "instances players"]:
        """Standard errors of the norms; NaN where they are not known, see `in_basis`."""
        self._on_simplex()
        sampling = _exact_or_nan(self.standard_error)[..., 0]
        if self.covariance is not None:
            sampling = norm_errors(self.phi, self.covariance)
        if self.model_error is None:
            return sampling
        return sampling + _exact_or_nan(self.model_error)[..., 0]

    def cosines(self) -> Float[Tensor, "instances players players"]:
        """Of the angles between players' compositions; NaN for one that moves nothing."""
        self._on_simplex()
        return cosines(self.phi)

    def projections(self) -> Float[Tensor, "instances players classes"]:
        """On the class-compositions (Noé et al., Eq. 26): in favour of, or against, which class."""
        return projections(self.phi, self.basis)

    def summarize(self, instance: int = 0, most: int = 10) -> "pd.DataFrame":
        """Norms, projections and cosines of one row's players, the largest norm first.

        Columns: `norm` with its `standard_error`, `on <class>` for the projection
        on each class-composition, `cosine with <player>` (Noé et al. 2024, Section 6.3).

        Args:
            instance: position of the row.
            most: players to list.
        """
        import pandas as pd

        row: Any = self[instance]  # type: ignore[index]
        size, errors, by_class, angles = (
            part[0] for part in (row.norms(), row.norm_errors(), row.projections(), row.cosines())
        )
        names, order = row.players.names, size.argsort(descending=True, stable=True)[:most].tolist()
        columns = {
            "norm": size,
            "standard_error": errors,
            **{f"on {name}": by_class[:, k] for k, name in enumerate(row.classes)},
            **{f"cosine with {names[k]}": angles[:, k] for k in order},
        }
        frame = pd.DataFrame({name: column.numpy() for name, column in columns.items()})
        return frame.set_axis(list(names)).iloc[order].rename_axis("players")

    def in_basis(self: Explained, partition: Partition | Tree) -> Explained:
        """The same explanation in the log-ratio coordinates of another partition of the classes.

        A rotation: compositions, norms and angles stay what they are. Standard errors stay known
        where they are zero, or where `covariance` is; a `model_error` where it is zero, so that
        explanations are put into the basis before they are `averaged`. An audit, which is of the
        coordinates that were, is left behind.

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
        covariance, errors = self.covariance, _exact_or_nan(self.standard_error)
        if covariance is not None:
            covariance = turn @ covariance @ turn.T
            errors = covariance.diagonal(dim1=-2, dim2=-1).clamp(min=0).sqrt()
        # A dataclass inherits this.
        return replace(  # type: ignore[type-var]
            self,
            phi=self.phi @ turn.T,
            standard_error=errors,
            covariance=covariance,
            model_error=None if self.model_error is None else _exact_or_nan(self.model_error),
            made_by={name: each for name, each in self.made_by.items() if name != "audit"},
            base=self.base @ turn.T,
            prediction=self.prediction @ turn.T,
            outputs=partition.names,
            partition=partition,
        )

    def _on_simplex(self) -> Partition:
        if self.partition is None:
            raise ValueError(
                "Expected an explanation with output='ilr' but this one is in "
                f"{self.space.name!r}; make the value function with output='ilr'."
            )
        return self.partition


def _exact_or_nan(
    error: Float[Tensor, "instances players outputs"],
) -> Float[Tensor, "instances players outputs"]:
    """Errors in other coordinates, where the covariance between those that were is not known."""
    exact = (error == 0).all(-1, keepdim=True)
    return torch.where(exact, 0.0, torch.nan).to(error).expand_as(error).clone()


def norm_errors(
    phi: Float[Tensor, "*batch outputs"], covariance: Float[Tensor, "*batch outputs outputs"]
) -> Float[Tensor, "*batch"]:
    """Standard errors of the norms of estimates that are normal around `phi`.

    The squared norm q of φ + ε, ε ~ N(0, Σ), has the mean m = |φ|² + tr Σ and, with the variances λ
    along the eigenvectors of Σ and the coordinates b of φ there, the Laplace transform

        L(t) = E exp(-t q / m) = Π (1 + 2tλ/m)^(-1/2) exp(-t b²/m / (1 + 2tλ/m)).

    Since √q = ∫ (1 - exp(-tq)) t^(-3/2) dt / 2√π, its mean falls short of √m by a share of

        d = ∫ (L(t) - exp(-t)) t^(-3/2) dt / 2√π,        and        Var √q = m (2d - d²),

    an integral over log t, to six digits by the trapezoidal rule. For large |φ| this is the error
    along the composition itself, u'Σu with u = φ / |φ|; at φ = 0 that of a chi distribution.

    >>> norm_errors(torch.zeros(1), torch.eye(1)).square() + 2 / torch.pi
    tensor(1.)
    """
    spread = covariance.double()
    known = spread.isfinite().all(-1).all(-1) & phi.isfinite().all(-1)
    variances, axes = torch.linalg.eigh(spread.where(known[..., None, None], 0.0))
    variances = variances.clamp(min=0)
    along = (phi.double().nan_to_num()[..., None, :] @ axes)[..., 0, :].square()
    mean = (along + variances).sum(-1, keepdim=True)
    # A composition of norm zero without errors has no scale, and needs none.
    along, variances = (each / mean.clamp(min=_TINY) for each in (along, variances))
    short = torch.zeros_like(mean[..., 0])
    for log_t in torch.arange(*_LOG_T, _STEP, dtype=torch.float64).tolist():
        t = math.exp(log_t)
        grown = 2 * t * variances
        faded, log = t * along / (1 + grown), grown.log1p() / 2
        # L(t) - exp(-t) of small t, where it would cancel, by log L(t) + t: all terms are positive.
        above = (grown / 2 - log).clamp(min=0).sum(-1) + (faded * grown).sum(-1)
        apart = (-(faded + log).sum(-1)).exp() - math.exp(-t)
        apart = apart.where(above > 1, math.exp(-t) * above.expm1())
        short += _STEP / (2 * math.sqrt(math.pi * t)) * apart
    error = (mean[..., 0] * (2 * short - short.square())).clamp(min=0).sqrt()
    return error.where(known, torch.nan).to(phi.dtype)


def cosines(
    phi: Float[Tensor, "*batch players outputs"],
) -> Float[Tensor, "*batch players players"]:
    """Cosines of the angles between players.

    1 where two players change the prediction in the same direction, 0 where neither contributes in
    the other's direction, -1 where they oppose each other; NaN for a player whose norm is zero.

    >>> cosines(torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
    tensor([[1., 0.],
            [0., 1.]])
    """
    along = phi / phi.norm(dim=-1, keepdim=True)
    # Rounding must not leave the domain of the arc cosine.
    return (along @ along.transpose(-1, -2)).clamp(-1, 1)


def projections(
    phi: Float[Tensor, "*batch outputs"], basis: Float[Tensor, "outputs classes"]
) -> Float[Tensor, "*batch classes"]:
    """Projections on the class compositions (Eq. 26): positive in favour of a class.

    Args:
        phi: Shapley values.
        basis: of their coordinates, as in `Partition.basis`.

    >>> basis = geometry.gram_schmidt_basis(2)
    >>> projections(torch.tensor([[3.0]]), basis)
    tensor([[ 3., -3.]])
    """
    directions = geometry.coordinates(geometry.class_compositions(basis.shape[1]), basis)
    return phi @ directions.to(phi).T
