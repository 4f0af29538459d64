"""Explaining by command: what is written, agreed, compared, refused and told."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.text import Text
from omegaconf import OmegaConf
from omegaconf.errors import MissingMandatoryValue

import manifold_shap as ms
from manifold_shap import data as data_sets
from manifold_shap.cli.explain import executor
from manifold_shap.data import Data
from manifold_shap.shown import number
from manifold_shap.training.classifier import load_classifier
from tests.cli.commands import (
    FOREST,
    ORDERS,
    composed,
    explain,
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
def test_rows_and_outputs_that_are_chosen_are_explained_in_few_files(
    digits: Path, copied: Copy
) -> None:
    place = copied(digits)
    run = place / "digits" / "surrogate"
    before = {path.name for path in run.iterdir()}
    summary = explain(place, *ORDERS, "instances=[7,3]")
    assert summary == read(run, "summary.json")
    assert (summary["instances"], summary["players"], summary["outputs"]) == (2, 64, 10)
    assert summary["efficiency_gap"] < 1e-5
    assert summary["largest_standard_error"] > 0
    written = {path.name for path in run.iterdir()} - before
    assert written == {"explanations.zarr.zip", "summary.json", "report.html", "plots"}
    assert [path.name for path in (run / "plots").iterdir()] == ["pixel_maps.png"]
    found = explained(place)
    assert (found.instances, found.made_by["permutations"]) == ((7, 3), 4)
    assert torch.equal(found.x, data_sets.load("digits").x_test[[7, 3]])
    explain(place, *ORDERS, "instances=[7,3]", "outputs=[2,7]")
    assert explained(place).outputs == ("2", "7")


def of(x: torch.Tensor) -> torch.Tensor:
    """A model of one's own."""
    return x.softmax(1)


