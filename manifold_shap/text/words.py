"""Words of texts that another tokenizer has split into tokens."""

from collections.abc import Sequence
from typing import Any

import torch

from manifold_shap._checks import check_rows, to_tensor
from manifold_shap.players import Players
from manifold_shap.segmentation import LabelMaps, label_maps


def word_maps(x: Any, words: Sequence[Sequence[int | None]], padding: int | float = 0) -> LabelMaps:
    """Words as groups of the tokens of another tokenizer, which tells the word of each token.

    With one of the package `transformers`, `words` is `[encoding.word_ids(k) for k in
    range(rows)]`. A token of no word, such as one that stands for the beginning of a text, belongs
    to the word before it; at the beginning, to the first.

        >>> x = torch.tensor([[101.0, 7.0, 8.0, 9.0, 102.0, 0.0]])
        >>> maps = word_maps(x, [[None, 0, 0, 1, None, None]])
        >>> maps(x)
        tensor([[ 0,  0,  0,  1,  1, -1]])

    `value.grouped(maps, count)` then has words as players, for the rows `x`.

    Args:
        x: token ids `[rows, length]`, as the value function sees them.
        words: for each row the number of the word of each token, None or -1 for a token of no word.
            Numbers may have gaps, and begin anew, as where a row consists of two texts: a word ends
            where they change.
        padding: the token id that rows are padded by.

    Raises:
        TypeError: `x` or `words` holds no numbers.
        ValueError: another number of words than of tokens; the same row with other words; a row
            that is padding alone, or has it before a token.
    """
    rows = to_tensor(x)
    if rows.ndim != 2 or [len(own) for own in words] != [rows.shape[1]] * len(rows):
        raise ValueError(
            f"Expected `words` for each token of `x`, of shape {tuple(rows.shape)}, but got "
            f"{len(words)} rows of lengths {sorted({len(own) for own in words})[:10]}."
        )
    given = [[-1 if word is None else word for word in own] for own in words]
    number = torch.as_tensor(given, device=rows.device)
    known = number >= 0
    # A token of no word is in the one before it, and the next begins a new one.
    begins = known[:, 1:] & (number[:, 1:] != number[:, :-1]) & known.cumsum(1)[:, :-1].bool()
    labels = torch.cat((torch.zeros_like(number[:, :1]), begins.cumsum(1)), dim=1)
    tokens = Players.tokens(rows.shape[1], padding)
    inside = tokens.owners(check_rows(rows, tokens)) >= 0
    return label_maps(rows, labels.where(inside, -1))
