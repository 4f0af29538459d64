"""The commands' sweeps `experiment=paper_grid` (surrogates) and `paper_vae_grid` (VAEs of the
paper's width and rate) on the drug data. The point with the smallest error on validation rows is
chosen; here a training ends where this error has stopped falling.
"""

import json
import math
import subprocess
import sys
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from statistics import correlation
from tempfile import TemporaryDirectory
from typing import Any

from omegaconf import OmegaConf

from benchmarks import draw
from benchmarks.report import ROOT, Claim, Figures, Found

TITLE = "The grid of hyperparameters, as a sweep"
SOURCE = "Frye et al. (2021), App. B.1, Eqs. (21) and (22), Table 2"
QUICK = {"epochs": 1, "vae_epochs": 1, "hidden": [512], "latent": [2, 4], "beta": [0.5]}
SURROGATE, VAE = "surrogate", "VAE"
NAMES = {"hidden": "hidden", "learning_rate": "rate", "latent": "latent", "components": "modes",
         "beta": "β"}  # fmt: skip
OF = {SURROGATE: ("hidden", "learning_rate"), VAE: tuple(NAMES)}
# What Table 2 has for these data.
CHOSEN = {
    SURROGATE: {"hidden": 512, "learning_rate": 1e-3},
    VAE: {"hidden": 128, "learning_rate": 1e-3, "latent": 4, "components": 1, "beta": 0.5},
}


def run(
    epochs: int = 100,  # of a surrogate at most, of 100 batches each
    vae_epochs: int = 30,
    hidden: Sequence[int] = (128, 256, 512),  # of the surrogates
    latent: Sequence[int] = (2, 4, 8, 16),
    beta: Sequence[float] = (0.05, 0.1, 0.5, 1.0),
) -> dict[str, Any]:
    """Each point of both grids; of the VAE's those with the widths and the rate of Table 2."""
    best = CHOSEN[VAE]
    width = f"[{best['hidden']},{best['hidden']}]"
    of_vae = {
        "hidden": width, "learning_rate": best["learning_rate"], "max_epochs": vae_epochs,
        "patience": 5, "latent": listed(latent), "beta": listed(beta),
    }  # fmt: skip
    widths = listed([f"[{one},{one}]" for one in hidden])
    of_surrogate = {"hidden": widths, "max_epochs": epochs, "patience": 10}
    return {SURROGATE: sweep("paper_grid", of_surrogate), VAE: sweep("paper_vae_grid", of_vae)}


def listed(some: Sequence[Any]) -> str:
    return ",".join(map(str, some))


def sweep(experiment: str, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What every job of a sweep has measured, and with which settings."""
    with TemporaryDirectory() as place:
        words = [f"value_function.{name}={value}" for name, value in settings.items()]
        command = [sys.executable, "train.py", "-m", f"experiment={experiment}", "data=drug"]
        subprocess.run([*command, f"runs_dir={place}", *words], cwd=ROOT, check=True)
        jobs = sorted(Path(place).glob("drug/*-sweep/*/metrics.json"))
        return [job(path.parent) for path in jobs]


def job(folder: Path) -> dict[str, Any]:
    settings = OmegaConf.select(OmegaConf.load(folder / "config.yaml"), "value_function")
    metrics = json.loads((folder / "metrics.json").read_text())
    point = {name: settings[name] for name in NAMES if name in settings}
    errors = {"mse_validation": metrics["mse_validation"], "mse_test": metrics["mse"]}
    return {**point, "hidden": settings["hidden"][0], **errors}


def claims(found: Found) -> list[Claim]:
    made = []
    for name, points in found.items():
        best, paper = min(points, key=validated), CHOSEN[name]
        papers = [validated(p) / validated(best) - 1 for p in points if same(p, paper)]
        most = max(map(validated, points)) / validated(best) - 1
        both = correlation([validated(p) for p in points], [p["mse_test"] for p in points])
        made.append(
            Claim(f"the point with the smallest error on validation rows, {name}",
                  f"{called(name, paper)}, Table 2", called(name, best), same(best, paper),
                  f"the paper's point is {next(iter(papers), math.nan):.1%} above the best, the "
                  f"worst {most:.1%}; errors of validation and test rows correlate by {both:.2f}"),
        )  # fmt: skip
    return made


def validated(point: Mapping[str, Any]) -> float:
    return float(point["mse_validation"])


def same(point: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(point[name] == value for name, value in other.items())


def called(name: str, point: Mapping[str, Any]) -> str:
    return ", ".join(f"{NAMES[key]} {point[key]:g}" for key in OF[name])


def figures(found: Found) -> Figures:
    """Errors along the grids; a dashed line is at the paper's choice, in its colour."""
    panels = [along("surrogate", found[SURROGATE], "hidden", "learning_rate", CHOSEN[SURROGATE])]
    for modes in (1, 2):
        points = [point for point in found[VAE] if point["components"] == modes]
        paper = CHOSEN[VAE] if modes == CHOSEN[VAE]["components"] else {}
        panels.append(along(f"VAE, modes {modes}", points, "beta", "latent", paper))
    return {"": draw.curves(panels)}


def along(
    title: str, points: Sequence[Found], x: str, colour: str, paper: Mapping[str, Any]
) -> draw.Panel:
    lines: dict[str, list[tuple[float, float]]] = {}
    for point in sorted(points, key=itemgetter(colour, x)):
        line = lines.setdefault(f"{NAMES[colour]} {point[colour]:g}", [])
        line.append((point[x], validated(point)))
    marks = {f"{NAMES[colour]} {paper[colour]:g}": paper[x]} if paper else {}
    words = f"{NAMES[x]} (dashed: paper)"
    return draw.Panel(title, words, "MSE, validation rows", lines, marks, "x" * (x == "beta"))
