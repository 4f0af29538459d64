"""Makes training, validation and test rows of a column of texts."""

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Unpack

import pandas as pd
import torch
from pandas.api.types import is_numeric_dtype
from torch import Tensor

from manifold_shap._checks import check_whole
from manifold_shap._messages import check_text, warn
from manifold_shap.data import figures, sources
from manifold_shap.data.base import Grouping, Settings, Table, TensorDataModule
from manifold_shap.data.reading import column_of, complete, read_frame
from manifold_shap.explanation import Explanation
from manifold_shap.players import Players
from manifold_shap.text import Vocabulary
from manifold_shap.text.tokens import tokens_of
from manifold_shap.text.vocabulary import PADDING, UNKNOWN


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

        Raises:
            TypeError, ValueError: a setting that cannot be.
        """
        self.path, self.column = check_text("path", path), str(column)
        self.target = None if target is None else str(target)
        self.length = None if length is None else check_whole("length", length)
        self.pandas, self._tokens = dict(read or {}), vocabulary
        if not isinstance(vocabulary, str):
            check_whole("vocabulary", vocabulary, 3)
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
            names = pd.Index(complete(column, "label"))
            by_number = float if is_numeric_dtype(column.dtype) else None
            classes = tuple(sorted(set(names), key=by_number))
            labels = torch.from_numpy(pd.Index(classes).get_indexer(names)).long()
        x = self._rows(texts).float()
        players = Players.tokens(x.shape[1])
        numbers = range(len(texts))
        return Table(x, labels, classes, players=players, numbers=numbers)

    def figures(
        self, explanations: Mapping[str, Explanation], main: str, notes: Mapping[str, str]
    ) -> dict[str, Any]:
        tokens = self.vocabulary.decode(explanations[main].x)
        return figures.of_texts(explanations, notes, tokens)

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
            return self.vocabulary.encode(texts, length, truncate=True)
        # Of what the training rows have: then every number occurs in one of them.
        seen = [" ".join(tokens_of(texts[row])[:length]) for row in train]
        self.vocabulary = Vocabulary.fit(seen, self._tokens)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Of the rows that matter the share is told below.
            rows = self.vocabulary.encode(texts, length, truncate=True)
        held_out = rows[torch.cat(self.split(len(texts))[1:])]
        share = (held_out == UNKNOWN).sum().item() / (held_out != PADDING).sum().item()
        self.remarks = (
            f"{share:.1%} of the tokens of validation and test texts are unknown: they are in no "
            f"training text, or not among the {self._tokens} most frequent ones.",
        )
        return rows
