"""Local copies of published data, and a machine without any."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from manifold_shap.data import sources


@pytest.fixture(scope="session")
def local() -> Callable[[str], str]:
    """The folder of local data, or a skip where it lacks a file."""

    def find(relative: str) -> str:
        named = os.environ.get(sources.VARIABLE)
        if named is None or not (Path(named) / relative).exists():
            pytest.skip(f"no {relative!r} in a folder named by {sources.VARIABLE}")
        return named

    return find


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Neither a data folder nor a cache: the home folder is empty."""
    monkeypatch.delenv(sources.VARIABLE, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path
