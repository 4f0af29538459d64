"""Engines whose processes live and die by themselves write the bytes that one process writes."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import manifold_shap as ms
from tests.io.shared import FEW, ROWS, Watched, contents, game, stuck

distributed = pytest.importorskip("distributed")

MANY = ROWS.repeat(4, 1)
BLOCK = 4
BLOCKS = len(MANY) // BLOCK


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
    run(path, FEW)
    return contents(path)


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    (tmp_path / "begun").mkdir()
    return Watched(tmp_path / "begun", seconds=0.05)


def run(path: Path, estimator: Any, executor: Executor | None = None, **changes: Any) -> int:
    return ms.explain_rows(path, game, MANY, estimator, block=BLOCK, executor=executor, **changes)


def test_dask_workers_write_what_one_process_does(
    client: Any, tmp_path: Path, watched: Watched, whole: dict[str, bytes]
) -> None:
    assert run(tmp_path / "rows.zarr", watched, client.get_executor()) == len(MANY)
    assert contents(tmp_path / "rows.zarr") == whole
    begun = watched.begun()
    assert len(begun) == len({seed for seed, _ in begun}) == BLOCKS
    assert len({process for _, process in begun} - {os.getpid()}) == 2


@pytest.fixture(scope="module")
def explainer() -> ms.Explainer:
    """Of a logistic regression of four columns."""
    frame = pd.DataFrame(MANY.numpy(), columns=list("abcd"))
    model = LogisticRegression().fit(frame, (MANY.sum(1) > 0).numpy())
    return ms.Explainer(model, frame, candidates=["gaussian"])


@pytest.mark.filterwarnings("ignore:Of the candidates")
def test_parts_of_a_dask_frame_are_explained_as_pandas_has_them(
    client: Any, explainer: ms.Explainer
) -> None:
    frame = pd.DataFrame(ROWS.numpy(), columns=list("abcd")).assign(key=range(len(ROWS)))
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
@pytest.mark.filterwarnings("ignore:Of the candidates")
@pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning")
def test_batches_of_ray_are_explained_as_pandas_has_them(explainer: ms.Explainer) -> None:
    ray = pytest.importorskip("ray")
    frame = pd.DataFrame(ROWS.numpy(), columns=list("abcd"))
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        parts = ray.data.from_pandas(frame)
        found = parts.map_batches(explainer.frame, batch_format="pandas").to_pandas()
    finally:
        ray.shutdown()
    assert np.array_equal(found.to_numpy(float), explainer.frame(frame).to_numpy(float))


def when(condition: Callable[[], bool], act: Callable[[], object]) -> Thread:
    """Another thread that acts as soon as a condition holds."""

    def wait() -> None:
        while not condition():
            time.sleep(0.01)
        act()

    thread = Thread(target=wait, daemon=True)
    thread.start()
    return thread


@pytest.mark.slow
def test_processes_that_die_end_the_call_and_it_is_resumed(
    tmp_path: Path, watched: Watched, whole: dict[str, bytes]
) -> None:
    path = tmp_path / "rows.zarr"
    for estimator in (stuck, watched):
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            kill = partial(os.kill, pool.submit(os.getpid).result(), signal.SIGKILL)
            if estimator is watched:
                when(lambda: len(watched.begun()) > 4, kill)
            with pytest.raises(BrokenExecutor) as raised:
                run(path, estimator, pool, overwrite=True)
            assert "of 88 rows are kept" in raised.value.__notes__[0]
    done = len(MANY) - run(path, FEW, resume=True)
    assert done >= BLOCK
    assert contents(path) == whole
