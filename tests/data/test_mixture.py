"""The messy table: exact draws against rows of the table that match, and the frame as numbers."""

from typing import Any

import numpy as np
import pytest
import torch

from manifold_shap.data.mixture import NAMES, Mixture, MixtureLaw

ROWS = 200_000


@pytest.fixture(scope="module")
def law() -> MixtureLaw:
    return MixtureLaw(seed=3)


@pytest.fixture(scope="module")
def cells(law: MixtureLaw) -> Any:
    """Many rows as numbers."""
    return law.cells(law.sample(ROWS, seed=1))


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
    law: MixtureLaw, cells: Any, names: tuple[str, ...], row: int
) -> None:
    mask = coalition(*names)
    seen = mask[0, 0].numpy()
    alike = np.isclose(cells[:, seen], cells[row, seen], equal_nan=True).all(1)
    rows = features(cells[alike])
    assert len(rows) > 300
    drawn = law.complete(cells[row, None], mask, range(20_000), torch.tensor([[row]]))[0, 0]
    error = np.hypot(rows.std(0) / len(rows) ** 0.5, features(drawn).std(0) / 20_000**0.5)
    gap = features(drawn).mean(0) - rows.mean(0)
    np.testing.assert_array_less(abs(gap), 4.5 * error + 1e-9)


@pytest.mark.parametrize(
    "names", [("balance",), ("amount", "since"), ("rating", "balance", "since", "grade")]
)
def test_completed_rows_are_distributed_like_the_table(
    law: MixtureLaw, cells: Any, names: tuple[str, ...]
) -> None:
    rows = cells[:40_000]
    mask = coalition(*names).expand(len(rows), 1, -1)
    keys = torch.arange(len(rows))[:, None]
    both = np.stack([rows, law.complete(rows, mask, range(1), keys)[:, 0, 0]])
    before, after = (features(one) for one in both)
    before, after = ((one - before.mean(0)) / (before.std(0) + 1e-9) for one in (before, after))
    # Products of a present and an absent feature, whose mean is the dependence.
    seen = np.isin(NAMES, names)
    for present in np.flatnonzero(np.r_[seen[:5], seen]):
        gap = after * before[:, [present]] - before * before[:, [present]]
        error = gap.std(0) / len(rows) ** 0.5
        np.testing.assert_array_less(abs(gap.mean(0)), 4.5 * error + 1e-9)


def test_numbers_narrow_the_law_down(law: MixtureLaw, cells: Any) -> None:
    """Rows close to a row in two numbers have the balance that is drawn for it."""
    names, row = ("amount", "since"), 0
    seen = np.isin(NAMES, names)
    scaled = np.stack((np.log(cells[:, 0]), cells[:, 3] / 2e7), axis=1)
    near = cells[np.abs(scaled - scaled[row]).max(1) < 0.05]
    drawn = law.complete(cells[row, None], coalition(*names), range(4000), torch.tensor([[0]]))
    drawn = drawn[0, 0][:, ~seen]
    assert len(near) > 200
    assert abs(drawn[:, 0].mean() - near[:, 1].mean()) < 0.2 * cells[:, 1].std()
    assert abs(drawn[:, 0].std() / near[:, 1].std() - 1) < 0.25
    assert near[:, 1].std() < 0.8 * cells[:, 1].std()


def test_present_cells_stay_and_missing_ones_are_known(law: MixtureLaw, cells: Any) -> None:
    rows = cells[:50]
    mask = torch.rand(50, 4, len(NAMES), generator=torch.Generator().manual_seed(0)) < 0.5
    drawn = law.complete(rows, mask, range(3), torch.zeros(50, 4, dtype=torch.int64))
    kept = mask.numpy()[:, :, None].repeat(3, 2)
    np.testing.assert_array_equal(
        drawn[kept], np.broadcast_to(rows[:, None, None], drawn.shape)[kept]
    )
    assert np.isnan(rows).any()
    assert not np.isnan(drawn[..., [NAMES.index("balance"), NAMES.index("product")]]).any()


def test_draws_do_not_depend_on_the_batch(law: MixtureLaw, cells: Any) -> None:
    rows, keys = cells[:6], torch.arange(30).view(6, 5)
    mask = torch.rand(6, 5, len(NAMES), generator=torch.Generator().manual_seed(0)) < 0.5
    every = law.complete(rows, mask, range(8), keys)
    part = law.complete(rows[2:4], mask[2:4, 1:3], range(3, 6), keys[2:4, 1:3])
    np.testing.assert_array_equal(every[2:4, 1:3, 3:6], part)


def test_seeds_are_of_the_law_and_of_the_rows(law: MixtureLaw) -> None:
    rows = law.sample(20, seed=5)
    assert rows.equals(MixtureLaw(seed=3).sample(20, seed=5))
    assert not rows.equals(law.sample(20, seed=6))
    assert not rows.equals(MixtureLaw(seed=4).sample(20, seed=5))


def test_a_frame_goes_to_numbers_and_back(law: MixtureLaw) -> None:
    frame = law.sample(200, seed=2)
    assert [dtype.kind for dtype in frame.dtypes[:5]] == ["f", "f", "f", "M", "i"]
    assert frame["member"].dtype == "boolean"
    assert frame["grade"].dtype.ordered
    assert set(frame.columns[frame.isna().any()]) == {
        "amount",
        "rating",
        "member",
        "region",
        "grade",
    }
    again = law.frame(law.cells(frame))
    assert again.equals(frame)
    wrong = r"columns of the law among .*'balanc'.* but got .*'balance'"
    with pytest.raises(ValueError, match=wrong):
        law.cells(frame.rename(columns={"balance": "balanc"}))


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_targets_depend_on_the_score(task: str) -> None:
    data = Mixture(rows=2000, task=task, seed=1)
    table = data.read()
    score = data.law.score(table.features)
    assert abs(np.median(score)) < 0.2
    assert abs(score.std() - 2) < 0.2
    labels = table.labels.numpy()
    if task == "regression":
        assert abs((labels - score).std() - 0.5) < 0.03
        return
    assert table.classes == ("leaves", "buys")
    expected = 1 / (1 + np.exp(-score))
    assert abs(labels[score > 1].mean() - expected[score > 1].mean()) < 0.05
    assert abs(labels[score < -1].mean() - expected[score < -1].mean()) < 0.05
