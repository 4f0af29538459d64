"""Reproductions: the command, its page, and oracles of the experiments of Frye et al. (2021)."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import OmegaConf
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

import manifold_shap as ms
from benchmarks import reproduce
from benchmarks.papers import negative, outliers, report, retraining, suppressed
from benchmarks.papers.report import Claim, Line, Report, Table
from benchmarks.papers.trained import Trained
from manifold_shap.nn import MLP
from manifold_shap.plots import style

ROOT = Path(__file__).parents[2]
SMALL = {
    "sigmas": "[0.05]",
    "outliers": 4,
    "orders": 16,
    "draws": 2,
    "learned": "[]",
    "more_trees": "[10]",
    "trees": 30,
}
WORDS = ["experiment=papers/outliers", *(f"settings.{k}={v}" for k, v in SMALL.items())]


def command(*words: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    script = str(ROOT / "benchmarks" / "reproduce.py")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, script, *words], cwd=cwd, env=environment, capture_output=True, text=True
    )


def composed(*words: str) -> Any:
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        return compose("reproduce", list(words))


def test_the_command_leaves_a_result_and_a_page(tmp_path: Path) -> None:
    done = command(*WORDS, "out=found/all.v1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "found" / "all.v1"
    assert {path.name for path in folder.iterdir()} == {"outliers.json", "outliers.png"}
    kept = json.loads((folder / "outliers.json").read_text())
    assert kept["settings"]["sigmas"] == [0.05]
    assert kept["settings"]["outliers"] == 4
    line = kept["lines"][0]
    assert line["what"].startswith("rows that the forest takes for the wrong kind")
    assert line["paper"] == 0 <= line["ours"] < 100
    rates, _ = kept["tables"]
    assert [row[:2] for row in rates["rows"]] == [[30, 0.05], [10, 0.05]]
    page = (tmp_path / "found" / "all.v1.md").read_text()
    assert f"## {outliers.TITLE}" in page
    assert "(all.v1/outliers.png)" in page
    # Whoever repeats what the page says gets this result, wherever it is written.
    assert "experiment=papers/outliers 'settings.sigmas=[0.05]' settings.outliers=4" in page
    assert "out=" not in page


def test_quick_settings_take_the_place_of_others_unless_these_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, Any]] = []

    def run(samples: int, draws: int) -> Report:
        seen.append({"samples": samples, "draws": draws})
        return made()

    monkeypatch.setattr(negative, "run", run)
    monkeypatch.chdir(tmp_path)
    for quick in (True, False):
        reproduce.reproduce(settled("negative", {"samples": 9, "draws": 2}, {"samples": 1}, quick))
    assert seen == [{"samples": 1, "draws": 2}, {"samples": 9, "draws": 2}]
    cfg = settled("negative", {"samples": 9, "draws": 2}, {"samples": 1}, True)
    for word in ("settings.samples=9", "++settings.samples=9", "settings={samples:9}"):
        reproduce.reproduce(cfg, ("quick=true", word))
        assert seen.pop() == {"samples": 9, "draws": 2}
    reproduce.reproduce(cfg, ("quick=true", "settings.draws=2"))
    assert seen.pop() == {"samples": 1, "draws": 2}
    for folder in ("runs/papers", "docs/results"):
        assert (tmp_path / folder / "negative.json").exists()
        assert "## A title" in (tmp_path / f"{folder}.md").read_text()


def settled(name: str | None, settings: dict, quick_settings: dict, quick: bool = False) -> Any:
    words = {"settings": settings, "quick_settings": quick_settings}
    return OmegaConf.create({"name": name, "quick": quick, "out": None, **words})


def test_the_command_says_what_it_expects(tmp_path: Path) -> None:
    done = command(cwd=tmp_path)
    assert done.returncode == 1
    message = "ValueError: Expected `experiment` to be one of papers/table1, papers/suppressed"
    assert done.stderr.startswith(message)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("experiment=papers/outlier", "Could not find 'experiment/papers/outlier'"),
        ("settings.sigma=1", "Could not override 'settings.sigma'"),
        ("+settings.sigma=1", "Expected the settings sigmas, .*, seed but .* argument 'sigma'"),
        ("+quick_settings.sigma=1", "Expected the settings sigmas, .* argument 'sigma'"),
        ("~settings.seed", "Expected the settings sigmas, .* missing a required argument: 'seed'"),
        ("name=outlier", "Expected `experiment` to be one of papers/table1"),
    ],
)
def test_what_is_not_there_is_refused_before_anything_runs(word: str, message: str) -> None:
    with pytest.raises((ValueError, HydraException), match=message):
        reproduce.reproduce(composed("experiment=papers/outliers", "quick=true", word))


@pytest.mark.parametrize("path", sorted((ROOT / "conf/experiment/papers").glob("*.yaml")))
def test_every_configuration_is_of_an_experiment_with_these_settings(path: Path) -> None:
    cfg = composed(f"experiment=papers/{path.stem}")
    assert cfg.name == path.stem
    assert cfg.name in reproduce.EXPERIMENTS
    assert cfg.quick_settings.keys() <= cfg.settings.keys()
    run = reproduce.import_module(f"benchmarks.papers.{cfg.name}").run
    reproduce._check_settings(run, OmegaConf.to_container(cfg.settings))


def made(title: str = "A title", **changes: Any) -> Report:
    figure, _ = style.one_panel(1.0, grid="y")
    parts: dict[str, Any] = {
        "lines": [Line("one | two", 0.12345, 0.0123, 2 / 3), Line("three", 4.0, paper="the same")],
        "claims": [Claim("it is", True), Claim("it was", False)],
        "tables": [Table(["kind", "|phi|"], [["a", (0.5, 0.25)], ["b", None]])],
        "remarks": "Why.",
        "figure": figure,
    }
    return Report(title, "Somebody (2021)", **(parts | changes))


def save(folder: Path, name: str, found: Report) -> None:
    report.save(found, folder, name, "python some.py", {"seed": 0}, took=1.5)


def test_the_page_has_figures_beside_the_papers(tmp_path: Path) -> None:
    save(tmp_path / "results", "one", made())
    page = report.page(tmp_path / "results", ["one"])
    # A bar would be the end of a cell.
    assert r"| one \| two | 0.667 | 0.123 ± 0.01 |" in page
    assert "| three | the same | 4 |" in page
    assert r"| kind | \|phi\| |" in page
    assert "| a | 0.5 ± 0.2 |" in page
    assert "| b |  |" in page
    assert "- it is: **holds**\n- it was: **does not hold**" in page
    assert "![A title](results/one.png)" in page
    assert "Somebody (2021).\n" in page
    assert page.index("| a | 0.5") < page.index("`python some.py`, 1.5 s on 1 thread\n")


def test_the_page_has_what_is_there_in_its_order(tmp_path: Path) -> None:
    save(tmp_path, "a", made("Last"))
    save(tmp_path, "b", made("First", figures={"more": style.new_figure(1.0, 1.0)}))
    page = report.page(tmp_path, ["b", "missing", "a"])
    assert page.index("## First") < page.index("More:\n\n![First](") < page.index("## Last")
    assert "missing" not in page


def test_a_later_result_leaves_no_plot_of_an_earlier_one(tmp_path: Path) -> None:
    save(tmp_path, "one", made(figures={"more": style.new_figure(1.0, 1.0)}))
    (tmp_path / "one_of_mine.png").touch()
    save(tmp_path, "one", made())
    found = {path.name for path in tmp_path.iterdir()}
    assert found == {"one.json", "one.png", "one_of_mine.png"}


def test_seconds_are_of_all_that_was_measured(tmp_path: Path) -> None:
    for seconds, expected in ((None, 1.5), (3600.0, 3600.0)):
        save(tmp_path, "one", made(seconds=seconds))
        assert json.loads((tmp_path / "one.json").read_text())["seconds"] == expected


def test_what_is_no_number_is_null(tmp_path: Path) -> None:
    nan = float("nan")
    unknown = made(lines=[Line("one", 1.0, nan)], more={"of one": [nan, {"inf": -nan}, 2.0]})
    save(tmp_path, "one", unknown)
    kept = json.loads((tmp_path / "one.json").read_text(), parse_constant=pytest.fail)
    assert kept["lines"][0] == {"what": "one", "ours": 1.0, "error": None, "paper": None}
    assert kept["more"] == {"of one": [None, {"inf": None}, 2.0]}
    assert "| one |  | 1 |" in report.page(tmp_path, ["one"])


@pytest.mark.parametrize("earlier", [True, False])
def test_a_result_that_cannot_be_written_leaves_no_trace(
    earlier: bool, tmp_path: Path, full_disk: Callable[[], AbstractContextManager[None]]
) -> None:
    if earlier:
        save(tmp_path, "one", made("Earlier"))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with full_disk(), pytest.raises(OSError, match="File too large"):
        save(tmp_path, "one", made("Later"))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_result_is_not_there_while_its_files_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else an interruption would leave new plots beside old figures."""
    more = {"figures": {"more": style.new_figure(1.0, 1.0)}}
    save(tmp_path, "one", made(**more))
    replace, pages = Path.replace, []

    def watched(path: Path, target: Path) -> Path:
        pages.append(report.page(tmp_path, ["one"]))
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", watched)
    save(tmp_path, "one", made(**more))
    assert len(pages) == 3
    assert not any("## A title" in page for page in pages)
    assert "## A title" in report.page(tmp_path, ["one"])


