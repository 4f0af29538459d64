"""Computes Shapley values, imputed values and compositions from the stored inputs.

`make.py` stored its results under version 0.1.0; `test_reference.py` compares today's with them.
"""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import manifold_shap as ms
from manifold_shap.amortized.explainer import AmortizedExplainer
from manifold_shap.amortized.perceptron import AmortizedPerceptron
from manifold_shap.models import as_model
from manifold_shap.surrogate.game import GameShape
from manifold_shap.surrogate.perceptron import Perceptron
from manifold_shap.surrogate.value import SurrogateValue
from manifold_shap.vae.network import MaskedVAE

FOLDER = Path(__file__).parent
INPUTS = FOLDER / "inputs.pt"
OUTPUTS = FOLDER / "outputs.pt"

# Products of matrices in single precision differ in their last bits from machine to machine, by up
# to 3e-6 of the standard errors, which are of differences.
TOLERANCE = 1e-5

# One-hot columns are collinear; with more than a trace of it, results do not hang on rounding.
RIDGE = 0.05

Inputs = dict[str, Any]


def load(path: Path) -> dict[str, Any]:
    """What `make.py` stored: tensors, numbers and strings."""
    return torch.load(path, weights_only=True)


def gaps_of(part: str, inputs: Inputs, stored: dict[str, Any]) -> dict[str, float]:
    """How far each result of a part is from the stored one; infinite where one is missing."""
    wanted, got = stored[part], dict(PARTS[part](inputs))
    missing = dict.fromkeys(wanted.keys() ^ got.keys(), math.inf)
    return missing | {name: gap(got[name], wanted[name]) for name in wanted.keys() & got.keys()}


def gap(got: Tensor, wanted: Tensor) -> float:
    """Largest difference, relative to the largest number; infinite where NaNs differ."""
    if got.shape != wanted.shape or not torch.equal(got.isnan(), wanted.isnan()):
        return math.inf
    got, wanted = got.double().nan_to_num(), wanted.double().nan_to_num()
    scale = wanted.abs().max().clamp(min=torch.finfo(torch.float32).tiny)
    return ((got - wanted).abs().max() / scale).item()


def toy_games(games: Inputs) -> Iterator[tuple[str, Tensor]]:
    """Every estimator on games of 6 and 20 players."""
    for size, weights in games.items():
        for name, explanation in toy_explanations(toy_game(weights), weights["x"]).items():
            yield from explained(f"{size} game, {name}", explanation)


