"""Texts of one's own, a column of a table in a file."""

from collections.abc import Mapping
from typing import Any

import torch

from manifold_shap._messages import warn
from manifold_shap.data.base import DataSet
from manifold_shap.data.tables import check_filled, numbered, read_frame
from manifold_shap.players import Players
from manifold_shap.text import Vocabulary
from manifold_shap.text.vocabulary import tokens_of


def text(
    path: str,
    *,
    column: str = "text",
    target: str | None = "label",
    read: Mapping[str, Any] | None = None,
    length: int | None = None,
    vocabulary: int | str = 20_000,
) -> DataSet:
    """Texts of your own, a column of a table in a file, with a column of labels.

    A row is the numbers of a text's tokens, words, numbers and punctuation marks, and is called by
    its number in the file. The players are the tokens.

    Args:
        path: the file.
        column: of the texts.
        target: column of the labels; None where a model of one's own needs none.
        read: arguments of the reader of pandas, see `read_frame`.
        length: tokens after which texts are cut off; by default, and at most, as many as the
            longest training text has.
        vocabulary: most tokens that are told apart, the most frequent ones of the training texts;
            or a file that `Vocabulary.save` wrote, for a model of one's own.

    Raises:
        FileNotFoundError: there is no such file.
        KeyError, ValueError: pandas cannot read it, or it has no such column, empty texts, or rows
            without a label.
    """
    frame = read_frame(path, read)
    texts = frame[str(column)].fillna("").astype(str)
    tokens = [tokens_of(each) for each in texts]
    check_filled("a text", texts, [not own for own in tokens])
    labels, classes = ([], ()) if target is None else numbered(frame[str(target)])

    def encoded(train: torch.Tensor) -> DataSet:
        longest = max(len(tokens[row]) for row in train.tolist())
        most = min(length or longest, longest)
        if cut := sum(len(own) > most for own in tokens):
            warn(f"{cut} of {len(texts)} texts are cut off after {most} tokens.")
        if isinstance(vocabulary, str):
            known = Vocabulary.load(vocabulary)
        else:
            # Of what the training rows have: then every number occurs in one of them.
            known = Vocabulary.fit([" ".join(tokens[k][:most]) for k in train], vocabulary)
        return DataSet(
            known.encode(texts.tolist(), most, truncate=True).float(),
            labels,
            classes,
            kind="texts",
            players=Players.tokens(most),
            numbers=range(len(texts)),
            vocabulary=known,
        )

    return DataSet(encoded, labels, classes, rows=len(texts))
