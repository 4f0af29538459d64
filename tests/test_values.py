"""Value functions: exact anchors, the contract, and every error at their door."""

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.coalitions import all_coalitions
from manifold_shap.outputs import SPACES
from manifold_shap.values import reference_outputs

KINDS = ("surrogate", "marginal")
MASKS = all_coalitions(4)
MakeValue = Callable[..., ms.ValueFunction]

every_space = pytest.mark.parametrize("space", SPACES)
every_kind = pytest.mark.parametrize("kind", KINDS)


def rows(count: int = 3) -> Tensor:
    return torch.randn(count, 4, generator=torch.Generator().manual_seed(1))


def masks(count: int = 3) -> Tensor:
    return MASKS.expand(count, -1, -1)


@every_space
@every_kind
def test_nobody_and_everybody_are_exact(make_value: MakeValue, kind: str, space: str) -> None:
    value, x = make_value(kind, space), rows()
    values = value(x, masks())
    assert values.shape == (3, 16, len(value.outputs))
    assert torch.equal(values[:, 0], value.base.expand(3, -1))
    assert torch.equal(values[:, -1], value.space(value.model(x)))
    assert torch.equal(values[:, -1], value.prediction(x))
    assert not torch.allclose(values[:, 1], values[:, 0])


@every_space
def test_base_is_the_mean_output_over_the_reference(make_value: MakeValue, space: str) -> None:
    value = make_value("marginal", space)
    assert isinstance(value, ms.ImputedValue)
    outputs = value.prediction(value.imputer.reference)
    torch.testing.assert_close(value.base, outputs.mean(0))


@every_space
def test_imputed_value_is_the_mean_over_spliced_rows(make_value: MakeValue, space: str) -> None:
    value, x = make_value("marginal", space), rows()
    assert isinstance(value, ms.ImputedValue)
    values = value(x, masks())
    for b, k in ((0, 1), (1, 6), (2, 14)):
        spliced = value.imputer.reference.clone()
        spliced[:, MASKS[k]] = x[b, MASKS[k]]
        expected = value.space(value.model(spliced)).mean(0)
        torch.testing.assert_close(values[b, k], expected)


@every_kind
def test_chunks_and_repeats_give_the_same_values(make_value: MakeValue, kind: str) -> None:
    value, x = make_value(kind, draws=5), rows()
    values = value(x, masks())
    assert torch.equal(value(x, masks()), values)
    by_row = torch.cat([value(x[k : k + 1], masks(1)) for k in range(3)])
    torch.testing.assert_close(by_row, values)
    by_coalition = torch.cat([value(x, part) for part in masks().split(3, dim=1)], dim=1)
    torch.testing.assert_close(by_coalition, values)


def test_another_seed_takes_other_donors(make_value: MakeValue) -> None:
    value, x = make_value("marginal", draws=5), rows()
    assert isinstance(value, ms.ImputedValue)
    before = value(x, masks())
    value.seed = 1
    assert not torch.allclose(value(x, masks())[:, 1:-1], before[:, 1:-1])


@every_kind
def test_inputs_are_not_changed(make_value: MakeValue, kind: str) -> None:
    x, mask = rows(), masks().contiguous()
    before = x.clone(), mask.clone()
    make_value(kind)(x, mask)
    assert torch.equal(x, before[0])
    assert torch.equal(mask, before[1])


def test_no_gradients_are_recorded(make_value: MakeValue) -> None:
    assert not make_value("surrogate")(rows(), masks()).requires_grad


def test_estimate_gives_the_variance_of_the_mean_of_its_draws(make_value: MakeValue) -> None:
    value, x = make_value("marginal", draws=7), rows()
    assert isinstance(value, ms.ImputedValue)
    values, variance = value.estimate(x, masks())
    assert torch.equal(values, value(x, masks()))
    generator = torch.Generator().manual_seed(value.seed)
    completed = value.imputer.impute(x, masks(), 7, generator)
    for b, k in ((0, 1), (2, 9)):
        outputs = value.space(value.model(completed[b, k]))
        spread = (outputs - outputs.mean(0)).square().sum(0) / 6
        # 7 of the 20 reference rows are drawn, and no row twice.
        torch.testing.assert_close(variance[b, k], spread / 7 * (1 - 7 / 20))


