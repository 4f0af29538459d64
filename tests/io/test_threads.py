"""Blocks on several threads: the same numbers on any executor, and an end soon after Ctrl-C."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.estimators.evaluator import Evaluator
from manifold_shap.io.streaming import explain_rows
from manifold_shap.io.threads import blocks_at_once, pool_for

ROWS = torch.randn(40, 4, generator=torch.Generator().manual_seed(1))
FEW = partial(ms.permutation_shapley, permutations=4)


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


class Seen(ms.ValueFunction):
    """Notes in which threads it is asked, and with how many of torch's."""

    def __init__(self) -> None:
        super().__init__(ms.Players.of_elements((4,)), ["sum"])
        self.threads = set[tuple[str, int]]()

    def values(self, x: Tensor, mask: Tensor, keys: Tensor) -> Tensor:
        self.threads.add((threading.current_thread().name, torch.get_num_threads()))
        time.sleep(0.01)
        return (x[:, None] * mask).sum(-1, keepdim=True).tanh()

    def prediction(self, x: Tensor) -> Tensor:
        return x.sum(-1, keepdim=True).tanh()

    def base(self, x: Tensor) -> Tensor:
        return torch.zeros(len(x), 1)


def game(x: Tensor, mask: Tensor) -> Tensor:
    return (x[:, None] * mask).sum(-1, keepdim=True)


@pytest.mark.usefixtures("two_threads")
def test_every_core_explains_a_block(tmp_path: Path) -> None:
    value = Seen()
    explain_rows(tmp_path / "rows", value, ROWS, FEW, block=4)
    main = threading.current_thread().name
    workers = {(name, torchs) for name, torchs in value.threads if name != main}
    assert len(workers) == 2
    assert {torchs for _, torchs in workers} == {1}
    # New threads have as many as this one again.
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(torch.get_num_threads).result() == 2


@pytest.mark.usefixtures("two_threads")
def test_few_blocks_have_all_cores(tmp_path: Path) -> None:
    value = Seen()
    explain_rows(tmp_path / "rows", value, ROWS, FEW, block=40)
    assert value.threads == {(threading.current_thread().name, 2)}


@pytest.mark.usefixtures("two_threads")
def test_executors_compute_with_the_same_threads(tmp_path: Path) -> None:
    for number, executor in enumerate([ThreadPoolExecutor(1), ThreadPoolExecutor(3)]):
        value = Seen()
        with executor:
            explain_rows(tmp_path / f"{number}", value, ROWS, FEW, block=4, executor=executor)
        main = threading.current_thread().name
        assert {torchs for name, torchs in value.threads if name != main} == {1}


@pytest.mark.usefixtures("two_threads")
def test_the_bytes_are_those_of_one_thread(
    tmp_path: Path, make_value: Callable[..., ms.ValueFunction]
) -> None:
    value = make_value("marginal", "probability")
    found = []
    for number, executor in enumerate([None, ThreadPoolExecutor(1)]):
        path = tmp_path / f"{number}.zarr"
        with executor or nullcontext():
            explain_rows(path, value, ROWS, FEW, block=4, executor=executor)
        files = sorted(each for each in path.rglob("*") if each.is_file())
        found.append({str(each.relative_to(path)): each.read_bytes() for each in files})
    assert found[0] == found[1]


@pytest.mark.usefixtures("two_threads")
def test_functions_of_the_callers_are_called_from_one_thread() -> None:
    assert blocks_at_once(game, 10) == 1
    wrapped = ms.as_value_function(game, ROWS)
    assert blocks_at_once(wrapped, 10) == 1
    assert blocks_at_once(wrapped.select([0]), 10) == 1
    assert blocks_at_once(Seen(), 10) == 2
    assert blocks_at_once(Seen(), 1) == 1


def test_work_stops_soon_after_an_interruption() -> None:
    begun, ended = threading.Event(), []

    def slow() -> None:
        value = Seen()
        game = Evaluator(value, ROWS)
        rows = torch.arange(len(ROWS))
        mask = torch.ones(1, 4, dtype=torch.bool)
        mask[0, 0] = False
        begun.set()
        try:
            for _ in range(3000):  # Half a minute.
                game.evaluate(rows, lambda start, stop: mask, 1, rows[:, None])
        except CancelledError:
            ended.append("soon")
            raise

    waiting = list[Future[None]]()

    def interrupted() -> None:
        with pool_for(None, 2) as pool:
            assert isinstance(pool, Executor)
            waiting.extend(pool.submit(slow) for _ in range(3))
            begun.wait()
            raise KeyboardInterrupt

    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert time.perf_counter() - start < 15
    assert set(ended) == {"soon"}
    assert all(future.done() for future in waiting)


def test_one_block_at_a_time_needs_no_thread() -> None:
    with pool_for(None, 1) as pool:
        assert pool is None
