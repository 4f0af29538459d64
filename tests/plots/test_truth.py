"""Shapley values against true ones."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import manifold_shap as ms
from manifold_shap.plots import against_truth
from tests.plots.helpers import LONG, assert_nothing_is_cut, explained, written


@pytest.fixture
def truth() -> ms.Explanation:
    x = torch.rand(6, 4, generator=torch.Generator().manual_seed(2))
    known = explained(x, ms.Players.of_elements((4,)), ("poor", "rich"))
    return replace(known, standard_error=torch.full_like(known.phi, 0.001))


def moved(explanation: ms.Explanation, by: float) -> ms.Explanation:
    """Misses up or down in turn, in later rows by more, in the second output."""
    sign = torch.linspace(0.9, 1.1, 6)[:, None] * (-1.0) ** torch.arange(24).reshape(6, 4)
    phi = explanation.phi + by * torch.stack((0 * sign, sign), -1)
    return replace(explanation, phi=phi, standard_error=torch.full_like(phi, 0.002))


def test_points_are_drawn_against_the_truth(truth: ms.Explanation) -> None:
    off = moved(truth, 0.1)
    axes = against_truth({"on": moved(truth, 0.02), LONG: off}, truth)
    places = axes.collections[-1].get_offsets()
    np.testing.assert_allclose(places[:, 0], truth.phi[..., 1].flatten(), rtol=1e-6)
    np.testing.assert_allclose(places[:, 1], off.phi[..., 1].flatten(), rtol=1e-6)
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels[0].startswith("on: 0.02002 ± 0.00061")
    assert ": 0.1002 ± 0.0030" in labels[1]
    assert axes.get_xlabel() == "True Shapley value (probability)"
    assert axes.get_ylabel() == "Shapley value (probability)"
    said = "".join(written(axes.figure))
    assert "Probability of rich, 6 rows" in said
    assert "The truth's own error: 0.001" in said
    assert "Caution" not in said
    assert_nothing_is_cut(axes.figure)


def test_a_truth_that_is_too_rough_is_said_to_be(truth: ms.Explanation) -> None:
    axes = against_truth({"on": moved(truth, 0.005), "off": moved(truth, 0.1)}, truth)
    said = " ".join("".join(written(axes.figure)).split())
    assert "Caution: the truth's own error is more than a tenth of that of on" in said
    assert_nothing_is_cut(axes.figure)


@pytest.mark.usefixtures("any_type")
def test_what_is_no_truth_is_refused(truth: ms.Explanation) -> None:
    with pytest.raises(TypeError, match="got float"):
        against_truth(truth, 0.1)
    with pytest.raises(ValueError, match=r"Expected Shapley values of the truth's rows"):
        against_truth(truth[:2], truth)
    unknown = replace(truth, standard_error=torch.full_like(truth.phi, torch.nan))
    with pytest.raises(ValueError, match="knows its own standard errors"):
        against_truth(truth, unknown)
