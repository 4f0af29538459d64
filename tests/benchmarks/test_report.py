"""Results, their pages and plots, and the command that makes them."""

import json
import re
import sys
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from benchmarks import draw, report, reproduce
from benchmarks.report import ROOT, Claim, Experiment, Found, Table


def made() -> Experiment:
    def run(samples: int = 9, draws: int = 2) -> dict[str, Any]:
        return {"samples": samples, "draws": draws, "nan": float("nan")}

    def tables(found: Found) -> list[Table]:
        rows = [["a | b", (0.12345, 0.0123)], ["c", None], ["d", found["samples"]]]
        return [Table(["kind", "|phi|"], rows)]

    said = [Claim("it is", "Fig. 1", "0.1", True, "unseen"), Claim("it was", "2", "3", False, "so")]
    return Experiment(
        "A title", run, tables=tables, figures=lambda found: {"": draw.grid(1, 1.0)[0]},
        claims=lambda found: said, quick={"samples": 1}, source="Who (2021)",
    )  # fmt: skip


def test_a_name_has_one_look_in_all_panels_and_is_in_the_legend_if_it_has_a_point() -> None:
    names, count = ["a", "b", "c"], iter(range(9))
    panels = {str(k): {n: {"x": next(count)} for n in names[k:]} | {"none": {}} for k in range(3)}
    figure = draw.dots(panels, "error")
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == names
    looks = [
        {n: (h[0].get_color(), h[0].get_marker()) for h, n in zip(*found, strict=True)}
        for found in (axes.get_legend_handles_labels() for axes in figure.axes)
    ]
    assert len(set(looks[0].values())) == 3
    assert looks[1].items() <= looks[0].items() >= looks[2].items()


def test_a_result_has_what_it_depends_on_and_a_page(tmp_path: Path) -> None:
    report.save(made(), tmp_path, "one", report.measured(made(), {"samples": 9}, "python some.py"))
    kept = json.loads((tmp_path / "one.json").read_text(), parse_constant=pytest.fail)
    assert kept["found"] == {"samples": 9, "draws": 2, "nan": None}
    page = (tmp_path / "one.md").read_text()
    assert "| it is | Fig. 1 | 0.1 | yes |" in page
    assert "| it was | 2 | 3 | **no**: so |" in page
    # A bar would be the end of a cell.
    assert r"| a \| b | 0.123 ± 0.01 |" in page
    assert r"| kind | \|phi\| |" in page
    assert "| c |  |" in page
    assert "![A title](one.png)" in page
    assert " python some.py`: " in page
    assert kept["machine"]["cores"] >= 1
    assert kept["packages"]["torch"]
    assert len(kept["commit"]) >= 40


measured: list[str] = []


def part(key: str, factor: int = 1) -> dict[str, Any]:
    """What is measured of a part, which leaves a note that it was."""
    measured.append(f"{key} {factor}")
    return {"length": len(key) * factor}


def test_finished_parts_are_read_unless_settings_machine_or_code_are_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    of_parts = Experiment("A title", measure=part, over={"keys": ("a",)})
    assert of_parts.chosen(False, {}) == {"keys": ("a",), "factor": 1}
    for keys, factor in ((["a"], 1), (["a", "bb"], 1), (["a"], 2)):
        found = of_parts.found({"keys": keys, "factor": factor})
        assert found == {key: {"length": len(key) * factor} for key in keys}
    assert measured == ["a 1", "bb 1", "a 2"]
    for cores in (98, 99, 98):
        monkeypatch.setattr(report, "machine", lambda cores=cores: {"cores": cores, "load": 1.5})
        report.parts(["bb"], part, factor=1)
    assert measured[3:] == ["bb 1", "bb 1"]
    monkeypatch.setattr(report, "digest_of", lambda file: "other")
    report.parts(["a"], part, factor=1)
    assert measured[-1] == "a 1"


