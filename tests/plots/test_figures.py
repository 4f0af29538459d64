"""All figures: that they appear, whose row and class they show, what they say and refuse."""

import inspect
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import manifold_shap as ms
from manifold_shap import plots, shown
from tests.plots.helpers import (
    composed,
    digits,
    explained,
    picture_and_columns,
    ragged,
    score,
    table,
    texts,
    tick_labels,
    written,
)

LONG = "a name that anyone would call long, of the systolic blood pressure "
QUALITY = {"chosen": "vae", "rows": 500, "mse": {"vae": 0.01234, "marginal": 0.0341}}
NOTE = (
    "value function: vae has a root mean squared error of 0.111 (0.185 off the manifold), measured "
    "on 500 rows"
)
WARNING = "the value function is no better than values off the manifold"
OF_A_ROW = ["compositions", "cumulative", "parallel_coordinates", "ilr_plane", "ilr_space"]


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    plt.close("all")


def assert_nothing_is_cut(figure: Figure) -> None:
    """All that is drawn lies inside of the figure, up to a fiftieth of an inch; ticks lie apart."""
    figure.draw_without_rendering()
    for axes in figure.axes:
        ticks = [each for each in axes.get_xticklabels() if each.get_rotation() == 0]
        low, high = sorted(axes.get_xlim())
        inside = [each for each in ticks if low <= each.get_position()[0] <= high]
        boxes = [each.get_window_extent() for each in inside if each.get_text()]
        assert all(one.x1 < other.x0 for one, other in itertools.pairwise(boxes))
    drawn, size = figure.get_tightbbox(), figure.get_size_inches()
    assert (drawn.min >= -0.02).all()
    assert (drawn.max <= size + 0.02).all()


def every_plot() -> dict[str, Callable[..., Any]]:
    """Each plot of something that it draws, to be called with further settings."""
    people = replace(table(), made_by={"half_trained": True, "quality": QUALITY})
    interactions = ms.shapley_interactions(
        lambda x, mask: torch.where(mask, x[:, None], 0.0).prod(-1, True), torch.rand(3, 4)
    )
    drawn = {
        "bars side by side": lambda **s: plots.bar({"on": people, "off": people}, **s),
        "global values": lambda **s: plots.bar(ms.global_values(people, ["poor", "rich"] * 3), **s),
        "three swarms": lambda **s: plots.beeswarm(dict.fromkeys("abc", people), **s),
        "interactions": lambda **s: plots.interaction_map(interactions, **s),
        "curve": lambda **s: plots.mse_curve({"on": score(0.1)}, **s),
        "scatter": lambda **s: people.plot.scatter("age", color="city", **s),
        "series": lambda **s: explained(
            torch.rand(2, 2, 9), ms.Players.segments((2, 9), 3), ("a", "b")
        ).plot.series(**s),
        "pixels": lambda **s: digits().plot.pixel_maps(**s),
        "tree": lambda **s: composed(classes=6).plot.bifurcation_tree(**s),
    }
    for name in ("waterfall", "bar", "beeswarm", "heatmap"):
        drawn[name] = getattr(people.plot, name)
    for name in OF_A_ROW:
        drawn[name] = getattr(composed(7, 4).plot, name)
    return drawn


@pytest.mark.parametrize("name", every_plot())
def test_a_figure_is_that_of_pyplot_whole_and_saved_or_stands_in_given_axes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = every_plot()[name]()
    assert drawn.figure is plt.gcf()
    monkeypatch.setenv("HOME", str(tmp_path))
    drawn.save("~/figure.png", dpi=50)
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    # What a space of three dimensions writes around its box is not in the layout.
    if name != "ilr_space":
        assert_nothing_is_cut(drawn.figure)
    plt.close("all")
    calls: list[int] = []
    monkeypatch.setattr(plt, "show", lambda: calls.append(1))
    figure, (left, right) = plt.subplots(1, 2, layout="constrained", figsize=(16, 8))
    drawn = every_plot()[name](ax=right, show=True)
    assert (calls, plt.get_fignums()) == ([1], [figure.number])
    panels = drawn if isinstance(drawn, list) else [drawn]
    assert all(panel in figure.findobj(Axes) for panel in panels)
    figure.draw_without_rendering()
    assert min(panel.get_window_extent().x0 for panel in panels) > left.bbox.x1


