"""Files of data: where they are looked for, fetched, and what is said when they are not there."""

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from manifold_shap.data import (
    MNIST,
    Abalone,
    Bike,
    Census,
    Drug,
    FashionMNIST,
    sources,
)


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


@pytest.mark.parametrize("source", [Drug, Abalone, Bike, Census, MNIST, FashionMNIST])
def test_a_root_without_the_file_is_an_error_and_not_a_download(
    source: type, nowhere: Path
) -> None:
    with pytest.raises(FileNotFoundError, match=rf"none at {nowhere}/.*; correct `root`"):
        source(root=str(nowhere)).setup()


def test_a_failed_download_names_the_places_and_the_variable(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(sources.VARIABLE, str(nowhere / "named"))
    monkeypatch.setenv("NO_PROXY", "*")
    pattern = r"named/a.data, .*home/.cache/manifold_shap/a.data; the download failed .*DATA"
    with pytest.raises(FileNotFoundError, match=pattern):
        sources.require(None, "a.data", "http://127.0.0.1:9/a.data")
    assert not (sources.cache() / "a.data").exists()


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and writes no log."""

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def served(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server of one file, `remote.data`."""
    monkeypatch.setenv("NO_PROXY", "*")
    (nowhere / "remote.data").write_text("1,2")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(nowhere))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/remote.data"
        server.shutdown()


def test_a_download_lands_in_the_cache_once(nowhere: Path, served: str) -> None:
    path = sources.require(None, "a/b.data", served)
    assert path == sources.cache() / "a/b.data"
    assert path.read_text() == "1,2"
    assert [file.name for file in path.parent.iterdir()] == ["b.data"]
    (nowhere / "remote.data").unlink()
    assert sources.require(None, "a/b.data", served) == path
