"""Engines whose processes live and die by themselves write the bytes that one process writes."""

from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import manifold_shap as ms
from tests.io.shared import BLOCK, ROWS, contents, dies, run

distributed = pytest.importorskip("distributed")
FRAME = pd.DataFrame(ROWS.numpy(), columns=list("abcd"))


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """A client of two Dask workers of one thread, each a process of its own."""
    few = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "memory_limit": None}
    with (
        distributed.LocalCluster(n_workers=2, **few) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What one process writes."""
    path = tmp_path_factory.mktemp("whole") / "rows.zarr"
    run(path)
    return contents(path)


def test_dask_workers_write_what_one_process_does(
    client: Any, tmp_path: Path, whole: dict[str, bytes]
) -> None:
    assert run(tmp_path / "rows.zarr", executor=client.get_executor()) == len(ROWS)
    assert contents(tmp_path / "rows.zarr") == whole


@pytest.fixture(scope="module")
def explainer() -> ms.Explainer:
    """Of a logistic regression of four columns."""
    model = LogisticRegression().fit(FRAME, FRAME.sum(axis=1) > 0)
    return ms.Explainer(model, FRAME, candidates=["gaussian"])


@pytest.mark.filterwarnings("ignore:(Of the candidates|No value repeats)")
def test_parts_of_a_dask_frame_are_explained_as_pandas_has_them(
    client: Any, explainer: ms.Explainer
) -> None:
    frame = FRAME.assign(key=range(len(ROWS)))
    table = pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=3)

    def explained(part: pd.DataFrame) -> pd.DataFrame:
        return part[["key"]].join(explainer.frame(part.drop(columns="key")))

    lazy = table.map_partitions(explained, meta=explained(frame.head(0)))
    parts = [table.get_partition(k).compute() for k in range(3)]
    assert list(lazy.columns)[:3] == ["key", "prediction_False", "prediction_True"]
    found = lazy.compute()
    pd.testing.assert_frame_equal(found, pd.concat(map(explained, parts)))
    assert found["key"].tolist() == list(range(len(ROWS)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:(Of the candidates|No value repeats)")
@pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning")
def test_batches_of_ray_are_explained_as_pandas_has_them(explainer: ms.Explainer) -> None:
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        parts = ray.data.from_pandas(FRAME)
        found = parts.map_batches(explainer.frame, batch_format="pandas").to_pandas()
    finally:
        ray.shutdown()
    assert np.array_equal(found.to_numpy(float), explainer.frame(FRAME).to_numpy(float))


def test_a_process_that_dies_ends_the_call_and_it_is_resumed(
    tmp_path: Path, whole: dict[str, bytes]
) -> None:
    path = tmp_path / "rows.zarr"
    with (
        ProcessPoolExecutor(1, get_context("spawn")) as pool,
        pytest.raises(BrokenExecutor, match="of 22 rows are kept"),
    ):
        run(path, estimator=dies, executor=pool)
    assert run(path, resume=True) in (len(ROWS) - k for k in (0, BLOCK, 2 * BLOCK))
    assert contents(path) == whole
