"""Latent classes: exact draws against rows of the table that match, and the frame as numbers."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from benchmarks.laws.latent import MISSING, NAMES, LatentClasses

ROWS = 200_000
# Of each χ² test here, of which there are three.
FALSE_ALARM = 1e-5


@pytest.fixture(scope="module")
def law() -> LatentClasses:
    return LatentClasses(seed=3)


@pytest.fixture(scope="module")
def cells(law: LatentClasses) -> Any:
    """Many rows as numbers."""
    return as_numbers(law.sample(ROWS, seed=1).x)


def as_numbers(x: torch.Tensor) -> Any:
    """Rows of the law in double precision, with NaN for what is missing."""
    return torch.where(x == MISSING, torch.nan, x.double()).numpy()


def as_rows(cells: Any) -> torch.Tensor:
    return torch.from_numpy(np.where(np.isnan(cells), MISSING, cells)).float()


def completed(law: LatentClasses, cells: Any, mask: Any, draws: range, keys: Any) -> Any:
    return as_numbers(law.draw(as_rows(cells), mask, draws, keys).x)


def coalition(*names: str) -> torch.Tensor:
    return torch.tensor([[[name in names for name in NAMES]]])


def features(cells: Any) -> Any:
    """Numbers, whether they are missing, and every value of a category."""
    numbers = np.concatenate((np.log(cells[:, :1]), cells[:, 1:5]), axis=1)
    values = [cells[:, 5:] == value for value in range(6)]
    return np.concatenate((np.nan_to_num(numbers), np.isnan(cells), *values), axis=1)


@pytest.mark.parametrize("row", range(3))
@pytest.mark.parametrize("names", [("region", "grade"), ("member", "region", "visits")])
def test_draws_are_distributed_like_rows_that_match(
    law: LatentClasses, cells: Any, names: tuple[str, ...], row: int
) -> None:
    mask = coalition(*names)
    seen = mask[0, 0].numpy()
    alike = np.isclose(cells[:, seen], cells[row, seen], equal_nan=True).all(1)
    rows = features(cells[alike])
    assert len(rows) > 300
    drawn = completed(law, cells[row, None], mask, range(20_000), torch.tensor([[row]]))[0, 0]
    error = np.hypot(rows.std(0) / len(rows) ** 0.5, features(drawn).std(0) / 20_000**0.5)
    gap = features(drawn).mean(0) - rows.mean(0)
    np.testing.assert_array_less(abs(gap), 4.5 * error + 1e-9)


def test_posteriors_are_frequencies_of_classes_among_rows_that_match(law: LatentClasses) -> None:
    x, y = law.sample(ROWS, seed=1)
    mask = coalition("member", "region", "visits").expand(3, 1, -1)
    posterior = law.posterior(x[:3], mask)[:, 0]
    for row in range(3):
        alike = (x[:, mask[0, 0]] == x[row, mask[0, 0]]).all(1)
        counts = torch.bincount(y[alike], minlength=8)
        often = posterior[row] * int(alike.sum()) > 5
        assert int(often.sum()) > 1
        share = posterior[row][often] / posterior[row][often].sum()
        expected = share * counts[often].sum()
        assert stats.chisquare(counts[often], expected).pvalue > FALSE_ALARM
