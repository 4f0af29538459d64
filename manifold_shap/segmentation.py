"""Label maps that say, row by row, which elements belong together: superpixels, or given ones."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from manifold_shap._checks import (
    check_channels_first,
    check_finite,
    check_number,
    check_whole,
    to_tensor,
)

# Pictures whose labels are kept.
_MOST_KEPT = 10_000
# Range of lightness in the Lab space, in which colours are compared.
_LIGHTNESS = 100.0


class Superpixels:
    """Divides pictures into superpixels; `superpixels` makes it.

    Attributes:
        segments: the most that a picture is divided into.
        compactness: as of `superpixels`.
    """

    def __init__(self, segments: int, compactness: float) -> None:
        self.segments = self.count = segments
        self.compactness = compactness
        self._cache: dict[bytes, np.ndarray] = {}

    def __repr__(self) -> str:
        return f"superpixels(segments={self.segments}, compactness={self.compactness:g})"

    def __call__(self, x: Any) -> Int64[Tensor, "batch *event"]:
        """Label maps of pictures `[batch, channels, height, width]` or `[batch, height, width]`.

        The channels of a pixel have the same label. Pictures seen before are not divided again.

        Raises:
            TypeError, ValueError: rows of another shape, whose channels come last, or not finite.
        """
        rows = to_tensor(x)
        if rows.ndim not in (3, 4):
            raise ValueError(
                "Expected `x` of shape (rows, channels, height, width) or (rows, height, width) "
                f"but got {tuple(rows.shape)}; one picture is `x[None]`."
            )
        if rows.ndim == 4:
            check_channels_first(rows.shape[1:])
        check_finite(rows, "x")
        maps = np.stack([self._labels(picture) for picture in rows.cpu()])
        labels = torch.from_numpy(maps.astype(np.int64)).to(rows.device)
        return (labels if rows.ndim == 3 else labels[:, None]).expand(rows.shape).contiguous()

    def _labels(self, picture: Tensor) -> np.ndarray:
        """The label map of a picture, from those kept where it is among them."""
        key = content_key(picture)
        if key not in self._cache:
            if len(self._cache) >= _MOST_KEPT:
                self._cache.clear()
            self._cache[key] = self._divided(picture.reshape(-1, *picture.shape[-2:]).numpy())
        return self._cache[key]

    def _divided(self, picture: np.ndarray) -> np.ndarray:
        """Labels 0, 1, ... of at most `segments` superpixels."""
        slic, rgb2lab = _scikit_image()
        picture = picture.astype(np.float64).transpose(1, 2, 0)
        low, high = picture.min(), picture.max()
        picture = (picture - low) / (high - low if high > low else 1.0)
        picture = rgb2lab(picture) if picture.shape[2] == 3 else _LIGHTNESS * picture
        # It gives about as many as are asked for, rather fewer.
        asked = 3 * self.segments // 2
        while self.segments > 1 and asked > 1:
            found = slic(
                picture,
                n_segments=asked,
                # It takes compactness to be of colours that go from 0 to 1.
                compactness=self.compactness / (float(np.ptp(picture)) or 1.0),
                convert2lab=False,
                channel_axis=-1,
                start_label=0,
            )
            labels = np.unique(found, return_inverse=True)[1].reshape(found.shape)
            count = int(labels.max()) + 1
            if count <= self.segments:
                return labels.astype(np.int32)
            asked = min(asked - 1, -(-asked * self.segments // count))
        return np.zeros(picture.shape[:2], dtype=np.int32)


def superpixels(segments: int = 50, compactness: int | float = 30.0) -> Superpixels:
    """A division of pictures into superpixels of like colour, by SLIC (Achanta et al. 2012).

    It groups the pixels of any value function, `value.grouped(superpixels(50))`, so that
    every picture has superpixels of its own as players. The same picture always has the same ones.
    Needs `manifold_shap[images]`.

        >>> pictures = torch.zeros(1, 3, 8, 8)
        >>> pictures[..., 4:] = 1.0
        >>> labels = superpixels(segments=4)(pictures)
        >>> labels.shape, labels[0, 0, 0].tolist(), labels[0, 0, 7].tolist()
        (torch.Size([1, 3, 8, 8]), [0, 0, 0, 0, 1, 1, 1, 1], [2, 2, 2, 2, 3, 3, 3, 3])

    Args:
        segments: the most superpixels of a picture. They begin as the cells of a grid, so that
            there may be fewer.
        compactness: how much closeness counts against colour, whose range from black to white is
            100. At 30, superpixels follow edges; at 100 they are almost squares, and below 10 they
            are ragged and few. A picture is brought to that range by its smallest and its largest
            number first, so that it may be in any unit. Three channels are taken for red, green and
            blue, any others for shades of grey.

    Raises:
        TypeError, ValueError: `segments` is no whole number of at least 1, or `compactness` no
            positive number.
        ImportError: scikit-image is not installed.
    """
    _scikit_image()
    segments = check_whole("segments", segments)
    return Superpixels(segments, check_number("compactness", compactness, above=0))


class LabelMaps:
    """Label maps made beforehand, which belong to the rows that they are of; see `label_maps`."""

    noun = "group"

    def __init__(self, x: Tensor, labels: Int64[Tensor, "rows *event"]) -> None:
        self._maps: dict[bytes, Tensor] = {}
        for row, (content, own) in enumerate(zip(x, labels, strict=True)):
            other = self._maps.setdefault(content_key(content), own)
            if not torch.equal(other, own):
                raise ValueError(
                    f"Expected one label map for each row but row {row} is the same as an earlier "
                    "one and has another map; leave one of them out."
                )
        self.count = int(labels.max()) + 1

    def __call__(self, x: Tensor) -> Int64[Tensor, "batch *event"]:
        """The label maps of some of the rows, in any order.

        Raises:
            ValueError: a row that none of them is of.
        """
        try:
            return torch.stack([self._maps[content_key(row)] for row in x]).to(x.device)
        except KeyError:
            raise ValueError(
                "Expected rows that label maps were given for but one is none of these; "
                "`label_maps(x, labels)` takes all rows that are explained, as the value function "
                "sees them."
            ) from None


def label_maps(x: Any, labels: Any) -> LabelMaps:
    """Label maps of one's own, one for each row, to group the players of these rows.

    They may come from any program, such as a segmentation of pictures into objects:
    `value.grouped(label_maps(x, labels))`, and the rows that are explained are some of `x`.

        >>> x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 0.0]])
        >>> maps = label_maps(x, [[0, 0, 1], [0, 1, -1]])
        >>> maps(x[1:])
        tensor([[ 0,  1, -1]])

    Args:
        x: rows `[rows, *event]`, as the value function sees them.
        labels: whole numbers 0, 1, ... without a gap, and -1 for padding, `[rows, *event]`; or for
            pictures with channels `[rows, height, width]`, the same for all channels.

    Raises:
        TypeError: `x` or `labels` holds no numbers.
        ValueError: labels of another shape, that are no whole numbers, or that skip one; rows that
            are the same but for their labels.
    """
    rows, given = to_tensor(x), torch.as_tensor(labels)
    event = rows.shape[1:]
    if 2 < rows.ndim == given.ndim + 1:
        check_channels_first(event)
        given = given[:, None].repeat_interleave(event[0], 1)
    if given.shape != rows.shape or given.is_floating_point():
        raise ValueError(
            f"Expected `labels` as whole numbers of shape {tuple(rows.shape)}, a map for each row "
            f"of `x`, but got {given.dtype} of shape {tuple(given.shape)}."
        )
    given = given.long().cpu()
    check_labels(given)
    return LabelMaps(rows.cpu(), given)


def check_labels(labels: Int64[Tensor, "rows *event"]) -> Int64[Tensor, " rows"]:
    """How many labels each row has: 0, 1, ... without a gap, and at least one.

    Raises:
        ValueError: a row skips a number, or has none.
    """
    flat = labels.flatten(1)
    count = flat.amax(1) + 1
    # Every label up to a row's largest must own an element.
    present = flat.new_zeros(len(flat), max(int(count.max()), 0) + 1, dtype=torch.bool)
    present.scatter_(1, (flat + 1).clamp(min=0), True)
    wrong = (present[:, 1:].sum(1) != count) | (count == 0) | (flat.amin(1) < -1)
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        raise ValueError(
            "Expected the labels of each row to be 0, 1, ... without a gap, and -1 for padding "
            f"beside these, but row {row} has {flat[row].unique().tolist()[:20]}."
        )
    return count


def content_key(row: Tensor) -> bytes:
    """What tells rows apart by the numbers in them."""
    numbers = row.detach().cpu().contiguous().numpy() + 0.0  # -0.0 and 0.0 are the same number.
    return hashlib.sha256(str(numbers.shape).encode() + numbers.tobytes()).digest()


def _scikit_image() -> Sequence[Any]:
    try:
        from skimage.color import rgb2lab
        from skimage.segmentation import slic
    except ImportError as error:
        raise ImportError(
            "superpixels needs the package scikit-image: pip install 'manifold_shap[images]'."
        ) from error
    return slic, rgb2lab
