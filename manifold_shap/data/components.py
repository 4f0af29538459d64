"""Images as tables of a few numbers: principal components, each of them a player."""

from collections.abc import Sequence
from typing import Unpack

import numpy as np
import pandas as pd
import torch

from manifold_shap.data.base import Loaded, Settings, TensorDataModule, split_rows
from manifold_shap.tables.schema import Schema

_DIGITS, _PIXELS = tuple("0123456789"), 64


class DigitComponents(TensorDataModule):
    """Principal components of scikit-learn's 8 x 8 digits, standardised (Noé et al., Section 6).

    The directions, means and scales are those of the training rows.
    """

    def __init__(
        self,
        *,
        digits: Sequence[str | int] | None = None,
        components: int = 6,
        name: str = "digit_components",
        **settings: Unpack[Settings],
    ) -> None:
        """As the base, and:

        Args:
            digits: which; by default all ten.
            components: how many, the largest first.

        Raises:
            ValueError: fewer than two digits, other numbers, or as many components as no
                image has.
        """
        super().__init__(name=name, **settings)
        self.digits = _DIGITS if digits is None else tuple(str(digit) for digit in digits)
        self.components = components
        if len(set(self.digits)) < 2 or not set(self.digits) <= set(_DIGITS):
            raise ValueError(
                f"Expected `digits` to be at least two different ones of 0 to 9 but got {digits}."
            )
        if not 1 <= components <= _PIXELS:
            raise ValueError(
                f"Expected `components` from 1 to {_PIXELS}, the number of pixels, but got "
                f"{components}."
            )

    def load(self) -> Loaded:
        from sklearn.datasets import load_digits
        from sklearn.decomposition import PCA

        images = load_digits()
        numbers = [int(digit) for digit in self.digits]
        rows = np.isin(images.target, numbers)
        pixels, y = images.data[rows], torch.from_numpy(images.target[rows])
        y = torch.stack([y == number for number in numbers], 1).int().argmax(1)
        shares = {"validation": self.validation, "test": self.test}
        parts = split_rows(len(y), shares, self.seed)
        # The full solver: exact, and the same on every machine but for rounding.
        pca = PCA(self.components, svd_solver="full").fit(pixels[parts[0].numpy()])
        names = [f"PC{k + 1}" for k in range(self.components)]
        frame = pd.DataFrame(pca.transform(pixels), columns=names)
        schema = Schema.fit(frame.iloc[parts[0].numpy()], categories_from=frame)
        x = schema.encode(frame)
        train, validation, test = ((x[part], y[part]) for part in parts)
        players = schema.players
        return Loaded(train, validation, test, self.digits, players, schema)
