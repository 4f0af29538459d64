"""Distributions as bars and as lines: what is drawn agrees with the numbers."""

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import manifold_shap as ms
from manifold_shap import simplex
from manifold_shap.plots import compositions, cumulative, parallel_coordinates, style
from tests.plots.helpers import composed

OF_A_ROW = [compositions, cumulative, parallel_coordinates]


def distribution(explanation: ms.Explanation, coordinates: torch.Tensor) -> np.ndarray:
    return simplex.ilr_inv(coordinates.double(), explanation.basis).exp().numpy()


def order_of(explanation: ms.Explanation, row: int = 0) -> list[int]:
    return explanation.norms()[row].argsort(descending=True).tolist()


def heights(axes: Axes) -> np.ndarray:
    return np.array([bar.get_width() for bar in axes.patches])


def titles(figure: Figure) -> list[str]:
    return [axes.get_title(loc="left") for axes in figure.axes]


def lines_of(figure: Figure, classes: int) -> list[np.ndarray]:
    """The lines of the classes, without what leads from their ends to the labels."""
    return [np.asarray(line.get_ydata()) for line in figure.axes[0].lines[:classes]]


def test_every_plot_is_one_players_composition_the_largest_norm_first() -> None:
    explanation = composed(players=5, classes=4)
    figure = compositions(explanation, row=1).figure
    expected = explanation.compositions()[1, order_of(explanation, 1)].numpy()
    assert len(figure.axes) == 5
    predicted = distribution(explanation, explanation.prediction[1]).argmax()
    for axes, parts in zip(figure.axes, expected, strict=True):
        np.testing.assert_allclose(heights(axes), parts, rtol=1e-5)
        colours = [to_hex(bar.get_facecolor()) for bar in axes.patches]
        assert [k for k, colour in enumerate(colours) if colour != style.NEUTRAL] == [predicted]
        said = [number.get_text() for number in axes.texts]
        assert said == [ms.spaces.Probability().amount(float(part)) for part in parts]
    first = order_of(explanation, 1)[0]
    norm, x = explanation.norms()[1, first], explanation.x[1, first]
    assert titles(figure)[0] == f"x{first} = {x:.4g}\nnorm {norm:.3g}".replace("-", "−")


def test_norms_are_given_with_errors_that_show() -> None:
    explanation = composed(players=1, classes=3)
    phi = torch.tensor([3.0, 4.0]).expand(2, 1, 2)

    def title(error: float) -> str:
        covariance = error**2 * torch.eye(2).expand(2, 1, 2, 2)
        return titles(compositions(replace(explanation, phi=phi, covariance=covariance)).figure)[0]

    assert title(0.2).endswith("norm 5.00 ± 0.20")
    assert title(1e-7).endswith("norm 5")
    assert title(0.0).endswith("norm 5")


def test_the_other_players_are_perturbed_together() -> None:
    explanation = composed(players=9)
    figure = compositions(explanation, most=3).figure
    rest = explanation.phi[0, order_of(explanation)[3:]].double().sum(0)
    assert len(figure.axes) == 4
    np.testing.assert_allclose(heights(figure.axes[-1]), distribution(explanation, rest), rtol=1e-5)
    name, norm = titles(figure)[-1].split("\n")
    assert name == "6 other features"
    assert float(norm.removeprefix("norm ")) == pytest.approx(rest.norm().item(), rel=0.01)


@pytest.mark.parametrize("plot", OF_A_ROW)
def test_the_headline_tells_prediction_and_row(plot: Callable[..., Figure]) -> None:
    explanation = composed(classes=("cat", "dog")).with_labels([7, 13])
    p = distribution(explanation, explanation.prediction[1])
    name = explanation.classes[p.argmax()]
    headline = plot(explanation, row=-1).figure.get_suptitle().split("\n")[0]
    assert headline == f"Predicted probability of {name}: {p.max():.2f}, row 13 (1 of 2 rows)"


def test_plots_lead_from_the_base_to_the_prediction() -> None:
    explanation = composed(players=5, classes=4)
    figure = cumulative(explanation, row=1).figure
    path = explanation.base[1] + explanation.phi[1, order_of(explanation, 1)].cumsum(0)
    expected = [explanation.base[1], *path[:-1], explanation.prediction[1]]
    assert len(figure.axes) == 6
    for axes, coordinates in zip(figure.axes, expected, strict=True):
        np.testing.assert_allclose(heights(axes), distribution(explanation, coordinates), rtol=1e-4)


def test_strokes_are_the_bars_of_the_plot_before() -> None:
    figure = cumulative(composed(players=6, classes=4), most=3).figure
    assert not figure.axes[0].collections
    for before, axes in itertools.pairwise(figure.axes):
        (strokes,) = axes.collections
        x, y = np.array(strokes.get_segments()).mean(1).T
        np.testing.assert_allclose(x, heights(before))
        np.testing.assert_allclose(y, range(4))


def test_lines_lead_from_the_base_to_the_prediction() -> None:
    explanation = composed(players=5, classes=4)
    lines = lines_of(parallel_coordinates(explanation).figure, 4)
    path = explanation.base[0] + explanation.phi[0, order_of(explanation)].cumsum(0)
    states = distribution(explanation, torch.cat((explanation.base[:1], path)))
    np.testing.assert_allclose(np.stack(lines, 1), states, rtol=1e-5)
    prediction = distribution(explanation, explanation.prediction[0])
    np.testing.assert_allclose([line[-1] for line in lines], prediction, rtol=1e-4)


@pytest.mark.parametrize("plot", OF_A_ROW)
def test_the_same_is_drawn_in_every_basis(plot: Callable[..., Figure]) -> None:
    explanation = composed(classes=("a", "b", "c"))
    other = explanation.in_basis((("a", "c"), "b"))
    for one, two in zip(plot(explanation).figure.axes, plot(other).figure.axes, strict=True):
        np.testing.assert_allclose(heights(one), heights(two), rtol=1e-4)
        for first, second in zip(one.lines, two.lines, strict=True):
            np.testing.assert_allclose(first.get_ydata(), second.get_ydata(), rtol=1e-3)
