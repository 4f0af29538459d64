"""Folders of pictures: sizes, colours, and files that are no pictures."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

from manifold_shap._stored import PartRows
from manifold_shap.data import Digits, ImageFolder
from manifold_shap.data.image_folder import _Reader
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


def test_what_is_beyond_the_middle_square_is_cut_off(tmp_path: Path) -> None:
    drawn(tmp_path)
    wide = Image.new("RGB", (40, 20), "blue")
    wide.paste("white", (10, 0, 30, 20))
    wide.save(tmp_path / "disc" / "wide.png")
    with pytest.raises(ValueError, match=r"one size but .*\.png is 16 x 16 pixels and .*wide.png "
                       "is 40 x 20; set data.size=64"):  # fmt: skip
        read(tmp_path)
    data = read(tmp_path, size=10)
    x = torch.cat((data.x_train, data.x_validation, data.x_test))
    assert x.flatten(1).amin(1).max() > 0.9


def test_patches_are_players_of_any_pictures(tmp_path: Path) -> None:
    data = read(drawn(tmp_path), patch=5)
    assert len(data.players) == 16
    assert data.players.names[5] == "patch 1,1"
    digits = Digits(patch=4)
    digits.setup()
    assert len(digits.players) == 4
    with pytest.raises(ValueError, match="`patch` to be a whole number of at least 1"):
        Digits(patch=0)


def test_test_pictures_may_lie_in_a_folder_of_their_own(tmp_path: Path) -> None:
    train, test = drawn(tmp_path / "a", 6), drawn(tmp_path / "b", 2)
    data = read(train, test_path=str(test))
    assert (len(data.x_test), len(data.x_train) + len(data.x_validation)) == (4, 12)
    assert data.y_test.tolist() == [0, 0, 1, 1]
    (test / "circle").mkdir()
    with pytest.raises(ValueError, match=r"classes of .*a, \['disc', 'square'\], but .*'circle'"):
        read(train, test_path=str(test))
    drawn(tmp_path / "c", 2, side=12)
    with pytest.raises(ValueError, match=r"a is 16 x 16 pixels and .*c is 12 x 12"):
        read(train, test_path=str(tmp_path / "c"))


def test_broken_files_are_named_and_left_out_only_if_that_is_asked_for(tmp_path: Path) -> None:
    drawn(tmp_path)
    whole = (tmp_path / "disc" / "0.png").read_bytes()
    (tmp_path / "disc" / "cut.png").write_bytes(whole[:60])
    (tmp_path / "square" / "text.jpg").write_text("no picture")
    with pytest.raises(ValueError, match=r"could not read .*cut.png.*text.jpg.*skip_broken=true"):
        read(tmp_path)
    with pytest.warns(UserWarning, match=r"Left out 2 files .*cut.png"):
        data = read(tmp_path, skip_broken=True)
    assert len(data.x_train) + len(data.x_validation) + len(data.x_test) == 20


def test_files_with_other_endings_do_not_vanish_silently(tmp_path: Path) -> None:
    drawn(tmp_path / ".own")
    folder = drawn(tmp_path / ".own" / "a")
    Image.new("RGB", (16, 16)).save(folder / "disc" / "moving.gif")
    (folder / "square" / "deep").mkdir()
    (folder / "square" / "deep" / "notes").write_text("of squares")
    # Hidden files and those beside the classes were not meant.
    for name in ("notes.txt", "disc/.DS_Store", "disc/.cache/a.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("no picture")
    other = r"\(its name has another ending\)'"
    named = rf"read \['[^,]*moving.gif {other}, '[^,]*notes {other}\]; convert, .*skip_broken=true"
    with pytest.raises(ValueError, match=rf"end in one of \.jpg, .*{named}"):
        read(folder)
    with pytest.warns(UserWarning, match=r"Left out 2 files .*moving.gif"):
        data = read(folder, skip_broken=True)
    assert len(data.x_train) + len(data.x_validation) + len(data.x_test) == 20


def test_many_pictures_stay_on_disk_and_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, test = drawn(tmp_path / "a", 8), drawn(tmp_path / "b", 2)
    settings = {"test_path": str(test), "size": 8, "color": False}
    kept = read(train, **settings)
    monkeypatch.setattr("manifold_shap.data.image_folder._IN_MEMORY", 4 * 64 * 15)
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
    path = left.x_train.rows.dataset.paths[left.x_train.index[0]]
    shown = Image.new("RGB", (16, 16), "white")
    shown.save(path)
    assert digest(*left.content) != digest(*kept.content)
    Path(path).unlink()
    with pytest.raises(ValueError, match=r"`x\[\d+\]` .* FileNotFoundError: .*png"):
        left.x_train[:1]


def test_memory_does_not_grow_with_the_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manifold_shap.data.image_folder._IN_MEMORY", 2**20)
    peaks = []
    for count in (20, 80):
        folder = drawn(tmp_path / str(count), count, side=96)
        tracemalloc.start()
        data = read(folder)
        for rows in data.x_train.split(8):
            assert rows.shape[1:] == (3, 96, 96)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 96 * 96 * 3 * 10  # 120 more pictures


@pytest.mark.parametrize("on_disk", [False, True])
def test_broken_files_are_left_out_wherever_pictures_lie(
    on_disk: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if on_disk:
        monkeypatch.setattr("manifold_shap.data.image_folder._IN_MEMORY", 0)
    drawn(tmp_path)
    (tmp_path / "disc" / "5.png").write_bytes((tmp_path / "disc" / "5.png").read_bytes()[:60])
    with pytest.raises(ValueError, match=r"could not read .*5.png .*skip_broken=true"):
        read(tmp_path)
    with pytest.warns(UserWarning, match=r"Left out 1 files .*5.png"):
        data = read(tmp_path, skip_broken=True)
    assert len(data.x_train) + len(data.x_validation) + len(data.x_test) == 19
    assert sum(len(rows[:]) for rows in (data.x_train, data.x_validation, data.x_test)) == 19


def test_pictures_of_more_than_eight_bits_are_not_cut_off_silently(tmp_path: Path) -> None:
    drawn(tmp_path)
    Image.new("I;16", (16, 16)).save(tmp_path / "disc" / "deep.png")
    with pytest.raises(ValueError, match=r"deep.png \(it has more than eight bits a channel"):
        read(tmp_path)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "RGB", "L", "P"])
@pytest.mark.parametrize("color", [True, False])
def test_transparent_pixels_are_white(mode: str, color: bool, tmp_path: Path) -> None:
    # Black, of which a pixel is transparent by four fifths and the right half altogether.
    path, hidden = tmp_path / "a.png", {"RGB": (9, 0, 0), "L": 9, "P": 1}
    picture = Image.new(mode.rstrip("A"), (4, 2))
    expected = np.zeros((2, 4, 3 if color else 1), np.uint8)
    expected[:, 2:] = 255
    if mode.endswith("A"):
        alpha = Image.new("L", (4, 2))
        alpha.putdata([255, 51, 0, 0, 255, 255, 0, 0])
        picture.putalpha(alpha)
        picture.save(path)
        expected[0, 1] = 204
    else:
        if mode == "P":
            picture.putpalette([0, 0, 0, 9, 0, 0])
        picture.paste(hidden[mode], (2, 0, 4, 2))
        picture.save(path, transparency=hidden[mode])
    assert np.array_equal(_Reader(None, color)(str(path)), expected)


def test_folders_that_hold_no_classes(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"the folder .*none.* correct `path`"):
        read(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"two or more classes, .* but found none"):
        read(tmp_path)
    drawn(tmp_path)
    (tmp_path / "ring").mkdir()
    with pytest.raises(FileNotFoundError, match=r"every subfolder of .* none in \['ring'\]; .*png"):
        read(tmp_path)
    for name in ("ring", "square"):
        for path in (tmp_path / name).iterdir():
            path.unlink()
        (tmp_path / name).rmdir()
    with pytest.raises(ValueError, match="found only 'disc'"):
        read(tmp_path)
