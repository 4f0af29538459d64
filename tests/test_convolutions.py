"""Convolutional networks: of any size, each row by itself."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from manifold_shap.convolutions import (
    ConvolutionalDecoder,
    ConvolutionalEncoder,
    check_positions,
)

SIZES = st.lists(st.integers(1, 13), min_size=1, max_size=2).map(tuple)


@given(SIZES, st.integers(1, 3), st.lists(st.integers(1, 5), min_size=1, max_size=4))
@settings(deadline=None, max_examples=40)
def test_networks_of_any_size_give_what_they_promise(
    size: tuple[int, ...], channels: int, hidden: list[int]
) -> None:
    torch.manual_seed(0)
    x = torch.randn(3, channels, *size)
    encoder = ConvolutionalEncoder(channels, size, hidden, outputs=4)
    decoder = ConvolutionalDecoder(4, hidden[::-1], 2, size)
    assert encoder(x).shape == (3, 4)
    back = decoder(encoder(x))
    assert back.shape == (3, 2, *size)
    torch.testing.assert_close(decoder(encoder(x[1:])), back[1:])
    back.sum().backward()
    assert all(each.grad is not None for net in (encoder, decoder) for each in net.parameters())


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ((5,), r"\(channels, height, width\) or .* network='mlp'"),
        ((2, 3, 4, 5), r"\(channels, height, width\) or .* network='mlp'"),
        ((8, 8), r"pictures without an axis of channels: .*x\[:, None\]"),
    ],
)
def test_rows_that_are_neither_picture_nor_series(event: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_positions(event)
    assert check_positions((8, 8), [*range(8)] * 8) == (8,)  # Players own time points.
