"""Quality: the best is chosen, and reported on rows that did not choose it."""

import pytest
import torch
from torch import Tensor

from manifold_shap.quality import Quality, best, report


def errors(**by_row: list[float]) -> dict[str, Tensor]:
    return {name: torch.tensor(own, dtype=torch.float64) for name, own in by_row.items()}


def test_the_least_error_is_chosen_but_never_off_the_manifold() -> None:
    assert best(errors(marginal=[0.1, 0.1], gaussian=[0.3, 0.3], vae=[0.2, 0.2])) == "vae"


@pytest.mark.parametrize(
    ("slow", "chosen"),
    [([0.1, 0.3, 0.11, 0.29], "gaussian"), ([0.1, 0.1, 0.11, 0.09], "vae")],
)
def test_what_is_slow_has_to_be_better_by_a_standard_error(slow: list[float], chosen: str) -> None:
    both = errors(gaussian=[0.3, 0.1, 0.3, 0.12], vae=slow)
    assert best(both, ["vae"]) == chosen
    assert best(both) == "vae"
    assert best({"vae": both["vae"]}, ["vae"]) == "vae"


def test_each_part_is_reported_by_the_choice_of_the_others() -> None:
    parts = [
        errors(marginal=[9.0], copula=[1.0], mixture=[3.0]),
        errors(marginal=[9.0], copula=[2.0], mixture=[0.5]),
        errors(marginal=[9.0], copula=[2.0], mixture=[1.0]),
    ]
    quality = report(parts, fits="3 fits to 2 of 3 rows")
    assert quality.chosen == "mixture"
    assert quality.mse == pytest.approx({"marginal": 9.0, "copula": 5 / 3, "mixture": 1.5})
    # The first is left to the mixture, by the others; these two to the copula.
    assert quality.error == pytest.approx((3.0 + 2.0 + 2.0) / 3)
    assert (quality.rows, quality.fits) == (3, "3 fits to 2 of 3 rows")


def test_errors_are_compared_row_by_row() -> None:
    quality = report([errors(marginal=[0.5, 0.7], vae=[0.1, 0.3])] * 2)
    # Errors differ from row to row, their differences do not.
    assert quality.standard_error == pytest.approx({"marginal": 0.0, "vae": 0.0})
    assert (quality.off_manifold, quality.warning) == (pytest.approx(0.6), "")


def test_a_gap_within_two_standard_errors_is_warned_of() -> None:
    part = errors(marginal=[0.3, 0.1, 0.2, 0.2], vae=[0.1, 0.29, 0.1, 0.29])
    warning = report([part, part]).warning
    assert "no value function is clearly better than off the manifold" in warning
    assert "the error of 'vae' is 0.195, there 0.2" in warning


def test_a_quality_is_a_table_and_plain_data() -> None:
    part = errors(marginal=[0.5, 0.7], vae=[0.1, 0.3], copula=[0.2, 0.3])
    quality = report([part, part], seconds={"vae": 2.0})
    frame = quality.to_frame()
    assert frame.index.tolist() == ["vae", "copula", "marginal"]
    assert frame.chosen.tolist() == [True, False, False]
    assert frame.loc["vae", "share_of_off_manifold"] == pytest.approx(0.2 / 0.6)
    assert Quality(**quality.to_dict()) == quality
    assert "vae chosen" in repr(quality)
