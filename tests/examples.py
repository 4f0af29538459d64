"""Small games, and one of every kind of value function, imputer and estimator for the contracts."""

import itertools
import math
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

import manifold_shap as ms
from manifold_shap import _random
from manifold_shap.coalitions import Coalitions
from manifold_shap.corrected import CorrectedValue
from manifold_shap.surrogate.adapted import AdaptedModel
from manifold_shap.surrogate.convolution import Convolution
from manifold_shap.surrogate.game import GameShape
from manifold_shap.surrogate.network import SurrogateNetwork
from manifold_shap.surrogate.perceptron import Perceptron
from manifold_shap.surrogate.transformer import Transformer
from manifold_shap.vae.families import choose_families
from manifold_shap.vae.network import MaskedVAE
from manifold_shap.values.base import Estimate
from manifold_shap.values.model import model_for, reference_outputs
from tests.laws import weather

Game = Callable[[Tensor, Tensor], Tensor]


class Table:
    """A game given by a table `[2^n, outputs]` of values: a bare callable.

    Rows differ: the first element of each scales the table, relative to the empty coalition.
    """

    def __init__(self, table: Tensor) -> None:
        self.table = table

    def __call__(self, x: Tensor, mask: Tensor) -> Tensor:
        table = self.table.to(x.device)
        code = (mask * 2 ** torch.arange(mask.shape[-1], device=x.device)).sum(-1)
        return table[0] + (table[code] - table[0]) * x.flatten(1)[:, :1, None]


@dataclass
class Watched:
    """A game that records its coalitions, `[batch, m, players]`, call by call."""

    game: Game
    masks: list[Tensor] = field(default_factory=list)

    def __call__(self, x: Tensor, mask: Tensor) -> Tensor:
        self.masks.append(mask.clone())
        return self.game(x, mask)

    def wrapped(self, x: Tensor) -> ms.ValueFunction:
        """As a value function, without the calls that get to know the game."""
        value = ms.as_value_function(self, x)
        self.masks.clear()
        return value

    @property
    def sizes(self) -> Tensor:
        """Of the recorded coalitions."""
        return torch.cat([mask.sum(-1).flatten() for mask in self.masks])


@dataclass
class Cramped:
    """A game on a device with room for `most` values per call."""

    game: Game
    most: int
    sizes: list[int] = field(default_factory=list)

    def __call__(self, x: Tensor, mask: Tensor) -> Tensor:
        self.sizes.append(mask.shape[0] * mask.shape[1])
        if self.sizes[-1] > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return self.game(x, mask)


class Recorded(ms.ValueFunction):
    """A game as a value function that records its coalitions and keys.

    Args:
        game: gives values of two outputs.
        players: how many.
        sampled: whether the game counts as one of draws.
        classes: how many there are, of which outputs are log-ratios, whose errors go together; by
            default the two outputs are plain numbers.
    """

    def __init__(
        self, game: Game, players: int, sampled: bool = False, classes: int | None = None
    ) -> None:
        space: ms.spaces.OutputSpace = ms.spaces.Identity() if classes is None else ms.spaces.ILR()
        names = [str(k) for k in range(classes or 2)]
        elements, work = ms.Players.of_elements((players,)), ms.values.Work(sampled=sampled)
        spec = ms.values.GameSpec(elements, space.outputs(names), space, tuple(names), work=work)
        super().__init__(spec)
        self.game = game
        self.masks: list[Tensor] = []
        self.keys: list[Tensor] = []

    def values(self, x: Tensor, coalitions: Coalitions) -> Estimate:
        mask, keys = coalitions.masks(), coalitions.each_key()
        self.masks.append(mask)
        self.keys.append(keys)
        return Estimate(self.game(x, mask))

    def prediction(self, x: Tensor) -> Tensor:
        return self.game(x, torch.ones(len(x), 1, len(self.players), dtype=torch.bool))[:, 0]

    def base(self, x: Tensor) -> Tensor:
        return self.game(x, torch.zeros(len(x), 1, len(self.players), dtype=torch.bool))[:, 0]


