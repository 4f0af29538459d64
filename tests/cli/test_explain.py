"""Explaining by command: what is written, agreed, compared, refused and told."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import manifold_shap as ms
from manifold_shap.cli import registry
from manifold_shap.cli.run import Run
from manifold_shap.data import Iris
from manifold_shap.data.base import TensorDataModule
from manifold_shap.training.classifier import load_classifier
from tests.cli.commands import (
    FOREST,
    ORDERS,
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
    data = Iris()
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
    assert summary["efficiency_gap"] < 1e-5
    assert summary["largest_standard_error"] > 0
    assert (directory / "plots" / "pixel_maps.png").stat().st_size > 0
    explanation = explained(place)
    assert explanation.phi.shape == (2, 64, 10)
    assert explanation.made_by["permutations"] == 4


def test_chosen_rows_are_explained(digits: Path, copied: Copy) -> None:
    place = copied(digits)
    explain_digits(place, "instances=[7,3]")
    found = explained(place)
    run = Run(registry.plain(composed("explain", f"runs_dir={place}")))
    assert found.instances == (7, 3)
    assert torch.equal(found.x, run.data.x_test[[7, 3]])


def test_results_of_a_checkpoint_elsewhere_go_under_runs_dir(
    digits: Path, copied: Copy, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place, elsewhere = copied(digits), tmp_path_factory.mktemp("elsewhere")
    checkpoint = elsewhere / "s.ckpt"
    shutil.copy(place / "digits" / "surrogate" / "surrogate.ckpt", checkpoint)
    explain_digits(place, f"checkpoint={checkpoint}")
    assert {path.name for path in elsewhere.iterdir()} == {"s.ckpt"}
    assert len(list((place / "digits").glob("surrogate-*/summary.json"))) == 1
    assert not (place / "digits" / "surrogate" / "summary.json").exists()
    # Beside a checkpoint only where a run has put it.
    inside = place / "digits" / "backup"
    shutil.copytree(place / "digits" / "surrogate", inside)
    explain_digits(place, f"checkpoint={inside / 'surrogate.ckpt'}")
    assert (inside / "summary.json").exists()


@pytest.mark.parametrize("name", ["../../x", "/x", "''", "null", "classifier"])
def test_names_are_of_one_directory(tmp_path: Path, name: str) -> None:
    runs = tmp_path / "a" / "b"
    for command, group in ((train, "data"), (explain, "value_function")):
        with pytest.raises(ValueError, match=rf"`{group}\.name` to be the name of one directory"):
            command(runs, f"{group}.name={name}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("word", "error"),
    [
        ("seed=1.5", "`seed`"),
        ("resume=no", "`resume` to be true or false but got 'no'"),
        ("ordering=[[a],[b]] asymmetric=false", "asymmetric=true or `confounding`"),
        ("interactions=true report=false", "report=true, no `basis` and no asymmetric"),
        ("value_function=marginal checkpoint=a.ckpt", "surrogate or vae, which are trained"),
        ("checkpoint=none.ckpt", "Expected a checkpoint at none.ckpt"),
        ("", "a trained value function .* run train.py first"),
        ("value_function=marginal", "a trained classifier"),
    ],
)
def test_settings_that_cannot_be_are_refused_without_a_run(
    tmp_path: Path, word: str, error: str
) -> None:
    with pytest.raises((ValueError, TypeError, FileNotFoundError), match=error):
        explain(tmp_path, *word.split())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("word", "error"),
    [
        ("compare=[gausian]", "gausian"),
        ("device=warp", "warp"),
        ("estimator.permutations=3", "permutations"),
        ("value_function.space=ilr", r"value_function\.space: 'probability' -> 'ilr'"),
        ("data.test=0.3", r"data.test: 0.2 -> 0.3"),
        ("precision=half", "precision"),
        ("instances=[359]", r"from 0 to 358 but got \[359\]"),
        ("instances=360", "`instances` to be a whole number from 1 to 359 but got 360"),
        ("outputs=[cat]", "Expected `outputs` to be one of .* but got 'cat'"),
        ("basis=tree", "space='ilr' together with `basis`"),
        ("balances=[1,2]", "space='ilr' together with `basis` or `balances`"),
        ("estimator=amortized", "amortized.ckpt"),
    ],
)
def test_settings_that_do_not_fit_the_run_leave_what_is_there(
    digits: Path, word: str, error: str
) -> None:
    before = {path for path in digits.rglob("*") if path.is_file()}
    orders = [] if "estimator=" in word else ORDERS
    with pytest.raises((ValueError, TypeError, RuntimeError, FileNotFoundError), match=error):
        explain(digits, "instances=1", *orders, "compare=[]", word)
    assert {path for path in digits.rglob("*") if path.is_file()} == before


def test_a_value_function_of_another_classifier_is_refused(digits: Path, tmp_path: Path) -> None:
    train(tmp_path, *FOREST, "value_function=marginal")
    checkpoint = tmp_path / "surrogate.ckpt"
    shutil.copy(digits / "digits" / "surrogate" / "surrogate.ckpt", checkpoint)
    with pytest.raises(ValueError, match="predicts otherwise"):
        explain_digits(tmp_path, f"checkpoint={checkpoint}")
    train(tmp_path, "data=iris", *FOREST, "value_function=marginal")
    with pytest.raises(RuntimeError, match=r"X has 64 features"):
        explain(tmp_path, "data=iris", f"checkpoint={checkpoint}")


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
    assert (metrics["epochs"] > 0) == (name in {"surrogate", "vae"})
    others = [word for word in own if "draws" not in word and "trainer" not in word]
    summary = explain_iris(place, *others, "compare=[]", "instances=1")
    assert summary["efficiency_gap"] < 1e-5
    found = explained(place, name, "iris")
    assert found.made_by["value_function"] == name
    assert found.outputs == ("setosa", "versicolor", "virginica")


def test_a_comparison_is_drawn_in_order_and_scored_on_the_same_pairs(
    irises: Path, copied: Copy, iris_data: TensorDataModule, capsys: Said
) -> None:
    place = copied(irises)
    names = ["gaussian", "surrogate", "marginal", "vae"]
    summary = explain_iris(place, compare=names)
    assert list(summary["compared"]) == names
    assert summary == read(place, "iris", "surrogate", "summary.json")
    assert explained(place, data="iris").made_by["value_function"] == "surrogate"
    imputer = ms.imputers.GaussianImputer(iris_data.x_train, iris_data.players)
    value = ms.imputed_value(forest(irises, iris_data), imputer, draws=64)
    mask = ms.metrics.shapley_pairs(20, 4, least=100)
    generator = torch.Generator().manual_seed(0)
    rows = torch.randperm(len(iris_data.x_test), generator=generator)[:20]
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
    imputer: Any = ms.imputers.GaussianImputer(iris_data.x_train, iris_data.players)
    if confounding is not None:
        imputer = ms.imputers.CausalImputer(imputer, ORDERING, confounding)
    value = ms.imputed_value(forest(irises, iris_data), imputer, draws=4)
    ordering = ORDERING if asymmetric else None
    expected = ms.exact_shapley(value, iris_data.x_test[:2], ordering=ordering)
    found = explained(place, "gaussian", "iris")
    assert torch.allclose(found.phi, expected.phi, atol=1e-6)
    assert ("ordering" in found.made_by) == asymmetric
    assert ("confounding" in found.made_by) == (confounding is not None)
    assert ("ordering" in summary) == ordered


def test_causal_values_need_an_imputer(irises: Path, copied: Copy) -> None:
    place = copied(irises)
    causal = {"ordering": ORDERING, "confounding": [True, False, True]}
    with pytest.raises(ValueError, match=r"such as vae, .* but 'surrogate' has none"):
        explain_iris(place, "compare=[]", **causal)
    with pytest.raises(ValueError, match="'surrogate' has none"):
        explain_iris(place, "value_function=vae", "compare=[surrogate]", **causal)
    explain_iris(place, "compare=[]", ordering=ORDERING)


@pytest.mark.filterwarnings("ignore:.*are exactly zero")
def test_what_was_recorded_without_training_is_explained(
    irises: Path, copied: Copy, iris_data: TensorDataModule
) -> None:
    place = copied(irises, "classifier")
    own = ["value_function=gaussian", "value_function.draws=3", "value_function.space=ilr"]
    train(place, "data=iris", *FOREST, *own, "value_function.zero_replacement=0.05")
    summary = explain_iris(place, own[0], "compare=[]")
    again = explain_iris(place, own[0], "value_function.draws=5", "compare=[]")
    recorded = {"draws": 3, "space": "ilr", "zero_replacement": 0.05, "name": "gaussian"}
    assert summary["value_function"].items() >= recorded.items()
    assert again["value_function"].items() >= {**recorded, "draws": 5}.items()
    found = explained(place, "gaussian", "iris")
    assert found.space == ms.spaces.as_space("ilr", zero_replacement=0.05)
    assert found.made_by["draws"] == 5
    prediction = forest(irises, iris_data)(iris_data.x_test[:2])
    assert torch.allclose(found.prediction, found.space(prediction), atol=1e-5)


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
    changes = ["value_function.draws=3", "value_function.temper=0.25", "value_function.space=ilr"]
    assert train(place, "data=iris", *FOREST, *TINY_VAE, *changes)["draws"] == 3
    explain_iris(place, *vae)
    found = explained(place, "vae", "iris")
    assert found.space.name == "ilr"
    assert found.made_by["temper"] == 0.25


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


def test_many_rows_are_streamed_and_the_first_of_them_shown(
    digits: Path, copied: Copy, capsys: Said
) -> None:
    place = copied(digits)
    summary = explain(place, *ORDERS, "instances=all", "block=150")
    assert summary == read(place, "digits", "surrogate", "summary.json")
    assert summary["instances"] == 359
    assert summary["instances_resumed"] == 0
    assert summary["instances_per_second"] == pytest.approx(359 / summary["seconds"])
    assert summary["efficiency_gap"] < 1e-5
    assert "359 rows in" in capsys.readouterr().out
    assert set(summary["compared"]) == {"surrogate", "marginal"}
    explanation = explained(place)
    assert explanation.phi.shape == (359, 64, 10)
    assert explanation.made_by["settings"]["name"] == "surrogate"
    largest = explanation.standard_error.max().item()
    assert summary["largest_standard_error"] == pytest.approx(largest)


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
    with pytest.raises(ValueError, match="permutations"):
        explain_digits(place, *words, "estimator.permutations=16", "resume=true")
    summary = explain_digits(place, *words, "resume=true")
    assert 0 < summary["instances_resumed"] < 40


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


# Tables of one's own, and outputs in log-ratios.


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
