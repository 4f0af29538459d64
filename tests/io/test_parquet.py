"""Results as folders of Parquet files: whole or not there, the same on a disk and elsewhere."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import manifold_shap as ms
from manifold_shap.io.frames import wide_frame
from manifold_shap.io.places import PARTS
from tests.io.test_objects import written
from tests.io.test_streaming import FEW, ROWS, Stops, contents, game, run


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What an uninterrupted call writes on this machine."""
    path = tmp_path_factory.mktemp("whole") / "phi.parquet"
    assert run(path) == len(ROWS)
    assert list(path.parent.iterdir()) == [path]
    return contents(path)


def test_the_frame_is_that_of_the_store(tmp_path: Path, whole: dict[str, bytes]) -> None:
    labels = [f"row {k}" for k in range(22)]
    run(tmp_path / "rows.zarr", instances=labels)
    run(tmp_path / "phi.parquet", instances=labels)
    explanation = ms.Explanation.load(tmp_path / "rows.zarr")
    found = pd.read_parquet(tmp_path / "phi.parquet")
    pd.testing.assert_frame_equal(found, wide_frame(explanation))
    assert list(found.index) == labels
    known = json.loads((tmp_path / "phi.parquet" / PARTS).read_text())
    assert [part["rows"] for part in known["parts"]] == [8, 8, 6]
    assert known["made_by"] == explanation.made_by
    assert known["outputs"] == list(explanation.outputs)


def test_the_same_bytes_as_on_a_disk(folder: str, whole: dict[str, bytes]) -> None:
    url = f"{folder}/phi.parquet"
    run(url, x=ROWS[:3])
    with pytest.raises(KeyboardInterrupt, match=r"8 of 22 rows are kept"):
        run(url, estimator=Stops(2))
    assert len(ms.read_rows(url)) == 3
    assert run(url, resume=True) == 14
    assert written(url) == whole
    assert len(pd.read_parquet(url)) == 22


def test_an_interrupted_call_is_resumed(tmp_path: Path, whole: dict[str, bytes]) -> None:
    path = tmp_path / "phi.parquet"
    with pytest.raises(KeyboardInterrupt):
        run(path, estimator=Stops(3))
    assert not path.exists()
    assert run(path, resume=True) == 6
    assert contents(path) == whole


def test_a_table_is_no_store(tmp_path: Path, folder: str) -> None:
    for where in (f"{tmp_path}/phi.parquet", f"{folder}/phi.parquet"):
        run(where, x=ROWS[:3])
        with pytest.raises(ValueError, match=r"holds tables; `pandas.read_parquet` reads"):
            ms.Explanation.load(where)
        run(where, x=ROWS[:4])
        assert len(ms.read_rows(where)) == 4


def test_what_is_no_result_is_not_replaced(tmp_path: Path, folder: str) -> None:
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "mine.parquet")
    ms.exact_shapley(game, ROWS[:2]).save(f"{folder}/store.parquet")
    for path in (tmp_path / "mine.parquet", f"{folder}/store.parquet"):
        with pytest.raises(FileExistsError, match="something else stands there"):
            run(path)
    assert len(pd.read_parquet(tmp_path / "mine.parquet")) == 1


def test_blocks_have_the_same_columns(tmp_path: Path) -> None:
    def estimator(value: Any, x: Any) -> ms.Explanation:
        return FEW(value if len(x) != 6 else lambda x, mask: value(x, mask)[..., :2], x)

    with pytest.raises(ValueError, match=r"every block to have the players and outputs .*000002"):
        run(tmp_path / "phi.parquet", estimator=estimator)
    assert not (tmp_path / "phi.parquet").exists()


def test_what_is_not_read_back_is_not_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def torn(self: Path, content: Any) -> int:
        return usual(self, bytes(content)[:-1] if self.suffix == ".parquet" else content)

    usual = Path.write_bytes
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", torn)
        with pytest.raises(ValueError, match=r"written to .*000000.parquet but it differs"):
            run(tmp_path / "phi.parquet")
    assert run(tmp_path / "phi.parquet", resume=True) == 0
