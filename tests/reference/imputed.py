"""Value functions by imputers, under every estimator; other value functions that nothing learns."""

from collections.abc import Mapping
from typing import Any

import torch
from sklearn.naive_bayes import GaussianNB
from torch import Tensor

import manifold_shap as ms
from tests.reference.compare import Inputs, Results
from tests.reference.doors import (
    RIDGE,
    estimated,
    estimators,
    network,
    players_of,
    regression,
    same,
)


def imputers_of(mixed: Inputs) -> Mapping[str, ms.imputers.Imputer]:
    """Every imputer without training, of rows of numbers and one-hot columns."""
    reference, players = mixed["reference"], players_of(mixed)
    names = players.names
    order = [list(names[:3]), list(names[3:5]), list(names[5:])]
    graph = {names[2]: list(names[:2]), names[6]: [names[2], names[3]]}
    gaussian = ms.imputers.GaussianImputer(reference, players, RIDGE)
    return {
        "marginal": ms.imputers.MarginalImputer(reference, players),
        "baseline": ms.imputers.BaselineImputer(reference[0], players),
        "contrastive": ms.imputers.ContrastiveImputer(reference[:20], players),
        "gaussian": gaussian,
        "copula": ms.imputers.CopulaImputer(reference, players, RIDGE),
        "empirical": ms.imputers.EmpiricalImputer(reference, players, 0.5, regularisation=RIDGE),
        "empirical, aicc": ms.imputers.EmpiricalImputer(
            reference, players, "aicc", regularisation=RIDGE
        ),
        "empirical, of targets": ms.imputers.EmpiricalImputer(
            reference,
            players,
            "aicc",
            targets=network(mixed["model"])(reference).detach().softmax(-1)[:, :1],
            regularisation=RIDGE,
        ),
        "causal": ms.imputers.CausalImputer(gaussian, order, [False, True, True]),
        "causal, graph": ms.imputers.CausalImputer(gaussian, graph),
        "causal, of donors": ms.imputers.CausalImputer(
            ms.imputers.EmpiricalImputer(reference, players, 0.5, regularisation=RIDGE), order
        ),
    }


def imputed(inputs: Inputs) -> Results:
    """Values by every imputer in four output spaces, and Shapley values by every estimator."""
    mixed = inputs["mixed"]
    x, mask, reference = mixed["x"], mixed["mask"], mixed["reference"]
    model, imputers = network(mixed["model"]), imputers_of(mixed)
    for name, imputer in imputers.items():
        for output in ("probability", "ilr"):
            value = ms.imputed_value(model, imputer, output, draws=16, seed=5)
            yield from estimated(f"mixed, {name}, {output}", value, x, mask)
    numbers = regression(mixed["model"], reference)
    value = ms.imputed_value(numbers, imputers["gaussian"], "identity", draws=16, seed=5)
    yield from estimated("mixed, gaussian, identity", value, x, mask)
    for name in ("marginal", "gaussian", "copula", "empirical", "causal", "contrastive"):
        value = ms.imputed_value(model, imputers[name], draws=8, seed=5)
        for kind, estimate in estimators(len(value.players)).items():
            yield f"mixed, {name}, {kind}", estimate(value, x)
    for name in ("marginal", "gaussian", "causal, graph"):
        value = ms.imputed_value(model, imputers[name], draws=8, seed=5)
        yield f"mixed, {name}, exact", ms.exact_shapley(value, x)
        yield f"mixed, {name}, target", ms.permutation_shapley(value, x, target_error=0.1, seed=1)
        yield f"mixed, {name}, auto alone", ms.auto_shapley(value, x, seed=1)
    value = ms.imputed_value(model, imputers["gaussian"], draws=8, seed=5)
    yield "mixed, gaussian, pairs", ms.shapley_interactions(value, x, seed=1)
    yield from _mapped(value, x, mask)


def _mapped(value: ms.ValueFunction, x: Tensor, mask: Tensor) -> Results:
    """Chosen outputs, groups and log-ratios: what they are, and that they are of the same game."""
    names = value.players.names
    chosen = value.select([2, 0])
    yield (
        "mixed, chosen outputs, are of the game",
        same(chosen(x, mask), value(x, mask)[..., [2, 0]]),
    )
    yield "mixed, chosen outputs, names", ", ".join(chosen.outputs)
    largest = value.prediction(x).mean(0).argsort(descending=True)[:2].tolist()
    yield "mixed, largest outputs, names", ", ".join(value.select(largest).outputs)
    groups = {"front": list(names[:3]), "back": [names[4], names[6]]}
    grouped = value.grouped(groups)
    yield "mixed, groups, names", ", ".join(grouped.players.names)
    masks = ms.metrics.shapley_pairs(len(x), len(grouped.players), least=10 * len(x), seed=2)
    member = torch.stack(
        [value.players.index.new_tensor(_group_of(n, groups, grouped)) for n in names]
    )
    yield "mixed, groups, are of the game", same(grouped(x, masks), value(x, masks[..., member]))
    yield "mixed, groups, exact", ms.exact_shapley(grouped, x)
    yield "mixed, groups, auto", ms.auto_shapley(grouped, x, evaluations=20)
    by_label = value.grouped([0, 0, 1, 1, 2, 2, 3])
    yield "mixed, labels, permutation", ms.permutation_shapley(by_label, x)
    ratio = ms.values.LogRatioOfMean(value)
    yield from estimated("mixed, log-ratio", ratio, x, mask)
    yield "mixed, log-ratio, kernel", ms.kernel_shapley(ratio, x, evaluations=64)
    yield "mixed, log-ratio of groups", ms.exact_shapley(ratio.grouped(groups), x)
    yield "mixed, base", value.base(x)
    yield "mixed, prediction", value.prediction(x)
    yield (
        "mixed, other keys",
        value(x, mask, torch.arange(mask[..., 0].numel()).view(mask.shape[:2])),
    )
    yield (
        "mixed, other seed",
        ms.imputed_value(value.model, value.imputer, draws=8, seed=6)(x, mask),
    )


