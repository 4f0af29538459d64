"""Pictures `[rows, channels, height, width]`, whose players are pixels or patches of them."""

import gzip
import math
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps
from torch.utils.data import ConcatDataset

from manifold_shap._stored import DatasetRows
from manifold_shap.data import sources
from manifold_shap.data.base import DataSet
from manifold_shap.players import Players

_DIGITS = tuple("0123456789")
_CLOTHES = "T-shirt/top,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Ankle boot"
# Of images and their labels: the publisher's files.
_KINDS = ("images-idx3", "labels-idx1")
_FILES = tuple(f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in _KINDS)
# By default Pillow reads PostScript, too, with a program that runs it.
_FORMATS = ("JPEG", "PNG", "PPM", "BMP", "TIFF", "WEBP")
# Bytes of rows up to which all pictures are kept in memory.
IN_MEMORY = 2**28
# Processes that read pictures in a training, at most.
READERS = 4


def digits(patch: int | None = None) -> DataSet:
    """Handwritten digits of scikit-learn: 1,797 images of 8 x 8 pixels from 0 to 1, 10 classes.

    Args:
        patch: side of the squares of pixels that are players; by default every pixel is one.
    """
    pixels, y = read_digits()
    return _pictures(torch.from_numpy(pixels).float().div(16).view(-1, 1, 8, 8), y, _DIGITS, patch)


def read_digits() -> tuple[NDArray[Any], NDArray[Any]]:
    """Grey values from 0 to 16, `[rows, 64]`, and digits."""
    from sklearn.datasets import load_digits

    return load_digits(return_X_y=True)


def mnist(binarize: bool = True, patch: int | None = None) -> DataSet:
    """The MNIST digits: 60,000 and 10,000 images of 28 x 28 pixels, 10 classes.

    The test rows are the publisher's. Local files lie in the folder `mnist`, or in `MNIST/raw`
    where torchvision puts them; see `sources.places`.

    Args:
        binarize: whether pixels are 1 above half of the largest grey value, else 0; otherwise they
            are grey values from 0 to 1.
        patch: see `digits`.
    """
    return _published("MNIST", "mnist", binarize, _DIGITS, patch)


def fashion_mnist(binarize: bool = False, patch: int | None = None) -> DataSet:
    """Zalando's articles of clothing in the format of MNIST, see `mnist`."""
    return _published("FashionMNIST", "fashion_mnist", binarize, _CLOTHES.split(","), patch)


def _published(
    kind: str, folder: str, binarize: bool, classes: Sequence[str], patch: int | None
) -> DataSet:
    """Training and test images in the publisher's files."""
    from torchvision import datasets
    from torchvision.datasets.mnist import read_sn3_pascalvincent_tensor

    mirror, parts = getattr(datasets, kind).mirrors[0], list[torch.Tensor]()
    for name in _FILES:
        path = sources.find(f"{kind}/raw/{name}") or sources.require(
            f"{folder}/{name}.gz", f"{mirror}{name}.gz"
        )
        with TemporaryDirectory() as place:  # The folder itself may be read-only.
            unpacked = Path(place, name)
            try:
                content = path.read_bytes()
                unpacked.write_bytes(gzip.decompress(content) if path.suffix else content)
                part = read_sn3_pascalvincent_tensor(str(unpacked))
            except Exception as error:
                error.add_note(f"This is of {path}; replace it by a fresh copy.")
                raise
        if part.dtype != torch.uint8 or part.ndim != (1 if "labels" in name else 3):
            raise ValueError(
                f"Expected {'labels' if 'labels' in name else 'images'} of bytes in {path} but got "
                f"{part.dtype} of shape {tuple(part.shape)}; replace it by a fresh copy."
            )
        parts.append(part)
    images, labels = torch.cat(parts[::2]), torch.cat(parts[1::2])
    pixels = (images > 127).float() if binarize else images.float().div_(255)
    return _pictures(pixels[:, None], labels, classes, patch, test_rows=len(parts[3]))


def image_folder(
    path: str,
    *,
    test_path: str | None = None,
    size: int | None = None,
    color: bool = True,
    patch: int | None = None,
) -> DataSet:
    """Pictures of your own: a folder that has a subfolder with the pictures of each class.

    Rows are numbers from 0 to 1. They are in memory as long as they take no more than 256 MB; of
    larger folders the pictures stay on disk, and each is read whenever it is asked for.

    Args:
        path: the folder.
        test_path: a folder with the test pictures, with subfolders of the same names; by default a
            share of the others.
        size: side of the squares that pictures are shrunk or enlarged to, after what is beyond the
            largest square in their middle is cut off; by default they stay as they are, and have
            to be of one size.
        color: whether a picture has three channels, red, green and blue, or one, grey.
        patch: see `digits`.

    Raises:
        FileNotFoundError: there is no such folder, or no picture of some class.
        RuntimeError, ValueError: a file that cannot be read, pictures of differing size, or other
            classes among the test pictures.
    """
    from torchvision.datasets import ImageFolder
    from torchvision.transforms.functional import to_tensor

    loader = partial(_read, size=size, color=color)
    parts = [
        ImageFolder(Path(each).expanduser(), to_tensor, loader=loader)
        for each in (path, test_path)
        if each is not None
    ]
    if parts[-1].classes != parts[0].classes:
        raise ValueError(
            f"Expected subfolders {parts[0].classes} in {test_path}, as in {path}, but got "
            f"{parts[-1].classes}."
        )
    pictures: Any = ConcatDataset(parts)
    if 4 * len(pictures) * math.prod(pictures[0][0].shape) > IN_MEMORY:
        readers = {"num_workers": min(READERS, (os.cpu_count() or 1) - 1)}
        x: Any = DatasetRows(pictures, "x", readers)
    else:
        x = torch.stack([picture for picture, _ in pictures])
    labels = [label for part in parts for label in part.targets]
    test_rows = len(parts[1]) if len(parts) > 1 else None
    stored = (
        [file for part in parts for file, _ in part.samples] if isinstance(x, DatasetRows) else ()
    )
    return _pictures(x, labels, parts[0].classes, patch, test_rows=test_rows, files=stored)


def _read(path: str, size: int | None, color: bool) -> Image.Image:
    """A picture, grey or in three colours, and brought to a square of this size, if any."""
    try:
        with Image.open(path, formats=_FORMATS) as picture:
            # A conversion would cut off what is above 255.
            if picture.mode.startswith(("I", "F")):
                raise ValueError(f"more than eight bits a channel, mode {picture.mode}")
            whole = picture.convert("RGB" if color else "L")
    except (OSError, SyntaxError, ValueError) as error:
        raise ValueError(f"Expected a picture at {path} but could not read it: {error}.") from error
    return whole if size is None else ImageOps.fit(whole, (size, size))


def _pictures(x: Any, y: Any, classes: Sequence[str], patch: int | None, **more: Any) -> DataSet:
    """Pictures, with the channels of a pixel together."""
    event = x.shape[1:]
    players = Players.pixels(event) if patch is None else Players.patches(event, patch)
    return DataSet(x, y, classes, kind="pictures", players=players, **more)
