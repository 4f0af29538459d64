"""Loads pictures from a folder with a subfolder for each class."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Unpack

import numpy as np
import torch
from jaxtyping import Float, UInt8
from numpy.typing import NDArray
from PIL import Image, ImageOps
from torch import Tensor

from manifold_shap._checks import check_whole
from manifold_shap._words import check_flag, check_text, shown, warn
from manifold_shap.data import sources
from manifold_shap.data.base import Table
from manifold_shap.data.pictures import Pictures, PictureSettings

# Numbers of more than eight bits, which a conversion to grey would cut off.
_WIDE = ("I", "F")


class _Found(NamedTuple):
    """Pictures of a folder.

    Attributes:
        pixels: bytes `[rows, height, width, channels]`.
        labels: positions of their classes.
    """

    pixels: UInt8[np.ndarray, "rows height width channels"]
    labels: list[int]


class ImageFolder(Pictures):
    """Pictures of your own: a folder that has a subfolder with the pictures of each class.

    Rows are `[rows, channels, height, width]` of numbers from 0 to 1, all in memory.
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
        skip_broken: bool = False,
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
            skip_broken: leave out files that cannot be read, with a warning, instead of an error.

        Raises:
            TypeError, ValueError: a setting that cannot be.
        """
        self.path = check_text("path", path)
        self.test_path = None if test_path is None else check_text("test_path", test_path)
        self.size = None if size is None else check_whole("size", size)
        self.color = check_flag("color", color)
        self.skip_broken = check_flag("skip_broken", skip_broken)
        self.name = Path(self.path).stem
        super().__init__(**settings)

    def read(self) -> Table:
        """The pictures.

        Raises:
            FileNotFoundError: there is no such folder, or no picture of some class.
            ValueError: no or one class only, files that cannot be read, pictures of differing size.
        """
        folder = sources.located(self.root, self.path, is_folder=True)
        classes = _classes(folder)
        parts = [self._pictures(folder, classes)]
        if self.test_path is not None:
            test = sources.located(self.root, self.test_path, is_folder=True)
            if other := set(_classes(test)) - set(classes):
                raise ValueError(
                    f"Expected the subfolders of {test} to be classes of {folder}, {list(classes)},"
                    f" but got {shown(sorted(other))} besides; move them away."
                )
            parts.append(self._pictures(test, classes))
            _check_sizes({str(folder): parts[0].pixels[0], str(test): parts[1].pixels[0]})
        pixels = np.concatenate([part.pixels for part in parts])
        labels = torch.tensor([label for part in parts for label in part.labels])
        x = _as_rows(pixels)
        test_rows = len(parts[1].labels) if len(parts) > 1 else None
        return Table(x, labels, classes, test_rows=test_rows, players=self.players_of(x.shape[1:]))

    def _pictures(self, folder: Path, classes: Sequence[str]) -> _Found:
        """All pictures of a folder."""
        from torchvision.datasets.folder import IMG_EXTENSIONS, make_dataset

        numbers = {name: k for k, name in enumerate(classes)}
        listed = make_dataset(folder, numbers, IMG_EXTENSIONS, allow_empty=True)
        found, broken = {}, {}
        for path, _ in listed:
            try:
                found[path] = self._pixels(Path(path))
            # A damaged file makes the readers of pictures fail in any way.
            except Exception as error:
                broken[path] = str(error) or type(error).__name__
        self._check_broken(broken)
        labels = [label for path, label in listed if path in found]
        if empty := [name for k, name in enumerate(classes) if k not in labels]:
            raise FileNotFoundError(
                f"Expected pictures in every subfolder of {folder} but found none in "
                f"{shown(empty)}; their names end in one of {', '.join(IMG_EXTENSIONS)}."
            )
        _check_sizes(found)
        return _Found(np.stack(list(found.values())), labels)

    def _pixels(self, path: Path) -> NDArray[np.uint8]:
        """Height, width and channels of a picture, as a viewer shows it."""
        with Image.open(path) as picture:
            if picture.mode.startswith(_WIDE):
                raise ValueError(f"it has more than eight bits a channel (mode {picture.mode})")
            whole = ImageOps.exif_transpose(picture).convert("RGB" if self.color else "L")
        if self.size is not None:
            whole = ImageOps.fit(whole, (self.size, self.size))
        pixels = np.asarray(whole)
        return pixels if self.color else pixels[:, :, None]

    def _check_broken(self, broken: dict[str, str]) -> None:
        """Raise, or warn, where files could not be read."""
        said = shown([f"{path} ({why})" for path, why in broken.items()], 5)
        if broken and not self.skip_broken:
            raise ValueError(
                f"Expected pictures but could not read {said}; replace or remove these files, or "
                "set data.skip_broken=true to leave them out."
            )
        if broken:
            warn(f"Left out {len(broken)} files that could not be read as pictures: {said}.")


def _classes(folder: Path) -> tuple[str, ...]:
    """Names of the subfolders."""
    names = [path.name for path in folder.iterdir() if path.is_dir()]
    classes = tuple(sorted(name for name in names if not name.startswith(".")))
    if len(classes) < 2:
        found = f"only {classes[0]!r}" if classes else "none"
        raise ValueError(
            f"Expected {folder} to have a subfolder for each of two or more classes, with the "
            f"pictures of that class in it, but found {found}."
        )
    return classes


def _check_sizes(pictures: dict[str, NDArray[np.uint8]]) -> None:
    """Raise ValueError that names two pictures, or folders of them, of differing size."""
    first, *_ = pictures
    expected = pictures[first].shape
    other = next((path for path in pictures if pictures[path].shape != expected), None)
    if other is not None:
        (height, width, _), (high, wide, _) = expected, pictures[other].shape
        raise ValueError(
            f"Expected pictures of one size but {first} is {width} x {height} pixels and {other} "
            f"is {wide} x {high}; set data.size=64, or another side, to bring all to squares."
        )


def _as_rows(
    pixels: UInt8[np.ndarray, "rows height width channels"],
) -> Float[Tensor, "rows channels height width"]:
    return torch.from_numpy(pixels).movedim(-1, 1).contiguous().float().div_(255)
