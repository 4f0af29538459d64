"""How good every value function is, on the same test rows and coalitions (Frye et al., Eq. 16).

For each data set and seed (of the split, the classifier and the training): the default classifier,
the default surrogate and masked-encoder VAE, the surrogate once more for as many minutes as the VAE
took, and imputers that need no training. The drug data have ten binary features, and its figure is
computed over all 1,023 coalitions as well, exactly.
"""

import statistics
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

import manifold_shap as ms
from benchmarks.report import Experiment, Found, Table, records
from benchmarks.support.scores import scored
from benchmarks.support.trained import Trained
from benchmarks.timing import timed
from manifold_shap.coalitions import all_coalitions

EMPIRICAL_ROWS = 5000
EXACTLY = ("off_manifold", "empirical_conditional", "vae", "surrogate")
KINDS = ("mse", "debiased", "mse_all_coalitions", "train_seconds")
RATIOS = ("surrogate", "surrogate_equal_minutes", "empirical_conditional")


def run(
    data: Sequence[str] = ("drug", "abalone", "census", "mnist"),  # which data sets
    seeds: Sequence[int] = (0, 1, 2),  # of the split, the classifier and the trainings
    rows: int | None = None,  # test rows; None: all
    draws: int = 64,  # completions of a coalition
    published: int
    | None = None,  # epochs of a VAE as published, but at 1e-3 on one cycle; None: there is none
    distil: bool = False,  # whether the VAE teaches a surrogate as well
) -> dict[str, Any]:
    """Scores of every data set and seed."""
    found: dict[str, Any] = {}
    for name in data:
        for seed in seeds:
            trained = Trained(name, seed)
            if name == "drug":
                trained.tabulate()
            scores = Scores(trained, rows, draws)
            scores.classical()
            scores.learned(published, distil)
            one = {"seed": seed, "accuracy": trained.accuracy, "scores": scores.found}
            found.setdefault(name, []).append(one)
    return found


class Scores:
    """Scores of one data set and seed, by method."""

    def __init__(self, trained: Trained, rows: int | None, draws: int) -> None:
        self.trained, self.draws = trained, draws
        self.x = trained.data.x_test[:rows]
        self.mask = ms.shapley_pairs(len(self.x), len(trained.data.players), seed=trained.seed)
        self.found: dict[str, dict[str, float]] = {}

    def add(self, name: str, value: ms.ValueFunction, **more: float) -> None:
        figures = {**scored(value, self.x, self.mask), **more}
        if self.trained.name == "drug" and name in EXACTLY:
            figures["mse_all_coalitions"] = exact_error(value, self.x)
        self.found[name] = figures
        print(f"{self.trained.name} {self.trained.seed} {name}: {figures}", flush=True)

    def classical(self) -> None:
        data, trained = self.trained.data, self.trained
        x, players = data.x_train, data.players
        imputers: dict[str, tuple[Any, int]] = {}
        imputers["off_manifold"] = ms.MarginalImputer(x, players), self.draws
        if data.schema is not None:
            imputers["copula"] = ms.CopulaImputer(x, players), self.draws
            # Every pair weighs every row that may donate.
            few = ms.EmpiricalImputer(x[:EMPIRICAL_ROWS], players)
            imputers["empirical"] = few, self.draws
            if trained.name == "drug":  # Normal draws are no rows of its table.
                imputers["empirical_conditional"] = ms.ExactMatchImputer(x, players), 1024
            else:
                imputers["gaussian"] = ms.GaussianImputer(x, players), self.draws
        for name, (imputer, draws) in imputers.items():
            self.add(name, trained.imputed(imputer, draws))

    def learned(self, published: int | None, distil: bool) -> None:
        """The VAE, the same network with other posteriors, and surrogates."""
        trained, x = self.trained, self.trained.data.x_train
        value, minutes = timed(lambda: trained.vae(self.draws))
        imputer: Any = value.imputer
        self.add("vae", value, train_seconds=minutes)

        def again(**chosen: Any) -> Any:
            return ms.VAEImputer(imputer.network, x, trained.data.players, **chosen)

        weighted = {"posterior": "encoder", "importance": True, "temper": imputer.temper}
        for name, chosen in {
            "vae_encoder": {"posterior": "encoder"},
            "vae_encoder_weighted": weighted,
        }.items():
            self.add(name, trained.imputed(again(**chosen), self.draws))
        surrogate, seconds = timed(trained.surrogate)
        self.add("surrogate", surrogate, train_seconds=seconds)
        epochs = max(1, round(minutes / seconds * surrogate.training["epochs"]))
        surrogate, seconds = timed(lambda: trained.surrogate(max_epochs=epochs))
        self.add("surrogate_equal_minutes", surrogate, train_seconds=seconds)
        if distil:
            teacher = trained.imputed(again(bank_size=20_000, temper=imputer.temper), draws=8)
            taught = trained.surrogate(teacher=teacher, teacher_pairs=120_000)
            self.add("surrogate_distilled", taught)
        if published:
            brief = {"learning_rate": 1e-3, "schedule": "one_cycle", "max_epochs": published}
            value, minutes = timed(lambda: trained.vae(self.draws, "experiment=paper_vae", **brief))
            self.add("vae_as_published", value, train_seconds=minutes)


def exact_error(value: ms.ValueFunction, x: Tensor) -> float:
    """Eq. (16) over all coalitions, each with its weight in the Shapley sum."""
    masks = all_coalitions(len(value.players))[:-1]
    weight = ms.SizeUniform(len(value.players)).log_prob(masks).exp()
    total = 0.0
    for rows, numbers in zip(x.split(8), torch.arange(len(x)).split(8), strict=True):
        keys = numbers[:, None] * len(masks) + torch.arange(len(masks))
        gap = value(rows, masks.expand(len(rows), -1, -1), keys) - value.prediction(rows)[:, None]
        total += (gap.square().mean(-1) @ weight).sum().item()
    return total / len(x)


def spread(figures: Sequence[float]) -> tuple[float, float | None]:
    """Mean, and standard error over seeds."""
    error = statistics.stdev(figures) / len(figures) ** 0.5 if len(figures) > 1 else None
    return statistics.mean(figures), error


def tables(found: Found) -> list[Table]:
    rows: dict[str, dict[str, Any]] = {}
    ratios: dict[str, dict[str, Any]] = {}
    for name, runs in found.items():
        for method in runs[0]["scores"]:
            each = [run["scores"][method] for run in runs]
            of = {kind: spread([one[kind] for one in each]) for kind in KINDS if kind in each[0]}
            rows[f"{name}, {method}"] = of
        kind = "mse_all_coalitions" if name == "drug" else "mse"
        for other in RATIOS:
            pairs = [(run["scores"]["vae"], run["scores"].get(other, {})) for run in runs]
            if all(kind in score for pair in pairs for score in pair):
                share = spread([vae[kind] / score[kind] for vae, score in pairs])
                ratios[f"{name}, vae / {other}"] = {kind: share}
    return [records("data, method", rows), records("ratio", ratios)]


EXPERIMENT = Experiment(
    title="How good every imputer is",
    run=run,
    quick={"data": ["drug"], "seeds": [0], "rows": 100, "draws": 8},
    tables=tables,
    errors="standard errors over seeds",
)
