"""Files are written whole or not at all, and checkpoints are read without running code."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from manifold_shap.io.files import (
    digest,
    load_checkpoint,
    remove,
    save_checkpoint,
    write_whole,
)

CHECKPOINT = {
    "kind": "surrogate",
    "hyper_parameters": {"hidden": [8, 8], "space": "ilr", "rate": 0.5},
    "state_dict": {"weight": torch.randn(20, 30)},
}


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "surrogate.ckpt"
    save_checkpoint(path, CHECKPOINT)
    loaded = load_checkpoint(path, "surrogate")
    assert loaded["hyper_parameters"] == CHECKPOINT["hyper_parameters"]
    assert torch.equal(loaded["state_dict"]["weight"], CHECKPOINT["state_dict"]["weight"])
    assert [file.name for file in path.parent.iterdir()] == ["surrogate.ckpt"]
    with pytest.raises(FileNotFoundError, match=r"surrogate checkpoint at .*none.ckpt but no file"):
        load_checkpoint(tmp_path / "none.ckpt", "surrogate")


def test_a_file_with_a_changed_bit(tmp_path: Path) -> None:
    path, noticed = tmp_path / "surrogate.ckpt", 0
    save_checkpoint(path, CHECKPOINT)
    whole = path.read_bytes()
    for place in range(0, len(whole), len(whole) // 30):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x20]) + whole[place + 1 :])
        try:
            loaded = load_checkpoint(path, "surrogate")
        except ValueError:
            noticed += 1
        else:  # It was padding.
            assert digest(loaded["hyper_parameters"]) == digest(CHECKPOINT["hyper_parameters"])
            assert torch.equal(loaded["state_dict"]["weight"], CHECKPOINT["state_dict"]["weight"])
    assert noticed > 20


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ({"weight": torch.ones(2)}, "holds something of another program"),
        ([1, 2], "holds something of another program"),
        ({**CHECKPOINT, "kind": "classifier"}, "holds classifier"),
    ],
)
def test_foreign(tmp_path: Path, content: object, found: str) -> None:
    path = tmp_path / "foreign.ckpt"
    torch.save(content, path)
    with pytest.raises(ValueError, match=f"surrogate checkpoint .* {found}"):
        load_checkpoint(path, "surrogate")


def test_a_failed_write_leaves_the_earlier_file(
    tmp_path: Path, full_disk: Callable[[], AbstractContextManager[None]]
) -> None:
    path = tmp_path / "surrogate.ckpt"
    save_checkpoint(path, CHECKPOINT)
    with full_disk(), pytest.raises(OSError, match="large"):
        save_checkpoint(path, {**CHECKPOINT, "hyper_parameters": {}})
    assert load_checkpoint(path, "surrogate")["hyper_parameters"]["space"] == "ilr"
    assert [file.name for file in tmp_path.iterdir()] == ["surrogate.ckpt"]


@pytest.mark.parametrize(
    "url", ["s3://bucket/v.ckpt", Path("gs://bucket/v.ckpt"), "simplecache::s3://bucket/v.ckpt"]
)
def test_a_url_is_no_path_of_this_machine(
    url: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"path of this machine .* URL"):
        save_checkpoint(url, {"kind": "surrogate"})
    assert not list(tmp_path.iterdir())


def test_a_directory_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    def write(beside: Path, text: str) -> None:
        beside.mkdir()
        (beside / "part").write_text(text)
        if text == "torn":
            raise OSError(28, "No space left on device")

    path = tmp_path / "new" / "results"
    for text in ("first", "second"):
        write_whole(path, partial(write, text=text))
    with pytest.raises(OSError, match="No space left on device"):
        write_whole(path, partial(write, text="torn"))
    assert [entry.name for entry in path.parent.rglob("*")] == ["results", "part"]
    assert (path / "part").read_text() == "second"
    remove(path)
    remove(path)
    assert not any(path.parent.iterdir())


def test_digests_tell_apart_what_differs() -> None:
    zeros = torch.zeros(2, 3)
    parts: list[tuple[Any, ...]] = [
        (zeros,), (zeros.double(),), (zeros.T,), (zeros, zeros), (-zeros,), (np.zeros(0),),
        ("ab", "c"), ("a", "bc"), (b"abc",), ({"a": 1},), ({"a": "1"},), (),
    ]  # fmt: skip
    assert len({digest(*part) for part in parts}) == len(parts)
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    with pytest.raises(TypeError, match="not JSON serializable"):
        digest(object())
    numbers = np.random.default_rng(0).standard_normal((6, 4))
    assert digest(np.asfortranarray(numbers)) == digest(numbers) == digest(torch.tensor(numbers))
