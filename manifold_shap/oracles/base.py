"""Defines the contract of laws of data whose conditional distributions are known exactly."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor, nn

from manifold_shap._checks import check_coalitions, check_rows, check_seed, check_whole
from manifold_shap.players import Players

if TYPE_CHECKING:
    import pandas as pd

# Shapes that laws share.
Rows = Float[Tensor, "batch elements"]
Mask = Bool[Tensor, "batch m players"]
Keys = Int64[Tensor, "batch m"]
Posterior = Float64[Tensor, "batch m classes"]


class Drawn(NamedTuple):
    """Rows and their labels.

    >>> Drawn(torch.zeros(2, 3), torch.tensor([0, 1])).y.tolist()
    [0, 1]

    Attributes:
        x: `[*shape, elements]`, float32.
        y: positions in `classes`, `[*shape]`, int64.
    """

    x: Tensor
    y: Tensor


class ConditionalLaw(nn.Module, ABC):
    """The joint law of a row X and a label Y of which p(x', y | x_S) is known for every coalition.

    A subclass defines `draw` and `posterior` and, where rows have finitely many states, `sizes` and
    `probability`; with `frame` and `rows` it says how rows look as a table.

        >>> class Coin(ConditionalLaw):
        ...     name, classes, sizes = "coin", ("tails", "heads"), (2,)
        ...     def posterior(self, x, mask):
        ...         heads = torch.where(mask, x[:, None], 0.5).double()
        ...         return torch.cat((1 - heads, heads), -1)
        ...     def probability(self, x):
        ...         return torch.full((len(x),), 0.5).double()
        ...     def draw(self, x, mask, draws, keys):
        ...         drawn = (_random.uniform(keys, (1,), draws) < 0.5).float()
        ...         drawn = torch.where(mask[:, :, None], x[:, None, None], drawn)
        ...         return Drawn(drawn, drawn[..., 0].long())
        >>> from manifold_shap import _random
        >>> law = Coin(Players.of_elements((1,), ["side"]))
        >>> bool((law.sample(5).x[:, 0] == law.sample(5).y).all())
        True
        >>> law.complete([[1.0]], [[[True]]], draws=2).flatten()
        tensor([1., 1.])

    Attributes:
        name: of the law.
        players: see `Players`: the columns, without the label.
        classes: names of the labels.
        sizes: numbers of states of the elements of a row, which are 0, 1, ...; None where a row may
            hold any number.
    """

    name: str
    classes: tuple[str, ...]
    sizes: tuple[int, ...] | None = None

    def __init__(self, players: Players) -> None:
        super().__init__()
        self.players = players
        self._here = nn.Buffer(torch.empty(0), persistent=False)

    # -- must be defined --------------------------------------------------------------------

    @abstractmethod
    def draw(self, x: Rows, mask: Mask, draws: range, keys: Keys) -> Drawn:
        """Independent exact draws of (x', y) ~ p(x', y | x_S).

        Args:
            x: rows; what absent players hold is never read.
            mask: `True` = in the coalition; empty and full ones are allowed.
            draws: numbers of the draws. Draw number k is the same whether drawn alone or with
                others.
            keys: coalitions with equal keys share their random numbers.

        Returns:
            Rows `[batch, m, draws, elements]`, in which present players keep their values, and
            labels `[batch, m, draws]`.

        Raises:
            ValueError: x_S has no probability.
        """

    @abstractmethod
    def posterior(self, x: Rows, mask: Mask) -> Posterior:
        """P(Y = y | x_S), exactly. Arguments and errors as of `draw`."""

    def probability(self, x: Rows) -> Float64[Tensor, " batch"]:
        """P(X = x) of whole rows; to be defined where `sizes` are given."""
        raise NotImplementedError(f"{type(self).__name__} has no rows of finitely many states")

    # -- may be overridden ------------------------------------------------------------------

    def frame(self, x: Float[Tensor, "batch elements"]) -> "pd.DataFrame":
        """Rows as a table, with a column for each player."""
        import pandas as pd

        columns = x.cpu().double().numpy().T
        return pd.DataFrame(dict(zip(self.players.names, columns, strict=True)))

    def rows(self, x: Any) -> Float[Tensor, "batch elements"]:
        """Rows of the law, checked; a frame becomes what `frame` made it from.

        Raises:
            TypeError, ValueError: no numbers, or rows of another shape.
        """
        return check_rows(x, self.players)

    # -- final ------------------------------------------------------------------------------

    @property
    def device(self) -> torch.device:
        """Where rows are drawn."""
        return self._here.device

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns."""
        return self.players.names

    def sample(self, rows: int, seed: int = 0) -> Drawn:
        """Independent rows, with their labels.

        Raises:
            TypeError, ValueError: `rows` is no whole number of at least 1, or `seed` no seed.
        """
        rows, seed = check_whole("rows", rows), check_seed(seed)
        nothing = torch.zeros(1, len(self.names), device=self.device)
        nobody = torch.zeros(1, 1, len(self.names), dtype=torch.bool, device=self.device)
        key = torch.full((1, 1), seed, device=self.device)
        x, y = self.draw(nothing, nobody, range(rows), key)
        return Drawn(x[0, 0], y[0, 0])

    def complete(
        self, x: Any, mask: Any, draws: int, keys: Tensor | None = None
    ) -> Float[Tensor, "batch m draws elements"]:
        """Exact draws of x' ~ p(x' | x_S), from rows that are checked.

        Args:
            x: rows `[batch, elements]`, or a frame.
            mask: bool `[batch, m, players]`, `True` = in the coalition.
            draws: how many.
            keys: int64 `[batch, m]`; by default each coalition has draws of its own.

        Raises:
            TypeError, ValueError: `x` or `mask` of another type or shape; x_S has no probability.
        """
        x = self.rows(x).to(self.device)
        present = check_coalitions(torch.as_tensor(mask), len(x), self.players).to(self.device)
        if keys is None:
            keys = torch.arange(present[..., 0].numel(), device=x.device).view(present.shape[:2])
        return self.draw(x, present, range(check_whole("draws", draws)), keys).x


def check_possible(possible: Bool[Tensor, " pairs"]) -> None:
    """Every (row, coalition) pair has a probability, or a density, above zero.

    >>> check_possible(torch.tensor([True, True]))

    Raises:
        ValueError: one has not: there is no conditional distribution given it.
    """
    impossible = int((~possible).sum())
    if impossible:
        raise ValueError(
            f"Expected rows that the law can give but {impossible} of {len(possible)} (row, "
            "coalition) pairs have a probability of zero; take rows by `law.sample`, or from data "
            "of this law."
        )
