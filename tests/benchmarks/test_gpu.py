"""The script of all GPU figures: what it says without a GPU, and its parts on what there is."""

from benchmarks import gpu, reproduce


def test_all_experiments_take_their_settings() -> None:
    for name, words in gpu.EXPERIMENTS.items():
        settings = dict(word.split("=") for word in words)
        assert reproduce.experiment(name).chosen(False, settings)
