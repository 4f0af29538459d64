"""Loads pictures from a folder with a subfolder for each class."""

import math
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import numpy as np
import torch
from jaxtyping import Float, UInt8
from numpy.typing import NDArray
from PIL import Image, ImageOps
from torch import Tensor
from torch.utils.data import Dataset

from manifold_shap._checks import check_whole
from manifold_shap._messages import check_flag, check_text, shown, warn
from manifold_shap._stored import DatasetRows, PartRows, StoredRows
from manifold_shap.data import sources
from manifold_shap.data.base import Table
from manifold_shap.data.pictures import Pictures, PictureSettings

# Numbers of more than eight bits, which a conversion to grey would cut off.
_WIDE = ("I", "F")
# How names of pictures end.
_ENDINGS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")

# What may be in them: by default Pillow reads PostScript, too, with a program that runs it.
_FORMATS = ("JPEG", "PNG", "PPM", "BMP", "TIFF", "WEBP")

# Bytes of rows up to which all pictures are kept in memory.
_IN_MEMORY = 2**28
# Processes that read pictures in a training, at most.
_READERS = 4


class _Reader(NamedTuple):
    """Reads a picture: bytes `[height, width, channels]`, as a viewer shows it.

    What is behind transparent pixels is white; the colour that a file has for them is hidden.

    Attributes:
        size: side of the square that it is brought to, or None.
        color: whether it has three channels.
    """

    size: int | None
    color: bool

    def __call__(self, path: str) -> NDArray[np.uint8]:
        with Image.open(path, formats=_FORMATS) as picture:
            if picture.mode.startswith(_WIDE):
                raise ValueError(f"it has more than eight bits a channel (mode {picture.mode})")
            whole = _on_white(ImageOps.exif_transpose(picture))
        whole = whole.convert("RGB" if self.color else "L")
        if self.size is not None:
            whole = ImageOps.fit(whole, (self.size, self.size))
        pixels = np.array(whole)
        return pixels if self.color else pixels[:, :, None]


class _Found(NamedTuple):
    """Pictures of a folder.

    Attributes:
        paths: of the files.
        labels: positions of their classes.
        shape: height, width and channels of each.
        pixels: bytes of the first of them, as many as are kept in memory.
    """

    paths: list[str]
    labels: list[int]
    shape: tuple[int, ...]
    pixels: list[NDArray[np.uint8]]


class _Files(Dataset[Tensor]):
    """Pictures that are read when they are asked for."""

    def __init__(self, paths: list[str], read: _Reader) -> None:
        self.paths, self.read = paths, read

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, number: int) -> Tensor:
        return _as_rows(self.read(self.paths[number])[None])[0]


