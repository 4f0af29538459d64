"""Small networks, and sums over all of their joint states, which need no elimination."""

import itertools
import os
from pathlib import Path

import pytest
import torch
from torch import Tensor

from benchmarks.laws.network import BayesianNetwork
from benchmarks.laws.variables import Variable

FOLDER = os.environ.get("MANIFOLD_SHAP_DATA")
# Public networks, and the variable that is the label of each.
TARGETS = {"asia": "dysp", "sachs": "Akt", "child": "Disease", "insurance": "PropCost"}


def shared(name: str) -> Path:
    """The file of a public network, where a folder holds it."""
    return Path(FOLDER or ".", "bayesian_networks", f"{name}.bif.gz")


needs_files = pytest.mark.skipif(
    not shared("asia").exists(),
    reason="no 'bayesian_networks' in a folder named by MANIFOLD_SHAP_DATA",
)


def garden() -> BayesianNetwork:
    """Six variables: a loop, a state that never occurs, a copy, and one that nothing touches."""
    generator = torch.Generator().manual_seed(0)

    def table(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator).double() + 0.1

    def of(numbers: Tensor) -> Tensor:
        return numbers / numbers.sum(-1, keepdim=True)

    wet = of(table(3, 2, 2))
    wet[0, 0] = torch.tensor([0.0, 1.0])
    return BayesianNetwork(
        [
            Variable("slippery", ("yes", "no"), ("wet",), torch.eye(2)),
            Variable("season", ("dry", "mild", "wet"), (), of(table(3))),
            Variable("rain", ("yes", "no"), ("season",), of(table(3, 2))),
            Variable("sprinkler", ("on", "off", "broken"), ("season",), of(table(3, 3))),
            Variable("wet", ("yes", "no"), ("sprinkler", "rain"), wet),
            Variable("gnome", ("red", "blue"), (), of(table(2))),
        ],
        "rain",
    )


def random_network(seed: int, variables: int = 6) -> BayesianNetwork:
    """A network of random arrows and tables, in a random order, with some zeros in them."""
    generator = torch.Generator().manual_seed(seed)

    def whole(high: int) -> int:
        return int(torch.randint(high, (), generator=generator))

    sizes = [2 + whole(3) for _ in range(variables)]
    made = []
    for k in range(variables):
        parents = [j for j in range(k) if whole(2) and k - j < 4]
        shape = [*(sizes[j] for j in parents), sizes[k]]
        table = torch.rand(shape, generator=generator).double()
        table = torch.where(table < 0.1, 0, table) + 1e-3 * (torch.arange(sizes[k]) == 0)
        table = table / table.sum(-1, keepdim=True)
        states = tuple(f"s{i}" for i in range(sizes[k]))
        made.append(Variable(f"v{k}", states, tuple(f"v{j}" for j in parents), table))
    order = torch.randperm(variables, generator=generator).tolist()
    return BayesianNetwork([made[k] for k in order], f"v{whole(variables)}")


def joint(law: BayesianNetwork) -> Tensor:
    """P(every joint state), `[*sizes of the players, classes]`, as a product of the tables."""
    by_name = {each.name: each for each in law.variables}
    names = [*law.names, law.target]
    states = [range(len(by_name[name].states)) for name in names]
    whole = torch.zeros([len(each) for each in states], dtype=torch.float64)
    for place in itertools.product(*states):
        at = dict(zip(names, place, strict=True))
        p = 1.0
        for each in law.variables:
            assert each.table is not None
            p *= each.table[tuple(at[v] for v in (*each.parents, each.name))].item()
        whole[place] = p
    return whole


def given(whole: Tensor, row: Tensor, present: Tensor) -> Tensor:
    """P(x', y, x_S) of one row and coalition: zero wherever x' differs from x_S."""
    for axis, (state, seen) in enumerate(zip(row.long().tolist(), present.tolist(), strict=True)):
        if seen:
            shape = [1] * whole.ndim
            shape[axis] = -1
            whole = whole * (torch.arange(whole.shape[axis]) == state).view(shape)
    return whole