@pytest.mark.filterwarnings("ignore:.*are exactly zero")
def test_a_checkpoint_serves_other_classifiers_and_spaces(
    irises: Path, copied: Copy, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place, elsewhere = copied(irises, "vae"), tmp_path_factory.mktemp("elsewhere")
    names = ("manifold_shap.json", "tensors.safetensors")
    for name in names:
        shutil.copy(place / "iris" / "vae" / name, elsewhere)
    words = [f"checkpoint={elsewhere}", "classifier=naive_bayes", "space=ilr"]
    explain_iris(place, *words)
    assert {path.name for path in elsewhere.iterdir()} == {*names}
    (store,) = place.glob("iris/surrogate-*/explanations.zarr.zip")
    found = ms.Explanation.load(store)
    assert (found.space.name, found.made_by["value_function"]) == ("ilr", "vae")
    assert found.made_by["model"]["name"] == "GaussianNB"
    own = ["data=gaussian_mixture", "data.elements=4", "model=python", f"model.call={__name__}:of"]
    with pytest.raises(ValueError, match="has other columns or cells"):
        explain(place, *own, words[0])


def test_a_model_that_is_not_there_is_trained_for_values_without_a_training(
    tmp_path: Path,
) -> None:
    with pytest.raises(FileNotFoundError, match=r"manifold_shap.json .*run train.py"):
        explain_iris(tmp_path, *FOREST)
    assert not list(tmp_path.rglob("*.skops"))
    explain_iris(tmp_path, *FOREST, "value_function=gaussian")
    (kept,) = tmp_path.glob("iris/classifiers/*/model.skops")
    before = kept.stat().st_mtime_ns
    # What was trained for one is explained with others.
    explain_iris(tmp_path, "value_function=marginal")
    found = explained(tmp_path, "marginal", "iris")
    assert found.made_by["model"]["name"] == "RandomForestClassifier"
    assert kept.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("word", "error"),
    [
        ("checkpoint=none", "run train.py first"),
        ("ordering=[[a]] confounding=[true]", r"such as vae, .* but 'surrogate' has none"),
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
    digits: Path, word: str, error: str
) -> None:
    before = {path for path in digits.rglob("*") if path.is_file()}
    orders = [] if "estimator=" in word else ORDERS
    with pytest.raises((ValueError, TypeError, RuntimeError, FileNotFoundError), match=error):
        explain(digits, *orders, *word.split())
    assert {path for path in digits.rglob("*") if path.is_file()} == before


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
    # What was recorded need not be typed again, and draws may change.
    more = ["value_function.draws=5"] * (name not in {"surrogate", "baseline", "retrained"})
    assert explain_iris(place, own[0], *more)["efficiency_gap"] < 1e-5
    found = explained(place, name, "iris")
    assert not more or found.made_by["draws"] == 5
    assert found.made_by["value_function"] == name
    assert found.outputs == ("setosa", "versicolor", "virginica")


@pytest.mark.usefixtures("drawn_figures")
@pytest.mark.filterwarnings("ignore:.*are exactly zero")
def test_a_comparison_is_drawn_in_order_and_scored_on_the_same_pairs(
    irises: Path, copied: Copy, iris_data: Data, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = list[str]()  # What stands in the figures.
    monkeypatch.setattr(
        Figure, "savefig", lambda f, *_, **__: drawn.extend(t.get_text() for t in f.findobj(Text))
    )
    place = copied(irises)
    names = ["gaussian", "surrogate", "marginal", "vae"]
    summary = explain_iris(place, f"compare=[{','.join(names)}]", "report=false")
    assert list(summary["compared"]) == names
    assert explained(place, data="iris").made_by["value_function"] == "surrogate"
    said = " ".join(drawn)
    assert "unknown error" not in said
    for name in names:
        error = number(summary["compared"][name]["mse_debiased"] ** 0.5)
        assert f"{name} (root mean squared error {error})" in said
        assert f"{name} explains" in said
    imputer = ms.imputers.table_imputer(
        ms.imputers.GaussianImputer, iris_data.table, iris_data.x_train
    )
    value = ms.imputed_value(forest(irises, iris_data), imputer, draws=32)
    mask = ms.metrics.shapley_pairs(30, 4, least=300)
    score = ms.metrics.mean_squared_error(value, iris_data.x_test, mask)
    found = summary["compared"]["gaussian"]
    assert found["mse"] == pytest.approx(score.mse)
    assert found["mse_debiased"] == pytest.approx(score.debiased)
    assert [found["draws"] for found in summary["compared"].values()] == [32, 1, 32, 4]
    # What `train.py` said is said again.
    for name in ("surrogate", "vae"):
        metrics = read(place, "iris", name, "metrics.json")
        for measured, of in ((name, ""), ("marginal", "_off_manifold")):
            assert metrics[f"mse{of}"] == pytest.approx(summary["compared"][measured]["mse"])
    with pytest.raises(ValueError, match="in one output space but got"):
        explain_iris(place, "value_function=gaussian", "space=ilr", "compare=[surrogate]")
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
    words += [f"ordering={LONG}"] * (asymmetric or confounding is not None)
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


# Rows that are more than a block.


def test_many_rows_are_streamed_and_never_replaced_silently(
    digits: Path, copied: Copy, capsys: Said
) -> None:
    place = copied(digits)
    words = [*ORDERS, "block=150", "compare=[marginal]"]
    summary = explain(place, *words, "instances=all")
    assert (summary["instances"], summary["instances_resumed"]) == (359, 0)
    assert summary["efficiency_gap"] < 1e-5
    assert set(summary["compared"]) == {"surrogate", "marginal"}
    again = explain(place, *words, "instances=all", "resume=true")
    assert again["instances_resumed"] == 359
    with pytest.raises(ValueError, match="permutations"):
        explain(place, *words, "instances=all", "resume=true", "estimator.permutations=2")
    explanation = explained(place)
    assert explanation.phi.shape == (359, 64, 10)
    largest = explanation.standard_error.max().item()
    assert summary["largest_standard_error"] == pytest.approx(largest)
    for few in ("instances=all", "instances=2"):
        with pytest.raises(FileExistsError, match="overwrite=true"):
            explain(place, *words, few)
    capsys.readouterr()
    explain(place, *ORDERS, "overwrite=true")
    explain(place, *ORDERS)
    said = capsys.readouterr().out
    assert "This replaces the explanation of 359 rows" in said
    assert "This replaces the explanation of 2 rows" in said
    run = place / "digits" / "surrogate"
    earlier = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match="permutations"):
        explain(place, *words, "instances=all", "estimator.permutations=0", "overwrite=true")
    assert earlier.items() <= {p: p.read_bytes() for p in run.rglob("*") if p.is_file()}.items()
    # A damaged summary names what is no figure.
    summary["figures"] = ["..", ".", "", "../config.yaml", "nothing.png"]
    (run / "summary.json").write_text(json.dumps(summary))
    explain(place, *ORDERS)
    assert (run / "config.yaml").exists()
    foreign = run / "explanations.zarr" / "mine.txt"
    foreign.parent.mkdir()
    foreign.touch()
    with pytest.raises(FileExistsError, match="something else stands there"):
        explain(place, *words, "overwrite=true")
    assert foreign.exists()


def test_engines_share_streamed_rows() -> None:
    pytest.importorskip("distributed")
    for word, kind in (("workers=1", "NoneType"), ("workers=2", "ProcessPoolExecutor")):
        with executor(composed("explain", word)[0]) as found:
            assert type(found).__name__ == kind
    words = ["engine=dask", "engine.address=tcp://127.0.0.1:1", "+engine.timeout=0.5"]
    with (
        pytest.raises(OSError, match=r"tcp://127.0.0.1:1"),
        executor(composed("explain", *words)[0]),
    ):
        pass


# What a run holds is not run.


NETWORK = {"network": {"_target_": "os.system", "command": "x"}}
PYTHON = {"choices": {"data": "iris", "model": "python"}, "model": {"call": "os:system"}}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"data": {"_target_": "os.system"}}, "names code"),
        ({"value_function": NETWORK}, "names code"),
        ({"data": {"code": "os.system"}}, "data.code: 'os.system'"),
        ({"data": {"source": "os.system"}}, "'os.system'"),
        ({"choices": {"data": "../../../evil"}}, "evil"),
        (PYTHON, "model.call"),
    ],
)
def test_a_run_from_someone_else_executes_nothing(
    irises: Path, copied: Copy, change: dict[str, Any], error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = copied(irises)
    path = place / "iris" / "surrogate" / "config.yaml"
    (place / "evil.yaml").write_text("_target_: os.system\ncommand: x\n")
    OmegaConf.save(OmegaConf.merge(OmegaConf.load(path), change), path)
    ran: list[object] = []
    monkeypatch.setattr("os.system", ran.append)
    with pytest.raises((ValueError, MissingMandatoryValue), match=error):
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
    explain(place, *words, "report=false")
    assert not page.exists()
