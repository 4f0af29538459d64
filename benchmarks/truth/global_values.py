"""Each repetition draws rows and labels, learns m(x_S) = E[f(X) | x_S] and h(x_S) = P(Y | x_S) on
all folds but one, and explains that fold: by `corrected_global_values`, and by the learned m alone.
Learners are small networks, trained together. Players whose true value is below a thousandth of
the largest stand apart: the influence function is as good as zero there.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import manifold_shap as ms
from benchmarks.laws.network import BayesianNetwork
from benchmarks.report import Found, Table, parts, records
from manifold_shap.corrected import folds_of
from manifold_shap.laws import SizeUniform
from manifold_shap.oracles import ConditionalLaw, GaussianMixture

TITLE = "Coverage of intervals of global values"
CAPTION = "coverage of corrected values"
ERRORS = "standard errors over repetitions"
QUICK = {"repetitions": 10, "rows": 200, "steps": 50, "truth_rows": 2000}
LEVEL, REACH = 0.95, 1.959964  # And the quantile of the normal.
_TOGETHER = 20  # Repetitions whose networks are trained in one batch.
_NULL, _FOLDS = 1e-3, 2
_HIDDEN, _ROWS, _RATE = 64, 128, 1e-2
# Of rows and coalitions, conditional means `[batch, m, classes]`.
Means = Callable[[Tensor, Tensor], Tensor]
Encode = Callable[[Tensor, Tensor], Tensor]


def run(
    laws: Sequence[str] = ("asia", "sachs", "mixture"),
    rows: int = 4000,  # of a repetition
    repetitions: int = 240,
    steps: int = 3000,  # of the training of the networks
    truth_rows: int = 400_000,  # behind the true values of laws of many states
) -> dict[str, Any]:
    """Coverage of both, by law."""
    settings = {"rows": rows, "repetitions": repetitions, "steps": steps, "truth_rows": truth_rows}
    found = parts(laws, measure, **settings)
    return {"laws": {f"{name}, {rows:,} rows": one for name, one in found.items()}}


def measure(name: str, rows: int, repetitions: int, steps: int, truth_rows: int) -> dict[str, Any]:
    """Coverage of both on one law."""
    law = law_of(name)
    model = model_of(law)
    few = len(law.names) <= 7
    estimator = ms.exact_shapley if few else partial(ms.permutation_shapley, permutations=2)
    truth = true_values(law, model, estimator, truth_rows)
    many: dict[str, list[ms.GlobalValues]] = {"corrected": [], "as learned": []}
    for first in range(0, repetitions, _TOGETHER):
        seeds = range(first, min(first + _TOGETHER, repetitions))
        data = [law.sample(rows, seed=20_000 + each) for each in seeds]
        learned = iter(learners(law, model, data, seeds, steps))
        for (x, y), each in zip(data, seeds, strict=True):
            pairs = list(itertools.islice(learned, _FOLDS))
            own, usual = iter(pairs), None if few else estimator
            options: Any = {"folds": _FOLDS, "estimator": usual, "seed": each}
            learn = lambda *_, own=own: next(own)  # noqa: E731
            many["corrected"].append(
                ms.corrected_global_values(model, x, y, learn=learn, **options)
            )
            many["as learned"].append(plain(x, y, pairs, estimator, each))
    return {kind: coverage(values, truth) for kind, values in many.items()}


def law_of(name: str) -> ConditionalLaw:
    """A law by its name; the mixture is that of seed 0."""
    if name == "mixture":
        return GaussianMixture.random(6, 3, seed=0)
    return BayesianNetwork.public(name)


def encoder(law: ConditionalLaw) -> Encode:
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


def model_of(law: ConditionalLaw) -> ms.Model:
    """A network, trained on 2,000 rows that no repetition has."""
    x, y = law.sample(2000, seed=10_000)
    encode, every = encoder(law), torch.ones(len(law.names), dtype=torch.bool)
    inputs = encode(x, every.expand(len(x), -1))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(
            nn.Linear(inputs.shape[1], 32), nn.Tanh(), nn.Linear(32, len(law.classes))
        )
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    for _ in range(200):
        optimizer.zero_grad()
        F.cross_entropy(network(inputs), y).backward()
        optimizer.step()

    @torch.no_grad()
    def model(x: Tensor) -> Tensor:
        return network(encode(x, every.expand(len(x), -1))).softmax(-1)

    return ms.as_model(model, x[:8], law.classes, "probabilities")


def true_values(law: ConditionalLaw, model: ms.Model, estimator: Any, rows: int) -> Tensor:
    """Global values: exact where states are few, elsewhere means over many rows."""
    if law.sizes is None or math.prod(law.sizes) > 2**12:
        x, y = law.sample(rows, seed=77)
        # A draw of x' given x_S is enough: global values are means over rows and draws alike.
        value = ms.imputed_value(model, ms.oracles.OracleImputer(law), draws=1)
        return ms.global_values(estimator(value, x, seed=1), y).phi
    states = torch.cartesian_prod(*(torch.arange(n) for n in law.sizes)).float()
    p = law.probability(states)
    states, p = states[p > 0], p[p > 0]
    label = law.posterior(states, torch.ones(len(p), 1, len(law.sizes), dtype=torch.bool))[:, 0]
    phi = ms.exact_shapley(ms.oracles.true_value(model, law), states).phi.double()
    return torch.einsum("s,sc,spc->p", p, label, phi)


def learners(
    law: ConditionalLaw, model: ms.Model, data: Sequence[Any], seeds: Sequence[int], steps: int
) -> list[tuple[ms.ValueFunction, ms.ValueFunction]]:
    """m and h, for each repetition and fold."""
    classes, sets = len(law.classes), []
    for (x, y), seed in zip(data, seeds, strict=True):
        numbers = folds_of(len(x), _FOLDS, seed)
        both = torch.cat((model(x, scale="probabilities"), F.one_hot(y, classes)), 1).float()
        for k in range(_FOLDS):
            others = torch.cat([*numbers[:k], *numbers[k + 1 :]])
            sets.append((x[others], both[others]))
    # Folds of one row more or less are cut to one length.
    least = min(len(x) for x, _ in sets)
    x, both = (torch.stack([one[k][:least] for one in sets]) for k in (0, 1))
    means = trained_together(x, both, encoder(law), steps, seeds[0])
    pairs = []
    for one, (x, both) in zip(means, sets, strict=True):
        m, h = (
            ms.as_value_function(
                partial(known, model, one, both.mean(0), which),
                x[:1], law.players, law.classes, "probability",
            )
            for which in (slice(classes), slice(classes, None))
        )  # fmt: skip
        pairs.append((m, h))
    return pairs


def known(
    model: ms.Model, means: Means, base: Tensor, which: slice, x: Tensor, mask: Tensor
) -> Tensor:
    """Means that are given, as probabilities; the prediction is the model's."""
    found = torch.where(mask.any(-1, keepdim=True), means(x, mask)[..., which], base[which])
    whole = model(x, scale="probabilities")[:, None]
    found = torch.where(mask.all(-1, keepdim=True), whole, found).clamp(min=1e-9)
    return found.double() / found.double().sum(-1, keepdim=True)


