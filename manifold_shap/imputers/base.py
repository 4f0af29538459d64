"""Defines the contract of an imputer: it draws the absent features given the present ones."""

import inspect
import warnings
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from manifold_shap import _random
from manifold_shap._checks import check_rows, to_tensor
from manifold_shap._saved import KINDS, codes
from manifold_shap.coalitions import Coalitions
from manifold_shap.models import whole_dtype
from manifold_shap.players import Players, check_fixed, check_same_players

if TYPE_CHECKING:
    from manifold_shap.tables.base import RowAdapter

# The stream of random numbers that resamples weighted draws.
_RESAMPLING = -2

# Arguments that are the rows of an imputer.
_OF_ROWS = ("reference", "point")

# Shapes that imputers share.
Rows = Float[Tensor, "batch *event"]
Mask = Bool[Tensor, "batch m players"]
Keys = Int64[Tensor, "batch m"]
CompletedRows = Float[Tensor, "batch m draws *event"]


class Completions(NamedTuple):
    """Completed rows and their weights.

    >>> Completions(torch.zeros(1, 1, 2, 3)).log_weights is None  # Two draws of equal weight.
    True

    Attributes:
        rows: `[batch, m, draws, *event]`; present players keep their values.
        log_weights: `[batch, m, draws]`, up to a constant of the (row, coalition) that is the same
            for all of its draws, made at once or in parts; None where all weights are equal.
        effective_draws: `[batch, m]`, the effective sample size of the weights behind equally
            weighted draws, such as those of a bank; None where there are none.
        threshold: `[batch, m]`, for draws up to `draws.stop` that are a priority sample of weighted
            donors: the logarithm of the weight that lighter ones count, since they were drawn in
            proportion to their own; -inf where all donors are drawn. None for other draws.
        donors: `[batch, m, draws]`, for draws that are reference rows, the numbers of these.
    """

    rows: Tensor
    log_weights: Tensor | None = None
    effective_draws: Tensor | None = None
    threshold: Tensor | None = None
    donors: Tensor | None = None


