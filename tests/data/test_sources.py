"""Files of data: where they are looked for, fetched, and what is said when they are not there."""

from pathlib import Path

import pytest

from manifold_shap.data import load, sources


def test_places_are_searched_in_order(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = {name: nowhere / name for name in ("root", "named")}
    folders["cache"] = sources.cache()
    assert sources.find(None, "a/b.data") is None
    for name in ("cache", "named", "root"):
        (folders[name] / "a").mkdir(parents=True)
        (folders[name] / "a/b.data").write_text(name)
    assert sources.find(None, "a/b.data") == folders["cache"] / "a/b.data"
    monkeypatch.setenv(sources.VARIABLE, str(folders["named"]))
    assert sources.find(None, "a/b.data") == folders["named"] / "a/b.data"
    assert sources.find(folders["root"], "a/b.data") == folders["root"] / "a/b.data"
    (folders["root"] / "a/b.data").unlink()
    assert sources.find(folders["root"], "a/b.data") is None


@pytest.mark.parametrize("source", ["drug", "abalone", "bike", "census", "mnist", "fashion_mnist"])
def test_a_root_without_the_file_is_an_error_and_not_a_download(source: str, nowhere: Path) -> None:
    with pytest.raises(FileNotFoundError, match=rf"none at {nowhere}/.*; correct `root`"):
        load(source, root=str(nowhere))


def test_a_file_of_ones_own_that_is_not_there(nowhere: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"'mine.csv' .*none at /.*mine.csv"):
        load("table", path="mine.csv")


def test_a_failed_download_names_the_places_and_the_variable(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(sources.VARIABLE, str(nowhere / "named"))
    monkeypatch.setenv("NO_PROXY", "*")
    pattern = r"named/a.data, .*home/.cache/manifold_shap/a.data; the download failed .*DATA"
    with pytest.raises(FileNotFoundError, match=pattern):
        sources.require(None, "a.data", "http://127.0.0.1:9/a.data")
    assert not (sources.cache() / "a.data").exists()
