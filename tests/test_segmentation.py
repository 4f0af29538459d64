"""Superpixels and label maps: whole, without gaps, the same for the same picture."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import manifold_shap as ms
from manifold_shap.segmentation import check_labels


def quarters(channels: int = 3, side: int = 16) -> Tensor:
    """Pictures whose quarters have different colours, or shades."""
    colours = torch.rand(2, channels, 2, 2, generator=torch.Generator().manual_seed(0))
    return colours.repeat_interleave(side // 2, 2).repeat_interleave(side // 2, 3)


@given(
    st.integers(1, 3),
    st.integers(1, 12),
    st.integers(1, 12),
    st.integers(1, 30),
    st.sampled_from([0.1, 10, 100.0]),
    st.integers(0, 100),
)
@settings(deadline=None, max_examples=40)
def test_every_picture_has_labels_without_gaps(
    channels: int, height: int, width: int, segments: int, compactness: float, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = 1000 * torch.randn(2, channels, height, width, generator=generator)
    x[1] = 3.0
    divide = ms.superpixels(segments, compactness)
    labels = divide(x)
    assert (labels.shape, labels.dtype) == (x.shape, torch.int64)
    assert int(labels.min()) == 0
    assert int(check_labels(labels).max()) <= segments
    assert torch.equal(labels, labels[:, :1].expand(x.shape))
    # Of a picture alone, and of one seen before, they are the same.
    assert torch.equal(divide(x), labels)
    assert torch.equal(ms.superpixels(segments, compactness)(x[1:]), labels[1:])
    # Other units divide a picture in the same way.
    assert torch.equal(ms.superpixels(segments, compactness)(2 * x[:1] + 512), labels[:1])


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_superpixels_follow_colours_and_shades(channels: int) -> None:
    x, labels = quarters(channels), ms.superpixels(4)
    expected = torch.arange(4).view(2, 2).repeat_interleave(8, 0).repeat_interleave(8, 1)
    assert torch.equal(labels(x), expected.expand(x.shape))
    assert channels > 1 or torch.equal(labels(x[:, 0]), expected.expand(2, 16, 16))


def test_superpixels_straddle_no_edge_beside_those_of_their_grid() -> None:
    x = quarters()[:, :, 1:, 1:]
    for picture, labels in zip(x, ms.superpixels(20)(x), strict=True):
        for label in labels.unique():
            assert len(picture[:, labels[0] == label].unique(dim=1).T) == 1


def test_maps_of_ones_own_go_with_their_rows() -> None:
    x = quarters(2, 4)
    halves = torch.arange(16).reshape(4, 4) // 8
    maps = torch.stack((halves, 0 * halves))
    labels = ms.label_maps(x, maps)
    assert labels.count == 2
    assert torch.equal(labels(x.flip(0)), maps.flip(0)[:, None].expand(2, 2, 4, 4))
    whole = maps[:, None].expand(x.shape).numpy()
    assert torch.equal(ms.label_maps(x.numpy(), whole)(x), labels(x))
    with pytest.raises(ValueError, match="one is none of these; `label_maps"):
        labels(torch.stack((x[0], x[0] + 1)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ms.superpixels(0), "`segments` .* at least 1 but got 0"),
        (lambda: ms.superpixels(3)(torch.zeros(2, 5)), r"height, width\) but got \(2, 5\)"),
        (lambda: ms.label_maps(torch.zeros(2, 3), [[0, 1, 2]]), r"shape \(2, 3\), a map for each"),
        (lambda: ms.label_maps(torch.zeros(1, 2), [[0, 2]]), r"row 0 has \[0, 2\]"),
        (lambda: ms.label_maps(torch.zeros(2, 2), [[0, 1], [1, 0]]), "row 1 is the same as an"),
    ],
)
def test_pictures_and_maps_that_do_not_fit(make, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        make()
