"""Networks: the masked first layer in both its forms, and the MLP."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from manifold_shap.nn import MaskedLinear, units

FOLDED = 40
DIRECT = 20


@st.composite
def owners(draw: st.DrawFn) -> list[int]:
    """The player of each element: one or more elements per player, in any order."""
    players = draw(st.integers(1, 6))
    more = draw(st.lists(st.integers(0, players - 1), max_size=5))
    return draw(st.permutations([*range(players), *more]))


def make(index: list[int], outputs: int = 3) -> MaskedLinear:
    torch.manual_seed(0)
    return MaskedLinear(index, max(index) + 1, outputs)


def inputs(layer: MaskedLinear, m: int, batch: int = 3) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(batch, len(layer.index), generator=generator)
    return x, torch.rand(batch, m, layer.players, generator=generator) < 0.5


@given(owners(), st.integers(1, 4))
@settings(deadline=None, max_examples=40)
def test_folding_does_not_change_the_layer(index: list[int], outputs: int) -> None:
    layer = make(index, outputs)
    x, mask = inputs(layer, FOLDED)
    direct = torch.cat([layer(x, part) for part in mask.split(DIRECT, dim=1)], dim=1)
    torch.testing.assert_close(layer(x, mask), direct)


@given(owners())
@settings(deadline=None, max_examples=20)
def test_the_layer_is_linear_in_masked_input_and_mask(index: list[int]) -> None:
    layer = make(index)
    x, mask = inputs(layer, DIRECT)
    for b, k in ((0, 0), (2, 7)):
        present = mask[b, k]
        row = torch.cat((x[b] * present[layer.index], present.float()))
        torch.testing.assert_close(layer(x, mask)[b, k], layer.weight @ row + layer.bias)


@pytest.mark.parametrize("m", [DIRECT, FOLDED])
def test_absent_values_do_not_matter(m: int) -> None:
    layer = make([0, 1, 1, 2])
    x, _ = inputs(layer, m)
    mask = torch.tensor([True, False, True]).expand(3, m, 3)
    other = x.clone()
    other[:, 1:3] = 1e6
    assert torch.equal(layer(x, mask), layer(other, mask))
    present = x.clone()
    present[:, 0] += 1
    assert not torch.allclose(layer(x, mask), layer(present, mask))


@given(owners(), st.integers(1, 4))
@settings(deadline=None, max_examples=60)
def test_along_an_order_the_layer_sees_coalitions_grow(index: list[int], outputs: int) -> None:
    layer = make(index, outputs)
    x, _ = inputs(layer, 1)
    orders = torch.rand(len(x), 2, layer.players).argsort(-1)
    sizes = torch.arange(1, layer.players)[:, None]
    mask = orders.argsort(-1)[:, :, None] < sizes
    expected = layer(x, mask.flatten(1, 2)).unflatten(1, (2, -1))
    torch.testing.assert_close(layer.along(x, orders), expected)


@pytest.mark.parametrize("players", [30, 1000])
def test_running_sums_in_half_precision_err_as_their_rounding_does(players: int) -> None:
    """Of a thousand steps, the last one still counts: block by block, sums are in single."""
    torch.manual_seed(players)
    layer = make(list(range(players)), 64)
    x, orders = torch.randn(1, players), torch.rand(1, 2, players).argsort(-1)
    exact = layer.along(x, orders)
    with torch.autocast("cpu", torch.bfloat16):
        found = layer.along(x, orders)
    assert found.dtype == torch.bfloat16
    rounding = (exact.bfloat16().float() - exact).square().mean().sqrt()
    assert (found.float() - exact).square().mean().sqrt() < 3 * rounding
    # No drift towards the end, and none away from zero.
    assert (found.float() - exact)[:, :, -1].mean().abs() < 2 * rounding


@pytest.mark.parametrize("index", [[0, 0, 1, 2, 2, 2], [2, 0, 1, 2, 0, 0], [1, 0, 2], [0, 1, 2]])
def test_terms_are_what_players_add_and_their_squares_are_summed(index: list[int]) -> None:
    layer = MaskedLinear(index, players=3, outputs=5)
    x = torch.randn(4, len(index))
    alone = torch.eye(3, dtype=torch.bool).expand(4, -1, -1)
    terms = layer(x, alone) - layer.bias
    torch.testing.assert_close(layer.terms(x), terms)
    torch.testing.assert_close(layer.sum_of_squared_terms(x), terms.square().sum(1))
    torch.testing.assert_close(layer.sum_of_terms(x), terms.sum(1))


def test_one_mistyped_cell_does_not_decide_the_unit_of_a_column() -> None:
    x = torch.randn(1000, 2, generator=torch.Generator().manual_seed(0))
    x[7, 0] = 1e9
    center, unit = units(x)
    assert (center.abs() < 0.1).all()
    assert ((unit > 0.9) & (unit < 1.6)).all()
