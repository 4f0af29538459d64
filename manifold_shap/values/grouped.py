"""Gives any value function coarser players: groups of its own that join and leave together."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from manifold_shap._checks import check_distinct, check_known, check_whole
from manifold_shap._messages import shown
from manifold_shap.coalitions import Coalitions, Listed
from manifold_shap.players import Players, check_fixed
from manifold_shap.segmentation import check_labels
from manifold_shap.tables.rows import constant_players
from manifold_shap.text.vocabulary import Vocabulary
from manifold_shap.values.base import ValueFunction
from manifold_shap.values.mapped import MappedValue


class GroupedValue(MappedValue):
    """A value function whose players are groups of the players of another one.

        >>> from manifold_shap.values.wrapped import as_value_function
        >>> x = torch.tensor([[1.0, 2.0, 4.0]])
        >>> game = as_value_function(lambda x, mask: (x[:, None] * mask).sum(-1, True), x)
        >>> pairs = game.grouped({"first two": ["x0", "x1"]})
        >>> pairs.players.names
        ('first two', 'x2')
        >>> pairs(x, torch.tensor([[[True, False]]]))
        tensor([[[3.]]])

    Attributes:
        value: the value function whose players are grouped.

    Args:
        value: any value function.
        groups: one of
            - names of the groups and the players in each, `{"address": ["street", "city"]}`;
              players that are in no group stay on their own. Constant columns of a table do not
              play, and are dropped;
            - a label map of whole numbers from 0 on, one for each player or, shaped as an input
              row, for each element: equal labels, one group. For pictures with channels also
              `[height, width]`, the same for all channels;
            - coarser `Players` of the same rows, such as `Players.patches((3, 32, 32), 8)`, whose
              names the groups then have;
            - a callable from rows `[batch, *event]` to a label map for each, `[batch, *event]`,
              such as `superpixels(50)`, `label_maps(x, labels)` or the words of tokens: rows then
              have players of their own. A row has labels from 0 to as many as it needs; -1 for
              what belongs to nobody, such as padding, which is in every coalition.
        count: the most groups that a row can have; for a callable that has no `count` itself, as
            superpixels and label maps have.

    Raises:
        TypeError: `groups` is none of these, or, for a callable, `count` no whole number.
        ValueError: an unknown player, one that is in two groups, a group named like a constant
            column, labels that skip a number or that split a player; a `count` that is too small.
    """

    def __init__(
        self,
        value: ValueFunction,
        groups: Any,
        count: int | None = None,
    ) -> None:
        self._labels: Callable[[Tensor], Any] | None = None
        if isinstance(groups, Mapping):
            constants = constant_players(value.players, value.spec.table)
            names, member = members_by_name(groups, value.players, constants)
        elif callable(groups) and not isinstance(groups, Tensor):
            of_tokens = isinstance(getattr(groups, "__self__", None), Vocabulary)
            if of_tokens and value.spec.table is not None:
                raise ValueError(
                    "Expected groups of the rows of texts but got those of a `Vocabulary`, which "
                    'has other numbers; `ms.Explainer(model, texts, players="sentences")` has '
                    "sentences."
                )
            self._labels = groups
            check_fixed(value.players, "groups that differ from row to row")
            most = "a callable that labels each row needs it: the most groups that a row can have"
            count = getattr(groups, "count", None) if count is None else count
            of_texts = value.spec.table is not None and value.players.by_row
            noun = "part" if of_texts else getattr(groups, "noun", "group")
            noun = groups.__name__.removesuffix("s") if of_tokens else noun
            # Words are counted as those of an `Explainer`.
            numbers = range(check_whole("count", count, fix=most))
            names = [f"{noun} {k + (noun != 'group')}" for k in numbers]
            member = torch.zeros(0, dtype=torch.int64)
        elif isinstance(groups, Players):
            names, member = list(groups.names), _by_label(groups.index, value.players)[1]
        else:
            names, member = _by_label(torch.as_tensor(groups), value.players)
        players = (
            value.players.grouped(names, member)
            if self._labels is None
            else Players.of_rows(value.players.event, len(names), names)
        )
        constant_players(players, value.spec.table)  # Their names are not for groups.
        # A law is over players, and so is a quality: neither is of coalitions of groups.
        super().__init__(value, players=players, training_law=None, quality=None)
        self._member = member

    @property
    def provenance(self) -> dict[str, Any]:
        return {**super().provenance, "grouped": len(self.players)}

    def to(self, device: torch.device | str) -> "GroupedValue":
        super().to(device)
        self._member = self._member.to(self.device)
        return self

    def owners(self, x: Tensor) -> Int64[Tensor, "batch *event"]:
        if self._labels is None:
            return self.players.owners(x)
        labels = torch.as_tensor(self._labels(x)).to(x.device)
        if labels.shape != x.shape or labels.is_floating_point():
            raise ValueError(
                f"Expected label maps of whole numbers of shape {tuple(x.shape)}, one for each "
                f"row, but got {labels.dtype} of shape {tuple(labels.shape)}."
            )
        if int(check_labels(labels.long()).max()) > len(self.players):
            raise ValueError(
                f"Expected labels below `count`, {len(self.players)}, but got "
                f"{int(labels.max())}; give count={int(labels.max()) + 1} or more."
            )
        return labels.long()

    def base(self, x: Tensor) -> Float[Tensor, "batch outputs"]:
        """v(∅), with what belongs to nobody: it is in every coalition."""
        if self._labels is None:
            return super().base(x)
        none = torch.zeros(len(x), 1, len(self.players), dtype=torch.bool, device=x.device)
        nobody, keys = self._ungrouped(x, none), torch.zeros_like(none[..., 0], dtype=torch.int64)
        return self.value._anchored(x, nobody, self.value.owned(x)[:, None], keys).values[:, 0]

    def mapped_variance(self, variance: Tensor) -> Tensor:
        return variance

    def within(self, x: Tensor, coalitions: Coalitions) -> Coalitions:
        # Coalitions that differ by a group are not related player by player.
        return Listed(self._ungrouped(x, coalitions.masks()), coalitions.each_key())

    def _ungrouped(
        self, x: Tensor, mask: Bool[Tensor, "batch m groups"]
    ) -> Bool[Tensor, "batch m players"]:
        """The coalitions of the players that are grouped."""
        if self._labels is None:
            return mask[..., self._member.to(mask.device)]
        owners = self.value.owners(x).flatten(1)
        group = _of_players(self.owners(x).flatten(1), owners, len(self.value.players))
        place = group.clamp(min=0)[:, None].expand(-1, mask.shape[1], -1)
        return mask.gather(2, place) | (group < 0)[:, None]


def members_by_name(
    groups: Mapping[str, Any], players: Players, constants: Collection[str] = ()
) -> tuple[list[str], Tensor]:
    """Names of the groups, and which group each player is in; the rest are groups of their own.

    Groups may hold `constants` besides players: they are dropped.

    Raises:
        ValueError: an unknown player, or one that is in two groups.
    """
    for group, members in groups.items():
        if isinstance(members, str | Players):
            raise TypeError(
                f"Expected names of the players of group {group!r} in a list but got {members!r}; "
                f"a single one is [{members if isinstance(members, str) else 'name'!r}]."
            )
    named = [name for members in groups.values() for name in members]
    check_known(named, [*players.names, *constants], "players in `groups`")
    check_distinct(named, "players in `groups`", "put each of them into one group")
    empty = [name for name, members in groups.items() if set(members) <= set(constants)]
    if empty:
        raise ValueError(
            f"Expected players in every group of `groups` but {shown(empty)} hold none."
        )
    number = {name: k for k, members in enumerate(groups.values()) for name in members}
    alone = [name for name in players.names if name not in number]
    number |= {name: k for k, name in enumerate(alone, len(groups))}
    return [*groups, *alone], torch.tensor([number[name] for name in players.names])


def _by_label(labels: Tensor, players: Players) -> tuple[list[str], Tensor]:
    event = players.event
    if labels.numel() != len(players) and labels.shape in (event, event[1:]):
        elements = labels.expand(event).flatten()[None]
        labels = _of_players(elements, players.index.flatten()[None], len(players))
    labels = labels.flatten()
    count = int(labels.max()) + 1
    every = torch.equal(labels.unique().cpu(), torch.arange(count))
    if len(labels) != len(players) or not every:
        raise ValueError(
            f"Expected a label map of whole numbers 0, 1, ... without a gap, one for each of "
            f"{len(players)} players or of shape {event}, but got {len(labels)} of "
            f"{labels.unique().tolist()[:20]}; maps that differ from row to row are "
            "`label_maps(x, labels)`."
        )
    return [f"group {k}" for k in range(count)], labels.long()


def _of_players(
    labels: Int64[Tensor, "rows elements"], owners: Int64[Tensor, "rows elements"], players: int
) -> Int64[Tensor, "rows players"]:
    """Labels of players, from those of the elements that they own; -1 for those a row lacks."""
    index = owners.to(labels.device).expand(len(labels), -1)
    index = index.where(index >= 0, players)
    own = labels.new_full((len(labels), players + 1), -1).scatter(1, index, labels)
    if bool((labels[index == players] >= 0).any()):
        raise ValueError(
            "Expected a label of -1 for every element of padding; groups are of what a row has."
        )
    if not torch.equal(own.gather(1, index), labels):
        raise ValueError(
            "Expected the elements of one player to have one label in every row; a label map may "
            "not split the players that it groups."
        )
    return own[:, :-1]
