"""Turns texts into rows of token ids and back, and tells the words and sentences of these rows."""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor

from manifold_shap._arrays import row_labels
from manifold_shap._checks import check_distinct, check_rows, check_whole, to_tensor
from manifold_shap._messages import warn
from manifold_shap.io.files import write_whole
from manifold_shap.players import Players
from manifold_shap.segmentation import LabelMaps, label_maps

PADDING, UNKNOWN = 0, 1
_SPECIAL = ("<padding>", "<unknown>")
# The largest number up to which float32 has all whole numbers.
_MOST_TOKENS = 2**24
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


class Vocabulary:
    """The tokens that a model of texts knows, by their numbers.

    Tokens are words, numbers and punctuation marks, in Unicode's form NFC. Rows of their numbers
    are padded by 0 at the end, as `Players.tokens` has it, and a token that is not known is 1.

        >>> vocabulary = Vocabulary.fit(["A good film. See it!", "A bad film."])
        >>> rows = vocabulary.encode(["A good film.", "See it"])
        >>> rows
        tensor([[2, 5, 3, 4],
                [6, 7, 0, 0]])
        >>> vocabulary.decode(rows)
        [['a', 'good', 'film', '.'], ['see', 'it']]

    With a value function of a model of such rows, `value.grouped(vocabulary.words, count)` has
    words as players, and `value.grouped(vocabulary.sentences, count)` sentences.

    Attributes:
        tokens: by number; the first two stand for padding and for what is unknown.
        lowercase: whether texts are put into small letters first.

    Args:
        tokens: those that are known, which get the numbers from 2 on.
        lowercase: as the attribute.

    Raises:
        TypeError, ValueError: tokens that are no texts, that occur twice, or too many.
    """

    def __init__(self, tokens: Iterable[str], lowercase: bool = True) -> None:
        known = [normalized(token) for token in check_texts(tokens, "tokens")]
        check_distinct((*_SPECIAL, *known), "tokens")
        self.tokens = (*_SPECIAL, *known)
        check_whole("the number of tokens", len(self.tokens), most=_MOST_TOKENS)
        self.lowercase = lowercase
        self._number = {token: number for number, token in enumerate(self.tokens)}
        self._is_word = torch.tensor([False, True, *map(is_word, known)])
        self._ends = torch.tensor([False, False, *(token in _ENDS for token in known)])

    @classmethod
    def fit(cls, texts: Any, size: int = 20_000, lowercase: bool = True) -> "Vocabulary":
        """The most frequent tokens of some texts; of equally frequent ones, those that come first.

        Args:
            texts: a list, an array or a column of texts.
            size: the most numbers that there are, those of padding and of unknown tokens included:
                as many rows as an embedding needs.
            lowercase: see `Vocabulary`.

        Raises:
            TypeError: `texts` is no list of texts, or none of them has a token.
            ValueError: a size below 3.
        """
        size = check_whole("size", size, len(_SPECIAL) + 1, _MOST_TOKENS)
        found: Counter[str] = Counter()
        for text in check_texts(texts):
            found.update(tokens_of(text.lower() if lowercase else text))
        return cls([token for token, _ in found.most_common(size - len(_SPECIAL))], lowercase)

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self.tokens[2:7]))
        return f"Vocabulary({len(self)} tokens: {shown}{', ...' if len(self) > 7 else ''})"

    def encode(
        self, texts: Any, length: int | None = None, truncate: bool = False
    ) -> Int64[Tensor, "rows length"]:
        """Rows of the numbers of tokens, padded at the end, as an `nn.Embedding` takes them.

        A text without a token is a row of padding alone: models take it, but it has no players and
        cannot be explained.

        Args:
            texts: a list, an array or a column of texts.
            length: of a row, in tokens; by default that of the longest text.
            truncate: cut what is longer than `length`, instead of an error.

        Raises:
            TypeError: `texts` is no list of texts.
            ValueError: no text; a text longer than `length`.

        Warns:
            UserWarning: there are unknown tokens; it says which share of all they are.
        """
        lists = [tokens_of(t.lower() if self.lowercase else t) for t in check_texts(texts)]
        longest = max(map(len, lists))
        length = max(longest, 1) if length is None else check_whole("length", length)
        long = [k for k, tokens in enumerate(lists) if len(tokens) > length]
        if long and not truncate:
            raise ValueError(
                f"Expected texts of at most `length` = {length} tokens but text {long[0]} has "
                f"{len(lists[long[0]])}, one of {len(long)} that are longer; give a length up to "
                f"{longest}, or cut them by truncate=True."
            )
        known = [[self._number.get(token, UNKNOWN) for token in own[:length]] for own in lists]
        rows = torch.tensor([[*own, *[PADDING] * (length - len(own))] for own in known])
        unknown, every = int((rows == UNKNOWN).sum()), int((rows != PADDING).sum())
        if unknown:
            warn(
                f"{unknown} of {every} tokens ({unknown / every:.1%}) are not in the vocabulary of "
                f"{len(self)} and become {_SPECIAL[UNKNOWN]!r}; `Vocabulary.fit` may take a larger "
                "`size`, or texts more like these."
            )
        return rows

    def decode(self, rows: Any) -> list[list[str]]:
        """The tokens of each row, without its padding.

        Raises:
            TypeError, ValueError: rows of something else than the numbers of this vocabulary.
        """
        numbers = self._numbers(rows)
        lengths = Players.tokens(numbers.shape[1], PADDING).lengths(numbers).tolist()
        return [
            [self.tokens[number] for number in row[:length]]
            for row, length in zip(numbers.tolist(), lengths, strict=True)
        ]

    def words(self, rows: Any) -> Int64[Tensor, "rows length"]:
        """The number of the word that each token belongs to, -1 for padding.

        A punctuation mark belongs to the word before it; at the beginning of a row, to the first.

        >>> vocabulary = Vocabulary.fit(["Well, see it!"])
        >>> vocabulary.words(vocabulary.encode(["Well, see it!", "see"]))
        tensor([[ 0,  0,  1,  2,  2],
                [ 0, -1, -1, -1, -1]])

        Raises:
            TypeError, ValueError: as of `decode`.
        """
        numbers = self._numbers(rows)
        word = self._is_word.to(numbers.device)[numbers]
        return _without_padding(numbers, (word.cumsum(1) - 1).clamp(min=0))

    def sentences(self, rows: Any) -> Int64[Tensor, "rows length"]:
        """The number of the sentence that each token belongs to, -1 for padding.

        A sentence ends before the next word that follows a full stop, an exclamation or a question
        mark; one after an abbreviation counts as well.

        >>> vocabulary = Vocabulary.fit(["Good film. See it!"])
        >>> vocabulary.sentences(vocabulary.encode(["See it! Good film."]))
        tensor([[0, 0, 0, 1, 1, 1]])

        Raises:
            TypeError, ValueError: as of `decode`.
        """
        numbers = self._numbers(rows)
        word = self._is_word.to(numbers.device)[numbers]
        ended = self._ends.to(numbers.device)[numbers].cumsum(1)
        # How many marks came before the word before.
        last = torch.where(word, ended, -1).cummax(1).values
        before = torch.cat((torch.full_like(last[:, :1], -1), last[:, :-1]), dim=1)
        begins = word & (before >= 0) & (ended > before)
        return _without_padding(numbers, begins.cumsum(1))

    def save(self, path: str | Path) -> None:
        """Write the vocabulary to one file, as JSON.

        Raises:
            OSError: no space or no permission; what stood at `path` is left as it was.
        """
        plain = {"lowercase": self.lowercase, "tokens": self.tokens[2:]}
        text = json.dumps(plain, ensure_ascii=False)
        write_whole(path, lambda beside: beside.write_text(text, encoding="utf-8"))

    @classmethod
    def load(cls, path: str | Path) -> "Vocabulary":
        """The vocabulary that `save` wrote.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Vocabulary(["good", "bad"]).save(f"{folder}/vocabulary.json")
        ...     Vocabulary.load(f"{folder}/vocabulary.json")
        Vocabulary(4 tokens: 'good', 'bad')

        Raises:
            FileNotFoundError: no file is there.
            KeyError, ValueError: it is damaged, or something else.
        """
        plain = json.loads(Path(path).expanduser().read_text(encoding="utf-8"))
        return cls(plain["tokens"], plain["lowercase"])

    def _numbers(self, rows: Any) -> Int64[Tensor, "rows length"]:
        """Rows as whole numbers of tokens."""
        x = to_tensor(rows, "rows")
        wrong = x[(x != x.floor()) | (x < 0) | ~(x < len(self))]
        if x.ndim != 2 or len(wrong):
            raise ValueError(
                f"Expected `rows` of shape (rows, length), whole numbers from 0 to {len(self) - 1} "
                f"of this vocabulary, but got {wrong.tolist()[:3] or 'numbers'} in shape "
                f"{tuple(x.shape)}; give what its `encode` returned."
            )
        return x.long()


