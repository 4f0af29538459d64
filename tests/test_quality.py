"""Quality: the best is chosen, and reported on rows that did not choose it."""

import pytest
import torch
from torch import Tensor

from manifold_shap.quality import Quality, best, in_words, report, stacking


def errors(**by_row: list[float]) -> dict[str, Tensor]:
    return {name: torch.tensor(own, dtype=torch.float64) for name, own in by_row.items()}


@pytest.mark.parametrize(
    ("slow", "chosen"),
    [([0.1, 0.3, 0.11, 0.29], "gaussian"), ([0.1, 0.1, 0.11, 0.09], "vae")],
)
def test_what_is_slow_has_to_be_better_by_a_standard_error(slow: list[float], chosen: str) -> None:
    both = errors(gaussian=[0.3, 0.1, 0.3, 0.12], vae=slow)
    assert best(both, ["vae"]) == chosen
    assert best(both) == "vae"
    assert best({"vae": both["vae"]}, ["vae"]) == "vae"
    # Never off the manifold.
    assert best({**both, "marginal": 0 * both["vae"]}) == "vae"


def test_a_mean_with_a_larger_error_than_one_of_its_parts_is_not_chosen() -> None:
    assert best(errors(marginal=[9, 9], copula=[2, 2], mixture=[4, 4], stacked=[3, 3])) == "copula"


def products(**deviations: list[float]) -> tuple[list[str], Tensor]:
    """Names, and products of errors, by row, of candidates that deviate so from the model."""
    by_row = torch.tensor([*deviations.values()], dtype=torch.float64).T
    return [*deviations], by_row[:, :, None] * by_row[:, None]


def test_each_fifth_is_reported_by_the_choice_of_the_others() -> None:
    names, found = products(
        marginal=[3, 3, 3, 3, 3], copula=[1, 1, 1, 1, 2], vae=[2, 1.2, 1.2, 1.2, 0.1]
    )
    quality = report(names, found, ["copula", "vae"], fits="3 fits to 2 of 3 rows")
    assert quality.mse["copula"] == pytest.approx(8 / 5)
    assert (quality.rows, quality.fits) == (5, "3 fits to 2 of 3 rows")
    # Without the last row the copula has the least error, and without any other one the VAE.
    assert quality.error == pytest.approx((2**2 + 3 * 1.2**2 + 2**2) / 5)


def test_where_no_mean_is_better_the_best_is_chosen() -> None:
    names, found = products(marginal=[3, 3, 3], gaussian=[2, 2, 3], copula=[1, 1, 2])
    quality = report(names, found)
    assert (quality.chosen, quality.weights) == ("copula", {})
    assert "stacked" not in quality.mse


@pytest.mark.parametrize(
    ("errors", "weights"),
    [([1.0, 3.0], [0.75, 0.25]), ([2.0, 2.0, 2.0], [1 / 3] * 3), ([1.0, 40.0], [1.0, 0.0])],
)
def test_independent_errors_are_weighted_by_their_inverse_variances(
    errors: list[float], weights: list[float]
) -> None:
    found = torch.tensor(errors, dtype=torch.float64).diag().expand(4, -1, -1)
    assert stacking(found).tolist() == pytest.approx(weights)


def test_a_mean_of_candidates_is_chosen_where_their_errors_differ() -> None:
    """Off the manifold, and slow ones, are no part of it."""
    found = torch.tensor([0.9, 0.2, 0.2, 0.21], dtype=torch.float64).diag().expand(10, -1, -1)
    scale = torch.linspace(0.9, 1.1, 10, dtype=torch.float64)[:, None, None]
    quality = report(["marginal", "gaussian", "empirical", "vae"], scale * found, ["vae"])
    assert quality.chosen == "stacked"
    assert quality.weights == pytest.approx({"gaussian": 0.5, "empirical": 0.5})
    assert quality.error == pytest.approx(0.1) == quality.mse["stacked"]
    assert "0.50 gaussian + 0.50 empirical" in repr(quality)


def test_a_gap_within_two_standard_errors_is_warned_of() -> None:
    by_row = {"marginal": [0.3, 0.1, 0.2, 0.2], "vae": [0.1, 0.29, 0.1, 0.29]}
    names, found = products(**{name: [e**0.5 for e in own] for name, own in by_row.items()})
    warning = report(names, found).warning
    assert "'vae' is not clearly better than off the manifold" in warning


def test_how_sure_an_error_is_and_which_candidates_tie() -> None:
    by_row = {"marginal": [9, 9, 9, 9], "copula": [1, 3, 2, 2], "vae": [2, 2, 2.5, 1.6]}
    names, found = products(**{name: [e**0.5 for e in own] for name, own in by_row.items()})
    quality = report(names, found, ["vae"], variance=8.0)
    assert quality.chosen == "copula"
    assert quality.error_standard_error == pytest.approx((2 / 3) ** 0.5 / 2)
    assert "explains 75 ± 5 %" in repr(quality)
    told = repr(quality).partition("others: ")[2]
    assert told.startswith("vae 1.42 (a tie), marginal 3")
    assert "±" not in in_words(quality.of("vae"))


def test_a_quality_is_a_table_and_plain_data() -> None:
    names, found = products(marginal=[0.8, 0.9], vae=[0.3, 0.5], copula=[0.5, 0.6])
    quality = report(names, found, seconds={"vae": 2.0}, variance=0.85)
    frame = quality.to_frame()
    assert frame.index[frame.chosen].tolist() == ["vae"]
    assert frame.loc["vae", "explained"] == pytest.approx(1 - 0.17 / 0.85)
    assert frame.loc["vae", "root_mean_squared_error"] == pytest.approx(0.17**0.5)
    assert quality.explained == pytest.approx(1 - quality.error / 0.85)
    assert frame.mse.is_monotonic_increasing
    assert Quality(**quality.to_dict()) == quality
    assert "'vae' explains " in repr(quality)
    assert "others: copula 0.552, marginal 0.851)" in repr(quality)
    assert in_words({"chosen": "vae", "mse": {}}) == ""
    of_texts = {"error": 1.0, "variance": 2.0, "mse": {"marginal": 1.5, "deletion": 1.0}}
    assert "(words of other texts in place of absent ones 25 %;" in in_words(of_texts)
