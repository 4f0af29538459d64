"""Value functions by imputers, and rows whose players differ."""

from typing import Any

import torch

import manifold_shap as ms
from tests.reference.examples import (
    DIGITS,
    DISCRETE,
    GAUSSIAN,
    LEVEL,
    MIXED,
    MODEL,
    NUMBERS,
    PLAYERS,
    RIDGE,
    SERIES,
    TOKENS,
    Tokens,
    estimators,
    network,
    players_of,
)
from tests.reference.results import estimated

REFERENCE, X, NAMES = MIXED["reference"], MIXED["x"], PLAYERS.names


def imputed() -> dict[str, Any]:
    """Values by every imputer, of rows of numbers and one-hot columns."""
    kinds = ms.imputers
    empirical = kinds.EmpiricalImputer(REFERENCE, PLAYERS, 0.5, regularisation=RIDGE)
    order = [list(NAMES[:3]), list(NAMES[3:5]), list(NAMES[5:])]
    graph = {NAMES[2]: list(NAMES[:2]), NAMES[6]: [NAMES[2], NAMES[3]]}
    imputers = {
        "marginal": kinds.MarginalImputer(REFERENCE, PLAYERS),
        "baseline": kinds.BaselineImputer(REFERENCE[0], PLAYERS),
        "contrastive": kinds.ContrastiveImputer(REFERENCE[:20], PLAYERS),
        "gaussian": GAUSSIAN,
        "copula": kinds.CopulaImputer(REFERENCE, PLAYERS, RIDGE),
        "empirical": empirical,
        "empirical, aicc": kinds.EmpiricalImputer(REFERENCE, PLAYERS, "aicc", regularisation=RIDGE),
        "empirical, of targets": kinds.EmpiricalImputer(
            REFERENCE,
            PLAYERS,
            "aicc",
            targets=MODEL(REFERENCE).detach().softmax(-1)[:, :1],
            regularisation=RIDGE,
        ),
        "causal": kinds.CausalImputer(GAUSSIAN, order, [False, True, True]),
        "causal, graph": kinds.CausalImputer(GAUSSIAN, graph),
        "causal, of donors": kinds.CausalImputer(empirical, order),
    }
    found: dict[str, Any] = {}
    for name, imputer in imputers.items():
        value = ms.imputed_value(MODEL, imputer, "ilr", draws=16, seed=5)
        found[f"mixed, {name}, ilr"] = estimated(value, X, MIXED["mask"])
    for name in ("marginal", "copula", "empirical", "causal", "contrastive"):
        value = ms.imputed_value(MODEL, imputers[name], draws=8, seed=5)
        for kind in ("permutation", "adaptive"):
            found[f"mixed, {name}, {kind}"] = estimators(len(NAMES))[kind](value, X)
    return found


def gaussian() -> dict[str, Any]:
    """One value function of draws under every estimator, and what is made of it."""
    value = ms.imputed_value(MODEL, GAUSSIAN, draws=8, seed=5)
    numbers = ms.imputed_value(NUMBERS, GAUSSIAN, "identity", draws=16, seed=5)
    groups = {"front": list(NAMES[:3]), "back": [NAMES[4], NAMES[6]]}
    ratio = ms.values.LogRatioOfMean(value)
    by_label = value.grouped([0, 0, 1, 1, 2, 2, 3])
    largest = value.prediction(X).mean(0).argsort(descending=True)[:2].tolist()
    found = {
        "identity": estimated(numbers, X, MIXED["mask"]),
        "exact": ms.exact_shapley(value, X),
        "target": ms.permutation_shapley(value, X, target_error=0.1, seed=1),
        "auto alone": ms.auto_shapley(value, X, seed=1),
        "pairs": ms.shapley_interactions(value, X, seed=1),
        **{kind: estimate(value, X) for kind, estimate in estimators(len(NAMES)).items()},
    }
    made = {
        "chosen outputs, names": ", ".join(value.select([2, 0]).outputs),
        "largest outputs, names": ", ".join(value.select(largest).outputs),
        "groups, names": ", ".join(value.grouped(groups).players.names),
        "groups, exact": ms.exact_shapley(value.grouped(groups), X),
        "groups, auto": ms.auto_shapley(value.grouped(groups), X, evaluations=20),
        "labels, permutation": ms.permutation_shapley(by_label, X),
        "log-ratio": estimated(ratio, X, MIXED["mask"]),
        "log-ratio, kernel": ms.kernel_shapley(ratio, X, evaluations=64),
        "log-ratio of groups": ms.exact_shapley(ratio.grouped(groups), X),
    }
    return {"mixed, gaussian": found, "mixed": made}


