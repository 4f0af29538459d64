"""Laws of benchmarks: posteriors and draws against sums over joint states, and rows that match."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from benchmarks.laws.latent import MISSING, NAMES, LatentClasses
from benchmarks.laws.network import BayesianNetwork, Variable
from manifold_shap.coalitions import all_coalitions
from tests.laws import Enumerated

FILES = Path(os.environ.get("MANIFOLD_SHAP_DATA", "."), "bayesian_networks")
# Of each comparison of frequencies with a law; there are about 40 in this file.
FALSE_ALARM = 1e-5


def check_counts(counts: Tensor, p: Tensor) -> None:
    """By a chi-squared test of the states that are expected five times or more."""
    wanted = p / p.sum() * counts.sum()
    assert (counts[wanted == 0] == 0).all()
    often = wanted > 5
    if int(often.sum()) > 1:
        wanted = wanted[often] * counts[often].sum() / wanted[often].sum()
        assert stats.chisquare(counts[often], wanted).pvalue > FALSE_ALARM


def random_network(seed: int, variables: int = 6) -> BayesianNetwork:
    """A network of random arrows and tables, in a random order, with zeros among them."""
    generator = torch.Generator().manual_seed(seed)

    def whole(high: int) -> int:
        return int(torch.randint(high, (), generator=generator))

    sizes = [2 + whole(3) for _ in range(variables)]
    made = []
    for k in range(variables):
        parents = [j for j in range(k) if whole(2) and k - j < 4]
        table = torch.rand([*(sizes[j] for j in parents), sizes[k]], generator=generator).double()
        table = torch.where(table < 0.1, 0, table) + 1e-3 * (torch.arange(sizes[k]) == 0)
        states, above = tuple(f"s{i}" for i in range(sizes[k])), tuple(f"v{j}" for j in parents)
        made.append(Variable(f"v{k}", states, above, table / table.sum(-1, keepdim=True)))
    order = torch.randperm(variables, generator=generator).tolist()
    return BayesianNetwork([made[k] for k in order], f"v{whole(variables)}")


def joint(law: BayesianNetwork) -> Enumerated:
    """The same law by all joint states: the product of all tables, each with an axis of its own."""
    names = [*law.names, law.target]
    terms: list[Any] = []
    for each in law.variables:
        terms += [each.table, [names.index(name) for name in (*each.parents, each.name)]]
    return Enumerated(torch.einsum(*terms, [*range(len(names))]).contiguous())


networks = pytest.mark.parametrize("law", [*map(random_network, range(4))], ids=lambda v: v.target)


@networks
def test_posteriors_are_sums_over_the_joint_states(law: BayesianNetwork) -> None:
    whole, x = joint(law), law.sample(3, seed=1).x
    mask = all_coalitions(len(law.names)).expand(3, -1, -1)
    torch.testing.assert_close(law.posterior(x, mask), whole.posterior(x, mask), rtol=0, atol=1e-12)
    states = torch.cartesian_prod(*(torch.arange(n) for n in law.sizes)).float()
    torch.testing.assert_close(law.probability(states), whole.probability(states))


@networks
def test_draws_are_distributed_like_the_joint(law: BayesianNetwork) -> None:
    whole, x = joint(law), law.sample(2, seed=2).x
    mask = torch.rand(2, 3, len(law.names), generator=torch.Generator().manual_seed(1)) < 0.5
    mask[0, 0] = False
    drawn = law.draw(x, mask, range(20_000), torch.arange(6).view(2, 3))
    expected = whole.given(x, mask).flatten(2)
    strides = torch.tensor(whole.joint.stride())
    codes = (torch.cat((drawn.x.long(), drawn.y[..., None]), -1) * strides).sum(-1)
    for found, p in zip(codes.flatten(0, 1), expected.flatten(0, 1), strict=True):
        check_counts(torch.bincount(found, minlength=len(p)), p)


@pytest.mark.skipif(not FILES.exists(), reason="no 'bayesian_networks' in MANIFOLD_SHAP_DATA")
@pytest.mark.parametrize(("name", "variables"), [("asia", 8), ("sachs", 11), ("child", 20)])
def test_public_networks_are_read(name: str, variables: int) -> None:
    law = BayesianNetwork.public(name)
    assert len(law.variables) == variables
    x, y = law.sample(6000)
    base = law.posterior(x[:1], torch.zeros(1, 1, x.shape[1], dtype=torch.bool))[0, 0]
    check_counts(torch.bincount(y, minlength=len(base)), base)
    assert torch.equal(law.rows(law.frame(x)), x)


def features(x: Tensor) -> Any:
    """Numbers, whether they are missing, and every value of a category."""
    cells = torch.where(x == MISSING, torch.nan, x.double()).numpy()
    numbers = cells[:, :5]
    values = [cells[:, 5:] == value for value in range(6)]
    return np.concatenate((np.nan_to_num(numbers), np.isnan(cells), *values), axis=1)


@pytest.mark.parametrize("names", [("region", "grade"), ("member", "region", "visits")])
def test_draws_of_latent_classes_are_like_rows_that_match(names: tuple[str, ...]) -> None:
    law = LatentClasses(seed=3)
    x, y = law.sample(200_000, seed=1)
    assert torch.equal(law.rows(law.frame(x[:500])), x[:500])
    mask = torch.tensor([[[name in names for name in NAMES]]])
    for row in range(3):
        alike = (x[:, mask[0, 0]] == x[row, mask[0, 0]]).all(1)
        rows = features(x[alike])
        assert len(rows) > 300
        drawn = features(law.draw(x[[row]], mask, range(20_000), torch.tensor([[row]])).x[0, 0])
        error = np.hypot(rows.std(0) / len(rows) ** 0.5, drawn.std(0) / 20_000**0.5)
        np.testing.assert_array_less(abs(drawn.mean(0) - rows.mean(0)), 4.5 * error + 1e-9)
        check_counts(torch.bincount(y[alike], minlength=8), law.posterior(x[[row]], mask)[0, 0])
