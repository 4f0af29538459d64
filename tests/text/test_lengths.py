"""Texts of no token, of one and of ten thousand, and tokens that nobody knows, from text to phi."""

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

import manifold_shap as ms

LONG = 10_000
VOCABULARY = ms.text.Vocabulary.fit(["a good film .", "a bad film ."])
GOOD, BAD = VOCABULARY.encode(["good bad"])[0].tolist()
FEW: dict[str, Any] = {
    "network": "transformer",
    "hidden": [32],
    "max_epochs": 1,
    "batch_size": 1,
    "progress": False,
    "trainer": {"accelerator": "cpu", "limit_train_batches": 1},
}


def model(x: Tensor) -> Tensor:
    assert not x.is_floating_point()
    return torch.stack(((x == GOOD).sum(1), (x == BAD).sum(1)), 1).div(4.0).softmax(-1)


def rows(lengths: list[int], width: int) -> Tensor:
    x = torch.zeros(len(lengths), width, dtype=torch.int64)
    for k, length in enumerate(lengths):
        x[k, :length] = torch.tensor([GOOD, BAD])[torch.arange(length) * (k + 1) % 2]
    return x


@pytest.fixture(scope="module")
def value() -> ms.ValueFunction:
    x = rows([1, 2, 3, 4] * 5, 4)
    return ms.fit_surrogate(model, x, players=ms.Players.tokens(4), **FEW)


@pytest.mark.parametrize("length", [60, pytest.param(LONG, marks=pytest.mark.slow)])
def test_many_tokens_are_learned_and_explained_in_groups(length: int) -> None:
    x = rows([1, 50, length, 20], length)
    players = ms.Players.tokens(length)
    learned = ms.fit_surrogate(model, x, x_validation=x[:2], players=players, **FEW)
    with pytest.raises(ValueError, match=rf"those of 16 players, .* of {length} players; use"):
        ms.exact_shapley(learned, x[2:3])
    halves = torch.arange(length) // (length // 2)
    for made in (learned, ms.imputed_value(model, ms.imputers.PaddingImputer(players))):
        grouped = made.grouped(ms.label_maps(x[2:3], halves[None]), 2)
        assert ms.exact_shapley(grouped, x[2:3]).efficiency_gap < 1e-5
    # A short text in a wide row costs what it has players.
    short = ms.permutation_shapley(made, x[:2], permutations=2, progress=False)
    assert short.counts.tolist() == [1, 50]
    assert short.efficiency_gap < 1e-5


def test_ids_of_tokens_have_no_distance() -> None:
    x = rows([3, 4] * 60, 4)
    last = torch.tensor([[GOOD, BAD, GOOD, 99]])
    players = ms.Players.tokens(4)
    made = ms.fit_surrogate(model, x, x_validation=last, players=players, **FEW)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*far outside")
        ms.exact_shapley(made, last)


def test_what_cannot_be_explained_is_named(value: ms.ValueFunction) -> None:
    none = r"padding \(0\) at the end .* row 1 of `x.*` is padding alone, one of 1; drop rows"
    with pytest.raises(ValueError, match=none):
        ms.exact_shapley(value, rows([2, 0], 4))
    with pytest.raises(ValueError, match="row 0 of `x` has it before others, one of 1"):
        ms.exact_shapley(value, rows([2], 4).flip(1))
    with pytest.raises(ValueError, match=r"\(rows, 4\) but got \(1, 6\); .*longer ones"):
        ms.exact_shapley(value, rows([6], 6))
    with pytest.raises(ValueError, match=r"Expected tokens from 0 to \d+, .* but got 0 to 99"):
        ms.exact_shapley(value, torch.tensor([[99, GOOD, 0, 0]]))


def test_a_training_on_texts_without_a_token_names_them() -> None:
    none = "row 0 of `x_train` is padding alone, one of 5; drop rows"
    with pytest.raises(ValueError, match=none):
        ms.fit_surrogate(model, rows([0, 3] * 5, 4), players=ms.Players.tokens(4), **FEW)
