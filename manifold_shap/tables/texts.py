"""Numbers the words of texts, and gives the texts back letter by letter."""

import re
from collections.abc import Sequence
from threading import Lock
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap._arrays import is_frame
from manifold_shap._messages import check_choice
from manifold_shap._saved import saved
from manifold_shap.players import Players
from manifold_shap.tables.base import RowAdapter
from manifold_shap.text.vocabulary import check_texts, place_of, without_missing

# A part of a text has the spaces behind it, and the first those before it: a word what else stands
# at it, a sentence all up to a mark that ends it, and the quotes and brackets behind that.
_PARTS = {
    "words": re.compile(r"^\s+\S+\s*|\S+\s*"),
    "sentences": re.compile(
        r"\s*(?:[^\w\s]+\s+)*\S.*?(?:(?:(?<=[.!?…])|(?<=[.!?…][\"'”’»)\]]))\s+|\Z)", re.DOTALL
    ),
}
_PADDING, _UNKNOWN = 0, 1
# While one thread numbers new words, others wait.
_NUMBERING = Lock()


@saved
class Texts(RowAdapter):
    """Texts as rows of numbered words, or sentences, for a model that takes lists of texts.

        >>> texts = Texts.fit(["A good film,  really!", "Not good."])
        >>> x = texts.rows(["Not good.", "Really  good"])
        >>> x
        tensor([[6., 7., 0., 0.],
                [8., 9., 0., 0.]])
        >>> texts.frame(x)
        ['Not good.', 'Really  good']

    A word is what stands between spaces, as it is written: with capitals, with the punctuation at
    it, and with the spaces behind it. Words that training had none of get numbers when they are
    met; networks see them as one unknown word. All of this holds of sentences, too: one ends at a
    full stop, an exclamation or a question mark with a space behind it.

        >>> texts = Texts.fit(["A good film. See it!"], "sentences")
        >>> texts.explained(texts.rows(["See it! A good film."]), texts.players, None)[0]
          sentence 1    sentence 2
        0   See it!   A good film.

    Attributes:
        players: the first word, the second, ...; a text has as many of them as it has words.
        parts: "words" or "sentences".

    Args:
        words: those of training.
        length: the most words of a text.
        parts: as the attribute.
    """

    def __init__(self, words: Sequence[str], length: int, parts: str = "words") -> None:
        self.parts = parts
        self._number = {word: number for number, word in enumerate(words, _UNKNOWN + 1)}
        self._known = len(self.words)
        self.names = tuple(f"{parts[:-1]} {k}" for k in range(1, length + 1))
        self.players = Players(self.names, torch.arange(length), padding=_PADDING)

    @property
    def words(self) -> list[str]:
        """By number; the first two stand for the end of a text, and for unknown words."""
        return ["", "", *self._number]

    @classmethod
    def fit(cls, texts: Any, parts: Any = "words") -> "Texts":
        """Number the words of texts, of which the longest says how many words a text may have.

        Args:
            texts: a list, an array or a column of texts.
            parts: "words" or "sentences".

        Raises:
            TypeError: `texts` is no list of texts.
            ValueError: other parts.
        """
        other = (
            "others are `explainer.value.grouped(ms.label_maps(explainer.table.rows(texts), "
            "labels), count)`"
        )
        find = _PARTS[check_choice("players", parts, tuple(_PARTS), other)].findall
        lists = [find(text) for text in check_texts(texts)]
        words = dict.fromkeys(word for words in lists for word in words)
        return cls([*words], max(1, *map(len, lists)), parts)

    def rows(self, frame: Any) -> Float[Tensor, "rows words"]:
        """Numbers of the words of texts.

        Raises:
            TypeError: they are no texts.
            ValueError: a text without a word, or with more than those of training have.
        """
        if is_frame(frame):  # Of words, as in an explanation.
            frame = ["".join(filter(None, row)) for row in frame.to_numpy()]
        texts, most = check_texts(frame), len(self.names)
        lists = [_PARTS[self.parts].findall(text) for text in texts]
        for k, words in enumerate(lists):
            if not words:
                raise ValueError(
                    f"Expected texts of at least one word but {place_of(frame, k)} is "
                    f"{texts[k]!r:.100}; leave it out, by `{without_missing(frame)}`."
                )
            if len(words) > most:
                cut = f', by `" ".join(text.split()[:{most}])`,' if self.parts == "words" else ""
                raise ValueError(
                    f"Expected texts of at most {most} {self.parts}, as those of training have, "
                    f"but {place_of(frame, k)} has {len(words)}; cut it{cut} or learn "
                    "from longer ones."
                )
        number = self._number
        with _NUMBERING:
            found = [[number.setdefault(k, len(number) + 2) for k in words] for words in lists]
        padded = [[*own, *[_PADDING] * (most - len(own))] for own in found]
        return torch.tensor(padded, dtype=torch.float32)

    def frame(self, x: Float[Tensor, "rows words"]) -> list[str]:
        """The texts, letter by letter."""
        words = self.words
        return ["".join(map(words.__getitem__, row)) for row in x.long().tolist()]

    def check(self, x: Float[Tensor, "rows words"], name: str = "x") -> None:
        if bool(((x < 0) | (x >= len(self.words)) | (x != x.round())).any()):
            raise ValueError(
                f"Expected `{name}` to be texts or the numbers of their words, below "
                f"{len(self.words)}, but got others; pass the texts, or `texts.rows(texts)`."
            )

    def encode(self, x: Float[Tensor, "*batch words"]) -> Float[Tensor, "*batch words"]:
        return x.where(x < self._known, _UNKNOWN)

    def explained(
        self,
        x: Float[Tensor, "rows words"],
        players: Players,
        owners: Int64[Tensor, "rows words"] | None,
    ) -> tuple[Any, Players, Tensor | None]:
        """A frame of the words: a line for each text, None behind its end."""
        import pandas as pd

        words = self.words
        cells = [[words[k] or None for k in row] for row in x.long().tolist()]
        return pd.DataFrame(cells, columns=list(self.names), dtype=object), players, owners

    kind = "texts"

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        words = self.words[2:]
        own = {"words": words, "known": self._known, "length": len(self.names)}
        return {**own, "parts": self.parts}, {}

    @classmethod
    def restored(cls, settings: dict[str, Any], _: dict[str, Tensor], __: Any) -> "Texts":
        made = cls(settings["words"], settings["length"], settings["parts"])
        made._known = settings["known"]
        return made
