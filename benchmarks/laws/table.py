"""A messy table drawn from a law that is known: see `latent`."""

import torch

from benchmarks.laws.latent import LatentClasses
from manifold_shap import _random
from manifold_shap.data import DataSet


def mixture(
    rows: int = 3000, law: int = 0, seed: int = 0, task: str = "classification"
) -> tuple[DataSet, LatentClasses]:
    """A messy table of numbers, a date, text and missing cells, and its law.

        >>> mixture(rows=100)[0].features["grade"].dtype.ordered
        True

    Args:
        rows: how many.
        law: seed of the law.
        seed: of the rows.
        task: "classification": whether a row buys, with log-odds of `LatentClasses.score`;
            or "regression": what it spends, that score with normal noise of standard deviation 1/2.
    """
    found = LatentClasses(law)
    x = found.sample(rows, seed).x
    frame, score = found.frame(x), found.score(x).float()
    keys = _random.fold(torch.full((rows,), seed), torch.arange(rows))
    noise = _random.uniform(keys, ())
    if task == "regression":
        spent = score + _random.to_normal(noise) / 2
        return DataSet(frame, spent, target="spending", task=task), found
    return DataSet(frame, noise < score.sigmoid(), ("leaves", "buys")), found