def toy_explanations(game: Any, x: Tensor) -> dict[str, ms.Explanation]:
    """By every estimator; of few players, exactly as well."""
    players = x.shape[1]
    names = [f"x{i}" for i in range(players)]
    order = [names[: players // 2], names[players // 2 :]]
    sampled = {
        "permutation": ms.permutation_shapley(game, x, permutations=32, seed=3),
        "permutation, target": ms.permutation_shapley(game, x, target_error=0.02, seed=3),
        "permutation, ordering": ms.permutation_shapley(
            game, x, permutations=16, ordering=order, seed=3
        ),
        "coalition": ms.coalition_shapley(game, x, coalitions=128, seed=3),
        "coalition, target": ms.coalition_shapley(game, x, target_error=0.02, seed=3),
        "adaptive": ms.adaptive_shapley(game, x, samples=40 * players, seed=3),
        "auto, ordering": ms.auto_shapley(game, x, evaluations=500, ordering=order, seed=3),
    }
    evaluations = 40 if players == 6 else 400
    fitted = {
        "kernel": ms.kernel_shapley(game, x, evaluations=evaluations, seed=3),
        "kernel, law": ms.kernel_shapley(game, x, evaluations=evaluations, law="kernel", seed=3),
        "sample_reuse": ms.sample_reuse_shapley(game, x, evaluations=evaluations, seed=3),
    }
    if players > 6:
        return sampled | fitted
    exact = {
        "exact": ms.exact_shapley(game, x),
        "exact, ordering": ms.exact_shapley(game, x, ordering=order),
        "permutation, all": ms.permutation_shapley(game, x, permutations=720),
        "kernel, all": ms.kernel_shapley(game, x, evaluations=62),
    }
    return sampled | fitted | exact


def toy_game(weights: Inputs) -> Callable[[Tensor, Tensor], Tensor]:
    """v(S) of a small network on rows whose absent players are 0."""

    def game(x: Tensor, mask: Tensor) -> Tensor:
        return torch.tanh((x[:, None] * mask) @ weights["first"] + 0.3) @ weights["second"]

    return game


def imputed_values(census: Inputs) -> Iterator[tuple[str, Tensor]]:
    """Values by every imputer, and Shapley values of a few of them."""
    x, mask, reference = census["x"], census["mask"], census["reference"]
    players, model = players_of(census), network(census["model"])
    names = players.names
    order = [list(names[:3]), list(names[3:])]
    gaussian = ms.GaussianImputer(reference, players, RIDGE)
    imputers = {
        "marginal": ms.MarginalImputer(reference, players),
        "baseline": ms.BaselineImputer(reference[0], players),
        "contrastive": ms.ContrastiveImputer(reference[:20], players),
        "gaussian": gaussian,
        "copula": ms.CopulaImputer(reference, players, RIDGE),
        "empirical": ms.EmpiricalImputer(reference, players, 0.5, regularisation=RIDGE),
        "empirical, aicc": ms.EmpiricalImputer(reference, players, "aicc", regularisation=RIDGE),
        "vae, bank": vae(census, posterior="bank", bank_size=500),
        "vae, encoder": vae(census, posterior="encoder"),
        "vae, importance": vae(census, posterior="encoder", importance=True, temper=0.3),
        "causal": ms.CausalImputer(gaussian, order, [False, True]),
    }
    for name, imputer in imputers.items():
        for output in ("probability", "log_odds"):
            value = ms.imputed_value(model, imputer, output, draws=16, seed=5)
            yield f"census, {name}, {output}, values", value(x, mask)
    for name in ("marginal", "gaussian", "copula", "empirical", "vae, bank", "causal"):
        value = ms.imputed_value(model, imputers[name], draws=8, seed=5)
        explanation = ms.permutation_shapley(value, x, permutations=8, seed=1)
        yield from explained(f"census, {name}, permutation", explanation)
        explanation = ms.coalition_shapley(value, x, coalitions=32, seed=1)
        yield from explained(f"census, {name}, coalition", explanation)
    ratio = ms.LogRatioOfMean(ms.imputed_value(model, gaussian, draws=8, seed=5))
    yield "census, log-ratio of gaussian, values", ratio(x, mask)
    yield from explained(
        "census, log-ratio of gaussian, kernel", ms.kernel_shapley(ratio, x, evaluations=64)
    )


def many_players(digits: Inputs) -> Iterator[tuple[str, Tensor]]:
    """Sampling imputers of 64 players, where runs of coalitions have a path of their own."""
    x, mask, reference = digits["x"], digits["mask"], digits["reference"]
    players, model = players_of(digits), network(digits["model"])
    imputers = {
        "gaussian": ms.GaussianImputer(reference, players, RIDGE),
        "vae, bank": vae(digits, posterior="bank", bank_size=300),
    }
    for name, imputer in imputers.items():
        value = ms.imputed_value(model, imputer, draws=4, seed=5)
        yield f"digits, {name}, values", value(x, mask)
        explanation = ms.permutation_shapley(value, x, permutations=4, seed=1)
        yield from explained(f"digits, {name}, permutation", explanation)


def exact_match(discrete: Inputs) -> Iterator[tuple[str, Tensor]]:
    """The imputer of discrete rows, which draws among those that agree."""
    x, mask = discrete["x"], discrete["mask"]
    imputer = ms.ExactMatchImputer(discrete["reference"])
    for draws in (7, 200):
        value = ms.imputed_value(network(discrete["model"]), imputer, draws=draws, seed=5)
        yield f"discrete, exact match, {draws} draws, values", value(x, mask)
        explanation = ms.permutation_shapley(value, x, permutations=6, seed=1)
        yield from explained(f"discrete, exact match, {draws} draws, permutation", explanation)


def surrogates(data: str, part: Inputs) -> Iterator[tuple[str, Tensor]]:
    """Shapley values of a trained surrogate by every estimator, and by its amortised explainer."""
    value, x = surrogate(part), part["x"]
    yield f"{data}, surrogate, values", value(x, part["mask"])
    pairs = ms.shapley_pairs(len(x), len(value.players), least=300)
    yield f"{data}, surrogate, error", torch.tensor(ms.mean_squared_error(value, x, pairs).mse)
    runs = {
        "permutation": ms.permutation_shapley(value, x, permutations=16, seed=2),
        "coalition": ms.coalition_shapley(value, x, coalitions=64, seed=2),
        "adaptive": ms.adaptive_shapley(value, x, samples=20 * len(value.players), seed=2),
        "kernel": ms.kernel_shapley(value, x, evaluations=8 * len(value.players), seed=2),
        "sample_reuse": ms.sample_reuse_shapley(
            value, x, evaluations=8 * len(value.players), seed=2
        ),
    }
    # By evaluations, which are too few for contributions of all the pixels.
    budgeted = ms.permutation_shapley if data == "digits" else ms.coalition_shapley
    runs["budget"] = budgeted(value, x, evaluations=2000, seed=2)
    if len(value.players) <= 12:
        runs["exact"] = ms.exact_shapley(value, x)
    for name, explanation in runs.items():
        yield from explained(f"{data}, surrogate, {name}", explanation)
    if "amortized" in part:
        yield (
            f"{data}, surrogate, amortized",
            ms.amortized_shapley(value, x, explainer=amortized(value, part["amortized"])).phi,
        )


def compositions(iris: Inputs) -> Iterator[tuple[str, Tensor]]:
    """Shapley compositions of a classifier of three classes, in two bases."""
    model = network(iris["model"])
    value = ms.imputed_value(model, ms.MarginalImputer(iris["reference"]), "ilr", draws=150)
    explanation = ms.exact_shapley(value, iris["x"])
    yield from explained("iris, exact", explanation)
    yield "iris, compositions", explanation.compositions()
    yield "iris, norms", explanation.norms()
    yield "iris, cosines", explanation.cosines()
    yield "iris, projections", explanation.projections()
    sampled = ms.permutation_shapley(value, iris["x"], permutations=6, seed=4)
    # Version 0.1.0 had them to first order.
    along = torch.nn.functional.normalize(sampled.phi, dim=-1)
    variance = torch.einsum("...o,...oq,...q->...", along, sampled.covariance, along)
    yield "iris, norm errors", variance.clamp(min=0).sqrt()
    turned = sampled.in_basis([["0", "2"], "1"])
    yield from explained("iris, other basis", turned)
    of_probabilities = ms.imputed_value(model, ms.MarginalImputer(iris["reference"]), draws=150)
    shared = ms.global_values(ms.exact_shapley(of_probabilities, iris["x"]), iris["y"])
    yield "iris, global values", torch.cat((shared.phi, shared.standard_error))


def explained(name: str, explanation: ms.Explanation) -> Iterator[tuple[str, Tensor]]:
    """Shapley values, and their standard errors."""
    yield f"{name}, phi", explanation.phi
    yield f"{name}, standard error", explanation.standard_error


def players_of(part: Inputs) -> ms.Players:
    """Players as stored, an index and names."""
    return ms.Players(tuple(part["names"]), part["index"])


def network(weights: Inputs) -> nn.Module:
    """The classifier of the stored weights, which gives logits."""
    hidden, width = weights["1.weight"].shape
    module = nn.Sequential(
        nn.Flatten(),
        nn.Linear(width, hidden),
        nn.ReLU(),
        nn.Linear(hidden, len(weights["3.weight"])),
    )
    module.load_state_dict(weights)
    return module


def surrogate(part: Inputs) -> SurrogateValue:
    """The surrogate of the stored weights."""
    model = as_model(network(part["model"]), part["x"])
    made = part["surrogate"]
    space = ms.as_space(made["space"])
    game = GameShape.of(players_of(part), len(made["base"]), space.on_simplex)
    net = Perceptron(game, hidden=made["hidden"])
    net.load_state_dict(made["weights"])
    return SurrogateValue(net, model, players_of(part), space, made["base"])


def vae(part: Inputs, **settings: Any) -> ms.VAEImputer:
    """The VAE imputer of the stored weights."""
    made, players = part["vae"], players_of(part)
    index = players.index.flatten().tolist()
    net = MaskedVAE(made["families"], index, made["latent"], made["hidden"], made["components"])
    net.load_state_dict(made["weights"])
    return ms.VAEImputer(net, part["reference"], players, **settings)


def amortized(value: SurrogateValue, made: Inputs) -> AmortizedExplainer:
    """The amortised explainer of the stored weights."""
    widths = [layer.in_features for layer in value.surrogate.behind]
    game = value.surrogate.game
    net = AmortizedPerceptron(game, game.index, widths, hidden=made["hidden"])
    net.load_state_dict(made["weights"])
    return AmortizedExplainer(value, net)


PARTS: dict[str, Callable[[Inputs], Iterator[tuple[str, Tensor]]]] = {
    "games": lambda inputs: toy_games(inputs["games"]),
    "imputers": lambda inputs: imputed_values(inputs["census"]),
    "imputers of many players": lambda inputs: many_players(inputs["digits"]),
    "exact match": lambda inputs: exact_match(inputs["discrete"]),
    "digits surrogate": lambda inputs: surrogates("digits", inputs["digits"]),
    "census surrogate": lambda inputs: surrogates("census", inputs["census"]),
    "compositions": lambda inputs: compositions(inputs["iris"]),
}
