"""The commands in this process, with settings that take a second."""

import json
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.types import RunMode
from omegaconf import DictConfig, open_dict

import manifold_shap as ms
from manifold_shap.cli import CONF
from manifold_shap.cli import explain as explaining
from manifold_shap.cli import train as training

CLASSIFIER = ["classifier.hidden=[64]", "classifier.max_epochs=2"]
QUICK = [*CLASSIFIER, "value_function.hidden=[64]", "value_function.max_epochs=2"]
FOREST = ["classifier=random_forest", "classifier.n_estimators=3", "+classifier.max_depth=3"]
SHORT = ["+trainer.limit_train_batches=5"]
TINY = [*SHORT, "value_function.hidden=[16]", "value_function.max_epochs=1"]
TINY_VAE = ["value_function=vae", *TINY, "value_function.latent=2", "value_function.draws=4"]
ORDERS = ["estimator=permutation", "estimator.permutations=4", "instances=2"]


def composed(command: str, *words: str) -> tuple[DictConfig, DictConfig]:
    """Settings, and Hydra's own."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config = compose(command, [*words], return_hydra_config=True)
    with open_dict(config):
        job = config.pop("hydra")
    job.overrides.task, job.mode = [*words], RunMode.RUN
    return config, job


def train(place: Path, *words: str) -> dict[str, Any]:
    return training.train(*composed("train", f"runs_dir='{place}'", *words))


def explain(place: Path, *words: str) -> dict[str, Any]:
    return explaining.explain(*composed("explain", f"runs_dir='{place}'", *words))


def explained(place: Path, name: str = "surrogate", data: str = "digits") -> ms.Explanation:
    (store,) = (place / data / name).glob("explanations.zarr*")
    return ms.Explanation.load(store)


def read(place: Path, *parts: str) -> dict[str, Any]:
    return json.loads(place.joinpath(*parts).read_text())


def options(group: str) -> list[str]:
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))
