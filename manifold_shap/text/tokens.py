"""Splits texts into tokens: words, numbers and punctuation marks."""

import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from typing import Any

# One combining mark stands for all: `re` has no class of them, and does not count them to words.
_COMBINING = "\u0300"
# They join letters of Hindi and Persian, and pictures, to the next.
_JOINERS = "\u200c\u200d"
# Words with their apostrophes and hyphens, numbers with their points, and single other marks.
_TOKEN = re.compile(
    r"\d+(?:[.,:]\d+)*M*|\w[\wM]*(?:['’-]\w[\wM]*)*|[^\w\s]M*".replace("M", _COMBINING)
)
# Marks that end a sentence.
_ENDS = frozenset(".!?…。！？")


def tokens_of(text: str) -> list[str]:
    """The words, numbers and punctuation marks of a text in Unicode's form NFC, in their order.

    >>> tokens_of("It didn't cost $3.50, did it?")
    ['It', "didn't", 'cost', '$', '3.50', ',', 'did', 'it', '?']
    """
    text = normalized(text)
    return [text[slice(*found.span())] for found in _TOKEN.finditer(_with_one_mark(text))]


def normalized(text: str) -> str:
    """A text in Unicode's form NFC: the same letters are the same characters.

    >>> len("cafe\\u0301"), len(normalized("cafe\\u0301"))
    (5, 4)
    """
    return unicodedata.normalize("NFC", text)


def is_word(token: str) -> bool:
    """Whether a token is a word or a number, and no punctuation mark.

    >>> is_word("it"), is_word("?")
    (True, False)
    """
    bare = _with_one_mark(token).rstrip(_COMBINING)
    return bare[:1] == "_" or bare[:1].isalnum() or len(bare) > 1


def ends_sentence(token: str) -> bool:
    """Whether a token is a mark that ends a sentence.

    >>> ends_sentence("?"), ends_sentence(",")
    (True, False)
    """
    return token in _ENDS


def check_texts(texts: Any, name: str = "texts") -> list[str]:
    """Texts as a list of at least one; TypeError where they are none, or a single one."""
    several = isinstance(texts, Iterable) and not isinstance(texts, str | bytes)
    found = list(texts) if several else []
    odd = [text for text in found if not isinstance(text, str)]
    if odd or not found:
        raise TypeError(
            f"Expected `{name}` to be a list of texts but got {(odd or [texts])[0]!r:.100}; one "
            "text is `[text]`, and a missing one ''."
        )
    return found


def _with_one_mark(text: str) -> str:
    """A text of the same length, in which one combining mark stands for all."""
    return text if text.isascii() else "".join(map(_stand_in, text))


@cache
def _stand_in(character: str) -> str:
    combines = character in _JOINERS or unicodedata.category(character).startswith("M")
    return _COMBINING if combines else character
