"""Results in object stores: a manifest stands for a rename there, and a claim for a lock."""

import json
import os
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor as Threads
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
import pytest
import torch

import manifold_shap as ms
from manifold_shap.io import objects
from manifold_shap.io.objects import UrlPlace
from manifold_shap.io.places import MANIFEST, LocalPlace, place_of
from tests.io.test_streaming import FEW, ROWS, Elsewhere, Stops, contents, game, processes, run


@pytest.fixture
def url(folder: str) -> str:
    """Where a store comes."""
    return f"{folder}/rows.zarr"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What an uninterrupted call writes on this machine."""
    path = tmp_path_factory.mktemp("whole") / "rows.zarr"
    run(path)
    return contents(path)


def names(url: str) -> list[str]:
    """Of every object below a URL."""
    fs, path = fsspec.url_to_fs(url)
    fs.invalidate_cache()
    return sorted(name[len(path) + 1 :] for name in fs.find(path))


def written(url: str) -> dict[str, bytes]:
    """Every object of the store that a manifest names, as long as there are no others."""
    fs, path = fsspec.url_to_fs(url)
    folder = json.loads(fs.cat_file(f"{path}/{MANIFEST}"))["folder"]
    found = names(url)
    assert all(name == MANIFEST or name.startswith(f"{folder}/") for name in found)
    return {
        name.removeprefix(f"{folder}/"): fs.cat_file(f"{path}/{name}")
        for name in found
        if name != MANIFEST
    }


def put(url: str, content: bytes) -> None:
    fs, path = fsspec.url_to_fs(url)
    fs.pipe_file(path, content)


# What a store holds.


def test_the_same_bytes_as_on_a_disk(folder: str, url: str, whole: dict[str, bytes]) -> None:
    assert run(url) == len(ROWS)
    assert written(url) == whole
    assert {name.partition("/")[0] for name in names(folder)} == {"rows.zarr"}
    loaded, part = ms.Explanation.load(url), ms.Explanation.load(url, slice(6, 13))
    assert torch.equal(loaded.x, ROWS)
    assert part.instances == tuple(range(6, 13))
    assert torch.equal(part.phi, loaded.phi[6:13])


def test_an_explanation_is_saved_and_replaced(url: str, tmp_path: Path) -> None:
    for rows in (ROWS, ROWS[:3]):
        explanation = ms.exact_shapley(game, rows)
        explanation.save(url)
        explanation.save(tmp_path / "rows.zarr")
        assert written(url) == contents(tmp_path / "rows.zarr")
        assert torch.equal(ms.Explanation.load(url).phi, explanation.phi)


def test_folders_may_be_copied_from_and_to_a_machine(
    folder: str, tmp_path: Path, whole: dict[str, bytes]
) -> None:
    run(f"{folder}/rows.zarr")
    fs, path = fsspec.url_to_fs(folder)
    fs.get(f"{path}/rows.zarr", str(tmp_path / "here.zarr"), recursive=True)
    here = ms.Explanation.load(tmp_path / "here.zarr")
    run(tmp_path / "plain.zarr")
    fs.put(str(tmp_path / "plain.zarr"), f"{path}/there.zarr", recursive=True)
    there = ms.Explanation.load(f"{folder}/there.zarr")
    assert torch.equal(here.phi, there.phi)
    run(f"{folder}/there.zarr")
    assert written(f"{folder}/there.zarr") == whole


@pytest.mark.parametrize("executor", [partial(Threads, 2), Elsewhere])
def test_every_executor_writes_the_same_bytes(
    folder: str, url: str, whole: dict[str, bytes], executor: Any
) -> None:
    with executor() as given:
        assert run(url, executor=given) == len(ROWS)
    assert written(url) == whole
    assert {name.partition("/")[0] for name in names(folder)} == {"rows.zarr"}


@pytest.mark.slow
def test_other_processes_write_to_a_store(bucket: str, whole: dict[str, bytes]) -> None:
    with processes() as given:
        run(f"{bucket}/processes.zarr", executor=given)
        assert written(f"{bucket}/processes.zarr") == whole
        with pytest.raises(FileNotFoundError, match=r"worker process to see memory://.* one proc"):
            run(f"memory://{uuid4().hex}/rows.zarr", executor=given)


def test_places_can_be_sent_to_other_processes(url: str) -> None:
    for place in (place_of(url), place_of("rows.zarr")):
        assert pickle.loads(pickle.dumps(place)) == place


# Interruptions.


@pytest.mark.parametrize("calls", [1, 2, 3])
def test_interruptions_change_no_byte(url: str, whole: dict[str, bytes], calls: int) -> None:
    with pytest.raises(KeyboardInterrupt, match=r"of 22 rows are kept in .*\.rows\.zarr\.partial"):
        run(url, estimator=Stops(calls))
    with pytest.raises(FileNotFoundError, match="nothing is there"):
        ms.Explanation.load(url)
    assert run(url, resume=True) == len(ROWS) - 8 * (calls - 1)
    assert written(url) == whole


class Killed(BaseException):
    """Nothing handles it, and nothing is written after it."""


def killed_in(monkeypatch: pytest.MonkeyPatch, calls: int) -> Any:
    """From some write on no request reaches the store, as of a process that was killed."""
    left = [calls]

    def dies(self: UrlPlace, verb: str) -> Any:
        if verb in ("write", "remove") and left[0] == 0:
            raise Killed
        left[0] -= verb in ("write", "remove")
        return reaching(self, verb)

    reaching = UrlPlace._reaching
    monkeypatch.setattr(UrlPlace, "_reaching", dies)
    return left


def test_killed_at_any_request_it_is_resumed_once_its_claim_is_removed(
    folder: str, tmp_path: Path
) -> None:
    """The earlier result is read until the new one is; what is not complete is never read."""
    few: Any = {"x": ROWS[:6], "block": 3}
    run(tmp_path / "rows.zarr", **few)
    earlier, moment = ms.exact_shapley(game, ROWS[:2]), 0
    step = 3 if folder.startswith("memory") else 6
    for moment in range(0, 200, step):
        url, work = f"{folder}/{moment}.zarr", place_of(f"{folder}/.{moment}.zarr.partial")
        earlier.save(url)
        try:
            with pytest.MonkeyPatch.context() as patch:
                killed_in(patch, moment)
                run(url, **few)
            break
        except Killed:
            pass
        assert len(ms.Explanation.load(url).phi) in (2, 6)
        owner = work / "owner.json"
        if owner.read() is not None:
            with pytest.raises(FileExistsError, match="has to be removed by hand"):
                run(url, **few)
            owner.remove()
        run(url, **few, resume=(work / "first.zarr").find() is not None)
        run(url, **few)  # Whatever was left is gone after it.
        assert written(url) == contents(tmp_path / "rows.zarr")
    assert 12 < moment < 199
    left = {name.partition("/")[0] for name in names(folder)}
    assert left == {f"{k}.zarr" for k in range(0, moment + 1, step)}


def test_an_upload_that_fails_leaves_the_earlier_result(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = ms.exact_shapley(game, ROWS[:3])
    earlier.save(url)
    before = names(url)

    def torn(self: UrlPlace, local: Path) -> None:
        put(f"{self.url}/.zgroup", b"{}")
        raise OSError(5, "the line was cut")

    with monkeypatch.context() as patch:
        patch.setattr(UrlPlace, "_upload", torn)
        with pytest.raises(OSError, match="the line was cut"):
            ms.exact_shapley(game, ROWS).save(url)
    assert names(url) == before
    assert torch.equal(ms.Explanation.load(url).phi, earlier.phi)


def test_an_earlier_explanation_is_replaced_at_the_end_only(url: str) -> None:
    run(url, x=ROWS[:3])
    with pytest.raises(KeyboardInterrupt):
        run(url, estimator=Stops(2))
    assert len(ms.Explanation.load(url).phi) == 3
    run(url, resume=True)
    assert len(ms.Explanation.load(url).phi) == len(ROWS)
    with pytest.warns(UserWarning, match=r"Nothing is left to resume .* explained again"):
        run(url, resume=True)


@pytest.mark.parametrize("how", ["torn", "changed"])
def test_a_finished_block_that_is_damaged_is_explained_again(
    folder: str, url: str, whole: dict[str, bytes], how: str
) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(url, estimator=Stops(3))
    lost = next(name for name in names(folder) if "000001.zarr/saved-" in name)
    kept = fsspec.url_to_fs(folder)[0].cat_file(f"{folder}/{lost}")
    damaged = kept.replace(b"permutation", b"permutatiom") if how == "changed" else kept[:-9]
    put(f"{folder}/{lost}", damaged)
    with pytest.warns(UserWarning, match=r"^8 rows that .* damaged; they are explained again"):
        assert run(url, resume=True) == 6 + 8
    assert written(url) == whole


def test_starting_again_removes_what_was_left(url: str, whole: dict[str, bytes]) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(url, estimator=Stops(3))
    with pytest.raises(ValueError, match=r"in .*\.rows\.zarr\.partial, but these differ: .*seed"):
        run(url, seed=1, resume=True)
    with pytest.warns(UserWarning, match=r"^Removed .*\.rows\.zarr\.partial: 2 blocks"):
        run(url)
    assert written(url) == whole


def test_a_reader_sees_the_result_that_replaced_the_one_it_was_reading(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ms.exact_shapley(game, ROWS[:3]).save(url)
    whole = ms.exact_shapley(game, ROWS)
    replaced = list[int]()

    def find(self: UrlPlace) -> Any:
        found = usual(self)
        if not replaced:
            replaced.append(1)
            whole.save(url)
        return found

    usual = UrlPlace.find
    for rows in (None, slice(0, 20)):
        replaced.clear()
        monkeypatch.setattr(UrlPlace, "find", find)
        assert torch.equal(ms.Explanation.load(url, rows).phi, whole.phi[rows or slice(None)])
        assert replaced
        monkeypatch.setattr(UrlPlace, "find", usual)


def test_what_is_damaged_or_not_complete_is_never_read(url: str) -> None:
    run(url)
    folder = names(url)[-1].partition("/")[0]
    phi = f"{url}/{folder}/phi/1.0.0"
    kept = fsspec.url_to_fs(phi)[0].cat_file(fsspec.url_to_fs(phi)[1])
    for content in (kept[:-1] + b"?", b""):
        put(phi, content)
        with pytest.raises(ValueError, match="Expected a complete explanation store"):
            ms.Explanation.load(url)
    fsspec.url_to_fs(phi)[0].rm(fsspec.url_to_fs(phi)[1])
    with pytest.raises(ValueError, match="not those that were saved"):
        ms.Explanation.load(url)
    put(phi, kept)
    ms.Explanation.load(url)
    for content in (b"", b"{}", b"[1]", b'{"folder": "../other"}', b"[" * 100_000):
        put(f"{url}/{MANIFEST}", content)
        with pytest.raises(ValueError, match=rf"but its {MANIFEST} is damaged"):
            ms.Explanation.load(url)
    put(f"{url}/{MANIFEST}", json.dumps({"folder": folder, "sha256": "0"}).encode())
    with pytest.raises(ValueError, match="not those that were saved"):
        ms.Explanation.load(url, slice(3))


def test_names_that_lead_out_of_the_folder_are_not_written(tmp_path: Path) -> None:
    url = f"memory://{uuid4().hex}/rows.zarr"
    run(url)
    fs = fsspec.filesystem("memory")
    folder = json.loads(fs.cat_file(f"{url}/{MANIFEST}"))["folder"]
    key = f"{fsspec.url_to_fs(url)[1]}/{folder}/../../../evil"
    fs.store[key] = fs.store[next(iter(fs.store))]
    try:
        with pytest.raises(PermissionError, match="leads outside"):
            ms.Explanation.load(url)
    finally:
        del fs.store[key]


# One call at a time.


@pytest.mark.parametrize("resume", [False, True])
def test_of_two_calls_on_one_url_the_later_one_is_refused(
    url: str, whole: dict[str, bytes], resume: bool
) -> None:
    def disturbed(value: Any, x: torch.Tensor, seed: int = 0) -> ms.Explanation:
        with pytest.raises(
            FileExistsError, match=rf"only call .* process {os.getpid()} on .* has claimed it; .*rm"
        ):
            run(url, resume=resume)
        return FEW(value, x, seed=seed)

    assert run(url, estimator=disturbed) == len(ROWS)
    assert written(url) == whole


def test_of_calls_that_begin_at_once_one_is_at_it(url: str) -> None:
    def claim(_: int) -> bool:
        try:
            place_of(f"{url}/owner")._create(uuid4().bytes, place_of(url))  # type: ignore[attr-defined]
        except FileExistsError:
            return False
        return True

    with Threads(8) as pool:
        assert sum(pool.map(claim, range(8))) == 1


def test_a_call_whose_claim_was_taken_replaces_nothing(url: str) -> None:
    ms.exact_shapley(game, ROWS[:3]).save(url)
    owner = place_of(url.replace("rows.zarr", ".rows.zarr.partial/owner.json"))

    def robbed(value: Any, x: torch.Tensor, seed: int = 0) -> ms.Explanation:
        put(str(owner), b'{"id": "other", "who": "process 1 on another"}')
        return FEW(value, x, seed=seed)

    with pytest.raises(FileExistsError, match="claim was removed while it ran"):
        run(url, estimator=robbed)
    assert len(ms.Explanation.load(url).phi) == 3
    with pytest.raises(FileExistsError, match="process 1 on another, has claimed it"):
        run(url, resume=True)
    owner.remove()
    assert run(url, resume=True) == 0


def test_what_a_claim_holds_may_be_anything(url: str) -> None:
    put(url.replace("rows.zarr", ".rows.zarr.partial/owner.json"), b"torn")
    with pytest.raises(FileExistsError, match="another one, has claimed it"):
        run(url)


def test_an_answer_that_was_lost_is_no_second_call(
    url: str, monkeypatch: pytest.MonkeyPatch, whole: dict[str, bytes]
) -> None:
    """The store has the claim, but the client does not know and asks again."""
    fs = fsspec.url_to_fs(url)[0]
    usual, asked = fs.pipe_file, list[str]()

    def pipe_file(path: str, content: bytes, **how: Any) -> None:
        usual(path, content, **how)
        if how and not asked:
            asked.append(path)
            raise OSError(5, "timed out")

    monkeypatch.setattr(fs, "pipe_file", pipe_file)
    run(url)
    assert asked
    assert written(url) == whole


def test_stores_that_cannot_refuse_are_warned_of(
    url: str, monkeypatch: pytest.MonkeyPatch, whole: dict[str, bytes]
) -> None:
    fs = fsspec.url_to_fs(url)[0]
    usual, message = fs.pipe_file, "cannot keep a second call from writing to .*rows.zarr"
    with monkeypatch.context() as patch:  # It ignores the condition.
        patch.setattr(fs, "pipe_file", lambda path, content, **how: usual(path, content))
        with pytest.warns(UserWarning, match=message):
            run(url)
    with monkeypatch.context() as patch:  # Nothing is known of its protocol.
        patch.setattr(objects, "_CREATE", ())
        with pytest.warns(UserWarning, match=message):
            run(url)
        put(url.replace("rows.zarr", ".rows.zarr.partial/owner.json"), b'{"who": "process 1"}')
        with pytest.raises(FileExistsError, match="process 1, has claimed it"):
            run(url)
    assert written(url) == whole


# Errors.


def test_what_is_no_explanation_is_not_replaced(url: str) -> None:
    put(f"{url}/notes.txt", b"mine")
    for write in (run, ms.exact_shapley(game, ROWS).save):
        with pytest.raises(FileExistsError, match="something else stands there"):
            write(url)
    assert names(url) == ["notes.txt"]


def test_what_others_have_not_finished_is_in_nobodys_way(url: str, whole: dict[str, bytes]) -> None:
    put(f"{url}/rows-{'0' * 32}/.zgroup", b"{}")
    with pytest.raises(FileNotFoundError, match="nothing is there"):
        ms.Explanation.load(url)
    run(url)
    assert written(url) == whole


@pytest.mark.parametrize(
    ("url", "error", "message"),
    [
        ("nosuch://bucket/rows.zarr", ValueError, r"that fsspec knows, .* 'nosuch://bucket"),
        ("s3://bucket", ValueError, r"in a bucket but got 's3://bucket'.*'s3://bucket/rows.zarr'"),
        ("memory://", ValueError, "add a name"),
        (Path("s3://bucket/rows.zarr"), ValueError, r"`pathlib.Path` has cut; give it as text"),
        ("s3://nosuchbucket/rows.zarr", FileNotFoundError, "Could not write s3://nosuch.*exist"),
    ],
)
@pytest.mark.usefixtures("bucket")
def test_urls_of_nothing_are_refused(url: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        run(url)
    if error is ValueError:
        with pytest.raises(error, match=message):
            ms.Explanation.load(url)


@pytest.mark.parametrize("protocol", ["s3", "gs"])
def test_a_missing_package_is_told_with_the_extra(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("s3fs", "gcsfs"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, protocol, raising=False)
    with pytest.raises(ImportError, match=r"`pip install 'manifold_shap\[cloud\]'`"):
        run(f"{protocol}://bucket/rows.zarr")


def test_no_permission_is_told_as_such(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ms.exact_shapley(game, ROWS[:3]).save(url)
    fs = fsspec.url_to_fs(url)[0]

    def refuse(*args: Any, **settings: Any) -> None:
        raise PermissionError("Access Denied")

    for name, call in {
        "cat_file": ms.Explanation.load,
        "pipe_file": run,
        "put": ms.exact_shapley(game, ROWS).save,
        "get": ms.Explanation.load,
    }.items():
        with monkeypatch.context() as patch:
            patch.setattr(fs, name, refuse)
            with pytest.raises(PermissionError, match=r"Could not .*rows\.zarr.*no permission"):
                call(url)
    assert len(ms.Explanation.load(url).phi) == 3


def test_a_server_that_does_not_answer_is_no_damaged_store(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    fsspec.filesystem("s3").clear_instance_cache()
    monkeypatch.setattr("s3fs.core.S3FileSystem.retries", 1)
    for call in (run, ms.Explanation.load):
        with pytest.raises(OSError, match="see whether the store can be reached"):
            call(f"{bucket}/rows.zarr")
    fsspec.filesystem("s3").clear_instance_cache()


def test_files_may_be_named_by_url(tmp_path: Path, whole: dict[str, bytes]) -> None:
    run(f"file://{tmp_path}/rows.zarr")
    assert contents(tmp_path / "rows.zarr") == whole
    assert place_of(f"file://{tmp_path}") == LocalPlace(tmp_path)
