"""Every configuration composes and names code that takes its settings."""

import inspect
import re
from pkgutil import resolve_name
from typing import Any

import hydra
import pandas as pd
import pytest
from omegaconf import OmegaConf
from omegaconf.errors import MissingMandatoryValue

import manifold_shap as ms
from manifold_shap.cli import CONF, registry
from manifold_shap.cli.registry import Source
from manifold_shap.cli.targets import baseline, contrastive
from manifold_shap.data import Iris
from manifold_shap.data.base import TensorDataModule
from manifold_shap.tables.schema import Schema
from manifold_shap.training.classifier import NetworkRecipe
from tests.cli.commands import composed, options


@pytest.fixture(scope="module")
def data() -> TensorDataModule:
    module = hydra.utils.instantiate(composed("train", "data=iris").data)
    module.setup()
    return module


@pytest.mark.parametrize("name", options("data"))
def test_every_data_configuration_makes_a_data_module(name: str) -> None:
    needed = {"table": ["data.path=some/table.csv", "data.target=label"]}
    of_files = {each: [f"data.path=some/{each}.csv"] for each in ("image_folder", "series", "text")}
    needed = {**of_files, **needed}.get(name, [])
    config = composed("train", f"data={name}", *needed)
    assert isinstance(hydra.utils.instantiate(config.data), TensorDataModule)
    assert config.data.name == name


@pytest.mark.parametrize("name", options("classifier"))
def test_every_classifier_configuration_makes_a_recipe(name: str) -> None:
    recipe = hydra.utils.instantiate(composed("train", f"classifier={name}").classifier)
    assert isinstance(recipe, NetworkRecipe) or hasattr(recipe, "predict")


@pytest.mark.parametrize("group", ["value_function", "estimator", "trainer", "experiment"])
def test_every_other_configuration_composes(group: str) -> None:
    command = "explain" if group == "estimator" else "train"
    for name in options(group):
        assert composed(command, f"{group}={name}")


def test_drug_is_explained_for_a_forest_unless_told_otherwise() -> None:
    target = "sklearn.ensemble.RandomForestClassifier"
    assert composed("train", "data=drug").classifier._target_ == target
    assert composed("train", "data=drug").classifier.max_features is None
    assert composed("train", "data=drug", "classifier=mlp").classifier._target_ != target


@pytest.mark.parametrize("name", options("value_function"))
def test_settings_of_a_value_function_are_arguments_of_its_target(name: str) -> None:
    settings = registry.defaults("value_function", name)
    assert settings["name"] == name
    others = {"name", "title", "space", "zero_replacement", "draws", "teacher_draws"}
    parameters = inspect.signature(resolve_name(settings["_target_"])).parameters
    if not any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        assert {word for word in settings if word[0] != "_"} - others <= set(parameters)
    assert registry.makes(settings, ms.imputers.Imputer) or registry.makes(
        settings, ms.ValueFunction
    )


def test_what_is_trained_says_what_can_change_without_a_training() -> None:
    surrogate, vae = (Source(registry.defaults("value_function", n)) for n in ("surrogate", "vae"))
    changeable = {"space", "zero_replacement", "draws", "posterior", "temper", "importance"}
    assert changeable | {"bank_size"} <= vae.free
    assert not {"latent", "hidden", "learning_rate", "name"} & vae.free
    assert not (changeable | {"hidden", "network", "patch"}) & surrogate.free
    assert vae.serves_any_model
    assert not surrogate.serves_any_model


def test_the_vae_of_the_paper_changes_settings_that_there_are() -> None:
    settings = composed("train", "experiment=paper_vae").value_function
    assert (settings.name, settings.posterior, settings.fill) == ("vae", "encoder", -1)
    assert set(settings) == set(OmegaConf.load(CONF / "value_function" / "vae.yaml"))


@pytest.mark.parametrize(("name", "jobs"), [("paper_grid", 6), ("paper_vae_grid", 192)])
def test_the_grids_of_the_paper(name: str, jobs: int) -> None:
    grid = OmegaConf.load(CONF / "experiment" / f"{name}.yaml")
    params = {str(key): str(choices) for key, choices in grid.hydra.sweeper.params.items()}
    found = 1
    for key, choices in params.items():
        assert OmegaConf.select(composed("train", f"experiment={name}"), key) is not None
        values = re.findall(r"\[[^]]*\]|[^,]+", choices)
        found *= len(values)
        for value in values:
            composed("train", f"experiment={name}", f"{key}={value}")
    assert found == jobs


def test_a_setting_without_a_default_is_needed_to_train() -> None:
    with pytest.raises(MissingMandatoryValue, match=r"data\.path"):
        registry.plain(composed("train", "data=table", "data.name=a"))
    assert registry.plain(composed("explain", "data=table", "data.name=a"), trained=True)


@pytest.mark.parametrize(
    ("setting", "error"),
    [
        ({}, "but got None and None"),
        ({"against": "setosa", "rows": [1]}, r"but got 'setosa' and \[1\]"),
        ({"against": "rose"}, r"`against` to be one of \['setosa', .*\] but got 'rose'"),
        ({"rows": [200]}, r"rows from 0 to 104 but got \[200\]"),
    ],
)
def test_contrasts_that_cannot_be_are_refused(
    data: TensorDataModule, setting: dict[str, Any], error: str
) -> None:
    with pytest.raises(ValueError, match=error):
        contrastive(data, **setting)


def test_reference_points_are_members_of_the_table() -> None:
    table = pd.DataFrame(
        {
            "age": [20.0, 30.0, 70.0, 40.0],
            "colour": ["red", "blue", "red", "green"],
            "member": ["no", "yes", "yes", "yes"],
        }
    )
    data = Iris()
    data.schema = Schema.fit(table)
    data.players = data.schema.players
    data.x_train = data.schema.encode(table)
    for point, age in (("mean", 40.0), ("median", 30.0), ("zero", 0.0)):
        (row,) = data.schema.decode(baseline(data, point).reference).to_dict("records")
        assert row == {"age": pytest.approx(age, abs=1e-4), "colour": "red", "member": "yes"}
    with pytest.raises(ValueError, match=r"one of .* but got 'mode'"):
        baseline(data, "mode")
