"""The mixture imputer against enumeration, normal conditionals, and parts of its own density."""

import itertools
import math

import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.coalitions import Listed, all_coalitions
from tests.examples import mixed, normal


def categories(rows: int = 2000) -> Tensor:
    """Columns of 2, 3 and 2 values that depend on one another."""
    generator = torch.Generator().manual_seed(0)
    kind = torch.randint(3, (rows,), generator=generator)
    u = torch.rand(rows, 3, generator=generator)
    columns = [kind > 2 * u[:, 0], (kind + (u[:, 1] < 0.3)) % 3, (kind == 1) ^ (u[:, 2] < 0.2)]
    return torch.stack([column.float() for column in columns], 1)


def every_row() -> Tensor:
    return torch.tensor(list(itertools.product(range(2), range(3), range(2)))).float()


def given(imputer: ms.imputers.MixtureImputer, x: Tensor) -> Tensor:
    """Log-probabilities of every row beside those that disagree on x_S, `[masks, rows]`."""
    rows, masks = every_row(), all_coalitions(3)
    alike = ((rows == x) | ~masks[:, None]).all(-1)
    return imputer.log_prob(rows)[:, 0].expand(len(masks), -1).masked_fill(~alike, -math.inf)


def complete(imputer: ms.imputers.Imputer, x: Tensor, mask: Tensor, draws: int = 20_000) -> Tensor:
    keys = torch.arange(mask[..., 0].numel()).view(mask.shape[:2])
    return imputer.impute(x, Listed(mask, keys), range(draws)).rows


@pytest.mark.parametrize("components", [1, 4])
def test_parts_of_a_row_are_sums_over_the_others(components: int) -> None:
    imputer, rows = ms.imputers.MixtureImputer(categories(), components=components), every_row()
    parts = imputer.log_prob(rows, all_coalitions(3).expand(len(rows), -1, -1))
    expected = torch.stack([given(imputer, x).logsumexp(1) for x in rows])
    torch.testing.assert_close(parts, expected, atol=1e-4, rtol=0)
    # Of nobody all rows together are certain.
    torch.testing.assert_close(expected[:, 0], torch.zeros(len(rows)), atol=1e-4, rtol=0)


def test_draws_are_as_frequent_as_their_densities_say() -> None:
    imputer, rows = ms.imputers.MixtureImputer(categories(), components=4), every_row()
    drawn = complete(imputer, rows[7:8], all_coalitions(3)[None])[0]
    shares = (drawn[:, :, None] == rows).all(-1).float().mean(1)
    torch.testing.assert_close(shares, given(imputer, rows[7]).softmax(1), atol=0.015, rtol=0)


def test_expected_rows_are_means_and_likeliest_values() -> None:
    imputer, rows = ms.imputers.MixtureImputer(categories(), components=4), every_row()
    masks, x = all_coalitions(3)[:-1], rows[7:8]
    means, typical = imputer.mixture.expected(x, masks[None])
    weights = given(imputer, x).softmax(1)[:-1]
    for mask, mean, row, weight in zip(masks, means[0], typical[0], weights, strict=True):
        torch.testing.assert_close(mean[~mask], (weight @ rows)[~mask], atol=1e-4, rtol=0)
        for column in (~mask).nonzero()[:, 0].tolist():
            share = weight @ torch.nn.functional.one_hot(rows[:, column].long()).float()
            assert row[column] == share.argmax()


def test_one_component_of_numbers_is_the_copula() -> None:
    generator = torch.Generator().manual_seed(0)
    root = torch.tensor([[1.0, 0, 0], [0.8, 0.6, 0], [-0.5, 0.3, 0.8]])
    rows = (torch.randn(5000, 3, generator=generator) @ root.mT).exp()
    mixture, copula = (
        ms.imputers.MixtureImputer(rows, components=1),
        ms.imputers.CopulaImputer(rows),
    )
    masks, x = all_coalitions(3)[1:-1], rows[:4]
    found, expected = (
        complete(imputer, x, masks.expand(4, -1, -1), 4000).log() for imputer in (mixture, copula)
    )
    torch.testing.assert_close(found.mean(2), expected.mean(2), atol=0.08, rtol=0)
    torch.testing.assert_close(found.std(2), expected.std(2), atol=0.05, rtol=0)


def test_components_that_lie_apart_are_found() -> None:
    generator = torch.Generator().manual_seed(0)
    kind = torch.randint(3, (900,), generator=generator)
    rows = torch.randn(900, 2, generator=generator) + 12.0 * torch.stack([kind, (kind - 1) ** 2], 1)
    imputer = ms.imputers.MixtureImputer(rows)
    assert len(imputer.mixture) >= 3
    mask = torch.tensor([[[True, False]]]).expand(3, -1, -1)
    x = torch.tensor([[0.0, 0], [12, 0], [24, 0]])
    drawn = complete(imputer, x, mask, 500)[:, 0, :, 1]
    torch.testing.assert_close(drawn.mean(1), torch.tensor([12.0, 0, 12]), atol=0.8, rtol=0)


