"""Loads images, as pixels `[rows, 1, height, width]` or as their principal components.

Each pixel, each patch of pixels or each component is a player.
"""

import gzip
import importlib.util
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

from manifold_shap._checks import check_whole
from manifold_shap._messages import check_flag
from manifold_shap.data import sources
from manifold_shap.data.base import Settings, Table, TensorDataModule
from manifold_shap.data.pictures import Pictures

_DIGITS = tuple("0123456789")
# Of images and their labels: the publisher's files, and what torchvision makes of them.
_KINDS = ("images-idx3", "labels-idx1")
_FILES = tuple(f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in _KINDS)
_PARTS = ("data", "targets")
# What gzip and torchvision raise at damaged files.
_DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error, ValueError, KeyError, AssertionError)


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

        Raises:
            ValueError: fewer than two digits, other numbers, or as many components as no
                image has.
        """
        super().__init__(**settings)
        self.digits = _DIGITS if digits is None else tuple(str(digit) for digit in digits)
        self.components = check_whole("components", components, 1, 64)
        if len(set(self.digits)) < 2 or not set(self.digits) <= set(_DIGITS):
            raise ValueError(
                f"Expected `digits` to be at least two different ones of 0 to 9 but got {digits}."
            )

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
    """Grey values from 0 to 16, `[rows, 64]`, and digits, from the file in scikit-learn's folder.

    To import scikit-learn for it takes longer than to explain a few of these rows.
    """
    spec = importlib.util.find_spec("sklearn")
    home = Path(spec.origin).parent if spec and spec.origin else Path()
    path = home / "datasets" / "data" / "digits.csv.gz"
    if path.is_file():
        table = np.loadtxt(path, delimiter=",")
        pixels, y = table[:, :-1], table[:, -1]
    else:  # Where a later version keeps them, scikit-learn itself knows.
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
        self,
        *,
        name: str | None = None,
        binarize: bool | None = None,
        batch_size: int = 256,
        validation: float = 0.1,
        seed: int = 0,
        root: str | None = None,
        groups: Mapping[str, Sequence[str]] | None = None,
        own_model: bool = False,
        patch: int | None = None,
    ) -> None:
        """As `Pictures`, but for the test share, which the publisher's split replaces.

        Args:
            binarize: whether pixels are 1 above half of the largest grey value, else 0; otherwise
                they are grey values from 0 to 1. By default only those of MNIST are.
        """
        super().__init__(
            name=name,
            batch_size=batch_size,
            validation=validation,
            seed=seed,
            root=root,
            groups=groups,
            own_model=own_model,
            patch=patch,
        )
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
        places = {name: self._find(name) for name in _FILES}
        found = {name: path for name, path in places.items() if path is not None}
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
                f"Expected the files of {self.torchvision_name} in {path.parent} but could not "
                f"read them, at {path.name} or after it ({error}); replace them by fresh copies."
            ) from error

    def _find(self, name: str) -> Path | None:
        raw = f"{self.torchvision_name}/raw/{name}"
        paths = (
            sources.find(self.root, relative)
            for relative in (f"{self.folder}/{name}.gz", raw, f"{raw}.gz")
        )
        return next((path for path in paths if path is not None), None)


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
