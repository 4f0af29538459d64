"""`Explainer` has 3,000 rows of a law, explains others, and chooses and learns again from halves of
its rows. The models are a logistic regression, a small network and boosted trees. Widths are
compared with those of one constant either way, chosen on the very rows to hold 95 %: no interval of
one width is narrower.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

import manifold_shap as ms
from benchmarks.laws.latent import LatentClasses
from benchmarks.laws.network import TARGETS, BayesianNetwork, model_of
from benchmarks.report import Found, Table, parts, records
from benchmarks.support.table_models import fitted
from manifold_shap.learning_error import in_order
from manifold_shap.oracles import ConditionalLaw, GaussianMixture

TITLE = "Coverage of intervals of a row's values"
CAPTION = "coverage of 95 % intervals"
QUICK = {"laws": ["asia", "gaussian"], "models": ["logistic"], "rows": 4, "train": 400, "draws": 16}
LEVEL = 0.95
LAWS = ("gaussian", "mixture", "latent", *TARGETS)
FITTED = 2000
MODELS = ("logistic", "network", "boosting")
# Of the first estimate of true values, and the share of the distance that is wanted.
FIRST_ERROR, SHARE = 2e-3, 1 / 5
# Values of v per player and row, where there are more players than can be enumerated twice.
EVALUATIONS, FEW = 128, 6


def run(
    laws: Sequence[str] = LAWS,
    models: Sequence[str] = MODELS,
    train: int = 3000,  # rows of the explainer
    rows: int = 12,  # explained, of each law and model
    halves: int = 8,  # how often the value function is learned again
    draws: int = 8,  # of a coalition, for the truth, each time that it is evaluated
) -> dict[str, Any]:
    """By law: coverage and width."""
    pairs = [f"{law}, {model}" for law in laws for model in models]
    found = parts(pairs, measure, train=train, rows=rows, halves=halves, draws=draws)
    return {"laws": {law: of_law([found[f"{law}, {m}"] for m in models]) for law in laws}}


def law_of(name: str) -> ConditionalLaw:
    """A law by its name; random ones are of seed 3."""
    if name in TARGETS:
        return BayesianNetwork.public(name)
    if name == "latent":
        return LatentClasses(3)
    return GaussianMixture.random(*((6, 1) if name == "gaussian" else (8, 3)), seed=3)


def labelled(law: ConditionalLaw, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Rows and labels; a law of one class has those of a noisy function of the row."""
    x, y = law.sample(count, seed=seed)
    if len(law.classes) > 1:
        return x, y
    generator = torch.Generator().manual_seed(1)
    weights = torch.randn(x.shape[1], generator=generator)
    noise = 0.5 * torch.randn(len(x), generator=generator)
    return x, ((x @ weights).tanh() + 0.5 * x[:, 0] * x[:, 1] + noise > 0).long()


def measure(pair: str, train: int, rows: int, halves: int, draws: int) -> dict[str, Any]:
    """Errors of Shapley values and halves of the widths of their intervals, as lists."""
    law, model = pair.split(", ")
    known = law_of(law)
    x, y = labelled(known, FITTED + train + rows, seed=5 + MODELS.index(model))
    frame = known.frame(x)
    asked = fitted(model, frame[:FITTED], y[:FITTED].numpy())
    names = [str(name) for name in asked.classes_]
    how: Any = {"classes": names, "returns": "probabilities"}
    explainer = ms.Explainer(asked, frame[FITTED:-rows], **how, progress=False)
    # Of drawn values more than usual: this is about the error of learning.
    many = len(known.names) > FEW
    budget = EVALUATIONS * len(known.names) if many else None
    whole = explainer(frame[-rows:], halves=halves, evaluations=budget, progress=False)
    truth = ms.oracles.true_value(model_of(known, asked, names, "probabilities"), known,
                                  draws=draws, rows=2**16)  # fmt: skip
    test = frame[-rows:].reset_index(drop=True)
    true = true_values(truth, test, whole)
    whole = in_order(whole, truth.players.names)
    ends = whole.interval(LEVEL)
    alone = replace(whole, model_error=None).interval(LEVEL)
    return {
        "error": (whole.phi.double() - true.double()).flatten().tolist(),
        "half width": ((ends[1] - ends[0]) / 2).flatten().tolist(),
        "half width of sampling alone": ((alone[1] - alone[0]) / 2).flatten().tolist(),
    }


def true_values(truth: ms.oracles.TrueValue, x: Any, whole: ms.Explanation) -> Tensor:
    """Shapley values, whose error is at most a fifth of their distance from the explanation."""
    error = FIRST_ERROR
    while True:
        found = ms.oracles.true_shapley(truth, x, error, seed=7)
        distance = ms.oracles.distance_to_true_shapley(whole, found)
        if distance.truth_error <= SHARE * distance.error:
            return found.phi
        error = min(0.9 * SHARE * distance.error, error / 2)


def of_law(many: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Coverage and width over all models of a law."""
    error, half, alone = (
        torch.cat([torch.tensor(one[name]).double() for one in many])
        for name in ("error", "half width", "half width of sampling alone")
    )
    constant = error.abs().quantile(LEVEL)
    return {
        "coverage": (error.abs() <= half).double().mean().item(),
        "sampling alone": (error.abs() <= alone).double().mean().item(),
        "half of the width": half.mean().item(),
        "width over that of a constant": (half.mean() / constant).item(),
    }


def tables(found: Found) -> list[Table]:
    return [records(f"{LEVEL:.0%} intervals", found["laws"])]


def summary(found: Found) -> dict[str, Any]:
    return {law: one["coverage"] for law, one in found["laws"].items()}
