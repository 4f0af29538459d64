"""Imputes off the manifold: absent features come from background rows, whatever x_S is.

Of texts tokens are removed: by a mask token, by padding, or by deletion.
"""

from typing import Any

import torch
from torch import Tensor, nn

from manifold_shap import _random
from manifold_shap._checks import check_whole, to_tensor
from manifold_shap.coalitions import Coalitions
from manifold_shap.imputers.base import Completions, Imputer, Rows
from manifold_shap.players import Players


class MarginalImputer(Imputer):
    """x' = x_S ⊔ x''_{S̄} with x'' a row of the background data (Frye et al. 2021, Eq. 2).

    With as many draws as there are rows, or more, values are exact. Where rows are padded, the
    absent features of a row come from rows that are as long or longer (from the longest where none
    is), drawn with replacement.

    Args:
        reference: background data, `[rows, *event]`.
        players: see `Players`; by default pixels of pictures, else every element of a row.

    Raises:
        TypeError, ValueError: `reference` is no tensor or array of finite rows of the shape that
            `players` own.

    >>> imputer = MarginalImputer(torch.tensor([[1.0, 10.0], [2.0, 20.0]]))
    >>> x, mask = torch.tensor([[7.0, 70.0]]), torch.tensor([[[True, False]]])
    >>> from manifold_shap.coalitions import Listed
    >>> imputer.impute(x, Listed(mask, torch.tensor([[0]])), range(2)).rows.sort(2).values
    tensor([[[[ 7., 10.],
              [ 7., 20.]]]])
    """

    name, copies, learned, takes_padding = "marginal", True, False, True

    def __init__(self, reference: Any, players: Players | None = None) -> None:
        super().__init__(reference, players)
        shuffled = torch.randperm(len(self.reference), generator=torch.Generator().manual_seed(0))
        shuffled = shuffled.to(self.reference.device)
        # Lengths below zero, in increasing order: the longest rows come first.
        shortage, place = (-self.players.lengths(self.reference[shuffled])).sort(stable=True)
        self.distinct_draws = None if self.players.by_row else len(self.reference)
        self.order = nn.Buffer(shuffled[place], persistent=False)
        self.shortage = nn.Buffer(shortage, persistent=False)

    def impute(self, x: Rows, coalitions: Coalitions, draws: range) -> Completions:
        """Complete each coalition from distinct background rows until every row has been used.

        Where rows are padded, each is one of those that are long enough, and may come again.
        """
        mask, keys = coalitions.masks(), coalitions.each_key()
        if self.distinct_draws is None:
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
        players: see `Players`; by default pixels of a picture, else every element.

    Raises:
        TypeError, ValueError: `point` is no tensor or array of finite numbers of the shape that
            `players` own.

    >>> imputer = BaselineImputer(torch.zeros(3))
    >>> x, mask = torch.ones(1, 3), torch.tensor([[[True, False, True]]])
    >>> from manifold_shap.coalitions import Listed
    >>> imputer.impute(x, Listed(mask, torch.tensor([[0]])), range(1)).rows
    tensor([[[[1., 0., 1.]]]])
    """

    name = "baseline"

    def __init__(self, point: Any, players: Players | None = None) -> None:
        row = to_tensor(point, "point")
        players = players or Players.of_columns(None, row.shape)
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
        reference: contrast rows, `[rows, *event]`, e.g. those of another class; a single one as
            `x[:1]`.
        players: see `Players`; by default pixels of pictures, else every element of a row.

    Raises:
        TypeError, ValueError: `reference` is no tensor or array of finite rows of the shape that
            `players` own.

    >>> ContrastiveImputer(torch.zeros(5, 3)).distinct_draws
    5
    """

    name = "contrastive"


