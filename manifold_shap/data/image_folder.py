"""Loads pictures from a folder with a subfolder for each class."""

import math
import os
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import numpy as np
import torch
from PIL import Image, ImageOps
from torch.utils.data import ConcatDataset

from manifold_shap._messages import shown
from manifold_shap._stored import DatasetRows, PartRows
from manifold_shap.data import sources
from manifold_shap.data.base import Table
from manifold_shap.data.images import Pictures, PictureSettings

# By default Pillow reads PostScript, too, with a program that runs it.
_FORMATS = ("JPEG", "PNG", "PPM", "BMP", "TIFF", "WEBP")
# Bytes of rows up to which all pictures are kept in memory.
IN_MEMORY = 2**28
# Processes that read pictures in a training, at most.
READERS = 4


class _Loader(NamedTuple):
    """Reads a picture, grey or in three colours, and brings it to a square of this size, if any."""

    size: int | None
    color: bool

    def __call__(self, path: str) -> Image.Image:
        try:
            with Image.open(path, formats=_FORMATS) as picture:
                # A conversion would cut off what is above 255.
                if picture.mode.startswith(("I", "F")):
                    raise ValueError(f"more than eight bits a channel, mode {picture.mode}")
                whole = picture.convert("RGB" if self.color else "L")
        except (OSError, SyntaxError, ValueError) as error:
            raise ValueError(
                f"Expected a picture of eight bits a channel at {path} but could not read it "
                f"({error}); convert it, or remove it."
            ) from error
        return whole if self.size is None else ImageOps.fit(whole, (self.size, self.size))


class ImageFolder(Pictures):
    """Pictures of your own: a folder that has a subfolder with the pictures of each class.

    They are found by torchvision's class of this name. Rows are `[rows, channels, height, width]`
    of numbers from 0 to 1. They are in memory as long as they take no more than 256 MB. Of larger
    folders the pictures stay on disk, and each is read whenever it is asked for.
    """

    name = "image_folder"
    usual_batch_size = 64

    def __init__(
        self,
        *,
        path: str,
        test_path: str | None = None,
        size: int | None = None,
        color: bool = True,
        **settings: Unpack[PictureSettings],
    ) -> None:
        """As `Pictures`, and:

        Args:
            path: the folder, from the working directory or from the places `root` stands for. Its
                name is the default of `name`.
            test_path: a folder with the test pictures, with subfolders of the same names; by
                default a share of the others.
            size: side of the squares that pictures are shrunk or enlarged to, after what is beyond
                the largest square in their middle is cut off; by default they stay as they are,
                and have to be of one size.
            color: whether a picture has three channels, red, green and blue, or one, grey.
        """
        self.path, self.test_path, self.size, self.color = path, test_path, size, color
        self.name = Path(self.path).stem
        super().__init__(**settings)

    def read(self) -> Table:
        """The pictures.

        Raises:
            FileNotFoundError: there is no such folder, or no picture of some class.
            RuntimeError, ValueError: a file that cannot be read, pictures of differing size, or
                other classes among the test pictures.
        """
        from torchvision.datasets import ImageFolder as Folder
        from torchvision.transforms.functional import to_tensor

        folders = [path for path in (self.path, self.test_path) if path is not None]
        parts = [
            Folder(
                sources.located(self.root, path, is_folder=True),
                to_tensor,
                loader=_Loader(self.size, self.color),
            )
            for path in folders
        ]
        classes, test_classes = parts[0].classes, parts[-1].classes
        if test_classes != classes:
            raise ValueError(
                f"Expected subfolders {shown(classes)} in {self.test_path}, as in {self.path}, but "
                f"got {shown(test_classes)}."
            )
        self._files = [path for part in parts for path, _ in part.samples]
        labels = torch.tensor([label for part in parts for label in part.targets])
        x = self._rows(ConcatDataset(parts))
        test_rows = len(parts[1]) if len(parts) > 1 else None
        players = self.players_of(x.shape[1:])
        return Table(x, labels, tuple(classes), test_rows=test_rows, players=players)

    @property
    def content(self) -> list[Any]:
        """Of pictures on disk the bytes of their files, which are read faster than the pictures."""
        if not isinstance(self.x_train, PartRows):
            return super().content
        numbers = self.x_train.index.tolist()
        return [(np.fromfile(self._files[k], np.uint8) for k in numbers), self.y_train]

    def _rows(self, pictures: ConcatDataset) -> Any:
        """All pictures in memory where they fit there."""
        first, _ = pictures[0]
        if 4 * len(pictures) * math.prod(first.shape) > IN_MEMORY:
            readers = {"num_workers": min(READERS, (os.cpu_count() or 1) - 1)}
            return DatasetRows(pictures, "x", readers)
        return torch.stack([pictures[k][0] for k in range(len(pictures))])
