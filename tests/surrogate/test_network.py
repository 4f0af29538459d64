"""The surrogate network: its outputs, its units, and what it must not see."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from manifold_shap.coalitions import Nested, toggled
from manifold_shap.nn import ACTIVATIONS
from manifold_shap.surrogate.game import GameShape
from manifold_shap.surrogate.perceptron import Perceptron


def make(event: tuple[int, ...] = (4,)) -> Perceptron:
    torch.manual_seed(0)
    return Perceptron(GameShape(event, range(math.prod(event)), 2, False), hidden=(16, 8))


def some(rows: int = 30, event: tuple[int, ...] = (4,)) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(rows, *event, generator=generator)
    return x, torch.rand(rows, 5, math.prod(event), generator=generator) < 0.5


@pytest.mark.parametrize("event", [(4,), (1, 2, 3)])
def test_units_of_inputs_and_targets_do_not_matter(event: tuple[int, ...]) -> None:
    x, mask = some(event=event)
    target = torch.randn(30, 2)
    here, there = make(event=event), make(event=event)
    here.standardise(x, target)
    there.standardise(1000 * x + 50, 10 * target - 3)
    expected = 10 * here(x, mask) - 3
    torch.testing.assert_close(there(1000 * x + 50, mask), expected, rtol=1e-4, atol=1e-3)


def test_a_rare_indicator_is_not_blown_up() -> None:
    surrogate = make()
    x = torch.zeros(1000, 4)
    x[0, 2] = 1
    surrogate.standardise(x, torch.randn(1000, 2))
    assert surrogate.x_scale.tolist() == [1, 1, pytest.approx(0.1), 1]
    # Pixels of an image share one unit.
    image = make(event=(1, 2, 3))
    x, _ = some(event=(1, 2, 3))
    image.standardise(x, torch.randn(30, 2))
    assert image.x_scale.unique().tolist() == [pytest.approx(x.std(correction=0).item())]


@given(
    st.lists(st.integers(0, 5), min_size=0, max_size=6),
    st.lists(st.integers(1, 9), min_size=1, max_size=3),
    st.sampled_from(sorted(ACTIVATIONS)),
    st.booleans(),
)
@settings(deadline=None, max_examples=40)
def test_what_is_linearized_is_the_derivative_behind_the_first_layer(
    more: list[int], hidden: list[int], activation: str, on_simplex: bool
) -> None:
    torch.manual_seed(len(more))
    index = [*range(6), *more]
    surrogate = Perceptron(GameShape((len(index),), index, 3, on_simplex), hidden, activation)
    surrogate, x = surrogate.double(), torch.randn(2, len(index), dtype=torch.float64)
    mask = torch.rand(2, 3, 6) < 0.5
    terms = surrogate.first.terms(surrogate.flat(x))
    every = toggled(mask).double() @ terms[:, None] + surrogate.first.bias
    active = surrogate.rest[0](every.clone())
    start = active[:, :, :1].expand_as(active)
    out, moved = torch.autograd.functional.jvp(surrogate.rest[1:], start, active - start)
    expected = surrogate.finished(out + moved)
    torch.testing.assert_close(surrogate.linearized(x, mask), expected, rtol=0, atol=1e-12)


def test_a_frequent_value_is_a_step() -> None:
    surrogate = Perceptron(GameShape((1,), [0], 1, False), [4], binned=[0])
    x = torch.cat((torch.zeros(100), torch.rand(100, generator=torch.Generator()) + 1))[:, None]
    surrogate.standardise(x, x)
    passed = surrogate.flat(torch.tensor([[-0.01], [0.01]]))[:, 1:]
    assert torch.isfinite(passed).all()
    assert (passed[1] - passed[0]).sum() > 6


@given(seed=st.integers(0, 100))
@settings(max_examples=10, deadline=None)
def test_bins_belong_to_their_element_s_player(seed: int) -> None:
    surrogate = Perceptron(GameShape((5,), [0, 0, 1, 2, 3], 2, False), [16, 8], binned=[1, 3])
    surrogate.standardise(some(200, (5,))[0], torch.randn(200, 2))
    generator = torch.Generator().manual_seed(seed)
    x, other = torch.randn(2, 40, 5, generator=generator)
    mask = torch.rand(40, 40, 4, generator=generator) < 0.5
    present = mask[..., torch.tensor([0, 0, 1, 2, 3])]
    # Whatever the absent players are, few and many coalitions of a row and orders agree.
    whole = surrogate(x, mask)
    one = torch.cat(
        [
            surrogate(torch.where(p, x, other), m[:, None])
            for p, m in zip(present.unbind(1), mask.unbind(1), strict=True)
        ],
        dim=1,
    )
    torch.testing.assert_close(one, whole, atol=1e-5, rtol=1e-4)


def test_along_orders_of_many_players_the_first_layer_is_a_running_sum() -> None:
    surrogate, x = make(event=(70,)), torch.randn(3, 70)
    orders = torch.rand(3, 2, 70).argsort(-1)
    nested = Nested(orders, torch.zeros(3, 2, dtype=torch.int64))
    torch.testing.assert_close(surrogate.values(x, nested), surrogate(x, nested.masks()))
