"""Saved explainers at a hub that is a server on this machine: sent, brought back, refused."""

import base64
import errno
import hashlib
import json
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import huggingface_hub
import numpy as np
import pytest
import torch
import yaml
from huggingface_hub import constants
from sklearn.linear_model import LogisticRegression

import manifold_shap as ms
from manifold_shap.folder import read_model
from manifold_shap.io.files import digest
from manifold_shap.model_card import model_card
from manifold_shap.quality import Quality
from tests.exports.conftest import FRAME, MODEL

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    """What the server has, and what it was asked.

    Attributes:
        repos: files by name, of each repository.
        public: names of those that everyone may see.
        asked: method and path of each request.
    """

    repos: dict[str, dict[str, bytes]] = field(default_factory=dict)
    public: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)


class Handler(BaseHTTPRequestHandler):
    """As much of the hub's interface as sends and brings folders."""

    hub: Hub

    def log_message(self, *_: Any) -> None:
        pass

    def answer(self, status: int, content: Any = b"", **headers: str) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, text in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def missing(self, code: str = "RepoNotFound") -> None:
        self.answer(404, {"error": "not found"}, X_Error_Code=code)

    def do_POST(self) -> None:
        self.hub.asked.append(f"POST {self.path}")
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/api/repos/create":
            given = json.loads(body)
            name = f"someone/{given['name'].rpartition('/')[2]}"
            there = name in self.hub.repos
            self.hub.repos.setdefault(name, {})
            if not there and not (given.get("private") or given.get("visibility") == "private"):
                self.hub.public.add(name)
            url = f"http://{self.headers['Host']}/{name}"
            self.answer(409 if there else 200, {"url": url, "name": name})
        elif "/preupload/" in self.path:
            files = json.loads(body)["files"]
            told = [{**f, "uploadMode": "regular", "shouldIgnore": False} for f in files]
            self.answer(200, {"files": told})
        elif "/commit/" in self.path:
            name = re.findall("/api/models/(.*)/commit/", self.path)[0]
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    self.hub.repos[name][line["value"]["path"]] = base64.b64decode(
                        line["value"]["content"]
                    )
                elif line["key"] == "deletedFile":
                    del self.hub.repos[name][line["value"]["path"]]
            url = f"http://{self.headers['Host']}/{name}/commit/{COMMIT}"
            self.answer(200, {"commitUrl": url, "commitOid": COMMIT})
        else:
            self.answer(200, {})

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.hub.asked.append(f"{self.command} {path}")
        name = "/".join(path.removeprefix("/api/models").split("/")[1:3])
        files = self.hub.repos.get(name)
        if files is None:
            self.missing()
        elif path.startswith("/api/models"):
            if "/revision/" in path and path.rpartition("/")[2] not in ("main", COMMIT):
                self.missing("RevisionNotFound")
            elif "/tree/" in path:
                self.answer(200, [self.entry(key, files[key]) for key in files])
            else:
                names = [{"rfilename": key} for key in files]
                private = name not in self.hub.public
                about = {"id": name, "sha": COMMIT, "private": private, "siblings": names}
                self.answer(200, {**about, "tags": [], "downloads": 0})
        else:
            content = files.get(re.split(f"/resolve/(?:main|{COMMIT})/", path)[-1])
            if content is None:
                self.missing("EntryNotFound")
            else:
                etag = hashlib.sha1(content).hexdigest()
                self.answer(200, content, ETag=f'"{etag}"', X_Repo_Commit=COMMIT)

    @staticmethod
    def entry(name: str, content: bytes) -> dict[str, Any]:
        oid = hashlib.sha1(content).hexdigest()
        return {"type": "file", "path": name, "size": len(content), "oid": oid}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    found = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"hub": found}))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    template = endpoint + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    yield found
    server.shutdown()
    server.server_close()
    thread.join()
    huggingface_hub.close_session()


def same(one: ms.Explainer, other: ms.Explainer) -> None:
    first, second = (each(FRAME.head(3), evaluations=60).phi for each in (one, other))
    assert torch.equal(first, second)


