"""Benchmarks run: each on sizes of a second."""

import json
import sys
from collections.abc import Callable, Set
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from torch import Tensor

import manifold_shap as ms
from benchmarks import (
    amortized,
    budget,
    compositions,
    figures,
    imputers,
    peers,
    rows,
    scaling,
    training,
)
from benchmarks.papers import trained

FILES = {".json", ".md", ".png"}


def call(monkeypatch: pytest.MonkeyPatch, main: Callable[[], None], *arguments: Any) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmark", *map(str, arguments)])
    main()


def written(folder: Path, name: str, suffixes: Set[str] = FILES) -> dict[str, Any]:
    assert {path.suffix for path in folder.iterdir()} == suffixes
    assert {path.stem for path in folder.iterdir()} == {name}
    return json.loads((folder / f"{name}.json").read_text())


@pytest.fixture(scope="module")
def value() -> ms.SurrogateValue:
    """A network of random weights whose first layer is large enough for players to interact."""
    return interacting()


def interacting() -> ms.SurrogateValue:
    made = scaling.random_value(players=8, classes=3)
    with torch.no_grad():
        made.surrogate.first.weight.mul_(4)
        made.surrogate.rest[-1].weight.mul_(20)
    return made


@pytest.fixture(scope="module")
def x() -> Tensor:
    return torch.randn(3, 8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (0.0123456, "0.0123"),
        (1234.5, "1,234"),
        (-98765.4, "-98,765"),
        (16384, "16,384"),
        ("exact", "exact"),
        (None, ""),
    ],
)
def test_numbers_in_tables(entry: Any, text: str) -> None:
    assert figures.number(entry) == text


def test_a_table_has_a_line_for_each_row() -> None:
    table = figures.markdown(["a", "b"], [[1, None], ["c", 0.5]])
    assert table == "| a | b |\n| --- | --- |\n| 1 |  |\n| c | 0.5 |\n"


