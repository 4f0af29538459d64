"""Texts as rows: round trips, padding, unknown tokens, words and sentences."""

import unicodedata
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import manifold_shap as ms
from manifold_shap.segmentation import check_labels
from manifold_shap.text.vocabulary import is_word, tokens_of

TEXTS = ["A good film.", "“It's bad!” he said... Don't go? 3.5 stars", "good, good"]
texts = st.lists(st.text("ab1 .!?,'\n\"é-", max_size=30), min_size=1, max_size=5)


@given(texts)
@settings(deadline=None, max_examples=30)
def test_what_is_encoded_is_decoded(some: list[str]) -> None:
    if not any(map(tokens_of, some)):
        with pytest.raises(TypeError, match="list of texts"):
            ms.text.Vocabulary.fit(some)
        return
    vocabulary = ms.text.Vocabulary.fit(some, lowercase=False)
    rows = vocabulary.encode(some)
    assert rows.dtype == torch.int64
    assert vocabulary.decode(rows) == [tokens_of(text) for text in some]
    wide = vocabulary.encode(some, rows.shape[1] + 3)
    assert torch.equal(wide[:, : rows.shape[1]], rows)
    assert (wide[:, rows.shape[1] :] == 0).all()
    # What is owned by tokens is what belongs to words, and to sentences.
    inside = ms.Players.tokens(wide.shape[1]).owners(wide) >= 0
    full = wide[inside.any(1)]
    for labels in (vocabulary.words, vocabulary.sentences):
        assert torch.equal(labels(wide) >= 0, inside)
        found = labels(full)
        check_labels(found)
        steps = found.diff()[found[:, 1:] >= 0]
        assert set(steps.tolist()) <= {0, 1}
    assert (vocabulary.sentences(wide) <= vocabulary.words(wide)).all()


def by_hand(text: str, groups: str) -> list[str]:
    """The tokens of each group of a text, joined."""
    vocabulary = ms.text.Vocabulary.fit([text])
    rows = vocabulary.encode([text])
    labels = getattr(vocabulary, groups)(rows)[0].tolist()
    tokens = vocabulary.decode(rows)[0]
    return [
        " ".join(t for t, label in zip(tokens, labels, strict=True) if label == k)
        for k in range(max(labels) + 1)
    ]


def test_words_have_the_punctuation_behind_them_and_sentences_end_at_marks() -> None:
    assert by_hand(TEXTS[1], "words") == [
        "“ it's", "bad ! ”", "he", "said . . .", "don't", "go ?", "3.5", "stars",
    ]  # fmt: skip
    assert by_hand(TEXTS[1], "sentences") == [
        "“ it's bad ! ”", "he said . . .", "don't go ?", "3.5 stars",
    ]  # fmt: skip
    assert by_hand("... and?!", "sentences") == ["... and ? !".replace("...", ". . .")]
    assert by_hand("?!", "words") == ["? !"]


def test_the_most_frequent_tokens_are_known() -> None:
    vocabulary = ms.text.Vocabulary.fit(TEXTS, size=5)
    assert len(vocabulary) == 5
    assert vocabulary.tokens == ("<padding>", "<unknown>", ".", "good", "a")
    with pytest.warns(UserWarning, match=r"1 of 4 tokens \(25.0%\) are not in the vocabulary of 5"):
        rows = vocabulary.encode(["A GOOD movie."])
    assert vocabulary.decode(rows) == [["a", "good", "<unknown>", "."]]
    assert vocabulary.words(rows).tolist() == [[0, 1, 2, 2]]
    cased = ms.text.Vocabulary.fit(TEXTS, lowercase=False)
    assert {"A", "Don't"} <= set(cased.tokens)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("हिन्दी में, क्षत्रिय।", ["हिन्दी", "में", ",", "क्षत्रिय", "।"]),
        ("a cafe\u0301, na\u0131\u0308ve", ["a", "caf\xe9", ",", "na\u0131\u0308ve"]),
        ("İstanbul'da".lower(), ["i\u0307stanbul'da"]),
        ("می\u200cخواهم", ["می\u200cخواهم"]),
        # Marks of a picture or of a number do not begin the next word.
        ("❤\ufe0fgood 1\ufe0f\u20e3", ["❤\ufe0f", "good", "1\ufe0f\u20e3"]),
    ],
)
def test_words_keep_their_combining_marks(text: str, tokens: list[str]) -> None:
    assert tokens_of(text) == tokens
    assert [is_word(token) for token in tokens] == [token[0].isalnum() for token in tokens]


