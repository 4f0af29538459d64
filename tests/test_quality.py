"""Quality: the best is chosen, compared row by row; a warning stands where nothing is better."""

import pytest
import torch

from manifold_shap.metrics import Score, SizeCurve
from manifold_shap.quality import Quality, best, report

CURVE = SizeCurve([], [], [], [], [])


def score(*by_row: float) -> Score:
    errors = torch.tensor(by_row, dtype=torch.float64)
    return Score(9.0, 9.0, errors.mean().item(), 4, 4.0, CURVE, errors)


def test_the_least_error_is_chosen_but_never_off_the_manifold() -> None:
    scores = {"marginal": score(0.1, 0.1), "gaussian": score(0.3, 0.3), "vae": score(0.2, 0.2)}
    assert best(scores) == "vae"


def test_errors_are_compared_row_by_row() -> None:
    scores = {"marginal": score(0.5, 0.7, 0.9), "vae": score(0.1, 0.3, 0.5)}
    quality = report("vae", scores, selection={"marginal": 0.7, "vae": 0.2})
    # Errors differ from row to row, their differences do not.
    assert quality.standard_error == pytest.approx({"marginal": 0.0, "vae": 0.0})
    assert quality.mse == pytest.approx({"marginal": 0.7, "vae": 0.3})
    assert (quality.off_manifold, quality.rows, quality.warning) == (pytest.approx(0.7), 3, "")
    assert quality.why == "the only candidate"


def test_a_gap_within_two_standard_errors_is_warned_of() -> None:
    scores = {"marginal": score(0.3, 0.1, 0.2, 0.2), "vae": score(0.1, 0.29, 0.1, 0.29)}
    warning = report("vae", scores).warning
    assert "no value function is clearly better than off the manifold" in warning
    assert "the error of 'vae' is 0.195, there 0.2" in warning


def test_a_quality_is_a_table_and_plain_data() -> None:
    scores = {"marginal": score(0.5, 0.7), "vae": score(0.1, 0.3), "copula": score(0.2, 0.3)}
    quality = report("vae", scores, seconds={"vae": 2.0})
    frame = quality.to_frame()
    assert frame.index.tolist() == ["vae", "copula", "marginal"]
    assert frame.chosen.tolist() == [True, False, False]
    assert frame.loc["vae", "share_of_off_manifold"] == pytest.approx(0.2 / 0.6)
    assert Quality(**quality.to_dict()) == quality
    assert repr(quality).startswith("Quality(vae chosen; error on 2 held-out rows: vae 0.2, copula")
