"""Bayesian networks: posteriors and draws against sums over all joint states."""

import gzip
from pathlib import Path

import pytest
import torch
from scipy import stats
from torch import Tensor

from benchmarks.laws.bif import read_bif
from benchmarks.laws.network import BayesianNetwork
from manifold_shap.coalitions import all_coalitions
from manifold_shap.oracles import PosteriorValue, true_value
from tests.benchmarks.networks import (
    TARGETS,
    garden,
    given,
    joint,
    needs_files,
    random_network,
    shared,
)

# Of each comparison of frequencies with a law; there are about 40 in this file.
FALSE_ALARM = 1e-4

networks = pytest.mark.parametrize(
    "law", [garden(), *map(random_network, range(3))], ids=lambda law: law.target
)
of_files = pytest.mark.parametrize("name", TARGETS)


def every_coalition(law: BayesianNetwork, rows: int) -> Tensor:
    return all_coalitions(len(law.names)).expand(rows, -1, -1)


@networks
def test_posteriors_are_sums_over_the_joint_states(law: BayesianNetwork) -> None:
    whole, x = joint(law), law.sample(3, seed=1).x
    mask = every_coalition(law, len(x))
    posterior, evidence = law.posterior(x, mask), law.evidence(x, mask)
    for row in range(len(x)):
        for k, present in enumerate(mask[row]):
            both = given(whole, x[row], present).flatten(0, -2).sum(0)
            assert evidence[row, k] == pytest.approx(both.sum().item(), abs=1e-12)
            torch.testing.assert_close(posterior[row, k], both / both.sum(), rtol=0, atol=1e-12)


@networks
def test_probabilities_of_rows_are_those_of_the_joint(law: BayesianNetwork) -> None:
    whole = joint(law).sum(-1)
    states = torch.cartesian_prod(*(torch.arange(n) for n in law.sizes))
    p = law.probability(states.float())
    torch.testing.assert_close(p, whole.flatten(), rtol=0, atol=1e-15)
    assert p.sum() == pytest.approx(1, abs=1e-12)


@networks
def test_draws_are_distributed_like_the_joint(law: BayesianNetwork) -> None:
    whole, x = joint(law), law.sample(2, seed=2).x
    mask = torch.rand(2, 3, len(law.names), generator=torch.Generator().manual_seed(1)) < 0.5
    mask[0, 0] = False
    draws = 20_000
    drawn = law.draw(x, mask, range(draws), torch.arange(6).view(2, 3))
    strides = torch.tensor(whole.stride())
    for row in range(2):
        for k in range(3):
            expected = given(whole, x[row], mask[row, k]).flatten()
            states = torch.cat((drawn.x[row, k].long(), drawn.y[row, k][:, None]), 1)
            counts = torch.bincount((states * strides).sum(1), minlength=whole.numel())
            assert (counts[expected == 0] == 0).all()
            pvalue = chi_squared(counts, expected / expected.sum() * draws)
            assert pvalue > FALSE_ALARM


def chi_squared(counts: Tensor, expected: Tensor) -> float:
    """Of the states that are expected five times, and of all others together."""
    often = expected >= 5
    observed = torch.cat((counts[often], counts[~often].sum()[None])).double()
    wanted = torch.cat((expected[often], expected[~often].sum()[None]))
    kept = wanted > 5
    if int(kept.sum()) < 2:
        return 1.0
    rest = observed[kept].sum() / wanted[kept].sum()
    return float(stats.chisquare(observed[kept], wanted[kept] * rest).pvalue)


@needs_files
@of_files
def test_public_networks_are_read(name: str) -> None:
    law = BayesianNetwork.read(shared(name), TARGETS[name])
    assert len(law.variables) == {"asia": 8, "sachs": 11, "child": 20, "insurance": 27}[name]
    x, y = law.sample(6000)
    base = law.posterior(x[:1], torch.zeros(1, 1, x.shape[1], dtype=torch.bool))[0, 0]
    counts = torch.bincount(y, minlength=len(base))
    assert stats.chisquare(counts, base * len(x)).pvalue > FALSE_ALARM
    p = law.posterior(x, torch.ones(len(x), 1, x.shape[1], dtype=torch.bool))[:, 0]
    hits = (p.argmax(1) == y).double()
    error = (hits - p.amax(1)).std() / len(x) ** 0.5
    assert abs((hits - p.amax(1)).mean()) < 4.5 * error


TEXT = """
// A comment, and a property that nothing needs.
network weather { property author = "nobody"; }
variable season { type discrete [ 3 ] { <5, 5-12, Asy/Patch }; }
variable "the rain" { type discrete[2]{yes,no}; }
probability ( season ) { table 0.25, 0.5,
                               0.25; }
probability ( "the rain" | season ) {
  default 0.5, 0.5;
  (5-12) 1e-1, 0.9;
}
"""


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_is_read(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / "network.bif"
    path.write_bytes(gzip.compress(TEXT.encode()) if packed else TEXT.encode())
    season, rain = read_bif(path)
    assert (season.name, rain.name, rain.parents) == ("season", "the rain", ("season",))
    assert season.states == ("<5", "5-12", "Asy/Patch")
    assert season.table is not None
    assert season.table.tolist() == [0.25, 0.5, 0.25]
    assert rain.table is not None
    assert rain.table.tolist() == [[0.5, 0.5], [0.1, 0.9], [0.5, 0.5]]


@pytest.mark.parametrize("law", [garden(), random_network(1)])
def test_posteriors_are_the_true_values_of_the_best_model(law: BayesianNetwork) -> None:
    x, mask = law.sample(4).x, every_coalition(law, 4)

    def best(x: Tensor) -> Tensor:
        return law.posterior(x, torch.ones(len(x), 1, x.shape[1], dtype=torch.bool))[:, 0]

    value = true_value(best, law)
    torch.testing.assert_close(PosteriorValue(law)(x, mask), value(x, mask), rtol=0, atol=1e-12)
    assert torch.equal(value(law.frame(x), mask), value(x, mask))
