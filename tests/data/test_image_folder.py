"""Folders of pictures: sizes, colours, and files that are no pictures."""

import shutil
from pathlib import Path

import pytest
import torch
from PIL import Image, ImageDraw

from manifold_shap._stored import PartRows
from manifold_shap.data import Digits, ImageFolder
from manifold_shap.io.files import digest

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


def read(path: Path, **settings: object) -> ImageFolder:
    data = ImageFolder(path=str(path), **settings)  # type: ignore[arg-type]
    data.setup()
    return data


def test_colours_and_classes_are_those_of_the_files(tmp_path: Path) -> None:
    data = read(drawn(tmp_path / "shapes"))
    assert (data.name, data.classes) == ("shapes", CLASSES)
    x, y = (torch.cat([getattr(data, f"{a}_{part}") for part in ("train", "validation", "test")])
            for a in "xy")  # fmt: skip
    assert x.shape == (20, 3, 16, 16)
    assert (x.min(), x.max()) == (0, 1)
    # Discs are red, squares green, and nothing is blue.
    brightest = x.flatten(2).amax(2)
    assert torch.equal(brightest.argmax(1), y)
    assert not brightest[:, 2].any()
    assert data.players.names[17] == "pixel 1,1"


def test_grey_pictures_are_brought_to_a_size(tmp_path: Path) -> None:
    data = read(drawn(tmp_path), color=False, size=8)
    assert data.x_train.shape[1:] == (1, 8, 8)
    # Green is brighter than red to the eye.
    largest = [data.x_train[data.y_train == k].max() for k in (0, 1)]
    assert largest[0] < largest[1] < 1


def test_patches_are_players_of_any_pictures(tmp_path: Path) -> None:
    data = read(drawn(tmp_path), patch=5)
    assert len(data.players) == 16
    assert data.players.names[5] == "patch 1,1"
    digits = Digits(patch=4)
    digits.setup()
    assert len(digits.players) == 4


def test_test_pictures_may_lie_in_a_folder_of_their_own(tmp_path: Path) -> None:
    train, test = drawn(tmp_path / "a", 6), drawn(tmp_path / "b", 2)
    data = read(train, test_path=str(test))
    assert (len(data.x_test), len(data.x_train) + len(data.x_validation)) == (4, 12)
    assert data.y_test.tolist() == [0, 0, 1, 1]
    (test / "circle").mkdir()
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
    monkeypatch.setattr("manifold_shap.data.image_folder.IN_MEMORY", 4 * 64 * 15)
    left = read(train, **settings)
    for part in ("train", "validation", "test"):
        rows, expected = getattr(left, f"x_{part}"), getattr(kept, f"x_{part}")
        assert isinstance(rows, PartRows)
        assert torch.equal(rows[:], expected)
        assert torch.equal(getattr(left, f"y_{part}"), getattr(kept, f"y_{part}"))
    assert left.players.names == kept.players.names
    assert torch.equal(left.few_rows, kept.few_rows)
    assert digest(*left.content) == digest(*read(train, **settings).content)
    # What is in the files decides, and what is gone is named.
    before = digest(*left.content)
    for path in train.rglob("*.png"):
        Image.new("RGB", (16, 16), "white").save(path)
    assert digest(*left.content) != before
    shutil.rmtree(train)
    with pytest.raises(ValueError, match=r"No such file .*png"):
        left.x_train[:1]


def test_folders_that_hold_no_classes(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"the folder .*none.* correct `path`"):
        read(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="class folder"):
        read(tmp_path)
