"""Global values on the manifold are parts of the model's accuracy, and not negative. Off it they
may be: on the abalone data, and on a table of two binary features (severity of a disease, its
treatment), whose probabilities are ours and chosen so that x1 is negative. A value counts as
negative three standard errors below zero.
"""

from collections.abc import Mapping
from typing import Any

import torch
from sklearn.tree import DecisionTreeClassifier
from torch import Tensor

import manifold_shap as ms
from benchmarks import draw
from benchmarks.report import Claim, Figures, Found, Table, cell
from benchmarks.support.of_paper import of_paper
from benchmarks.support.trained import by_player, plain, shorter

TITLE = "Negative global values arise off the manifold"
SOURCE = "Frye et al. (2021), Section 3.2, Fig. 4"
QUICK = {"samples": 2000, "draws": 8, "epochs": 5}
# P(x0 = 1), P(x1 = 1 | x0) and P(y = 1 | x0, x1): severity, treatment and mortality.
SEVERE, TREATED, DIES = 0.5, (0.1, 0.9), ((0.3, 0.2), (0.9, 0.8))
ROWS = 10_000
SURELY = 3.0  # Standard errors.
OFF, ON = "off manifold", "on manifold"


def run(
    samples: int = 20_000,  # pairs of orders, in all of the labelled rows of the abalone data
    draws: int = 32,  # completions of a coalition there
    epochs: int | None = None,  # of the trainings; None: those of the commands
) -> dict[str, Any]:
    """Global values of both models."""
    trained = of_paper("abalone")
    values = {
        OFF: trained.off_manifold(draws),
        "surrogate": trained.surrogate(**shorter(epochs)),
        "VAE": trained.vae(draws, **shorter(epochs)),
    }
    return {
        "accuracy": trained.accuracy,
        "decision tree": synthetic(seed=0),
        "abalone": {name: trained.global_values(one, samples) for name, one in values.items()},
    }


def synthetic(seed: int) -> dict[str, dict[str, Any]]:
    """Exact values of a decision tree on the table of two binary features."""
    x, y = patients(seed)
    model = DecisionTreeClassifier(random_state=seed).fit(x.numpy(), y.numpy())
    players = ms.Players.of_elements((2,), ("x0", "x1"))
    imputers = {
        OFF: (ms.imputers.MarginalImputer(x, players), ROWS),
        ON: (ms.imputers.ExactMatchImputer(x, players), 4),
    }
    # The table has four different rows.
    distinct, which = x.unique(dim=0, return_inverse=True)
    found = {}
    for name, (imputer, draws) in imputers.items():
        value = ms.imputed_value(model, imputer, draws=draws)
        explanation = ms.exact_shapley(value, distinct)[which.tolist()]
        found[name] = plain(ms.global_values(explanation, y))
    return found


def patients(seed: int) -> tuple[Tensor, Tensor]:
    """Rows (x0, x1), and y."""
    generator = torch.Generator().manual_seed(seed)
    severe, treated, dies = torch.rand(3, ROWS, generator=generator)
    x0 = (severe < SEVERE).long()
    x1 = (treated < torch.tensor(TREATED)[x0]).long()
    y = (dies < torch.tensor(DIES)[x0, x1]).long()
    return torch.stack((x0, x1), 1).float(), y


def negative(found: Mapping[str, Any]) -> list[str]:
    """Players whose value is surely below zero."""
    each = zip(found["players"], found["phi"], found["standard_error"], strict=True)
    return [name for name, phi, error in each if phi < -SURELY * (error or 0.0)]


def claims(found: Found) -> list[Claim]:
    tree, abalone = found["decision tree"], found["abalone"]
    below = {name: negative(values) for name, values in abalone.items()}
    on = {name: names for name, names in below.items() if name != OFF}
    x1 = {name: cell((one["phi"][1], one["standard_error"][1])) for name, one in tree.items()}
    said = {name: f"negative: {', '.join(names) or 'none'}" for name, names in below.items()}
    return [
        Claim("off the manifold, the global value of x1 in a decision tree is negative",
              "Fig. 4(b)", x1[OFF], "x1" in negative(tree[OFF])),
        Claim("on the manifold, no global value in the decision tree is negative",
              "Fig. 4(b)", f"x1 {x1[ON]}", not negative(tree[ON])),
        Claim("off the manifold, the global value of a measurement of abalone is negative",
              "Fig. 4(c)", said[OFF], bool(below[OFF])),
        Claim("on the manifold, no global value of a measurement of abalone is negative, by "
              "surrogate or by VAE", "Fig. 4(c)",
              "; ".join(f"{name}: {said[name]}" for name in on), not any(on.values())),
    ]  # fmt: skip


def tables(found: Found) -> list[Table]:
    return [Table(["accuracy of the classifier of abalone (paper: 0.78)"], [[found["accuracy"]]])]


def figures(found: Found) -> Figures:
    return {
        which: draw.dots({name: by_player(found[name])}, "global Shapley value (probability)")
        for which, name in (("", "abalone"), ("tree", "decision tree"))
    }