def test_a_value_that_many_rows_share_keeps_its_probability() -> None:
    rows = mixed(2000)
    rows[:, 2] *= (rows[:, 3] > 0) | (rows[:, 0] > 0)
    imputer = ms.imputers.MixtureImputer(rows)
    nobody = torch.zeros(1, 1, 4, dtype=torch.bool)
    drawn = complete(imputer, rows[:1], nobody)[0, 0]
    assert (drawn[:, 2] == 0).float().mean() == pytest.approx(
        (rows[:, 2] == 0).float().mean().item(), abs=0.02
    )
    known = torch.tensor([[[True, False, False, True]]]).expand(4, -1, -1)
    x = torch.tensor([[u, 0, 0, v] for u in (-1.0, 1.0) for v in (-1.0, 1.0)])
    zero = (complete(imputer, x, known)[:, 0, :, 2] == 0).float().mean(1)
    near = ((rows[:, 0] - x[:, None, 0]).abs() < 0.5) & (rows[:, 3] == x[:, None, 3])
    expected = ((rows[:, 2] == 0) & near).sum(1) / near.sum(1)
    torch.testing.assert_close(zero, expected, atol=0.08, rtol=0)


def test_columns_that_determine_one_another_stay_together() -> None:
    generator = torch.Generator().manual_seed(0)
    code = torch.randint(12, (1500, 1), generator=generator)
    rows = torch.cat([code, (code * 5) % 12, normal(1500, 1)], 1).float()
    imputer = ms.imputers.MixtureImputer(rows)
    mask = torch.tensor([[[True, False, False], [False, True, False]]]).expand(12, -1, -1)
    x = torch.stack([torch.arange(12), torch.arange(12) * 5 % 12, torch.zeros(12)], 1).float()
    drawn = complete(imputer, x, mask, 50)
    assert (drawn[..., :2] == x[:, None, None, :2]).all(-1).float().mean() > 0.99


def test_one_hot_elements_and_missing_cells_are_drawn_whole() -> None:
    generator = torch.Generator().manual_seed(0)
    kind = torch.randint(3, (500,), generator=generator)
    missing = torch.rand(500, generator=generator) < 0.02 * (1 + 10 * (kind == 2))
    size = torch.where(missing, 0, torch.randn(500, generator=generator) + kind)
    rows = torch.cat(
        [torch.nn.functional.one_hot(kind), torch.stack([size, missing.float()], 1)], 1
    ).float()
    players = ms.Players(("kind", "size"), torch.tensor([0, 0, 0, 1, 1]))
    imputer = ms.imputers.MixtureImputer(rows, players)
    drawn = complete(imputer, rows[:1], torch.zeros(1, 1, 2, dtype=torch.bool))[0, 0]
    assert (drawn[:, :3].sum(1) == 1).all()
    assert set(drawn[:, 4].unique().tolist()) == {0.0, 1.0}
    assert (drawn[drawn[:, 4] == 1, 3] == 0).all()
    share = ((drawn[:, 4] == 1) & (drawn[:, 2] == 1)).float().mean().item()
    assert share == pytest.approx((missing & (kind == 2)).float().mean().item(), abs=0.03)


@pytest.mark.parametrize(
    "rows",
    [
        torch.cat([normal(80, 3), torch.full((80, 1), 3.0)], 1),
        torch.ones(40, 3),
        normal(80, 3).repeat(1, 2),
        normal(20, 30),
        normal(2, 3),
        torch.cat([normal(79, 3), torch.tensor([[1e9, 0, 0]])]),
        (4 * normal(80, 3)).exp(),
        torch.cat([normal(60, 2), torch.eye(60)], 1),
        torch.cat([normal(3, 4)] * 20),
    ],
    ids=["constant", "all constant", "twice", "20 x 30", "two rows", "1e9", "log-normal",
         "a category per row", "three rows"],
)  # fmt: skip
def test_rows_of_any_kind_have_finite_draws_and_densities(rows: Tensor) -> None:
    players = ms.Players.of_elements(rows.shape[1:])
    imputer = ms.imputers.MixtureImputer(rows, players)
    mask = torch.rand(2, 5, len(players), generator=torch.Generator().manual_seed(0)) < 0.5
    drawn = complete(imputer, rows[:2], mask, 8)
    assert drawn.isfinite().all()
    assert (drawn >= rows.amin(0)).all()
    assert (drawn <= rows.amax(0)).all()
    assert imputer.log_prob(rows[:2], mask).isfinite().all()