def test_an_explainer_is_sent_and_brought_back(
    hub: Hub, explainer: ms.Explainer, tmp_path: Path
) -> None:
    url = explainer.push_to_hub("someone/prices", token="hf_token")
    assert url.endswith(f"/someone/prices/commit/{COMMIT}")
    files = hub.repos["someone/prices"]
    assert set(files) == {"README.md", "explainer.json", "tensors.safetensors"}
    assert not hub.public
    found = ms.Explainer.from_pretrained("someone/prices", MODEL, token="hf_token")
    same(found, explainer)
    asked = len(hub.asked)
    again = ms.Explainer.from_pretrained("someone/prices", MODEL, local_files_only=True)
    assert again.quality == explainer.quality
    assert len(hub.asked) == asked


def test_with_a_file_of_the_model_nobody_passes_it(
    hub: Hub, explainer: ms.Explainer, model_file: Path, tmp_path: Path
) -> None:
    explainer.push_to_hub("someone/whole", model_file=model_file, token="hf_token")
    hub.repos["someone/whole"]["more.bin"] = b"never asked for"
    same(ms.Explainer.from_pretrained("someone/whole", token="hf_token"), explainer)
    assert not any(asked.endswith("more.bin") for asked in hub.asked)


def test_what_an_earlier_upload_sent_goes_and_files_of_others_stay(
    hub: Hub, explainer: ms.Explainer, model_file: Path
) -> None:
    name, others = "someone/again", {"model.json": b"{}", "model.onnx": b"", "notes.md": b"mine"}
    hub.repos[name] = dict(others)
    explainer.push_to_hub(name, model_file=model_file, token="hf_token", private=False)
    assert {"model.skops", *others} < set(hub.repos[name])
    explainer.push_to_hub(name, token="hf_token", private=False)
    assert set(hub.repos[name]) == {"README.md", "explainer.json", "tensors.safetensors", *others}
    assert {each: hub.repos[name][each] for each in others} == others
    assert b"not here: pass it" in hub.repos[name]["README.md"]
    same(ms.Explainer.from_pretrained(name, MODEL, token="hf_token"), explainer)


def test_a_disk_at_fault_is_not_the_hubs(hub: Hub, explainer: ms.Explainer, tmp_path: Path) -> None:
    explainer.push_to_hub("someone/prices", token="hf_token")
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(
        OSError, match=r"keep 'someone/prices' .* another place \(`cache_dir`"
    ) as caught:
        ms.Explainer.from_pretrained(
            "someone/prices", MODEL, token="hf_token", cache_dir=tmp_path / "file" / "cache"
        )
    assert not isinstance(caught.value, ConnectionError)
    assert caught.value.errno == errno.ENOTDIR
    assert "log in" not in str(caught.value)


def test_a_repository_keeps_its_visibility(hub: Hub, explainer: ms.Explainer) -> None:
    explainer.push_to_hub("someone/own", token="hf_token")
    explainer.push_to_hub("someone/own", private=False, token="hf_token")
    assert "someone/own" not in hub.public


def test_a_folder_is_one_that_both_names_write(explainer: ms.Explainer, tmp_path: Path) -> None:
    explainer.save(tmp_path / "saved")
    explainer.save_pretrained(tmp_path / "pretrained")
    for name in ("README.md", "explainer.json", "tensors.safetensors"):
        one, other = ((tmp_path / folder / name) for folder in ("saved", "pretrained"))
        assert one.read_bytes() == other.read_bytes()
    same(ms.Explainer.from_pretrained(tmp_path / "pretrained", MODEL), explainer)


def test_what_holds_rows_is_not_published_by_mistake(hub: Hub, explainer: ms.Explainer) -> None:
    hub.repos["someone/open"] = {}
    hub.public.add("someone/open")
    with pytest.raises(ValueError, match=r"'someone/open' is public.*private=False"):
        explainer.push_to_hub("someone/open", token="hf_token")
    assert hub.repos["someone/open"] == {}
    explainer.push_to_hub("someone/open", private=False, token="hf_token")
    assert "explainer.json" in hub.repos["someone/open"]
    explainer.push_to_hub("someone/new", private=False, token="hf_token")
    assert "someone/new" in hub.public


