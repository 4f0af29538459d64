"""Shapley values of each class's probability, added to the base one after the other, may leave the
simplex: a probability below zero or above one. Compositions cannot.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

import manifold_shap as ms
from benchmarks import draw
from benchmarks.papers.compositions import iris
from benchmarks.report import Claim, Figures, Found, Table, number, records
from manifold_shap.coalitions import all_coalitions

TITLE = "Classes one against the rest, beside compositions"
SOURCE = "Noé et al. (2024), Section 6.1, Figs. 2 and 3"
QUICK = {"flowers": 5}
APART, TOGETHER = "one class at a time", "compositions"


def run(
    flowers: int = 30,  # rows that are explained besides the one that is shown
) -> dict[str, Any]:
    """Both explanations of the iris, and how far partial sums leave the simplex."""
    example = iris()
    of_ratios = example.value(seed=0)
    of_classes = ms.imputed_value(
        of_ratios.model, of_ratios.imputer, "probability", draws=len(example.x_train)
    )
    x = torch.cat((example.x, example.x_train[:: len(example.x_train) // flowers][:flowers]))
    apart, together = ms.exact_shapley(of_classes, x), ms.exact_shapley(of_ratios, x)
    of_rows = {
        APART: partial_sums(apart.base, apart.phi),
        TOGETHER: ms.simplex.ilr_inv(
            partial_sums(together.base, together.phi), together.basis
        ).exp(),
    }
    return {
        "features": list(example.features),
        "classes": list(example.classes),
        "phi": {APART: apart.phi[0], TOGETHER: together.compositions()[0]},
        "lowest": {name: sums.amin((1, 2)) for name, sums in of_rows.items()},
        "sums": {name: float((sums.sum(-1) - 1).abs().max()) for name, sums in of_rows.items()},
    }


def partial_sums(
    base: Float[Tensor, "rows outputs"], phi: Float[Tensor, "rows players outputs"]
) -> Float[Tensor, "rows subsets outputs"]:
    """The base and the values of every subset of the features, in double precision."""
    subsets = all_coalitions(phi.shape[1]).double()
    return base.double()[:, None] + torch.einsum("sp,bpo->bso", subsets, phi.double())


def left(found: Found, name: str) -> float:
    """Share of the rows with a partial sum that has a negative probability."""
    lowest = torch.tensor(found["lowest"][name])
    return float((lowest < -1e-6).double().mean())


def claims(found: Found) -> list[Claim]:
    length = found["features"].index(next(n for n in found["features"] if "petal length" in n))
    virginica = found["classes"].index("virginica")
    apart, together = (torch.tensor(found["phi"][name]) for name in (APART, TOGETHER))
    sizes = apart[:, virginica].abs()
    share, others = float(sizes[length] / sizes.max()), apart[length].argmax()
    ratio = together[length].log()[virginica] - together[length].log().mean()
    return [
        Claim("values of classes one by one leave the simplex for some rows, when a part of them "
              "is added to the base", "Section 6.1 (no guarantee)",
              f"{left(found, APART):.0%} of the rows", left(found, APART) > 0),
        Claim("compositions never do", "Section 6.1", f"{left(found, TOGETHER):.0%} of the rows",
              left(found, TOGETHER) == 0 and found["sums"][TOGETHER] < 1e-5),
        Claim("petal length, almost orthogonal to virginica as a composition, has less than half "
              "of the largest value for virginica alone", "Figs. 2 and 3",
              f"{number(share)} of it", share < 0.5,
              f"{found['classes'][others]} takes {apart[length, others]:.2f} of probability, "
              f"{sizes[length]:.2f} of it from virginica, whose log-ratio to the classes' mean "
              f"changes by {ratio:.2f}"),
    ]  # fmt: skip


def tables(found: Found) -> list[Table]:
    return [records("", {name: {
        "rows that leave the simplex": left(found, name),
        "lowest probability of a partial sum": min(found["lowest"][name]),
    } for name in (APART, TOGETHER)})]  # fmt: skip


def figures(found: Found) -> Figures:
    """Bars of each class, and compositions, of which equal parts have no effect."""
    panels = {}
    for name, unit in ((APART, "Shapley values of probabilities"), (TOGETHER, "compositions")):
        columns = zip(found["classes"], zip(*found["phi"][name], strict=True), strict=True)
        panels[unit] = {n: dict(zip(found["features"], phi, strict=True)) for n, phi in columns}
    return {"": draw.dots(panels, "probability, or share of a composition")}