@given(st.text(st.sampled_from("e\u0301é कि\u0903\u200d.5İ❤\ufe0f'\n"), max_size=20))
@settings(deadline=None, max_examples=40)
def test_tokens_are_all_of_a_text_and_stay_apart(text: str) -> None:
    tokens = tokens_of(text)
    assert "".join(tokens) == "".join(unicodedata.normalize("NFC", text).split())
    assert tokens_of(" ".join(tokens)) == tokens


def test_both_forms_of_a_letter_are_one_token() -> None:
    vocabulary = ms.text.Vocabulary(["caf\xe9", "nai\u0308ve"])
    assert vocabulary.encode(["cafe\u0301 CAF\xc9 na\xefve"]).tolist() == [[2, 2, 3]]
    with pytest.raises(ValueError, match="'caf\xe9'"):
        ms.text.Vocabulary(["caf\xe9", "cafe\u0301"])


def test_texts_of_no_one_and_many_tokens() -> None:
    long = "good " * 10_000
    vocabulary = ms.text.Vocabulary.fit(TEXTS)
    with pytest.raises(ValueError, match="`length` = 100 tokens but text 2 has 10000, one of 1"):
        vocabulary.encode(["", "good", long], length=100)
    rows = vocabulary.encode(["", "good", long], length=100, truncate=True)
    assert (rows > 0).sum(1).tolist() == [0, 1, 100]
    assert vocabulary.decode(rows)[:2] == [[], ["good"]]
    assert vocabulary.encode([long]).shape == (1, 10_000)
    assert vocabulary.encode([""]).tolist() == [[0]]
    assert vocabulary.words(rows)[0].unique().tolist() == [-1]


def test_a_vocabulary_is_kept_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    vocabulary, path = ms.text.Vocabulary.fit(TEXTS, lowercase=False), tmp_path / "vocabulary.json"
    vocabulary.save("~/vocabulary.json")
    loaded = ms.text.Vocabulary.load("~/vocabulary.json")
    assert (loaded.tokens, loaded.lowercase) == (vocabulary.tokens, False)
    assert torch.equal(
        loaded.sentences(loaded.encode(TEXTS)), vocabulary.sentences(loaded.encode(TEXTS))
    )
    whole = path.read_text(encoding="utf-8")
    for broken in (whole[:-9], whole.replace("tokens", "t")):
        path.write_text(broken, encoding="utf-8")
        with pytest.raises((ValueError, KeyError)):
            ms.text.Vocabulary.load(path)


VOCABULARY = ms.text.Vocabulary(["good", "bad"])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: ms.text.Vocabulary.fit("good"),
            "`texts` to be a list of texts but got 'good'; one text",
        ),
        (lambda: ms.text.Vocabulary.fit([]), r"list of texts but got \[\]; .* at least one"),
        (
            lambda: ms.text.Vocabulary.fit(["a", None]),
            r"texts alone but text 1 is None; leave it out",
        ),
        (lambda: ms.text.Vocabulary(["a", "a"]), r"distinct tokens but got \['a'\]"),
        (lambda: VOCABULARY.decode([[2.0, 4.0]]), r"from 0 to 3 .* got \[4\.0\]"),
        (lambda: VOCABULARY.words([[2.0], [0.5]]), r"got \[0\.5\]"),
        (lambda: VOCABULARY.words([2.0]), r"in shape \(1,\)"),
    ],
)
@pytest.mark.usefixtures("any_type")
def test_texts_and_rows_that_do_not_fit(make, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        make()