class Imputer(nn.Module, ABC):
    """A conditional distribution p(x' | x_S) of the data, for every coalition S.

    A subclass defines `impute`, and may make use of how coalitions are related (`Nested`), which
    changes the time that completions take, never their law.

    Attributes:
        name: as in the configuration; by default that of the class.
        players: see `Players`; by default pixels of pictures, else every element of a row.
        reference: a copy of the background data, `[rows, *event]`; v(∅) is the mean over it.
        proposals: number of weighted draws among which `sample` chooses each equally weighted one;
            1 where draws have no weights.
        distinct_draws: after how many draws they repeat; None where there are infinitely many.
        copies: whether draws are cells of the reference rows, of which nothing is computed but
            whether they are equal: codes of a table do as well as numbers.
        learned: whether p(x' | x_S) is learned from the background data, with an error of its own.
        table: of the table, where rows are its codes; see `table_imputer`.
        dtype: of rows of whole numbers, such as token ids, which the model is then given as such;
            None for numbers.
        given: the type of whole numbers that the background data has, if any.
        takes_padding: whether rows may be padded (`Players.padding`). What nobody owns is always
            present, see `present`.

    Raises:
        TypeError, ValueError: `reference` is no tensor or array of finite rows of the shape that
            `players` own, or these differ from row to row.

    >>> class MeanImputer(Imputer):
    ...     distinct_draws = 1
    ...     def impute(self, x, coalitions, draws):
    ...         mean = self.reference.mean(0).expand(1, 1, len(draws), *self.players.event)
    ...         return Completions(self.splice(x, coalitions.masks(), mean))
    >>> from manifold_shap.coalitions import Listed
    >>> x, some = torch.zeros(1, 2), Listed(torch.tensor([[[True, False]]]), torch.tensor([[0]]))
    >>> MeanImputer(torch.tensor([[1.0, 2.0], [3.0, 4.0]])).sample(x, some, range(1))
    tensor([[[[0., 3.]]]])
    """

    name: str
    reference: Tensor
    proposals: int = 1
    distinct_draws: int | None = None
    copies: bool = False
    learned: bool = True
    table: "RowAdapter | None" = None
    dtype: torch.dtype | None = None
    takes_padding: bool = False
    given: torch.dtype | None = None
    kind: str

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if not hasattr(cls, "name"):
            cls.name = cls.__name__
        if "kind" not in vars(cls):
            # Not by the name alone: a class of the user's may have that of another.
            inside = cls.__module__.startswith("manifold_shap.")
            cls.kind = cls.__name__ if inside else f"{cls.__module__}.{cls.__qualname__}"
        KINDS[cls.kind] = cls

    def __new__(cls, *given: Any, **named: Any) -> Any:
        made = super().__new__(cls)
        # What it was made of, to be saved; rows are those that it holds.
        bound = inspect.signature(cls.__init__).bind_partial(made, *given, **named)
        made.__dict__["_made_of"] = {
            name: None if name in _OF_ROWS else each
            for name, each in [*bound.arguments.items()][1:]
        }
        return made

    def __init__(self, reference: Any, players: Players | None = None) -> None:
        super().__init__()
        rows = to_tensor(reference, "reference")
        self.given = whole_dtype(reference)
        players = players or Players.of_columns(reference, rows.shape[1:])
        check = check_fixed if self.takes_padding else check_same_players
        self.players = check(players, f"a {type(self).__name__}")
        rows = check_rows(rows, self.players, "reference").clone()
        # Not persistent: a checkpoint must not hold the data.
        self.register_buffer("reference", rows, persistent=False)

    # Must be defined.

    @abstractmethod
    def impute(self, x: Rows, coalitions: Coalitions, draws: range) -> Completions:
        """Complete m coalitions of every row.

        Args:
            x: rows; the values of absent players in them are never read.
            coalitions: of each row; empty and full ones are allowed.
            draws: numbers of the draws. Draw number k is the same whether drawn alone or
                with others.
        """

    # May be overridden.

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The arguments that it was made of; rows of a table as codes."""
        given: dict[str, Any] = self.__dict__["_made_of"]
        rows = self.reference if self.table is None else codes(self.reference)
        tensors = dict[str, Tensor]()
        for name, each in given.items():
            if name in _OF_ROWS:
                tensors[name] = rows[0] if name == "point" else rows
            elif isinstance(each, Tensor | np.ndarray):
                tensors[name] = torch.as_tensor(each)
        plain = {name: each for name, each in given.items() if name not in tensors}
        if "players" in inspect.signature(type(self).__init__).parameters:
            plain["players"] = self.players
        return {**plain, "table": self.table}, tensors

    @classmethod
    def restored(cls, settings: dict[str, Any], tensors: dict[str, Tensor], _: Any) -> "Imputer":
        table = settings.pop("table")
        rows: dict[str, Any] = {
            name: own.float() if table is not None and name in _OF_ROWS else own
            for name, own in tensors.items()
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # They were given when it was made.
            made = cls(**settings, **rows)
        made.table = table
        return made

    @property
    def provenance(self) -> dict[str, Any]:
        """Settings that an explanation records: plain numbers and strings."""
        return {}

    @property
    def device(self) -> torch.device:
        """Where rows are completed."""
        return self.reference.device

    @property
    def base_by_row(self) -> bool:
        """Whether v(∅) is the mean over completions of the row's own empty coalition.

        By default so where rows lack players, since what nobody owns is known. Otherwise v(∅) is
        the mean over the reference rows.
        """
        return self.players.by_row

    def sample(self, x: Rows, coalitions: Coalitions, draws: range) -> CompletedRows:
        """Equally weighted draws; weighted ones are resampled in proportion to their weights.

        Draw number k is one of the proposals of its block, the k // `proposals`-th, so that it is
        the same whether drawn alone or with others.
        """
        keys, block = coalitions.each_key(), self.proposals
        pool = range(draws.start // block * block, -(-draws.stop // block) * block)
        completed = self.impute(x, coalitions, pool)
        if completed.log_weights is None:
            return completed.rows[:, :, draws.start - pool.start :][:, :, : len(draws)]
        upper = completed.log_weights.unflatten(-1, (-1, block)).softmax(-1).cumsum(-1)
        u = _random.uniform(_random.fold(keys, _RESAMPLING), (), pool).unflatten(-1, (-1, block))
        within = torch.searchsorted(upper, u * upper[..., -1:]).clamp(max=block - 1)
        chosen = within + block * torch.arange(within.shape[-2], device=x.device)[:, None]
        chosen = chosen.flatten(-2)[..., draws.start - pool.start :][..., : len(draws)]
        index = chosen.reshape(*chosen.shape, *(1,) * len(self.players.event))
        return completed.rows.gather(2, index.expand(-1, -1, -1, *self.players.event))

    # Final.

    def unsampled_fraction(self, draws: int) -> float:
        """Share of the distinct draws that so many leave out: 1 of infinitely many.

        Where it is 0, all possible draws are taken, and no seed changes their mean.
        """
        return 1.0 if self.distinct_draws is None else max(0.0, 1 - draws / self.distinct_draws)

    def splice(self, x: Rows, mask: Mask, drawn: Float[Tensor, "..."]) -> CompletedRows:
        """Rows of `x` whose absent elements are those of `drawn`.

        `drawn` is `[batch, m, draws, *event]`, or broadcasts to it.
        """
        return torch.where(self.present(x, mask)[:, :, None], x[:, None, None], drawn)

    def present(self, x: Rows, mask: Mask) -> Bool[Tensor, "batch m *event"]:
        """Elements that are known, see `Players.known`."""
        return self.players.known(x, mask)
