"""Maps of a few digits, and the mean marginal contribution v(S ∪ i) - v(S) for the true class
against the size of S, the slope of the mean of v along random orders. Fig. 6 has no numbers: bounds
and the measure of concentration are ours. v(N) is the model's prediction, v of fewer pixels on
the manifold the surrogate's, so that the last point also has the difference of the two.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

import manifold_shap as ms
from benchmarks import draw
from benchmarks.report import Claim, Figures, Found, Table, number, records
from benchmarks.support.of_paper import of_paper
from benchmarks.support.trained import shorter
from manifold_shap.coalitions import sample_orders

TITLE = "On the manifold, a digit is recognised from far fewer pixels"
SOURCE = "Frye et al. (2021), Section 4.2, Fig. 6"
QUICK = {"coalitions": 1024, "permutations": 128, "rows": 500, "epochs": 4}
ON, OFF = GAMES = ("on manifold", "off manifold")
# Ours: less than this share of the pixels is "far fewer" of them.
FEWER = 1 / 2
SELDOM = 0.05  # A smaller share of ink in training digits is "seldom".
GRID = 57  # Sizes from which slopes are taken.
BLOCK = 250  # Rows at a time.
DIGITS = [3, 2, 1, 18, 4]  # Positions of the test digits that are drawn.


def run(
    coalitions: int = 4096,  # around which each of them is explained on the manifold
    permutations: int = 4096,  # by which it is off the manifold
    rows: int = 5000,  # test digits behind the curve
    epochs: int | None = None,  # of the surrogate; None: those of the command
) -> dict[str, Any]:
    """Maps, and the mean marginal contribution against the size of the coalition."""
    trained = of_paper("mnist")
    games: dict[str, Any] = {ON: trained.surrogate(**shorter(epochs)), OFF: trained.off_manifold(1)}
    x, y = trained.data.x_test, trained.data.y_test
    drawn = x[DIGITS]
    maps = {
        ON: ms.coalition_shapley(games[ON], drawn, coalitions=coalitions),
        OFF: ms.permutation_shapley(games[OFF], drawn, permutations=permutations),
    }
    sizes = torch.linspace(0, len(trained.data.players), GRID).round().long().unique()
    top = maps[ON].prediction.argmax(1)
    each = torch.arange(len(top))
    found: dict[str, Any] = {
        "accuracy": trained.accuracy, "digits": drawn.flatten(1), "top": top,
        "classes": list(maps[ON].outputs), "prediction": maps[ON].prediction[each, top],
        "ink": rounded(trained.data.x_train.flatten(1).mean(0, keepdim=True))[0],
        "sizes": sizes, "maps": {}, "curves": {},
    }  # fmt: skip
    for name, game in games.items():
        v = along(game, x[:rows], y[:rows], sizes).mean(1)
        found["curves"][name] = {"value": v, "slope": v.diff() / sizes.diff()}
        of_top = {"phi": maps[name].phi, "standard_error": maps[name].standard_error}
        found["maps"][name] = {k: rounded(figures[each, :, top]) for k, figures in of_top.items()}
    return found


def rounded(figures: Tensor) -> list[list[float]]:
    """To six digits: there are thousands."""
    return [[float(f"{entry:.6g}") for entry in row] for row in figures.tolist()]


def along(
    value: ms.ValueFunction, x: Tensor, y: Tensor, sizes: Tensor
) -> Float[Tensor, "sizes rows"]:
    """Values of the true class at coalitions of these sizes, along one random order of each row."""
    generator = torch.Generator().manual_seed(0)
    found = []
    for numbers in torch.arange(len(x)).split(BLOCK):
        order = sample_orders((len(numbers),), len(value.players), generator)
        mask = order.argsort(1)[:, None] < sizes[:, None]
        v = value(x[numbers], mask, numbers[:, None].expand(-1, len(sizes)))
        found.append(v[torch.arange(len(numbers)), :, y[numbers]].T)
    return torch.cat(found, 1)


def half(sizes: Sequence[int], v: Sequence[float]) -> float:
    """Pixels with which half of the way from v(∅) to v(N) is gone."""
    share = (np.array(v) - v[0]) / (v[-1] - v[0])
    return float(np.interp(0.5, np.maximum.accumulate(share), sizes))


def halves(found: Found) -> dict[str, float]:
    return {name: half(found["sizes"], one["value"]) for name, one in found["curves"].items()}


def sizes_of(found: Found) -> dict[str, Float[Tensor, "digits pixels"]]:
    """Absolute values of the predicted class, on and off the manifold."""
    return {name: torch.tensor(found["maps"][name]["phi"]).abs() for name in GAMES}


def concentration(size: Float[Tensor, "rows pixels"]) -> float:
    """Mean share of the absolute values that the strongest tenth of the pixels has."""
    ranked = size.sort(1, descending=True).values
    return (ranked[:, : size.shape[1] // 10].sum(1) / ranked.sum(1)).mean().item()


def claims(found: Found) -> list[Claim]:
    pixels, (on, off) = halves(found), sizes_of(found).values()
    seldom = torch.tensor(found["ink"]) < SELDOM
    shares = [concentration(one) for one in (on, off)]
    others = [number(concentration(one[:, ~seldom])) for one in (on, off)]
    rare = [f"{(one[:, seldom].sum(1) / one.sum(1)).mean():.0%}" for one in (on, off)]
    means = [one.mean().item() for one in (on, off)]
    errors = [torch.tensor(found["maps"][name]["standard_error"]).gather(1, size.argmax(1, True))
              for name, size in sizes_of(found).items()]  # fmt: skip
    excess = (off.amax(1) - on.amax(1)) / torch.cat(errors, 1).norm(dim=1)
    return [
        Claim("half of the prediction is reached with less than half as many pixels as off the "
              "manifold", "Fig. 6(b)", f"{number(pixels[ON])} against {number(pixels[OFF])} pixels",
              pixels[ON] < FEWER * pixels[OFF]),
        Claim("explanations are more concentrated on the manifold, by the share of the absolute "
              "values that a tenth of the pixels has", "Fig. 6(a)",
              f"{number(shares[0])} against {number(shares[1])}", shares[0] > shares[1],
              f"pixels that are seldom ink have {' against '.join(rare)} of the values; "
              f"of the others alone it is {' against '.join(others)}"),
        Claim("absolute values are smaller off the manifold, on average", "Fig. 6(a)",
              f"{number(means[1])} against {number(means[0])}", means[1] < means[0]),
        Claim("the largest absolute value of every digit is smaller off the manifold", "Fig. 6(a)",
              f"of {int((excess < 0).sum())} of {len(excess)} digits", bool((excess < 0).all()),
              f"larger by at most {excess.max():.1f} standard errors"),
    ]  # fmt: skip


def tables(found: Found) -> list[Table]:
    lines = {"accuracy of the classifier (paper: 0.98)": {"": found["accuracy"]}}
    for name, size in sizes_of(found).items():
        error = torch.tensor(found["maps"][name]["standard_error"]).mean(1) / size.amax(1)
        what = f"mean standard error over the largest value, {name} (paper: 0.002)"
        lines[what] = {"": error.mean().item()}
    return [records("", lines)]


def figures(found: Found) -> Figures:
    middle = (torch.tensor(found["sizes"][1:]) + torch.tensor(found["sizes"][:-1])) / 2
    lines = {n: list(zip(middle.tolist(), c["slope"], strict=True))
             for n, c in found["curves"].items()}  # fmt: skip
    words = "pixels (dashed: half of the prediction)"
    y = "mean marginal contribution (probability)"
    panel = draw.Panel("", words, y, lines, marks=halves(found), log="")
    shown = {name: explanation(found, name) for name in GAMES}
    return {"": draw.curves([panel]), "maps": ms.plots.pixel_maps(shown).figure}


def explanation(found: Found, name: str) -> ms.Explanation:
    """Of the predicted classes; those of other classes, which are not kept, are 0 and not drawn."""
    own = torch.nn.functional.one_hot(torch.tensor(found["top"]), len(found["classes"])).float()
    phi, error = (
        torch.tensor(found["maps"][name][key])[..., None] * own[:, None]
        for key in ("phi", "standard_error")
    )
    prediction = torch.tensor(found["prediction"])[:, None] * own
    x = torch.tensor(found["digits"]).view(-1, 1, 28, 28)
    players, base = ms.Players.of_elements(x.shape[1:]), prediction - phi.sum(1)
    return ms.Explanation(phi, error, base, prediction, x, players, tuple(found["classes"]))
