"""Checkpoints: whole or not at all, and no code from a file is ever run."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from manifold_shap.io.files import load_checkpoint, locked, save_checkpoint, swap_in

CHECKPOINT = {
    "kind": "surrogate",
    "hyper_parameters": {"hidden": [8, 8], "space": "ilr", "rate": 0.5, "schema": None},
    "state_dict": {"weight": torch.randn(20, 30)},
}


class RunsCode:
    """Unpickling it calls `Path.touch`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[[Path], None], tuple[Path]]:
        return Path.touch, (self.path,)


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "surrogate.ckpt"
    save_checkpoint(path, CHECKPOINT)
    loaded = load_checkpoint(path, "surrogate")
    assert loaded["hyper_parameters"] == CHECKPOINT["hyper_parameters"]
    assert torch.equal(loaded["state_dict"]["weight"], CHECKPOINT["state_dict"]["weight"])
    assert [file.name for file in path.parent.iterdir()] == ["surrogate.ckpt"]


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"surrogate checkpoint at .*none.ckpt but no file"):
        load_checkpoint(tmp_path / "none.ckpt", "surrogate")
    with pytest.raises(FileNotFoundError, match="no file is there"):
        load_checkpoint(tmp_path, "surrogate")


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_truncated(tmp_path: Path, share: float) -> None:
    path = tmp_path / "surrogate.ckpt"
    save_checkpoint(path, CHECKPOINT)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ValueError, match=r"surrogate\.ckpt"):
        load_checkpoint(path, "surrogate")


def test_text_and_images_are_no_checkpoints(tmp_path: Path) -> None:
    text, image = tmp_path / "notes.ckpt", tmp_path / "photo.png"
    text.write_text("hello, world\n")
    Image.new("RGB", (8, 8)).save(image)
    for path in (text, image):
        with pytest.raises(ValueError, match=path.name):
            load_checkpoint(path, "surrogate")


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ({"weight": torch.ones(2)}, "something of another program"),
        ([1, 2], "something of another program"),
        ({**CHECKPOINT, "kind": "classifier"}, "classifier"),
    ],
)
def test_foreign(tmp_path: Path, content: object, found: str) -> None:
    path = tmp_path / "foreign.ckpt"
    torch.save(content, path)
    with pytest.raises(ValueError, match=f"manifold_shap surrogate checkpoint .* holds {found}"):
        load_checkpoint(path, "surrogate")


def test_code_in_a_file_is_not_run(tmp_path: Path) -> None:
    trace, path = tmp_path / "trace", tmp_path / "evil.ckpt"
    torch.save({**CHECKPOINT, "more": RunsCode(trace)}, path)
    with pytest.raises(ValueError, match=r"Refused to load .*code from a file is never run"):
        load_checkpoint(path, "surrogate")
    assert not trace.exists()
    # The file is dangerous indeed: an unsafe load runs it.
    torch.load(path, weights_only=False)
    assert trace.exists()


def test_a_failed_write_leaves_the_earlier_file(
    tmp_path: Path, full_disk: Callable[[], AbstractContextManager[None]]
) -> None:
    path = tmp_path / "surrogate.ckpt"
    save_checkpoint(path, CHECKPOINT)
    with full_disk(), pytest.raises(OSError, match="Nothing there was changed"):
        save_checkpoint(path, {**CHECKPOINT, "hyper_parameters": {}})
    assert load_checkpoint(path, "surrogate")["hyper_parameters"]["space"] == "ilr"
    assert [file.name for file in tmp_path.iterdir()] == ["surrogate.ckpt"]


def test_an_unwritable_place(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(OSError, match=r"Could not write .*surrogate.ckpt"):
        save_checkpoint(file / "surrogate.ckpt", CHECKPOINT)
    assert file.read_text() == "mine"


def test_a_directory_that_cannot_be_swapped_in_leaves_the_earlier_one(tmp_path: Path) -> None:
    path = tmp_path / "results"
    path.mkdir()
    (path / "earlier").touch()
    with pytest.raises(FileNotFoundError):
        swap_in(tmp_path / "absent", path)
    assert [entry.name for entry in tmp_path.rglob("*")] == ["results", "earlier"]
    (tmp_path / "new").mkdir()
    old = swap_in(tmp_path / "new", path)
    assert old is not None
    assert (old / "earlier").exists()
    assert list(path.iterdir()) == []


def test_a_lock_is_held_by_one_and_given_back(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    path = tmp_path / "lock"
    for _ in range(2):
        with locked(path):
            with pytest.raises(BlockingIOError), locked(path):
                pass
            assert path.exists()
        assert not path.exists()


def test_a_lock_on_a_file_that_was_opened_before_its_release_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fcntl, path, earlier = pytest.importorskip("fcntl"), tmp_path / "lock", ExitStack()
    earlier.enter_context(locked(path))
    flock, opened = fcntl.flock, list[int]()

    def late(file: Any, operation: int) -> None:
        opened.append(file.fileno())
        earlier.close()  # Which removes the file that was opened just now.
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with locked(path):
        assert len(opened) == 2
        with pytest.raises(BlockingIOError), locked(path):
            pass
        assert path.exists()
    assert not path.exists()


def test_a_lock_removes_no_other_one(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    path = tmp_path / "lock"
    with locked(path):
        path.rename(tmp_path / "moved")
        path.write_text("of another call")
    assert path.read_text() == "of another call"