def _without_padding(
    numbers: Int64[Tensor, "rows length"], labels: Int64[Tensor, "rows length"]
) -> Int64[Tensor, "rows length"]:
    """Labels, and -1 for padding."""
    owners = Players.tokens(numbers.shape[1], PADDING).owners(numbers)
    return labels.where(owners >= 0, -1)


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
    maps = label_maps(rows, labels.where(inside, -1))
    maps.noun = "word"
    return maps


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


def check_texts(texts: Any, name: str = "texts") -> list[str]:
    """Texts as a list of at least one; TypeError where they are none, or a single one."""
    several = isinstance(texts, Iterable) and not isinstance(texts, str | bytes)
    found = list(texts) if several else []
    if not found:
        fix = "give at least one" if several else "one text is `[text]`"
        raise TypeError(f"Expected `{name}` to be a list of texts but got {texts!r:.100}; {fix}.")
    for k, text in enumerate(found):
        if not isinstance(text, str):
            raise TypeError(
                f"Expected `{name}` to hold texts alone but {place_of(texts, k)} is {text!r:.100}; "
                f"leave it out, by `{without_missing(texts)}`."
            )
    return found


def place_of(texts: Any, k: int) -> str:
    """How an error calls a text: by its position and, where there are labels, its label.

    >>> place_of(["good", None], 1)
    'text 1'
    """
    labels = row_labels(texts)
    return f"text {k}" if labels is None or labels[k] == k else f"text {k} (label {labels[k]!r})"


def without_missing(texts: Any) -> str:
    """What to write for these texts without those that are missing or have no word."""
    if hasattr(texts, "notna"):
        return 'texts[texts.notna() & (texts.str.strip() != "")]'
    return "[text for text in texts if isinstance(text, str) and text.strip()]"


def _with_one_mark(text: str) -> str:
    """A text of the same length, in which one combining mark stands for all."""
    return text if text.isascii() else "".join(map(_stand_in, text))


@cache
def _stand_in(character: str) -> str:
    combines = character in _JOINERS or unicodedata.category(character).startswith("M")
    return _COMBINING if combines else character
