"""Splits tokens into words, each with the player that owns it."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from jaxtyping import Int64
from torch import Tensor

# What tokenizers write for a space (of SentencePiece and of byte-level BPE) and for a line break.
_MARKS = {"▁": " ", "Ġ": " ", "Ċ": "\n"}
_SPACE = re.compile(r"[ \t\r\n]+")


class Word(NamedTuple):
    """Text without a break.

    Attributes:
        before: what parts it from the word before it: "", " ", or one or two line breaks.
        text: without spaces at its ends.
        player: that owns it; -1 where none does.
    """

    before: str
    text: str
    player: int


def check_tokens(tokens: Sequence[Sequence[str]], rows: int) -> None:
    """Raise unless there is a list for each row."""
    if isinstance(tokens, str) or len(tokens) != rows:
        raise ValueError(
            f"Expected `tokens` to hold a list for each of {rows} rows but got {len(tokens)}; for "
            "a single row give `[tokens]`, of a vocabulary `vocabulary.decode(explanation.x)`."
        )


def owners_of_tokens(
    tokens: Sequence[str], owners: Int64[Tensor, " *event"], row: int
) -> list[int]:
    """The player of each token of a row: one token for each position, or one for each player.

    Raises:
        TypeError: `tokens` are no list of text.
        ValueError: another number of them.
    """
    if isinstance(tokens, str) or not all(isinstance(token, str) for token in tokens):
        raise TypeError(
            f"Expected row {row} of `tokens` to be a list of text but got {tokens!r:.100}; for a "
            "single row give `[tokens]`."
        )
    players = int(owners.max()) + 1 if owners.numel() else 0
    counts = {"player": players}
    if owners.ndim == 1:
        owned = (owners >= 0).nonzero().flatten()
        counts = {"position": int(owned[-1]) + 1 if len(owned) else 0, **counts}
        if len(tokens) in (len(owners), counts["position"]):
            return owners[: len(tokens)].tolist()
    if len(tokens) == players:
        return list(range(players))
    expected = " or ".join(f"{count} (one for each {what})" for what, count in counts.items())
    raise ValueError(
        f"Expected row {row} of `tokens` to hold {expected} but got {len(tokens)}; give the tokens "
        "as the model reads them, special ones included."
    )


def words_of(tokens: Sequence[str], players: Sequence[int], separator: str | None) -> list[Word]:
    """Words of tokens, which may hold several; see `text` for the separator."""
    words: list[Word] = []
    waiting = ""
    for start, token, player in zip(_separators(tokens, separator), tokens, players, strict=True):
        waiting += start
        if separator is None:
            waiting, token = _unmarked(waiting, token, len(tokens) > 1)
        parts = _SPACE.split(token)
        gaps = [_break(gap) for gap in _SPACE.findall(token)]
        if not token.strip():
            # A space or a line break that is a token of its own has a value of its own.
            shown = "⏎" if "\n" in token else "·" if not token else "\N{NO-BREAK SPACE}"
            words.append(Word(_break(waiting), shown, player))
            waiting = "\n" if "\n" in token else ""
            continue
        for gap, part in zip(["", *gaps], parts, strict=True):
            waiting += gap
            if part:
                words.append(Word(_break(waiting), part, player))
                waiting = ""
    return words


def _separators(tokens: Sequence[str], separator: str | None) -> Iterator[str]:
    """What is written before each token besides what it says itself."""
    if separator is not None:
        yield from ["", *[separator] * (len(tokens) - 1)][: len(tokens)]
        return
    spaced = any(token[:1] in _MARKS or token != token.strip() for token in tokens)
    for place, token in enumerate(tokens):
        yield "" if spaced or place == 0 or _is_end(token) else " "


def _is_end(token: str) -> bool:
    """Whether it goes on where the token before it ends, as WordPiece marks it."""
    return len(token) > 2 and token.startswith("##")


def _unmarked(waiting: str, token: str, several: bool) -> tuple[str, str]:
    """What to write before a token, and the token without the marks of its tokenizer."""
    if _is_end(token) and several:
        return waiting, token[2:]
    rest = token.lstrip("".join(_MARKS))
    space = "".join(_MARKS[mark] for mark in token[: len(token) - len(rest)])
    return (waiting + space, rest) if rest else (waiting, space)


def _break(space: str) -> str:
    """A line break, at most two, where there is one, or else a space or nothing."""
    return "\n" * min(2, space.count("\n")) or (" " if space else "")


def runs(words: Sequence[Word]) -> Iterator[list[Word]]:
    """Neighbours of one player together, and words of no player one by one."""
    keys = (word.player if word.player >= 0 else -1 - k for k, word in enumerate(words))
    for _, run in groupby(zip(keys, words, strict=True), lambda each: each[0]):
        yield [word for _, word in run]
