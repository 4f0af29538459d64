"""Loads images, as pixels `[rows, 1, height, width]` or as their principal components.

Each pixel, each patch of pixels or each component is a player.
"""

import gzip
import shutil
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Unpack

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int64
from numpy.typing import NDArray
from torch import Tensor

from manifold_shap import plots
from manifold_shap._messages import check_flag
from manifold_shap.data import sources
from manifold_shap.data.base import Grouping, Settings, Table, TensorDataModule
from manifold_shap.explanation import Explanation
from manifold_shap.players import Players
from manifold_shap.segmentation import superpixels

_DIGITS = tuple("0123456789")
# Of images and their labels: the publisher's files, and what torchvision makes of them.
_KINDS = ("images-idx3", "labels-idx1")
_FILES = tuple(f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in _KINDS)
_PARTS = ("data", "targets")
# Superpixels of a picture, at most.
_SEGMENTS = 50
# What gzip and torchvision raise at damaged files.
_DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error, ValueError, KeyError, AssertionError)


class PictureSettings(Settings, total=False):
    """The arguments that every source of pictures takes besides its own; see `Pictures`."""

    patch: int | None


class Pictures(TensorDataModule):
    """Pictures `[rows, channels, height, width]`, whose players are pixels or patches of them."""

    def __init__(self, *, patch: int | None = None, **settings: Unpack[Settings]) -> None:
        """As the base, and:

        Args:
            patch: side of the squares of pixels that are players; by default every pixel is one.
        """
        super().__init__(**settings)
        self.patch = patch

    def players_of(self, event: Sequence[int]) -> Players:
        """The players of pictures of this shape, with the channels of a pixel together."""
        return Players.pixels(event) if self.patch is None else Players.patches(event, self.patch)

    def figures(self, explanations: Mapping[str, Explanation], main: str) -> dict[str, Any]:
        return {"pixel_maps.png": plots.pixel_maps(explanations)}

    @property
    def groupings(self) -> Mapping[str, Grouping]:
        return {"superpixels": lambda: (superpixels(_SEGMENTS), _SEGMENTS)}


class Digits(Pictures):
    """Handwritten digits of scikit-learn: 1,797 images of 8 x 8 pixels from 0 to 1, 10 classes."""

    name = "digits"

    def read(self) -> Table:
        pixels, y = _read_digits()
        x = torch.from_numpy(pixels).float().div(16).view(-1, 1, 8, 8)
        return Table(x, y, _DIGITS, players=self.players_of(x.shape[1:]))


class DigitComponents(TensorDataModule):
    """Principal components of scikit-learn's 8 x 8 digits, standardised (Noé et al., Section 6).

    The directions, means and scales are those of the training rows.
    """

    name = "digit_components"

    def __init__(
        self,
        *,
        digits: Sequence[str | int] | None = None,
        components: int = 6,
        **settings: Unpack[Settings],
    ) -> None:
        """As the base, and:

        Args:
            digits: which; by default all ten.
            components: how many, the largest first.
        """
        super().__init__(**settings)
        self.digits = _DIGITS if digits is None else tuple(str(digit) for digit in digits)
        self.components = components

    def read(self) -> Table:
        from sklearn.decomposition import PCA

        pixels, y = _read_digits()
        matches = torch.stack([y == int(digit) for digit in self.digits], 1)
        rows = matches.any(1)
        pixels, y = pixels[rows.numpy()], matches[rows].int().argmax(1)
        train = self.split(len(y))[0].numpy()
        # The full solver: exact, and the same on every machine but for rounding.
        pca = PCA(self.components, svd_solver="full").fit(pixels[train])
        names = [f"PC{k + 1}" for k in range(self.components)]
        return Table(pd.DataFrame(pca.transform(pixels), columns=names), y, self.digits)


def _read_digits() -> tuple[NDArray[np.float64], Int64[Tensor, " rows"]]:
    """Grey values from 0 to 16, `[rows, 64]`, and digits."""
    from sklearn.datasets import load_digits

    pixels, y = load_digits(return_X_y=True)
    return pixels, torch.from_numpy(y).long()


class MNIST(Pictures):
    """The MNIST digits: 60,000 and 10,000 images of 28 x 28 pixels, 10 classes.

    The test split is the publisher's; the validation rows are drawn from the training images.
    Local files lie in the folder `mnist`, or in `MNIST/raw` where torchvision puts them.
    """

    name = "mnist"
    binary: ClassVar[bool] = True
    folder: ClassVar[str] = "mnist"
    torchvision_name: ClassVar[str] = "MNIST"
    class_names: ClassVar[tuple[str, ...]] = _DIGITS

    def __init__(
        self, *, binarize: bool | None = None, **settings: Unpack[PictureSettings]
    ) -> None:
        """As `Pictures`, but for the share `test`, which the publisher's split replaces; and:

        Args:
            binarize: whether pixels are 1 above half of the largest grey value, else 0; otherwise
                they are grey values from 0 to 1. By default only those of MNIST are.
        """
        super().__init__(**settings)
        self.binarize = check_flag("binarize", self.binary if binarize is None else binarize)

    def read(self) -> Table:
        parts = self._published()
        images, labels = (torch.cat([getattr(part, k) for part in parts]) for k in _PARTS)
        pixels = (images > 127).float() if self.binarize else images.float().div_(255)
        x, test_rows = pixels[:, None], len(parts[1])
        players = self.players_of(x.shape[1:])
        return Table(x, labels.long(), self.class_names, test_rows=test_rows, players=players)

    def _published(self) -> list[Any]:
        """Training and test images, as torchvision reads or fetches them."""
        from torchvision import datasets

        source = getattr(datasets, self.torchvision_name)
        found = {name: path for name in _FILES if (path := self._find(name))}
        if absent := [name for name in _FILES if name not in found]:
            with sources.fetching(self.root, f"{self.folder}/{absent[0]}.gz"):
                place = str(sources.cache())
                return [source(place, train=train, download=True) for train in (True, False)]
        try:
            with TemporaryDirectory() as place:
                raw = Path(place) / self.torchvision_name / "raw"
                raw.mkdir(parents=True)
                for name, path in found.items():
                    opened: Any = gzip.open if path.suffix == ".gz" else open
                    with opened(path, "rb") as packed, (raw / name).open("wb") as plain:
                        shutil.copyfileobj(packed, plain)
                return [source(place, train=train) for train in (True, False)]
        except _DAMAGED as error:
            raise ValueError(
                f"Expected the files of {self.torchvision_name} in {found[_FILES[0]].parent} but "
                f"could not read them ({error}); replace them by fresh copies."
            ) from error

    def _find(self, name: str) -> Path | None:
        raw = f"{self.torchvision_name}/raw/{name}"
        places = (f"{self.folder}/{name}.gz", raw, f"{raw}.gz")
        return next(filter(None, (sources.find(self.root, place) for place in places)), None)


class FashionMNIST(MNIST):
    """Zalando's articles of clothing in the format of MNIST; grey values unless binarised."""

    name = "fashion_mnist"
    binary = False
    folder = "fashion_mnist"
    torchvision_name = "FashionMNIST"
    class_names = (
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    )
