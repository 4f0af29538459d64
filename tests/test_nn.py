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


@given(owners(), st.integers(1, 4), st.sampled_from([DIRECT, FOLDED]))
@settings(deadline=None, max_examples=40)
def test_the_layer_is_linear_in_masked_input_and_mask(
    index: list[int], outputs: int, m: int
) -> None:
    layer = make(index, outputs)
    x, mask = inputs(layer, m)
    present = mask[..., layer.index]
    # Exactly zero where a player is absent, whatever its elements are.
    found = layer(x, mask)
    rows = torch.cat((x[:, None].where(present, 0.0), mask.float()), dim=-1)
    torch.testing.assert_close(found, rows @ layer.weight.T + layer.bias)
    far = torch.where(present[:, :1].squeeze(1), x, 1e6)
    assert torch.equal(layer(far, mask)[:, 0], found[:, 0])


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
