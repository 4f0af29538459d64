"""Explaining by command: what is written, agreed, compared, refused and told."""

import json
import re
import shlex
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
import torch

import manifold_shap as ms
from manifold_shap.cli import explain as explaining
from manifold_shap.cli import games, registry, report
from manifold_shap.cli.directory import Directory
from manifold_shap.cli.run import Run
from manifold_shap.data import Iris
from manifold_shap.data.base import TensorDataModule
from manifold_shap.io.files import load_checkpoint, save_checkpoint
from manifold_shap.training.classifier import load_classifier
from tests.cli.commands import (
    CLASSIFIER,
    FOREST,
    ORDERS,
    QUICK,
    SHORT,
    TINY,
    TINY_VAE,
    composed,
    explain,
    explain_digits,
    explained,
    options,
    read,
    train,
)

OWN = {
    "surrogate": TINY,
    "vae": TINY_VAE[1:],
    "baseline": [],
    "contrastive": ["value_function.draws=4", "value_function.against=setosa"],
    "retrained": [],
}
ORDERING = [["petal length (cm)", "petal width (cm)"], ["sepal length (cm)"], ["sepal width (cm)"]]
Copy = Callable[..., Path]
Said = pytest.CaptureFixture[str]


def explain_iris(place: Path, *words: str, **settings: Any) -> dict[str, Any]:
    return explain(place, "data=iris", "estimator=exact", "instances=2", *words, **settings)


@pytest.fixture(scope="module")
def iris_data() -> TensorDataModule:
    data = registry.code("manifold_shap.data.Iris")()
    data.setup()
    return data


def forest(irises: Path, data: TensorDataModule) -> ms.Model:
    return load_classifier(irises / "iris" / "classifier", data)


@pytest.mark.usefixtures("drawn_figures")
def test_explaining_writes_what_it_promises(digits: Path, copied: Copy) -> None:
    place = copied(digits)
    summary = explain(place, "instances=2", *ORDERS)
    directory = place / "digits" / "surrogate"
    assert summary == read(directory, "summary.json")
    assert (summary["instances"], summary["players"], summary["outputs"]) == (2, 64, 10)
    assert summary["rows"] == "0-1"
    assert summary["efficiency_gap"] < 1e-5
    assert summary["largest_standard_error"] > 0
    assert summary["instances_per_second"] == pytest.approx(2 / summary["seconds"])
    assert summary["evaluations_per_second"] == pytest.approx(2 * 4 * 63 / summary["seconds"])
    assert "rows_per_second" not in summary
    assert (summary["hints"], summary["half_trained"]) == ([], [])
    assert (directory / "plots" / "pixel_maps.png").stat().st_size > 0
    explanation = explained(place)
    assert explanation.phi.shape == (2, 64, 10)
    assert explanation.made_by["permutations"] == 4


