"""How often intervals of global Shapley values hold the true ones, on laws that are known.

Each repetition draws rows and labels, learns m(x_S) = E[f(X) | x_S] and h(x_S) = P(Y | x_S) on all
folds but one, and explains the rows of that fold: by `corrected_global_values`, and by the learned
m alone, as `global_values` has it. Asia has cell means, and every coalition; Sachs small networks
and a pair of orders for each row; the Gaussian mixture small networks and every coalition. The
model is a network trained on other rows. Players whose true global value is below a thousandth of
the largest stand apart.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import manifold_shap as ms
from benchmarks.laws.network import BayesianNetwork
from benchmarks.report import Found, Table, parts, records
from benchmarks.support.repetitions import KnownMeans, Means, cell_means, trained_together
from manifold_shap.coalitions import all_coalitions
from manifold_shap.corrected import folds_of
from manifold_shap.oracles import ConditionalLaw, GaussianMixture
from manifold_shap.values.wrapped import as_value_function

TITLE = "Coverage of intervals of global values"
ERRORS = "standard errors over repetitions"
QUICK = {"repetitions": 10, "rows": [200], "steps": 50, "truth_rows": 2000}
LEVEL = 0.95
# Repetitions whose networks are trained in one batch.
_TOGETHER = 20
# Players whose true values are below this share of the largest, for whose values the influence
# function is as good as zero: what is left of the bias is then no small part of the error.
_NULL = 1e-3


def run(
    laws: Sequence[str] = ("asia", "sachs", "mixture"),
    rows: Sequence[int] = (4000,),  # of a repetition
    repetitions: int = 500,
    folds: int = 2,
    steps: int = 3000,  # of the training of the networks
    truth_rows: int = 400_000,  # behind the true values of the mixture
    seed: int = 0,
) -> dict[str, Any]:
    """Coverage of both, by law and number of rows."""
    settings = {"repetitions": repetitions, "folds": folds, "steps": steps}
    found: dict[str, Any] = {}
    for count in rows:
        many = parts(laws, measure, rows=count, truth_rows=truth_rows, seed=seed, **settings)
        found |= {f"{name}, {count:,} rows": one for name, one in many.items()}
    return {"laws": found}


def measure(
    name: str,
    rows: int,
    repetitions: int,
    folds: int,
    steps: int,
    truth_rows: int,
    seed: int,
) -> dict[str, Any]:
    """Coverage of both on one law."""
    law = law_of(name)
    model = model_of(law, seed)
    truth, its_error = true_values(law, model, truth_rows)
    many = repeated(name, law, model, repetitions, rows, folds, steps)
    return {
        "players": list(law.names), "truth": truth.tolist(), "error of the truth": its_error,
        **{kind: coverage(*pair, truth) for kind, pair in many.items()},
    }  # fmt: skip


def law_of(name: str) -> ConditionalLaw:
    """A law by its name; the mixture is that of seed 0."""
    if name == "mixture":
        return GaussianMixture.random(6, 3, seed=0)
    return BayesianNetwork.public(name)


def encoder(law: ConditionalLaw) -> Callable[[Tensor, Tensor], Tensor]:
    """What networks see: one number for each state, or the number itself; and the coalition."""
    if law.sizes is None:
        return lambda x, mask: torch.cat((x * mask, mask), -1)
    sizes = law.sizes

    def encode(x: Tensor, mask: Tensor) -> Tensor:
        states = x.long().unbind(-1)
        hot = [F.one_hot(own, size) for own, size in zip(states, sizes, strict=True)]
        seen = [own * mask[..., k, None] for k, own in enumerate(hot)]
        return torch.cat((*seen, mask), -1).float()

    return encode


def model_of(law: ConditionalLaw, seed: int) -> ms.Model:
    """A network, trained on 2,000 rows that no repetition has."""
    x, y = law.sample(2000, seed=10_000 + seed)
    encode = encoder(law)
    generator = torch.Generator().manual_seed(seed)
    every = torch.ones(1, len(law.names), dtype=torch.bool)
    inputs = encode(x, every.expand(len(x), -1))
    weights = [
        (torch.randn(a, b, generator=generator) / a**0.5).requires_grad_()
        for a, b in ((inputs.shape[1], 32), (32, len(law.classes)))
    ]
    optimizer = torch.optim.Adam(weights, lr=1e-2)
    for _ in range(200):
        loss = F.cross_entropy((inputs @ weights[0]).tanh() @ weights[1], y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    first, second = (weight.detach() for weight in weights)

    def model(x: Tensor) -> Tensor:
        seen = encode(x, every.expand(len(x), -1))
        return ((seen @ first).tanh() @ second).softmax(-1)

    return ms.as_model(model, x[:8], law.classes, "probabilities")


def true_values(law: ConditionalLaw, model: ms.Model, rows: int) -> tuple[Tensor, float]:
    """Global values, and the largest of their standard errors: exact where states are few."""
    if law.sizes is None:
        x, y = law.sample(rows, seed=77)
        # A draw of x' given x_S is enough: global values are means over rows and draws alike.
        value = ms.imputed_value(model, ms.oracles.OracleImputer(law), draws=1)
        found = ms.global_values(ms.exact_shapley(value, x, seed=1), y)
        return found.phi, found.standard_error.max().item()
    states = torch.cartesian_prod(*(torch.arange(n) for n in law.sizes)).float()
    p = law.probability(states)
    there = torch.ones(1, len(law.sizes), dtype=torch.bool)
    label = torch.zeros(len(states), len(law.classes)).double()
    label[p > 0] = law.posterior(states[p > 0], there.expand(int((p > 0).sum()), 1, -1))[:, 0]
    outputs = model(states, scale="probabilities").double()
    both = torch.stack((label, outputs), 1) * p[:, None, None]
    table = torch.cat((both.flatten(1), p[:, None]), 1).unflatten(0, law.sizes)
    games = []
    for mask in all_coalitions(len(law.sizes)):
        absent = (~mask).nonzero()[:, 0].tolist()
        cells = (table.sum(absent) if absent else table).reshape(-1, table.shape[-1])
        h, m = cells[:, :-1].unflatten(1, (2, -1)).unbind(1)
        weight = cells[:, -1].clamp(min=1e-300)
        games.append(((h * m).sum(1) / weight).sum())
    numbers = torch.stack(games)
    place = 2 ** torch.arange(len(law.sizes))
    order = torch.empty(len(numbers), dtype=torch.int64)
    order[(all_coalitions(len(law.sizes)) * place).sum(1)] = torch.arange(len(numbers))
    row = torch.zeros(1, len(law.sizes))
    game = as_value_function(
        lambda x, mask: numbers[order[(mask * place).sum(-1)]][..., None], row, outputs=["nu"]
    )
    return ms.exact_shapley(game, row).phi[0, :, 0].double(), 0.0


def repeated(
    name: str,
    law: ConditionalLaw,
    model: ms.Model,
    repetitions: int,
    rows: int,
    folds: int,
    steps: int,
) -> dict[str, tuple[Tensor, Tensor]]:
    """By kind, global values and their standard errors `[repetitions, players]`."""
    estimator = None
    if name == "sachs":
        estimator = partial(ms.permutation_shapley, permutations=2)
    found: dict[str, list[ms.GlobalValues]] = {"corrected": [], "as learned": []}
    for first in range(0, repetitions, _TOGETHER):
        seeds = range(first, min(first + _TOGETHER, repetitions))
        data = [law.sample(rows, seed=20_000 + seed) for seed in seeds]
        learned = learners(name, law, model, data, seeds, folds, steps)
        for (x, y), seed, pairs in zip(data, seeds, learned, strict=True):
            own = iter(pairs)
            options: Any = {"folds": folds, "estimator": estimator, "seed": seed}
            found["corrected"].append(
                ms.corrected_global_values(
                    model, x, y, learn=lambda *_, own=own: next(own), **options
                )
            )
            found["as learned"].append(plain(x, y, pairs, estimator or ms.exact_shapley, seed))
    return {
        kind: (torch.stack([v.phi for v in many]), torch.stack([v.standard_error for v in many]))
        for kind, many in found.items()
    }


def learners(
    name: str,
    law: ConditionalLaw,
    model: ms.Model,
    data: Sequence[Any],
    seeds: Sequence[int],
    folds: int,
    steps: int,
) -> list[list[tuple[KnownMeans, KnownMeans]]]:
    """For each repetition and fold, m and h."""
    classes = len(law.classes)
    sets = []
    for (x, y), seed in zip(data, seeds, strict=True):
        parts = folds_of(len(x), folds, seed)
        both = torch.cat((model(x, scale="probabilities"), F.one_hot(y, classes)), 1).float()
        for k in range(folds):
            others = torch.cat([*parts[:k], *parts[k + 1 :]])
            sets.append((x[others], both[others]))
    if name == "asia":
        means = [cell_means(x, both, law.sizes or ()) for x, both in sets]
    else:
        # Folds of one row more or less are cut to one length.
        least = min(len(x) for x, _ in sets)
        means = trained_together(
            torch.stack([x[:least] for x, _ in sets]),
            torch.stack([both[:least] for _, both in sets]),
            encoder(law), steps, seeds[0],
        )  # fmt: skip
    pairs = []
    for one, (_, both) in zip(means, sets, strict=True):
        base = both.mean(0)
        m, h = (partial(_part, one, which) for which in (slice(classes), slice(classes, None)))
        pairs.append(
            (
                KnownMeans(model, law.players, m, base[:classes]),
                KnownMeans(model, law.players, h, base[classes:]),
            )
        )
    return [pairs[first : first + folds] for first in range(0, len(pairs), folds)]


def _part(means: Means, which: slice, x: Tensor, mask: Tensor) -> Tensor:
    return means(x, mask)[..., which]


def plain(x: Tensor, y: Tensor, pairs: Any, estimator: Any, seed: int) -> ms.GlobalValues:
    """The usual global values of what was learned on other folds."""
    parts = folds_of(len(x), len(pairs), seed)
    phi, of = [], torch.cat(parts)
    for part, (value, _) in zip(parts, pairs, strict=True):
        phi.append(estimator(value, x[part], seed=seed).phi.double())
    true = torch.cat(phi)[torch.arange(len(x)), :, y[of]]
    return ms.GlobalValues(
        true.mean(0), true.std(0) / len(x) ** 0.5, 0, 0, value.players.names, len(x)
    )


def coverage(phi: Tensor, error: Tensor, truth: Tensor) -> dict[str, Any]:
    """Of intervals at the level, pooled over players and of the worst of them."""
    reach = torch.distributions.Normal(0.0, 1.0).icdf(torch.tensor((1 + LEVEL) / 2)).item()
    covered = ((phi - truth).abs() <= reach * error).double()
    null = truth.abs() < _NULL * truth.abs().max()
    each = covered.mean(0)
    found = {
        "pooled": [
            each[~null].mean().item(),
            (covered[:, ~null].mean(1).std() / len(phi) ** 0.5).item(),
        ],
        "lowest": each[~null].min().item(),
        "bias over error": ((phi.mean(0) - truth).abs() / error.mean(0))[~null].max().item(),
        "mean width": (2 * reach * error)[:, ~null].mean().item(),
        "by player": each.tolist(),
    }
    return found | (
        {"players of hardly any value": each[null].mean().item()} if bool(null.any()) else {}
    )


def tables(found: Found) -> list[Table]:
    shown = {
        f"{law}, {kind}": {
            k: tuple(v) if k == "pooled" else v for k, v in one[kind].items() if k != "by player"
        }
        for law, one in found["laws"].items()
        for kind in ("corrected", "as learned")
    }
    return [records(f"{LEVEL:.0%} intervals", shown)]


def summary(found: Found) -> dict[str, Any]:
    return {
        f"coverage of corrected values, {law}": one["corrected"]["pooled"][0]
        for law, one in found["laws"].items()
    }
