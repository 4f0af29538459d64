"""The script of all GPU figures: what it says without a GPU, and its parts on what there is."""

import copy

import pytest
import torch

from benchmarks import gpu, reproduce
from benchmarks.speed import accelerator
from tests.benchmarks.conftest import Run
from tests.devices.pretended import PretendedCuda
from tests.examples import surrogate


def test_without_a_gpu_it_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu.main([]) == 0
    assert "No CUDA device here: nothing was measured." in capsys.readouterr().out


def test_tests_are_counted_by_outcome() -> None:
    found = gpu.counted(["tests/test_random.py", "-m", "not gpu", "-k", "parts or fold"])
    assert found.keys() == {"passed"}


def test_all_experiments_take_their_settings() -> None:
    for name, words in gpu.EXPERIMENTS.items():
        settings = dict(word.split("=") for word in words)
        assert reproduce.experiment(name).chosen(False, settings)


@pytest.mark.usefixtures("short_trainings")
def test_the_experiment_in_small_on_the_cpu(run: Run) -> None:
    found = run("speed/accelerator", devices=["cpu"], networks=["mlp"])
    assert found["digits mlp"]["cpu"]["imputed, 4 draws, values/s"] > 0


def test_rates_are_of_the_device() -> None:
    value, x, *_ = surrogate()
    cuda = PretendedCuda()
    with cuda():
        moved = copy.deepcopy(value).to("cuda")
        before = cuda.operations
        assert accelerator._rate(moved, x, "cpu", permutations=4, repeats=1) > 0
        assert cuda.operations > before
