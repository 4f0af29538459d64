"""Off the manifold, absent pixels are those of another digit: a splice. On it, they are imputed
from the pixels that are there. Bounds are ours.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool
from matplotlib.figure import Figure
from torch import Tensor

from benchmarks.report import Claim, Figures, Found, Table, number, records, spread
from benchmarks.support.of_paper import of_paper
from benchmarks.support.trained import shorter
from manifold_shap.coalitions import Listed, sample_orders

TITLE = "What completed digits look like, and what the model says of them"
SOURCE = "Frye et al. (2021), Fig. 1 and Section 4.2"
ERRORS = "standard errors over test digits"
QUICK = {"rows": 200, "references": 2000, "epochs": 1}
OFF, ON, REAL = "off manifold (splices)", "on manifold (VAE)", "actual digits"
SHOWN = 5  # As in Fig. 1.
DIGIT = 3  # Position of the test digit that is shown.
SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)  # Of the pixels that are known.
HALF = 0.5
BLOCK = 100  # Rows at a time.
# Ours for "far from the data", as a share of what completions are, and for "informative".
FARTHER, SURER = 1.25, 0.2


def run(
    rows: int = 1000,  # test digits, each with one coalition of each size
    references: int = 10_000,  # training digits, among which the nearest is sought
    epochs: int | None = None,  # of the VAE; None: those of the command
) -> dict[str, Any]:
    """Completions of one digit; distances and predictions of completions of many."""
    trained = of_paper("mnist")
    vae = trained.vae(1, **shorter(epochs))
    imputers = {OFF: trained.off_manifold(1).imputer, ON: vae.imputer}
    data = trained.data
    x, y = data.x_test[:rows], data.y_test[:rows]
    nearest = data.x_train[:references].flatten(1)
    sizes = [round(share * len(data.players)) for share in SHARES]
    masks = coalitions(len(x), sizes, len(data.players))
    found: dict[str, Any] = {"distance": {}, "certainty": {}}
    found["distance"][REAL] = [spread(apart(x, nearest).tolist(), of_mean=True)]
    keys = torch.arange(len(x))[:, None].expand(-1, len(sizes))
    for name, imputer in imputers.items():
        completed = torch.cat([
            imputer.sample(x[k], Listed(masks[k], keys[k]), range(1))[:, :, 0]
            for k in torch.arange(len(x)).split(BLOCK)
        ])  # fmt: skip
        sure = torch.stack([trained.model(part)[torch.arange(len(x)), y].exp()
                            for part in completed.unbind(1)])  # fmt: skip
        far = [apart(part, nearest) for part in completed.unbind(1)]
        found["certainty"][name] = [spread(each.tolist(), of_mean=True) for each in sure]
        found["distance"][name] = [spread(each.tolist(), of_mean=True) for each in far]
    own, k = data.x_test[[DIGIT]], SHARES.index(HALF)
    some = Listed(masks[[DIGIT], k : k + 1], keys[[DIGIT], k : k + 1])
    found["shown"] = {"digit": own[0].flatten(), "mask": some.masks()[0, 0].int()}
    for name, imputer in imputers.items():
        found["shown"][name] = imputer.sample(own, some, range(SHOWN))[0, 0].flatten(1)
    return found


def coalitions(rows: int, sizes: Sequence[int], pixels: int) -> Bool[Tensor, "rows sizes pixels"]:
    """Nested ones of these sizes, along one random order of the pixels for each row."""
    order = sample_orders((rows,), pixels, torch.Generator().manual_seed(0))
    return order.argsort(1)[:, None] < torch.tensor(sizes)[:, None]


def apart(x: Tensor, references: Tensor) -> Tensor:
    """Distance of binary digits from the nearest reference."""
    return torch.cdist(x.flatten(1), references).amin(1)


def claims(found: Found) -> list[Claim]:
    middle = SHARES.index(HALF)
    far = {name: found["distance"][name][-1 if name == REAL else middle][0]
           for name in (REAL, OFF, ON)}  # fmt: skip
    sure = {name: found["certainty"][name][middle][0] for name in (OFF, ON)}
    return [
        Claim("splices of half of the pixels are farther from the nearest training digit than "
              "actual digits are, by a quarter or more", "Fig. 1",
              f"{number(far[OFF])} against {number(far[REAL])}", far[OFF] > FARTHER * far[REAL]),
        Claim("completions on the manifold are not", "Section 2.1",
              f"{number(far[ON])} against {number(far[REAL])}", far[ON] <= FARTHER * far[REAL]),
        Claim("of half of the pixels the model is surer of the digit on the manifold, by 0.2 or "
              "more", "Section 4.2 (the output is less informative off it)",
              f"{number(sure[ON])} against {number(sure[OFF])}", sure[ON] > sure[OFF] + SURER),
    ]  # fmt: skip


def tables(found: Found) -> list[Table]:
    lines = {
        f"{share:.0%} of the pixels": {
            f"{what}: {name}": tuple(figures[k])
            for what, by in (("probability of the digit", "certainty"), ("distance", "distance"))
            for name, figures in found[by].items()
            if name != REAL
        }
        for k, share in enumerate(SHARES)
    }
    real = {"distance": tuple(found["distance"][REAL][0])}
    return [records("known", lines), records("", {REAL: real})]


def figures(found: Found) -> Figures:
    """Two rows of completions."""
    shown = found["shown"]
    digit, mask = torch.tensor(shown["digit"]), torch.tensor(shown["mask"])
    # Absent pixels are half grey, between the black of paper and the white of ink.
    known = torch.where(mask > 0, digit, torch.tensor(0.5))
    figure = Figure(figsize=(6.4, 2.2), layout="constrained")
    for line, name in enumerate((OFF, ON)):
        pictures = (digit, known, *map(torch.tensor, shown[name]))
        for k, image in enumerate(pictures):
            axes = figure.add_subplot(2, len(pictures), line * len(pictures) + k + 1)
            axes.imshow(image.reshape(28, 28).numpy(), cmap="gray", vmin=0, vmax=1)
            axes.set_axis_off()
    figure.suptitle(f"digit, known half, completions {OFF} and {ON}")
    return {"": figure}
