"""Results, their pages and plots, and the command that makes them."""

import json
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import manifold_shap as ms
from benchmarks import plots, report, reproduce
from benchmarks.report import Claim, Experiment, Found, Table
from manifold_shap.plots import canvas, style


def made(title: str = "A title", more: bool = False, **changes: Any) -> Experiment:
    def run(samples: int = 9, draws: int = 2) -> dict[str, Any]:
        return {"samples": samples, "draws": draws, "nan": float("nan")}

    def tables(found: Found) -> list[Table]:
        rows = [["a | b", (0.12345, 0.0123)], ["c", None], ["d", found["samples"]]]
        return [Table(["kind", "|phi|"], rows)]

    def figures(found: Found) -> dict[str, Any]:
        return {
            name: canvas.one_panel(None, 1.0, grid="y").figure
            for name in (["", "more"] if more else [""])
        }

    said = [Claim("it is", "Fig. 1", "0.1", True, "unseen"), Claim("it was", "2", "3", False, "so")]
    own: dict[str, Any] = {
        "quick": {"samples": 1},
        "claims": lambda found: said,
        "source": "Who (2021)",
    }
    return Experiment(title, run, **({"tables": tables, "figures": figures} | own | changes))


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


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (0.0123456, "0.0123"),
        (1234.5, "1,234"),
        (-98765.4, "-98,765"),
        (16384, "16,384"),
        ("exact", "exact"),
        (True, "yes"),
        (None, ""),
        ((4321.0, 123.4), "4,321 ± 100"),
        ((0.5, None), "0.5"),
        ((0.115, 8e-18), "0.115"),
        ((0.0, 0.0), "0 ± 0"),
        ((0.0, 8e-18), "0 ± 8e-18"),
    ],
)
def test_figures_in_tables(entry: Any, text: str) -> None:
    assert report.cell(entry) == text


def test_a_page_tells_of_errors_only_where_it_has_some(tmp_path: Path) -> None:
    save(tmp_path, "one", made(errors="of chance"))
    assert "Figures after ± are of chance." in (tmp_path / "one.md").read_text()
    bare = made(tables=lambda found: [Table(["kind", ""], [["a", (0.5, None)]])])
    save(tmp_path, "two", bare)
    assert "Figures after ±" not in (tmp_path / "two.md").read_text()


def test_figures_are_made_again_without_running_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, "negative", made())
    (tmp_path / "negative.png").unlink()
    (tmp_path / "negative.md").unlink()
    before = (tmp_path / "negative.json").read_text()
    again = replace(made(), run=lambda: pytest.fail("ran"))
    monkeypatch.setattr(reproduce, "experiment", lambda _: again)
    monkeypatch.setattr(reproduce, "PAPERS", {"Who (2021)": ("negative",)})
    reproduce.reproduce("papers/negative", figures=True, out=tmp_path)
    assert (tmp_path / "negative.png").exists()
    assert "## Who (2021)" in tmp_path.with_name(f"{tmp_path.name}.md").read_text()
    assert (tmp_path / "negative.json").read_text() == before


def test_the_index_has_a_table_of_claims_per_paper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "found", "negative", made())
    papers = {"Who (2021)": ("outliers", "negative"), "Nobody": ("pixels",)}
    monkeypatch.setattr(reproduce, "experiment", lambda _: made())
    monkeypatch.setattr(reproduce, "PAPERS", papers)
    text = reproduce.index(tmp_path / "found")
    assert "| it was | 2 | 3 | **no**: so | [negative](found/negative.md) |" in text
    assert f"\n- {ms.__version__}: [negative](found/negative.md)\n" in text
    assert text.count("## ") == 1
    assert "outliers" not in text


def test_a_later_result_leaves_no_plot_of_an_earlier_one(tmp_path: Path) -> None:
    save(tmp_path, "one", made(more=True))
    assert (tmp_path / "one_more.png").exists()
    (tmp_path / "one_of_mine.png").touch()
    save(tmp_path, "one", made())
    assert {path.name for path in tmp_path.iterdir()} == {
        "one.json",
        "one.md",
        "one.png",
        "one_of_mine.png",
    }


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
    save(tmp_path, "one", made(more=True))
    rename, there = Path.replace, []

    def watched(path: Path, target: Path) -> Path:
        there.append((tmp_path / "one.json").exists())
        return rename(path, target)

    monkeypatch.setattr(Path, "replace", watched)
    save(tmp_path, "one", made(more=True))
    assert there == [False] * 4
    assert (tmp_path / "one.json").exists()


