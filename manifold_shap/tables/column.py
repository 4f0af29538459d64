"""Numbers the distinct cells of one column, and keeps how they are encoded."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import cached_property
from typing import Any

import numpy as np
import torch

from manifold_shap.tables.cells import cells_from, cells_state, from_plain, to_plain
from manifold_shap.tables.distinct import (
    Cells,
    Codes,
    first_of,
    label_of,
    numbered,
    numbers_of,
    to_pandas,
)
from manifold_shap.tables.encoding import Encoding, NearestCategory, NearestNumber
from manifold_shap.tables.frames import joined, narrowed

# Whole numbers up to this are exact in float32.
_MOST_CODES = 2**24


class Column:
    """The distinct cells of a column, by their codes; later frames may add cells.

    Attributes:
        name: of the column, as the user has it.
        like: no cell, of the dtype of training.
        cells: by code: those of training in order, missing ones last, then those that were met
            later, whose dtype may be wider.
        counts: how often each cell of training occurs there.
        encoding: how they are encoded.
        elements: of each cell `[codes, width]`.
        unknown: which cells training had none like, see `Encoding.elements`.
    """

    def __init__(
        self, name: Any, like: Cells, cells: Cells, counts: Codes, encoding: Encoding
    ) -> None:
        self.name, self.like, self.cells, self.counts = name, like, cells, counts
        self.encoding = encoding
        elements, self.unknown = encoding.elements(to_pandas(cells))
        self.elements = torch.from_numpy(elements)
        self.unknown[: len(counts)] = False

    @classmethod
    def fit(cls, name: Any, cells: Cells, forced: bool = False) -> "Column":
        """Number the cells of a training frame; with `forced`, numbers too are categories."""
        codes = numbered(cells)
        cells = cells[first_of(codes)]
        known = to_pandas(cells).rename(name)
        numbers, missing = numbers_of(known), known.isna().to_numpy(bool)
        keys = np.array([*map(label_of, known)]) if numbers is None else numbers
        order = np.argsort(keys, kind="stable")
        # NaN is behind all numbers, and a missing label may not be.
        order = np.append(order[~missing[order]], order[missing[order]])
        codes = order.argsort()[codes]
        _check_count(name, len(order))
        encoding = Encoding.fit(known.iloc[order].reset_index(drop=True), codes, forced)
        return cls(name, cells[:0], cells[order], np.bincount(codes), encoding)

    def state(self) -> dict[str, Any]:
        """The column as numbers, text and lists.

        Raises:
            ValueError: a dtype or cells that cannot be written.
        """
        return {
            "name": to_plain(self.name),
            "like": cells_state(self.like),
            "cells": cells_state(self.cells),
            "counts": self.counts.tolist(),
            "encoding": asdict(self.encoding),
        }

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> "Column":
        """The column whose `state` this is."""
        name, counts = from_plain(state["name"]), np.array(state["counts"], dtype=np.int64)
        like, cells = (cells_from(state[key]) for key in ("like", "cells"))
        categories = tuple(state["encoding"]["categories"])
        encoding = Encoding(**{**state["encoding"], "categories": categories})
        return cls(name, like, cells, counts, encoding)

    def codes(self, cells: Cells) -> Codes:
        """The code of each cell; cells that are new get codes behind the others.

        Raises:
            TypeError, ValueError: cells that cannot be encoded; nothing is added then.
        """
        every, start = joined(self.cells, cells), len(self.cells)
        codes = numbered(every)
        more = every[first_of(codes)[start:]]
        if len(more):
            _check_count(self.name, start + len(more))
            elements, unknown = self.encoding.elements(to_pandas(more).rename(self.name))
            self.elements = torch.cat((self.elements, torch.from_numpy(elements)))
            self.unknown = np.append(self.unknown, unknown)
            self.cells = every[first_of(codes)]
        return codes[start:]

    def take(self, codes: Codes) -> Cells:
        """The cells of these codes, in the dtype of training where it holds them."""
        return narrowed(self.cells[codes], self.like)

    @cached_property
    def nearest(self) -> NearestNumber | NearestCategory:
        """From elements to codes of cells of training."""
        kind, counts, trained = self.encoding.kind, self.counts, len(self.counts)
        elements = self.elements[:trained].numpy()
        if kind in ("continuous", "ordered"):
            missing = np.flatnonzero(to_pandas(self.cells[:trained]).isna())
            most = int(missing[counts[missing].argmax()]) if len(missing) else None
            return NearestNumber(elements[: trained - len(missing), 0], most)
        place = elements[:, 0].astype(np.int64) if kind == "binary" else elements.argmax(1)
        codes_of = [np.flatnonzero(place == k) for k in range(len(self.encoding.categories))]
        # A category that training has no row of, such as False of a column of True, is never drawn.
        nowhere = np.zeros(1, dtype=np.int64)
        return NearestCategory([codes if len(codes) else nowhere for codes in codes_of], counts)


def _check_count(name: Any, count: int) -> None:
    if count > _MOST_CODES:
        raise ValueError(
            f"Expected at most {_MOST_CODES} distinct cells in column {name!r} but got {count}; "
            "round its numbers, or explain the rows in parts with tables of their own."
        )