def test_a_name_looks_the_same_in_all_panels() -> None:
    both = {"one": [(1.0, 1.0), (10.0, 2.0)], "two": [(1.0, 3.0), (10.0, 4.0)]}
    panels = [
        figures.Panel("left", "x", "y", both),
        figures.Panel("right", "x", "y", {"two": both["two"]}, {"level": 2.0}, {"three": 5.0}),
    ]
    figure = figures.draw(panels)
    left, right = figure.axes
    colours = {line.get_label(): line.get_color() for line in left.get_lines()}
    assert right.get_lines()[0].get_color() == colours["two"] != colours["one"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["one", "two", "three"]


def test_a_flat_curve_on_a_logarithmic_axis_looks_flat() -> None:
    flat = {"cost": [(1.0, 1.00), (10.0, 1.01)]}
    low, high = figures.draw([figures.Panel("", "x", "y", flat)]).axes[0].get_ylim()
    assert high / low >= 9.99


@pytest.mark.parametrize("name", budget.ESTIMATORS)
def test_every_estimator_keeps_to_a_budget_and_comes_near(
    name: str, value: ms.SurrogateValue, x: Tensor
) -> None:
    reference = budget.Reference.of(value, x, 1)
    found = budget.run(budget.ESTIMATORS[name], value, x, 1024, 0, reference)
    assert 0 < found.evaluations <= 1024
    assert found.error < 0.3
    assert (found.error < 1e-4) == found.exact


def test_the_reference_is_exact_where_players_are_few(value: ms.SurrogateValue, x: Tensor) -> None:
    reference = budget.Reference.of(value, x, 1)
    assert torch.equal(reference.phi, ms.exact_shapley(value, x).phi)
    assert reference.about == {"estimator": "exact", "evaluations": 254, "relative_error": 0.0}


def test_relative_errors_are_over_players_and_outputs_of_each_row() -> None:
    reference = torch.tensor([[[3.0], [4.0]], [[0.0], [1.0]]])
    gap = torch.tensor([[[0.5], [0.0]], [[0.0], [0.5]]])
    torch.testing.assert_close(budget.relative(gap, reference), torch.tensor([0.1, 0.5]))


def test_curves_fall_and_end_where_they_are_exact(value: ms.SurrogateValue, x: Tensor) -> None:
    names = ("permutation", "adaptive", "exact")
    few = {name: budget.ESTIMATORS[name] for name in names}
    report = budget.measure(value, x, [64, 512, 4096], seeds=5, reference=1, estimators=few)
    curves = report["curves"]
    assert [one["budget"] for one in curves["permutation"]] == [64, 512, 4096]
    errors = [one["relative_error"] for one in curves["permutation"]]
    assert errors[0] > 2 * errors[1] > 4 * errors[2] > 0
    assert 0.7 < curves["permutation"][-1]["error_by_expected"] < 1.3
    assert [one["budget"] for one in curves["exact"]] == [64]
    assert [one["budget"] for one in curves["adaptive"]] == [512, 4096]
    assert "at least 128" in report["refused"]["adaptive"][64]
    assert report["time"].keys() == {"permutation", "adaptive"}
    assert report["time"]["permutation"] == 1


def test_time_at_equal_error_is_a_ratio_of_squared_error_and_seconds() -> None:
    def end(error: float, seconds: float, exact: bool = False) -> list[dict[str, Any]]:
        return [{"relative_error": error, "seconds": seconds, "exact": exact}]

    found = {"permutation": end(0.1, 1.0), "other": end(0.05, 2.0), "exact": end(0.0, 1.0, True)}
    assert budget.time_ratios(found) == pytest.approx({"permutation": 1.0, "other": 0.5})


def test_budget_writes_its_report(
    value: ms.SurrogateValue, x: Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "surrogate_on", lambda *_: (value, SimpleNamespace(x_test=x)))
    small = ["--rows", 2, "--seeds", 2, "--budgets", 16, 64, "--most", 512, "--out", tmp_path]
    call(monkeypatch, budget.main, "--data", "digits", "census", *small)
    report = written(tmp_path, "budget")
    assert report["digits"]["curves"].keys() == budget.ESTIMATORS.keys()
    text = (tmp_path / "budget.md").read_text()
    assert text.count("| permutation |") == 4


@pytest.mark.parametrize("way", [scaling.ALONG, scaling.BY_MASKS])
def test_a_point_counts_what_it_has_done(way: str) -> None:
    threads = torch.get_num_threads()
    point = scaling.measure(6, 3, 2, permutations=4, way=way, repeats=3, threads=threads)
    assert point["evaluations"] == 2 * 4 * 5
    assert point["fastest"] <= point["seconds"] <= point["slowest"]
    assert point["seconds_per_row"] == point["seconds"] / 2
    assert point["peak_megabytes"] > point["megabytes_of_the_work"] >= 0


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
def test_peak_memory_is_that_of_a_process_alone() -> None:
    ours = bytearray(800_000_000)
    settings = {"players": 4, "classes": 2, "rows": 1, "permutations": 2, "repeats": 1}
    point = scaling.in_own_process(**settings, way=scaling.ALONG)
    assert point["peak_megabytes"] < scaling.peak_memory() - 100
    assert len(ours) < 2**20 * scaling.peak_memory()


def test_exponents_are_slopes_over_the_sizes_that_are_fitted() -> None:
    points = [{"players": n, "cost": 3 * n**1.5} for n in (64, 256, 4096)]
    points.append({"players": 8, "cost": 1e9})
    found = scaling.exponent(points, "players", "cost")
    assert found == {"exponent": pytest.approx(1.5), "from": 64, "to": 4096}
    assert scaling.exponent(points[:1], "players", "cost") is None


def test_seconds_per_order_grow_by_one_power_more() -> None:
    points = [
        {"players": n, "permutations": 2, "seconds": n * 2e-6, "seconds_per_evaluation": 1e-6}
        for n in (64, 512, 4096)
    ]
    found = scaling.growth("players", points)
    assert found["seconds per coalition"]["exponent"] == pytest.approx(0, abs=1e-9)
    assert found["seconds per order"]["exponent"] == pytest.approx(1)


@pytest.mark.parametrize("players", [8, 64, 4096])
def test_points_of_all_numbers_of_players_do_as_much(players: int) -> None:
    settings = scaling.settings_of("players", players, 16_384)
    assert settings["permutations"] % 2 == 0
    assert settings["permutations"] * (players - 1) == pytest.approx(16_384, rel=0.01)


def test_scaling_writes_its_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        scaling, "in_own_process", lambda **settings: scaling.measure(**settings, threads=1)
    )
    sizes = ["--players", 4, 64, 128, "--classes", 2, 4, "--rows", 1, 100, 200]
    small = ["--evaluations", 512, "--repeats", 1, "--out", tmp_path]
    call(monkeypatch, scaling.main, *sizes, *small)
    report = written(tmp_path, "scaling")
    assert report["players"].keys() == {scaling.ALONG, scaling.BY_MASKS}
    assert len(report["players"][scaling.BY_MASKS]["points"]) == 3
    assert report["rows"][scaling.ALONG]["exponents"]["seconds"]["from"] == 100
    text = (tmp_path / "scaling.md").read_text()
    assert "| along orders | seconds per order |" in text