def _group_of(name: str, groups: Mapping[str, Any], grouped: ms.ValueFunction) -> int:
    own = [group for group, members in groups.items() if name in members]
    return grouped.players.names.index(own[0] if own else name)


def many_players(inputs: Inputs) -> Results:
    """Imputers of 64 players, where runs of coalitions have a path of their own."""
    digits = inputs["digits"]
    x, mask, reference = digits["x"], digits["mask"], digits["reference"]
    players, model = players_of(digits), network(digits["model"])
    imputers = {
        "gaussian": ms.imputers.GaussianImputer(reference, players, RIDGE),
        "copula": ms.imputers.CopulaImputer(reference, players, RIDGE),
        "empirical": ms.imputers.EmpiricalImputer(reference, players, 0.5, regularisation=RIDGE),
    }
    for name, imputer in imputers.items():
        value = ms.imputed_value(model, imputer, draws=4, seed=5).select([3, 7])
        yield from estimated(f"digits, {name}", value, x, mask)
        found = ms.permutation_shapley(value, x, permutations=4, seed=1)
        yield f"digits, {name}, permutation", found


def exact_match(inputs: Inputs) -> Results:
    """Donors that agree with a row of whole numbers."""
    discrete = inputs["discrete"]
    x, mask, model = discrete["x"], discrete["mask"], network(discrete["model"])
    imputer = ms.imputers.ExactMatchImputer(discrete["reference"])
    for draws in (7, 200):
        value = ms.imputed_value(model, imputer, "log_odds", draws=draws, seed=5)
        yield from estimated(f"discrete, exact match, {draws} draws", value, x, mask)
        for kind, estimate in estimators(len(value.players)).items():
            # Of so few players all coalitions take fewer evaluations.
            yield f"discrete, exact match, {draws} draws, {kind}", estimate(value, x)
        yield f"discrete, exact match, {draws} draws, exact", ms.exact_shapley(value, x)


def retrained(inputs: Inputs) -> Results:
    """Naive Bayes classifiers that are fitted anew for every coalition."""
    iris = inputs["iris"]
    reference, y = iris["reference"], iris["labels"]
    for output in ("probability", "ilr"):
        value = ms.retrained_value(GaussianNB(), reference, y.numpy(), space=output)
        mask = ms.metrics.shapley_pairs(len(iris["x"]), 4, least=20, seed=1)
        yield from estimated(f"iris, retrained, {output}", value, iris["x"], mask)
        yield f"iris, retrained, {output}, exact", ms.exact_shapley(value, iris["x"])


def own_games(inputs: Inputs) -> Results:
    """Callables, models that return various things, and games that other packages see."""
    iris = inputs["iris"]
    x, net = iris["x"], network(iris["model"])
    logits = net(x).detach()
    bayes = GaussianNB().fit(iris["reference"].numpy(), iris["labels"].numpy())
    models: dict[str, Any] = {
        "module": net,
        "logits": lambda x: net(x).detach(),
        "probabilities": lambda x: net(x).softmax(-1).detach(),
        "arrays": lambda x: net(torch.as_tensor(x)).softmax(-1).detach().numpy(),
        "scikit-learn": bayes,
    }
    for name, model in models.items():
        wrapped = ms.as_model(model, iris["reference"])
        yield f"models, {name}, returns", wrapped.returns
        yield f"models, {name}, classes", ", ".join(wrapped.classes)
        for output in ("probability", "ilr"):
            value = ms.imputed_value(
                wrapped, ms.imputers.BaselineImputer(iris["reference"][0]), output
            )
            yield f"models, {name}, {output}", value.prediction(x)
    two = ms.as_model(lambda x: net(x)[:, :2].softmax(-1).detach(), x, classes=["no", "yes"])
    value = ms.imputed_value(
        two, ms.imputers.MarginalImputer(iris["reference"]), "log_odds", draws=9
    )
    yield "models, log-odds", ms.exact_shapley(value, x)
    numbers = ms.as_model(lambda x: net(x)[:, 0].detach(), x, returns="values")
    value = ms.imputed_value(
        numbers, ms.imputers.MarginalImputer(iris["reference"]), "identity", draws=9
    )
    yield "models, one number", ms.exact_shapley(value, x)
    zeros = logits.softmax(-1) * torch.tensor([1.0, 0.0, 1.0])
    zeros = zeros / zeros.sum(-1, keepdim=True)
    yield "spaces, zeros", ms.spaces.ILR(1e-2)(ms.simplex.from_probabilities(zeros, 1e-2))
    value = ms.as_value_function(lambda x, mask: (x[:, None] * mask).cumsum(-1), x)
    yield "callable, exact", ms.exact_shapley(value, x)
    game = ms.interop.to_shapiq(value, x[:1], output=1)
    yield "shapiq, values", torch.from_numpy(game.exact_values("k-SII", 2).values)
    captum = ms.interop.CaptumAttribution(
        ms.imputed_value(net, ms.imputers.BaselineImputer(x[0]), "identity")
    )
    yield "captum, attribution", captum.attribute(x[1:], target=1)
