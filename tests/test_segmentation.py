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
    labels = ms.superpixels(segments, compactness)(x)
    assert (labels.shape, labels.dtype) == (x.shape, torch.int64)
    assert int(labels.min()) == 0
    assert int(check_labels(labels).max()) <= segments
    assert torch.equal(labels, labels[:, :1].expand(x.shape))
    assert torch.equal(ms.superpixels(segments, compactness)(x), labels)
    # Other units divide a picture in the same way.
    assert torch.equal(ms.superpixels(segments, compactness)(2 * x[:1] + 512), labels[:1])


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_superpixels_follow_colours_and_shades(channels: int) -> None:
    x = quarters(channels)
    labels = ms.superpixels(4, compactness=1)(x)
    for row in range(2):
        for k in range(4):
            of = labels[row, :, 8 * (k // 2) :, 8 * (k % 2) :][:, :8, :8]
            assert len(of.unique()) == 1
        assert len(labels[row].unique()) == 4
    assert torch.equal(ms.superpixels(4, compactness=1)(x[:, 0])[0], labels[0, 0]) or channels > 1


def test_superpixels_are_players() -> None:
    x = quarters()
    imputer = ms.imputers.BaselineImputer(torch.zeros(3, 16, 16), ms.Players.pixels((3, 16, 16)))
    value = ms.imputed_value(lambda x: x.flatten(1).sum(1, True), imputer, "identity")
    labels = ms.superpixels(4, compactness=1)
    found = ms.exact_shapley(value.grouped(labels, count=4), x)
    assert found.counts.tolist() == [4, 4]
    sums = torch.zeros(2, 4).scatter_add(1, labels(x).flatten(1), x.flatten(1))
    torch.testing.assert_close(found.phi[..., 0], sums, atol=1e-4, rtol=1e-5)


def test_maps_of_ones_own_go_with_their_rows() -> None:
    x = quarters(2, 4)
    halves = torch.arange(16).reshape(4, 4) // 8
    maps = torch.stack((halves, 0 * halves))
    labels = ms.label_maps(x, maps)
    assert torch.equal(labels(x.flip(0)), maps.flip(0)[:, None].expand(2, 2, 4, 4))
    whole = maps[:, None].expand(x.shape).numpy()
    assert torch.equal(ms.label_maps(x.numpy(), whole)(x), labels(x))
    pixels = ms.Players.pixels((2, 4, 4))
    value = ms.imputed_value(
        lambda x: x.flatten(1).sum(1, True), ms.imputers.MarginalImputer(x, pixels), "identity"
    )
    found = ms.permutation_shapley(value.grouped(labels, 2), x)
    assert found.counts.tolist() == [2, 1]
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
