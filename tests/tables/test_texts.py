"""Models of texts: words as they are written are players, and the model gets the texts."""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import example, given
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
@example([" “Go!” - he? ran. ", "3.5 ... so!\n\n?! "])
def test_texts_come_back_letter_by_letter(texts: list[str]) -> None:
    for parts in ("words", "sentences"):
        words = Texts.fit(texts, parts)
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
    assert repr(explanation).splitlines()[4] == "base: of an empty text"
    words = explanation.words()
    assert words.index[:2].tolist() == ["good", "bad"]
    means = {"good": 8 / 3, "bad": -1.0, "film": 0.0, "unseen": 0.0}
    assert words["mean"].to_dict() == pytest.approx(means)
    assert words["count"].to_dict() == {"good": 3, "bad": 1, "film": 1, "unseen": 1}
    # Of both texts, whose deviations from the mean sum to -1 / 3 and to 1 / 3.
    assert words.loc["good", "standard_error"] == pytest.approx((2 * 2 / 9) ** 0.5 / 3)
    assert words["standard_error"].isna().to_dict() == {k: k != "good" for k in means}
    assert words.columns.name == "model output"


def test_what_rounding_leaves_of_a_word_is_zero(explainer: ms.Explainer) -> None:
    found = explainer(["good film", "bad film"])
    phi = found.phi.clone()
    phi[:, 1] = torch.tensor([-4.9e-17, 1e-17]).to(phi)[:, None]
    noisy = replace(found, phi=phi)
    assert noisy.words().loc["film"].tolist() == [0.0, 0.0, 2.0]
    assert 'title="0.00">film' in noisy.plot.text(0).html


def test_an_explainer_of_texts_is_saved(explainer: ms.Explainer, tmp_path: Path) -> None:
    ms.save(explainer, tmp_path / "texts")
    again = ms.load(tmp_path / "texts", worth)
    torch.testing.assert_close(again(TEXTS[:2]).phi, explainer(TEXTS[:2]).phi, equal_nan=True)


def test_deletion_is_measured_by_few_rows_of_the_model_and_learns_nothing() -> None:
    asked = 0

    def counted(texts: list[str]) -> Any:
        nonlocal asked
        asked += len(texts)
        return worth(texts)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = ms.Explainer(counted, TEXTS * 20, returns="values")
    # An eighth of 2,048 pairs, by 16 draws of words and by deletion, and all texts for each fit.
    assert asked < 3 * 256 * 17
    assert "nothing is fitted" in repr(made.quality)
    with pytest.raises(ValueError, match="halves=0 of 'deletion' but got 4: nothing is learned"):
        made(TEXTS[:2], halves=4)


def test_a_network_sees_new_words_as_one() -> None:
    words = Texts.fit(TEXTS)
    new = words.encode(words.rows(["never seen words"]))
    assert new[0, 0] == new[0, 1] == new[0, 2] != new.new_zeros(())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"at least one word but text 1 \(label 'b'\) is ''; .* `texts\[texts.notna\(\) &"),
        (None, r"texts alone but text 1 \(label 'b'\) is None; leave it out"),
        (
            "one two three four five six",
            r"at most 4 words, .* text 1 \(label 'b'\) has 6; .*split\(\)\[:4\]\)`,",
        ),
    ],
)
def test_a_text_that_fits_no_row_is_named(
    text: str | None, message: str, explainer: ms.Explainer
) -> None:
    texts = pd.Series([TEXTS[0], text], ["a", "b"], dtype=object)
    with pytest.raises((TypeError, ValueError), match=message):
        explainer(texts)
    with pytest.raises((TypeError, ValueError), match=r"text 0 (is|has) .* (`\[text for|cut it)"):
        explainer([text, TEXTS[0]])


def test_sentences_are_players_as_groups_of_words_are(
    explainer: ms.Explainer, tmp_path: Path
) -> None:
    texts = ["“Good film.” So\ngood! 3.5 bad", "... bad"] * 12
    with pytest.warns(UserWarning, match="'deletion' .* than words of other texts .*'high'"):
        of_sentences = ms.Explainer(worth, texts, returns="values", players="sentences")
    found = of_sentences(texts[:2])
    assert found.data is not None
    assert found.data.iloc[0].tolist() == ["“Good film.” ", "So\ngood! ", "3.5 bad"]
    assert found.data.iloc[1].dropna().tolist() == ["... bad"]
    assert "sentence 2 = So good!: 0.00" in repr(found).splitlines()[2]
    assert found.words().index.name == "sentence"
    words = Texts.fit(texts)
    x = words.rows(texts[:2])
    value = ms.imputed_value(
        ms.as_model(worth, x, returns="values", table=words),
        ms.imputers.DeletionImputer(words.players), "identity",
    )  # fmt: skip
    labels = torch.tensor([[0, 0, 1, 1, 2, 2], [0, 0, -1, -1, -1, -1]])
    grouped = value.grouped(ms.label_maps(x, labels), 3)
    of_groups = ms.exact_shapley(grouped, x)
    assert torch.allclose(of_groups.phi, found.phi, equal_nan=True)
    pd.testing.assert_frame_equal(of_groups.data.set_axis(found.data.columns, axis=1), found.data)
    assert "part 2 = So good!: 0.00" in repr(of_groups)
    pd.testing.assert_frame_equal(of_groups.words().rename_axis("sentence"), found.words())
    ms.save(of_sentences, tmp_path)
    assert torch.allclose(ms.load(tmp_path, worth)(texts[:2]).phi, found.phi, equal_nan=True)
    with pytest.raises(ValueError, match="those of a `Vocabulary`, which has other numbers"):
        explainer.value.grouped(ms.text.Vocabulary.fit(texts).sentences, 3)


@pytest.mark.parametrize(
    ("rows", "settings", "message"),
    [
        (TEXTS, {"candidates": ["gaussian"]}, "deletion.*gaussian"),
        ([None, *TEXTS], {}, "texts alone but text 0 is None"),
        ("one text", {}, r"list of texts but got 'one text'; one text is `\[text\]`"),
        (
            TEXTS,
            {"players": {"first": ["word 1"]}},
            r"words., .sentences.\] but .*label_maps",
        ),
        (TEXTS, {"left_out": ["a"]}, r"`left_out` for columns of a frame .* \['a'\] for texts"),
        ({"ids": torch.ones(30, 2)}, {"left_out": ["ids 1"]}, r"\['ids 1'\] for tensors; leave"),
        ({"ids": torch.ones(30, 2)}, {"players": "words"}, "`players` by name, .* 'words'"),
        (pd.DataFrame({"text": TEXTS}), {}, r"one column 'text' holds texts; pass `frame\['text'"),
    ],
)
def test_settings_of_other_rows_are_refused(rows: Any, settings: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        ms.Explainer(worth, rows, returns="values", **settings)
