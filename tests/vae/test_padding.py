"""VAEs of padded series: padding is kept, is seen by nothing, and is no part of the likelihood."""

from typing import Any

import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.coalitions import Listed
from manifold_shap.training.rows import without_padding
from manifold_shap.vae.families import choose_families
from manifold_shap.vae.network import MaskedVAE

EVENT = (2, 8)
KINDS = ("mlp", "conv")
LENGTHS = torch.tensor([8, 3, 5, 8, 1, 6])


def series(count: int, padding: float, seed: int = 0) -> Tensor:
    """A level and its opposite, with little noise; row k has length `LENGTHS[k % 6]`."""
    generator = torch.Generator().manual_seed(seed)
    level = torch.randn(count, 1, 1, generator=generator) * torch.tensor([[1.0], [-1.0]]) + 5
    x = level + 0.1 * torch.randn((count, *EVENT), generator=generator)
    inside = torch.arange(8) < LENGTHS[torch.arange(count) % 6][:, None]
    return torch.where(inside[:, None], x, padding)


def players(padding: float) -> ms.Players:
    return ms.Players.segments(EVENT, 2, padding)


def network(kind: str, padding: float) -> MaskedVAE:
    torch.manual_seed(0)
    x = without_padding(series(60, padding), players(padding))
    index = players(padding).index.flatten().tolist()
    made = MaskedVAE(
        choose_families(x), index, 2, (8,), 2, network=kind, event=EVENT, padding=padding
    )
    made.likelihood.describe(x.flatten(1))
    return made


def masks(count: int) -> Tensor:
    mask = torch.rand(count, 5, 4, generator=torch.Generator().manual_seed(1)) < 0.5
    mask[:, 0] = False
    return mask


def test_padding_is_filled_with_what_other_rows_have_there() -> None:
    """And where no row is as long, with what is at the last position that one has."""
    x = torch.tensor([[1.0, 2, 3, 0, 0], [4, 0, 0, 0, 0], [5, 6, 0, 0, 0], [7, 0, 0, 0, 0]])
    filled = without_padding(x, ms.Players.tokens(5, padding=0))
    assert filled.tolist() == [[1, 2, 3, 3, 3], [4, 6, 3, 3, 3], [5, 6, 3, 3, 3], [7, 6, 3, 3, 3]]


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_that_pads_does_not_matter(kind: str) -> None:
    losses, completed = [], []
    for padding in (0.0, -1e6):
        made, x = network(kind, padding), series(60, padding)
        losses.append(made.loss(x.flatten(1), masks(60), torch.zeros(60, 2)))
        own, keys = series(6, padding, 1), torch.arange(30).reshape(6, 5)
        for settings in (
            {},
            {"posterior": "encoder"},
            {"posterior": "encoder", "importance": True},
        ):
            imputer = ms.VAEImputer(made, x, players(padding), bank_size=50, **settings)  # type: ignore[arg-type]
            rows = imputer.sample(own, Listed(masks(6), keys), range(3))
            inside = (players(padding).owners(own) >= 0)[:, None, None]
            assert (rows == padding).equal(~inside.expand_as(rows))
            completed.append(torch.where(inside, rows, 0.0))
    torch.testing.assert_close(losses[0], losses[1])
    for one, other in zip(completed[:3], completed[3:], strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_mask_says_of_players_that_a_row_lacks_is_ignored(kind: str) -> None:
    made, x, mask = network(kind, 0.0), series(6, 0.0, 1), masks(6)
    lacking = ~players(0.0).owned(x)[:, None]
    assert lacking.any()
    one, other = (made.encode_masked(x.flatten(1), own) for own in (mask, mask ^ lacking))
    torch.testing.assert_close(one.mean, other.mean)


def test_padded_series_are_imputed_and_explained() -> None:
    options: dict[str, Any] = {"network": "conv", "hidden": (16,), "latent": 2, "components": 1}
    options |= {"learning_rate": 1e-2, "batch_size": 64, "max_epochs": 6, "posterior": "encoder"}
    train = series(400, -9.0)
    encoder: Any = ms.fit_imputer(train, players=players(-9.0), **options)
    bank = encoder.task.imputer(train, None, posterior="bank", bank_size=2000)
    x, keys = series(120, -9.0, 1), torch.arange(120)[:, None]
    mask = torch.tensor([True, False, False, False]).expand(120, 1, 4)
    inside = players(-9.0).owners(x) > 0
    expected = x[:, :, :1].expand_as(x)
    spread = (expected - 5)[inside].square().mean()
    for imputer in (bank, encoder):
        found = imputer.means(x, mask, keys, (1.0,))[0, :, 0]
        assert (found - expected)[inside].square().mean() < 0.1 * spread
    weight = torch.randn(16, 3, generator=torch.Generator().manual_seed(0))
    value = ms.imputed_value(lambda x: (x.flatten(1) @ weight / 40).softmax(-1), bank, draws=8)
    x, count = x[:6], -(-LENGTHS // 2)
    explanation = ms.permutation_shapley(value, x, permutations=4)
    assert explanation.efficiency_gap < 1e-5
    assert torch.equal(explanation.phi.isnan().any(2), torch.arange(4) >= count[:, None])
    # Everybody knows how long a row is: v(∅) is of rows as long.
    base = value.base(x)
    assert torch.equal(base[0], base[3])
    assert not torch.allclose(base[0], base[1], atol=1e-3)
