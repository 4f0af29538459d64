"""Explaining by command: what is written, agreed, compared, refused and told."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf

import manifold_shap as ms
from manifold_shap import data as data_sets
from manifold_shap.cli.explain import executor
from manifold_shap.data import Data
from manifold_shap.training.classifier import load_classifier
from tests.cli.commands import (
    FOREST,
    ORDERS,
    composed,
    explain,
    explain_digits,
    explained,
    options,
    read,
    train,
)

# Settings of value functions that have others than few draws.
OWN = {
    "baseline": [],
    "contrastive": ["value_function.draws=4", "value_function.against=setosa"],
    "retrained": [],
}
LONG = "[['petal length (cm)','petal width (cm)'],['sepal length (cm)'],['sepal width (cm)']]"
Copy = Callable[..., Path]
Said = pytest.CaptureFixture[str]


def explain_iris(place: Path, *words: str) -> dict[str, Any]:
    return explain(place, "data=iris", "estimator=exact", "instances=2", *words)


@pytest.fixture(scope="module")
def iris_data() -> Data:
    return data_sets.load("iris")


def forest(runs: Path, data: Data) -> ms.Model:
    (place,) = (runs / "iris" / "classifiers").glob("*/model.skops")
    return load_classifier(place.parent, data)


@pytest.mark.usefixtures("drawn_figures")
def test_explaining_writes_few_files(digits: Path, copied: Copy) -> None:
    place = copied(digits)
    run = place / "digits" / "surrogate"
    before = {path.name for path in run.iterdir()}
    summary = explain(place, "instances=2", *ORDERS)
    assert summary == read(run, "summary.json")
    assert (summary["instances"], summary["players"], summary["outputs"]) == (2, 64, 10)
    assert summary["efficiency_gap"] < 1e-5
    assert summary["largest_standard_error"] > 0
    written = {path.name for path in run.iterdir()} - before
    assert written == {"explanations.zarr.zip", "summary.json", "report.html", "plots"}
    assert [path.name for path in (run / "plots").iterdir()] == ["pixel_maps.png"]
    assert explained(place).made_by["permutations"] == 4


def test_chosen_rows_and_outputs_are_explained(digits: Path, copied: Copy) -> None:
    place = copied(digits)
    explain_digits(place, "instances=[7,3]")
    found = explained(place)
    assert found.instances == (7, 3)
    assert torch.equal(found.x, data_sets.load("digits").x_test[[7, 3]])
    explain_digits(place, "instances=[7,3]", "outputs=2")
    largest = found.prediction.mean(0).argsort(descending=True)[:2].tolist()
    assert explained(place).outputs == tuple(found.outputs[k] for k in largest)


def test_results_of_a_checkpoint_elsewhere_go_under_runs_dir(
    digits: Path, copied: Copy, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place, elsewhere = copied(digits), tmp_path_factory.mktemp("elsewhere")
    names = ("manifold_shap.json", "tensors.safetensors")
    for name in names:
        shutil.copy(place / "digits" / "surrogate" / name, elsewhere)
    explain_digits(place, f"checkpoint='{elsewhere}'")
    assert {path.name for path in elsewhere.iterdir()} == {*names}
    assert len(list((place / "digits").glob("surrogate-*/summary.json"))) == 1
    assert not (place / "digits" / "surrogate" / "summary.json").exists()


def of(x: torch.Tensor) -> torch.Tensor:
    """A model of one's own."""
    return x.softmax(1)


def test_a_checkpoint_of_another_kind_serves_too(irises: Path, copied: Copy) -> None:
    place = copied(irises, "vae")
    explain_iris(place, f"run={place / 'iris' / 'vae'}")  # It says what it is.
    assert explained(place, "vae", "iris").made_by["value_function"] == "vae"
    explain_iris(place, f"checkpoint={place / 'iris' / 'vae'}")
    (store,) = place.glob("iris/surrogate-*/explanations.zarr.zip")
    assert ms.Explanation.load(store).made_by["value_function"] == "vae"
    assert not list((place / "iris").glob("gaussian/*.safetensors"))
    own = ["data=gaussian_mixture", "data.elements=4", "model=python", f"model.call={__name__}:of"]
    with pytest.raises(ValueError, match="of other columns or cells"):
        explain(place, *own, f"checkpoint={place / 'iris' / 'vae'}")


