"""Values along orders and around coalitions of a bank: those of the coalitions one by one."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import manifold_shap as ms
from manifold_shap.coalitions import Listed, Nested, Toggled, toggled
from manifold_shap.vae.bank import RunningLikelihood
from manifold_shap.vae.imputer import VAEImputer
from manifold_shap.vae.network import MaskedVAE
from manifold_shap.values import ImputedValue
from manifold_shap.values.base import put_together

# Forty players: thirty of a number each, four of two numbers, and six categories of three elements.
NUMBERS, PAIRS, CATEGORIES = 30, 4, 6
ELEMENTS = NUMBERS + 2 * PAIRS + 3 * CATEGORIES
INDEX = torch.tensor(
    [
        *range(NUMBERS),
        *(NUMBERS + k // 2 for k in range(2 * PAIRS)),
        *(NUMBERS + PAIRS + k // 3 for k in range(3 * CATEGORIES)),
    ]
)
PLAYERS = ms.Players(tuple(f"p{k}" for k in range(NUMBERS + PAIRS + CATEGORIES)), INDEX)
FAMILIES = [
    ["Bernoulli", [*range(10)]],
    *(["Categorical", [*range(first, first + 3)]] for first in range(38, ELEMENTS, 3)),
    ["Quantile", [10], [-0.5, 0.0, 0.5]],
    ["Normal", [*range(11, 38)]],
]


def rows(count: int = 300, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(count, 1, generator=generator)
    numbers = hidden + torch.randn(count, 38, generator=generator)
    numbers[:, :10] = (numbers[:, :10] > 0).float()
    chosen = torch.randint(3, (count, CATEGORIES), generator=generator)
    return torch.cat((numbers, torch.eye(3)[chosen].flatten(1)), dim=1)


def imputer(**settings: object) -> VAEImputer:
    torch.manual_seed(0)
    network = MaskedVAE(FAMILIES, INDEX.tolist(), 4, (16,), 2)
    network.likelihood.describe(rows())
    return VAEImputer(network, rows(), PLAYERS, **{"bank_size": 200, **settings})  # type: ignore[arg-type]


def value(made: ms.imputers.Imputer | None = None, draws: int = 3) -> ImputedValue:
    weight = torch.randn(ELEMENTS, 3, generator=torch.Generator().manual_seed(1))
    return ms.imputed_value(
        lambda x: (x @ weight / 3).softmax(-1), made or imputer(), "ilr", draws=draws
    )


def orders(batch: int, count: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(batch, count, len(PLAYERS), generator=generator).argsort(-1)


def runs(kind: str, seed: int = 0) -> Tensor:
    """Coalitions `[2 rows, 3 runs, run, players]`."""
    if kind == "along":
        nested = Nested(orders(2, 3, seed), KEYS)
        return nested.masks().unflatten(1, (3, -1))
    generator = torch.Generator().manual_seed(seed)
    mask = torch.rand(2, 3, len(PLAYERS), generator=generator) < 0.5
    return toggled(mask)


both = pytest.mark.parametrize("kind", ["along", "around"])


@given(st.integers(0, 2**31), st.integers(1, 70), st.integers(1, 90), st.floats(0, 1))
@settings(deadline=None, max_examples=30)
def test_running_likelihoods_are_matrix_products(
    seed: int, block: int, part: int, moving: float
) -> None:
    # Any walk over coalitions will do, also one that jumps from time to time.
    generator = torch.Generator().manual_seed(seed)
    eta = torch.randn(20, 60, generator=generator)
    changes = torch.rand(80, 60, generator=generator) < 0.05
    changes[10] |= torch.rand(60, generator=generator) < moving
    present = (changes.cumsum(0) % 2).bool()
    statistics = present * torch.randn(60, generator=generator)
    running = RunningLikelihood(eta)
    running.block = block
    found = torch.cat([running(some) for some in statistics.split(part)])
    torch.testing.assert_close(found, statistics @ eta.T, rtol=1e-5, atol=1e-4)


def ask(v: ImputedValue, kind: str, x: Tensor, keys: Tensor, most: int = 10_000) -> Tensor:
    asked = Nested(orders(2, 3), keys) if kind == "along" else Toggled(runs(kind)[:, :, 0], keys)
    pieces = [*asked.split(most)]
    found = [v.values(x[piece.rows], piece.coalitions) for piece in pieces]
    found = put_together(pieces, found, asked.shape).values
    return found.unflatten(1, (-1, asked.run))


KEYS = torch.tensor([[1, 2, 3], [1, 5, 6]])


def one_by_one(v: ms.ValueFunction, x: Tensor, mask: Tensor) -> Tensor:
    """Values of the coalitions of runs, each asked for on its own."""
    keys = KEYS.repeat_interleave(mask.shape[2], 1)
    values = v.values(x, Listed(mask.flatten(1, 2), keys)).values
    return values.unflatten(1, mask.shape[1:3])


@both
@pytest.mark.parametrize("most", [1000, 3])
def test_values_of_runs_are_those_of_single_coalitions(kind: str, most: int) -> None:
    v, x, mask = value(), rows(2, seed=1), runs(kind)
    plain = one_by_one(v, x, mask)
    found = ask(v, kind, x, KEYS, most)
    torch.testing.assert_close(found, plain, rtol=1e-4, atol=1e-5)
    assert found.std() > 0.05
