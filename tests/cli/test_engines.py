"""Engines that the command line names, and what is said where they are not there."""

import socket
import sys
from collections.abc import Iterator
from concurrent.futures import Executor
from typing import Any

import pytest

from manifold_shap.cli import engines, registry
from tests.cli.commands import composed, options

distributed = pytest.importorskip("distributed")


def settings(*words: str) -> dict[str, Any]:
    return registry.plain(composed("explain", *words))["engine"]


def test_every_engine_has_settings_that_can_be() -> None:
    assert options("engine") == ["dask", "processes"]
    for name in options("engine"):
        engines.check(settings(f"engine={name}"))


def test_one_process_needs_no_executor() -> None:
    with engines.executor(settings()) as executor:
        assert executor is None
    with engines.executor(settings("engine.workers=2")) as executor:
        assert isinstance(executor, Executor)


@pytest.fixture
def address() -> Iterator[str]:
    """Of a scheduler in this process, which has no workers."""
    few: dict[str, Any] = {"processes": False, "n_workers": 0, "dashboard_address": "127.0.0.1:0"}
    with distributed.LocalCluster(protocol="tcp://", scheduler_port=0, **few) as cluster:
        yield cluster.scheduler_address


def test_a_cluster_without_workers_is_not_waited_for_for_ever(address: str) -> None:
    chosen = settings("engine=dask", f"engine.address={address}", "engine.seconds=1")
    message = r"to have workers but none has joined in engine.seconds=1; `dask worker tcp"
    with pytest.raises(TimeoutError, match=message), engines.executor(chosen):
        pass


def test_a_scheduler_that_does_not_answer_is_told() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    chosen = settings("engine=dask", f"engine.address={address}", "engine.seconds=0.5")
    message = rf"scheduler at engine.address={address} but none .*=0.5: .*`dask scheduler` starts"
    with pytest.raises(TimeoutError, match=message), engines.executor(chosen):
        pass
    chosen["address"] = "nosuch://here"
    with pytest.raises(TimeoutError, match=r"engine.address=nosuch"), engines.executor(chosen):
        pass


def test_dask_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(ImportError, match=r"pip install 'manifold_shap\[dask\]'"),
        engines.executor(settings("engine=dask")),
    ):
        pass
