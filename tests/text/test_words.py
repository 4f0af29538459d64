"""Words of another tokenizer, by the number of the word of each token."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import manifold_shap as ms
from manifold_shap.segmentation import check_labels


@pytest.mark.parametrize(
    ("words", "labels"),
    [
        ([None, 0, 0, 1, None, None], [0, 0, 0, 1, 1, -1]),
        ([0, 2, 2, 7, None, None], [0, 1, 1, 2, 2, -1]),
        # Two texts of one word each, whose numbers begin anew.
        ([None, 0, None, 0, None, None], [0, 0, 0, 1, 1, -1]),
        ([None] * 6, [0, 0, 0, 0, 0, -1]),
    ],
)
def test_tokens_of_no_word_belong_to_the_one_before(
    words: list[int | None], labels: list[int]
) -> None:
    x = torch.tensor([[101.0, 7.0, 8.0, 9.0, 102.0, 3.0]])
    assert ms.text.word_maps(x, [words], padding=3)(x).tolist() == [labels]


@given(st.lists(st.lists(st.integers(-1, 2), min_size=5, max_size=5), min_size=1, max_size=4))
@settings(deadline=None, max_examples=40)
def test_words_have_numbers_without_a_gap(words: list[list[int]]) -> None:
    x = torch.arange(1.0, 1 + 5 * len(words)).reshape(-1, 5)
    x[:, 4] = 0
    labels = ms.text.word_maps(x, words)(x)
    assert (labels[:, 4] == -1).all()
    assert (check_labels(labels) >= 1).all()
    for row, own in zip(labels[:, :4].tolist(), words, strict=True):
        for k in range(3):
            both = own[k] >= 0 and own[k + 1] >= 0
            assert not both or (row[k] == row[k + 1]) == (own[k] == own[k + 1])


@pytest.mark.usefixtures("any_type")
def test_words_for_other_tokens_are_refused() -> None:
    with pytest.raises(ValueError, match=r"shape \(1, 3\), but got 1 rows of lengths \[2\]"):
        ms.text.word_maps(torch.ones(1, 3), [[0, 1]])
    with pytest.raises(ValueError, match="row 1 is the same as an earlier"):
        ms.text.word_maps(torch.ones(2, 2), [[0, 0], [0, 1]])


def test_groups_of_tokens_are_named_for_what_they_are() -> None:
    vocabulary = ms.text.Vocabulary.fit(["Good film. See it!"])
    x = vocabulary.encode(["Good film. See it!"])
    value = ms.as_value_function(
        lambda x, mask: mask.sum(-1, True).float(), x, ms.Players.tokens(x.shape[1])
    )
    groups = vocabulary.words, vocabulary.sentences, ms.text.word_maps(x, [[0, 0, 0, 1, 1, 1]])
    found = [value.grouped(each, 2).players.names[1] for each in groups]
    assert found == ["word 2", "sentence 2", "word 2"]