def known(value: ms.ValueFunction, found: Estimate) -> tuple[Tensor, Tensor, Tensor]:
    """Values, variances and effective draws: zeros, and all draws, where nothing else is said."""
    effective = found.effective_draws
    if effective is None:
        effective = torch.full(found.values.shape[:2], float(value.spec.work.draws))
    return found.values, found.noise(), effective


class Drawn(ms.ValueFunction):
    """Players add 0, 1, 2, ...; what each adds has a normal error, drawn again for every key."""

    def __init__(self, players: int) -> None:
        work = ms.values.Work(sampled=True)
        elements = ms.Players.of_elements((players,))
        super().__init__(ms.values.GameSpec(elements, ("sum",), work=work))

    def values(self, x: Tensor, coalitions: Coalitions) -> Estimate:
        mask, keys = coalitions.masks(), coalitions.each_key()
        players = len(self.players)
        worth = torch.arange(players) + _random.normal(keys, (players,))
        return Estimate((mask * worth).sum(-1, keepdim=True))

    def prediction(self, x: Tensor) -> Tensor:
        return torch.full((len(x), 1), sum(range(len(self.players)))).float()

    def base(self, x: Tensor) -> Tensor:
        return torch.zeros(len(x), 1)


class Ragged(ms.ValueFunction):
    """Rows of up to four players, each of two neighbouring elements; zeros at the end are padding.

    v(S) = (Σ² , tanh Σ) of the elements of S, beside 10 times the mean of the row. It raises where
    players that a row lacks are evaluated, or rows of different counts at once.
    """

    elements, counts_of_rows = 2, (3, 1, 4, 3, 2)

    def __init__(self, most: int = 4) -> None:
        super().__init__(self._spec(ms.Players.of_rows((2 * most,), most)))

    def _spec(self, players: ms.Players) -> ms.values.GameSpec:
        return ms.values.GameSpec(players, ("square", "tanh"), name=type(self).__name__.lower())

    def owners(self, x: Tensor) -> Tensor:
        place = torch.arange(x.shape[1], device=x.device) // 2
        return torch.where(x != 0, place, -1)

    def values(self, x: Tensor, coalitions: Coalitions) -> Estimate:
        mask = coalitions.masks()
        if not bool((mask | self.owned(x)[:, None]).all()):
            raise ValueError("a player that a row lacks is not in a coalition")
        worth = x.unflatten(1, (-1, self.elements)).sum(-1)
        return Estimate(self._of((worth[:, None] * mask).sum(-1), x))

    def prediction(self, x: Tensor) -> Tensor:
        return self._of(x.sum(1)[:, None], x)[:, 0]

    def base(self, x: Tensor) -> Tensor:
        return self._of(torch.zeros_like(x[:, :1]), x)[:, 0]

    @staticmethod
    def _of(total: Tensor, x: Tensor) -> Tensor:
        return torch.stack((total.square(), total.tanh()), -1) + 10 * x.mean(1)[:, None, None]

    @classmethod
    def some_rows(cls) -> Tensor:
        """Rows that differ in their numbers of players."""
        x = uniform(5, cls.elements * max(cls.counts_of_rows)) + 0.1
        for row, players in enumerate(cls.counts_of_rows):
            x[row, cls.elements * players :] = 0
        return x


class Padded(Ragged):
    """The same of rows of up to six tokens, each a player."""

    elements, counts_of_rows = 1, (3, 1, 6, 3, 2)

    def __init__(self, most: int = 6) -> None:
        ms.ValueFunction.__init__(self, self._spec(ms.Players.tokens(most)))

    def owners(self, x: Tensor) -> Tensor:
        return self.players.owners(x)


def random_table(players: int, outputs: int = 2, seed: int = 0) -> Tensor:
    """Values of all coalitions of a random game."""
    return torch.randn(2**players, outputs, generator=torch.Generator().manual_seed(seed))


def table(players: int, outputs: int = 2, seed: int = 0) -> Table:
    """A random game."""
    return Table(random_table(players, outputs, seed))


