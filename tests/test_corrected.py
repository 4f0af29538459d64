"""Corrected global values: against laws whose conditionals are known, errors, and the usual way."""

from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.coalitions import Coalitions, Listed
from manifold_shap.corrected import CorrectedValue
from manifold_shap.oracles import PosteriorValue, true_value
from manifold_shap.values.base import Estimate
from manifold_shap.values.mapped import MappedValue
from tests.laws import garden

ROWS = 10_000
FEW: Any = {"max_epochs": 1, "trainer": {"accelerator": "cpu", "limit_train_batches": 5}}


class Flat(MappedValue):
    """A value function that has learned too little: values between the true ones and their mean."""

    def __init__(self, value: ms.ValueFunction, size: float) -> None:
        super().__init__(value)
        self.size = size

    def values(self, x: Tensor, coalitions: Coalitions) -> Estimate:
        mask = coalitions.masks()
        v = self.value.values(x, coalitions).values
        flat = torch.lerp(v, self.value.base(x)[:, None], self.size)
        # The prediction of a row is the model's own.
        return Estimate(torch.where(mask.all(-1, keepdim=True), v, flat))


def model(x: Tensor) -> Tensor:
    """Wrong about the label: too sure, and misled by the gnome."""
    logits = 1.2 - 1.5 * x[:, 0] - 0.7 * x[:, 1] + 0.5 * x[:, 3] + 0.3 * x[:, 4]
    return torch.stack((torch.sigmoid(logits), torch.sigmoid(-logits)), -1)


@pytest.fixture(scope="module")
def known() -> dict[str, Any]:
    law = garden()
    x, y = law.sample(ROWS, seed=1)
    m, h = true_value(model, law), PosteriorValue(law)
    # All joint states that occur, and their probabilities with each label.
    states = torch.cartesian_prod(*(torch.arange(n) for n in law.sizes)).float()
    joint = law.joint.flatten(0, -2)
    states, joint = states[joint.sum(-1) > 0], joint[joint.sum(-1) > 0]
    # Shapley values depend on the row alone, and the label is drawn given the row.
    phi = torch.einsum("rc,rpc->p", joint, ms.exact_shapley(m, states).phi.double())
    return {
        "law": law,
        "x": x,
        "y": y,
        "m": m,
        "h": h,
        "states": states,
        "joint": joint,
        "phi": phi,
    }


def apart(found: ms.GlobalValues, phi: Tensor) -> Tensor:
    """Distances in standard errors."""
    return (found.phi - phi) / found.standard_error.clamp(min=1e-6)


@pytest.mark.parametrize(("of_m", "of_h"), [(0.0, 0.0), (0.3, 0.0), (0.0, 0.3)])
def test_one_wrong_function_of_the_two_is_corrected(
    known: dict[str, Any], of_m: float, of_h: float
) -> None:
    learned = Flat(known["m"], of_m), Flat(known["h"], of_h)
    found = ms.corrected_global_values(model, known["x"], known["y"], learn=lambda rows, y: learned)
    assert apart(found, known["phi"]).abs().max() < 4
    if of_m:
        usual = ms.global_values(ms.exact_shapley(learned[0], known["x"]), known["y"])
        assert apart(usual, known["phi"]).abs().max() > 5


def test_the_bias_is_the_product_of_both_errors(known: dict[str, Any]) -> None:
    """-E[(h' - h) · (m' - m)], of the whole population: no rows are drawn."""
    states, whole = known["states"], known["joint"]
    m, h = Flat(known["m"], 0.5), Flat(known["h"], 0.4)
    mask = torch.tensor([[[True, False, True, False, False]]]).expand(len(states), -1, -1)
    keys = torch.zeros(len(states), 1, dtype=torch.int64)
    nothing = torch.zeros(2, dtype=torch.float64)
    games = (CorrectedValue(m, h, nothing, nothing), known["m"], known["h"], h, m)
    w, v, posterior, of_h, of_m = (
        each.values(states, Listed(mask, keys)).values[:, 0] for each in games
    )
    wrong = (of_h - posterior) * (of_m - v)
    bias = (whole * (w - v)).sum()
    assert bias.item() == pytest.approx(-(whole.sum(-1) * wrong.sum(-1)).sum().item(), abs=1e-7)
    assert abs(bias) > 1e-3


def test_standard_errors_are_those_of_rows_drawn_anew(known: dict[str, Any]) -> None:
    parts = [
        ms.corrected_global_values(model, x, y, folds=2, learn=lambda *_: (known["m"], known["h"]))
        for x, y in zip(known["x"].split(500), known["y"].split(500), strict=True)
    ]
    scatter = torch.stack([part.phi for part in parts]).std(0)
    error = torch.stack([part.standard_error for part in parts]).mean(0)
    touched = [k for k, name in enumerate(known["law"].names) if name != "gnome"]
    # Twenty parts leave an error of .16 to each ratio.
    assert (scatter / error)[touched].mean() == pytest.approx(1, abs=0.25)


def test_the_usual_way_learns_both_and_is_efficient(known: dict[str, Any]) -> None:
    x, y = known["x"][:600], known["y"][:600]
    frame = known["law"].frame(x)
    labels = pd.Series([known["law"].classes[k] for k in y], index=frame.index)
    of_frames = ms.as_model(model, x[:9], ["yes", "no"])
    found = ms.corrected_global_values(of_frames, x, labels, folds=2, training=FEW)
    assert found.efficiency_gap < 1e-5
    assert found.rows == 600
    assert found.made_by["folds"] == 2
    usual = replace(found, made_by={"learned": True})
    told = ms.plots.bar({"corrected": found, "usual": usual}).figure.get_supxlabel()
    assert "those of learning of usual not included" in " ".join(told.split())
    again = ms.corrected_global_values(of_frames, x, labels, folds=2, training=FEW)
    assert torch.equal(found.phi, again.phi)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"folds": 1}, "`folds` to be a whole number from 2 to 90 but got 1"),
        ({"folds": 91}, "`folds` to be a whole number from 2 to 90 but got 91"),
        # Errors of a bias, and of coalitions that rows share, do not show in how rows scatter.
        (
            {"estimator": partial(ms.kernel_shapley, evaluations=16)},
            r"without bias .* of its own for each, but got 'kernel'",
        ),
    ],
)
def test_settings_without_honest_errors(
    known: dict[str, Any], changes: dict[str, Any], words: str
) -> None:
    rows, learned = (known["x"][:90], known["y"][:90]), (known["m"], known["h"])
    with pytest.raises(ValueError, match=words):
        ms.corrected_global_values(model, *rows, learn=lambda *_: learned, **changes)
