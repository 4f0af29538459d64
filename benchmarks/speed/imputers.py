"""How good every value function is, on the same test rows and coalitions (Frye et al., Eq. 16).

For each data set and seed (of the split, the classifier and the training): the default classifier,
the default surrogate and masked-encoder VAE, the surrogate once more for as many minutes as the VAE
took, and imputers that need no training. The drug data have ten binary features, and its figure is
computed over all 1,023 coalitions as well, exactly.
"""

import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

import manifold_shap as ms
from benchmarks.report import Found, Table, records, spread
from benchmarks.support.scores import scored
from benchmarks.support.trained import Trained, shorter
from benchmarks.timing import timed
from manifold_shap.coalitions import all_coalitions

TITLE = "How good every imputer is"
ERRORS = "standard errors over seeds"
QUICK = {"data": ["drug"], "seeds": [0], "rows": 100, "draws": 8, "epochs": 2}
# A value function by name, and the seconds of its training.
Method = tuple[str, ms.ValueFunction, float | None]
EMPIRICAL_ROWS = 5000
EXACTLY = ("off_manifold", "empirical_conditional", "vae", "surrogate")
KINDS = ("mse", "debiased", "mse_all_coalitions", "train_seconds")
RATIOS = ("surrogate", "surrogate_equal_minutes", "empirical_conditional")


def run(
    data: Sequence[str] = ("drug", "abalone", "census", "mnist"),  # which data sets
    seeds: Sequence[int] = (0, 1, 2),  # of the split, the classifier and the trainings
    rows: int | None = None,  # test rows; None: all
    draws: int = 64,  # completions of a coalition
    epochs: int | None = None,  # of the trainings; None: those of the commands
    published: int | None = None,  # epochs of a VAE as published, at 1e-3 on one cycle; None: none
    distil: bool = False,  # whether the VAE teaches a surrogate as well
) -> dict[str, Any]:
    """Scores of every data set and seed."""
    found: dict[str, Any] = {}
    for name, seed in itertools.product(data, seeds):
        own = Trained(name, seed)
        if name == "drug":
            own.tabulate()
        x, scores = own.data.x_test[:rows], {}
        mask = ms.metrics.shapley_pairs(len(x), len(own.data.players), seed=seed)
        trainings = learned(own, draws, shorter(epochs), published, distil)
        for method, value, seconds in itertools.chain(classical(own, draws), trainings):
            scores[method] = scored(value, x, mask)
            if seconds is not None:
                scores[method]["train_seconds"] = seconds
            if name == "drug" and method in EXACTLY:
                scores[method]["mse_all_coalitions"] = exact_error(value, x)
            print(name, seed, method, scores[method], flush=True)
        one = {"seed": seed, "accuracy": own.accuracy, "scores": scores}
        found.setdefault(name, []).append(one)
    return found


def classical(own: Trained, draws: int) -> Iterator[Method]:
    """Imputers that need no training."""
    x, players = own.data.x_train, own.data.players
    yield "off_manifold", own.off_manifold(draws), None
    if own.data.table is not None:
        yield "copula", own.imputed(ms.imputers.CopulaImputer(x, players), draws), None
        # Every pair weighs every row that may donate.
        few = ms.imputers.EmpiricalImputer(x[:EMPIRICAL_ROWS], players)
        yield "empirical", own.imputed(few, draws), None
        if own.name == "drug":  # Normal draws are no rows of its table.
            exact = own.imputed(ms.imputers.ExactMatchImputer(x, players), 1024)
            yield "empirical_conditional", exact, None
        else:
            yield "gaussian", own.imputed(ms.imputers.GaussianImputer(x, players), draws), None


def learned(
    own: Trained, draws: int, brief: dict[str, int], published: int | None, distil: bool
) -> Iterator[Method]:
    """The VAE, with its masked encoder as well, and surrogates, with their seconds."""
    value, minutes = timed(lambda: own.vae(draws, **brief))
    imputer: Any = value.imputer
    yield "vae", value, minutes
    # The same encoder and decoder, bit for bit, and a masked encoder beside them.
    masked, more = timed(lambda: own.vae(draws, posterior="encoder", **brief))
    yield "vae_encoder", masked, more
    network: Any = masked.imputer
    again = partial(ms.VAEImputer, network.network, own.data.x_train, own.data.players)
    weighted = again(posterior="encoder", importance=True, temper=imputer.temper)
    yield "vae_encoder_weighted", own.imputed(weighted, draws), None
    surrogate, seconds = timed(lambda: own.surrogate(**brief))
    yield "surrogate", surrogate, seconds
    epochs = max(1, round(minutes / seconds * surrogate.training_record["epochs"]))
    yield "surrogate_equal_minutes", *timed(lambda: own.surrogate(max_epochs=epochs))
    if distil:
        teacher = own.imputed(again(bank_size=20_000, temper=imputer.temper), draws=8)
        taught = own.surrogate(teacher=teacher, teacher_pairs=120_000, **brief)
        yield "surrogate_distilled", taught, None
    if published:
        one_cycle = {"learning_rate": 1e-3, "schedule": "one_cycle", "max_epochs": published}
        made = timed(lambda: own.vae(draws, "experiment=paper_vae", **one_cycle))
        yield "vae_as_published", *made


def exact_error(value: ms.ValueFunction, x: Tensor) -> float:
    """Eq. (16) over all coalitions, each with its weight in the Shapley sum."""
    masks = all_coalitions(len(value.players))[:-1]
    weight = ms.laws.SizeUniform(len(value.players)).log_prob(masks).exp()
    total = 0.0
    for rows, numbers in zip(x.split(8), torch.arange(len(x)).split(8), strict=True):
        keys = numbers[:, None] * len(masks) + torch.arange(len(masks))
        gap = value(rows, masks.expand(len(rows), -1, -1), keys) - value.prediction(rows)[:, None]
        total += (gap.square().mean(-1) @ weight).sum().item()
    return total / len(x)


def tables(found: Found) -> list[Table]:
    rows: dict[str, dict[str, Any]] = {}
    ratios: dict[str, dict[str, Any]] = {}
    for name, runs in found.items():
        for method in runs[0]["scores"]:
            each = [run["scores"][method] for run in runs]
            of = {
                kind: spread([one[kind] for one in each], of_mean=True)
                for kind in KINDS
                if kind in each[0]
            }
            rows[f"{name}, {method}"] = of
        kind = "mse_all_coalitions" if name == "drug" else "mse"
        for other in RATIOS:
            pairs = [(run["scores"]["vae"], run["scores"].get(other, {})) for run in runs]
            if all(kind in score for pair in pairs for score in pair):
                share = spread([vae[kind] / score[kind] for vae, score in pairs], of_mean=True)
                ratios[f"{name}, vae / {other}"] = {kind: share}
    return [records("data, method", rows), records("ratio", ratios)]