def additive_table(worth: Tensor) -> Tensor:
    """Values of all coalitions `[2^n, outputs]` of a game in which each player adds its worth."""
    players = len(worth)
    present = torch.arange(2**players)[:, None] >> torch.arange(players) & 1
    return 0.7 + present.to(worth) @ worth


def uniform(count: int, players: int) -> Tensor:
    """Rows of numbers from 0.5 to 1.5."""
    return torch.rand(count, players, generator=torch.Generator().manual_seed(1)) + 0.5


def normal(count: int, players: int, seed: int = 0) -> Tensor:
    """Rows of normal numbers that go together, of the same law for every `count` and `seed`."""
    mixing = torch.randn(players, players, generator=torch.Generator().manual_seed(players))
    rows = torch.randn(count, players, generator=torch.Generator().manual_seed(seed))
    return rows @ (mixing / 2 + torch.eye(players))


def brute_force(value: Game, x: Tensor, players: int) -> Tensor:
    """Mean marginal contribution over all orders, one call per coalition, in double precision."""
    phi = torch.zeros(len(x), players, value(x, torch.zeros(len(x), 1, players) > 0).shape[-1])
    phi = phi.double()
    for order in itertools.permutations(range(players)):
        mask = torch.zeros(len(x), 1, players, dtype=torch.bool)
        before = value(x, mask)
        for player in order:
            mask[..., player] = True
            after = value(x, mask)
            phi[:, player] += (after - before)[:, 0]
            before = after
    return phi / math.factorial(players)


# -- value functions ---------------------------------------------------------------------------


class Made(NamedTuple):
    """A value function, and rows for it.

    Attributes:
        moves: whether it can move to a device. One that is a function stays where its rows are.
    """

    value: ms.ValueFunction
    x: Tensor
    moves: bool = True


