"""How good every value function is, on the same test rows and coalitions (Frye et al. Eq. 16).

    MANIFOLD_SHAP_DATA=... python benchmarks/imputers.py --out benchmarks/results

For each data set and seed (of the split, the classifier and the training) it trains a classifier, a
surrogate and a masked-encoder VAE with the default settings of the commands, gives the surrogate
once more as many minutes as the VAE took, and scores them all beside the imputers that need no
training. With `--distil` the VAE teaches a surrogate as well; with `--paper` a VAE is trained as
published, but at 1e-3 on one cycle instead of 1e-4 for 2,000 epochs. Sampled ones draw K = 64
completions. On the drug data, whose ten features are binary, the figure is also computed over all
1,023 coalitions, exactly.

`--out` names a folder: `imputers_<data>.json` in it is written after every seed.
"""

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

import manifold_shap as ms
from benchmarks.papers.table1 import PAPER
from benchmarks.papers.trained import PRECISION, Trained
from benchmarks.timing import timed
from manifold_shap.coalitions import SizeUniform, all_coalitions

DRAWS = 64
EMPIRICAL_ROWS = 5000
PAPER_EPOCHS = 50
EXACTLY = ("off_manifold", "empirical_conditional", "vae", "surrogate")


def exact_error(value: ms.ValueFunction, x: Tensor) -> float:
    """Eq. (16) over all coalitions, each with its weight in the Shapley sum."""
    masks = all_coalitions(len(value.players))[:-1]
    weight = SizeUniform(len(value.players)).log_prob(masks).exp()
    total = 0.0
    for rows, numbers in zip(x.split(8), torch.arange(len(x)).split(8), strict=True):
        keys = numbers[:, None] * len(masks) + torch.arange(len(masks))
        gap = value(rows, masks.expand(len(rows), -1, -1), keys) - value.prediction(rows)[:, None]
        total += (gap.square().mean(-1) @ weight).sum().item()
    return total / len(x)


class Bench:
    """One data set and seed: what is trained, and what is scored."""

    def __init__(self, name: str, seed: int, rows: int | None = None) -> None:
        self.name = name
        self.trained = Trained(name, seed)
        if name == "drug":
            self.trained.tabulate()
        self.data = self.trained.data
        self.x = self.data.x_test[:rows]
        self.mask = ms.shapley_pairs(len(self.x), len(self.data.players), seed=seed)
        self.scores: dict[str, dict[str, float]] = {}

    def score(self, name: str, value: ms.ValueFunction, **more: float) -> None:
        found, took = timed(
            lambda: ms.mean_squared_error(value, self.x, self.mask, batch_size=2**16)
        )
        figures = {
            "mse": found.mse,
            "standard_error_over_rows": found.standard_error,
            "debiased": found.debiased,
            "effective_draws": found.effective_draws,
            "score_seconds": took,
            **more,
        }
        if self.name == "drug" and name in EXACTLY:
            figures["mse_all_coalitions"] = exact_error(value, self.x)
        self.scores[name] = figures
        tqdm.write(f"{self.name} seed {self.trained.seed} {name}: {json.dumps(figures)}")

    def imputed(self, name: str, imputer: ms.Imputer, draws: int = DRAWS) -> None:
        self.score(name, self.trained.imputed(imputer, draws))

    def surrogate(self, name: str, **changes: Any) -> float:
        """Train and score one; returns its seconds per epoch."""
        value, seconds = timed(lambda: self.trained.surrogate(**changes))
        epochs = value.training["epochs"]
        self.score(name, value, train_seconds=seconds, epochs=epochs)
        return seconds / epochs

    def vae(self, name: str, *overrides: str, **changes: Any) -> tuple[ms.VAEImputer, float]:
        """Train and score one; returns its imputer, and its seconds."""
        value, seconds = timed(lambda: self.trained.vae(DRAWS, *overrides, **changes))
        imputer: Any = value.imputer
        epochs = imputer.training_record["epochs"]
        self.score(name, value, train_seconds=seconds, epochs=epochs, temper=imputer.temper)
        return imputer, seconds

    def other_posterior(self, imputer: ms.VAEImputer, name: str, **chosen: Any) -> None:
        """The same network, asked for p(z|x_S) in another way."""
        self.imputed(name, self.again(imputer, **chosen))

    def again(self, imputer: ms.VAEImputer, **chosen: Any) -> ms.VAEImputer:
        return ms.VAEImputer(imputer.network, self.data.x_train, self.data.players, **chosen)

    def classical(self) -> None:
        x, players = self.data.x_train, self.data.players
        self.imputed("off_manifold", ms.MarginalImputer(x, players))
        if self.data.schema is None:
            return
        self.imputed("copula", ms.CopulaImputer(x, players))
        # Every pair weighs every row that may donate.
        self.imputed("empirical", ms.EmpiricalImputer(x[:EMPIRICAL_ROWS], players))
        if self.name == "drug":  # Normal draws are no rows of its table.
            self.imputed("empirical_conditional", ms.ExactMatchImputer(x, players), draws=1024)
        else:
            self.imputed("gaussian", ms.GaussianImputer(x, players))


