"""Columns of texts: their tokens, and cells that are no texts."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from manifold_shap.data import Data, load
from manifold_shap.text import Vocabulary

pytestmark = pytest.mark.filterwarnings("ignore:.* are not in the vocabulary")

GOOD, BAD = ("good", "lovely", "fine"), ("bad", "dull", "poor")


def reviews(path: Path, count: int = 40) -> Path:
    """Sentences whose label is told by one word."""
    texts = []
    for k in range(count):
        word = (GOOD if k % 2 else BAD)[k % 3]
        more = "See it!" if k % 4 == 1 else "It ends."
        texts.append(f"A {word} film number {k % 5}. {more * (k % 3)}")
    labels = ["good" if k % 2 else "bad" for k in range(count)]
    pd.DataFrame({"id": range(count), "text": texts, "label": labels}).to_csv(path, index=False)
    return path


def read(path: Path, **settings: Any) -> Data:
    return load("text", path=str(path), **settings)


def vocabulary_of(data: Data) -> Vocabulary:
    assert data.vocabulary is not None
    return data.vocabulary


def test_rows_are_the_tokens_of_their_texts(tmp_path: Path) -> None:
    path = reviews(tmp_path / "reviews.csv")
    data = read(path)
    frame, vocabulary = pd.read_csv(path), vocabulary_of(data)
    assert (data.name, data.classes, data.players.padding) == ("reviews", ("bad", "good"), 0)
    rows, _ = data.find("instances", list(range(40)), "test")
    said = [" ".join(tokens) for tokens in vocabulary.decode(rows)]
    for text, tokens in zip(frame["text"], said, strict=True):
        assert tokens.replace(" ", "") == text.lower().replace(" ", "")
    known = torch.cat((data.x_train, data.x_validation, data.x_test))
    assert known.max() < len(vocabulary)
    assert set(data.x_train.unique().tolist()) >= set(range(2, len(vocabulary)))


def test_long_texts_are_cut_and_rare_words_are_unknown(tmp_path: Path) -> None:
    path = reviews(tmp_path / "reviews.csv")
    with pytest.warns(UserWarning, match=r"26 of 40 texts are cut off after 7 tokens"):
        data = read(path, length=7, vocabulary=8)
    assert data.x_train.shape[1] == 7
    assert len(vocabulary_of(data)) == 8
    assert (data.x_train == 1).any()


def test_a_vocabulary_may_be_given(tmp_path: Path) -> None:
    path = reviews(tmp_path / "reviews.csv")
    own = Vocabulary(["film", "good", "bad"])
    own.save(tmp_path / "mine.json")
    with pytest.warns(UserWarning, match="not in the vocabulary of 5"):
        data = read(path, vocabulary=str(tmp_path / "mine.json"), target=None)
    assert vocabulary_of(data).tokens == own.tokens


def test_cells_without_content_are_named(tmp_path: Path) -> None:
    path = reviews(tmp_path / "reviews.csv")
    frame = pd.read_csv(path)
    for column, cells, error in (
        ("text", ["", "  "], r"a text in every row .* 2 of 40 have none: rows \[3, 7\]"),
        ("label", [None, ""], r"a label in every row .* 2 of 40 have none: rows \[3, 7\]"),
    ):
        changed = frame.copy()
        changed.loc[[3, 7], column] = cells
        changed.to_csv(path, index=False)
        with pytest.raises(ValueError, match=error):
            read(path)