def test_a_part_that_fails_leaves_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "parts" / "part.json"
    assert report.kept(path, {"seed": 0}, lambda: {"mse": 1.0}) == {"mse": 1.0}
    with pytest.raises(ZeroDivisionError):
        report.kept(path, {"seed": 1}, lambda: 1 / 0)
    assert report.kept(path, {"seed": 0}, lambda: pytest.fail("made again")) == {"mse": 1.0}
    assert [file.name for file in path.parent.iterdir()] == ["part.json"]


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
        assert Path(f"{folder}.md").exists()
    # Whoever repeats what the page says gets this result, wherever it is written.
    assert kept["command"] == "python benchmarks/reproduce.py papers/negative --quick draws=7"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["papers/outlier"], "Expected an experiment among papers/table1, .* got 'papers/outlier'"),
        (["papers/outliers", "sigma=1"], "Expected settings among sigmas, .*, seed but got sigma"),
        (["speed/peers", "--figures", "--out", "nowhere"], "FileNotFoundError"),
    ],
)
def test_what_is_not_there_is_refused_before_anything_runs(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=message):
        command(monkeypatch, *words)
    assert not list(tmp_path.iterdir())


# Experiments whose results were not measured in full yet, or are in `benchmarks/README.md` alone;
# "accelerator" is stored where there is a GPU.
NOT_STORED = ("along", "vignettes", "accelerator", "equal_time")


@pytest.mark.parametrize("name", reproduce.NAMES)
def test_every_experiment_has_settings_and_a_stored_result(name: str, root: Path) -> None:
    experiment = reproduce.experiment(name)
    settings = experiment.chosen(True, {})
    assert settings == json.loads(json.dumps(settings)) | settings
    assert experiment.quick
    assert not experiment.quick.keys() - settings.keys()
    kind, _, short = name.partition("/")
    folder = root / reproduce.FOLDERS[kind]
    if not (folder / f"{short}.json").exists():
        assert short in NOT_STORED
        return
    result = report.load(folder, short)
    assert result["found"]
    page = (folder / f"{short}.md").read_text()
    plots_of = [
        f"{short}_{which}" if which else short for which in experiment.figures(result["found"])
    ]
    assert report.page(experiment, result, plots_of) == page.partition(report.REMARKS)[0]
    assert all((folder / f"{plot}.png").exists() for plot in plots_of)


def test_the_index_in_docs_is_that_of_the_stored_results(root: Path) -> None:
    assert (root / "docs/results.md").read_text() == reproduce.index(root / "docs/results")


