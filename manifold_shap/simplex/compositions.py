"""Shapley compositions: explanations on the simplex (Noé et al. 2024, Sections 5 and 6.3).

Functions of Shapley values in log-ratio coordinates, `phi`, and of the basis that these are in.
Norms, cosines and projections do not depend on the basis.
"""

from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap.simplex import geometry

if TYPE_CHECKING:
    import pandas as pd

    from manifold_shap.explanation import Explanation

Basis = Float[Tensor, "outputs classes"]


def norms(phi: Float[Tensor, "*batch outputs"]) -> Float[Tensor, "*batch"]:
    """How strongly each player moves the prediction, whatever the direction."""
    return phi.norm(dim=-1)


def norm_errors(
    phi: Float[Tensor, "*batch outputs"], covariance: Float[Tensor, "*batch outputs outputs"]
) -> Float[Tensor, "*batch"]:
    """Standard errors of the norms, to first order: the error along the composition itself."""
    along = torch.nn.functional.normalize(phi, dim=-1)
    return torch.einsum("...o,...oq,...q->...", along, covariance, along).clamp(min=0).sqrt()


def cosines(
    phi: Float[Tensor, "*batch players outputs"],
) -> Float[Tensor, "*batch players players"]:
    """Of the angles between players: 1 where they move the prediction alike, 0 where neither adds
    to the other, -1 where they oppose each other; NaN for a player that moves nothing."""
    along = phi / norms(phi)[..., None]
    # Rounding must not leave the domain of the arc cosine.
    return (along @ along.transpose(-1, -2)).clamp(-1, 1)


def projections(
    phi: Float[Tensor, "*batch outputs"], basis: Basis
) -> Float[Tensor, "*batch classes"]:
    """On the class-compositions (Eq. 26): in favour of which classes, and against which."""
    directions = geometry.coordinates(geometry.class_compositions(basis.shape[1]), basis)
    return phi @ directions.to(phi).T


def summary(explanation: "Explanation", instance: int, most: int) -> "pd.DataFrame":
    """One line per player of a row, the largest norm first; see `Explanation.summarize`."""
    import pandas as pd

    names = explanation.players.names
    row = explanation[instance]
    size, errors, by_class, angles = (
        figures[0] for figures in (row.norms(), row.norm_errors(), row.projections(), row.cosines())
    )
    order = size.argsort(descending=True, stable=True)[:most].tolist()
    columns = {
        "norm": size,
        "standard_error": errors,
        **{f"on {name}": by_class[:, k] for k, name in enumerate(explanation.classes)},
        **{f"cosine with {names[k]}": angles[:, k] for k in order},
    }
    frame = pd.DataFrame({name: column.numpy() for name, column in columns.items()})
    return frame.set_axis(list(names)).iloc[order].rename_axis("players")
