"""Laws of imputers that are made from rows and players, beside those of `tests.contracts`."""

import itertools

import pandas as pd
import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.coalitions import all_coalitions
from manifold_shap.imputers.base import Completions, Imputer

# Nine players own fourteen elements, which stand in no order.
OWNERS = torch.tensor([3, 0, 8, 1, 1, 2, 4, 8, 5, 6, 7, 0, 8, 3])
NINE = ms.Players(tuple("abcdefghi"), OWNERS)
FOUR = ms.Players.of_elements((4,))


def random_rows(count: int, elements: int, seed: int = 0) -> Tensor:
    """Correlated rows; the same distribution for every `count`."""
    mixing = torch.randn(elements, elements, generator=torch.Generator().manual_seed(elements))
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, elements, generator=generator) @ mixing + 2


def nested(rows: int, runs: int, run: int, players: int, seed: int = 0) -> Tensor:
    """Nested coalitions `[rows, runs, run, players]`: some players never join, some always play."""
    generator = torch.Generator().manual_seed(seed)
    arrival = torch.randint(run + 1, (rows, runs, 1, players), generator=generator)
    return arrival <= torch.arange(run)[:, None]


def assert_same(found: Completions, expected: Completions, tolerance: float = 2e-4) -> None:
    """Equal weights and effective draws, and equal rows wherever a weight is not zero."""
    counts = torch.ones(expected.rows.shape[:3], dtype=torch.bool)
    if expected.log_weights is not None:
        counts = expected.log_weights > -torch.inf
    # Donors of no weight may be any.
    assert (found.donors is None) == (expected.donors is None)
    if expected.donors is not None:
        assert torch.equal(found.donors[counts], expected.donors[counts])
    for one, other in zip(found[1:4], expected[1:4], strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(found.rows[counts], expected.rows[counts], rtol=1e-4, atol=tolerance)


def joined(parts: list[Completions], dim: int = 1) -> Completions:
    """Completions of the parts of a call together."""
    columns = list(zip(*parts, strict=True))
    return Completions(*(None if c[0] is None else torch.cat(c, dim) for c in columns))


class ImputerOfRowsContract:
    """Subclass it as `TestSomething` and define `make`."""

    def make(self, reference: Tensor, players: ms.Players) -> Imputer:
        raise NotImplementedError

    def rows(self, count: int, elements: int = 4, seed: int = 0) -> Tensor:
        """Rows of the kind that this imputer takes."""
        return random_rows(count, elements, seed)

    def usual(self) -> tuple[Imputer, Tensor, Tensor, Tensor]:
        """An imputer of four players, with three rows, all coalitions of each, and their keys."""
        mask = all_coalitions(4).expand(3, -1, -1)
        imputer = self.make(self.rows(40), FOUR)
        return imputer, self.rows(3, seed=1), mask, torch.arange(48).reshape(3, 16) % 5

    def test_parts_of_rows_coalitions_and_draws_give_the_same_completions(self) -> None:
        imputer, x, mask, keys = self.usual()
        whole = imputer.impute(x, mask, range(6), keys)
        assert whole.rows.shape == (3, 16, 6, 4)
        for rows, coalitions in itertools.product(([0], [1, 2]), (slice(0, 5), slice(5, 16))):
            own = mask[rows, coalitions], range(6), keys[rows, coalitions]
            expected = [None if part is None else part[rows, coalitions] for part in whole]
            assert_same(imputer.impute(x[rows], *own), Completions(*expected))
        parts = [imputer.impute(x, mask, draws, keys) for draws in (range(2), range(2, 6))]
        for k in (0, 1, 4):  # Rows, weights and donors have an entry for every draw.
            found = torch.cat([part[k] for part in parts], 2) if parts[0][k] is not None else None
            parts[0] = parts[0]._replace(**{Completions._fields[k]: found})
        assert_same(parts[0]._replace(threshold=parts[1].threshold), whole)

    def test_present_values_stay_and_absent_ones_are_never_read(self) -> None:
        imputer, x, mask, keys = self.usual()
        whole = imputer.impute(x, mask, range(6), keys)
        present = mask[:, :, None].expand_as(whole.rows)
        assert torch.equal(whole.rows[present], x[:, None, None].expand_as(whole.rows)[present])
        for k in range(16):
            # A number far outside must not even leave rounding behind.
            other = torch.where(mask[:, k], x, torch.tensor([1e30, -7.0, 1e30, -1e30]))
            found = imputer.impute(other, mask[:, k : k + 1], range(6), keys[:, k : k + 1])
            expected = [None if part is None else part[:, k : k + 1] for part in whole]
            assert_same(found, Completions(*expected), 1e-5)

    def test_arguments_are_not_changed_and_the_background_data_is_a_copy(self) -> None:
        reference, (_, x, mask, keys) = self.rows(40), self.usual()
        imputer, given = self.make(reference, FOUR), (x.clone(), mask.clone(), keys.clone())
        imputer.impute(x, mask, range(4), keys)
        imputer.sample(x, mask, range(4), keys)
        for now, before in zip((x, mask, keys), given, strict=True):
            assert torch.equal(now, before)
        kept = imputer.reference.clone()
        reference.zero_()
        assert torch.equal(imputer.reference, kept)
        assert not imputer.state_dict()

    def test_elements_of_one_player_are_present_or_absent_together(self) -> None:
        players = ms.Players(("left", "right"), torch.tensor([[[0, 1], [0, 1]]]))
        imputer = self.make(self.rows(40).reshape(40, 1, 2, 2), players)
        x, mask = self.rows(2, seed=1).reshape(2, 1, 2, 2), all_coalitions(2).expand(2, -1, -1)
        keys = torch.zeros(2, 4, dtype=torch.int64)
        drawn = imputer.impute(x, mask, range(3), keys).rows
        assert drawn.shape == (2, 4, 3, 1, 2, 2)
        assert torch.equal(drawn[:, 1, ..., 0], x[:, None, ..., 0].expand(2, 3, 1, 2))
        assert torch.equal(drawn[:, 2, ..., 1], x[:, None, ..., 1].expand(2, 3, 1, 2))
        assert imputer.sample(x, mask, range(3), keys).shape == drawn.shape

    @pytest.mark.parametrize("most", [7, 1000])
    def test_nested_coalitions_are_completed_as_single_ones(self, most: int) -> None:
        imputer, x = self.make(self.rows(60, 14), NINE), self.rows(2, 14, seed=1)
        mask, keys = nested(2, 3, 8, 9), torch.tensor([[1, 2, 3], [1, 5, 6]])
        parts = list(imputer.impute_nested(x, mask, range(1, 5), keys, most))
        assert max(part.rows.shape[1] for part in parts) <= most
        single = mask.flatten(1, 2), range(1, 5), keys.repeat_interleave(8, 1)
        assert_same(joined(parts), imputer.impute(x, *single))

    def test_samples_have_numbers_and_equal_weights(self) -> None:
        imputer, x, mask, keys = self.usual()
        drawn = imputer.sample(x, mask, range(70), keys)
        assert drawn.shape == (3, 16, 70, 4)
        few = imputer.sample(x, mask, range(3, 9), keys)
        torch.testing.assert_close(few, drawn[:, :, 3:9], rtol=1e-5, atol=1e-4)
        present = mask[:, :, None].expand_as(drawn)
        assert torch.equal(drawn[present], x[:, None, None].expand_as(drawn)[present])

    def test_errors_of_the_background_data(self) -> None:
        rows = self.rows(40)
        with pytest.raises(ValueError, match=r"of shape \((rows, )?2\).* but got"):
            self.make(rows, ms.Players.of_elements((2,)))
        holed = rows.clone()
        holed[0, 1] = torch.nan
        with pytest.raises(ValueError, match="are NaN or infinite"):
            self.make(holed, FOUR)
        with pytest.raises(TypeError, match=r"these columns do not: .*town.*`ms\.Explainer"):
            self.make(pd.DataFrame({"town": ["Oslo", "Rome"] * 20}), FOUR)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="that own the same elements of every row"):
            self.make(rows, ms.Players.of_rows((4,), 3))