def command(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    monkeypatch.setattr(sys, "argv", ["reproduce.py", *words])
    with pytest.raises(SystemExit) as ended:
        reproduce.main()
    assert not ended.value.code


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another folder for all results, and one experiment in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(report, "ROOT", tmp_path)
    monkeypatch.setattr(reproduce, "NAMES", ("papers/negative",))
    monkeypatch.setattr(reproduce, "experiment", lambda _: made())
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks/README.md").write_text("By hand.\n")
    return tmp_path


def test_quick_settings_take_the_place_of_others_unless_these_are_named(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for words, folder, expected in (
        (["--quick"], "runs/papers", (1, 2)),
        ([], "docs/results", (9, 2)),
        (["--quick", "samples=5"], "runs/papers", (5, 2)),
        (["--quick", "draws=7", "--out", "here"], "here", (1, 7)),
    ):
        command(monkeypatch, "papers/negative", *words)
        kept = report.load(elsewhere / folder, "negative")
        assert (kept["found"]["samples"], kept["found"]["draws"]) == expected
    # Whoever repeats what the page says gets this result, wherever it is written.
    assert kept["command"] == "python benchmarks/reproduce.py papers/negative --quick draws=7"
    index = (elsewhere / "docs/results/index.md").read_text()
    assert "| [A title](negative.md) | 1 of 2 |" in index
    assert (elsewhere / "benchmarks/README.md").read_text().startswith("By hand.\n")


def test_several_run_apart_by_one_thread_unless_they_measure_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads = {}

    def run(command: list[str], env: dict[str, str]) -> CompletedProcess[str]:
        threads[command[2]] = env["OMP_NUM_THREADS"]
        return CompletedProcess(command, returncode=int(command[2] == "speed/gpu"))

    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    monkeypatch.setattr(reproduce, "run", run)
    names = ["papers/negative", "truth/draws", "speed/gpu", "speed/scale"]
    monkeypatch.setattr(sys, "argv", ["reproduce.py", *names, "--quick"])
    with pytest.raises(SystemExit, match=r": speed/gpu$"):
        reproduce.main()
    assert threads == dict(zip(names, "1155", strict=True))


def test_a_result_beside_others_is_not_replaced_by_one_with_older_ones(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command(monkeypatch, "papers/negative")
    place = elsewhere / "docs/results/negative.json"
    kept = json.loads(place.read_text())
    for there, refused in (("0", False), ("999", True)):
        place.write_text(json.dumps(kept | {"packages": {"shap": there}}))
        monkeypatch.setattr(sys, "argv", ["reproduce.py", "papers/negative"])
        with pytest.raises(SystemExit) as ended:
            reproduce.main()
        assert ("shap 999" in str(ended.value.code)) == refused


def test_all_are_what_is_not_there_or_older_than_the_code(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    result = elsewhere / "docs/results/negative.json"
    for digest, due in (("1", 1), ("1", 0), ("2", 1)):
        monkeypatch.setattr(report, "digest_of", lambda file, digest=digest: digest)
        before = result.read_text() if result.exists() else ""
        command(monkeypatch, "all", "--plan")
        assert f"{due} to run" in capsys.readouterr().out
        assert (result.read_text() if result.exists() else "") == before
        command(monkeypatch, "all")
        assert (result.read_text() == before) == (not due)
    code = report.load(result.parent, "negative")["code"]
    assert "manifold_shap/io/files.py" in code
    assert "benchmarks/report.py" not in code


STORED = [name for name in reproduce.NAMES if reproduce.stored(name)]


@pytest.mark.parametrize("name", reproduce.NAMES)
def test_every_experiment_has_a_quick_form_and_a_page_of_its_result(name: str) -> None:
    experiment = reproduce.experiment(name)
    settings = experiment.chosen(True, {})
    assert experiment.quick
    assert not experiment.quick.keys() - settings.keys()
    if name in STORED:
        folder, result = reproduce.folder_of(name), reproduce.stored(name)
        page = (folder / f"{name.partition('/')[2]}.md").read_text()
        plots = re.findall(r"\]\((\w+)\.png\)", page)
        assert report.page(experiment, result, plots) == page
        assert all((folder / f"{plot}.png").exists() for plot in plots)
        assert name.startswith("papers/") or experiment.summary(result["found"])


def test_lists_of_all_results_are_those_of_the_files(root: Path) -> None:
    assert (root / "docs/results/index.md").read_text() == reproduce.index()
    assert (root / "benchmarks/README.md").read_text().endswith(reproduce.overview())


def figures_in(text: str) -> set[str]:
    """Numbers of a text, without those of code and of places that it links to."""
    words = re.sub(r"`[^`]*`|\]\([^)]*\)|<[^>]*>", " ", text)
    return set(re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?", words))


def pieces(page: Path) -> list[str]:
    """Paragraphs; whole sections of the page that tells of results alone."""
    if page.stem != "how_good":
        return page.read_text().split("\n\n")
    return [section.partition("\n")[2] for section in page.read_text().split("\n## ")]


TEXTS = [ROOT / "README.md", *ROOT.glob("docs/*.md")]
PAGES = [page for page in TEXTS if re.search(r"results/\w+\.md", page.read_text())]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_links_to_results_has_only_their_figures(page: Path) -> None:
    lists = (ROOT / "benchmarks/README.md").read_text().splitlines()
    for piece in pieces(page):
        links = re.findall(r"\]\(([^)]*results/(\w+)\.md)", piece)
        if links:
            pages = [(page.parent / link).read_text() for link, _ in links]
            pages += [line for line in lists for _, name in links if f"{name}.md)" in line]
            there = {each for text in pages for each in figures_in(text)}
            there |= {f"{100 * float(each.replace(',', '')):.6g}" for each in there}
            assert figures_in(piece) <= there
