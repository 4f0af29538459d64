"""Makes training, validation and test rows of a file of time series."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from manifold_shap import plots
from manifold_shap._checks import check_known
from manifold_shap._messages import shown, warn
from manifold_shap.data import sources
from manifold_shap.data.base import DRAWN_ROWS, Settings, Table, TensorDataModule
from manifold_shap.data.series_files import read_series
from manifold_shap.explanation import Explanation
from manifold_shap.players import Players


class SeriesFile(TensorDataModule):
    """Time series of your own, `[rows, channels, time]`, each of which has a label.

    Series of differing length are padded at their end by a number that occurs in none of them. The
    players are segments of time, with all channels of a time point together, or the channels.
    """

    name = "series"
    usual_batch_size = 64

    def __init__(
        self,
        *,
        path: str,
        test_path: str | None = None,
        length: int | None = None,
        segment: int | str = 1,
        padding: float | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        """As the base, and:

        Args:
            path: the file, `.ts` or `.npz`, from the working directory or from the places `root`
                stands for. Its name is the default of `name`.
            test_path: a file of the same kind with the test series; by default a share of the
                others.
            length: time points after which series are cut off; by default, and at most, as many as
                the longest training series has.
            segment: time points of a player, or "channels" for a player for each channel.
            padding: the number that series are padded by; by default the next whole number below
                the smallest of the file.
        """
        self.path, self.test_path, self.length = path, test_path, length
        self.segment, self.padding = segment, padding
        self.name = Path(self.path).stem
        super().__init__(**settings)

    def read(self) -> Table:
        """The series.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: a damaged file, one without labels, test series of other channels or
                classes, or a `padding` that occurs in a series.
        """
        train = read_series(sources.located(self.root, self.path))
        if not train.labels and not self.own_model:
            raise ValueError(
                f"Expected a label for each series of {self.path}, which a model is to be trained "
                "to predict, but got none: `y` of an .npz file, @classLabel true of a .ts file."
            )
        series, labels, test_rows = train.series, train.labels, None
        if self.test_path is not None:
            test = read_series(sources.located(self.root, self.test_path))
            check_known(test.labels, train.classes, f"labels of {self.test_path}")
            test_rows = len(test.series)
            series, labels = series + test.series, labels + test.labels
        x, padding = self._rows(series, self._length(series, test_rows))
        numbers = torch.tensor([train.classes.index(label) for label in labels], dtype=torch.int64)
        players = self._players(x.shape[1:], padding)
        return Table(x, numbers, train.classes, test_rows=test_rows, players=players)

    def figures(self, explanations: Mapping[str, Explanation], main: str) -> dict[str, Any]:
        labels = explanations[main].instances[:DRAWN_ROWS]
        return {
            f"series_{label}.png": plots.series(explanations, row=k)
            for k, label in enumerate(labels)
        }

    def report_settings(self, explanation: Explanation) -> dict[str, Any]:
        return {"series": explanation.x}

    def _length(self, series: Sequence[NDArray[np.float32]], test_rows: int | None) -> int:
        """How many time points rows have: no more than training series tell something about."""
        train = self.split(len(series), test_rows)[0].tolist()
        longest = max(series[row].shape[1] for row in train)
        length = min(self.length or longest, longest)
        if long := [own for own in series if own.shape[1] > length]:
            warn(f"{len(long)} of {len(series)} series are cut off after {length} time points.")
        return length

    def _rows(
        self, series: Sequence[NDArray[np.float32]], length: int
    ) -> tuple[Tensor, float | None]:
        """The series as rows of one length, and the number that they are padded by, if any are."""
        if len(channels := {len(own) for own in series}) != 1:
            raise ValueError(f"Expected series of as many channels but got {sorted(channels)}.")
        smallest = min(own.min() for own in series)
        # Far from all others it would stretch the scale of the inputs.
        padding = np.float32(np.floor(smallest) - max(1.0, 1e-6 * abs(smallest)))
        if self.padding is not None:
            padding = np.float32(self.padding)
            if where := [k for k, own in enumerate(series) if (own == padding).any()]:
                raise ValueError(
                    f"Expected a `padding` that occurs in no series but {padding:g} is in series "
                    f"{shown(where, 5)}; leave it out to have one chosen."
                )
        rows = np.full((len(series), len(series[0]), length), padding, dtype=np.float32)
        for row, own in zip(rows, series, strict=True):
            row[:, : own.shape[1]] = own[:, :length]
        padded = any(own.shape[1] < length for own in series)
        return torch.from_numpy(rows), float(padding) if padded else None

    def _players(self, event: Sequence[int], padding: float | None) -> Players:
        if self.segment != "channels":
            return Players.segments(event, int(self.segment), padding)
        players = Players.channels(event)
        return Players(players.names, players.index, padding)
