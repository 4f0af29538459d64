"""What every imputer offers: draws of the absent features, given the present ones."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from manifold_shap import _random
from manifold_shap._checks import check_rows, to_tensor
from manifold_shap.players import Players

# The stream of random numbers by which weighted draws are resampled.
_RESAMPLING = -2

# With fewer players the orders of a call have most of their coalitions in common, and `impute`
# factorises each of these once.
LEAST_PLAYERS = 8


class Completions(NamedTuple):
    """Completed rows, and what each of them counts for.

    Attributes:
        rows: `[batch, m, draws, *event]`; present players keep their values.
        log_weights: `[batch, m, draws]`, up to a constant of the (row, coalition) that is the same
            for all of its draws, asked for at once or in parts; None where all count the same.
        effective_draws: `[batch, m]`, the effective sample size of the weights behind equally
            weighted draws, such as those of a bank; None where there are none.
    """

    rows: Tensor
    log_weights: Tensor | None = None
    effective_draws: Tensor | None = None


class Imputer(nn.Module):
    """A conditional distribution p(x' | x_S) of the data, for every coalition S.

    Attributes:
        name: as in the configuration.
        players: who plays; by default every element of a row on its own.
        reference: a copy of the rows of the data distribution that it was made from,
            `[rows, *event]`; they give v(∅).
        proposals: weighted draws among which equally weighted ones are chosen; 1 where draws have
            no weights.
        population: how many different draws there are, after which they repeat; None for no end.
        walks: whether `impute_runs` takes less than `impute` for coalitions along an order.

    Raises:
        TypeError, ValueError: `reference` is no tensor or array of finite rows of the shape that
            `players` own.
    """

    name: str
    reference: Tensor
    proposals: int = 1
    population: int | None = None
    walks: bool = False

    def __init__(self, reference: Any, players: Players | None = None) -> None:
        super().__init__()
        rows = to_tensor(reference, "reference")
        self.players = players or Players.of_elements(rows.shape[1:])
        rows = check_rows(rows, self.players, "reference").clone()
        # Not persistent: a checkpoint must not hold the data.
        self.register_buffer("reference", rows, persistent=False)

    @property
    def provenance(self) -> dict[str, Any]:
        """What an explanation records of it: plain numbers and strings."""
        return {}

    @property
    def surrounds(self) -> bool:
        """Whether `impute_runs` takes less than `impute` for coalitions around one."""
        return self.walks

    @property
    def device(self) -> torch.device:
        """Where rows are completed."""
        return self.reference.device

    @abstractmethod
    def impute(
        self,
        x: Float[Tensor, "batch *event"],
        mask: Bool[Tensor, "batch m players"],
        draws: range,
        keys: Int64[Tensor, "batch m"],
    ) -> Completions:
        """Complete m coalitions of every row.

        Args:
            x: rows; what absent players have in them is never looked at.
            mask: `True` = in the coalition; empty and full ones are allowed.
            draws: numbers of the draws. Draw number k is the same whether asked for alone or
                with others.
            keys: coalitions with equal keys share their random numbers (see `noise`).
        """

    def impute_runs(
        self,
        x: Float[Tensor, "batch *event"],
        mask: Bool[Tensor, "batch m players"],
        draws: range,
        keys: Int64[Tensor, "batch m"],
        run: int,
        most: int,
    ) -> Iterator[Completions]:
        """`impute` for runs of coalitions in which each is like the one before, part by part.

        What neighbours have in common need not be worked out again. Each run is completed as if it
        were alone: the numbers do not depend on how many come at once.

        Args:
            x, mask, draws, keys: as for `impute`; all coalitions of a run have one key.
            run: coalitions in a run, of which m is a multiple.
            most: coalitions of each row in a part.

        Yields:
            The completions of the next coalitions of all rows, `most` or fewer.
        """
        if not (self.walks and _grow(mask.unflatten(1, (-1, run)))):
            for some, own in zip(mask.split(most, 1), keys.split(most, 1), strict=True):
                yield self.impute(x, some, draws, own)
            return
        # Several whole runs, or a piece of one: it grows, too, from a larger coalition.
        runs, piece = max(1, most // run), min(run, most)
        for some, own in zip(mask.split(runs * run, 1), keys.split(runs * run, 1), strict=True):
            for grown in some.unflatten(1, (-1, run)).split(piece, 2):
                yield self.impute_along(x, grown, draws, own[:, ::run])

    def impute_along(
        self,
        x: Float[Tensor, "batch *event"],
        mask: Bool[Tensor, "batch runs run players"],
        draws: range,
        keys: Int64[Tensor, "batch runs"],
    ) -> Completions:
        """`impute` for coalitions each of which contains the one before it in its run.

        Args:
            x, draws: as for `impute`.
            mask: coalitions; some players may be there from the start, others never come.
            keys: one per run.

        Returns:
            The completions of run after run, as `impute` has them.
        """
        return self.impute(x, mask.flatten(1, 2), draws, keys.repeat_interleave(mask.shape[2], 1))

    def sample(
        self,
        x: Float[Tensor, "batch *event"],
        mask: Bool[Tensor, "batch m players"],
        draws: range,
        keys: Int64[Tensor, "batch m"],
    ) -> Float[Tensor, "batch m draws *event"]:
        """Equally weighted draws; weighted ones are resampled in proportion to their weights.

        Draw number k is one of the proposals of its block, the k // `proposals`-th, so that it is
        the same whether asked for alone or with others.
        """
        block = self.proposals
        pool = range(draws.start // block * block, -(-draws.stop // block) * block)
        completed = self.impute(x, mask, pool, keys)
        if completed.log_weights is None:
            return completed.rows[:, :, draws.start - pool.start :][:, :, : len(draws)]
        upper = completed.log_weights.unflatten(-1, (-1, block)).softmax(-1).cumsum(-1)
        u = _random.uniform(_random.fold(keys, _RESAMPLING), (), pool).unflatten(-1, (-1, block))
        within = torch.searchsorted(upper, u * upper[..., -1:]).clamp(max=block - 1)
        chosen = within + block * torch.arange(within.shape[-2], device=x.device)[:, None]
        chosen = chosen.flatten(-2)[..., draws.start - pool.start :][..., : len(draws)]
        index = chosen.reshape(*chosen.shape, *(1,) * len(self.players.event))
        return completed.rows.gather(2, index.expand(-1, -1, -1, *self.players.event))

    def undrawn(self, draws: int) -> float:
        """Share of the population that so many draws leave out, and may err about.

        0 where the draws are all there is, 1 for fresh samples.
        """
        return 1.0

    def noisy(self, draws: int) -> bool:
        """Whether another seed would give another mean over so many draws."""
        return self.undrawn(draws) > 0

    def splice(
        self,
        x: Float[Tensor, "batch *event"],
        mask: Bool[Tensor, "batch m players"],
        drawn: Float[Tensor, "..."],
    ) -> Float[Tensor, "batch m draws *event"]:
        """Rows that keep what is present in `x` and take the rest from `drawn`.

        `drawn` is `[batch, m, draws, *event]`, or broadcasts to it.
        """
        present = self.players.expand(mask)[:, :, None]
        return torch.where(present, x[:, None, None], drawn)


def arrivals(
    present: Bool[Tensor, "runs run elements"],
) -> tuple[Int64[Tensor, "runs elements"], Int64[Tensor, "runs elements"]]:
    """Elements of growing coalitions as they arrive, and when each of these does.

    One that is there from the start arrives at 0, one that never comes at the length of the run.
    """
    arrival, order = (~present).sum(1).sort(dim=-1, stable=True)
    return order, arrival


def _grow(mask: Bool[Tensor, "batch runs run players"]) -> bool:
    """Whether no player leaves."""
    return not bool((mask[:, :, :-1] & ~mask[:, :, 1:]).any())