class Linear(torch.nn.Module):
    """Logits of a linear model; a class of its own, so that it can be pickled."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(inputs)
        self.weight = torch.nn.Parameter(torch.randn(inputs, outputs, generator=generator))

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) @ self.weight


def untrained(
    make: Callable[[GameShape], SurrogateNetwork],
    model: Any,
    x: Tensor,
    space: str = "probability",
    players: ms.Players | None = None,
    table: ms.Table | None = None,
) -> ms.SurrogateValue:
    """A surrogate with a network that nothing has trained."""
    output = ms.spaces.as_space(space)
    model = model if isinstance(model, ms.Model) else model_for(model, x, output)
    elements = table.elements if table else players or ms.Players.of_elements(tuple(x.shape[1:]))
    target = reference_outputs(model, output, x)
    torch.manual_seed(0)
    network = make(GameShape.of(elements, target.shape[1], output.on_simplex))
    network.standardise(table.encode(x) if table else x, target)
    players = table.players if table else elements
    return ms.SurrogateValue(network, model, players, output, target.mean(0), table=table)


def surrogate(space: str = "probability", players: int = 4) -> Made:
    """A surrogate of a linear model."""
    model = Linear(players, 2 if space == "log_odds" else 3)
    value = untrained(lambda game: Perceptron(game, (16, 8)), model, normal(20, players), space)
    return Made(value, normal(3, players, 1))


def of_network(kind: str, space: str = "probability") -> Made:
    """A surrogate with a network of another kind, of small pictures or of tokens."""
    torch.manual_seed(0)
    tokens = kind == "tokens"
    rows = torch.arange(80).reshape(20, 4) % 7 % 5 if tokens else normal(20, 4)
    x = rows.float() if tokens else rows.unflatten(1, (1, 2, 2))
    module = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.Softmax(-1))
    make: Callable[[GameShape], SurrogateNetwork] = {
        "convolution": lambda own: Convolution(own, hidden=[4, 8]),
        "patches": lambda own: Transformer(own, hidden=[32], patch=1),
        "tokens": lambda own: Transformer(own, hidden=[32], vocabulary=5),
        "model": lambda own: AdaptedModel(
            own, module[:2], "logits", ms.spaces.as_space(space).settings
        ),
    }[kind]
    players = ms.Players(("a", "b", "c", "d"), torch.arange(4).reshape(x.shape[1:]))
    value = untrained(make, ms.as_model(module, x), x, space, players)
    with torch.no_grad():
        for parameter in value.surrogate.parameters():  # Some weights begin as zero.
            parameter += 0.1 * torch.randn_like(parameter)
    return Made(value, x[:3] if tokens else normal(3, 4, 1).unflatten(1, (1, 2, 2)))


def imputed(imputer: ms.imputers.Imputer, space: str = "probability", draws: int = 5) -> Made:
    """An imputer behind a linear model."""
    elements = imputer.reference[0].numel()
    value = ms.imputed_value(Linear(elements, 3), imputer, space, draws=draws)
    x = normal(3, elements, 1).unflatten(1, imputer.players.event)
    return Made(value, x)


def grouped_by_row() -> Made:
    """Superpixels: the halves of the odd rows, the quarters of the others."""
    value = imputed(ms.imputers.MarginalImputer(normal(20, 8)))
    return Made(value.value.grouped(_label, 4), value.x)


def _label(x: Tensor) -> Tensor:
    quarters = torch.arange(8, device=x.device) // 2
    return torch.where(x[:, :1] > 0, quarters, quarters // 2)


def words() -> Made:
    """Words of two tokens: rows of as many words may have different numbers of tokens."""
    value, x = Padded(), Padded.some_rows()
    return Made(value.grouped(_word, 3), x, moves=False)


def _word(x: Tensor) -> Tensor:
    return torch.where(x != 0, torch.arange(x.shape[1], device=x.device) // 2, -1)


def retrained() -> Made:
    """Logistic regressions on some of the columns."""
    x = normal(60, 3)
    y = (x.sum(1) > 0).long().numpy()
    return Made(ms.retrained_value(LogisticRegression(), x, y), x[:3])


def wrapped() -> Made:
    """A bare callable."""
    x = uniform(3, 4)
    return Made(ms.as_value_function(Table(random_table(4, 3)), x), x, moves=False)


def vae(posterior: str = "bank", players: int = 4) -> ms.VAEImputer:
    """An imputer that nothing has trained."""
    torch.manual_seed(0)
    reference = normal(30, players)
    network = MaskedVAE(choose_families(reference), range(players), 2, (16,), 2)
    network.likelihood.describe(reference)
    weighted = posterior == "weighted"
    return ms.VAEImputer(
        network, reference, posterior="encoder" if weighted else posterior, importance=weighted
    )


def people(rows: int = 60, seed: int = 0) -> pd.DataFrame:
    """A small frame of mixed columns, with missing cells."""
    generator = np.random.default_rng(seed)
    age = generator.integers(18, 80, rows)
    return pd.DataFrame(
        {
            "age": age,
            "income": np.where(generator.random(rows) < 0.3, np.nan, generator.normal(age / 20)),
            "town": generator.choice(np.array(["Oslo", "Rome", "Bern", None]), rows),
            "member": generator.random(rows) < age / 100,
        }
    )


def people_model(frame: pd.DataFrame) -> Tensor:
    """Probabilities of two classes, for rows of `people`."""
    town = frame["town"].map({"Oslo": 0.5, "Rome": -0.5}).fillna(0.1).astype(float)
    income = frame["income"].fillna(-1.0).astype(float)
    member = frame["member"].astype(str) == "True"
    logits = frame["age"] / 40 + income * np.where(member, 1.0, -0.5) + town
    p = torch.from_numpy(1 / (1 + np.exp(-logits.to_numpy(dtype=float)))).float()
    return torch.stack((p, 1 - p), -1)


def of_people(kind: type[ms.imputers.Imputer], **settings: Any) -> ms.imputers.Imputer:
    """An imputer of the cells of `people`."""
    frame = people()
    return ms.imputers.table_imputer(kind, ms.Table.fit(frame), frame, **settings)


def vae_of_people() -> ms.imputers.TableImputer:
    """A VAE of a table that nothing has trained."""
    torch.manual_seed(0)
    table = ms.Table.fit(people())
    codes, elements = table.rows(people()), table.elements
    x = table.encode(codes)
    network = MaskedVAE(
        choose_families(x, elements.index.tolist()), elements.index.tolist(), 2, (16,), 2
    )
    network.likelihood.describe(x)
    return ms.imputers.TableImputer(table, ms.VAEImputer(network, x, elements), codes)


def _of_codes(table: ms.Table, x: Tensor) -> Tensor:
    """Probabilities of a model that takes codes, by way of the frame that they stand for."""
    return people_model(table.frame(x))


def imputed_people(imputer: ms.imputers.Imputer) -> Made:
    """An imputer of a table behind its model."""
    table = imputer.table
    assert table is not None
    model = ms.Model(partial(_of_codes, table), ["yes", "no"], "probabilities")
    return Made(ms.imputed_value(model, imputer, draws=5), table.rows(people(3, 1)))


def surrogate_of_people() -> Made:
    """A surrogate of a table that nothing has trained."""
    table = ms.Table.fit(people())
    model = ms.Model(partial(_of_codes, table), ["yes", "no"], "probabilities")
    codes = table.rows(people())
    value = untrained(lambda game: Perceptron(game, (16, 8)), model, codes, table=table)
    return Made(value, table.rows(people(3, 1)))


def guided(teacher: ms.ImputedValue, guide: ms.imputers.Imputer) -> ms.ValueFunction:
    """A guided surrogate that next to nothing has trained."""
    few: dict[str, Any] = {"teacher_pairs": 64, "hidden": [16, 8], "max_epochs": 1}
    few |= {"trainer": {"accelerator": "cpu", "limit_train_batches": 1}}
    x = teacher.imputer.reference
    return ms.fit_surrogate(
        teacher.model, x, space=teacher.space, teacher=teacher, guide=guide, **few
    )


def guided_people() -> Made:
    """A guided surrogate of a table."""
    value, x, *_ = imputed_people(IMPUTERS["mixture of a table"]())
    assert isinstance(value, ms.ImputedValue)
    return Made(guided(value, value.imputer), x)


def guided_rows(space: str = "probability") -> Made:
    """A guided surrogate of rows of numbers; of a regression, one whose teacher has no mixture."""
    guide = imputer = ms.imputers.MixtureImputer(normal(50, 4), components=2)
    model: Any = Linear(4, 3)
    if space == "identity":
        imputer = IMPUTERS["gaussian"]()
        guide = ms.imputers.MixtureImputer(imputer.reference)
        model = ms.as_model(model, normal(3, 4), returns="values")
    return Made(guided(ms.imputed_value(model, imputer, space, draws=5), guide), normal(3, 4, 1))


def mixture() -> ms.oracles.GaussianMixture:
    """A mixture of three in four dimensions."""
    return ms.oracles.GaussianMixture.random(4)


def truth(law: ms.oracles.ConditionalLaw, space: str = "probability", **settings: Any) -> Made:
    """The true value function of a linear model."""
    model = Linear(len(law.names), 3)
    value = ms.oracles.true_value(model, law, space, draws=5, rows=200, **settings)
    return Made(value, law.sample(3, seed=1).x)


def discrete() -> Tensor:
    """Rows of whole numbers."""
    return torch.randint(3, (40, 4), generator=torch.Generator().manual_seed(0)).float()


def mixed(rows: int) -> Tensor:
    """Rows of two numbers, one that is mostly 0, and a category."""
    x = normal(rows, 4)
    x[:, 2] = x[:, 2].relu()
    x[:, 3] = x[:, 3].sign()
    return x


IMPUTERS: dict[str, Callable[[], ms.imputers.Imputer]] = {
    "marginal": lambda: ms.imputers.MarginalImputer(normal(20, 4)),
    "baseline": lambda: ms.imputers.BaselineImputer(normal(1, 4)[0]),
    "contrastive": lambda: ms.imputers.ContrastiveImputer(normal(3, 4)),
    "mask token": lambda: ms.imputers.MaskTokenImputer(7, ms.Players.tokens(4, padding=0)),
    "padding": lambda: ms.imputers.PaddingImputer(ms.Players.tokens(4, padding=None), padding=0),
    "gaussian": lambda: ms.imputers.GaussianImputer(normal(50, 4)),
    "gaussian of many players": lambda: ms.imputers.GaussianImputer(normal(60, 9)),
    "copula": lambda: ms.imputers.CopulaImputer(normal(50, 9)),
    "empirical": lambda: ms.imputers.EmpiricalImputer(normal(40, 9), bandwidth=0.5),
    "exact match": lambda: ms.imputers.ExactMatchImputer(discrete()),
    "mixture": lambda: ms.imputers.MixtureImputer(mixed(60), components=3),
    "causal": lambda: ms.imputers.CausalImputer(
        ms.imputers.GaussianImputer(normal(50, 4)), [["x1", "x0"], ["x3", "x2"]], [True, False]
    ),
    "marginal of a table": lambda: of_people(ms.imputers.MarginalImputer),
    "gaussian of a table": lambda: of_people(ms.imputers.GaussianImputer),
    "mixture of a table": lambda: of_people(ms.imputers.MixtureImputer, components=2),
    "empirical of a table": lambda: of_people(ms.imputers.EmpiricalImputer, share=1.0),
    "vae of a table": vae_of_people,
    "vae bank": lambda: vae("bank"),
    "vae bank of many players": lambda: vae("bank", 33),
    "vae encoder": lambda: vae("encoder"),
    "vae weighted": lambda: vae("weighted"),
    "oracle of a mixture": lambda: ms.oracles.OracleImputer(mixture(), rows=50),
    "oracle of a discrete law": lambda: ms.oracles.OracleImputer(weather(), rows=50),
}

# Of these a present element may change its place, or an absent one still be seen.
REMOVERS: dict[str, Callable[[], ms.imputers.Imputer]] = {
    "deletion": lambda: ms.imputers.DeletionImputer(ms.Players.tokens(4, padding=0)),
    "blur": lambda: ms.imputers.BlurImputer(normal(5, 12).unflatten(1, (3, 2, 2)), sigma=1.0),
}


def corrected() -> Made:
    """A surrogate, and another one in place of that of labels."""
    made, labels = surrogate(), surrogate().value
    ends = (labels.base(made.x)[0] for _ in range(2))
    return Made(CorrectedValue(made.value, labels, *ends), made.x)


VALUES: dict[str, Callable[[], Made]] = {
    "surrogate": surrogate,
    "surrogate of log-odds": lambda: surrogate("log_odds"),
    "surrogate of log-ratios": lambda: surrogate("ilr"),
    "surrogate of a regression": lambda: surrogate("identity"),
    "surrogate of pictures": lambda: of_network("convolution"),
    "surrogate of pictures, log-ratios": lambda: of_network("convolution", "ilr"),
    "surrogate of patches": lambda: of_network("patches"),
    "surrogate of tokens": lambda: of_network("tokens"),
    "surrogate by the model": lambda: of_network("model"),
    "imputed": lambda: imputed(IMPUTERS["marginal"]()),
    "imputed, all draws": lambda: imputed(IMPUTERS["marginal"](), "ilr", draws=20),
    "imputed, nested": lambda: imputed(IMPUTERS["gaussian of many players"]()),
    "imputed, weighted": lambda: imputed(
        ms.imputers.EmpiricalImputer(normal(40, 4), bandwidth=0.5)
    ),
    "imputed, groups of elements": lambda: imputed(
        ms.imputers.MarginalImputer(
            normal(20, 6).unflatten(1, (2, 3)), ms.Players("ab", [[0, 1, 1]] * 2)
        )
    ),
    "imputed, table": lambda: imputed_people(of_people(ms.imputers.GaussianImputer)),
    "surrogate of a table": surrogate_of_people,
    "guided": lambda: _trained_once(guided_rows),
    "guided, log-ratios": lambda: _trained_once(guided_rows, "ilr"),
    "guided, regression": lambda: _trained_once(guided_rows, "identity"),
    "guided, table": lambda: _trained_once(guided_people),
    "log-ratios of a mean": lambda: _log_ratios(imputed(IMPUTERS["marginal"]())),
    "log-ratios of a surrogate": lambda: _log_ratios(surrogate()),
    "retrained": retrained,
    "truth of a mixture": lambda: truth(mixture(), "ilr"),
    "truth of a discrete law": lambda: truth(weather()),
    "truth of a discrete law, draws": lambda: truth(weather(), most=2),
    "corrected": corrected,
    "posterior": lambda: Made(ms.oracles.PosteriorValue(weather()), weather().sample(3).x),
    "grouped": lambda: _grouped({"both": ["x1", "x3"]}),
    "grouped by labels": lambda: _grouped([0, 1, 0, 2]),
    "grouped by row": grouped_by_row,
    "selected": lambda: _selected(surrogate()),
    "stacked": lambda: _stacked(*map(imputed, (IMPUTERS["marginal"](), IMPUTERS["gaussian"]()))),
    "callable": wrapped,
    "ragged": lambda: Made(Ragged(), Ragged.some_rows(), moves=False),
    "padded": lambda: Made(Padded(), Padded.some_rows(), moves=False),
    "words of padded rows": words,
}


def _trained_once(make: Callable[..., Made], *settings: Any) -> Made:
    """A copy of what is trained when it is first asked for."""
    return pickle.loads(_pickled(make, *settings))


@cache
def _pickled(make: Callable[..., Made], *settings: Any) -> bytes:
    return pickle.dumps(make(*settings))


def _log_ratios(made: Made) -> Made:
    return Made(ms.values.LogRatioOfMean(made.value), made.x)


def _selected(made: Made) -> Made:
    return Made(made.value.select([2, 0]), made.x)


def _stacked(*made: Made) -> Made:
    return Made(ms.values.StackedValue([each.value for each in made], [0.25, 0.75]), made[0].x)


def _grouped(groups: Any) -> Made:
    made = surrogate()
    return Made(made.value.grouped(groups), made.x)


# -- estimators --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Estimator:
    """An estimator of any game, and what the contract may expect of it.

    Attributes:
        estimate: the function.
        few: settings under which some coalitions of 6 players are drawn, or all are enumerated.
        all: settings under which all coalitions or orders of 4 players are; None where never.
        fewest: settings in place of these few that still take every step, for slow value functions.
        linear: whether, under one seed, Shapley values of a sum of games are those of its terms.
        dummies: whether a player that always adds the same gets exactly that.
    """

    estimate: Callable[..., ms.Explanation]
    few: Mapping[str, Any]
    all: Mapping[str, Any] | None
    fewest: Mapping[str, Any] = field(default_factory=dict)
    linear: bool = True
    dummies: bool = True

    @property
    def sampled(self) -> bool:
        """Whether the few depend on a seed."""
        return bool(self.few)


ESTIMATORS = {
    "exact": Estimator(ms.exact_shapley, {}, {}),
    "permutation": Estimator(ms.permutation_shapley, {"permutations": 16}, {"permutations": 24}),
    "kernel": Estimator(ms.kernel_shapley, {"evaluations": 40}, {"evaluations": 14}, dummies=False),
    "odd": Estimator(
        ms.odd_shapley, {"evaluations": 40}, {"evaluations": 14}, linear=False, dummies=False
    ),
    "adaptive": Estimator(
        ms.adaptive_shapley, {"samples": 180}, None, {"samples": 48, "least": 4}, linear=False
    ),
    # With so many evaluations, a regression with interactions.
    "auto": Estimator(ms.auto_shapley, {"evaluations": 60}, {}, linear=False, dummies=False),
}


@cache
def amortized() -> tuple[ms.SurrogateValue, Any]:
    """A surrogate, and an amortised explainer of it that has hardly been trained."""
    value = surrogate().value
    assert isinstance(value, ms.SurrogateValue)
    return value, ms.fit_amortized(value, normal(200, 4), hidden=(8, 8), max_epochs=1)
