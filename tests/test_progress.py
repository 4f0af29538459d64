"""Bars appear where a person looks, and nowhere else unless they are asked for."""

import multiprocessing
import sys
from typing import Any

import pytest
import torch

import manifold_shap as ms
from manifold_shap import _progress
from manifold_shap._progress import progress_bar
from manifold_shap.training import runner


def leave_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no test were running, on a terminal."""
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.delitem(sys.modules, "ipykernel.zmqshell", raising=False)


def test_bars_appear_where_a_person_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    def shown() -> bool:
        bar = progress_bar(None, 1)
        return not bar.disable and bar.mininterval < 1

    assert not shown()
    leave_the_test(monkeypatch)
    assert shown()
    with monkeypatch.context() as of_a_worker:
        of_a_worker.setattr(multiprocessing, "parent_process", lambda: object())
        assert not shown()
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    # Else a line a minute is written.
    assert (progress_bar(None, 1).disable, progress_bar(None, 1).mininterval) == (False, 60)
    monkeypatch.setitem(sys.modules, "ipykernel.zmqshell", sys)
    assert shown()
    # Who asks is heard.
    assert not progress_bar(True, 1).disable
    assert progress_bar(False, 1).disable


def test_trainings_show_a_bar_by_the_same_rule(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    leave_the_test(monkeypatch)
    monkeypatch.setattr(_progress, "_DELAY", 0)
    trainer: dict[str, Any] = {"accelerator": "cpu", "limit_train_batches": 2}
    few: dict[str, Any] = {"max_epochs": 1, "trainer": trainer}
    x = torch.randn(20, 2, generator=torch.Generator().manual_seed(0))
    ms.fit_surrogate(lambda x: x.softmax(-1), x, hidden=[4], **few)
    assert "surrogate" in capsys.readouterr().err
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    ms.fit_surrogate(lambda x: x.softmax(-1), x, hidden=[4], **few)
    assert "surrogate" not in capsys.readouterr().err  # It took no minute.
    monkeypatch.setattr(runner, "_LONG", 0)
    trainer["limit_train_batches"] = 6
    ms.fit_surrogate(lambda x: x.softmax(-1), x, hidden=[4], **few)
    assert "Training the surrogate: 6 steps at most, about 0 s" in capsys.readouterr().err
