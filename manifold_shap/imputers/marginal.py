"""Imputes off the manifold: absent features come from background rows, whatever x_S is."""

from typing import Any

import torch
from torch import Tensor

from manifold_shap import _random
from manifold_shap._checks import to_tensor
from manifold_shap.imputers.base import Completions, Imputer, Keys, Mask, Rows
from manifold_shap.players import Players


class MarginalImputer(Imputer):
    """x' = x_S ⊔ x''_{S̄} with x'' a row of the background data (Frye et al. 2021, Eq. 2).

    With as many draws as there are rows, or more, values are exact. Where rows are padded, the
    absent features of a row come from rows that are as long or longer (from the longest where none
    is), drawn with replacement.

    Args:
        reference: background data, `[rows, *event]`.
        players: see `Players`; by default every element of a row is a player.

    Raises:
        TypeError, ValueError: `reference` is no tensor or array of finite rows of the shape that
            `players` own.

    >>> imputer = MarginalImputer(torch.tensor([[1.0, 10.0], [2.0, 20.0]]))
    >>> x, mask = torch.tensor([[7.0, 70.0]]), torch.tensor([[[True, False]]])
    >>> imputer.impute(x, mask, range(2), keys=torch.tensor([[0]])).rows.sort(2).values
    tensor([[[[ 7., 10.],
              [ 7., 20.]]]])
    """

    name, copies, takes_padding = "marginal", True, True
    order: Tensor
    shortage: Tensor

    def __init__(self, reference: Any, players: Players | None = None) -> None:
        super().__init__(reference, players)
        shuffled = torch.randperm(len(self.reference), generator=torch.Generator().manual_seed(0))
        shuffled = shuffled.to(self.reference.device)
        # Lengths below zero, in increasing order: the longest rows come first.
        shortage, place = (-self.players.lengths(self.reference[shuffled])).sort(stable=True)
        self.support = len(self.reference) if self.players.padding is None else None
        self.register_buffer("order", shuffled[place], persistent=False)
        self.register_buffer("shortage", shortage, persistent=False)

    def impute(self, x: Rows, mask: Mask, draws: range, keys: Keys) -> Completions:
        """Complete each coalition from distinct background rows until every row has been used.

        Where rows are padded, each is one of those that are long enough, and may come again.
        """
        if self.support is None:
            needed = (-self.players.lengths(x)).clamp(min=self.shortage[0])
            enough = torch.searchsorted(self.shortage, needed, right=True)[:, None, None]
            chosen = self.order[(_random.uniform(keys, (), draws).double() * enough).long()]
        else:
            chosen = self.order[_random.permuted(keys, draws, len(self.reference))]
        # Both are finite, so that a product with zero is zero; this is faster than `where`.
        present = self.present(x, mask)[:, :, None].float()
        drawn = self.reference.index_select(0, chosen.flatten())
        drawn = drawn.view(*chosen.shape, *self.players.event)
        rows = torch.addcmul(x[:, None, None] * present, drawn, 1 - present)
        return Completions(rows, donors=chosen)


class BaselineImputer(MarginalImputer):
    """Absent features take the values of one baseline, e.g. the mean row or a blank image.

    v(∅) is the model's output at the baseline, and a single draw is exact.

    Args:
        point: the baseline, `[*event]`: one row without a batch axis.
        players: see `Players`; by default every element of the baseline is a player.

    Raises:
        TypeError, ValueError: `point` is no tensor or array of finite numbers of the shape that
            `players` own.

    >>> imputer = BaselineImputer(torch.zeros(3))
    >>> x, mask = torch.ones(1, 3), torch.tensor([[[True, False, True]]])
    >>> imputer.impute(x, mask, range(1), keys=torch.tensor([[0]])).rows
    tensor([[[[1., 0., 1.]]]])
    """

    name, _argument = "baseline", "point"

    def __init__(self, point: Any, players: Players | None = None) -> None:
        row = to_tensor(point, "point")
        players = players or Players.of_elements(row.shape)
        if row.ndim == 0 or tuple(row.shape) != players.event:
            raise ValueError(
                f"Expected `point` of shape ({', '.join(map(str, players.event)) or '*event'}), "
                f"one row without a batch axis, but got {tuple(row.shape)}; take one as `x[0]`."
            )
        # A row of data is never padding alone, but a point may be.
        padded = players.padding is not None
        super().__init__(row[None], Players(players.names, players.index) if padded else players)
        self.players = players


class ContrastiveImputer(MarginalImputer):
    """Absent features come from contrast rows: why this outcome rather than theirs?

    v(∅) is the mean output over these rows, so that a row's Shapley values add up to its difference
    from that mean. With as many draws as there are rows, or more, values are exact.

    Args:
        rows: contrast rows, `[rows, *event]`, e.g. those of another class; a single one as
            `x[:1]`.
        players: see `Players`; by default every element of a row is a player.

    Raises:
        TypeError, ValueError: `rows` is no tensor or array of finite rows of the shape that
            `players` own.

    >>> ContrastiveImputer(torch.zeros(5, 3)).support
    5
    """

    name, _argument = "contrastive", "rows"

    def __init__(self, rows: Any, players: Players | None = None) -> None:
        super().__init__(rows, players)
