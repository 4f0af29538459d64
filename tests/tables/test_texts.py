"""Models of texts: words as they are written are players, and the model gets the texts."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import manifold_shap as ms
from manifold_shap.tables import Texts

WORTH = {"good": 2.0, "Good": 3.0, "bad": -1.0}
TEXTS = ["Good  film, so good!", "a bad film", "good bad", "such a film"] * 6


def worth(texts: list[str]) -> np.ndarray:
    """The sum of what the words of each text are worth."""
    return np.array([sum(WORTH.get(word, 0.0) for word in text.split()) for text in texts])


@pytest.fixture(scope="module")
def explainer() -> ms.Explainer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # So few texts do not tell value functions apart.
        return ms.Explainer(worth, TEXTS, returns="values", progress=False)


@given(st.lists(st.text().filter(str.strip), min_size=1, max_size=4))
def test_texts_come_back_letter_by_letter(texts: list[str]) -> None:
    words = Texts.fit(texts)
    assert words.frame(words.rows(texts)) == texts


@pytest.mark.parametrize("kind", [list, pd.Series, np.array])
def test_a_word_is_worth_what_the_model_gives_it(kind: type, explainer: ms.Explainer) -> None:
    explanation = explainer(kind(["Good  film, good bad", "Good unseen"]))
    expected = [[3.0, 0.0, 2.0, -1.0], [3.0, 0.0, torch.nan, torch.nan]]
    torch.testing.assert_close(
        explanation.phi[..., 0], torch.tensor(expected).to(explanation.phi), equal_nan=True
    )
    assert torch.allclose(explanation.base + explanation.phi.nansum(1), explanation.prediction)
    assert explanation.data is not None
    assert explanation.data.iloc[1].dropna().tolist() == ["Good ", "unseen"]
    assert "Good " in explanation.plot.text().html


def test_an_explainer_of_texts_is_saved(explainer: ms.Explainer, tmp_path: Path) -> None:
    ms.save(explainer, tmp_path / "texts")
    again = ms.load(tmp_path / "texts", worth)
    torch.testing.assert_close(again(TEXTS[:2]).phi, explainer(TEXTS[:2]).phi, equal_nan=True)


def test_a_network_sees_new_words_as_one() -> None:
    words = Texts.fit(TEXTS)
    new = words.encode(words.rows(["never seen words"]))
    assert new[0, 0] == new[0, 1] == new[0, 2] != new.new_zeros(())


@pytest.mark.parametrize("text", ["", " ", "one two three four five six"])
def test_a_text_that_fits_no_row_is_named(text: str, explainer: ms.Explainer) -> None:
    with pytest.raises(ValueError, match="text 1 has"):
        explainer([TEXTS[0], text])


def test_names_of_candidates_are_those_of_texts() -> None:
    with pytest.raises(ValueError, match=r"deletion.*gaussian"):
        ms.Explainer(worth, TEXTS, returns="values", candidates=["gaussian"])
