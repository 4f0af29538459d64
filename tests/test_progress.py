"""Bars appear where a person looks, and nowhere else unless they are asked for."""

import multiprocessing
import os
import subprocess
import sys
from typing import Any

import pytest
import torch

import manifold_shap as ms
from manifold_shap import _progress
from manifold_shap._progress import progress_bar

pty, termios = map(pytest.importorskip, ("pty", "termios"))  # Not everywhere.

CODE = """
import sys
import torch
import manifold_shap as ms
from manifold_shap import _progress
_progress._DELAY = 0
work = lambda x, mask: x[:, None] * mask, torch.ones(2, 3)
ms.exact_shapley(*work, progress=False)
print("unasked:", file=sys.stderr)
ms.exact_shapley(*work)
"""


def leave_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no test were running, on a terminal."""
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.delitem(sys.modules, "ipykernel.zmqshell", raising=False)


def shown() -> bool:
    return not progress_bar(None, 1).disable


def test_a_person_looks_at_a_terminal_and_at_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_the_test(monkeypatch)
    assert shown()
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    assert not shown()
    monkeypatch.setitem(sys.modules, "ipykernel.zmqshell", sys)
    assert shown()


def test_nobody_looks_at_tests_and_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_the_test(monkeypatch)
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: object())
    assert not shown()
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: None)
    assert shown()
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "this")
    assert not shown()


@pytest.mark.parametrize("progress", [True, False])
def test_who_asks_is_heard(progress: bool) -> None:
    assert progress_bar(progress, 1).disable is not progress


@pytest.mark.parametrize("progress", ["no", 1])
@pytest.mark.usefixtures("any_type")
def test_a_word_is_no_answer(progress: Any) -> None:
    with pytest.raises(TypeError, match="Expected `progress` to be true or false but got"):
        progress_bar(progress, 1)


def on_a_terminal() -> str:
    """What a person sees while the code runs in a terminal."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    environment = {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"}
    done = subprocess.run([sys.executable, "-c", CODE], stderr=theirs, env=environment, check=True)
    os.close(theirs)
    seen = b""
    try:
        while part := os.read(ours, 4096):
            seen += part
    except OSError:  # Linux says so that the other end is closed.
        pass
    os.close(ours)
    assert done.returncode == 0
    return seen.decode()


def test_estimators_show_a_bar_on_a_terminal_and_write_none_into_a_pipe() -> None:
    refused, unasked = on_a_terminal().split("unasked:")
    assert refused == ""
    assert "exact: 100%" in unasked
    environment = {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"}
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, env=environment, check=True
    )
    assert done.stderr == b"unasked:\n"


def test_trainings_show_a_bar_by_the_same_rule(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    leave_the_test(monkeypatch)
    monkeypatch.setattr(_progress, "_DELAY", 0)
    few = {"max_epochs": 1, "trainer": {"accelerator": "cpu", "limit_train_batches": 2}}
    x = torch.randn(20, 2, generator=torch.Generator().manual_seed(0))
    ms.fit_surrogate(lambda x: x.softmax(-1), x, hidden=[4], **few)
    assert "surrogate" in capsys.readouterr().err
