"""What a forest says of completed coalitions of outliers (Frye et al. 2021, Figs. 3e and 3f)."""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Bool
from scipy.stats import wasserstein_distance
from torch import Tensor

from benchmarks.papers.mixture import BROKEN, FEATURES
from benchmarks.papers.outliers_forests import GAMES, Found

# Coalitions without the five features that are broken, and with all of them.
INLIER, OUTLIER = KINDS = ("inlier", "outlier")
DATA = "data"
# How many of the other features join the five, or the coalition that is without them: a uniform
# share, or as many as in random orders of all features.
EVEN = "with a uniform share of the other features"
ORDERS = "as random orders of all features meet them"
LAWS = (EVEN, ORDERS)
# Coalitions of each outlier, and actual inliers to compare with.
EACH, INLIERS = 16, 1000
# Scores by kind, then by game, or "data" for actual rows of this kind.
Scores = Mapping[str, Mapping[str, Sequence[float]]]


def coalitions(count: int, kind: str, law: str) -> Bool[Tensor, "count coalitions features"]:
    """Of one kind, for so many rows."""
    generator = torch.Generator().manual_seed(0)
    each = torch.rand(count, EACH, FEATURES, generator=generator)
    share = torch.rand(count, EACH, 1, generator=generator)
    if law == ORDERS:
        # A uniform share p of all features holds these five with probability p^5: given that it
        # does, p^6 is uniform; and given that it has none of them, (1 - p)^6 is.
        share = share ** (1 / (BROKEN + 1))
        share = share if kind == OUTLIER else 1 - share
    others, first = each < share, torch.arange(FEATURES) < BROKEN
    return others | first if kind == OUTLIER else others & ~first


def scores(found: Found, law: str) -> Scores:
    """Of one completion of each coalition, off and on the manifold, and of actual rows."""
    x = found.x[found.is_outlier]
    keys = torch.arange(len(x))[:, None].expand(-1, EACH)
    actual = {INLIER: found.x[~found.is_outlier][:INLIERS], OUTLIER: x}
    outputs: dict[str, dict[str, Sequence[float]]] = {}
    for kind in KINDS:
        mask = coalitions(len(x), kind, law)
        outputs[kind] = {DATA: found.score(actual[kind])[:, 0].tolist()}
        for name in GAMES:
            completed = found.values[name].imputer.impute(x, mask, range(1), keys).rows
            outputs[kind][name] = found.score(completed.flatten(0, 2))[:, 0].tolist()
    return outputs


def mistaken(found: Scores, kind: str, game: str) -> float:
    """Share of the completed coalitions that the model takes for the other kind."""
    said = [(score > 0) != (kind == OUTLIER) for score in found[kind][game]]
    return sum(said) / len(said)


def distance(found: Scores, kind: str, game: str) -> float:
    """Of scores of completed coalitions from those of actual rows (Wasserstein's, of order 1)."""
    return float(wasserstein_distance(found[kind][game], found[kind][DATA]))


def deciles(found: Scores) -> dict[str, dict[str, list[float]]]:
    tenths = torch.linspace(0, 1, 11)
    return {
        kind: {name: torch.tensor(each).quantile(tenths).tolist() for name, each in by.items()}
        for kind, by in found.items()
    }