def test_every_file_is_read_once(
    digits: Path, copied: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, opened = copied(digits), list[str]()
    read_text = Path.read_text

    def counted(path: Path, *given: Any, **settings: Any) -> str:
        if path.is_relative_to(place) and path.exists():
            opened.append(str(path.relative_to(place)))
        return read_text(path, *given, **settings)

    monkeypatch.setattr(Path, "read_text", counted)
    explain(place, "instances=2", *ORDERS)
    assert sum(name.endswith("config.json") for name in opened) == 1
    opened.clear()
    explain(place, "instances=2", *ORDERS)
    assert {"digits/surrogate/config.json", "digits/surrogate/summary.json"} <= set(opened)
    assert len(opened) == len(set(opened))


def test_an_estimator_is_picked_and_named(digits: Path, copied: Copy, capsys: Said) -> None:
    place = copied(digits)
    summary = explain(place, "instances=2", "compare=[]")
    picked = explained(place).made_by["auto"]
    assert picked.startswith("kernel: a regression of 64 players on pairs of coalitions")
    assert read(place, "digits", "surrogate", "summary.json")["estimator"] == picked
    assert f"{summary['seconds']:.1f} s for surrogate ({picked})" in capsys.readouterr().out
    assert explain_digits(place)["estimator"] == "permutation"


@pytest.mark.parametrize("name", ["coalition", "kernel", "odd"])
def test_an_ordering_is_for_estimators_that_can_restrict_permutations(
    tmp_path: Path, name: str
) -> None:
    # Before anything is opened: there is no run.
    words = [f"estimator={name}", "ordering=[[a],[b]]"]
    with pytest.raises(ValueError, match=rf"got .*{name}_shapley; choose .*=adaptive, auto, exact"):
        explain(tmp_path, *words)
    with pytest.raises(FileNotFoundError):
        explain(tmp_path, *words, "asymmetric=false", "confounding=[true,false]")


@pytest.mark.parametrize("name", ["auto", "exact", "permutation", "adaptive"])
def test_estimators_that_can_restrict_permutations_take_an_ordering(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(FileNotFoundError):
        explain(tmp_path, f"estimator={name}", "ordering=[[a],[b]]")
    assert not list(tmp_path.iterdir())


def test_chosen_rows_are_explained_and_replaced_ones_are_said(
    digits: Path, copied: Copy, capsys: Said
) -> None:
    place = copied(digits)
    explain_digits(place, "instances=[7,3]")
    found = explained(place)
    run = Run(registry.plain(composed("explain", f"runs_dir={place}")))
    assert found.instances == (7, 3)
    assert torch.equal(found.x, run.data.x_test[[7, 3]])
    assert "Replacing" not in capsys.readouterr().out
    explain_digits(place, "instances=[7,3]", "estimator.permutations=2")
    assert "Replacing" not in capsys.readouterr().out
    explain_digits(place)
    assert "Replacing the explanation of rows 7,3 in" in capsys.readouterr().out


def test_outputs_are_chosen_once_for_all_rows(digits: Path, copied: Copy) -> None:
    place = copied(digits)
    whole = explain_digits(place, "instances=3", "compare=[]") and explained(place)
    explain_digits(place, "instances=3", "compare=[]", "outputs=2", "block=1")
    some = explained(place)
    largest = whole.prediction.mean(0).argsort(descending=True)[:2].tolist()
    assert some.outputs == tuple(whole.outputs[k] for k in largest)
    # One row at a time, a processor may round otherwise.
    torch.testing.assert_close(some.prediction, whole.prediction[:, largest])
    summary = explain_digits(place, "instances=3", "outputs=[7]")
    assert (explained(place).outputs, summary["outputs"]) == (("7",), 1)


def test_only_figures_of_earlier_runs_are_removed(irises: Path, copied: Copy) -> None:
    place = copied(irises, "classifier", "surrogate")
    plots = place / "iris" / "surrogate" / "plots"
    explain_iris(place, "instances=[0]", "compare=[]")
    (plots / "mine.png").write_text("precious")
    explain_iris(place, "instances=[5]", "compare=[]")
    names = {path.name for path in plots.iterdir()}
    assert names == {
        "waterfall_5.png", "bar.png", "beeswarm.png", "mse_by_size.png", "mine.png"
    }  # fmt: skip


@pytest.mark.parametrize("listed", [["..", ".", "a", "a.txt", "../config.json", [], 3], "a.png", 5])
def test_a_record_of_figures_names_figures_and_nothing_else(tmp_path: Path, listed: Any) -> None:
    plots = tmp_path / "plots"
    (plots / "a.png" / "kept").mkdir(parents=True)
    for path in (plots / "a.txt", tmp_path / "config.json"):
        path.write_text("kept")
    (tmp_path / "summary.json").write_text(json.dumps({"figures": listed}))
    assert Directory(tmp_path).drawn == []
    (plots / "b.png").touch()
    (tmp_path / "summary.json").write_text(json.dumps({"figures": ["a.png", "b.png", "c.png"]}))
    assert Directory(tmp_path).drawn == ["b.png"]


def test_results_of_a_checkpoint_elsewhere_go_under_runs_dir(
    digits: Path, copied: Copy, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place, elsewhere = copied(digits), tmp_path_factory.mktemp("elsewhere")
    checkpoint = elsewhere / "s.ckpt"
    shutil.copy(place / "digits" / "surrogate" / "surrogate.ckpt", checkpoint)
    (elsewhere / "summary.json").write_text("mine")
    explain_digits(place, f"checkpoint={checkpoint}")
    assert {path.name for path in elsewhere.iterdir()} == {"s.ckpt", "summary.json"}
    assert (elsewhere / "summary.json").read_text() == "mine"
    assert len(list((place / "digits").glob("surrogate-*/summary.json"))) == 1
    assert not (place / "digits" / "surrogate" / "summary.json").exists()
    # Beside a checkpoint only where a run has put it.
    inside = place / "digits" / "backup"
    shutil.copytree(place / "digits" / "surrogate", inside)
    explain_digits(place, f"checkpoint={inside / 'surrogate.ckpt'}")
    assert (inside / "summary.json").exists()
    with pytest.raises(FileNotFoundError, match="Expected a checkpoint at"):
        explain_digits(place, "checkpoint=none.ckpt")


@pytest.mark.parametrize("group", ["data", "value_function"])
@pytest.mark.parametrize(
    "name",
    ["../../x", "/x", "''", "${oc.env:HOME}", "a/b", ".hidden", "null", "classifier"],
)
def test_names_are_of_one_directory(tmp_path: Path, group: str, name: str) -> None:
    runs = tmp_path / "a" / "b"
    for command in (train, explain):
        with pytest.raises(ValueError, match=rf"`{group}\.name` to be the name of one directory"):
            command(runs, f"{group}.name={name}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("word", "error"),
    [
        ("seed=abc", "`seed`"),
        ("seed=1.5", "`seed`"),
        ("seed=null", "`seed`"),
        (f"seed={2**63}", "`seed`"),
        ("instances=1.5", "`instances`"),
        ("instances=true", "`instances`"),
        ("instances=some", "`instances`"),
        ("instances=0", "`instances`"),
        ("compare=5", "`compare` to list value functions"),
        ("compare=[gausian]", "did you mean 'gaussian'"),
        ("block=null", "`block` to be a whole number of at least 1 but got None"),
        ("block=0", "`block` to be a whole number of at least 1 but got 0"),
        ("engine.workers=0", "`engine.workers` to be a whole number of at least 1 but got 0"),
        ("engine.workers=two", "`engine.workers`"),
        ("+engine.seconds=0", "`engine.seconds` to be a finite number above 0"),
        ("+engine.address=5", r"`engine.address` to be text but got 5 \(int\)"),
        ("resume=no", "`resume` to be true or false but got 'no'"),
        ("asymmetric=no", "`asymmetric` to be true or false"),
        ("log_ratio_of_mean=no", "`log_ratio_of_mean` to be true or false"),
        ("progress=no", "`progress` to be true or false"),
        ("checkpoint=5", r"`checkpoint` to be text but got 5 \(int\)"),
        ("value_function.title=[1]", r"`value_function.title` to be text but got \[1\]"),
        ("value_function.zero_replacement=abc", "zero_replacement` to be a finite number"),
        ("device=warp", r"`device` to be cpu, auto, or cuda .* got 'warp'"),
        ("estimator.permutations='4'", "permutations"),
        ("estimator.batch_size=a", "batch_size"),
        ("value_function.output=ilr", r"value_function\.output: 'probability' -> 'ilr'"),
        ("data.test=0.3", r"data.test: 0.2 -> 0.3"),
        ("precision=half", "precision"),
        ("instances=[359]", r"from 0 to 358 but got \[359\]"),
        ("instances=[1.5]", "`instances`"),
        ("instances=360", "a count from 1 to 359"),
        ("outputs=[cat]", "Expected `outputs` to be one of .* but got 'cat'"),
        ("basis=tree", "output='ilr' together with `basis`"),
        ("balances=[1,2]", "output='ilr' together with `basis` or `balances`"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    digits: Path, copied: Copy, word: str, error: str
) -> None:
    place = copied(digits)
    before = {path for path in place.rglob("*") if path.is_file()}
    with pytest.raises((ValueError, TypeError), match=error):
        explain(place, "instances=1", *ORDERS, "compare=[]", word)
    after = {path for path in place.rglob("*") if path.is_file()}
    assert {path.name for path in after - before} <= {".surrogate.lock"}


def test_a_checkpoint_of_nothing_is_refused(digits: Path) -> None:
    with pytest.raises(ValueError, match=r"\(surrogate, vae\) but value_function=marginal has no"):
        explain_digits(digits, "value_function=marginal", "checkpoint=some.ckpt")


def test_a_value_function_of_another_classifier_is_refused(digits: Path, tmp_path: Path) -> None:
    # Well trained, so that it agrees with the other one on most rows.
    words = ["classifier.hidden=[64]", "classifier.max_epochs=6", "seed=1"]
    train(tmp_path, *words, "value_function=marginal")
    checkpoint = tmp_path / "surrogate.ckpt"
    shutil.copy(digits / "digits" / "surrogate" / "surrogate.ckpt", checkpoint)
    with pytest.raises(ValueError, match="predicts otherwise"):
        explain_digits(tmp_path, f"checkpoint={checkpoint}")
    train(tmp_path, "data=iris", *CLASSIFIER, "value_function=marginal")
    with pytest.raises(ValueError, match=r"a model for rows of shape \(1, 8, 8\)"):
        explain(tmp_path, "data=iris", f"checkpoint={checkpoint}")


def test_unknown_errors_are_null_in_the_summary(digits: Path, copied: Copy) -> None:
    place = copied(digits)
    explain_digits(place, "estimator.permutations=2")
    found = read(place, "digits", "surrogate", "summary.json")
    assert found["largest_standard_error"] is None


def test_explaining_before_training_says_what_to_run(digits: Path, copied: Copy) -> None:
    place = copied(digits, "classifier")
    with pytest.raises(FileNotFoundError, match=r"python train.py data=digits"):
        explain_digits(place / "none")
    with pytest.raises(FileNotFoundError, match="value_function=surrogate"):
        explain_digits(place)


def test_the_command_that_is_missing_works_as_typed(tmp_path: Path) -> None:
    table = tmp_path / "shop.csv"
    table.write_text("age,bought\n" + "".join(f"{k * 7 % 20},{k % 2}\n" for k in range(60)))
    words = ["data=table", f"data.path={table}", "data.target=bought", "value_function=marginal"]
    with pytest.raises(FileNotFoundError, match="python train") as error:
        explain(tmp_path, *words)
    typed = re.findall(r"`python train\.py (.*)`", str(error.value))[0]
    train(tmp_path, *shlex.split(typed), "classifier=naive_bayes")
    assert explain(tmp_path, *words, "estimator=exact", "compare=[]")["players"] == 1


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["estimator=permutation", "estimator.permutations=3"], "permutations"),
        (["estimator.seed=-1"], "seed"),
        (["estimator.evaluations=many"], "evaluations"),
        (["estimator=adaptive", "estimator.target_error=0"], "target_error"),
        (["estimator=amortized"], "amortised explainer in .*amortized=default"),
        (["+estimator.nosuch=1"], "nosuch"),
    ],
)
def test_estimators_refuse_their_settings_before_anything_is_opened(
    tmp_path: Path, words: list[str], error: str
) -> None:
    with pytest.raises((ValueError, TypeError, FileNotFoundError), match=error):
        explain(tmp_path, *words)
    assert not list(tmp_path.iterdir())


def test_a_failed_explanation_leaves_the_earlier_one(digits: Path, copied: Copy) -> None:
    place = copied(digits)
    explain_digits(place)
    before = (place / "digits" / "surrogate" / "summary.json").read_bytes()
    with pytest.raises(ValueError, match="at most 16 players"):
        explain(place, "estimator=exact")
    assert (place / "digits" / "surrogate" / "summary.json").read_bytes() == before
    assert explained(place).phi.shape == (2, 64, 10)


@pytest.mark.parametrize(
    ("at", "told"),
    [
        (
            "manifold_shap.cli.report.table",
            "explanations.zarr and plots and report.html and summary.json are new",
        ),
        ("manifold_shap.cli.report.save_figures", "explanations.zarr are new already"),
        ("manifold_shap.cli.explain.facts_of", "explanations.zarr are new already"),
        ("manifold_shap.cli.explain.rows_of", "Earlier results in .* are as they were"),
    ],
)
def test_an_interruption_tells_what_became_of_the_results(
    digits: Path, copied: Copy, monkeypatch: pytest.MonkeyPatch, at: str, told: str
) -> None:
    def interrupt(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(at, interrupt)
    with pytest.raises(KeyboardInterrupt, match=told):
        explain_digits(copied(digits))


def test_a_directory_at_work_is_refused(digits: Path, copied: Copy) -> None:
    place = copied(digits)
    directory = place / "digits" / "surrogate"
    with Directory(directory).locked():
        for command in (train, explain):
            with pytest.raises(ValueError, match=r"another train\.py or explain\.py is at work"):
                command(place)
        with pytest.raises(ValueError, match="is at work"):
            train(place, "overwrite=true")
        explain_digits(place, "value_function=marginal")
    explain_digits(place)


def test_a_training_in_another_way_while_explaining_is_noticed(
    digits: Path, copied: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = copied(digits)

    def replaced(run: Run, given: Any) -> tuple[list[int], torch.Tensor]:
        path = place / "digits" / "classifier" / "model.ckpt"
        shutil.copy(path, beside := path.with_suffix(".new"))
        beside.replace(path)
        return [0], run.data.x_test[:1]

    monkeypatch.setattr(explaining, "rows_of", replaced)
    with pytest.raises(ValueError, match="another command has replaced one"):
        explain_digits(place)


def test_a_recorded_configuration_cannot_name_code(
    digits: Path, copied: Copy, tmp_path: Path
) -> None:
    place = copied(digits)
    path, planted = place / "digits" / "surrogate" / "config.json", tmp_path / "planted"
    config = json.loads(path.read_text())
    touch = {"_target_": "pathlib.Path.touch", "_args_": [str(planted)]}
    for group, setting, bad in (
        ("data", "_target_", "os.system"),
        ("value_function", "_target_", "os.system"),
        ("data", "seed", touch),
        ("value_function", "hidden", touch),
    ):
        path.write_text(json.dumps({**config, group: {**config[group], setting: bad}}))
        with suppress(ValueError, TypeError):
            explain_digits(place)
        assert not planted.exists()
        if setting == "_target_":
            with pytest.raises(ValueError, match=rf"{group}\._target_"):
                explain_digits(place)


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        "null",
        "3",
        "[" * 100_000,
        "{}",
        '{"data": 3}',
        '{"data": {}, "classifier": []}',
        '{"data": {"nosuch": 1}, "classifier": {}, "rows": "", "value_function": {}}',
        '{"data": {}, "classifier": {}, "rows": "", "value_function": {"nosuch": 1}}',
        '{"data": {}, "classifier": {}, "rows": "", "value_function": 5}',
    ],
)
def test_a_tampered_record_is_refused(digits: Path, copied: Copy, content: str) -> None:
    place = copied(digits)
    (place / "digits" / "surrogate" / "config.json").write_text(content)
    with pytest.raises(ValueError, match=r"damaged|rows are others|_target_"):
        explain_digits(place)


def test_pictures_are_blurred(digits: Path, copied: Copy) -> None:
    place = copied(digits)
    summary = explain_digits(place, "value_function=blur", "value_function.sigma=1.5")
    assert summary["efficiency_gap"] < 1e-5
    found = explained(place, "blur")
    assert found.made_by["sigma"] == 1.5
    assert not torch.equal(found.base[0], found.base[1])


# Value functions of pictures, and of texts.
OF_OTHERS = {"blur", "mask_token", "padding", "deletion"}


@pytest.mark.filterwarnings("ignore:The weights of")
@pytest.mark.parametrize("name", sorted({*options("value_function")} - OF_OTHERS))
def test_every_value_function_goes_through_both_commands(
    name: str, irises: Path, copied: Copy
) -> None:
    place = copied(irises, "classifier", *({name} & {"surrogate", "vae"}))
    own = [f"value_function={name}", *OWN.get(name, ["value_function.draws=4"])]
    metrics = train(place, "data=iris", *FOREST, *own)
    assert 0 < metrics["mse"] < 1
    assert not metrics["mse_debiased"] > metrics["mse"]
    draws = 4 if any("draws" in setting for setting in own) else 1
    assert metrics["draws"] == draws
    assert 0 < metrics["effective_draws"] <= draws * (1 + 1e-5)
    assert set(metrics["mse_by_size"]) == {name, "off_manifold"}
    trained = registry.is_trained(registry.defaults("value_function", name))
    assert (metrics["epochs"] > 0) == trained
    others = [word for word in own if "draws" not in word and "trainer" not in word]
    summary = explain_iris(place, *others, "compare=[]", "instances=1")
    assert summary["efficiency_gap"] < 1e-5
    found = explained(place, name, "iris")
    assert found.made_by["value_function"] == name
    assert found.outputs == ("setosa", "versicolor", "virginica")


@pytest.mark.usefixtures("drawn_figures")
def test_a_comparison_is_drawn_in_order_and_scored_on_the_same_pairs(
    irises: Path, copied: Copy, iris_data: TensorDataModule, capsys: Said
) -> None:
    place = copied(irises)
    names = ["gaussian", "surrogate", "marginal", "vae"]
    summary = explain_iris(place, compare=names)
    assert list(summary["compared"]) == names
    assert summary == read(place, "iris", "surrogate", "summary.json")
    assert explained(place, data="iris").made_by["value_function"] == "surrogate"
    imputer = ms.GaussianImputer(iris_data.x_train, iris_data.players)
    value = ms.imputed_value(forest(irises, iris_data), imputer, draws=64)
    mask = ms.shapley_pairs(20, 4, least=100)
    generator = torch.Generator().manual_seed(0)
    rows = torch.randperm(len(iris_data.x_test), generator=generator)[:20]
    score = ms.mean_squared_error(value, iris_data.x_test[rows], mask)
    found = summary["compared"]["gaussian"]
    assert found["mse"] == pytest.approx(score.mse)
    assert found["mse_debiased"] == pytest.approx(score.debiased)
    assert [found["draws"] for found in summary["compared"].values()] == [64, 1, 64, 64]
    said = capsys.readouterr().out.splitlines()
    (line,) = [line.split() for line in said if line.startswith("gaussian ")]
    assert float(line[1]) == pytest.approx(score.mse, abs=1e-5)


@pytest.mark.parametrize("name", ["gaussian", "empirical", "baseline", "vae"])
def test_noisy_values_are_scored_with_many_draws(irises: Path, copied: Copy, name: str) -> None:
    own = OWN.get(name, ["value_function.draws=4"])
    settings = [word for word in own if "draws" in word]
    place = copied(irises)
    summary = explain_iris(place, f"value_function={name}", *settings, "compare=[surrogate]")
    draws = {"gaussian": 64, "empirical": 64, "baseline": 1, "vae": 64}[name]
    assert summary["compared"][name]["draws"] == draws
    made_with = summary["value_function"].get("draws", 1)
    assert explained(place, name, "iris").made_by["draws"] == made_with < 5


@pytest.mark.parametrize("confounding", [None, [True, False, True]])
@pytest.mark.parametrize("asymmetric", [False, True])
def test_the_four_kinds_of_orderings(
    irises: Path,
    copied: Copy,
    iris_data: TensorDataModule,
    asymmetric: bool,
    confounding: list[bool] | None,
) -> None:
    ordered = asymmetric or confounding is not None
    place = copied(irises, "classifier")
    summary = explain_iris(
        place,
        "value_function=gaussian",
        "value_function.draws=4",
        "compare=[]",
        ordering=ORDERING if ordered else None,
        asymmetric=asymmetric,
        confounding=confounding,
    )
    imputer: Any = ms.GaussianImputer(iris_data.x_train, iris_data.players)
    if confounding is not None:
        imputer = ms.CausalImputer(imputer, ORDERING, confounding)
    value = ms.imputed_value(forest(irises, iris_data), imputer, draws=4)
    ordering = ORDERING if asymmetric else None
    expected = ms.exact_shapley(value, iris_data.x_test[:2], ordering=ordering)
    found = explained(place, "gaussian", "iris")
    assert torch.allclose(found.phi, expected.phi, atol=1e-6)
    assert ("ordering" in found.made_by) == asymmetric
    assert ("confounding" in found.made_by) == (confounding is not None)
    assert ("ordering" in summary) == ordered


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
    irises: Path, settings: dict[str, Any], error: str
) -> None:
    with pytest.raises(ValueError, match=error):
        explain_iris(irises, "value_function=gaussian", "compare=[]", **settings)


def test_causal_values_need_an_imputer(irises: Path, copied: Copy) -> None:
    place = copied(irises)
    causal = {"ordering": ORDERING, "confounding": [True, False, True]}
    with pytest.raises(ValueError, match=r"'surrogate' has none; choose baseline, .*vae"):
        explain_iris(place, "compare=[]", **causal)
    with pytest.raises(ValueError, match="'surrogate' has none"):
        explain_iris(place, "value_function=vae", "compare=[surrogate]", **causal)
    explain_iris(place, "compare=[]", ordering=ORDERING)


def test_players_may_be_named_by_numbers() -> None:
    settings = {"confounding": [False, False], "ordering": [[2], [1]]}
    value = ms.imputed_value(
        lambda x: x.softmax(-1),
        ms.MarginalImputer(torch.rand(5, 2), ms.Players.of_elements((2,), ["1", "2"])),
    )
    found = games.causal(value, settings)
    assert found.provenance["causal_ordering"] == [["2"], ["1"]]
    assert games.ordering_of({"ordering": [[1, "a"], "2"]}) == [["1", "a"], "2"]
    assert games.ordering_of({"ordering": {1: [2.5, "a"]}}) == {"1": ["2.5", "a"]}


def test_causal_draws_are_not_capped_by_the_rows_of_the_imputer(
    iris_data: TensorDataModule,
) -> None:
    imputer = ms.MarginalImputer(iris_data.x_train[:10], iris_data.players)
    value = ms.imputed_value(lambda x: x[:, :3].softmax(-1), imputer, draws=40)
    assert value.draws == 10
    causal: Any = games.causal(value, {"ordering": ORDERING, "confounding": [False] * 3})
    assert causal.draws == 40


@pytest.mark.filterwarnings("ignore:.*are exactly zero")
def test_what_was_recorded_without_training_is_explained(
    irises: Path, copied: Copy, iris_data: TensorDataModule
) -> None:
    place = copied(irises, "classifier")
    own = ["value_function=gaussian", "value_function.draws=3", "value_function.output=ilr"]
    train(place, "data=iris", *FOREST, *own, "value_function.zero_replacement=0.05")
    summary = explain_iris(place, own[0], "compare=[]")
    again = explain_iris(place, own[0], "value_function.draws=5", "compare=[]")
    recorded = {"draws": 3, "output": "ilr", "zero_replacement": 0.05, "name": "gaussian"}
    assert summary["value_function"].items() >= recorded.items()
    assert again["value_function"].items() >= {**recorded, "draws": 5}.items()
    found = explained(place, "gaussian", "iris")
    assert found.space == ms.as_space("ilr", zero_replacement=0.05)
    assert found.made_by["draws"] == 5
    prediction = forest(irises, iris_data)(iris_data.x_test[:2])
    assert torch.allclose(found.prediction, found.space(prediction), atol=1e-5)


def test_a_setting_that_a_record_lacks_is_taken_as_it_comes(irises: Path, copied: Copy) -> None:
    place = copied(irises, "classifier")
    words = ["value_function=marginal", "value_function.draws=3"]
    train(place, "data=iris", *FOREST, *words)
    path = place / "iris" / "marginal" / "config.json"
    config = json.loads(path.read_text())
    del config["value_function"]["zero_replacement"]
    path.write_text(json.dumps(config))
    summary = explain_iris(place, words[0], "compare=[]")
    assert (summary["value_function"]["draws"], summary["efficiency_gap"] < 1e-5) == (3, True)
    with pytest.raises(ValueError, match=r"zero_replacement: None -> 0.001.*overwrite=true"):
        train(place, "data=iris", *FOREST, *words, "value_function.zero_replacement=0.001")


def test_references_are_in_the_record(irises: Path, copied: Copy) -> None:
    place = copied(irises, "classifier")
    own = ["value_function.against=virginica", "value_function.rows=null"]
    summary = explain_iris(place, "value_function=contrastive", *own, "compare=[]")
    assert summary["value_function"]["against"] == "virginica"
    found = explained(place, "contrastive", "iris").made_by["settings"]
    assert found["against"] == "virginica"
    explain_iris(place, "value_function=baseline", "value_function.point=median", "compare=[]")
    assert explained(place, "baseline", "iris").made_by["settings"]["point"] == "median"


def test_contrasts_are_compared_as_they_were_recorded(irises: Path, copied: Copy) -> None:
    place = copied(irises, "classifier", "vae")
    with pytest.raises(ValueError, match=r"neither; make it the value function.*`compare`"):
        explain_iris(place, "value_function=vae", "compare=[contrastive]")
    own = ["value_function=contrastive", "value_function.against=setosa"]
    train(place, "data=iris", *FOREST, *own)
    summary = explain_iris(place, "value_function=vae", "compare=[contrastive]")
    assert list(summary["compared"]) == ["vae", "contrastive"]


@pytest.mark.filterwarnings("ignore:.*are exactly zero")
def test_how_a_vae_imputes_can_change_without_training(irises: Path, copied: Copy) -> None:
    place = copied(irises, "classifier", "vae")
    vae, encoder = ["value_function=vae", "compare=[]"], "value_function.posterior=encoder"
    with pytest.raises(ValueError, match=r"trained for the bank .*overwrite=true"):
        explain_iris(place, *vae, encoder)
    train(place, "data=iris", *FOREST, *TINY_VAE, encoder, "overwrite=true")
    explain_iris(place, *vae, encoder)
    assert explained(place, "vae", "iris").made_by["posterior"] == "encoder"
    assert explained(place, "vae", "iris").made_by["draws"] == 4
    changes = ["value_function.draws=3", "value_function.temper=0.25", "value_function.output=ilr"]
    assert train(place, "data=iris", *FOREST, *TINY_VAE, *changes)["draws"] == 3
    explain_iris(place, *vae)
    found = explained(place, "vae", "iris")
    assert found.space.name == "ilr"
    assert found.made_by["temper"] == 0.25


def test_an_interrupted_vae_serves(irises: Path, copied: Copy, capsys: Said) -> None:
    place = copied(irises, "classifier", "vae")
    whole = place / "iris" / "vae"
    work = Directory(whole).work
    work.mkdir()
    (whole / "config.json").rename(work / "config.json")
    checkpoint = load_checkpoint(whole / "vae.ckpt", "vae")
    del checkpoint["imputer"]
    save_checkpoint(work / "best.ckpt", checkpoint)
    shutil.rmtree(whole)
    explain_iris(place, "value_function=vae", "compare=[]")
    assert "half-trained" in capsys.readouterr().out.splitlines()[0]
    assert "temper" in explained(place, "vae.partial", "iris").made_by


def test_a_checkpoint_of_another_kind_serves_too(irises: Path, copied: Copy) -> None:
    place = copied(irises, "classifier", "vae")
    checkpoint = place / "iris" / "vae" / "vae.ckpt"
    explain_iris(place, "value_function=vae", f"checkpoint={checkpoint}", "compare=[]")
    with pytest.raises(ValueError, match="checkpoint"):
        explain_iris(place, f"checkpoint={checkpoint}", "compare=[]")


def test_precision_is_that_of_a_surrogate(digits: Path, copied: Copy) -> None:
    place = copied(digits)
    explain_digits(place, "precision=bf16-mixed")
    assert explained(place).made_by["precision"] == "bf16-mixed"
    with pytest.raises(ValueError, match="Expected a surrogate for precision=bf16-mixed"):
        explain_digits(place, "value_function=marginal", "precision=bf16-mixed")


# Rows that are more than a block.


def test_each_block_has_its_own_draws(irises: Path, copied: Copy) -> None:
    place, words = copied(irises, "classifier"), ["value_function=marginal", "compare=[]"]
    explain_iris(place, *words, "value_function.draws=1", "instances=[3,3,3,3]", "block=1")
    first, *others = explained(place, "marginal", "iris").phi
    assert not all(torch.equal(first, other) for other in others)


def test_many_rows_are_streamed_and_the_first_of_them_shown(
    digits: Path, copied: Copy, capsys: Said
) -> None:
    place = copied(digits)
    summary = explain(place, *ORDERS, "instances=all", "block=150")
    assert summary == read(place, "digits", "surrogate", "summary.json")
    assert summary["instances"] == 359
    assert summary["instances_resumed"] == 0
    assert summary["instances_per_second"] == pytest.approx(359 / summary["seconds"])
    assert summary["evaluations_per_second"] == pytest.approx(359 * 4 * 63 / summary["seconds"])
    assert summary["efficiency_gap"] < 1e-5
    assert "349 more rows" in capsys.readouterr().out
    assert set(summary["compared"]) == {"surrogate", "marginal"}
    explanation = explained(place)
    assert explanation.phi.shape == (359, 64, 10)
    assert explanation.made_by["settings"]["name"] == "surrogate"
    largest = explanation.standard_error.max().item()
    assert summary["largest_standard_error"] == pytest.approx(largest)


def test_an_interrupted_stream_is_gone_on_with(
    digits: Path, copied: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, block = copied(digits), explaining._block
    calls = iter(range(100))

    @wraps(block)
    def interrupted(*given: Any, **settings: Any) -> ms.Explanation:
        if next(calls) == 3:
            raise KeyboardInterrupt
        return block(*given, **settings)

    words = ["instances=40", "block=8"]
    with monkeypatch.context() as patched:
        patched.setattr(explaining, "_block", interrupted)
        with pytest.raises(KeyboardInterrupt, match=r"of 40 rows are kept"):
            explain_digits(place, *words)
    with pytest.raises(ValueError, match="permutations"):
        explain_digits(place, *words, "estimator.permutations=16", "resume=true")
    summary = explain_digits(place, *words, "resume=true")
    assert 0 < summary["instances_resumed"] < 40


def test_a_stream_that_was_all_but_done_is_ended(
    digits: Path, copied: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No row is left to explain, and so no speed to be measured."""

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    place, words = copied(digits), ["instances=4", "block=2"]
    with monkeypatch.context() as patched:
        patched.setattr("zarr.consolidate_metadata", interrupt)
        with pytest.raises(KeyboardInterrupt, match="4 of 4 rows"):
            explain_digits(place, *words)
    summary = explain_digits(place, *words, "resume=true", "compare=[marginal]")
    assert summary["instances_resumed"] == 4
    compared = read(place, "digits", "surrogate", "summary.json")["compared"]
    assert compared["surrogate"]["seconds"] is None
    assert compared["marginal"]["seconds"] > 0


def contents(store: Path) -> dict[str, bytes]:
    """Every file of a directory, by its name in it."""
    files = [path for path in sorted(store.rglob("*")) if path.is_file()]
    return {str(path.relative_to(store)): path.read_bytes() for path in files}


# Start two interpreters each; the law itself is tested where rows are streamed.
@pytest.mark.slow
@pytest.mark.parametrize("engine", ["processes", "dask"])
def test_two_workers_write_what_one_process_does(digits: Path, copied: Copy, engine: str) -> None:
    place = copied(digits)
    store = place / "digits" / "surrogate" / "explanations.zarr"
    explain_digits(place, "instances=40", "block=8")
    before = contents(store)
    shutil.rmtree(store)
    explain_digits(place, "instances=40", "block=8", f"engine={engine}", "engine.workers=2")
    assert contents(store) == before


def test_settings_without_effect_on_few_rows_are_named(
    digits: Path, copied: Copy, capsys: Said
) -> None:
    place = copied(digits)
    explain_digits(place, "engine.workers=2", "resume=true")
    words = "resume=true and engine=processes engine.workers=2"
    said = f"No effect of {words}: 2 rows fit one block of 1024"
    assert said in capsys.readouterr().out
    explain_digits(place)
    assert "No effect" not in capsys.readouterr().out


# Tables of one's own, and outputs in log-ratios.


@pytest.mark.usefixtures("drawn_figures")
@pytest.mark.parametrize("output", ["probability", "log_odds"])
def test_a_forest_on_a_table_of_ones_own(tmp_path: Path, output: str) -> None:
    generator = torch.Generator().manual_seed(0)
    lines = ["age,income,colour,bought"]
    for k in range(200):
        age = int(torch.randint(20, 60, (), generator=generator))
        colour = ("red", "green", "blue")[k % 3]
        lines.append(f"{age},{age * 1.5 + k % 7},{colour},{'yes' if age + k % 9 > 42 else 'no'}")
    (tmp_path / "shop.csv").write_text("\n".join(lines))
    table = ["data=table", f"data.path={tmp_path / 'shop.csv'}", "data.target=bought"]
    words = [*TINY, f"value_function.output={output}", "value_function.zero_replacement=0.01"]
    recipe = ["classifier=naive_bayes"]
    train(tmp_path, *table, *recipe, *words)
    # The second command needs no path, but the name of the run.
    summary = explain(tmp_path, "data=table", "data.name=shop", "estimator=exact", "compare=[]")
    assert summary["players"] == 3
    plots = {path.name for path in (tmp_path / "shop" / "surrogate" / "plots").iterdir()}
    found = explained(tmp_path, data="shop")
    drawn = {f"waterfall_{row}.png" for row in found.instances}
    assert {*drawn, "bar.png", "beeswarm.png", "mse_by_size.png"} <= plots
    assert set(found.features()["colour"]) <= {"red", "green", "blue"}
    assert found.space.name == output
    assert found.phi.shape[-1] == (2 if output == "probability" else 1)
    assert found.efficiency_gap < 1e-5
    with pytest.raises(ValueError, match=r"data\.validation|`validation`"):
        train(tmp_path, *table, "data.validation=nan")


@pytest.mark.usefixtures("drawn_figures")
def test_log_ratios_from_end_to_end(digits: Path, copied: Copy) -> None:
    place = copied(digits, "classifier")
    train(place, *QUICK, *SHORT, "value_function.output=ilr")
    explain_digits(place, "value_function.output=ilr")
    found = explained(place)
    assert found.space.name == "ilr"
    assert found.efficiency_gap < 1e-5
    assert found.phi.shape[-1] == 9


def test_errors_that_are_not_known_are_not_in_the_table(irises: Path, copied: Copy) -> None:
    place = copied(irises, "classifier")
    explain_iris(place, "value_function=baseline", "compare=[]")
    found = explained(place, "baseline", "iris")
    for error, shown in ((torch.nan, False), (0.0, False), (0.1, True)):
        known = replace(found, standard_error=torch.full_like(found.phi, error))
        assert ("±" in report.table(known)) == shown


@pytest.mark.usefixtures("drawn_figures")
def test_titles_say_the_error_and_the_kind(irises: Path, copied: Copy) -> None:
    place = copied(irises, "classifier")
    words = ["value_function=gaussian", "compare=[]"]
    explain_iris(place, *words, ordering=ORDERING, confounding=[True, False, False])
    explanation = explained(place, "gaussian", "iris")
    imputer = ms.MarginalImputer(explanation.x, explanation.players)
    model = ms.as_model(lambda x: x[:, :3], explanation.x, explanation.outputs, "logits")
    mask = ms.shapley_pairs(2, 4, 4)
    score = ms.mean_squared_error(ms.imputed_value(model, imputer, draws=2), explanation.x, mask)
    drawn = {"gaussian": explanation, "marginal": explanation}
    titles = {"gaussian": "Gaussian", "marginal": "off the manifold (half-trained)"}
    scores = dict.fromkeys(drawn, score)
    bars: Any = report.figures(Iris(), drawn, "gaussian", titles, scores)["bar_0.png"]
    legend = [text.get_text() for text in bars.get_legend().get_texts()]
    assert legend == [f"{title} (MSE {score.mse:.4f})" for title in titles.values()]
    assert bars.get_xlabel() == "Asymmetric causal Shapley value (probability)"


def test_numbers_are_joined_where_they_are_neighbours() -> None:
    assert report.ranges(range(8)) == "0-7"
    assert report.ranges([3, 1, 2, 2]) == "3,1-2,2"
