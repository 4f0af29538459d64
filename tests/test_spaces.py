"""Output spaces against their formulas."""

import math

import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap import simplex
from manifold_shap.spaces import SPACES, as_space


def test_zeros_are_replaced_before_logarithms() -> None:
    log_p = torch.tensor([[1.0, 0.0, 0.0], [0.2, 0.3, 0.5]]).log()
    coordinates = as_space("ilr", zero_replacement=0.3)(log_p)
    expected = math.log(0.8 / 0.1) / math.sqrt(2), math.log(0.8 / 0.1) / math.sqrt(6)
    torch.testing.assert_close(coordinates[0], torch.tensor(expected))
    # A row without zeros is not touched.
    assert torch.equal(coordinates[1], as_space("ilr")(log_p[1:])[0])
    odds = as_space("log_odds", zero_replacement=0.2)(torch.tensor([[1.0, 0.0]]).log())
    torch.testing.assert_close(odds, torch.tensor([[math.log(0.1 / 0.9)]]))


FALLING = [0.6, 1e-3, 4e-4, 3e-4, 1e-6, 1e-12, 1e-30, 1e-37, 1e-40, 0.0]


def of_the_first(p: list[float], others: list[float], dtype: torch.dtype) -> Tensor:
    """Rows in which the first class falls, and the others share the rest."""
    first = torch.tensor(p, dtype=dtype)[:, None]
    return torch.cat((first, (1 - first) * torch.tensor(others, dtype=dtype)), dim=1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("others", [[1.0], [1.0, 0.0], [0.9999, 1e-4], [0.5, 0.3, 0.2]])
@pytest.mark.parametrize("amount", [None, 1e-3, 0.3, 1e-20])
def test_log_ratios_never_rise_as_a_probability_falls(
    amount: float | None, others: list[float], dtype: torch.dtype
) -> None:
    p = of_the_first(FALLING, others, dtype)
    for name in SPACES:
        space = as_space(name, zero_replacement=amount)
        if not space.takes_logarithms or (name == "log_odds" and len(others) > 1):
            continue
        found = space(p.log())
        # Log-odds are of the second class; the first balance is of the first class to the second.
        towards = -found[:, 0] if name == "log_odds" else found[:, 0]
        assert bool((towards.diff() <= 1e-5).all())
        assert bool(found.isfinite().all())
        # A row alone has what it has among others.
        for k in range(len(p)):
            assert torch.equal(space(p[k : k + 1].log())[0], found[k])
    replaced = simplex.replace_zeros(p, 1e-4)
    assert bool((replaced[:, 0].diff() <= 1e-7).all())
    torch.testing.assert_close(replaced.sum(1), torch.ones(len(p), dtype=dtype))


@pytest.mark.filterwarnings("ignore:.*exactly zero")
@pytest.mark.parametrize("seen", [[0], [0, 1, 9], [0, 4, 9], [9]])
@pytest.mark.parametrize("name", ["log_odds", "ilr"])
def test_predictions_never_rise_as_a_probability_falls(name: str, seen: list[int]) -> None:
    p = of_the_first(FALLING, [1.0], torch.float64)
    rows = torch.arange(10.0)[:, None].expand(10, 2).contiguous()

    def model(x: Tensor) -> Tensor:
        return p[x[:, 0].round().long().clamp(0, 9)]

    value = ms.imputed_value(
        ms.as_model(model, rows), ms.imputers.MarginalImputer(rows[seen]), name
    )
    sign = 1 if name == "log_odds" else -1
    assert bool(((sign * value.prediction(rows)[:, 0]).diff() >= -1e-6).all())
    of_mean = ms.values.LogRatioOfMean(
        ms.imputed_value(model, ms.imputers.MarginalImputer(rows[seen]))
    )
    assert bool((of_mean.prediction(rows)[:, 0].diff() <= 1e-6).all())
    # What was among the reference rows is not raised.
    smallest = min(FALLING[k] for k in seen if FALLING[k]) if seen != [9] else 1.0
    kept = [k for k in range(9) if FALLING[k] >= max(smallest, 1e-3)]
    torch.testing.assert_close(value.prediction(rows)[kept], value.space(p[kept].log()))


def test_probabilities_are_never_rounded_to_certainty() -> None:
    said = [as_space("probability").amount(p) for p in (0.0, 0.001, 0.5, 0.9993, 1.0)]
    assert said == ["0.00", "< 0.01", "0.50", "> 0.99", "1.00"]


@pytest.mark.usefixtures("any_type")
def test_the_unit_of_a_regression() -> None:
    plain, kilograms = as_space("identity"), as_space("identity", unit="kg")
    assert (plain.unit, kilograms.unit) == ("model output", "kg")
    assert [each.label("0") for each in (plain, kilograms)] == ["model output", "model output (kg)"]
    for space in (plain, kilograms):
        assert as_space(**space.settings) == space
    with pytest.raises(TypeError, match="unexpected keyword argument 'unit'"):
        as_space("probability", unit="kg")
    with pytest.raises(TypeError, match="Expected `unit` to be text but got 3"):
        as_space("identity", unit=3)
