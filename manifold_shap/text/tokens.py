"""Splits texts into tokens: words, numbers and punctuation marks."""

import re
from collections.abc import Iterable
from typing import Any

from manifold_shap._checks import all_at_once
from manifold_shap._messages import way_to_rows

# Words with their apostrophes and hyphens, numbers with their points, and single other marks.
_TOKEN = re.compile(r"\d+(?:[.,:]\d+)*|\w+(?:['’-]\w+)*|[^\w\s]")
# Marks that end a sentence.
_ENDS = frozenset(".!?…。！？")


def tokens_of(text: str) -> list[str]:
    """The words, numbers and punctuation marks of a text, in their order.

    >>> tokens_of("It didn't cost $3.50, did it?")
    ['It', "didn't", 'cost', '$', '3.50', ',', 'did', 'it', '?']
    """
    return _TOKEN.findall(text)


def is_word(token: str) -> bool:
    """Whether a token is a word or a number, and no punctuation mark.

    >>> is_word("it"), is_word("?")
    (True, False)
    """
    return token[:1] == "_" or token[:1].isalnum() or len(token) > 1


def ends_sentence(token: str) -> bool:
    """Whether a token is a mark that ends a sentence.

    >>> ends_sentence("?"), ends_sentence(",")
    (True, False)
    """
    return token in _ENDS


def check_texts(texts: Any, name: str = "texts") -> list[str]:
    """Texts as a list of at least one.

    Raises:
        TypeError: they are no texts, or a single one.
        ValueError: there is none.
    """
    if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
        way = way_to_rows(texts) if not isinstance(texts, str | bytes) else "one text is `[text]`"
        raise TypeError(
            f"Expected `{name}` to be a list of texts but got {type(texts).__name__}"
            f"{f'; {way}' if way else ''}."
        )
    found = list(texts)
    if not found:
        raise ValueError(f"Expected at least one text in `{name}` but got none.")
    all_at_once(lambda k: _check_text(f"{name}[{k}]", found[k]), range(len(found)))
    return found


def _check_text(name: str, text: Any) -> None:
    if not isinstance(text, str):
        raise TypeError(
            f"Expected `{name}` to be text but got {text!r:.100} ({type(text).__name__}); leave "
            "out what is missing, or give ''."
        )