class ImageFolder(Pictures):
    """Pictures of your own: a folder that has a subfolder with the pictures of each class.

    Rows are `[rows, channels, height, width]` of numbers from 0 to 1; transparent pixels are shown
    before white. They are in memory as long as they take no more than 256 MB. Of larger folders the
    pictures stay on disk, and each is read whenever it is asked for.
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
            skip_broken: leave out files that cannot be read, and those whose names end otherwise
                than a picture's, with a warning, instead of an error.

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
            _check_size(str(folder), parts[0].shape, str(test), parts[1].shape)
        paths = [path for part in parts for path in part.paths]
        pixels = [picture for part in parts for picture in part.pixels]
        labels = torch.tensor([label for part in parts for label in part.labels])
        x: Any = self._stored(paths)
        if len(pixels) == len(paths) and _fits(len(pixels), parts[0].shape):
            x = _as_rows(np.stack(pixels))
        test_rows = len(parts[1].labels) if len(parts) > 1 else None
        return Table(x, labels, classes, test_rows=test_rows, players=self.players_of(x.shape[1:]))

    @property
    def content(self) -> list[Any]:
        """Of pictures on disk the bytes of their files, which are read faster than the pictures."""
        rows = self.x_train
        if not isinstance(rows, PartRows):
            return super().content
        paths = rows.rows.dataset.paths  # type: ignore[attr-defined]
        read = (np.fromfile(paths[number], np.uint8) for number in rows.index.tolist())
        return [read, self.y_train]

    def _stored(self, paths: list[str]) -> StoredRows:
        readers = {"num_workers": min(_READERS, (os.cpu_count() or 1) - 1)}
        return DatasetRows(_Files(paths, _Reader(self.size, self.color)), "x", readers)

    def _pictures(self, folder: Path, classes: Sequence[str]) -> _Found:
        """All pictures of a folder; each is read once, to find those that are broken."""
        from torchvision.datasets.folder import make_dataset

        numbers = {name: k for k, name in enumerate(classes)}
        listed = make_dataset(
            folder, numbers, is_valid_file=partial(_is_meant, folder), allow_empty=True
        )
        found, broken = _Found([], [], (), []), {}
        read = _Reader(self.size, self.color)
        for path, label in listed:
            try:
                if not _is_named_like_a_picture(path):
                    raise ValueError("its name has another ending")
                pixels = read(path)
            # A damaged file makes the readers of pictures fail in any way.
            except Exception as error:
                broken[path] = str(error) or type(error).__name__
                continue
            found.paths.append(path)
            found.labels.append(label)
            found = found._replace(shape=found.shape or pixels.shape)
            _check_size(found.paths[0], found.shape, path, pixels.shape)
            if _fits(len(found.paths), found.shape):
                found.pixels.append(pixels)
        self._check_broken(broken)
        if empty := [name for k, name in enumerate(classes) if k not in set(found.labels)]:
            raise FileNotFoundError(
                f"Expected pictures in every subfolder of {folder} but found none in "
                f"{shown(empty)}; their names end in one of {', '.join(_ENDINGS)}."
            )
        return found

    def _check_broken(self, broken: dict[str, str]) -> None:
        """Raise, or warn, where files could not be read."""
        said = shown([f"{path} ({why})" for path, why in broken.items()], 5)
        if broken and not self.skip_broken:
            raise ValueError(
                f"Expected pictures, with names that end in one of {', '.join(_ENDINGS)}, but "
                f"could not read {said}; convert, replace or remove these files, or set "
                "data.skip_broken=true to leave them out."
            )
        if broken:
            warn(f"Left out {len(broken)} files that could not be read as pictures: {said}.")


def _on_white(picture: Image.Image) -> Image.Image:
    """A picture without transparency: what shows of it before a white background."""
    if picture.mode not in ("RGBA", "LA", "PA") and "transparency" not in picture.info:
        return picture
    white = Image.new("RGBA", picture.size, "white")
    return Image.alpha_composite(white, picture.convert("RGBA"))


def _is_meant(folder: Path, path: str) -> bool:
    """Whether a file is named like a picture or, unless it is hidden, may be meant as one."""
    below = Path(path).relative_to(folder).parts
    return _is_named_like_a_picture(path) or not any(part.startswith(".") for part in below)


def _is_named_like_a_picture(path: str) -> bool:
    return path.lower().endswith(_ENDINGS)


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


def _check_size(first: str, expected: tuple[int, ...], other: str, found: tuple[int, ...]) -> None:
    """Raise ValueError that names two pictures, or folders of them, of differing size."""
    if found != expected:
        (height, width, _), (high, wide, _) = expected, found
        raise ValueError(
            f"Expected pictures of one size but {first} is {width} x {height} pixels and {other} "
            f"is {wide} x {high}; set data.size=64, or another side, to bring all to squares."
        )


def _fits(count: int, shape: tuple[int, ...]) -> bool:
    """Whether so many pictures are kept in memory."""
    return 4 * count * math.prod(shape) <= _IN_MEMORY


def _as_rows(
    pixels: UInt8[np.ndarray, "rows height width channels"],
) -> Float[Tensor, "rows channels height width"]:
    return torch.from_numpy(pixels).movedim(-1, 1).contiguous().float().div_(255)
