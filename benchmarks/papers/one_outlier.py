"""The first outlier whose explanation off the manifold is wrong beyond doubt: a feature that reads
like all others is above one of the five broken ones by three standard errors. The first claim is
about all outliers.
"""

from typing import Any

import torch

from benchmarks import draw
from benchmarks.papers.outliers import BROKEN, GAMES, OFF, ON, Detector
from benchmarks.report import Claim, Figures, Found, number

TITLE = "One outlier, explained off and on the manifold"
SOURCE = "Frye et al. (2021), Section 3.2, Figs. 3(a) to (c)"
ERRORS = "standard errors over pairs of orders"
QUICK = {"outliers": 6, "orders": 256}
DOUBT = 3.0  # Standard errors.
OUTRANKED = 3  # As x7 in the paper: of the five broken features.


def run(
    sigma: float = 0.05,  # noise of the data
    trees: int = 100,  # of the forest
    outliers: int = 20,  # how many are explained
    orders: int = 1024,  # of the players, half of them reverses of the others
) -> dict[str, Any]:
    """Both explanations of the outlier that is shown, and how many of all are wrong."""
    made = Detector(sigma, trees, 0, outliers, orders)
    explained = {name: made.explain(value) for name, value in made.values.items()}
    phi, error = (
        {name: vars(one)[key][..., 0] for name, one in explained.items()}
        for key in ("phi", "standard_error")
    )
    lead = [doubtless(*pair) for pair in zip(phi[OFF], error[OFF], strict=True)]
    shown = next((k for k, certain in enumerate(lead) if certain > DOUBT), 0)
    x = made.x[made.is_outlier][shown]
    return {
        "lead": lead,
        "x": x,
        "score": float(made.score(x[None])),
        "phi": {name: phi[name][shown] for name in GAMES},
        "standard_error": {name: error[name][shown] for name in GAMES},
    }


def doubtless(phi: torch.Tensor, error: torch.Tensor) -> float:
    """How far the strongest sound feature is above the weakest broken one, in standard errors."""
    low, high = phi[:BROKEN].argmin(), BROKEN + phi[BROKEN:].argmax()
    return float((phi[high] - phi[low]) / error[low].hypot(error[high]))


def outranked(phi: list[float]) -> int:
    """How many broken features are below the strongest sound one."""
    return sum(value < max(phi[BROKEN:]) for value in phi[:BROKEN])


def claims(found: Found) -> list[Claim]:
    phi, lead = found["phi"], found["lead"]
    certain = sum(each > DOUBT for each in lead)
    return [
        Claim("off the manifold an explanation is wrong beyond doubt: a sound feature is above a "
              "broken one by three standard errors", "Fig. 3(b)",
              f"of {certain} of {len(lead)} outliers", certain > 0),
        Claim(f"off the manifold the strongest sound feature of the outlier shown outranks "
              f"{OUTRANKED} or more of the five", "x7 above x2, x4 and x5",
              f"{outranked(phi[OFF])}", outranked(phi[OFF]) >= OUTRANKED),
        Claim("on the manifold the five largest values are those of the five broken features",
              "Fig. 3(c)", f"{outranked(phi[ON])} of the five are outranked",
              outranked(phi[ON]) == 0),
    ]  # fmt: skip


def figures(found: Found) -> Figures:
    """The outlier, and the Shapley values of its features."""
    names = [f"x{k}{' (broken)' if k <= BROKEN else ''}" for k in range(1, len(found["x"]) + 1)]
    x = dict(zip(names, found["x"], strict=True))
    panels = {f"Outlier (score {number(found['score'])})": {"value": x}}
    for name in GAMES:
        both = zip(found["phi"][name], found["standard_error"][name], strict=True)
        panels[f"Shapley values {name}"] = {"value": dict(zip(names, both, strict=True))}
    return {"": draw.dots(panels, "")}
