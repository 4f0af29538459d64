"""Wiring: every value function goes through both commands; comparisons, orderings, teachers."""

import inspect
import json
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import hydra
import pandas as pd
import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

import explain as explain_command
import manifold_shap as ms
import train as train_command
from manifold_shap.cli import directories, report
from manifold_shap.cli.orders import Orders
from manifold_shap.cli.references import chosen_rows, point_of
from manifold_shap.cli.value_functions import IMPUTERS, MADE, TRAINED
from manifold_shap.data import Iris
from manifold_shap.data.base import TensorDataModule
from manifold_shap.io.files import load_checkpoint, save_checkpoint
from manifold_shap.tables.schema import Schema

CONF = Path(__file__).parents[2] / "conf"
NAMES = sorted(path.stem for path in (CONF / "value_function").glob("*.yaml"))
FOREST = ["classifier=random_forest", "classifier.n_estimators=3", "+classifier.max_depth=3"]
TINY = ["value_function.hidden=[16]", "value_function.max_epochs=1"]
TINY_VAE = ["value_function=vae", *TINY, "value_function.latent=2", "value_function.draws=4"]
OWN = {
    "surrogate": TINY,
    "vae": TINY_VAE[1:],
    "baseline": [],
    "contrastive": ["value_function.draws=4", "value_function.against=setosa"],
    "retrained": [],
}
ORDERING = [["petal length (cm)", "petal width (cm)"], ["sepal length (cm)"], ["sepal width (cm)"]]


def composed(command: str, *overrides: str) -> DictConfig:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose(command, ["data=iris", "progress=false", *overrides])


def train(place: Path, *overrides: str) -> dict[str, Any]:
    words = [f"runs_dir={place}", "+trainer.limit_train_batches=5", *FOREST, *overrides]
    config = composed("train", *words)
    train_command.train(config)
    return json.loads((place / "iris" / config.value_function.name / "metrics.json").read_text())


def explain(place: Path, *overrides: str, **settings: Any) -> dict[str, Any]:
    """Settings are lists of names that the command line would have to quote."""
    config = composed("explain", f"runs_dir={place}", "estimator=exact", "instances=2", *overrides)
    for name, setting in settings.items():
        config[name] = setting
    given = [override.split("=")[0] for override in overrides]
    return explain_command.explain(config, given)


def explained(place: Path, name: str) -> ms.Explanation:
    return ms.Explanation.load(place / "iris" / name / "explanations.zarr")


