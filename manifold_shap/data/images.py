"""Image data sets. Inputs are `[rows, 1, height, width]`, and each pixel is a player."""

import gzip
import zlib
from pathlib import Path
from typing import Any, ClassVar, Unpack

import numpy as np
import torch
from jaxtyping import UInt8
from numpy.typing import NDArray
from torch import Tensor

from manifold_shap.data import sources
from manifold_shap.data.base import Loaded, Settings, Split, TensorDataModule, split_rows
from manifold_shap.players import Players

_UINT8_CODE = 8
_GZIP = b"\x1f\x8b"


def pixel_players(height: int, width: int) -> Players:
    """One player per pixel of a one-channel image, counted from 0 at the top left."""
    names = [f"pixel ({row}, {column})" for row in range(height) for column in range(width)]
    return Players.of_elements((1, height, width), names)


class Digits(TensorDataModule):
    """Handwritten digits of scikit-learn: 1,797 images of 8 x 8 pixels from 0 to 1, 10 classes."""

    def __init__(self, *, name: str = "digits", **settings: Unpack[Settings]) -> None:
        super().__init__(name=name, **settings)

    def load(self) -> Loaded:
        from sklearn.datasets import load_digits

        digits = load_digits()
        x = torch.from_numpy(digits.images).float().div(16).unsqueeze(1)
        y = torch.from_numpy(digits.target).long()
        shares = {"validation": self.validation, "test": self.test}
        train, validation, test = (
            (x[rows], y[rows]) for rows in split_rows(len(x), shares, self.seed)
        )
        return Loaded(train, validation, test, tuple("0123456789"), pixel_players(8, 8))


class MNIST(TensorDataModule):
    """The MNIST digits: 60,000 and 10,000 images of 28 x 28 pixels, 10 classes.

    The test split is the publisher's; the validation rows are drawn from the training images.
    Local files lie in the folder `mnist`, or in `MNIST/raw` where torchvision puts them.
    """

    folder: ClassVar[str] = "mnist"
    torchvision_name: ClassVar[str] = "MNIST"
    class_names: ClassVar[tuple[str, ...]] = tuple("0123456789")

    def __init__(
        self,
        *,
        name: str = "mnist",
        binarize: bool = True,
        batch_size: int = 256,
        validation: float = 0.1,
        seed: int = 0,
        root: str | None = None,
    ) -> None:
        """As the base, but for the test share, which the publisher's split replaces.

        Args:
            binarize: pixels are 1 above half of the largest grey value, else 0; otherwise they
                are grey values from 0 to 1.
        """
        super().__init__(
            name=name,
            batch_size=batch_size,
            validation=validation,
            seed=seed,
            root=root,
        )
        self.binarize = binarize

    def load(self) -> Loaded:
        images, labels = self._read(train=True)
        test_images, test_labels = self._read(train=False)
        train, validation = (
            self._inputs(images[rows], labels[rows])
            for rows in split_rows(len(images), {"validation": self.validation}, self.seed)
        )
        test = self._inputs(test_images, test_labels)
        return Loaded(train, validation, test, self.class_names, pixel_players(28, 28))

    def _inputs(self, images: UInt8[Tensor, "rows 28 28"], labels: Tensor) -> Split:
        pixels = (images > 127).float() if self.binarize else images.float().div_(255)
        return pixels.unsqueeze(1), labels.long()

    def _read(self, train: bool) -> tuple[UInt8[Tensor, "rows 28 28"], Tensor]:
        prefix = "train" if train else "t10k"
        names = (f"{prefix}-images-idx3-ubyte", f"{prefix}-labels-idx1-ubyte")
        images, labels = (self._find(name) for name in names)
        if images is not None and labels is not None:
            return torch.from_numpy(read_idx(images)), torch.from_numpy(read_idx(labels))
        absent = names[0] if images is None else names[1]
        with sources.fetching(self.root, f"{self.folder}/{absent}.gz"):
            from torchvision import datasets

            source = getattr(datasets, self.torchvision_name)
            data = source(str(sources.cache()), train=train, download=True)
        return data.data, data.targets

    def _find(self, name: str) -> Path | None:
        raw = f"{self.torchvision_name}/raw/{name}"
        paths = (
            sources.find(self.root, relative)
            for relative in (f"{self.folder}/{name}.gz", raw, f"{raw}.gz")
        )
        return next((path for path in paths if path is not None), None)


class FashionMNIST(MNIST):
    """Zalando's articles of clothing in the format of MNIST; grey values unless binarised."""

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

    def __init__(
        self, *, name: str = "fashion_mnist", binarize: bool = False, **settings: Any
    ) -> None:
        super().__init__(name=name, binarize=binarize, **settings)


def read_idx(path: Path) -> NDArray[np.uint8]:
    """The array in an IDX file of bytes, plain or gzipped.

    Raises:
        ValueError: the file is cut short or is not such a file.
    """
    content = path.read_bytes()
    try:
        if content.startswith(_GZIP):
            content = gzip.decompress(content)
        zero, code, axes = int.from_bytes(content[:2], "big"), content[2], content[3]
        shape = np.frombuffer(content, dtype=">u4", count=axes, offset=4).astype(int)
        values = np.frombuffer(bytearray(content), dtype=np.uint8, offset=4 + 4 * axes)
        if zero != 0 or code != _UINT8_CODE:
            raise ValueError(f"its first bytes are {content[:4].hex()}")
        return values.reshape(shape)
    except (EOFError, gzip.BadGzipFile, zlib.error, IndexError, ValueError) as error:
        raise ValueError(
            f"Expected an IDX file of bytes, plain or gzipped, at {path} but could not read it as "
            f"one ({error}); replace it by a fresh copy, or delete it to have it fetched."
        ) from error