def values_of(phi: Sequence[float], error: float = 0.01) -> ms.GlobalValues:
    sizes = torch.tensor(phi, dtype=torch.float64)
    names = tuple(f"x{i}" for i in range(len(phi)))
    return ms.GlobalValues(sizes, torch.full_like(sizes, error), float(sizes.sum()), 0.0, names, 9)


class People:
    """Rows of sex, a feature that goes with it, and one that does not; y depends on both."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        sex = (torch.rand(600, generator=generator) < 0.5).float()
        noise = torch.randn(600, 3, generator=generator)
        x = torch.stack((1 - sex, sex, sex + 0.3 * noise[:, 0], noise[:, 1]), 1)
        self.x_train, self.y_train = x, (2 * sex - 1 + x[:, 3] + noise[:, 2] > 0).long()
        self.players = ms.Players(("sex", "job", "luck"), torch.tensor([0, 0, 1, 2]))
        self.classes = ("no", "yes")


def test_both_ways_replace_one_player_in_every_row() -> None:
    people = People()
    one, other = suppressed.both_ways(people.x_train, people.players)
    assert {tuple(row) for row in one[:, :2].tolist()} == {(0.0, 1.0)}
    assert {tuple(row) for row in other[:, :2].tolist()} == {(1.0, 0.0)}
    for moved in (one, other):
        assert torch.equal(moved[:, 2:], people.x_train[:, 2:])
    # One of the two is the row as it is.
    same = (one == people.x_train).all(1) ^ (other == people.x_train).all(1)
    assert same.all()
    with pytest.raises(ValueError, match="Expected two values of 'sex' but the rows have 1"):
        suppressed.both_ways(one, people.players)


def test_the_penalty_makes_dependence_fall_and_leaves_accuracy() -> None:
    people = People()
    network = suppressed.classifier(people.x_train, people.y_train, seed=0)
    ways = suppressed.both_ways(people.x_train, people.players)
    trained: Any = SimpleNamespace(data=people, fitted=network)
    before = suppressed.dependence(network, *ways).item()
    kept, hidden = (suppressed.suppress(trained, alpha, 1e-3, 40, seed=0) for alpha in (0.0, 3.0))
    assert before > 0.2
    assert suppressed.dependence(kept, *ways) > before / 2
    assert suppressed.dependence(hidden, *ways) < before / 5
    # The job tells the sex.
    right = (hidden(people.x_train).argmax(1) == people.y_train).double().mean()
    assert right > 0.7
    # The original is another network, and as it was.
    assert suppressed.dependence(network, *ways).item() == before


@pytest.mark.parametrize(
    ("dependences", "expected"), [((0.3, 0.09, 0.01, 0.02), 3), ((0.3, 0.11, 0.2, 0.5), 1)]
)
def test_the_most_faithful_copy_that_hides_is_chosen(
    dependences: Sequence[float], expected: int
) -> None:
    """Agreement on test rows, where it would be another one, has no say."""
    tried = [
        suppressed.Tuned(nn.Identity(), rate, left, faithful, 1 - faithful, 0.5, 0.5)
        for rate, left, faithful in zip(range(4), dependences, (0.99, 0.95, 0.9, 0.96), strict=True)
    ]
    assert suppressed.most_faithful(tried) is tried[expected]


def test_agreement_is_on_classes() -> None:
    one, other = nn.Identity(), lambda x: x.roll(1, 1)
    x = torch.tensor([[0.1, 0.9], [0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])
    assert suppressed.agreement(one, other, x) == 0.25  # type: ignore[arg-type]


def test_dependence_is_the_mean_distance_of_the_second_class() -> None:
    network = nn.Linear(1, 2)
    with torch.no_grad():
        network.weight.copy_(torch.tensor([[0.0], [1.0]]))
        network.bias.zero_()
    one, other = torch.tensor([[0.0], [2.0]]), torch.tensor([[2.0], [0.0]])
    expected = torch.tensor(2.0).sigmoid().item() - 0.5
    assert suppressed.dependence(network, one, other).item() == pytest.approx(expected)


def test_the_classifier_tells_classes_apart() -> None:
    people = People()
    network = suppressed.classifier(people.x_train, people.y_train, seed=0)
    assert isinstance(network, MLP)
    # Two normal features and a bit: the best is about 0.85.
    assert (network(people.x_train).argmax(1) == people.y_train).double().mean() > 0.75


@pytest.mark.parametrize(
    ("on", "off", "tree", "holds"), [(0.02, 1.0, 1.1, True), (1.0, 0.02, 0.01, False)]
)
def test_claims_about_retraining_may_fail(on: float, off: float, tree: float, holds: bool) -> None:
    target, apart = np.array([1.0, 0.5, 0.2, 0.1]), np.array([0.4, -0.5, 0.1, -0.6])
    names = {
        retraining.TABLE: on,
        "on manifold, surrogate": on,
        "on manifold, VAE": on,
        "off manifold": off,
        "Tree SHAP": tree,
        retraining.RETRAINED: 0.0,
    }
    noise = 1e-3 * np.random.default_rng(0).standard_normal((50, 4))
    found = {
        name: retraining.Explained(
            torch.from_numpy(target + scale * apart + noise), values_of(target + scale * apart)
        )
        for name, scale in names.items()
    }
    made = retraining._report(found, accuracy=0.8, attributable=1.8, seed=0)
    shares = [line.ours for line in made.lines if "share of resamples" in line.what]
    assert shares == [float(holds)] * 3
    claims = made.claims
    assert [claim.holds for claim in claims] == [holds] * len(claims)


class Small(Trained):
    """Some players of made-up rows, and imputers that need no training."""

    def __init__(self, name: str, seed: int, fit: Any = None) -> None:
        self.name, self.seed = name, seed
        self.data: Any = SMALL_DATA[name]()
        x, y = self.data.x_train, self.data.y_train
        self.fitted = fit(x, y) if fit else LogisticRegression().fit(x.flatten(1), y)
        self.explain(self.fitted if fit else lambda x: logits(self.fitted, x))

    def surrogate(self, **changes: Any) -> Any:
        return self.vae(8)

    def vae(self, draws: int, *overrides: str, **changes: Any) -> Any:
        return self.imputed(ms.ExactMatchImputer(self.data.x_train, self.data.players), draws)


def logits(fitted: LogisticRegression, x: Tensor) -> Tensor:
    return torch.from_numpy(fitted.predict_log_proba(x.flatten(1).numpy())).float()


class Bits:
    """Binary rows whose first elements are copies of one bit, which is the class, mostly."""

    def __init__(self, event: Sequence[int] = (4,), names: Sequence[str] | None = None) -> None:
        generator = torch.Generator().manual_seed(0)
        y = torch.randint(2, (240,), generator=generator)
        x = torch.randint(2, (240, *event), generator=generator).float()
        x.flatten(1)[:, :2] = y[:, None]
        wrong = torch.rand(240, generator=generator) < 0.1
        self.x_train = self.x_validation = self.x_test = x
        self.y_train = self.y_test = torch.where(wrong, 1 - y, y)
        self.players = ms.Players.of_elements(tuple(event), names)
        self.classes = ("0", "1")


SMALL_DATA: dict[str, Callable[[], Any]] = {
    "abalone": Bits,
    "drug": Bits,
    "census": partial(Bits, names=("sex", "job", "age", "luck")),
    "mnist": partial(Bits, event=(1, 4, 4)),
}


@pytest.mark.parametrize(
    ("module", "settings", "tables"),
    [
        (retraining, {"samples": 300, "draws": 4, "trees": 3, "epochs": 1}, [4]),
        (
            suppressed,
            {
                "samples": 300,
                "draws": 4,
                "alpha": 3.0,
                "tuning_rates": [1e-3, 1e-4],
                "tuning_epochs": 2,
                "epochs": 1,
            },
            [4, 4, 4, 2],
        ),
    ],
    ids=lambda entry: getattr(entry, "__name__", ""),
)
def test_experiments_run_on_small_data(
    module: Any,
    settings: dict[str, Any],
    tables: list[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if module is retraining:
        pytest.importorskip("shap", reason="needs manifold_shap[shap]")
    monkeypatch.setattr(module, "Trained", Small)
    found = module.run(**settings, seed=0)
    assert [len(table.rows) for table in found.tables] == tables
    check_sums(found)
    save(tmp_path, "some", found)
    assert f"## {module.TITLE}" in report.page(tmp_path, ["some"])


def check_sums(found: Report) -> None:
    """Values add up to what the model itself says, wherever there are any (Eq. 5).

    Tree SHAP and retrained models have bases of their own.
    """
    figures = {line.what: line.ours for line in found.lines}
    for what, total in figures.items():
        if "from the model" in what:
            model = what.partition(": ")[2]
            sums = [
                figure
                for name, figure in figures.items()
                if name.startswith("sum of the values")
                and not name.endswith((retraining.TREE, retraining.RETRAINED))
                and name.endswith(model)
            ]
            assert len(sums) >= 3
            assert sums == pytest.approx([total] * len(sums), abs=1e-5)
