"""A messy table as a law: numbers, dates, categories and missing cells, with hidden classes.

Given its class, the cells of a row are independent: numbers and dates are normal, counts and
categories have probabilities, and a cell is missing with a probability of its column and class. So
p(x' | x_S) is a mixture over the classes, weighted by their posterior probabilities.
"""

from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap import _random
from manifold_shap._arrays import is_frame
from manifold_shap._checks import check_rows
from manifold_shap.oracles.base import (
    ConditionalLaw,
    Drawn,
    Keys,
    Mask,
    Posterior,
    Rows,
    check_possible,
)
from manifold_shap.players import Players

# Columns that are normal given the class: their locations and scales; `since` in minutes.
NUMBERS = {"amount": (50.0, 20.0), "balance": (0.0, 1000.0), "rating": (50.0, 10.0),
           "since": (4e7 / 60, 1e7 / 60)}  # fmt: skip
VALUES: dict[str, tuple[Any, ...]] = {
    "visits": tuple(range(16)),
    "member": ("no", "yes"),
    "region": ("north", "east", "south", "west", "coast", "abroad"),
    "product": ("basic", "plus", "family", "business"),
    "grade": ("low", "fair", "good", "best"),
}
NAMES = (*NUMBERS, *VALUES)
# What a row holds for a missing cell: rows are finite.
MISSING = torch.finfo(torch.float32).min
_START = np.datetime64("2020-01-01", "s")
_MISSING = ("amount", "rating", "member", "region", "grade")
_CLASSES = 8


class LatentClasses(ConditionalLaw):
    """The law of a table of nine columns, itself drawn at random: another seed is another law.

    Of the eight hidden classes, weights are Dirichlet(4), means of numbers have a standard
    deviation of 2 in units of their scale, values of a category are Dirichlet(1/2), and shares of
    missing cells Beta(1/2, 2). The label is the hidden class. A row holds numbers, minutes since
    2020 for the date, the position of a category, and `MISSING`; that a present cell is missing is
    known as well.

    Args:
        seed: of the law.
    """

    name = "latent_classes"

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        super().__init__(Players.of_elements((len(NAMES),), NAMES))
        self.classes = tuple(map(str, range(_CLASSES)))
        self.log_weights = torch.from_numpy(np.log(rng.dirichlet(np.full(_CLASSES, 4.0))))
        self.means = torch.from_numpy(rng.normal(0, 2, (len(NUMBERS), _CLASSES)))
        gone = rng.beta(0.5, 2, (len(NAMES), _CLASSES, 1)) * np.isin(NAMES, _MISSING)[:, None, None]
        values = [np.ones((_CLASSES, 1))] * len(NUMBERS)
        values += [rng.dirichlet(np.full(len(of), 0.5), _CLASSES) for of in VALUES.values()]
        # Probabilities of what a cell may hold, by class: any number or each value; nothing, last.
        self.tables = [
            torch.from_numpy(np.concatenate(((1 - none) * value, none), 1))
            for value, none in zip(values, gone, strict=True)
        ]
        self.location, self.scale = torch.tensor([*NUMBERS.values()], dtype=torch.float64).T

    def posterior(self, x: Rows, mask: Mask) -> Posterior:
        """P(hidden class | x_S), exactly."""
        log_p = []
        for k, table in enumerate(self.tables):
            last, cell = table.shape[1] - 1, x[:, k]
            of_number = torch.zeros_like(cell) if k < len(NUMBERS) else cell
            held = torch.where(cell == MISSING, last, of_number).long().clamp(0, last)
            own = table.log()[:, held].T
            if k < len(NUMBERS):
                away = (cell.double() - self.location[k]) / self.scale[k]
                density = -((away[:, None] - self.means[k]) ** 2) / 2
                own = own + torch.where((cell == MISSING)[:, None], 0, density)
            log_p.append(own)
        seen = torch.where(mask[..., None], torch.stack(log_p, 1)[:, None], 0).sum(2)
        joint = seen + self.log_weights
        check_possible(joint.isfinite().any(-1).flatten())
        return joint.softmax(-1)

    def draw(self, x: Rows, mask: Mask, draws: range, keys: Keys) -> Drawn:
        """Exact draws: the class first, then each cell; see `ConditionalLaw.draw`."""
        uniform = _random.uniform(keys, (1 + len(NAMES) + len(NUMBERS),), draws)
        noise = _random.to_normal(uniform[..., -len(NUMBERS) :]).double()
        upper = self.posterior(x, mask).cumsum(-1)[:, :, None, :-1]
        label = (uniform[..., :1].double() > upper).sum(-1)
        columns = []
        for k, table in enumerate(self.tables):
            share = table.cumsum(1)[label][..., :-1]
            held = (uniform[..., 1 + k, None].double() > share).sum(-1)
            cell = held.double()
            if k < len(NUMBERS):
                cell = self.location[k] + self.scale[k] * (self.means[k][label] + noise[..., k])
                cell = cell.round() if k == len(NUMBERS) - 1 else cell
            columns.append(torch.where(held == table.shape[1] - 1, MISSING, cell))
        drawn = torch.stack(columns, -1).to(x.dtype)
        return Drawn(torch.where(mask[:, :, None], x[:, None, None], drawn), label)

    def rows(self, x: Any) -> Float[Tensor, "rows columns"]:
        """Rows of the law; a frame becomes what `frame` made it from."""
        if is_frame(x):
            cells = x.assign(since=(x["since"] - _START) / pd.Timedelta("1min"))
            for name, values in VALUES.items():
                places = pd.Index(values).get_indexer(x[name])
                cells[name] = np.where(places < 0, np.nan, places)
            numbers = cells[[*NAMES]].to_numpy(np.float32)
            x = torch.from_numpy(np.nan_to_num(numbers, nan=MISSING))
        return check_rows(x, self.players)

    def frame(self, x: Float[Tensor, "rows columns"]) -> pd.DataFrame:
        """The frame of these rows: what `rows` came from, bit for bit."""
        cells = x.cpu().double().numpy()
        frame = pd.DataFrame(np.where(cells == MISSING, np.nan, cells), columns=NAMES)
        frame["since"] = _START + (60 * frame["since"].to_numpy()).astype("timedelta64[s]")
        for name, values in VALUES.items():
            place = frame[name].fillna(-1).astype(int)
            column = np.array([*values, None], dtype=object)[place]
            frame[name] = column.astype(int) if name == "visits" else column
        return frame
