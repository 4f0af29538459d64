"""A surrogate that gets one model call a value, and what a mixture makes of x_S, as inputs."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from manifold_shap.coalitions import Coalitions, Listed
from manifold_shap.imputers import MixtureImputer, TableImputer
from manifold_shap.imputers.mixture import Mixture
from manifold_shap.laws import CoalitionLaw
from manifold_shap.players import Players
from manifold_shap.surrogate.game import GameShape
from manifold_shap.surrogate.perceptron import Perceptron
from manifold_shap.surrogate.targets import evaluate_teacher
from manifold_shap.surrogate.value import SurrogateValue
from manifold_shap.tables.rows import encoded
from manifold_shap.training.task import centred
from manifold_shap.values.base import Estimate, ValueFunction
from manifold_shap.values.batches import Batches

# Pairs for which hints are computed at a time.
_PAIRS_PER_CALL = 8192
# One in so many pairs is of a training row.
_OWN = 8


class GuidedNetwork(nn.Module):
    """w h + (1 - w) g: the hint h is T(f(x)) of a completed row, and g an output of the network.

    A `Perceptron` gives both g and the log-odds of w, from x_S, E[X | x_S] and the hint. Of a hint
    that is a distribution the combination is one.

    Args:
        game: see `SurrogateNetwork`; of a table.
        hidden, activation, binned: see `Perceptron`.
    """

    # A call completes rows besides asking the model, so that fewer calls pay.
    batch_size = 65_536
    blocks = 0.0
    of_tokens = False
    index: Tensor

    def __init__(
        self,
        game: GameShape,
        hidden: Sequence[int] = (128, 128),
        activation: str = "relu",
        binned: Sequence[int] = (),
    ) -> None:
        super().__init__()
        self.game, index = game, list(game.index)
        self.register_buffer("index", torch.tensor(index), persistent=False)
        # The expected row and the hint are a player of their own, who is always present.
        owners = [*index, *[max(index) + 1] * (len(index) + game.outputs)]
        inside = GameShape((len(owners),), owners, game.outputs + 1, on_simplex=False)
        self.body = Perceptron(inside, hidden, activation, binned)

    @property
    def target_scale(self) -> Float[Tensor, " outputs"]:
        """Of g, off the simplex."""
        return self.body.target_scale[: self.game.outputs]

    @torch.no_grad()
    def standardise(self, pairs: Sequence[Tensor], target: Float[Tensor, "pairs outputs"]) -> None:
        """Take means, scales and bins from some pairs, the arguments of a call."""
        # Logarithms, of weights and of probabilities, have no unit.
        own = torch.zeros_like(target) if self.game.on_simplex else target
        units = torch.cat((own, target.new_zeros(len(target), 1)), dim=1)
        self.body.standardise(self._inputs(*pairs), units)

    def forward(
        self,
        x: Float[Tensor, "pairs elements"],
        mask: Bool[Tensor, "pairs players"],
        expected: Float[Tensor, "pairs elements"],
        hint: Float[Tensor, "pairs outputs"],
    ) -> Float[Tensor, "pairs outputs"]:
        present = torch.cat((mask, torch.ones_like(mask[:, :1])), dim=1)
        inputs = self._inputs(x, mask, expected, hint)
        raw = self.body(inputs, present[:, None])[:, 0].float()
        own, log_odds = raw.tensor_split([self.game.outputs], dim=1)
        own = own.softmax(-1) if self.game.on_simplex else own
        return torch.lerp(own, hint, log_odds.sigmoid())

    def _inputs(self, x: Tensor, mask: Tensor, expected: Tensor, hint: Tensor) -> Tensor:
        return torch.cat((x, torch.where(mask[:, self.index], x, expected), hint), dim=1)


class GuidedValue(SurrogateValue):
    """v(S) = w T(f(x_S, x̂_{S̄})) + (1 - w) g, one model row a value.

    The guide, a finite mixture, gives E[X | x_S] in closed form, and x̂ as the nearest row that
    there may be. The model at the row that x̂ completes is right where most players are known, trees
    and all, which a network would have to learn. A network chooses w by x_S, E[X | x_S] and that
    answer, and adds an output g.

    `fit_surrogate` makes one of a teacher and a guide.

    >>> import manifold_shap as ms
    >>> x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    >>> few = {"max_epochs": 1, "trainer": {"accelerator": "cpu", "limit_train_batches": 5}}
    >>> model, guide = ms.as_model(lambda x: x[:, :2].softmax(-1), x), ms.imputers.MixtureImputer(x)
    >>> taught = {"teacher": ms.imputed_value(model, guide, draws=8), "teacher_pairs": 100}
    >>> value = ms.fit_surrogate(model, x, guide=guide, hidden=[8], **taught, **few)
    >>> value.name, value.spec.work.draws
    ('guided_surrogate', 1)

    Attributes:
        surrogate: gives w and g.
        guide: the mixture.

    Args:
        args, more: see `SurrogateValue`.
        guide: see above.
    """

    surrogate: Any

    def __init__(self, *args: Any, guide: Mixture, **more: Any) -> None:
        # One call of the model for each value.
        super().__init__(*args, name="guided_surrogate", cost="model", **more)
        self.guide = guide

    @property
    def provenance(self) -> dict[str, Any]:
        return {**super().provenance, "components": len(self.guide)}

    def to(self, device: torch.device | str) -> "GuidedValue":
        super().to(device)
        self.guide.to(device)
        return self

    def one_network(self, chosen: Tensor | None = None) -> None:
        """None: the model gives a part of each value."""

    def values(self, x: Tensor, coalitions: Coalitions) -> Estimate:
        mask = coalitions.masks()
        expected, _, hint = self.hints(x, mask)
        seen = encoded(x, self.spec.table).flatten(1).repeat_interleave(mask.shape[1], 0)
        parts = (part.flatten(0, 1) for part in (mask, expected, hint))
        with self.products():
            found = self.surrogate(seen, *parts).unflatten(0, coalitions.shape)
            return Estimate(self.placed(found))

    @torch.no_grad()
    def hints(
        self, x: Float[Tensor, "batch *event"], mask: Bool[Tensor, "batch m players"]
    ) -> tuple[
        Float[Tensor, "batch m elements"],
        Float[Tensor, "batch m *event"],
        Float[Tensor, "batch m outputs"],
    ]:
        """E[X | x_S] of the elements, of which the absent ones count; a completed row; its T(f(x)).

        These predictions are differences from `center`. One call of the model, for all rows.
        """
        expected, typical = self.guide.expected(encoded(x, self.spec.table).flatten(1), mask)
        table = self.spec.table
        if table is not None:
            halves = typical.new_full((*mask.shape[:2], *self.players.event), 0.5)
            typical = table.nearest(typical, halves)
        drawn = typical.unflatten(-1, self.players.event)
        completed = torch.where(self.players.expand(mask), x[:, None], drawn)
        predicted = centred(self.prediction(completed.flatten(0, 1)), self.center)
        return expected, completed, predicted.unflatten(0, mask.shape[:2])


def mixture_of(guide: Any, teacher: Any, players: Players) -> Mixture:
    """The mixture of a guide.

    Raises:
        TypeError: the guide has none, or the teacher draws no rows.
        ValueError: the guide has other players.
    """
    if teacher is None or teacher.draw_rows(1, 0) is None:
        raise TypeError(
            "Expected `teacher` to be a value function of an imputer, such as one of "
            f"`imputed_value`, beside a `guide` but got {type(teacher).__name__}."
        )
    inner = guide.inner if isinstance(guide, TableImputer) else guide
    if not isinstance(inner, MixtureImputer):
        raise TypeError(
            "Expected `guide` to be a `MixtureImputer`, or a `table_imputer` of one, but got "
            f"{type(inner).__name__}."
        )
    if not guide.players.same_as(players):
        raise ValueError(
            f"Expected `guide` to have the surrogate's players {players.names[:5]} but it has "
            f"{guide.players.names[:5]}, or they own other elements; give the same to both."
        )
    return inner.mixture


def pairs_with_hints(
    value: GuidedValue,
    teacher: ValueFunction,
    x: Tensor,
    law: CoalitionLaw,
    count: int,
    seed: int,
    progress: bool | None,
) -> list[Tensor]:
    """As many pairs of drawn rows whose values are the teacher's, as many of other drawn rows with
    the model's predictions as targets, and an eighth of all of training rows with theirs.

    Drawn rows are known to no teacher; training rows correct what its imputer has wrong.

    Args:
        value: gives hints; its network is not asked.
        teacher: of whose imputer rows are drawn.
        x: training rows.
        law: of the coalitions that the teacher is not asked for.
        count: values of the teacher.
        seed: of all that is drawn.
        progress: see `evaluate_teacher`.

    Returns:
        The number of each pair's row, the arguments of a `GuidedNetwork`, and targets.
    """
    drawn, half = cast(Tensor, teacher.draw_rows(count, seed)), count // 2
    known = evaluate_teacher(teacher, drawn[:half], count, seed, progress, center=value.center)
    own = 2 * count // (_OWN - 1) // 2
    generator = torch.Generator().manual_seed(seed + 1)
    single = torch.arange(half, count)
    again = torch.randint(len(x), (own,), generator=generator) + count
    row, others = torch.cat((known.row, single, again)), torch.cat((single, again))
    x = torch.cat((drawn.cpu(), x))
    parts = others.split(_PAIRS_PER_CALL)
    masks = [law.sample_antithetic((len(some),), generator) for some in parts]
    outputs = [centred(value.prediction(x[some]), value.center).cpu() for some in parts]
    mask = torch.cat((known.mask, *masks))
    target = torch.cat((known.target, torch.cat(outputs)[:, None].expand(-1, 2, -1)))
    row, mask = row.repeat_interleave(2), mask.flatten(0, 1)

    def hints(row: Tensor, some: Coalitions) -> Tensor:
        mean, _, hint = value.hints(x[row].to(value.device), some.masks().to(value.device))
        return torch.cat((mean, hint), dim=-1).cpu()

    ask = Batches(value, _PAIRS_PER_CALL, progress)
    ask.bar.total = len(row)
    with ask.bar:
        both = ask(hints, row, Listed(mask[:, None], torch.zeros_like(row)[:, None]))[:, 0]
    seen = encoded(x, value.spec.table).flatten(1)[row]
    return [row, seen, mask, *both.tensor_split([seen.shape[1]], dim=1), target.flatten(0, 1)]
