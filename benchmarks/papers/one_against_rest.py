"""Classes one by one beside compositions, for an iris (Noé et al. 2024, Section 6.1, Fig. 3).

Shapley values of each class's probability explain it against the rest. Added to the base one after
the other, they may leave the simplex: a probability below zero or above one. Compositions cannot.
"""

from typing import Any

import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

import manifold_shap as ms
from benchmarks import style
from benchmarks.plots import LEGEND, bars, label_axes
from benchmarks.report import Claim, Found, Table, number, records
from benchmarks.support.coupled import iris
from manifold_shap.coalitions import all_coalitions

TITLE = "Classes one against the rest, beside compositions"
SOURCE = "Noé et al. (2024), Section 6.1, Figs. 2 and 3"
QUICK = {"flowers": 5}
APART, TOGETHER = "one class at a time", "compositions"


def run(
    flowers: int = 30,  # rows that are explained besides the one that is shown
    seed: int = 0,  # of the SVM's calibration
) -> dict[str, Any]:
    """Both explanations of the iris, and how far partial sums leave the simplex."""
    example = iris("all")
    of_ratios = example.value(seed)
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
        "base": apart.base[0],
        "prediction": apart.prediction[0],
        "phi": {APART: apart.phi[0], TOGETHER: together.compositions()[0]},
        "norms": together.norms()[0],
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
    apart = torch.tensor(found["phi"][APART])
    sizes = apart[:, virginica].abs()
    share = float(sizes[length] / sizes.max())
    return [
        Claim("values of classes one by one leave the simplex for some rows, when a part of them "
              "is added to the base", "Section 6.1 (no guarantee)",
              f"{left(found, APART):.0%} of the rows", left(found, APART) > 0),
        Claim("compositions never do", "Section 6.1", f"{left(found, TOGETHER):.0%} of the rows",
              left(found, TOGETHER) == 0 and found["sums"][TOGETHER] < 1e-5),
        Claim("petal length, almost orthogonal to virginica as a composition, has less than half "
              "of the largest value for virginica alone", "Figs. 2 and 3",
              f"{number(share)} of it", share < 0.5,
              "its log-ratio hardly moves against the mean of the others, its probability does"),
    ]  # fmt: skip


def tables(found: Found) -> list[Table]:
    lines = {
        feature: {
            name: dict(zip(found["classes"], found["phi"][name][k], strict=True))
            for name in (APART, TOGETHER)
        }
        | {"norm": found["norms"][k]}
        for k, feature in enumerate(found["features"])
    }
    rows = {
        name: {
            "rows that leave the simplex": left(found, name),
            "lowest probability of a partial sum": min(found["lowest"][name]),
        }
        for name in (APART, TOGETHER)
    }
    return [records("iris", lines), records("", rows)]


def figures(found: Found) -> dict[str, Figure]:
    """A panel of bars for each class, and compositions; a class has one colour in all of them."""
    classes, features = found["classes"], found["features"]
    figure = style.laid_out(2.9, 8.0)
    panels = figure.subplots(1, len(classes) + 1, sharey=True)
    limit = 1.35 * max(abs(v) for row in found["phi"][APART] for v in row)
    for k, (axes, name, colour) in enumerate(zip(panels, classes, style.SERIES, strict=False)):
        values = [row[k] for row in found["phi"][APART]]
        bars(axes, range(len(features)), values, size=style.SMALL, height=0.6, color=colour)
        axes.set_xlim(-limit, limit)
        label_axes(axes, f"{name}: {found['base'][k]:.2f} to {found['prediction'][k]:.2f}",
                   "Shapley value (probability)")  # fmt: skip
    for k, (name, colour) in enumerate(zip(classes, style.SERIES, strict=False)):
        where = [line + 0.24 * (k - 1) for line in range(len(features))]
        parts = [row[k] for row in found["phi"][TOGETHER]]
        drawn = panels[-1].barh(where, parts, 0.22, color=colour, label=name)
        panels[-1].bar_label(drawn, fmt="%.2f", padding=3, fontsize=style.SMALL)
    panels[-1].axvline(1 / len(classes), color=style.INK, linewidth=0.8, linestyle=":")
    label_axes(panels[-1], "Compositions", "share (dotted: no effect)")
    panels[-1].set_xlim(0, 1)
    handles = panels[-1].get_legend_handles_labels()
    below: Any = {"loc": "outside lower center", "ncols": len(classes)}
    figure.legend(*handles, **below, **LEGEND)
    for axes in panels:
        style.strip(axes, grid="x")
        if axes is not panels[-1]:
            axes.axvline(0, color=style.INK, linewidth=0.8)
    style.write_lines(panels[0], [str(name) for name in features])
    return {"": figure}
