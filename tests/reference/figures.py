"""What is made of values: scores, compositions, global values, closed forms and known laws."""

from typing import Any

import torch
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB, MultinomialNB

import manifold_shap as ms
from tests.reference.examples import (
    DISCRETE,
    GAUSSIAN,
    IRIS,
    MIXED,
    MODEL,
    NUMBERS,
    PLAYERS,
    RIDGE,
    STORED,
    network,
)
from tests.reference.results import estimated

simplex = ms.simplex


def compositions() -> dict[str, Any]:
    """Shapley compositions of four classes, in any partition."""
    last = {f"3.{name}": each for name, each in IRIS["fourth"].items()}
    model, x = network(IRIS["model"] | last), IRIS["x"]
    imputer = ms.imputers.MarginalImputer(IRIS["reference"])
    value = ms.imputed_value(model, imputer, "ilr", draws=150)
    # Of more pairs of orders than coordinates: no direction has a variance of rounding alone.
    sampled = ms.permutation_shapley(value, x, permutations=12, seed=4)
    pairs = ms.shapley_interactions(value, x)
    trees = {
        "one by one": [[["3", "1"], "0"], "2"],
        "clusters": simplex.cluster_classes(
            model(IRIS["reference"]).detach().log_softmax(-1),
            torch.arange(len(IRIS["reference"])) // 3 % 4,
            list("0123"),
        ),
    }
    found: dict[str, Any] = {
        "exact": ms.exact_shapley(value, x),
        "sampled": sampled,
        "sampled, compositions": sampled.compositions(),
        "sampled, norms": sampled.norms(),
        "sampled, norm errors": sampled.norm_errors(),
        "sampled, cosines": sampled.cosines(),
        "sampled, projections": sampled.projections(),
        "sampled, interval": torch.stack(sampled.interval(0.9)),
        "sampled, basis": sampled.basis,
        "interactions": pairs,
        "interactions, norms": pairs.norms(),
        "interactions, projections": pairs.projections(),
    }
    for name, tree in trees.items():
        turned = sampled.in_basis(tree)
        found |= {
            name: turned,
            f"{name}, outputs": " | ".join(turned.outputs),
            f"{name}, norm errors": turned.norm_errors(),
        }
    return {"compositions": found}


def geometry() -> dict[str, Any]:
    """The geometry of the simplex."""
    log_p = STORED["games"]["small"]["x"].double()
    other = log_p.flip(0)
    p = log_p.softmax(-1) * torch.tensor([1, 0, 1, 1, 0, 1])
    signs = torch.tensor([[1, 1, 1, -1, -1, -1], [1, -1, -1, 0, 0, 0], [0, 1, -1, 0, 0, 0]])
    signs = torch.cat((signs, torch.tensor([[0, 0, 0, 1, 1, -1], [0, 0, 0, 1, -1, 0]])))
    basis = simplex.partition_basis(signs)
    found = {
        "perturb": simplex.perturb(log_p, other),
        "power": simplex.power(log_p, -0.7),
        "clr": simplex.clr(log_p),
        "inner": simplex.inner(log_p, other),
        "distance": simplex.distance(log_p, other),
        "usual basis": simplex.gram_schmidt_basis(6),
        "ilr in a basis": simplex.ilr(log_p, basis),
        "back": simplex.ilr_inv(log_p[:, :5], basis),
        "class compositions": simplex.class_compositions(4),
        "without zeros": simplex.replace_zeros(p / p.sum(-1, keepdim=True), 0.01),
    }
    return {"simplex": found}


def naive_bayes() -> dict[str, Any]:
    """Closed forms of naive Bayes classifiers of every kind."""
    bayes = ms.naive_bayes
    rows, counts = IRIS["reference"].numpy(), DISCRETE["reference"].numpy()
    kinds: dict[str, tuple[Any, dict[str, Any], str]] = {
        "gaussian": (GaussianNB().fit(rows, IRIS["labels"].numpy()), IRIS, "ilr"),
        "categories": (CategoricalNB(), DISCRETE, "log_odds"),
        "bernoulli": (BernoulliNB(binarize=0.5), DISCRETE, "log_odds"),
        "counts": (MultinomialNB(), DISCRETE, "log_odds"),
    }
    found: dict[str, Any] = {}
    for name, (model, data, space) in kinds.items():
        if data is DISCRETE:
            model.fit(counts, DISCRETE["labels"].numpy())
        found[name] = {
            "values": bayes.naive_bayes_shapley(model, data["x"], data["reference"], space),
            "evidence": bayes.weight_of_evidence(model, data["x"], space),
            "score": bayes.multiclass_score(model, data["x"], data["reference"]),
        }
    options: dict[str, dict[str, Any]] = {
        "gaussian, weighted values": {"weights": torch.tensor([0.5, 1.0, 0.0, 0.8])},
        "gaussian, groups": {"players": ms.Players(("sepal", "petal"), torch.tensor([0, 0, 1, 1]))},
    }
    for name, each in options.items():
        found[name] = bayes.naive_bayes_shapley(
            kinds["gaussian"][0], IRIS["x"], IRIS["reference"], "ilr", **each
        )
    return found