@pytest.mark.parametrize(
    ("word", "error"),
    [
        ("checkpoint=none", "run train.py first"),
        ("", "train.py"),
        ("compare=[gausian]", "gausian"),
        ("device=warp", "warp"),
        ("estimator.permutations=0", "permutations"),
        ("space=ilr", r"space: 'probability' -> 'ilr'"),
        ("data.test=0.3", r"data.test: 0.2 -> 0.3"),
        ("classifier=random_forest", r"choices.classifier: 'mlp' -> 'random_forest'"),
        ("instances=[359]", r"from 0 to 358, but got \[359\]"),
        ("instances=360", "`instances` to be a whole number from 1 to 359 but got 360"),
        ("outputs=[cat]", "Expected `outputs` to be one of .* but got 'cat'"),
        ("basis=tree", "space='ilr' together with `basis`"),
        ("estimator=amortized", "amortized"),
    ],
)
def test_settings_that_do_not_fit_the_run_leave_what_is_there(
    digits: Path, tmp_path: Path, word: str, error: str
) -> None:
    runs = digits if word else tmp_path
    before = {path for path in runs.rglob("*") if path.is_file()}
    orders = [] if "estimator=" in word else ORDERS
    with pytest.raises((ValueError, TypeError, RuntimeError, FileNotFoundError), match=error):
        explain(runs, "instances=1", *orders, *word.split())
    assert {path for path in runs.rglob("*") if path.is_file()} == before


def test_a_value_function_of_another_classifier_is_refused(digits: Path, tmp_path: Path) -> None:
    train(tmp_path, *FOREST, "value_function=marginal")
    with pytest.raises(ValueError, match="predicts otherwise"):
        explain_digits(tmp_path, f"checkpoint={digits / 'digits' / 'surrogate'}")


# Value functions of pictures, and of texts.
OF_OTHERS = {"blur", "mask_token", "padding", "deletion"}


@pytest.mark.parametrize("name", sorted({*options("value_function")} - OF_OTHERS))
def test_every_value_function_goes_through_both_commands(
    name: str, irises: Path, copied: Copy
) -> None:
    place = copied(irises, *({name} & {"surrogate", "vae"}), "classifiers")
    own = [f"value_function={name}", *OWN.get(name, ["value_function.draws=4"])]
    if name not in {"surrogate", "vae"}:
        metrics = train(place, "data=iris", *FOREST, *own)
        assert 0 < metrics["mse"] < 1
        assert metrics["draws"] == (4 if any("draws" in word for word in own) else 1)
        assert metrics["epochs"] == 0
    # What was recorded need not be typed again.
    assert explain_iris(place, own[0])["efficiency_gap"] < 1e-5
    found = explained(place, name, "iris")
    assert found.made_by["value_function"] == name
    assert found.outputs == ("setosa", "versicolor", "virginica")


@pytest.mark.filterwarnings("ignore:.*are exactly zero")
def test_draws_may_change_without_a_training(irises: Path, copied: Copy, iris_data: Data) -> None:
    place = copied(irises, "classifiers")
    own = ["value_function=gaussian", "value_function.draws=3", "space=ilr"]
    train(place, "data=iris", *FOREST, *own)
    explain_iris(place, own[0], "value_function.draws=5")
    found = explained(place, "gaussian", "iris")
    assert (found.space.name, found.made_by["draws"]) == ("ilr", 5)
    prediction = forest(place, iris_data)(iris_data.x_test[:2])
    assert torch.allclose(found.prediction, found.space(prediction), atol=1e-5)


