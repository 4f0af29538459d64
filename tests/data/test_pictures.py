"""Pictures: published figures, files of torchvision, folders of one's own, and damaged files."""

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

from manifold_shap._stored import PartRows
from manifold_shap.data import Data, load, mnist, sources
from manifold_shap.io.files import digest
from tests.data.test_tables import PARTS, labels

CLASSES = ("disc", "square")


def drawn(folder: Path, count: int = 10, side: int = 16, mode: str = "RGB") -> Path:
    """Red discs and green squares in places of their own, as PNG files."""
    for k in range(count):
        for name in CLASSES:
            picture = Image.new("RGB", (side, side), "black")
            pen, at = ImageDraw.Draw(picture), (k % 5, k % 3, side - 5 + k % 5, side - 6 + k % 3)
            pen.ellipse(at, "red") if name == "disc" else pen.rectangle(at, (0, 255, 0))
            path = folder / name / f"{k}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            picture.convert(mode).save(path)
    return folder


def read(path: Path, **settings: object) -> Data:
    return load("image_folder", path=str(path), **settings)


def write_idx(path: Path, values: np.ndarray) -> None:
    head = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, dtype=">u4").tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    content = head + values.tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def test_digits() -> None:
    data = load("digits")
    assert data.x_train.shape == (1258, 1, 8, 8)
    assert (data.x_train.min(), data.x_train.max()) == (0, 1)
    assert labels(data).bincount().tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert data.players.names[9] == "pixel 1,1"
    assert len(load("digits", patch=4).players) == 4


def test_mnist_has_its_published_figures(local: Callable[[str], str]) -> None:
    local("mnist")
    data = load("mnist")
    assert [len(getattr(data, f"x_{part}")) for part in PARTS] == [54000, 6000, 10000]
    assert data.x_test.unique().tolist() == [0, 1]
    counts = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert data.y_test.bincount().tolist() == counts
    pixels = mnist(binarize=False).features[:60_000]
    assert pixels.mean(dtype=torch.float64).item() == pytest.approx(0.1307, abs=5e-5)
    assert pixels.std().item() == pytest.approx(0.3081, abs=5e-5)


@pytest.mark.parametrize(
    ("kind", "source"), [("MNIST", "mnist"), ("FashionMNIST", "fashion_mnist")]
)
def test_a_folder_of_torchvision_is_found(
    kind: str, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(sources.VARIABLE, str(tmp_path))
    raw = tmp_path / kind / "raw"
    for prefix, rows in (("train", 60), ("t10k", 6)):
        pixels = np.full((rows, 28, 28), rows, dtype=np.uint8)
        write_idx(raw / f"{prefix}-images-idx3-ubyte", pixels)
        write_idx(raw / f"{prefix}-labels-idx1-ubyte", np.arange(rows, dtype=np.uint8) % 10)
    data = load(source, binarize=False)
    assert (len(data.x_train), len(data.x_test)) == (54, 6)
    assert data.x_test.unique().tolist() == pytest.approx([6 / 255])
    for content in (b"no idx", bytes(16)):
        (raw / "t10k-images-idx3-ubyte").write_bytes(content)
        with pytest.raises(Exception, match=r"raw/t10k-images-.* fresh copy"):
            load(source)


def test_colours_and_classes_are_those_of_the_files(tmp_path: Path) -> None:
    data = read(drawn(tmp_path / "shapes"), patch=5)
    assert (data.name, data.classes) == ("shapes", CLASSES)
    x, y = (torch.cat([getattr(data, f"{a}_{part}") for part in PARTS]) for a in "xy")
    assert x.shape == (20, 3, 16, 16)
    assert (x.min(), x.max()) == (0, 1)
    # Discs are red, squares green, and nothing is blue.
    brightest = x.flatten(2).amax(2)
    assert torch.equal(brightest.argmax(1), y)
    assert not brightest[:, 2].any()
    assert (len(data.players), data.players.names[5]) == (16, "patch 1,1")
    grey = read(tmp_path / "shapes", color=False, size=8)
    assert grey.x_train.shape[1:] == (1, 8, 8)
    # Green is brighter than red to the eye.
    largest = [grey.x_train[grey.y_train == k].max() for k in (0, 1)]
    assert largest[0] < largest[1] < 1


def test_test_pictures_may_lie_in_a_folder_of_their_own(tmp_path: Path) -> None:
    train, test = drawn(tmp_path / "a", 6), drawn(tmp_path / "b", 2)
    data = read(train, test_path=str(test))
    assert (len(data.x_test), len(data.x_train) + len(data.x_validation)) == (4, 12)
    assert data.y_test.tolist() == [0, 0, 1, 1]
    drawn(test / "circle", 1)
    with pytest.raises(ValueError, match=r"subfolders \['disc', 'square'\] .*but got .*'circle'"):
        read(train, test_path=str(test))


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("cut.png", "cut", "cut.png"),
        ("deep.png", "I;16", r"deep.png .*more than eight bits"),
        ("program.png", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "program.png"),
        ("wide.png", "wide", "equal size"),
    ],
)
def test_files_that_are_no_such_pictures_are_named(
    name: str, content: str | bytes, error: str, tmp_path: Path
) -> None:
    path = drawn(tmp_path) / "disc" / name
    if content == "cut":
        path.write_bytes((tmp_path / "disc" / "0.png").read_bytes()[:60])
    elif isinstance(content, bytes):
        path.write_bytes(content)
    else:
        mode, size = ("RGB", (40, 20)) if content == "wide" else (content, (16, 16))
        Image.new(mode, size).save(path)
    with pytest.raises((ValueError, RuntimeError), match=error):
        read(tmp_path)


def test_many_pictures_stay_on_disk_and_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, test = drawn(tmp_path / "a", 8), drawn(tmp_path / "b", 2)
    settings = {"test_path": str(test), "size": 8, "color": False}
    kept = read(train, **settings)
    monkeypatch.setattr("manifold_shap.data.pictures.IN_MEMORY", 4 * 64 * 15)
    left = read(train, **settings)
    for part in PARTS:
        rows = getattr(left, f"x_{part}")
        assert isinstance(rows, PartRows)
        assert torch.equal(rows[:], getattr(kept, f"x_{part}"))
        assert torch.equal(getattr(left, f"y_{part}"), getattr(kept, f"y_{part}"))
    # What is in the files decides, and what is gone is named.
    before = digest(*left.content)
    assert before == digest(*read(train, **settings).content)
    for path in train.rglob("*.png"):
        Image.new("RGB", (16, 16), "white").save(path)
    assert digest(*read(train, **settings).content) != before
    shutil.rmtree(train)
    with pytest.raises(ValueError, match=r"No such file .*png"):
        left.x_train[:1]