@pytest.mark.parametrize("name", ["a//b", "some one/name", "a/b/c", "", "..", "x" * 200])
def test_a_name_that_the_hub_refuses_is_an_error_before_anything_is_sent(
    name: Any, hub: Hub, explainer: ms.Explainer
) -> None:
    with pytest.raises(ValueError, match="which the hub refuses"):
        explainer.push_to_hub(name, token="hf_token")
    assert hub.asked == []


@pytest.mark.usefixtures("any_type")
@pytest.mark.parametrize("name", [None, 3])
def test_a_name_that_is_no_text_is_an_error_before_anything_is_sent(
    name: Any, hub: Hub, explainer: ms.Explainer
) -> None:
    with pytest.raises(TypeError, match="Expected `repo_id` to be text but got"):
        explainer.push_to_hub(name, token="hf_token")
    assert hub.asked == []


def test_a_file_of_another_model_is_an_error_before_anything_is_sent(
    hub: Hub, explainer: ms.Explainer, tmp_path: Path
) -> None:
    import skops.io

    other = LogisticRegression().fit(FRAME, FRAME["age"] > 4)
    skops.io.dump(other, tmp_path / "other.skops")
    with pytest.raises(ValueError, match=r"`model_file` to hold the model .* predicts otherwise"):
        explainer.push_to_hub("someone/x", model_file=tmp_path / "other.skops", token="hf_token")
    assert hub.asked == []
    with pytest.raises(ValueError, match=r"Refused to load model\.pkl"):
        explainer.save(tmp_path / "folder", model_file="model.pkl")
    with pytest.raises(FileNotFoundError, match="no file is there"):
        explainer.save(tmp_path / "folder", model_file=tmp_path / "nosuch.skops")
    assert not (tmp_path / "folder").exists()