def test_a_comparison_is_drawn_in_order_and_scored_on_the_same_pairs(
    irises: Path, copied: Copy, iris_data: Data, capsys: Said
) -> None:
    place = copied(irises)
    names = ["gaussian", "surrogate", "marginal", "vae"]
    summary = explain_iris(place, f"compare=[{','.join(names)}]")
    assert list(summary["compared"]) == names
    assert explained(place, data="iris").made_by["value_function"] == "surrogate"
    imputer = ms.imputers.table_imputer(
        ms.imputers.GaussianImputer, iris_data.table, iris_data.x_train
    )
    value = ms.imputed_value(forest(irises, iris_data), imputer, draws=64)
    mask = ms.metrics.shapley_pairs(20, 4, least=100)
    rows = torch.randperm(30, generator=torch.Generator().manual_seed(0))[:20]
    score = ms.metrics.mean_squared_error(value, iris_data.x_test[rows], mask)
    found = summary["compared"]["gaussian"]
    assert found["mse"] == pytest.approx(score.mse)
    assert found["mse_debiased"] == pytest.approx(score.debiased)
    assert [found["draws"] for found in summary["compared"].values()] == [64, 1, 64, 64]
    said = capsys.readouterr().out.splitlines()
    (line,) = [line.split() for line in said if line.startswith("gaussian ")]
    assert float(line[1]) == pytest.approx(score.mse, rel=1e-3)


@pytest.mark.parametrize("confounding", [None, [True, False, True]])
@pytest.mark.parametrize("asymmetric", [False, True])
def test_the_four_kinds_of_orderings(
    irises: Path,
    copied: Copy,
    iris_data: Data,
    asymmetric: bool,
    confounding: list[bool] | None,
) -> None:
    words = [f"asymmetric={asymmetric}", f"confounding={json.dumps(confounding)}"]
    if asymmetric or confounding is not None:
        words.append(f"ordering={LONG}")
    place = copied(irises, "classifiers")
    explain_iris(place, "value_function=gaussian", "value_function.draws=4", *words)
    ordering = json.loads(LONG.replace("'", '"'))
    imputer: Any = ms.imputers.table_imputer(
        ms.imputers.GaussianImputer, iris_data.table, iris_data.x_train
    )
    if confounding is not None:
        imputer = ms.imputers.CausalImputer(imputer, ordering, confounding)
    value = ms.imputed_value(forest(irises, iris_data), imputer, draws=4)
    own = ordering if asymmetric else None
    expected = ms.exact_shapley(value, iris_data.x_test[:2], ordering=own)
    found = explained(place, "gaussian", "iris")
    assert torch.allclose(found.phi, expected.phi, atol=1e-6)
    assert ("ordering" in found.made_by) == asymmetric


def test_causal_values_need_an_imputer(irises: Path, copied: Copy) -> None:
    with pytest.raises(ValueError, match=r"such as vae, .* but 'surrogate' has none"):
        explain_iris(copied(irises), f"ordering={LONG}", "confounding=[true,false,true]")


# Rows that are more than a block.


def test_many_rows_are_streamed_and_never_replaced_silently(
    digits: Path, copied: Copy, capsys: Said
) -> None:
    place = copied(digits)
    words = [*ORDERS, "block=150", "compare=[marginal]"]
    summary = explain(place, "instances=all", *words)
    assert (summary["instances"], summary["instances_resumed"]) == (359, 0)
    assert summary["efficiency_gap"] < 1e-5
    assert set(summary["compared"]) == {"surrogate", "marginal"}
    explanation = explained(place)
    assert explanation.phi.shape == (359, 64, 10)
    largest = explanation.standard_error.max().item()
    assert summary["largest_standard_error"] == pytest.approx(largest)
    for few in ("instances=all", "instances=2"):
        with pytest.raises(FileExistsError, match="overwrite=true"):
            explain(place, few, *words)
    capsys.readouterr()
    explain_digits(place, "overwrite=true")
    explain_digits(place)
    said = capsys.readouterr().out
    assert "This replaces the explanation of 359 rows" in said
    assert "This replaces the explanation of 2 rows" in said