@pytest.fixture(scope="module")
def data() -> Any:
    """What the benchmark of training takes from MNIST, in small."""
    generator = torch.Generator().manual_seed(0)
    rows = {
        f"x_{split}": torch.randn(count, 4, generator=generator)
        for split, count in (("train", 512), ("validation", 64), ("test", 64))
    }
    labels = {f"y_{split}": rows[f"x_{split}"].argmax(1) for split in ("train", "validation")}
    players = ms.Players.of_elements((4,))
    names = tuple(map(str, range(10)))
    return SimpleNamespace(setup=lambda: None, players=players, classes=names, **rows, **labels)


def test_both_sides_of_the_throughput_take_as_many_steps(
    data: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "MNIST", lambda name: data)
    found = training.throughput(epochs=2, repeats=2)
    assert found["steps"] == 4
    assert len(found["ratios"]) == 2


def test_a_finished_training_is_scored_on_the_test_rows(data: Any) -> None:
    model = ms.as_model(lambda x: 3 * x, data.x_test)
    found = training.finished(data, model, epochs=1, precision="32-true", seed=0)
    assert 0 < found["mse"] < 0.2
    assert found["seconds"] > 0


@pytest.mark.parametrize(("goal", "epochs"), [(0.31, 4), (0.15, 10), (0.01, None)])
def test_the_fewest_epochs_are_those_that_serve_every_seed(
    goal: float, epochs: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def finished(data: Any, model: Any, epochs: int, precision: str, seed: int) -> dict:
        return {"seconds": float(epochs), "mse": (1 + 0.2 * (seed == 1)) / epochs}

    monkeypatch.setattr(training, "finished", finished)
    found = training.time_to_error(None, None, "32-true", [10, 4, 8], 2, goal)
    assert found["epochs"] == epochs
    assert found["seconds"] == (None if epochs is None else float(epochs))
    assert all(one["epochs"] <= (epochs or 10) for one in found["tried"])


def test_training_writes_its_report(
    data: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ms.as_model(lambda x: 3 * x, data.x_test)
    monkeypatch.setattr(training, "MNIST", lambda name: data)
    monkeypatch.setattr(training, "classified", lambda: (data, model))
    small = ["--epochs", 1, "--repeats", 1, "--try-epochs", 1, "--seeds", 1, "--goal", 1]
    call(monkeypatch, training.main, *small, "--precisions", "32-true", "--out", tmp_path)
    report = written(tmp_path, "training")
    assert report["time_to_error"]["32-true"]["epochs"] == 1
    assert "below 1" in (tmp_path / "training.md").read_text()


def test_a_ranking_begins_with_the_best() -> None:
    entries = {"ours": 0.2, "other": 2.0, "ours, fast": 0.1}
    figure = figures.ranked({"one": entries, "two": {"ours": 1.0}}, "error", "ours")
    first, second = figure.axes
    # Upwards, as axes are read by matplotlib.
    assert [tick.get_text() for tick in first.get_yticklabels()] == ["other", "ours", "ours, fast"]
    assert first.get_xlabel() == second.get_xlabel() == "error"
    colours = first.collections[0].get_facecolors()
    assert np.array_equal(colours[1], colours[2])
    assert not np.array_equal(colours[0], colours[1])


def test_the_error_of_one_class_is_relative_to_that_class() -> None:
    reference = np.array([[3.0, 30.0], [4.0, 40.0]])
    assert peers.error_of(1.1 * reference, reference) == pytest.approx(0.1)
    assert peers.error_of([3.3, 4.4], reference) == pytest.approx(0.1)


@pytest.mark.parametrize(("fixed", "least", "most"), [(0.0, 186, 214), (0.1, 86, 114)])
def test_a_budget_takes_about_so_many_seconds(fixed: float, least: int, most: int) -> None:
    asked: list[int] = []

    def once(budget: int) -> tuple[float, None]:
        asked.append(budget)
        return fixed + 1e-3 * budget, None

    assert least <= peers.calibrated(once, 0.2, 2) <= most
    assert asked[0] == 2
    assert all(budget % 2 == 0 for budget in asked)


def test_a_budget_that_cannot_be_met_is_the_least() -> None:
    assert peers.calibrated(lambda budget: (3.0, None), 0.2, 4) == 4


def test_equal_time_for_few_players_is_that_of_exact_values(
    value: ms.SurrogateValue, x: Tensor
) -> None:
    _, phi, choice = peers.by_auto(value, peers.Counted(value, x[0]), 2**8)
    assert choice.startswith("exact")
    assert np.array_equal(phi, ms.exact_shapley(value, x[:1]).phi[0].numpy())


def alone(value: ms.SurrogateValue, x: Tensor) -> tuple[dict[str, peers.Side], peers.Counted]:
    """Our permutations in the place of every side."""
    game = peers.Counted(value, x)

    def ours(permutations: int, size: int) -> np.ndarray:
        words = {"permutations": permutations, "seed": game.seed}
        found = ms.permutation_shapley(value, game.x, **words)
        game.count += found.made_by["evaluations"]
        return found.phi[0].numpy()

    kernels = ("shap, kernel", "captum, kernel", "shapiq, kernel")
    return dict.fromkeys((*peers.BATCH_SIZES, *kernels), ours), game


@pytest.mark.parametrize("installed", [True, False])
@pytest.mark.filterwarnings("ignore")
def test_peers_writes_its_report(
    value: ms.SurrogateValue,
    x: Tensor,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    installed: bool,
) -> None:
    if installed:
        for package in ("captum", "lightshap", "shap", "shapiq"):
            pytest.importorskip(package)
    else:
        monkeypatch.setattr(peers, "sides", alone)
    monkeypatch.setattr(peers, "_SEEDS", 2)
    monkeypatch.setattr(peers, "surrogate_on", lambda *_: (value, SimpleNamespace(x_test=x)))
    monkeypatch.setattr(peers, "BATCH_SIZES", {side: [1024] for side in peers.BATCH_SIZES})
    small = ["--data", "digits", "--seconds", 0.01, "--repeats", 1, "--out", tmp_path]
    call(monkeypatch, peers.main, *small)
    report = written(tmp_path, "peers")["digits"]
    assert report["rates"].keys() == {"forward", *peers.BATCH_SIZES}
    assert all(entry["values_per_second"] > 0 for entry in report["rates"].values())
    errors = report["errors"]
    assert errors.keys() >= {"ours, auto", "ours, bf16, auto", "shapiq, kernel"}
    assert errors["ours, auto"]["relative_error"] < 1e-6
    assert all(0 < errors[side]["relative_error"] < 3 for side in peers.BATCH_SIZES)
    assert "| digits | lightshap |" in (tmp_path / "peers.md").read_text()


def test_rows_writes_its_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def iris(*overrides: str) -> tuple[Any, Any]:
        with initialize_config_dir(str(rows.CONF), version_base="1.3"):
            chosen = compose("train", ["data=iris", "classifier.max_epochs=1", *overrides])
        data = instantiate(chosen.data)
        data.setup()
        return chosen, data

    def here(place: Path, count: int, processes: int, pairs: int) -> dict[str, Any]:
        store = place / f"{count}-{processes}.zarr"
        return {**rows.explain(place, store, count, 1, pairs), "processes": processes}

    monkeypatch.setattr(rows, "census", iris)
    monkeypatch.setattr(rows, "fresh", here)
    small = ["--rows", 40, 80, "--pairs", 1, "--epochs", 1, "--repeats", 1, "--out", tmp_path]
    call(monkeypatch, rows.main, *small)
    report = written(tmp_path, "rows")
    assert [(run["rows"], run["processes"]) for run in report["runs"]] == [
        (40, 1),
        (40, 2),
        (80, 2),
    ]
    assert all(0 < run["seconds"] < run["seconds_of_call"] for run in report["runs"])
    # Of one process twice, here; that two agree is a test of streaming.
    assert report["same_bytes"]
    assert "| same bytes | yes |" in (tmp_path / "rows.md").read_text()


def test_a_changed_byte_or_a_missing_file_is_seen(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / name / "phi").mkdir(parents=True)
        (tmp_path / name / "phi" / "0.0").write_bytes(b"phi")
    assert rows.same_bytes(tmp_path / "one", tmp_path / "two")
    (tmp_path / "two" / "phi" / "0.0").write_bytes(b"psi")
    (tmp_path / "three" / "phi" / "0.0").unlink()
    assert not rows.same_bytes(tmp_path / "one", tmp_path / "two")
    assert not rows.same_bytes(tmp_path / "one", tmp_path / "three")


def test_amortized_writes_its_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling, "HIDDEN", (32, 32))
    monkeypatch.setattr(ms, "fit_amortized", partial(ms.fit_amortized, hidden=[32], batch_size=8))
    generator = torch.Generator().manual_seed(0)
    sizes = {"x_train": 512, "x_validation": 64, "x_test": 64}
    parts = {name: torch.randn(size, 8, generator=generator) for name, size in sizes.items()}
    made = (interacting(), SimpleNamespace(**parts))
    monkeypatch.setattr(amortized, "surrogate_on", lambda *_: made)
    small = ["--epochs", 1, "--rows", 4, "--coalitions", 64, "--out", tmp_path]
    call(monkeypatch, amortized.main, "--data", "digits", *small)
    report = written(tmp_path, "amortized", {".json", ".md"})["digits"]
    errors = report["relative_error"]
    assert errors["reference"] == 0
    assert errors["256 pairs"] < errors["8 pairs"] < 1
    assert 0 < errors["amortized"] < 2
    assert all(each > 0 for each in report["milliseconds_per_row"].values())


@pytest.fixture
def short_trainings(monkeypatch: pytest.MonkeyPatch) -> None:
    """One epoch, and a small network, for all that the settings of the commands train."""
    of_commands = trained.settings
    brief = [f"{kind}.{word}" for kind in ("value_function", "classifier")
             for word in ("max_epochs=1", "hidden=[16]")]  # fmt: skip
    monkeypatch.setattr(trained, "settings", lambda *words: of_commands(*words, *brief))


@pytest.mark.usefixtures("short_trainings")
def test_imputers_writes_its_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imputers, "PAPER", {"iris": {"off manifold": (0.5, None)}})
    monkeypatch.setattr(imputers, "DRAWS", 4)
    call(monkeypatch, imputers.main, "--seeds", 3, "--rows", 20, "--out", tmp_path)
    report = json.loads((tmp_path / "imputers_iris.json").read_text())
    assert [run["seed"] for run in report["runs"]] == [3]
    table = report["table"]
    assert table["paper"] == {"off manifold": 0.5}
    assert 0 < table["gaussian"]["mse"]["mean"] < table["off_manifold"]["mse"]["mean"]
    assert table["ratios"]["vae / surrogate"]["mean"] > 0
    assert table["surrogate_equal_minutes"].keys() == {"mse", "debiased", "train_seconds"}


def test_errors_over_all_coalitions_are_what_samples_of_them_tend_to(
    value: ms.SurrogateValue, x: Tensor
) -> None:
    mask = ms.shapley_pairs(len(x), len(value.players), least=3000)
    sampled = ms.mean_squared_error(value, x, mask)
    spread = sum(sampled.by_size.standard_error) / len(sampled.by_size.size)
    assert abs(imputers.exact_error(value, x) - sampled.mse) < 4 * spread


def test_compositions_writes_the_closed_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brief = {"max_epochs": 1}
    for fit in ("fit_imputer", "fit_surrogate"):
        monkeypatch.setattr(ms, fit, partial(getattr(ms, fit), **brief))
    few = partial(compositions.closed_form, players=4, classes=3, rows=500, instances=3)
    monkeypatch.setattr(compositions, "closed_form", lambda **_: few())
    call(monkeypatch, compositions.main, "--parts", "closed_form", "--out", tmp_path)
    report = written(tmp_path, "compositions_closed_form", {".json"})
    errors = report["relative error of phi"]
    assert 0 < errors["gaussian"] < errors["off manifold"]