def many_players() -> dict[str, Any]:
    """Imputers of 64 players, where runs of coalitions have a path of their own."""
    reference, players = DIGITS["reference"], players_of(DIGITS)
    imputers = {
        "gaussian": ms.imputers.GaussianImputer(reference, players, RIDGE),
        "copula": ms.imputers.CopulaImputer(reference, players, RIDGE),
        "empirical": ms.imputers.EmpiricalImputer(reference, players, 0.5, regularisation=RIDGE),
    }
    found: dict[str, Any] = {}
    for name, imputer in imputers.items():
        value = ms.imputed_value(network(DIGITS["model"]), imputer, draws=4, seed=5).select([3, 7])
        found[f"digits, {name}"] = estimated(value, DIGITS["x"], DIGITS["mask"])
        found[f"digits, {name}, permutation"] = ms.permutation_shapley(
            value, DIGITS["x"], permutations=4, seed=1
        )
    return found


def discrete() -> dict[str, Any]:
    """Donors that agree with a row of whole numbers."""
    found: dict[str, Any] = {}
    imputer, x = ms.imputers.ExactMatchImputer(DISCRETE["reference"]), DISCRETE["x"]
    for draws in (7, 200):
        value = ms.imputed_value(
            network(DISCRETE["model"]), imputer, "log_odds", draws=draws, seed=5
        )
        found[f"discrete, exact match, {draws} draws"] = {
            **estimated(value, x, DISCRETE["mask"]),
            "permutation": estimators(5)["permutation"](value, x),
            "exact": ms.exact_shapley(value, x),
        }
    return found


def padded() -> dict[str, Any]:
    """Tokens and series of differing length."""
    (x, players), few = TOKENS, TOKENS[0][:4]
    imputers = {
        "padding": ms.imputers.PaddingImputer(players),
        "deletion": ms.imputers.DeletionImputer(players),
        "mask token": ms.imputers.MaskTokenImputer(1, players),
        "marginal": ms.imputers.MarginalImputer(x, players),
    }
    values = {
        name: ms.imputed_value(Tokens().eval(), imputer, "identity", draws=8, seed=5)
        for name, imputer in imputers.items()
    }
    found: dict[str, Any] = {}
    for name, value in values.items():
        counts = value.counts(few)
        mask = ms.metrics.shapley_pairs(len(few), len(players), least=32, seed=1, counts=counts)
        found[f"tokens, {name}"] = estimated(value, few, mask)
        found[f"tokens, {name}, exact"] = ms.exact_shapley(value, few)
    for kind, estimate in estimators(len(players)).items():
        found[f"tokens, marginal, {kind}"] = estimate(values["marginal"], few)
    found["tokens, padding, pairs"] = ms.shapley_interactions(values["padding"], few)
    imputer = ms.imputers.MarginalImputer(*SERIES)
    value, series = ms.imputed_value(LEVEL, imputer, "identity", draws=8), SERIES[0][:4]
    in_time = [[name] for name in SERIES[1].names]
    return found | {
        "series, marginal, exact": ms.exact_shapley(value, series),
        "series, marginal, in time": ms.permutation_shapley(value, series, ordering=in_time),
    }


def pictures() -> dict[str, Any]:
    """Superpixels of plain fields, and labels of one's own; blurred pictures."""
    fields = torch.zeros(2, 1, 8, 8)
    fields[:, :, :4, :4], fields[:, :, 4:, 4:] = 0.9, 0.5
    fields[1, :, :4] = 0.7
    superpixels, x = ms.superpixels(segments=4), DIGITS["x"]
    model, reference = network(DIGITS["model"]), DIGITS["reference"]
    value = ms.imputed_value(
        model, ms.imputers.MarginalImputer(reference, ms.Players.pixels((1, 8, 8))), draws=8
    )
    own = torch.arange(8)[:, None] // 4 * 2 + torch.arange(8) // 4
    own = torch.stack((own, own.clamp(max=2), own // 2))
    grouped = value.grouped(ms.label_maps(x, own), 4).select([3, 7])
    patches = ms.Players.patches((1, 8, 8), 4)
    blur = ms.imputed_value(model, ms.imputers.BlurImputer(reference, patches, sigma=1.0))
    return {
        "superpixels, labels": superpixels(fields),
        "superpixels, exact": ms.exact_shapley(
            value.grouped(superpixels, 4).select([3, 7]), fields
        ),
        "labels": {kind: estimate(grouped, x) for kind, estimate in estimators(4).items()},
        "labels, pairs": ms.shapley_interactions(grouped, x[:2]),
        "blur, exact": ms.exact_shapley(blur.select([3, 7]), x),
    }