def test_a_model_that_needs_files_beside_it_is_refused(tmp_path: Path) -> None:
    """As ONNX with external data does, whose other file would stay behind."""
    onnx = pytest.importorskip("onnx")
    place, numbers = tmp_path / "made", FRAME.astype("float32")
    place.mkdir()
    weights = onnx.numpy_helper.from_array(np.ones((3, 1), dtype="float32"), "weights")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "weights"], ["y"])],
        "sums",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["rows", 3])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["rows", 1])],
        [weights],
    )
    opsets = [onnx.helper.make_opsetid("", 18)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
    onnx.save(model, place / "sums.onnx")
    explainer = ms.Explainer(place / "sums.onnx", numbers, returns="values", candidates="gaussian")
    explainer.save(tmp_path / "folder", model_file=place / "sums.onnx")
    before = {each.name: each.read_bytes() for each in (tmp_path / "folder").iterdir()}

    external = {"save_as_external_data": True, "size_threshold": 0, "location": "sums.data"}
    onnx.save(model, place / "sums.onnx", **external)
    assert (place / "sums.data").is_file()
    ms.load_model(place / "sums.onnx")
    with pytest.raises(ValueError, match=r"sums\.onnx needs files beside it.*external_data=False"):
        explainer.save(tmp_path / "folder", model_file=place / "sums.onnx")
    after = {each.name: each.read_bytes() for each in (tmp_path / "folder").iterdir()}
    assert after == before
    ms.Explainer.load(tmp_path / "folder")

    # What the error advises.
    onnx.save(onnx.load(place / "sums.onnx"), place / "whole.onnx", save_as_external_data=False)
    explainer.save(tmp_path / "whole", model_file=place / "whole.onnx")
    ms.Explainer.load(tmp_path / "whole")


def test_repositories_that_there_are_not_and_foreign_ones(hub: Hub, tmp_path: Path) -> None:
    load = ms.Explainer.from_pretrained
    with pytest.raises(FileNotFoundError, match=r"repository 'someone/none' .*hf auth login"):
        load("someone/none", MODEL, token="hf_token")
    hub.repos["someone/other"] = {"config.json": b"{}"}
    with pytest.raises(FileNotFoundError, match=r"'someone/other' but there is no explainer\.json"):
        load("someone/other", MODEL, token="hf_token")
    with pytest.raises(FileNotFoundError, match="and the revision asked for"):
        load("someone/other", MODEL, revision="old", token="hf_token")
    hub.repos["someone/broken"] = {"explainer.json": b"{", "tensors.safetensors": b"?"}
    with pytest.raises(
        ValueError, match=r"its explainer\.json is damaged; save the explainer again"
    ):
        load("someone/broken", MODEL, token="hf_token")
    with pytest.raises(ValueError, match=r"Expected a folder that is there, or the name of a rep"):
        load(tmp_path / "nosuch", MODEL)
    with pytest.raises(FileNotFoundError, match=r"there is no explainer\.json; name the folder"):
        load(tmp_path, MODEL)


def test_a_hub_out_of_reach_is_told(
    explainer: ms.Explainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    load = ms.Explainer.from_pretrained
    with pytest.raises(ConnectionError, match="check the connection"):
        load("someone/prices", MODEL, cache_dir=tmp_path, token="hf_token")
    with pytest.raises(ConnectionError, match="check the connection"):
        load("someone/prices", MODEL, cache_dir=tmp_path, local_files_only=True)
    with pytest.raises(ConnectionError, match="check the connection"):
        explainer.push_to_hub("someone/prices", token="hf_token")


def test_the_card_has_what_was_measured_and_no_license(
    explainer: ms.Explainer, tmp_path: Path
) -> None:
    explainer.save(tmp_path / "folder")
    text = (tmp_path / "folder" / "README.md").read_text()
    card = huggingface_hub.ModelCard(text)
    assert card.data.library_name == "manifold_shap"
    assert "shapley-values" in card.data.tags
    assert yaml.safe_load(text.split("---")[1]).keys() == {"library_name", "tags"}
    quality = explainer.quality
    for name, error in quality.mse.items():
        assert re.search(rf"\| `{name}`.* \| {error:.4g} \|", text), name
    assert f"`{quality.chosen}` (chosen)" in text
    assert f"{quality.rows} held-out rows" in text
    assert r"`rooms\|count`" in text
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert len(tables) == 2
    for table in tables:
        cells = [len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()]
        assert len(set(cells)) == 1, table


def test_a_card_warns_as_the_quality_does(explainer: ms.Explainer) -> None:
    plain = explainer.quality.to_dict()
    for warning in ("", "features may be independent"):
        card = model_card(explainer.value, Quality(**{**plain, "warning": warning}), None)
        assert ("**Beware:** features may be independent." in card) == bool(warning)


def test_a_damaged_file_of_the_model_is_an_error(
    explainer: ms.Explainer, model_file: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    explainer.save(folder, model_file=model_file)
    same(ms.Explainer.load(folder), explainer)
    (folder / "README.md").write_text("Edited by its owner.")
    same(ms.Explainer.load(folder), explainer)
    content = bytearray((folder / "model.skops").read_bytes())
    content[50] ^= 1
    (folder / "model.skops").write_bytes(content)
    with pytest.raises(ValueError, match=r"'model\.skops' .* missing or damaged"):
        ms.Explainer.load(folder)
    same(ms.Explainer.load(folder, MODEL), explainer)
    explainer.save(folder)
    with pytest.raises(ValueError, match=r"Expected a model but got none"):
        ms.Explainer.load(folder)


@pytest.mark.parametrize("name", ["../model.skops", "/model.skops", ".", "model.pkl"])
def test_no_file_beyond_the_folder_is_opened(name: str, model_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for place in (tmp_path / "model.skops", folder / "model.pkl"):
        shutil.copy(model_file, place)
    known = digest(model_file.read_bytes())
    with pytest.raises(ValueError, match=r"missing or damaged|Refused to load"):
        read_model(folder, {"name": name, "digest": known})
    shutil.copy(model_file, folder / "model.skops")
    assert hasattr(read_model(folder, {"name": "model.skops", "digest": known}), "predict_proba")


def test_a_missing_package_is_named(
    explainer: ms.Explainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match=r"manifold_shap\[hub\]"):
        explainer.push_to_hub("someone/prices")
    with pytest.raises(ImportError, match=r"manifold_shap\[hub\]"):
        ms.Explainer.from_pretrained("someone/prices", MODEL)
    with pytest.raises(ImportError, match=r"a folder 'my_expl', but there is none.*correct the pa"):
        ms.Explainer.from_pretrained("my_expl", MODEL)
