"""A messy table drawn from a law that is known: see `latent`."""

from typing import Unpack

import torch

from benchmarks.laws.latent import LatentClasses
from manifold_shap import _random
from manifold_shap._checks import check_whole
from manifold_shap._messages import check_choice
from manifold_shap.data.base import Settings, Table, TensorDataModule


class Mixture(TensorDataModule):
    """A messy table: numbers, a date, text, missing cells; see `LatentClasses`.

        >>> Mixture(rows=100).read().features["grade"].dtype.ordered
        True

    Args:
        rows: how many.
        law: seed of the law.
        task: "classification": whether a row buys, with log-odds of `LatentClasses.score`;
            or "regression": what it spends, that score with normal noise of standard deviation 1/2.
        **settings: see `TensorDataModule`; its `seed` draws the rows, too.
    """

    name = "mixture"

    def __init__(
        self,
        *,
        rows: int = 3000,
        law: int = 0,
        task: str = "classification",
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(**settings)
        self.task = check_choice("task", task, ("classification", "regression"))
        self.rows = check_whole("rows", rows)
        self.law = LatentClasses(law)

    def read(self) -> Table:
        x = self.law.sample(self.rows, self.seed).x
        frame, score = self.law.frame(x), self.law.score(x).float()
        keys = _random.fold(torch.full((self.rows,), self.seed), torch.arange(self.rows))
        noise = _random.uniform(keys, ())
        if self.task == "regression":
            return Table(frame, score + _random.to_normal(noise) / 2, target="spending")
        return Table(frame, (noise < score.sigmoid()).long(), ("leaves", "buys"))
