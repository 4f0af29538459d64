"""Estimates Shapley values by adaptive sampling: more samples where contributions vary more.

A sample is the marginal contribution of one player in a uniformly random order; the errors so far
decide which player is sampled next (Noé et al. 2024, Algorithms 1 and 2, after Štrumbelj &
Kononenko 2014). Contributions in different orders do not telescope, so the values are adjusted in
the end to have the known sum (Eqs. 28-29).
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap import _random
from manifold_shap._checks import check_whole
from manifold_shap.coalitions import Listed
from manifold_shap.estimators.evaluator import Evaluator, diagonal
from manifold_shap.estimators.runner import Asking, Result, explain
from manifold_shap.estimators.sampling import Moments, Sampler, check_one_budget
from manifold_shap.explanation import Explanation
from manifold_shap.ordering import Ordering
from manifold_shap.values.selected import Outputs

SAMPLES_PER_PLAYER = 64
MAX_SAMPLES_PER_PLAYER = 2**16
# Of a round on one row: numbers drawn.
_MOST_NUMBERS = 2**22
# Apart from the seed of a value function, which makes its draws from the same keys.
_ARRIVALS = 0x61727269


def adaptive_shapley(
    value: Any,
    x: Any,
    *,
    evaluations: int | None = None,
    samples: int | None = None,
    least: int = 16,
    target_error: float | None = None,
    ordering: Ordering | Sequence[Sequence[str]] | None = None,
    outputs: Outputs = None,
    seed: int = 0,
    batch_size: int | None = None,
    progress: bool | None = None,
) -> Explanation:
    """Estimate Shapley values from marginal contributions, sampled by a Neyman-type allocation.

        >>> game = lambda x, mask: (x[:, None] * mask).sum(-1, keepdim=True)
        >>> adaptive_shapley(game, torch.tensor([[1.0, 2.0, 3.0]]), samples=48).phi.flatten()
        tensor([1., 2., 3.])

    First every player is sampled `least` times, then the one whose next sample reduces the expected
    squared error of all most, tr Σ_i/m_i - tr Σ_i/(m_i + 1): Algorithm 2 of Noé et al. (2024),
    where the two branches of the condition are printed in the wrong order. Variances are updated
    after each round of samples. In the end the values are adjusted, in proportion to the variances
    of their estimates, to sum to v(N) - v(∅): Eqs. (28)-(29), see `adjust`.

    It is biased, by a small part of a standard error: which player is sampled depends on earlier
    contributions. And a player whose first contributions are equal by chance is not sampled again
    and counts as known, so that intervals are too narrow where contributions are rare and large, as
    those of a conjunction, or where `least` is small.

    A contribution costs two values here, and one in `permutation_shapley`, which is at least as
    precise but where the contributions of a few out of many players vary much.

    Args:
        value: a `ValueFunction`, or a callable; see `as_value_function`.
        x: rows to explain, `[instances, *event]`.
        evaluations: values of v per row; the budget in place of `samples`, which take two each.
        samples: contributions per row, of all players together; by default 64 times the players.
        least: contributions of each player, at least 2. With few, a player's may be equal by
            chance, and its error underestimated.
        target_error: stop a row when its largest standard error falls below this share of the
            range of v on that row; `samples` is then the most that a row may take (by default
            65,536 times the players).
        ordering: names of the players, component after component, as in `[["a", "b"], ["c"]]`:
            only orders in which earlier components come first are taken. By default all are.
        outputs: those to explain: names or positions, one or a list; by default all. See
            `ValueFunction.select`.
        seed: of the orders. Same seed, same answer, for any `batch_size` and device, unless the
            value function's own rounding differs: it may then decide between equal players.
        batch_size: model rows per call; changes memory and time, not the numbers.
        progress: show a bar with the time left on work of more than two seconds; by default
            where a person looks.

    Returns:
        An explanation with standard errors over samples, from orders and draws.

    Raises:
        ValueError: `least` below 2; `samples` below `least` for every player, or `evaluations`
            beside them; a `target_error` that is not positive; an `ordering` that does not name
            every player once, or is a causal graph or of groups.
        TypeError: `samples` or `least` is no whole number; an `ordering` that is no list of lists.
    """
    return explain(estimator=adaptive, **locals())


def adaptive(
    game: Evaluator,
    evaluations: int | None = None,
    samples: int | None = None,
    least: int = 16,
    target_error: float | None = None,
    seed: int = 0,
) -> Asking[Result]:
    """The estimator of `adaptive_shapley`."""
    component, players = game.order.component, len(game.players)
    if component is None:
        raise ValueError(
            "Expected an `ordering` by components for `adaptive_shapley`, as in [['a', 'b'], "
            "['c']], but got a causal graph or groups; use `permutation_shapley`."
        )
    if evaluations is not None:
        check_one_budget("samples", samples, evaluations)
        samples = check_whole("evaluations", evaluations, 2) // 2
    least = check_whole("least", least, 2, fix="a variance takes two contributions")
    each = SAMPLES_PER_PLAYER if target_error is None else MAX_SAMPLES_PER_PLAYER
    usual, first = players * max(least, each), players * least
    fix = f"`least` is {least} for each of {players} players"
    most = check_whole("samples", usual if samples is None else samples, first, fix=fix)
    made_by = {"estimator": "adaptive", "least": least, "seed": seed}
    if players == 1:  # Its contribution is known.
        return Result(game.total.double()[:, None], {**made_by, "samples": 0})
    sampler = _Contributions(game, component, target_error, seed, least)
    yield from sampler.run(_rounds(players, first, most), most)
    return sampler.result(made_by, sampler.moments.counts.amin(1).cpu() - 1.0)


def _rounds(players: int, first: int, most: int) -> Iterator[range]:
    """Numbers of the samples of each round: `first` of all players before any is chosen."""
    done = 0
    while done < most:
        # Variances are better known as samples grow in number, so that rounds may grow as well.
        wanted = first - done if done < first else min(most - done, max(players, done // 4))
        size = min(wanted, max(1, _MOST_NUMBERS // players))
        yield range(done, done + size)
        done += size


class _Contributions(Sampler):
    """Contributions of single players: `least` of each, then where they reduce the error most."""

    unit, asked = "samples", 2

    def __init__(
        self, game: Evaluator, component: Tensor, target_error: float | None, seed: int, least: int
    ) -> None:
        super().__init__(game, target_error)
        self.least = least
        self.moments = Moments(game.shape, game.device, game.full_covariance)
        self._component = component.double().to(game.device)
        self._keys = game.keys(seed).to(game.device)

    def take(self, rows: Tensor, numbers: range) -> Asking[None]:
        owner = self._owners(rows, numbers)
        blocks = self.game.blocks(owner.shape[1] * self.game.shape[1], rows)
        for some, own in zip(blocks, owner.split(len(blocks[0])), strict=True):
            where = some.to(own.device)
            # A sample's number among all of its player, whose new ones stand together.
            number = torch.arange(own.shape[1], device=own.device) - torch.searchsorted(own, own)
            number += self.moments.counts[where].gather(1, own)
            keys = _random.fold(_random.fold(self._keys[where, None], own), number)
            values = yield from self._values(some, own, keys)
            self.see(some, values)
            self.moments.add_single(some, own, values[:, :, 1] - values[:, :, 0])

    def estimate(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        where = rows.to(self.game.device)
        total = self.game.total[where].double()
        return adjust(self.moments.mean[where], self.moments.variance(rows), total)

    def _owners(self, rows: Tensor, numbers: range) -> Int64[Tensor, "rows samples"]:
        """The players to sample next, in ascending order."""
        device, players = self.game.device, self.game.shape[1]
        if numbers.start < self.least * players:
            owner = torch.arange(numbers.start, numbers.stop, device=device) // self.least
            return owner.repeat(len(rows), 1)
        counts = self.moments.counts[rows.to(device)]
        trace = diagonal(self.moments.variance(rows)).sum(-1) * counts
        chosen: list[Tensor] = []
        for _ in numbers:
            chosen.append((trace / (counts * (counts + 1))).argmax(1, keepdim=True))
            counts = counts.scatter_add(1, chosen[-1], torch.ones_like(chosen[-1]))
        return torch.cat(chosen, 1).sort(1).values

    def _values(
        self,
        rows: Tensor,
        owner: Int64[Tensor, "rows samples"],
        keys: Int64[Tensor, "rows samples"],
    ) -> Asking[Float[Tensor, "rows samples 2 outputs"]]:
        """v of a player's predecessors in an order of its own, without and with the player.

        Both share the random numbers of a sampled value function: `w` of Algorithm 1.
        """
        game, players = self.game, self.game.shape[1]
        arrival = _random.uniform(_random.fold(keys, _ARRIVALS), (players,)) + self._component
        own = owner[..., None]
        before = arrival < arrival.gather(-1, own)
        mask = torch.stack((before, before.scatter(-1, own, True)), dim=2).flatten(1, 2)
        empty, full = ~mask.any(-1, keepdim=True), mask.all(-1, keepdim=True)
        # The empty and the grand coalition are known: others, by one player, stand in for them.
        first = torch.arange(players, device=mask.device) == 0
        proper, twice = mask ^ ((empty | full) & first), keys.repeat_interleave(2, 1)
        values = yield rows, Listed(proper, twice)
        base, prediction = (end[:, None] for end in game.ends(rows))
        values = torch.where(empty, base, torch.where(full, prediction, values))
        return values.unflatten(1, (-1, 2))


def adjust(
    phi: Float[Tensor, "rows players outputs"],
    covariance: Float[Tensor, "rows players *errors"],
    total: Float[Tensor, "rows outputs"],
) -> tuple[Float[Tensor, "rows players outputs"], Float[Tensor, "rows players *errors"]]:
    """Adjust estimates to their known sum by weighted least squares.

    Player i takes the share w_i = tr C_i / Σ_j tr C_j, or 1/n where every trace is zero: Eqs.
    (28)-(29) of Noé et al. (2024) for ε → 0, where the sum is met exactly, with the variance of the
    estimate, Σ_i/m_i, as in their text. As estimates of different players are independent, the
    errors of adjusted ones have covariances (1 - w_i)² C_i + w_i² Σ_{j≠i} C_j.

    Args:
        phi: estimates.
        covariance: C_i of their errors, `[rows, players, outputs, outputs]` or its diagonal alone.
        total: their known sum.
    """
    trace = diagonal(covariance).sum(-1)
    trace = torch.where(trace.sum(1, keepdim=True) > 0, trace, 1.0)
    share = trace / trace.sum(1, keepdim=True)
    lack = total - phi.sum(1)
    moved = phi + share[..., None] * lack[:, None]
    share = share.reshape(*share.shape, *[1] * (covariance.ndim - 2))
    return moved, (1 - 2 * share) * covariance + share**2 * covariance.sum(1, keepdim=True)