def test_pyplot_chooses_its_backend_outside_of_our_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or what is interactive, as in a notebook, would be forgotten after the first figure."""
    seen: list[bool] = []
    original = plt.figure

    def figure(**settings: Any) -> Figure:
        seen.append(plt.rcParams["axes.spines.top"])
        return original(**settings)

    monkeypatch.setattr(plt, "figure", figure)
    plots.waterfall(table())
    assert seen == [True]


def test_long_and_odd_names_are_shortened_and_never_cut() -> None:
    names = (LONG + "1", LONG + "2", "$x$ and $y$", "_hidden", "two\nlines")
    explanation = explained(torch.rand(4, 5), ms.Players.of_elements((5,), names), (LONG, "b"))
    large = replace(explanation, phi=-4e5 * explanation.phi.abs())
    for drawn in (
        plots.bar(large, row=0),
        plots.beeswarm({LONG: large, "_b": large}),
        plots.waterfall(explanation, output=LONG),
        plots.bar({LONG: explanation, "_b": explanation}, row=0),
        plots.beeswarm({LONG: explanation, "_b": explanation}),
        plots.heatmap(explanation, output=LONG),
        plots.scatter(explanation, 0, color=1, output=LONG),
        plots.mse_curve({LONG: score(0.1), "_x": score(0.2)}),
    ):
        assert "…" in "".join(written(drawn.figure))
        assert_nothing_is_cut(drawn.figure)
        for axes in drawn.figure.axes:
            # Numbers do not run into names.
            assert all(text.get_window_extent().x0 > axes.bbox.x0 for text in axes.texts)
    labels = tick_labels(plots.beeswarm(explanation))
    assert len(set(labels)) == 5
    assert {"$x$ and $y$", "two lines"} <= set(labels)


def test_ground_and_ink_are_those_of_matplotlib() -> None:
    with plt.style.context("dark_background"):
        axes = plots.waterfall(table())
        words = [axes.figure._suptitle, axes.xaxis.label, *axes.get_yticklabels()]
        assert to_hex(axes.figure.get_facecolor()) == to_hex(axes.get_facecolor()) == "#000000"
        assert {to_hex(word.get_color()) for word in words} == {"#ffffff"}


# -- which row ----------------------------------------------------------------------------------


def test_rows_are_asked_for_by_position_or_by_label_and_named_by_both() -> None:
    people = table().with_labels([12, 30, 0, 1, 2, 9])
    expected = tick_labels(plots.waterfall(people, 4))
    axes = plots.waterfall(people, label=2)
    assert tick_labels(axes) == expected == tick_labels(plots.waterfall(people, -2))
    assert "row 2 (position 4 of 6)" in axes.figure.get_suptitle()
    by_name = digits().with_labels(list("abcde"))
    drawn = [plots.pixel_maps(by_name, **which)[1] for which in ({"row": 3}, {"label": "d"})]
    assert (drawn[0].images[0].get_array() == drawn[1].images[0].get_array()).all()
    with pytest.warns(UserWarning, match="row=2 is a position, of the row labelled 0; label=2 is"):
        plots.waterfall(people, 2)


# -- which output -------------------------------------------------------------------------------


def test_two_classes_have_the_sign_of_the_second_everywhere() -> None:
    """In a row whose predicted class is the first, too."""
    people = table()
    row = int(people.prediction[:, 1].argmin())
    assert people.prediction[row, 0] > people.prediction[row, 1]
    phi = people.phi[row, :, 1]
    k = int(phi.abs().argmax())
    said = shown.signed(phi[phi.abs().argsort(descending=True)].tolist())[0]
    error = float(people.standard_error[row, k, 1])
    assert shown.with_error(float(phi[k]), error, "+") in repr(people[[row]])
    assert said in [text.get_text() for text in plots.waterfall(people, row).texts]
    assert plots.bar(people, row).patches[0].get_width() == pytest.approx(float(phi[k]))
    points = plots.beeswarm(people[[row, row]]).collections[0].get_offsets()
    assert float(points[0, 0]) == pytest.approx(float(phi[k]))
    values = plots.scatter(people, people.players.names[k]).collections[-1].get_offsets()
    assert float(values[row, 1]) == pytest.approx(float(phi[k]))
    for drawn in (plots.waterfall(people, row), plots.bar(people), plots.heatmap(people)):
        assert "Probability of rich" in drawn.figure.get_suptitle()
    for drawn in (plots.waterfall(people, output="poor"), plots.beeswarm(people, output="poor")):
        assert "Probability of poor" in drawn.figure.get_suptitle()


def test_of_more_classes_each_figure_says_which() -> None:
    predicted = replace(digits(), prediction=torch.eye(3)[[1, 0, 1, 2, 1]])
    title = plots.waterfall(predicted, 3).figure.get_suptitle()
    assert title.startswith("Probability of 2: 1.00\n")
    assert title.endswith("the predicted class of 3")
    assert "class of" not in plots.waterfall(predicted, output="1").figure.get_suptitle()
    said = "Probability of 1, 5 rows\n1 of 3 outputs, predicted for 3 rows"
    for plot in (plots.bar, plots.beeswarm, plots.heatmap):
        assert said in plot(predicted).figure.get_suptitle()
    scores = replace(predicted, space=ms.spaces.Identity())
    assert "1 of 3 outputs, the most moved" in plots.beeswarm(scores).figure.get_suptitle()
    title = plots.waterfall(scores).figure.get_suptitle()
    assert "the output that this row moves most of 3" in " ".join(title.split())


# -- quality ------------------------------------------------------------------------------------


def test_captions_tell_the_quality_of_a_value_function_and_warn_of_a_bad_one() -> None:
    good = replace(table(), made_by={"quality": QUALITY})
    bad = replace(good, made_by={"quality": {**QUALITY, "warning": f"{WARNING}: 0.03, there 0.02"}})
    figure = plots.beeswarm(bad).figure
    assert f"Caution: {WARNING}" in figure.get_suptitle()
    assert " ".join(figure.get_supxlabel().split()) == NOTE
    assert "Caution" not in plots.beeswarm(good).figure.get_suptitle()
    assert plots.beeswarm(table()).figure.get_supxlabel() == ""
    swarms = {"a": good, "b": replace(table(), made_by={"half_trained": True})}
    both = plots.beeswarm(swarms).figure
    assert "Caution: b: half-trained value function" in both.get_suptitle()
    said = f"{NOTE.replace('value function', 'a')} b: has an unknown error"
    assert " ".join(both.get_supxlabel().split()) == said
    # That off the manifold is in the first line.
    off = plots.beeswarm({"a": good, "b": replace(good, made_by={"value_function": "marginal"})})
    assert "unknown error" not in off.figure.get_supxlabel()
    told = {**QUALITY, "error": 0.0004, "variance": 0.01}
    figure = plots.bar(replace(good, made_by={"quality": told, "grouped": 2})).figure
    said = " ".join(figure.get_supxlabel().split())
    assert "vae explains 96 % of the model's variance" in said
    assert said.endswith("100 % is out of reach)")
    grouped = replace(good, made_by={"learned": True, "grouped": 2})
    for told in (repr(grouped), plots.bar(grouped).figure.get_supxlabel()):
        assert "unknown error for these players" in " ".join(told.split())
    figure, ax = plt.subplots(layout="constrained")
    plots.bar(bad, ax=ax)
    assert WARNING in " ".join(ax.get_title("left").split())
    assert NOTE in " ".join(ax.get_xlabel().split())


# -- `explanation.plot`, and bad input ------------------------------------------------------------


def test_an_explanation_has_the_plots_that_suit_it_and_says_which_do_not() -> None:
    plot = table().plot
    assert set(dir(plot)) == {"waterfall", "bar", "beeswarm", "scatter", "heatmap"}
    assert "pixel_maps" in dir(digits().plot)
    assert {"compositions", "ilr_space", "bifurcation_tree"} <= set(dir(composed(classes=4).plot))
    assert "ilr_space" not in dir(composed().plot)
    joined = {"beeswarm", "heatmap", "scatter", "pixel_maps", "bar", "waterfall"}
    assert set(dir(picture_and_columns().plot)) == joined
    for name, said in (
        ("compositions", "`compositions` does not apply: it needs log-ratios"),
        ("interaction_map", r"ms\.shapley_interactions"),
        ("force", "no plot 'force', but bar"),
    ):
        with pytest.raises(AttributeError, match=said):
            getattr(plot, name)
    assert "ilr_plane: needs log-ratios" in repr(plot)
    assert "Plots: bar(row=0), pixel_maps, waterfall;" in repr(ragged().plot)
    assert list(inspect.signature(plot.bar).parameters)[:3] == ["row", "output", "max_display"]


@pytest.mark.parametrize("name", ["bar", "beeswarm", "scatter", "heatmap"])
def test_means_over_players_that_differ_from_row_to_row_say_what_to_take(name: str) -> None:
    settings = {"feature": 0} if name == "scatter" else {}
    with pytest.raises(ValueError, match=r"the same players in every row; `bar\(tokens=\)` has"):
        getattr(plots, name)(ragged((6,)), **settings)
    assert set(dir(texts().plot)) == {"bar", "text", "waterfall"}
    if name != "bar":
        with pytest.raises(AttributeError, match=r"`bar\(\)` has means of words, and `waterfall`"):
            getattr(texts().plot, name)


TWICE = table().with_labels([12, 30, 0, 1, 7, 7])
BY_NAME = {"a": table(), "b": table()}
FIVE = composed(classes=tuple("abcde"))
FOUR = replace(FIVE, outputs=tuple("wxyz"), partition=None, space=ms.spaces.Identity())
SEVEN = explained(torch.rand(1, 7, 3, 3), ms.Players.patches((7, 3, 3), 1), ("a",))
NO_PLAYERS = replace(ragged((6,)), owners=torch.full((2, 6), -1))
OTHER = replace(digits(), players=ms.Players.of_elements((1, 4, 6), range(24)))
VALUES = ms.global_values(table(), ["poor", "rich"] * 3)
WORDS = [list("abcdef"), list("ABCDE")]


@pytest.mark.usefixtures("any_type")
@pytest.mark.parametrize(
    ("draw", "said"),
    [
        (lambda: plots.bar([table()]), "an explanation, as of .* got list"),
        (lambda: plots.bar({}), "an explanation, as of .* got dict"),
        (lambda: plots.waterfall(BY_NAME), r"one explanation .* \['a', 'b'\]; `bar`"),
        (lambda: plots.scatter(BY_NAME, 0), "one explanation"),
        (lambda: plots.heatmap(BY_NAME), "one explanation"),
        (lambda: plots.cumulative({"a": FIVE}), "one explanation"),
        (lambda: plots.interaction_map(table()), r"`ms\.shapley_interactions.* got Explanation"),
        (lambda: plots.mse_curve(table()), "scores by name"),
        (lambda: plots.mse_curve({"a": 0.3}), r"scores by name, .* \{'a': 0\.3\}"),
        (lambda: plots.text(table()), "a list of words for each of 6 rows"),
        (lambda: table().plot(), "by name. Plots: bar, "),
        (lambda: plots.waterfall(table()[:0]), "nothing to show"),
        (lambda: plots.heatmap(digits(), output="12"), r"one of \['0', '1', '2'\] but got '12'"),
        (lambda: plots.beeswarm(table(), max_display=0), "`max_display` to be a whole number of"),
        (lambda: plots.bar(texts(), max_display=0), "`max_display` to be a whole number of"),
        (lambda: plots.waterfall(TWICE, 12), "got 12; 6 rows are explained; label=12 is the row"),
        (lambda: plots.waterfall(TWICE, label="Ann"), "label='Ann', which is that of 0 rows"),
        (lambda: plots.waterfall(TWICE, 1, label=30), "row=1 and label=30"),
        (lambda: plots.waterfall(TWICE, label=7), "that of 2 rows"),
        (lambda: plots.pixel_maps({"a": digits(), "b": digits()[:2]}), "'b' differ in their rows"),
        (lambda: plots.bar({"a": digits(), "b": OTHER}), "'a' and 'b' differ in their players"),
        (lambda: plots.bar({"a": FIVE, "b": FOUR}), r"in their outputs, \[.* by `ms\.as_model`"),
        (lambda: plots.bar({"a": VALUES, "b": table()}), "plot them apart"),
        (lambda: plots.scatter(table(), "agee"), "Expected `feature` to be"),
        (lambda: plots.scatter(table(), 17), "Expected `feature` to be"),
        (lambda: plots.scatter(table(), None), "Expected `feature` to be"),
        (lambda: plots.compositions(table()), "Expected an explanation with space='ilr' but"),
        (lambda: plots.ilr_space(FIVE, row=2), "`row` to be a whole number from -2 to 1 but got 2"),
        (lambda: plots.ilr_plane(FIVE, balances=(1,)), "2 `balances` by number from 1 to 4, or"),
        (lambda: plots.ilr_plane(FIVE, balances=(0, 1)), "2 `balances` by number from 1 to 4, or"),
        (lambda: plots.ilr_plane(FIVE, balances=(1, "a : b")), "2 `balances` by number from 1"),
        (lambda: plots.ilr_plane(FIVE, balances=(1, "a : c")), "2 `balances` by number from 1"),
        (lambda: plots.series(ragged((6,)), times=range(5)), "6 increasing `times`"),
        (lambda: plots.series(ragged((6,)), times=[0.0] * 6), "6 increasing `times`"),
        (lambda: plots.series(ragged((6,)), channels=["a", "b"]), "1 name of `channels`"),
        (lambda: plots.series(NO_PLAYERS, 1), "row 1 is nothing but padding"),
        (lambda: plots.series(table()), r"\(channels, time\)"),
        (lambda: plots.series(digits()), r"\(channels, time\), but got rows of shape \(1, 4, 6\)"),
        (
            lambda: plots.pixel_maps(table()),
            r"\(height, width\) or .* got rows of shape \(5,\)",
        ),
        (lambda: plots.pixel_maps(SEVEN), r"of 1 or 3 channels.*\(1, 7, 3, 3\)"),
        (lambda: plots.pixel_maps(digits(), images=digits().x[:2]), "for 5 rows of 4 x 6 pixels"),
        (lambda: plots.pixel_maps(digits(), images=2 * digits().x), "of numbers from 0 to 1 or of"),
        (lambda: plots.text(ragged((6,))), "a list of words for each of 2 rows, but got 0;"),
        (lambda: plots.text(ragged((6,)), 0), "but got 0; .*`vocabulary.decode"),
        (lambda: plots.text(texts(), ["Good is", "bad"]), "but got texts; leave it out, .*`row=0`"),
        (
            lambda: plots.text(ragged((6,)), WORDS[:1]),
            "for each of 2 rows, but got 1; for a single",
        ),
        (lambda: plots.text(ragged((6,)), [["a"] * 5, WORDS[1]]), "6 of positions or 3 of players"),
    ],
)
def test_what_cannot_be_shown_is_refused(draw: Callable[[], object], said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        draw()