class MaskTokenImputer(BaselineImputer):
    """Absent tokens become a mask token, such as the `[MASK]` of a masked language model.

    v(∅) is the model's output at a text of mask tokens that is as long as the row. A single draw is
    exact.

    Args:
        token: id of the mask token.
        players: see `Players.tokens`.

    Raises:
        TypeError, ValueError: `token` is no whole number of at least 0, or `players` own
            rows of more than one axis.

    >>> imputer = MaskTokenImputer(9, Players.tokens(4, padding=0))
    >>> x, mask = torch.tensor([[5.0, 6, 7, 0]]), torch.tensor([[[True, False, True, False]]])
    >>> from manifold_shap.coalitions import Listed
    >>> imputer.impute(x, Listed(mask, torch.tensor([[0]])), range(1)).rows
    tensor([[[[5., 9., 7., 0.]]]])
    """

    name, dtype = "mask_token", torch.int64

    def __init__(self, token: int, players: Players) -> None:
        token = check_whole("token", token, 0)
        super().__init__(_text_of(token, players), players)
        self.token = token

    @property
    def provenance(self) -> dict[str, Any]:
        return {"token": self.token}


class PaddingImputer(BaselineImputer):
    """Absent tokens become padding, and the others stay where they are.

    v(∅) is the model's output at padding alone. A single draw is exact.

    Args:
        players: see `Players.tokens`.
        padding: id of the padding token; by default that of the players.

    Raises:
        TypeError, ValueError: `padding` is no whole number of at least 0, or `players` own
            rows of more than one axis.

    >>> imputer = PaddingImputer(Players.tokens(4, padding=0))
    >>> x, mask = torch.tensor([[5.0, 6, 7, 0]]), torch.tensor([[[True, False, True, False]]])
    >>> from manifold_shap.coalitions import Listed
    >>> imputer.impute(x, Listed(mask, torch.tensor([[0]])), range(1)).rows
    tensor([[[[5., 0., 7., 0.]]]])
    """

    name, dtype = "padding", torch.int64

    def __init__(self, players: Players, padding: int | None = None) -> None:
        if padding is None and players.padding is not None:
            padding = int(players.padding)
        padding = check_whole("padding", padding, 0, fix="give the id of the padding token")
        super().__init__(_text_of(padding, players), players)
        self.padding = padding

    @property
    def provenance(self) -> dict[str, Any]:
        return {"padding": self.padding}


class DeletionImputer(PaddingImputer):
    """Absent tokens are deleted: the others move up, and padding fills the end.

    Unlike with other imputers, a present token may therefore change its place. v(∅) is the model's
    output at padding alone. A single draw is exact.

    Args:
        players: see `Players.tokens`.
        padding: id of the padding token; by default that of the players.

    Raises:
        TypeError, ValueError: `padding` is no whole number of at least 0, or `players` own
            rows of more than one axis.

    >>> imputer = DeletionImputer(Players.tokens(4, padding=0))
    >>> x, mask = torch.tensor([[5.0, 6, 7, 0]]), torch.tensor([[[True, False, True, False]]])
    >>> from manifold_shap.coalitions import Listed
    >>> imputer.impute(x, Listed(mask, torch.tensor([[0]])), range(1)).rows
    tensor([[[[5., 7., 0., 0.]]]])
    """

    name = "deletion"

    def impute(self, x: Rows, coalitions: Coalitions, draws: range) -> Completions:
        """Delete the absent tokens of each coalition, the same in all draws."""
        mask = coalitions.masks()
        kept = self.players.expand(mask) & (self.players.owners(x) >= 0)[:, None]
        order = (~kept).argsort(dim=-1, stable=True)
        moved = x[:, None].expand(kept.shape).gather(-1, order)
        place = torch.arange(kept.shape[-1], device=x.device)
        rows = torch.where(place < kept.sum(-1, keepdim=True), moved, self.reference)
        return Completions(rows[:, :, None].expand(-1, -1, len(draws), -1))


def _text_of(token: int, players: Players) -> Tensor:
    """A text of this token alone."""
    if len(players.event) != 1:
        raise ValueError(
            "Expected `players` of token ids, rows of shape (length,), but got some of rows of "
            f"shape {players.event}; `ms.Players.tokens(length, padding)` makes them."
        )
    return torch.full(players.event, float(token))