def scores() -> dict[str, Any]:
    """Errors of value functions, raw and without the variance of draws; leakage; distances."""
    x, mask, reference = MIXED["x"], MIXED["mask"], MIXED["reference"]
    made = {
        "marginal": ms.imputers.MarginalImputer(reference, PLAYERS),
        "gaussian": GAUSSIAN,
        "empirical": ms.imputers.EmpiricalImputer(reference, PLAYERS, 0.5, regularisation=RIDGE),
    }
    values = {name: ms.imputed_value(MODEL, each, draws=12, seed=1) for name, each in made.items()}
    leaking = ms.as_value_function(lambda x, mask: (x[:, None] + 0.0 * mask)[..., :2], IRIS["x"])
    pairs = ms.metrics.shapley_pairs(len(IRIS["x"]), 4, least=20)
    numbers = ms.imputed_value(NUMBERS, GAUSSIAN, "identity", draws=12)
    found: dict[str, Any] = {
        "leakage that there is": ms.metrics.leakage(leaking, IRIS["x"], pairs),
        "numbers": ms.metrics.mean_squared_error(numbers, x, mask),
        "distance": ms.metrics.mean_squared_error(
            values["marginal"], x, mask, truth=values["gaussian"]
        ),
    }
    for name, value in values.items():
        found[name] = ms.metrics.mean_squared_error(value, x, mask)
        found[f"{name}, leakage"] = ms.metrics.leakage(value, x, mask, seed=1)
    return {"scores": found}


def global_figures() -> dict[str, Any]:
    """Global values of classes and of a regression; the error of learning."""
    reference = MIXED["reference"]
    x, y = reference[:30], MIXED["labels"][:30]
    half, other, whole = (
        ms.permutation_shapley(
            ms.imputed_value(MODEL, ms.imputers.GaussianImputer(rows, PLAYERS, RIDGE), draws=8),
            x,
            permutations=4,
            seed=seed,
        )
        for seed, rows in enumerate((reference[::2], reference[1::2], reference))
    )
    learned = ms.with_learning_error(whole, [half, other])
    imputer = ms.imputers.MarginalImputer(reference, PLAYERS)
    value = ms.imputed_value(NUMBERS, imputer, "identity", draws=8)
    found = ms.permutation_shapley(value, x, permutations=4)
    target = reference[:30, 0].numpy()
    return {
        "global, classes": ms.global_values(half, y),
        "global, interval": torch.stack(ms.global_values(half, y).interval(0.9)),
        "learning error": learned,
        "learning error, interval": torch.stack(learned.interval(0.9)),
        "sampled, interval": torch.stack(half.interval(0.9)),
        "global, learning error": ms.global_values(learned, y),
        "global, numbers": ms.global_values(found, target, found.outputs[1]),
    }


def oracles() -> dict[str, Any]:
    """Known laws, true value functions and true Shapley values."""
    law = ms.oracles.GaussianMixture.random(elements=5, components=3, seed=0)
    x, y = law.sample(6, seed=1)
    mask = ms.metrics.shapley_pairs(6, 5, least=30, seed=2)
    model = ms.as_model(lambda x: (x[:, :3] + x[:, 2:]).tanh().softmax(-1), x)
    truth = ms.oracles.true_value(model, law, space="ilr", draws=20, rows=300)
    drawn = ms.imputed_value(model, ms.oracles.OracleImputer(law, rows=50), "ilr", draws=8)
    imputer = ms.imputers.MarginalImputer(law.sample(100, seed=3).x)
    off = ms.imputed_value(model, imputer, "ilr", draws=8)
    true_phi = ms.oracles.true_shapley(truth, x[:3], error=0.1)
    far = ms.oracles.distance_to_true_shapley(ms.exact_shapley(off, x[:3]), true_phi)
    found = {
        "rows": x,
        "labels": y,
        "completed": law.complete(x, mask, draws=3),
        "posterior": law.posterior(x, mask),
        "truth": estimated(truth, x, mask),
        "drawn": estimated(drawn, x, mask),
        "distance": ms.metrics.mean_squared_error(off, x, mask, truth=truth),
        "true values": true_phi,
        "far": [far.error, far.standard_error, far.truth_error],
    }
    return {"mixture": found}