def trained_together(
    x: Tensor, targets: Tensor, encode: Encode, steps: int, seed: int
) -> list[Means]:
    """Conditional means of each set of rows, by a perceptron of its own, in one batch of products.

    Args:
        x: `[sets, rows, players]`.
        targets: `[sets, rows, outputs]`.
        encode: of rows and coalitions, what networks see.
        steps: of Adam; its learning rate falls to zero along a cosine.
        seed: of weights, batches and coalitions.
    """
    generator = torch.Generator().manual_seed(seed)
    sets, rows, players = x.shape
    law, every = SizeUniform(players), torch.arange(sets)[:, None]
    inputs = encode(x[0, :1], torch.ones(1, players, dtype=torch.bool)).shape[-1]
    center = targets.mean(1, keepdim=True)
    layers = [
        (torch.randn(sets, a, b, generator=generator) / math.sqrt(a / 2), torch.zeros(sets, 1, b))
        for a, b in itertools.pairwise((inputs, _HIDDEN, _HIDDEN, targets.shape[-1]))
    ]
    weights = [one.requires_grad_() for layer in layers for one in layer]
    optimizer = torch.optim.Adam(weights, lr=_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        chosen = torch.randint(rows, (sets, _ROWS), generator=generator)
        mask = law.sample_antithetic((sets, _ROWS // 2), generator).flatten(1, 2)
        found = forward(layers, encode(x[every, chosen], mask))
        # The mean over networks would make the steps of each depend on their number.
        loss = sets * F.mse_loss(found, (targets - center)[every, chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return [
        partial(means_of, [(w[[k]].detach(), b[[k]].detach()) for w, b in layers], center[k, 0],
                encode)
        for k in range(sets)
    ]  # fmt: skip


def forward(layers: Sequence[tuple[Tensor, Tensor]], x: Tensor) -> Tensor:
    """From `[networks, rows, inputs]` to `[networks, rows, outputs]`."""
    for k, (weight, bias) in enumerate(layers):
        x = torch.baddbmm(bias, x.relu() if k else x, weight)
    return x


def means_of(layers: Any, center: Tensor, encode: Encode, x: Tensor, mask: Tensor) -> Tensor:
    rows = x[:, None].expand(-1, mask.shape[1], -1).flatten(0, 1)
    found = forward(layers, encode(rows, mask.flatten(0, 1))[None])[0]
    return (found + center).unflatten(0, mask.shape[:2])


def plain(x: Tensor, y: Tensor, pairs: Any, estimator: Any, seed: int) -> ms.GlobalValues:
    """The usual global values of what was learned on other folds."""
    numbers = folds_of(len(x), len(pairs), seed)
    phi = torch.cat([
        estimator(value, x[part], seed=seed).phi.double()[torch.arange(len(part)), :, y[part]]
        for part, (value, _) in zip(numbers, pairs, strict=True)
    ])  # fmt: skip
    names = pairs[0][0].players.names
    return ms.GlobalValues(phi.mean(0), phi.std(0) / len(x) ** 0.5, 0, 0, names, len(x))


def coverage(many: Sequence[ms.GlobalValues], truth: Tensor) -> dict[str, Any]:
    """Of intervals at the level, pooled over players and of the worst of them."""
    phi, error = (torch.stack([vars(v)[k] for v in many]) for k in ("phi", "standard_error"))
    covered = ((phi - truth).abs() <= REACH * error).double()
    null = truth.abs() < _NULL * truth.abs().max()
    each = covered.mean(0)
    pooled = each[~null].mean().item(), (covered[:, ~null].mean(1).std() / len(phi) ** 0.5).item()
    found: dict[str, Any] = {
        "pooled": pooled,
        "lowest": each[~null].min().item(),
        "bias over error": ((phi.mean(0) - truth).abs() / error.mean(0))[~null].max().item(),
        "mean width": (2 * REACH * error)[:, ~null].mean().item(),
    }
    if bool(null.any()):
        found["players of hardly any value"] = each[null].mean().item()
    return found


def tables(found: Found) -> list[Table]:
    kept = ("pooled", "lowest", "bias over error", "mean width", "players of hardly any value")
    shown = {
        f"{law}, {kind}": {key: one[kind][key] for key in kept if key in one[kind]}
        for law, one in found["laws"].items()
        for kind in ("corrected", "as learned")
    }
    return [records(f"{LEVEL:.0%} intervals", shown)]


def summary(found: Found) -> dict[str, Any]:
    laws = found["laws"].items()
    return {name: one["corrected"]["pooled"][0] for name, one in laws}
