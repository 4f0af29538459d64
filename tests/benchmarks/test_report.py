"""Results, their pages and plots, and the command that makes them."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import report, reproduce, style
from benchmarks.report import Claim, Experiment, Found, Table


def made(title: str = "A title") -> Experiment:
    def run(samples: int = 9, draws: int = 2) -> dict[str, Any]:
        return {"samples": samples, "draws": draws, "nan": float("nan")}

    def tables(found: Found) -> list[Table]:
        rows = [["a | b", (0.12345, 0.0123)], ["c", None], ["d", found["samples"]]]
        return [Table(["kind", "|phi|"], rows)]

    said = [Claim("it is", "Fig. 1", "0.1", True, "unseen"), Claim("it was", "2", "3", False, "so")]
    return Experiment(
        title, run, tables, lambda found: {"": style.one_panel(1.0, grid="y").figure},
        lambda found: said, {"samples": 1}, "Who (2021)",
    )  # fmt: skip


def save(folder: Path, name: str, experiment: Experiment) -> None:
    result = report.measured(experiment, {"samples": 9}, "python some.py")
    report.save(experiment, folder, name, result)


def test_a_result_has_what_it_depends_on_and_a_page(tmp_path: Path) -> None:
    save(tmp_path, "one", made())
    kept = json.loads((tmp_path / "one.json").read_text(), parse_constant=pytest.fail)
    assert kept["found"] == {"samples": 9, "draws": 2, "nan": None}
    assert kept.keys() >= {"command", "settings", "seconds", "machine", "version", "note"}
    page = (tmp_path / "one.md").read_text()
    assert "| it is | Fig. 1 | 0.1 | yes |" in page
    assert "| it was | 2 | 3 | **no**: so |" in page
    # A bar would be the end of a cell.
    assert r"| a \| b | 0.123 ± 0.01 |" in page
    assert r"| kind | \|phi\| |" in page
    assert "| c |  |" in page
    assert "![A title](one.png)" in page
    assert "\n`python some.py`, " in page
    # Remarks are by hand, and stay.
    (tmp_path / "one.md").write_text(f"{page}{report.REMARKS}\nWhy.\n")
    save(tmp_path, "one", made("Another title"))
    again = (tmp_path / "one.md").read_text()
    assert again.startswith("# Another title")
    assert again.endswith(f"{report.REMARKS}\nWhy.\n")


def command(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    monkeypatch.setattr(sys, "argv", ["reproduce.py", *words])
    reproduce.main()


def test_quick_settings_take_the_place_of_others_unless_these_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reproduce, "experiment", lambda _: made())
    monkeypatch.setattr(reproduce, "PAPERS", {"Who (2021)": ("negative",)})
    for words, folder, expected in (
        (["--quick"], "runs/papers", (1, 2)),
        ([], "docs/results", (9, 2)),
        (["--quick", "samples=5"], "runs/papers", (5, 2)),
        (["--quick", "draws=7", "--out", "here"], "here", (1, 7)),
    ):
        command(monkeypatch, "papers/negative", *words)
        kept = report.load(Path(folder), "negative")
        assert (kept["found"]["samples"], kept["found"]["draws"]) == expected
        assert Path(folder, "index.md").exists()
    # Whoever repeats what the page says gets this result, wherever it is written.
    assert kept["command"] == "python benchmarks/reproduce.py papers/negative --quick draws=7"


# Experiments whose results are stored where there is a GPU.
NOT_STORED = ("accelerator",)


@pytest.mark.parametrize("name", reproduce.NAMES)
def test_every_experiment_has_settings_and_a_stored_result(name: str, root: Path) -> None:
    experiment = reproduce.experiment(name)
    settings = experiment.chosen(True, {})
    assert settings == json.loads(json.dumps(settings)) | settings
    assert experiment.quick
    assert not experiment.quick.keys() - settings.keys()
    kind, _, short = name.partition("/")
    assert short in NOT_STORED or report.load(root / reproduce.FOLDERS[kind], short)["found"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name in reproduce.NAMES if name.partition("/")[2] not in NOT_STORED]
)
def test_the_page_of_an_experiment_is_that_of_its_stored_result(name: str, root: Path) -> None:
    kind, _, short = name.partition("/")
    folder = root / reproduce.FOLDERS[kind]
    experiment, result = reproduce.experiment(name), report.load(folder, short)
    page = (folder / f"{short}.md").read_text()
    plots_of = [
        f"{short}_{which}" if which else short for which in experiment.figures(result["found"])
    ]
    assert report.page(experiment, result, plots_of) == page.partition(report.REMARKS)[0]
    assert all((folder / f"{plot}.png").exists() for plot in plots_of)


def test_the_index_in_docs_is_that_of_the_stored_results(root: Path) -> None:
    assert (root / "docs/results/index.md").read_text() == reproduce.index(root / "docs/results")
