"""The script of all GPU figures: what it says without a GPU, and its parts on what there is."""

import pytest
import torch

from benchmarks import gpu, reproduce


def test_without_a_gpu_it_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu.main([]) == 0
    assert "No CUDA device here: nothing was measured." in capsys.readouterr().out


def test_all_experiments_take_their_settings() -> None:
    for name, words in gpu.EXPERIMENTS.items():
        settings = dict(word.split("=") for word in words)
        assert reproduce.experiment(name).chosen(False, settings)
