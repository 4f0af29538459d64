"""Files are written whole or not at all."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from manifold_shap.io.files import digest, remove, write_whole


@pytest.mark.parametrize(
    "url", ["s3://bucket/v.ckpt", Path("gs://bucket/v.ckpt"), "simplecache::s3://bucket/v.ckpt"]
)
def test_a_url_is_no_path_of_this_machine(
    url: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"path of this machine .* URL"):
        write_whole(url, lambda beside: beside.write_text("all of it"))
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
