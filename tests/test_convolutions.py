"""Convolutional networks: sizes, independence of rows, gradients, and how blocks begin."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from manifold_shap.convolutions import (
    ConvolutionalDecoder,
    ConvolutionalEncoder,
    ResidualBlock,
    check_positions,
    halved,
)

SIZES = st.lists(st.integers(1, 13), min_size=1, max_size=2).map(tuple)


@given(SIZES, st.integers(1, 3), st.lists(st.integers(1, 5), min_size=1, max_size=4))
@settings(deadline=None, max_examples=40)
def test_networks_of_any_size_give_what_they_promise(
    size: tuple[int, ...], channels: int, hidden: list[int]
) -> None:
    torch.manual_seed(0)
    x = torch.randn(3, channels, *size)
    z = ConvolutionalEncoder(channels, size, hidden, outputs=4)(x)
    assert z.shape == (3, 4)
    back = ConvolutionalDecoder(4, hidden[::-1], 2, size)(z)
    assert back.shape == (3, 2, *size)
    assert back.isfinite().all()


@pytest.mark.parametrize("size", [(11,), (6, 9)])
@pytest.mark.parametrize("activation", ["relu", "silu"])
def test_a_row_does_not_depend_on_others_and_every_weight_learns(
    size: tuple[int, ...], activation: str
) -> None:
    torch.manual_seed(0)
    encoder = ConvolutionalEncoder(2, size, [4, 6], 5, activation)
    decoder = ConvolutionalDecoder(5, [6, 4], 2, size, activation)
    for layer in (*encoder.modules(), *decoder.modules()):
        if isinstance(layer, ResidualBlock):
            nn.init.normal_(layer.change[-1].weight, std=0.3)
    x = torch.randn(7, 2, *size)
    whole = decoder(encoder(x))
    torch.testing.assert_close(decoder(encoder(x[2:4])), whole[2:4])
    (whole - x).square().sum().backward()
    for parameter in (*encoder.parameters(), *decoder.parameters()):
        assert parameter.grad is not None
        assert (parameter.grad != 0).any()


@pytest.mark.parametrize("axes", [1, 2])
def test_a_block_begins_as_its_shortcut(axes: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 4, *(7, 5)[:axes])
    assert torch.equal(ResidualBlock(axes, 4, 4)(x), x.relu())
    pooled = ResidualBlock(axes, 4, 4, stride=2)(x)
    assert pooled.shape[2:] == halved(x.shape[2:], 1)
    first = x[:, :, :2].mean(2) if axes == 1 else x[:, :, :2, :2].mean((2, 3))
    torch.testing.assert_close(pooled[(..., *(0,) * axes)], first.relu())


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ((5,), r"\(channels, height, width\) or .* network='mlp'"),
        ((2, 3, 4, 5), r"\(channels, height, width\) or .* network='mlp'"),
    ],
)
def test_rows_that_are_neither_picture_nor_series(event: tuple[int, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check_positions(event)
