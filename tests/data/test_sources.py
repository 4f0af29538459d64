"""Published files: where they are looked for, and what is said when they cannot be fetched."""

from pathlib import Path

import pytest

from manifold_shap.data import sources


def test_places_are_searched_in_order(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = {"named": nowhere / "named", "cache": sources.cache()}
    assert sources.find("a/b.data") is None
    for name, folder in folders.items():
        (folder / "a").mkdir(parents=True)
        (folder / "a/b.data").write_text(name)
    assert sources.find("a/b.data") == folders["cache"] / "a/b.data"
    monkeypatch.setenv(sources.VARIABLE, str(folders["named"]))
    assert sources.find("a/b.data") == folders["named"] / "a/b.data"


def test_a_failed_download_names_the_places_and_the_variable(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(sources.VARIABLE, str(nowhere / "named"))
    monkeypatch.setenv("NO_PROXY", "*")
    pattern = r"'a.data' in .*named or .*home/.cache/manifold_shap, .* download failed .*DATA"
    with pytest.raises(FileNotFoundError, match=pattern):
        sources.require("a.data", "http://127.0.0.1:9/a.data")
    assert not (sources.cache() / "a.data").exists()