def test_an_interrupted_stream_is_gone_on_with(
    digits: Path, copied: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, prediction = copied(digits), ms.SurrogateValue.prediction
    blocks = iter(range(100))

    def interrupted(value: ms.SurrogateValue, x: torch.Tensor) -> torch.Tensor:
        if len(x) == 8 and next(blocks) == 3:
            raise KeyboardInterrupt
        return prediction(value, x)

    words = ["instances=40", "block=8"]
    with monkeypatch.context() as patched:
        patched.setattr(ms.SurrogateValue, "prediction", interrupted)
        with pytest.raises(KeyboardInterrupt, match="of 40 rows are kept"):
            explain_digits(place, *words)
    with pytest.raises(FileExistsError, match="finished or not"):
        explain_digits(place, *words)
    with pytest.raises(ValueError, match="permutations"):
        explain_digits(place, *words, "estimator.permutations=16", "resume=true")
    assert 0 < explain_digits(place, *words, "resume=true")["instances_resumed"] < 40


def test_engines_share_streamed_rows() -> None:
    pytest.importorskip("distributed")
    kinds = []
    for word in ("workers=1", "workers=2"):
        with executor(composed("explain", word)[0]) as found:
            kinds.append(type(found).__name__)
    assert kinds == ["NoneType", "ProcessPoolExecutor"]
    words = ["engine=dask", "engine.address=tcp://127.0.0.1:1", "+engine.timeout=0.5"]
    with (
        pytest.raises(OSError, match=r"tcp://127.0.0.1:1"),
        executor(composed("explain", *words)[0]),
    ):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["workers=2", "engine=dask"])
def test_two_workers_write_what_one_process_does(digits: Path, copied: Copy, engine: str) -> None:
    place = copied(digits)
    explain_digits(place, "instances=40", "block=8")
    before = explained(place)
    explain_digits(place, "instances=40", "block=8", "overwrite=true", engine)
    assert torch.equal(explained(place).phi, before.phi)


# What a run holds is not run.


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"data": {"_target_": "os.system"}}, "names code"),
        ({"value_function": {"network": {"_target_": "os.system", "command": "x"}}}, "names code"),
        ({"data": {"code": "os.system"}}, "data.code: 'os.system'"),
        ({"data": {"source": "os.system"}}, "'os.system'"),
        ({"choices": {"data": "../../../evil"}}, "evil"),
        ({"choices": {"data": "iris", "model": "python"}, "model": {"call": "os:system"}},
         "model=python"),
    ],
)  # fmt: skip
def test_a_run_from_someone_else_executes_nothing(
    irises: Path, copied: Copy, change: dict[str, Any], error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = copied(irises)
    path = place / "iris" / "surrogate" / "config.yaml"
    (place / "evil.yaml").write_text("_target_: os.system\ncommand: x\n")
    OmegaConf.save(OmegaConf.merge(OmegaConf.load(path), change), path)
    ran: list[object] = []
    monkeypatch.setattr("os.system", ran.append)
    with pytest.raises(ValueError, match=error):
        explain_iris(place)
    assert ran == []


@pytest.mark.usefixtures("drawn_figures")
def test_a_run_writes_its_report_or_none(irises: Path, copied: Copy) -> None:
    place = copied(irises)
    words = ["data=iris", *ORDERS]
    explain(place, *words, "compare=[marginal]", "instances=30")
    page = place / "iris" / "surrogate" / "report.html"
    text = page.read_text(encoding="utf-8")
    accuracy = read(place, "iris", "surrogate", "metrics.json")["model"]["accuracy"]
    for said in ("Global Shapley values", "RandomForestClassifier", f"{accuracy:.2%} of 30"):
        assert said in text
    explain(place, *words, "instances=[3,14]", "interactions=true", "outputs=[setosa]")
    assert re.search("[Ii]nteractions", page.read_text(encoding="utf-8"))
    explain(place, *words, "report=false")
    assert not page.exists()