def test_estimate_of_one_draw_has_no_variance_to_tell() -> None:
    value = ms.imputed_value(lambda x: x, ms.MarginalImputer(rows(9)), "identity", draws=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert value.estimate(rows(), masks())[1].isnan().all()


def test_players_of_several_elements() -> None:
    players = ms.Players(("a", "b"), torch.tensor([0, 1, 0, 1]))
    imputer = ms.MarginalImputer(rows(9), players)
    value = ms.imputed_value(lambda x: x, imputer, "identity", draws=9)
    x, mask = rows(1), torch.tensor([[[True, False]]])
    expected = torch.where(torch.tensor([True, False, True, False]), x, imputer.reference.mean(0))
    torch.testing.assert_close(value(x, mask)[:, 0], expected)


def test_zeros_are_warned_of_once() -> None:
    def forest(x: Tensor) -> Tensor:
        return torch.nn.functional.one_hot((x[:, 0] > 0).long(), 3).float()

    with pytest.warns(UserWarning, match="18 of 27 probabilities of the model are exactly zero"):
        value = ms.imputed_value(forest, ms.MarginalImputer(rows(9)), "ilr")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert value(rows(), masks()).isfinite().all()
        ms.imputed_value(forest, ms.MarginalImputer(rows(9)), "probability")


@every_kind
@pytest.mark.parametrize(
    ("x", "kind_of_error", "message"),
    [
        (
            torch.tensor([[0.0, torch.nan, 0, 0]]),
            ValueError,
            "1 entries of `x` are NaN or infinite",
        ),
        (torch.tensor([[0.0] * 4, [0, 0, torch.inf, 0]]), ValueError, "first in row 1, element 2"),
        (torch.zeros(2, 5), ValueError, r"`x` of shape \(rows, 4\) but got \(2, 5\)"),
        (torch.zeros(4), ValueError, r"`x` of shape \(rows, 4\) but got \(4,\); .* `x\[:1\]`"),
        (torch.tensor(1.0), ValueError, r"`x` of shape \(rows, 4\) but got \(\)"),
    ],
)
def test_errors_of_rows(
    make_value: MakeValue, kind: str, x: Tensor, kind_of_error: type[Exception], message: str
) -> None:
    value = make_value(kind)
    mask = torch.ones(max(1, len(x.shape) and len(x)), 1, 4, dtype=torch.bool)
    for call in (lambda: value(x, mask), lambda: value.prediction(x)):
        with pytest.raises(kind_of_error, match=message):
            call()


@every_kind
@pytest.mark.parametrize(
    ("mask", "kind_of_error", "message"),
    [
        (torch.ones(3, 2, 4), TypeError, "Expected `mask` to be a bool tensor"),
        (torch.ones(3, 2, 5) > 0, ValueError, "Expected `mask` with 4 players on its last axis"),
        (torch.ones(3, 4) > 0, ValueError, r"Expected `mask` of shape \(3, m, 4\).*`mask\[:, None"),
        (torch.ones(1, 2, 4) > 0, ValueError, r"Expected `mask` of shape \(3, m, 4\)"),
    ],
)
def test_errors_of_masks(
    make_value: MakeValue, kind: str, mask: Tensor, kind_of_error: type[Exception], message: str
) -> None:
    with pytest.raises(kind_of_error, match=message):
        make_value(kind)(rows(), mask)


def test_errors_of_construction() -> None:
    imputer = ms.MarginalImputer(rows(9))
    with pytest.raises(ValueError, match="Expected `draws` of at least 1 but got 0"):
        ms.imputed_value(lambda x: x, imputer, "identity", draws=0)
    with pytest.raises(ValueError, match="Expected `output` to be one of"):
        ms.imputed_value(lambda x: x, imputer, "logits")
    with pytest.raises(ValueError, match="Expected two classes for output='log_odds' but got 4"):
        ms.imputed_value(lambda x: x, imputer, "log_odds")
    model = ms.as_model(lambda x: x, rows())
    with pytest.raises(ValueError, match="Expected at least one reference row but got none"):
        reference_outputs(model, ms.Space("probability"), rows(0))


def test_a_row_of_text_is_no_tensor() -> None:
    value = ms.imputed_value(lambda x: x, ms.MarginalImputer(rows(9)), "identity")
    with pytest.raises(TypeError, match=r"array of numbers but got list; .*Schema.fit"):
        ms.values.check_rows([["red", "blue"]], value.players)


def test_arrays_are_rows_too(make_value: MakeValue) -> None:
    value = make_value("marginal")
    checked = ms.values.check_rows(rows().double().numpy(), value.players)
    assert torch.equal(checked, rows())