def measure(bench: Bench, paper: bool, distil: bool) -> dict[str, dict[str, float]]:
    """Train and score everything; the VAE and the surrogate get equal minutes."""
    bench.classical()
    imputer, seconds = bench.vae("vae")
    weighted = {"posterior": "encoder", "importance": True, "temper": imputer.temper}
    bench.other_posterior(imputer, "vae_encoder", posterior="encoder")
    bench.other_posterior(imputer, "vae_encoder_weighted", **weighted)
    per_epoch = bench.surrogate("surrogate")
    bench.surrogate("surrogate_equal_minutes", max_epochs=max(1, round(seconds / per_epoch)))
    if distil:
        small = bench.again(imputer, bank_size=20_000, temper=imputer.temper)
        teacher = bench.trained.imputed(small, draws=8)
        bench.surrogate("surrogate_distilled", teacher=teacher, teacher_pairs=120_000)
    if paper:
        brief = {"learning_rate": 1e-3, "schedule": "one_cycle", "max_epochs": PAPER_EPOCHS}
        bench.vae("vae_as_published", "experiment=paper_vae", **brief)
    return bench.scores


def table(name: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Means and standard errors over seeds, and the ratios that are aimed at."""
    rows: dict[str, Any] = {"paper": {method: mse for method, (mse, _) in PAPER[name].items()}}
    for method in runs[0]["scores"]:
        kinds = ["mse", "debiased", "mse_all_coalitions", "train_seconds"]
        rows[method] = {
            kind: spread([run["scores"][method][kind] for run in runs])
            for kind in kinds
            if kind in runs[0]["scores"][method]
        }
    return {**rows, "ratios": ratios(name, runs)}


def ratios(name: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    kind = "mse_all_coalitions" if name == "drug" else "mse"
    against = ["surrogate", "surrogate_equal_minutes", "empirical_conditional"]
    return {
        f"vae / {other}": spread(
            [run["scores"]["vae"][kind] / run["scores"][other][kind] for run in runs]
        )
        for other in against
        if kind in runs[0]["scores"].get(other, {})
    }


def spread(figures: list[float]) -> dict[str, float | None]:
    error = statistics.stdev(figures) / len(figures) ** 0.5 if len(figures) > 1 else None
    return {"mean": statistics.mean(figures), "standard_error": error}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=list(PAPER), choices=list(PAPER))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--rows", type=int, default=None, help="test rows; by default all")
    parser.add_argument("--paper", action="store_true", help="train the published VAE as well")
    parser.add_argument("--distil", action="store_true", help="a surrogate from the VAE as well")
    parser.add_argument("--out", type=Path, help="folder of the results")
    chosen = parser.parse_args()
    for name in chosen.data:
        runs: list[dict[str, Any]] = []
        for seed in chosen.seeds:
            bench = Bench(name, seed, chosen.rows)
            scores = measure(bench, chosen.paper, chosen.distil)
            runs.append({"seed": seed, "accuracy": bench.trained.accuracy, "scores": scores})
            report = {
                "data": name,
                "precision": PRECISION.get(name, "32-true"),
                "draws": DRAWS,
                "torch": torch.__version__,
                "threads": torch.get_num_threads(),
                "table": table(name, runs),
                "runs": runs,
            }
            if chosen.out:
                text = json.dumps(report, indent=2) + "\n"
                (chosen.out / f"imputers_{name}.json").write_text(text)
        print(json.dumps({name: report["table"]}, indent=2))


if __name__ == "__main__":
    main()
