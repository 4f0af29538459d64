"""Every configuration composes, and names code that takes its settings."""

import inspect
import re

import pandas as pd
import pytest
from hydra.utils import get_method, instantiate
from omegaconf import OmegaConf

from manifold_shap import data as data_sets
from manifold_shap.cli import CONF, targets
from manifold_shap.data import Data
from manifold_shap.tables.table import Table
from manifold_shap.training.classifier import NetworkRecipe
from tests.cli.commands import composed, options


@pytest.mark.parametrize("name", options("data"))
def test_every_data_set_takes_the_settings_of_its_file(name: str) -> None:
    of_files = name in ("table", "text", "series", "image_folder")
    config = composed("train", f"data={name}", *([f"data.path=some/{name}.csv"] * of_files))[0].data
    assert config.name == config.source == name
    own = set(config) - {"_target_", "source"} - set(inspect.signature(Data).parameters)
    assert own <= set(inspect.signature(data_sets.SOURCES[name]).parameters)


@pytest.mark.parametrize("name", options("classifier"))
def test_every_classifier_configuration_makes_a_recipe(name: str) -> None:
    recipe = instantiate(composed("train", f"classifier={name}")[0].classifier)
    assert isinstance(recipe, NetworkRecipe) or hasattr(recipe, "predict")


@pytest.mark.parametrize("group", ["value_function", "estimator", "experiment", "engine", "model"])
def test_every_other_configuration_composes_and_names_code(group: str) -> None:
    for name in options(group):
        config = composed("explain", f"{group}={name}")[0]
        if group != "experiment":
            parameters = inspect.signature(get_method(config[group]._target_)).parameters
            words = {word for word in config[group] if word[0] != "_"}
            words -= {"name", "title", "draws", "teacher", "returns", "classes"}
            loose = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
            assert loose or words <= set(parameters), name


@pytest.mark.parametrize(("name", "jobs"), [("paper_grid", 6), ("paper_vae_grid", 192)])
def test_the_grids_of_the_paper(name: str, jobs: int) -> None:
    grid = OmegaConf.load(CONF / "experiment" / f"{name}.yaml")
    found = 1
    for key, choices in grid.hydra.sweeper.params.items():
        values = re.findall(r"\[[^]]*\]|[^,]+", str(choices))
        found *= len(values)
        for value in values:
            composed("train", f"experiment={name}", f"{key}={value}")
    assert found == jobs


def test_reference_points_are_members_of_the_table() -> None:
    table = pd.DataFrame(
        {
            "age": [20.0, 30.0, 70.0, 40.0],
            "colour": ["red", "blue", "red", "green"],
            "member": ["no", "yes", "yes", "yes"],
        }
    )
    data = data_sets.load("iris")
    data.table = Table.fit(table)
    data.players, data.x_train = data.table.players, data.table.rows(table)
    for point, age in (("mean", 40.0), ("zero", 20.0)):
        made = targets.baseline(data, point)
        (row,) = data.table.frame(made.reference).to_dict("records")
        assert row == {"age": pytest.approx(age, abs=1e-4), "colour": "red", "member": "yes"}
