"""Coarser players: the game of groups is the game of their members together."""

import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from tests.examples import Padded

X = torch.tensor([[1.0, 2.0, 3.0, 4.0], [0.5, -1.0, 2.0, 1.0]])


def product(x: Tensor, mask: Tensor) -> Tensor:
    """A game with interactions of all orders."""
    return torch.where(mask, x[:, None], 1.0).prod(-1, keepdim=True)


def value() -> ms.ValueFunction:
    return ms.as_value_function(product, X)


@pytest.mark.parametrize(
    "groups", [{"ends": ["x0", "x3"]}, torch.tensor([0, 1, 2, 0]), [0, 1, 2, 0]]
)
def test_groups_join_together(groups: object) -> None:
    grouped = value().grouped(groups)
    torch.testing.assert_close(ms.exact_shapley(grouped, X).phi, _by_hand())


def _by_hand() -> Tensor:
    """Three players: {0, 3}, 1 and 2, whose features are products."""
    merged = torch.stack((X[:, 0] * X[:, 3], X[:, 1], X[:, 2]), dim=1)
    return ms.exact_shapley(product, merged).phi


def test_coarser_players_group_finer_ones_and_name_the_groups() -> None:
    images, patches = X.reshape(1, 2, 4), ms.Players.patches((2, 4), 2)

    def product_of_pixels(x: Tensor, mask: Tensor) -> Tensor:
        return product(x.flatten(1), mask)

    value = ms.as_value_function(product_of_pixels, images, ms.Players.pixels((2, 4)))
    value.update(quality={"mse": {}})
    grouped = value.grouped(patches)
    assert "quality" not in grouped.provenance  # That is one of pixels.
    assert grouped.players.same_as(patches)
    found = grouped(images, torch.tensor([[[True, False], [False, True]]]))
    torch.testing.assert_close(found[0, :, 0], torch.stack([X[:, :2].prod(), X[:, 2:].prod()]))
    with pytest.raises(ValueError, match=r"a label map .* of shape \(2, 4\)"):
        value.grouped(ms.Players.patches((4, 4), 2))


def test_every_row_may_have_groups_of_its_own() -> None:
    def segment(x: Tensor) -> Tensor:
        # Rows that begin with 1 have three segments, the others two.
        three, two = torch.tensor([0, 1, 2, 0]), torch.tensor([0, 0, 1, 1])
        return torch.where(x[:, :1] == 1, three, two)

    grouped = value().grouped(segment, count=5)
    found = ms.exact_shapley(grouped, X)
    assert found.phi.shape == (2, 5, 1)
    torch.testing.assert_close(found.phi[0, :3], _by_hand()[0])
    merged = torch.stack((X[1:, 0] * X[1:, 1], X[1:, 2] * X[1:, 3]), dim=1)
    torch.testing.assert_close(found.phi[1, :2], ms.exact_shapley(product, merged).phi[0])
    assert bool(found.phi[0, 3:].isnan().all())
    assert bool(found.phi[1, 2:].isnan().all())
    assert found.efficiency_gap < 1e-6


def test_what_belongs_to_nobody_is_always_there() -> None:
    seen = []

    def watched(x: Tensor, mask: Tensor) -> Tensor:
        seen.append(mask)
        return product(x, mask)

    labels = torch.tensor([0, 1, -1, 2])
    grouped = ms.as_value_function(watched, X).grouped(lambda x: labels.expand(len(x), 4), 3)
    seen.clear()
    found = ms.permutation_shapley(grouped, X, permutations=6)
    assert all(bool(mask[..., 2].all()) for mask in seen)
    nobody = torch.tensor([[[False, False, True, False]]]).expand(len(X), -1, -1)
    torch.testing.assert_close(found.base, product(X, nobody)[:, 0])


def test_labels_of_rows_are_checked() -> None:
    for labels, message in (
        (torch.tensor([0, 2, 2, 0]), "without a gap"),
        (torch.tensor([0, 1, 2, 3]), "count=4 or more"),
        (torch.tensor([0.0, 1.0, 0.0, 0.0]), "whole numbers"),
    ):
        grouped = value().grouped(lambda x, labels=labels: labels.expand(len(x), 4), 3)
        with pytest.raises(ValueError, match=message):
            ms.exact_shapley(grouped, X)


def test_groups_that_all_padded_rows_share_are_lacked_by_the_short_ones() -> None:
    value, x = Padded(), Padded.some_rows()
    names = [f"token {k}" for k in range(6)]
    halves = value.grouped({"first half": names[:3], "second half": names[3:]})
    by_row = value.grouped(lambda x: torch.where(x != 0, torch.arange(6) // 3, -1), 2)
    found, expected = (ms.exact_shapley(each, x).phi for each in (halves, by_row))
    torch.testing.assert_close(found, expected, equal_nan=True)
    with pytest.raises(ValueError, match="begin on the last axis"):
        value.grouped({"end": names[3:]})


def test_padding_is_in_no_group() -> None:
    value, x = Padded(), Padded.some_rows()
    grouped = value.grouped(lambda x: torch.arange(6).expand(len(x), 6) // 2, 3)
    with pytest.raises(ValueError, match="label of -1 for every element of padding"):
        ms.exact_shapley(grouped, x)
