"""Engines that the command line names, and what is said where they are not there."""

from concurrent.futures import Executor
from typing import Any

import pytest

from manifold_shap.cli import engines, registry
from tests.cli.commands import composed

distributed = pytest.importorskip("distributed")


def settings(*words: str) -> dict[str, Any]:
    return registry.plain(composed("explain", *words))["engine"]


def test_one_process_needs_no_executor() -> None:
    with engines.executor(settings()) as executor:
        assert executor is None
    with engines.executor(settings("engine.workers=2")) as executor:
        assert isinstance(executor, Executor)


def test_a_scheduler_that_does_not_answer_is_not_waited_for_for_ever() -> None:
    chosen = settings("engine=dask", "engine.address=tcp://127.0.0.1:1", "engine.seconds=0.5")
    with pytest.raises(OSError, match=r"tcp://127.0.0.1:1"), engines.executor(chosen):
        pass
