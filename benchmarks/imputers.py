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
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import OmegaConf
from torch import Tensor
from tqdm import tqdm

import manifold_shap as ms
from manifold_shap.coalitions import SizeUniform, all_coalitions
from manifold_shap.data.base import TensorDataModule
from manifold_shap.training.classifier import accuracy, fit_classifier, load_classifier

CONF = Path(__file__).resolve().parent.parent / "conf"
DRAWS = 64
EMPIRICAL_ROWS = 5000
PAPER_EPOCHS = 50
# Products in half precision, for the trainings of one data set and all its methods alike.
PRECISION = {"mnist": "bf16-mixed"}
EXACTLY = ("off_manifold", "empirical_conditional", "vae", "surrogate")
PAPER = {
    "mnist": (0.0448, 0.0257, 0.0121),
    "drug": (0.0634, 0.0536, 0.0441),
    "abalone": (0.0647, 0.0293, 0.0200),
    "census": (0.0344, 0.0300, 0.0250),
}


def settings(data: str, value_function: str, seed: int, *overrides: str) -> dict[str, Any]:
    """The settings of the commands, as plain values."""
    chosen = [f"data={data}", f"value_function={value_function}", f"seed={seed}", *overrides]
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose("train", chosen)
    return OmegaConf.to_container(cfg, resolve=True)  # type: ignore[return-value]


def keep(chosen: dict[str, Any], *dropped: str) -> dict[str, Any]:
    gone = {"name", "output", "draws", "teacher", "teacher_pairs", "teacher_share", "teacher_draws"}
    return {key: entry for key, entry in chosen.items() if key not in gone | set(dropped)}


class Tabulated:
    """The same model on binary rows, computed once for each of the 2^n of them."""

    def __init__(self, model: Any, players: int) -> None:
        self.power = 2 ** torch.arange(players)
        self.table = model(all_coalitions(players).float()).exp()

    def __call__(self, x: Tensor) -> Tensor:
        return self.table[(x.long() * self.power).sum(1)]


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

    def __init__(self, name: str, seed: int, rows: int | None, precision: str) -> None:
        self.name, self.seed = name, seed
        self.trainer = {"accelerator": "cpu", "precision": precision}
        self.settings = settings(name, "surrogate", seed)
        recipe = settings(name, "surrogate", seed)["classifier"]
        self.data: TensorDataModule = instantiate(self.settings["data"])
        self.data.setup()
        with tempfile.TemporaryDirectory() as place:
            fit_classifier(instantiate(recipe), self.data, place, {"accelerator": "cpu"})
            self.model: Any = load_classifier(Path(place), self.data)
        self.accuracy = accuracy(self.model, self.data.x_test, self.data.y_test)
        self.classes = self.model.classes
        if name == "drug":
            table = Tabulated(self.model, len(self.data.players))
            self.model = ms.Model(table, self.classes, "probabilities")
        self.x = self.data.x_test[:rows]
        self.mask = ms.shapley_pairs(len(self.x), len(self.data.players), seed=seed)
        self.scores: dict[str, dict[str, float]] = {}

    def score(self, name: str, value: ms.ValueFunction, **more: float) -> None:
        start = time.perf_counter()
        found = ms.mean_squared_error(value, self.x, self.mask, batch_size=2**16)
        figures = {
            "mse": found.mse,
            "standard_error_over_rows": found.standard_error,
            "debiased": found.debiased,
            "effective_draws": found.effective_draws,
            "score_seconds": time.perf_counter() - start,
            **more,
        }
        if self.name == "drug" and name in EXACTLY:
            figures["mse_all_coalitions"] = exact_error(value, self.x)
        self.scores[name] = figures
        tqdm.write(f"{self.name} seed {self.seed} {name}: {json.dumps(figures)}")

    def imputed(self, name: str, imputer: ms.Imputer, draws: int = DRAWS, **more: float) -> Any:
        value = ms.imputed_value(self.model, imputer, draws=draws, seed=self.seed)
        self.score(name, value, **more)
        return value

    def surrogate(self, name: str, epochs: int | None = None, **changes: Any) -> float:
        chosen = {**keep(self.settings["value_function"]), **changes}
        chosen["max_epochs"] = epochs or chosen["max_epochs"]
        start = time.perf_counter()
        value = ms.fit_surrogate(self.model, **self._rows(), **chosen, **self._run())
        seconds = time.perf_counter() - start
        self.score(name, value, train_seconds=seconds, epochs=value.training["epochs"])
        return seconds / value.training["epochs"]

    def vae(self, name: str, *overrides: str, **changes: Any) -> tuple[Any, float]:
        chosen = settings(self.name, "vae", self.seed, *overrides)["value_function"]
        start = time.perf_counter()
        own = {**keep(chosen, "zero_replacement"), **changes}
        imputer = ms.fit_imputer(**self._rows(), model=self.model, **own, **self._run())
        seconds = time.perf_counter() - start
        record = imputer.training_record
        more = {"train_seconds": seconds, "epochs": record["epochs"], "temper": imputer.temper}
        return self.imputed(name, imputer, **more), seconds

    def other_posterior(self, value: Any, name: str, **chosen: Any) -> None:
        """The same network, asked for p(z|x_S) in another way."""
        self.imputed(name, self.again(value, **chosen))

    def again(self, value: Any, **chosen: Any) -> ms.VAEImputer:
        network = value.imputer.network
        return ms.VAEImputer(network, self.data.x_train, self.data.players, **chosen)

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

    def _rows(self) -> dict[str, Any]:
        return {
            "x_train": self.data.x_train,
            "x_validation": self.data.x_validation,
            "players": self.data.players,
            "schema": self.data.schema,
        }

    def _run(self) -> dict[str, Any]:
        return {"seed": self.seed, "trainer": self.trainer}


def measure(bench: Bench, paper: bool, distil: bool) -> dict[str, dict[str, float]]:
    """Train and score everything; the VAE and the surrogate get equal minutes."""
    bench.classical()
    value, seconds = bench.vae("vae")
    bench.other_posterior(value, "vae_encoder", posterior="encoder")
    bench.other_posterior(
        value,
        "vae_encoder_weighted",
        posterior="encoder",
        importance=True,
        temper=value.imputer.temper,
    )
    per_epoch = bench.surrogate("surrogate")
    bench.surrogate("surrogate_equal_minutes", epochs=max(1, round(seconds / per_epoch)))
    if distil:
        small = bench.again(value, bank_size=20_000, temper=value.imputer.temper)
        teacher = ms.imputed_value(bench.model, small, draws=8, seed=bench.seed)
        bench.surrogate("surrogate_distilled", teacher=teacher, teacher_pairs=120_000)
    if paper:
        brief = {"learning_rate": 1e-3, "schedule": "one_cycle", "max_epochs": PAPER_EPOCHS}
        bench.vae("vae_as_published", "experiment=paper_vae", **brief)
    return bench.scores


def table(name: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Means and standard errors over seeds, and the ratios that are aimed at."""
    rows: dict[str, Any] = {
        "paper": dict(zip(("off", "vae", "surrogate"), PAPER[name], strict=True))
    }
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
        precision, runs = PRECISION.get(name, "32-true"), []
        for seed in chosen.seeds:
            bench = Bench(name, seed, chosen.rows, precision)
            scores = measure(bench, chosen.paper, chosen.distil)
            runs.append({"seed": seed, "accuracy": bench.accuracy, "scores": scores})
            report = {
                "data": name,
                "precision": precision,
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