def test_a_name_looks_the_same_in_all_panels() -> None:
    both = {"one": [(1.0, 1.0), (10.0, 2.0)], "two": [(1.0, 3.0), (10.0, 4.0)]}
    panels = [
        plots.Panel("left", "x", "y", both),
        plots.Panel(
            "right", "x", "y", {"two": both["two"]}, {"level": 2.0}, {"three": 5.0}, "exact: three"
        ),
    ]
    figure = plots.curves(panels)
    left, right = figure.axes
    colours = {line.get_label(): line.get_color() for line in left.get_lines()}
    assert right.get_lines()[0].get_color() == colours["two"] != colours["one"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["one", "two"]
    # A line without a curve has no colour that another name has, and is named beside it.
    assert right.get_lines()[1].get_color() == style.NEUTRAL
    assert "exact: three" in [text.get_text() for text in right.texts]


def test_a_flat_curve_on_a_logarithmic_axis_looks_flat() -> None:
    flat = {"cost": [(1.0, 1.00), (10.0, 1.01)]}
    low, high = plots.curves([plots.Panel("", "x", "y", flat)]).axes[0].get_ylim()
    assert high / low >= 9.99


def test_a_ranking_begins_with_the_best() -> None:
    entries = {"ours": 0.2, "other": 2.0, "ours, fast": 0.1}
    axes = plots.ranked({"one": entries, "two": {"ours": 1.0}}, "error", "ours").axes[0]
    # Upwards, as axes are read by matplotlib.
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["other", "ours", "ours, fast"]
    first, second, third = axes.collections[0].get_facecolors()
    assert (second == third).all()
    assert (first != second).any()


def test_the_papers_dots_lie_on_top_and_have_whiskers_of_their_errors() -> None:
    sides = {"paper": {"a": (0.5, None)}, "ours": {"a": (0.25, 0.125), "b": (0.5, None)}}
    figure = plots.dots({"one": sides}, {"a": "A", "b": "B"}, "error")
    axes = figure.axes[0]
    paper, ours = (container.lines[0] for container in axes.containers)
    assert paper.get_zorder() > ours.get_zorder()
    ends = axes.containers[1].lines[2][0].get_segments()[0][:, 0]
    assert ends.tolist() == [0.0, 0.5]
    assert figure.legends[0].get_title().get_text() == "Whiskers: two standard errors."
    one = plots.dots({"one": sides}, {"a": "A", "b": "B"}, "error", whiskers=(1, "ranges"))
    ends = one.axes[0].containers[1].lines[2][0].get_segments()[0][:, 0]
    assert ends.tolist() == [0.125, 0.375]
    assert one.legends[0].get_title().get_text() == "Whiskers: ranges."
    none = {"ours": {"a": (0.5, None)}}
    assert not plots.dots({"": none}, {"a": "A"}, "error").legends[0].get_title().get_text()
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["A", "B"]


def test_dots_of_a_line_hide_no_other() -> None:
    same = {"a": (0.5, None), "b": (0.5, None)}
    sides = {"ours": same, "others": same, "paper": same}
    axes = plots.dots({"one": sides}, {"a": "A", "b": "B"}, "error").axes[0]
    where = [container.lines[0].get_ydata() for container in axes.containers]
    for line, each in enumerate(zip(*where, strict=True)):
        assert line - 0.5 < each[0] < each[1] == line < each[2] < line + 0.5


def test_bars_of_the_same_players_share_names_and_all_methods_one_legend() -> None:
    one = {"players": ["a", "b"], "phi": [1.0, -1.0], "standard_error": [0.1, None]}
    both = plots.global_bars({"left": {"m": one}, "right": {"m": one}}, 4.0)
    left, right = both.axes
    assert left.get_xlim() == right.get_xlim()
    assert left.bbox.width == pytest.approx(right.bbox.width, rel=1e-3)
    assert both.legends[0].get_title().get_text() == "Whiskers: two standard errors."
    assert [tick.get_text() for tick in right.get_yticklabels()] == ["", ""]
    assert [text.get_text() for text in both.legends[0].get_texts()] == ["m"]
    for axes in (left, right):
        assert [text.get_text() for text in axes.texts] == ["+1.00", "−1.00"]
    both.draw_without_rendering()
    inside = left.get_window_extent()
    for text in left.texts:
        assert inside.x0 < text.get_window_extent().x0
        assert text.get_window_extent().x1 < inside.x1


def test_bars_of_other_players_stand_below_and_are_as_thick() -> None:
    one = {"players": ["a", "b"], "phi": [1.0, -1.0], "standard_error": [0.1, None]}
    other = {"players": ["c", "d", "e"], "phi": [0.2, 3.0, 0.1], "standard_error": [0.1] * 3}
    figure = plots.global_bars({"up": {"m": one}, "down": {"m": other, "n": other}}, 4.0)
    figure.draw_without_rendering()
    up, down = figure.axes
    assert [tick.get_text() for tick in down.get_yticklabels()] == ["c", "d", "e"]
    assert up.bbox.y0 > down.bbox.y1
    assert up.get_xlim() == down.get_xlim()
    thick, other_thick = (axes.patches[0].get_window_extent().height for axes in (up, down))
    assert thick == pytest.approx(other_thick, rel=0.02)