@pytest.fixture(scope="module", autouse=True)
def _few_pairs() -> Iterator[None]:
    """Scores of a few hundred pairs instead of ten thousand."""
    with pytest.MonkeyPatch.context() as patch:
        few = partial(ms.shapley_pairs, least=300)
        patch.setattr("manifold_shap.cli.train.shapley_pairs", few)
        yield


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A forest for iris, a surrogate and a VAE."""
    place = tmp_path_factory.mktemp("runs")
    train(place, *TINY)
    train(place, *TINY_VAE)
    return place


@pytest.fixture
def with_vae(runs: Path, tmp_path: Path) -> Path:
    """A copy of the forest and the VAE, to be changed."""
    for part in ("classifier", "vae"):
        shutil.copytree(runs / "iris" / part, tmp_path / "iris" / part)
    return tmp_path


@pytest.fixture(scope="module")
def data() -> TensorDataModule:
    module = hydra.utils.instantiate(composed("train").data)
    module.setup()
    return module


def test_every_file_of_settings_has_an_entry_and_every_entry_a_file() -> None:
    assert sorted([*TRAINED, *IMPUTERS, *MADE]) == NAMES


@pytest.mark.parametrize(
    ("name", "fit"), [("vae", ms.fit_imputer), ("surrogate", ms.fit_surrogate)]
)
def test_settings_of_a_training_are_arguments_of_its_function(name: str, fit: Any) -> None:
    settings = OmegaConf.load(CONF / "value_function" / f"{name}.yaml")
    assert settings.name == name
    others = {"name", "output", "zero_replacement", "draws", "teacher_draws"}
    assert set(settings) - others <= set(inspect.signature(fit).parameters)


def test_the_vae_of_the_paper_changes_settings_that_there_are() -> None:
    settings = composed("train", "experiment=paper_vae").value_function
    assert (settings.name, settings.posterior, settings.fill) == ("vae", "encoder", -1)
    assert set(settings) == set(OmegaConf.load(CONF / "value_function" / "vae.yaml"))


@pytest.mark.filterwarnings("ignore:The weights of")
@pytest.mark.parametrize("name", NAMES)
def test_every_value_function_goes_through_both_commands(name: str, runs: Path) -> None:
    own = [f"value_function={name}", *OWN.get(name, ["value_function.draws=4"])]
    metrics = train(runs, *own)
    assert 0 < metrics["mse"] < 1
    assert metrics["mse_debiased"] is None or metrics["mse_debiased"] <= metrics["mse"]
    draws = 4 if any("draws" in setting for setting in own) else 1
    assert metrics["draws"] == draws
    assert 0 < metrics["effective_draws"] <= draws * (1 + 1e-5)
    assert set(metrics["mse_by_size"]) == {name, "off_manifold"}
    assert (metrics["epochs"] > 0) == (name in TRAINED)
    others = [setting for setting in own if "draws" not in setting]
    summary = explain(runs, *others, "compare=[]", "instances=1")
    assert summary["efficiency_gap"] < 1e-5
    assert explained(runs, name).made_by["value_function"] == name
    assert explained(runs, name).outputs == ("setosa", "versicolor", "virginica")


def test_a_comparison_is_drawn_in_order_and_scored_on_the_same_pairs(
    runs: Path,
    data: TensorDataModule,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("manifold_shap.cli.comparison._ROWS", 20)
    names = ["gaussian", "surrogate", "marginal", "vae"]
    summary = explain(runs, "value_function=surrogate", compare=names)
    assert list(summary["compared"]) == names
    assert summary == json.loads((runs / "iris" / "surrogate" / "summary.json").read_text())
    assert explained(runs, "surrogate").made_by["value_function"] == "surrogate"
    forest = ms.load_surrogate(
        runs / "iris" / "surrogate" / "surrogate.ckpt", _classifier(runs, data)
    ).model
    value = ms.imputed_value(forest, ms.GaussianImputer(data.x_train, data.players), draws=64)
    mask = ms.shapley_pairs(20, 4, least=1000)
    generator = torch.Generator().manual_seed(0)
    rows = torch.randperm(len(data.x_test), generator=generator)[:20]
    score = ms.mean_squared_error(value, data.x_test[rows], mask)
    found = summary["compared"]["gaussian"]
    assert found["mse"] == pytest.approx(score.mse)
    assert found["mse_debiased"] == pytest.approx(score.debiased)
    assert [found["draws"] for found in summary["compared"].values()] == [64, 1, 64, 64]
    said = capsys.readouterr().out.splitlines()
    (line,) = [line.split() for line in said if line.startswith("gaussian ")]
    assert float(line[1]) == pytest.approx(score.mse, abs=1e-5)


def _classifier(runs: Path, data: TensorDataModule) -> ms.Model:
    from manifold_shap.training.classifier import load_classifier

    return load_classifier(runs / "iris" / "classifier", data)


def test_errors_that_are_not_known_are_not_in_the_table(runs: Path) -> None:
    explain(runs, "value_function=baseline", "compare=[]")
    found = explained(runs, "baseline")
    for error, shown in ((torch.nan, False), (0.0, False), (0.1, True)):
        known = replace(found, standard_error=torch.full_like(found.phi, error))
        assert ("±" in report.table(known)) == shown


def test_titles_say_the_error_and_the_kind(runs: Path) -> None:
    explain(runs, "value_function=gaussian", ordering=ORDERING, confounding=[True, False, False])
    explanation = explained(runs, "gaussian")
    value = ms.MarginalImputer(explanation.x, explanation.players)
    model = ms.as_model(lambda x: x[:, :3], explanation.x, explanation.outputs, "logits")
    mask = ms.shapley_pairs(2, 4, 4)
    score = ms.mean_squared_error(ms.imputed_value(model, value, draws=2), explanation.x, mask)
    drawn = {"gaussian": explanation, "marginal": explanation}
    bars = report.figures(drawn, "gaussian", dict.fromkeys(drawn, score))["bars_0"]
    legend = [text.get_text() for text in bars.axes[0].get_legend().get_texts()]
    assert legend == [f"{name} (MSE {score.mse:.4f})" for name in ("Gaussian", "off manifold")]
    assert bars.axes[0].get_xlabel() == "Asymmetric causal Shapley value (probability)"


@pytest.mark.parametrize("confounding", [None, [True, False, True]])
@pytest.mark.parametrize("asymmetric", [False, True])
def test_the_four_kinds_of_orderings(
    runs: Path, data: TensorDataModule, asymmetric: bool, confounding: list[bool] | None
) -> None:
    ordered = asymmetric or confounding is not None
    summary = explain(
        runs,
        "value_function=gaussian",
        "value_function.draws=4",
        "compare=[]",
        ordering=ORDERING if ordered else None,
        asymmetric=asymmetric,
        confounding=confounding,
    )
    imputer: Any = ms.GaussianImputer(data.x_train, data.players)
    if confounding is not None:
        imputer = ms.CausalImputer(imputer, ORDERING, confounding)
    value = ms.imputed_value(_classifier(runs, data), imputer, draws=4)
    ordering = ORDERING if asymmetric else None
    expected = ms.exact_shapley(value, data.x_test[:2], ordering=ordering)
    found = explained(runs, "gaussian")
    assert torch.allclose(found.phi, expected.phi, atol=1e-6)
    assert ("ordering" in found.made_by) == asymmetric
    assert ("confounding" in found.made_by) == (confounding is not None)
    assert ("ordering" in summary) == ordered


@pytest.mark.parametrize("name", ["gaussian", "empirical", "baseline", "vae"])
def test_noisy_values_are_scored_with_the_same_number_of_draws(runs: Path, name: str) -> None:
    # Donors are the nearest rows: more of them would be another value function.
    own = OWN.get(name, ["value_function.draws=4"])
    settings = [setting for setting in own if "draws" in setting or "against" in setting]
    summary = explain(runs, f"value_function={name}", *settings, "compare=[surrogate]")
    draws = {"gaussian": 64, "empirical": 4, "baseline": 1, "vae": 64}[name]
    assert summary["compared"][name]["draws"] == draws
    made_with = summary["value_function"].get("draws", 1)
    assert explained(runs, name).made_by["draws"] == made_with < 5


def test_what_was_recorded_without_training_is_explained(
    with_vae: Path, data: TensorDataModule
) -> None:
    own = ["value_function=gaussian", "value_function.draws=3", "value_function.output=ilr"]
    amount = ["value_function.zero_replacement=0.05"]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*are exactly zero")
        train(with_vae, *own, *amount)
        summary = explain(with_vae, "value_function=gaussian", "compare=[]")
        again = explain(with_vae, *own[:1], "value_function.draws=5", "compare=[]")
    recorded = {"draws": 3, "output": "ilr", "zero_replacement": 0.05, "name": "gaussian"}
    assert summary["value_function"].items() >= recorded.items()
    assert again["value_function"].items() >= {**recorded, "draws": 5}.items()
    found = explained(with_vae, "gaussian")
    assert (found.space, found.made_by["draws"]) == ("ilr", 5)
    prediction = _classifier(with_vae, data)(data.x_test[:2])
    assert torch.allclose(found.prediction, ms.as_space("ilr", 0.05)(prediction), atol=1e-5)


def test_a_record_of_an_earlier_version_is_explained_and_not_overwritten(with_vae: Path) -> None:
    train(with_vae, "value_function=marginal", "value_function.draws=3")
    path = with_vae / "iris" / "marginal" / "config.json"
    config = json.loads(path.read_text())
    del config["value_function"]["zero_replacement"]
    path.write_text(json.dumps(config))
    summary = explain(with_vae, "value_function=marginal", "compare=[]")
    assert (summary["value_function"]["draws"], summary["efficiency_gap"] < 1e-5) == (3, True)
    with pytest.raises(ValueError, match=r"zero_replacement: None -> 0.001.*overwrite=true"):
        train(with_vae, "value_function=marginal", "value_function.draws=3")


def test_references_are_in_the_record(runs: Path) -> None:
    own = ["value_function.against=virginica", "value_function.rows=null"]
    summary = explain(runs, "value_function=contrastive", *own, "compare=[]")
    assert summary["value_function"]["against"] == "virginica"
    assert explained(runs, "contrastive").made_by["settings"]["against"] == "virginica"
    explain(runs, "value_function=baseline", "value_function.point=median", "compare=[]")
    assert explained(runs, "baseline").made_by["settings"]["point"] == "median"


def test_contrasts_are_compared_as_they_were_recorded(with_vae: Path) -> None:
    with pytest.raises(ValueError, match=r"neither; make it the value function.*`compare`"):
        explain(with_vae, "value_function=vae", "compare=[contrastive]")
    train(with_vae, "value_function=contrastive", "value_function.against=setosa")
    summary = explain(with_vae, "value_function=vae", "compare=[contrastive]")
    assert list(summary["compared"]) == ["vae", "contrastive"]


def test_players_may_be_named_by_numbers() -> None:
    components = [[1, "a"], ("2", 2.5)]
    assert Orders(components).of_estimator == {"ordering": [["1", "a"], ["2", "2.5"]]}
    value = ms.imputed_value(
        lambda x: x.softmax(-1),
        ms.MarginalImputer(torch.rand(5, 2), ms.Players.of_elements((2,), ["1", "2"])),
    )
    causal = Orders([[2], [1]], confounding=[False, False]).intervened(value)
    assert causal.provenance["causal_ordering"] == [["2"], ["1"]]


def test_causal_draws_are_not_capped_by_the_rows_of_the_imputer(data: TensorDataModule) -> None:
    imputer = ms.MarginalImputer(data.x_train[:10], data.players)
    value = ms.imputed_value(lambda x: x[:, :3].softmax(-1), imputer, draws=40)
    assert value.draws == 10
    assert Orders(ORDERING, confounding=[False] * 3).intervened(value).draws == 40


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"ordering": ORDERING, "asymmetric": False}, "asymmetric=true or `confounding`"),
        ({"confounding": [True]}, "`ordering` together with `confounding`"),
        ({"ordering": [["petal length (cm)", "girth"]]}, "girth"),
        ({"ordering": ORDERING, "confounding": [True]}, "one flag for each of the 3 components"),
    ],
)
def test_orderings_that_cannot_be_are_refused(
    runs: Path, settings: dict[str, Any], error: str
) -> None:
    with pytest.raises(ValueError, match=error):
        explain(runs, "value_function=gaussian", **settings)


def test_causal_values_need_an_imputer(runs: Path) -> None:
    causal = {"ordering": ORDERING, "confounding": [True, False, True]}
    with pytest.raises(ValueError, match="'surrogate' has none; choose vae"):
        explain(runs, **causal)
    with pytest.raises(ValueError, match="'surrogate' has none"):
        explain(runs, "value_function=vae", "compare=[surrogate]", **causal)
    explain(runs, ordering=ORDERING)


def test_one_vae_serves_another_classifier(
    with_vae: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = with_vae / "iris" / "vae" / "vae.ckpt"
    weights = load_checkpoint(path, "vae")["state_dict"]
    before = json.loads((path.parent / "metrics.json").read_text())
    metrics = train(with_vae, *TINY_VAE, "classifier.n_estimators=2")
    said = capsys.readouterr().out
    assert "settings changed (classifier.n_estimators: 3 -> 2)" in said
    assert "serves these settings, too" in said
    assert metrics["mse"] != before["mse"]
    assert metrics["train_seconds"] == before["train_seconds"]
    again = load_checkpoint(path, "vae")["state_dict"]
    assert all(torch.equal(again[name], weights[name]) for name in weights)
    explain(with_vae, "value_function=vae")
    # And of a third one, which other value functions brought.
    train(with_vae, "value_function=marginal", "classifier.n_estimators=1")
    explain(with_vae, "value_function=vae")


@pytest.mark.filterwarnings("ignore:.*are exactly zero")
def test_how_a_vae_imputes_can_change_without_training(with_vae: Path) -> None:
    explain(with_vae, "value_function=vae", "value_function.posterior=encoder")
    assert explained(with_vae, "vae").made_by["posterior"] == "encoder"
    assert explained(with_vae, "vae").made_by["draws"] == 4
    changes = ["value_function.draws=3", "value_function.temper=0.25", "value_function.output=ilr"]
    assert train(with_vae, *TINY_VAE, *changes)["draws"] == 3
    explain(with_vae, "value_function=vae")
    assert explained(with_vae, "vae").space == "ilr"
    assert explained(with_vae, "vae").made_by["temper"] == 0.25


def test_a_vae_of_other_settings_is_refused(with_vae: Path) -> None:
    with pytest.raises(ValueError, match=r"value_function.latent: 2 -> 3.*overwrite"):
        train(with_vae, *TINY_VAE, "value_function.latent=3")
    with pytest.raises(ValueError, match=r"value_function.latent: 2 -> 3"):
        explain(with_vae, "value_function=vae", "value_function.latent=3")


def test_a_vae_of_other_rows_is_refused(with_vae: Path) -> None:
    with pytest.raises(ValueError, match=r"for which vae in .* was trained"):
        train(with_vae, "value_function=marginal", "seed=1")
    train(with_vae, "value_function=marginal", "seed=1", "overwrite=true")
    with pytest.raises(ValueError, match="training rows are others now"):
        explain(with_vae, "value_function=vae")


def test_an_interrupted_vae_serves(with_vae: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = with_vae / "iris" / "vae"
    work = directories.partial(whole)
    work.mkdir()
    (whole / "config.json").rename(work / "config.json")
    checkpoint = load_checkpoint(whole / "vae.ckpt", "vae")
    del checkpoint["imputer"]
    save_checkpoint(work / "best.ckpt", checkpoint)
    shutil.rmtree(whole)
    explain(with_vae, "value_function=vae", "compare=[]")
    assert "training was interrupted" in capsys.readouterr().out
    assert "temper" in explained(with_vae, "vae.partial").made_by


def test_a_vae_is_trained_without_a_checkpoint_of_other_kinds(with_vae: Path) -> None:
    checkpoint = with_vae / "iris" / "vae" / "vae.ckpt"
    with pytest.raises(ValueError, match=r"surrogate or vae.*value_function=gaussian has none"):
        explain(with_vae, "value_function=gaussian", f"checkpoint={checkpoint}")
    explain(with_vae, "value_function=vae", f"checkpoint={checkpoint}", "compare=[]")


@pytest.mark.filterwarnings("ignore:.*are exactly zero")
@pytest.mark.parametrize("teacher", ["vae", "gaussian"])
def test_a_surrogate_has_a_teacher(with_vae: Path, teacher: str) -> None:
    lessons = [f"value_function.teacher={teacher}", "value_function.teacher_pairs=64"]
    metrics = train(with_vae, *TINY, *lessons, "value_function.output=ilr")
    assert metrics["mse"] > 0
    place = with_vae / "iris" / "surrogate"
    checkpoint = load_checkpoint(place / "surrogate.ckpt", "surrogate")
    assert checkpoint["hyper_parameters"]["teacher"]["value_function"] == teacher
    assert checkpoint["hyper_parameters"]["teacher"]["draws"] == 16
    assert [path.name for path in place.glob("*.ckpt")] == ["surrogate.ckpt"]


@pytest.mark.filterwarnings("ignore:.*are exactly zero")
def test_a_surrogate_is_taught_again_when_its_teacher_changed(
    with_vae: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lessons = ["value_function.teacher=vae", "value_function.teacher_pairs=64"]
    train(with_vae, *TINY, *lessons)
    capsys.readouterr()
    train(with_vae, *TINY, *lessons)
    assert "already trained" in capsys.readouterr().out
    path = with_vae / "iris" / "vae" / "vae.ckpt"
    checkpoint = load_checkpoint(path, "vae")
    checkpoint["state_dict"] = {name: 2 * w for name, w in checkpoint["state_dict"].items()}
    save_checkpoint(path, checkpoint)
    with pytest.raises(ValueError, match=r"teacher.checkpoint: \d+ -> \d+"):
        train(with_vae, *TINY, *lessons)
    train(with_vae, *TINY_VAE, "value_function.temper=0.25")
    with pytest.raises(ValueError, match=r"teacher.settings.temper: None -> 0.25"):
        train(with_vae, *TINY, *lessons)
    train(with_vae, *TINY, *lessons, "overwrite=true")
    taught = load_checkpoint(with_vae / "iris" / "surrogate" / "surrogate.ckpt", "surrogate")
    assert taught["hyper_parameters"]["teacher"]["temper"] == 0.25


def test_teachers_that_cannot_be_are_refused(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="would learn from itself"):
        train(tmp_path, "value_function.teacher=surrogate")
    with pytest.raises(ValueError, match=r"among \[.*'vae'\] but got 'nobody'"):
        train(tmp_path, "value_function.teacher=nobody")
    with pytest.raises(FileNotFoundError, match="value_function=vae"):
        train(tmp_path, "value_function.teacher=vae")
    with pytest.raises(ValueError, match=r"value_function\.teacher: None -> 'vae'"):
        train(runs, *TINY, "value_function.teacher=vae")


def test_a_network_cannot_be_retrained(tmp_path: Path) -> None:
    network = ["classifier=mlp", "classifier.hidden=[8]", "classifier.max_epochs=1"]
    with pytest.raises(ValueError, match="classifier=random_forest"):
        train_command.train(
            composed("train", f"runs_dir={tmp_path}", *network, "value_function=retrained")
        )


@pytest.mark.parametrize(
    ("setting", "error"),
    [
        ({}, "but got neither"),
        ({"against": "setosa", "rows": [1]}, "but got both"),
        ({"against": "rose"}, r"one of the classes \['setosa', .*\] but got 'rose'"),
        ({"rows": [200]}, r"rows from 0 to 104 but got \[200\]"),
        ({"rows": []}, r"but got \[\]"),
    ],
)
def test_contrasts_that_cannot_be_are_refused(
    data: TensorDataModule, setting: dict[str, Any], error: str
) -> None:
    with pytest.raises(ValueError, match=error):
        chosen_rows(data, **setting)


def test_contrasts_are_rows_of_a_class_or_listed(data: TensorDataModule) -> None:
    chosen = chosen_rows(data, against="virginica")
    assert torch.equal(chosen, data.x_train[data.y_train == 2])
    assert torch.equal(chosen_rows(data, rows=[7, 3]), data.x_train[[7, 3]])
    assert torch.equal(chosen_rows(data, rows=7), data.x_train[[7]])


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
    data.x_train = data.schema.encode(table)
    for point, age in (("mean", 40.0), ("median", 30.0), ("zero", 0.0)):
        (row,) = data.schema.decode(point_of(data, point)[None]).to_dict("records")
        assert row == {"age": pytest.approx(age, abs=1e-4), "colour": "red", "member": "yes"}
    with pytest.raises(ValueError, match=r"one of .* but got 'mode'"):
        point_of(data, "mode")


def test_names_of_maps_may_have_several_lines() -> None:
    x = torch.rand(1, 1, 4, 4)
    imputer = ms.MarginalImputer(torch.rand(5, 1, 4, 4))
    value = ms.imputed_value(lambda x: x.flatten(1).softmax(-1), imputer, draws=2)
    explanation = ms.permutation_shapley(value, x, permutations=2)
    one = ms.plots.pixel_maps({"VAE": explanation})
    two = ms.plots.pixel_maps({"VAE\nMSE 0.0100": explanation})
    assert two.get_figheight() > one.get_figheight()
    height = {text.get_text(): text.get_position()[1] for text in two.texts}
    assert height["VAE"] > height["MSE 0.0100"] == height["image"]
