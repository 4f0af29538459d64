"""A category that no training row has, through every imputer."""

import itertools
import warnings
from collections.abc import Callable

import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import manifold_shap as ms
from manifold_shap.coalitions import Listed, all_coalitions
from manifold_shap.vae.families import choose_families
from manifold_shap.vae.network import MaskedVAE

COLOURS = ["red", "green", "blue"]
# One-hot columns always sum to 1.
pytestmark = pytest.mark.filterwarnings("ignore:.*ridge of:UserWarning")


def frame(rows: int, seed: int = 0) -> pd.DataFrame:
    generator = torch.Generator().manual_seed(seed)
    colour = torch.randint(3, (rows,), generator=generator)
    table = {"colour": [COLOURS[k] for k in colour]}
    table["size"] = (colour + torch.randn(rows, generator=generator)).tolist()
    table["old"] = (torch.rand(rows, generator=generator) < 0.3 + 0.2 * colour).int().tolist()
    return pd.DataFrame(table)


def unseen() -> pd.DataFrame:
    return pd.DataFrame({"colour": ["pink", "pink"], "size": [0.5, -3.0], "old": [1, 0]})


TRAINING = frame(120)
TABLE = ms.Table.fit(TRAINING)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    NEW = TABLE.rows(unseen())
# A category that is known to exist, though no row of training has it.
REFERENCE, X = (F.pad(TABLE.encode(rows), (1, 0)) for rows in (TABLE.rows(TRAINING), NEW))
PINK, INDEX = 0, [0, 0, 0, 0, 1, 2]
X[:, PINK] = 1
PLAYERS = ms.Players(TABLE.names, INDEX)


def vae(**settings: object) -> ms.VAEImputer:
    torch.manual_seed(0)
    network = MaskedVAE(choose_families(REFERENCE, INDEX), INDEX, 2, (16, 16), 2)
    network.likelihood.describe(REFERENCE)
    return ms.VAEImputer(network, REFERENCE, PLAYERS, **settings)  # type: ignore[arg-type]


MAKERS: dict[str, Callable[[], ms.imputers.Imputer]] = {
    "marginal": lambda: ms.imputers.MarginalImputer(REFERENCE, PLAYERS),
    "gaussian": lambda: ms.imputers.GaussianImputer(REFERENCE, PLAYERS),
    "copula": lambda: ms.imputers.CopulaImputer(REFERENCE, PLAYERS),
    "empirical": lambda: ms.imputers.EmpiricalImputer(REFERENCE, PLAYERS),
    "mixture": lambda: ms.imputers.MixtureImputer(REFERENCE, PLAYERS),
    "exact match": lambda: ms.imputers.ExactMatchImputer(REFERENCE, PLAYERS),
    "bank": lambda: vae(posterior="bank"),
    "encoder": lambda: vae(posterior="encoder"),
    "weighted": lambda: vae(posterior="encoder", importance=True),
}
CAUSAL = {
    f"causal {name}": lambda make=make: ms.imputers.CausalImputer(
        make(), [["colour"], ["old", "size"]]
    )
    for name, make in MAKERS.items()
    if name in ("gaussian", "exact match", "bank")
}
every = pytest.mark.parametrize(
    "make", [*MAKERS.values(), *CAUSAL.values()], ids=[*MAKERS, *CAUSAL]
)


def masks() -> Tensor:
    return all_coalitions(3).expand(len(X), -1, -1)


@every
def test_a_present_unseen_category_stays_and_the_rest_is_drawn(
    make: Callable[[], ms.imputers.Imputer],
) -> None:
    imputer = make()
    keys = torch.arange(8).expand(len(X), -1)
    completed = imputer.impute(X, Listed(masks(), keys), range(20))
    assert completed.rows.shape == (2, 8, 20, X.shape[1])
    assert completed.rows.isfinite().all()
    if completed.log_weights is not None:
        weights = completed.log_weights.softmax(-1)
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 8))
    sampled = imputer.sample(X, Listed(masks(), keys), range(20))
    for rows, (k, mask) in itertools.product((completed.rows, sampled), enumerate(masks()[0])):
        present = PLAYERS.expand(mask)
        kept = X[:, None, present].expand(-1, 20, -1)
        assert torch.equal(rows[:, k][..., present], kept)
        assert rows.isfinite().all()


# What has no distribution of its own can draw any numbers: all but the Gaussian ones.
@pytest.mark.parametrize("name", [name for name in MAKERS if name not in ("gaussian", "copula")])
def test_an_absent_category_is_one_that_was_seen(name: str) -> None:
    imputer = MAKERS[name]()
    keys = torch.arange(8).expand(len(X), -1)
    drawn = imputer.sample(X, Listed(masks(), keys), range(50))[:, ~masks()[0, :, 0]]
    block = drawn[..., PLAYERS.index == 0]
    assert torch.equal(block.sum(-1), torch.ones(block.shape[:-1]))
    assert set(block.unique().tolist()) == {0.0, 1.0}
    if name not in ("bank", "encoder", "weighted"):  # A decoder gives every category its share.
        assert not drawn[..., PINK].any()
