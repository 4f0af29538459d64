"""Makes training, validation and test rows of a column of texts."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Unpack

import torch
from pandas.api.types import is_numeric_dtype
from torch import Tensor

from manifold_shap import plots
from manifold_shap._messages import warn
from manifold_shap.data import sources
from manifold_shap.data.base import Grouping, Settings, Table, TensorDataModule
from manifold_shap.data.reading import column_of, complete, numbered, read_frame
from manifold_shap.explanation import Explanation
from manifold_shap.players import Players
from manifold_shap.text import Vocabulary
from manifold_shap.text.tokens import tokens_of


class TextFile(TensorDataModule):
    """Texts of your own, a column of a table in a file, with a column of labels.

    A row is the numbers of a text's tokens, words, numbers and punctuation marks, and is called by
    its number in the file. The players are the tokens.

    Attributes:
        vocabulary: the tokens, those of the training texts, after `setup`.
    """

    name = "text"
    usual_batch_size = 64
    vocabulary: Vocabulary

    def __init__(
        self,
        *,
        path: str,
        column: str = "text",
        target: str | None = "label",
        read: Mapping[str, Any] | None = None,
        length: int | None = None,
        vocabulary: int | str = 20_000,
        **settings: Unpack[Settings],
    ) -> None:
        """As the base, and:

        Args:
            path: the file, from the working directory or from the places `root` stands for. Its
                name is the default of `name`.
            column: of the texts.
            target: column of the labels; None where a model of one's own needs none.
            read: arguments of the reader of pandas, see `read_frame`.
            length: tokens after which texts are cut off; by default, and at most, as many as the
                longest training text has.
            vocabulary: most tokens that are told apart, the most frequent ones of the training
                texts; or a file that `Vocabulary.save` wrote, for a model of one's own.
        """
        self.path, self.column, self.length = path, str(column), length
        self.target = None if target is None else str(target)
        self.pandas, self._tokens = dict(read or {}), vocabulary
        self.name = Path(self.path).stem
        super().__init__(**settings)

    def read(self) -> Table:
        """The texts.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: pandas cannot read it, or it has no such column, empty texts, or rows
                without a label.
        """
        frame = read_frame(sources.located(self.root, self.path), self.pandas)
        texts = complete(column_of(frame, self.column, self.path), "text", tokens_of)
        labels, classes = torch.zeros(0, dtype=torch.int64), tuple[str, ...]()
        if self.target is not None and (self.target in frame or not self.own_model):
            column = column_of(frame, self.target, self.path)
            by_number = is_numeric_dtype(column.dtype)
            labels, classes = numbered(complete(column, "label"), by_number)
        x = self._rows(texts).float()
        players = Players.tokens(x.shape[1])
        numbers = range(len(texts))
        return Table(x, labels, classes, players=players, numbers=numbers)

    def figures(self, explanations: Mapping[str, Explanation], main: str) -> dict[str, Any]:
        tokens = self.vocabulary.decode(explanations[main].x)
        return {"text.html": plots.text(explanations, tokens).page}

    def report_settings(self, explanation: Explanation) -> dict[str, Any]:
        return {"tokens": self.vocabulary.decode(explanation.x)}

    @property
    def groupings(self) -> Mapping[str, Grouping]:
        def grouping(labels: Callable[[Tensor], Tensor]) -> Grouping:
            rows = torch.cat((self.x_train, self.x_validation, self.x_test))
            return lambda: (labels, int(labels(rows).max()) + 1)

        own = self.vocabulary
        return {"words": grouping(own.words), "sentences": grouping(own.sentences)}

    @property
    def content(self) -> list[Any]:
        return [*super().content, list(self.vocabulary.tokens)]

    @property
    def few_rows(self) -> Tensor:
        return self.x_test[:64].long()

    def _rows(self, texts: list[str]) -> Tensor:
        """The numbers of the tokens of each text."""
        train = self.split(len(texts))[0].tolist()
        longest = max(len(tokens_of(texts[row])) for row in train)
        length = min(self.length or longest, longest)
        if cut := [text for text in texts if len(tokens_of(text)) > length]:
            warn(f"{len(cut)} of {len(texts)} texts are cut off after {length} tokens.")
        if isinstance(self._tokens, str):
            self.vocabulary = Vocabulary.load(sources.located(self.root, self._tokens))
        else:
            # Of what the training rows have: then every number occurs in one of them.
            seen = [" ".join(tokens_of(texts[row])[:length]) for row in train]
            self.vocabulary = Vocabulary.fit(seen, self._tokens)
        return self.vocabulary.encode(texts, length, truncate=True)
