"""What is made of values: scores, compositions, global values, closed forms and known laws."""

from typing import Any

import torch
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB, MultinomialNB

import manifold_shap as ms
from tests.reference.compare import Inputs, Results
from tests.reference.doors import (
    RIDGE,
    estimated,
    long_frame,
    network,
    players_of,
    regression,
)

simplex = ms.simplex


def compositions(inputs: Inputs) -> Results:
    """Shapley compositions of four classes, in any partition."""
    iris = inputs["iris"]
    weights = iris["model"] | {
        "3.weight": iris["fourth"]["weight"],
        "3.bias": iris["fourth"]["bias"],
    }
    model, x = network(weights), iris["x"]
    value = ms.imputed_value(
        model, ms.imputers.MarginalImputer(iris["reference"]), "ilr", draws=150
    )
    exact = ms.exact_shapley(value, x)
    # Of more pairs of orders than coordinates: no direction has a variance of rounding alone.
    sampled = ms.permutation_shapley(value, x, permutations=12, seed=4)
    for name, found in {"exact": exact, "sampled": sampled}.items():
        yield f"compositions, {name}", found
        yield f"compositions, {name}, compositions", found.compositions()
        yield f"compositions, {name}, norms", found.norms()
        yield f"compositions, {name}, cosines", found.cosines()
        yield f"compositions, {name}, projections", found.projections()
        yield f"compositions, {name}, interval", torch.stack(found.interval(0.9))
        yield f"compositions, {name}, basis", found.basis
    yield "compositions, sampled, norm errors", sampled.norm_errors()
    trees = {
        "pairs": [["0", "1"], ["2", "3"]],
        "one by one": [[["3", "1"], "0"], "2"],
        "signs": ms.simplex.Partition([[1, 1, -1, -1], [1, -1, 0, 0], [0, 0, 1, -1]], list("0123")),
        "clusters": ms.simplex.cluster_classes(
            model(iris["reference"]).detach().log_softmax(-1),
            torch.arange(len(iris["reference"])) // 3 % 4,
            list("0123"),
        ),
    }
    for name, tree in trees.items():
        turned = sampled.in_basis(tree)
        yield f"compositions, {name}, outputs", " | ".join(turned.outputs)
        yield f"compositions, {name}, tree", str(turned.partition and turned.partition.tree)
        yield f"compositions, {name}", turned
        yield f"compositions, {name}, norm errors", turned.norm_errors()
        yield f"compositions, {name}, interval", torch.stack(turned.interval())
    table = sampled.summarize(1, most=3).select_dtypes("number")
    yield "compositions, summary", torch.from_numpy(table.to_numpy(copy=True))
    pairs = ms.shapley_interactions(value, x)
    yield "compositions, interactions", pairs
    yield "compositions, interactions, compositions", pairs.compositions()
    yield "compositions, interactions, norms", pairs.norms()
    yield "compositions, interactions, projections", pairs.projections()


def geometry(inputs: Inputs) -> Results:
    """The geometry of the simplex."""
    log_p = inputs["games"]["small"]["x"].double()
    other = log_p.flip(0)
    p = log_p.softmax(-1) * torch.tensor([1, 0, 1, 1, 0, 1])
    signs = torch.tensor([[1, 1, 1, -1, -1, -1], [1, -1, -1, 0, 0, 0], [0, 1, -1, 0, 0, 0]])
    signs = torch.cat((signs, torch.tensor([[0, 0, 0, 1, 1, -1], [0, 0, 0, 1, -1, 0]])))
    basis = simplex.partition_basis(signs)
    found = {
        "closure": simplex.closure(log_p),
        "perturb": simplex.perturb(log_p, other),
        "power": simplex.power(log_p, -0.7),
        "clr": simplex.clr(log_p),
        "inner": simplex.inner(log_p, other),
        "norm": simplex.norm(log_p),
        "distance": simplex.distance(log_p, other),
        "usual basis": simplex.gram_schmidt_basis(6),
        "basis": basis,
        "ilr": simplex.ilr(log_p),
        "ilr in a basis": simplex.ilr(log_p, basis),
        "back": simplex.ilr_inv(log_p[:, :5], basis),
        "class compositions": simplex.class_compositions(4),
        "without zeros": simplex.replace_zeros(p / p.sum(-1, keepdim=True), 0.01),
    }
    yield from ((f"simplex, {name}", each) for name, each in found.items())


def naive_bayes(inputs: Inputs) -> Results:
    """Closed forms of naive Bayes classifiers of every kind."""
    iris, discrete = inputs["iris"], inputs["discrete"]
    rows, labels = iris["reference"].numpy(), iris["labels"].numpy()
    counts, two = discrete["reference"].numpy(), discrete["labels"].numpy()
    kinds: dict[str, tuple[Any, Any, Any]] = {
        "gaussian": (GaussianNB().fit(rows, labels), iris["x"], iris["reference"]),
        "categories": (CategoricalNB().fit(counts, two), discrete["x"], discrete["reference"]),
        "bernoulli": (
            BernoulliNB(binarize=0.5).fit(counts, two),
            discrete["x"],
            discrete["reference"],
        ),
        "counts": (MultinomialNB().fit(counts, two), discrete["x"], discrete["reference"]),
    }
    for name, (model, x, reference) in kinds.items():
        space = "ilr" if name == "gaussian" else "log_odds"
        yield f"{name}, values", ms.naive_bayes.naive_bayes_shapley(model, x, reference, space)
        yield f"{name}, evidence", ms.naive_bayes.weight_of_evidence(model, x, space)
        yield f"{name}, score", ms.naive_bayes.multiclass_score(model, x, reference)
    model, x, reference = kinds["gaussian"]
    weights = torch.tensor([0.5, 1.0, 0.0, 0.8])
    found = ms.naive_bayes.naive_bayes_shapley(model, x, reference, "ilr", weights=weights)
    yield "gaussian, weighted values", found
    groups = ms.Players(("sepal", "petal"), torch.tensor([0, 0, 1, 1]))
    found = ms.naive_bayes.naive_bayes_shapley(model, x, reference, "ilr", players=groups)
    yield "gaussian, groups", found


def scores(inputs: Inputs) -> Results:
    """Errors of value functions, raw and without the variance of draws; leakage; distances."""
    mixed = inputs["mixed"]
    x, mask, reference = mixed["x"], mixed["mask"], mixed["reference"]
    players, model = players_of(mixed), network(mixed["model"])
    made = {
        "marginal": ms.imputers.MarginalImputer(reference, players),
        "gaussian": ms.imputers.GaussianImputer(reference, players, RIDGE),
        "empirical": ms.imputers.EmpiricalImputer(reference, players, 0.5, regularisation=RIDGE),
    }
    values = {name: ms.imputed_value(model, each, draws=12, seed=1) for name, each in made.items()}
    for name, value in values.items():
        yield f"scores, {name}", ms.metrics.mean_squared_error(value, x, mask)
        yield (
            f"scores, {name}, batches",
            ms.metrics.mean_squared_error(value, x, mask, batch_size=30),
        )
        yield f"scores, {name}, leakage", torch.tensor(ms.metrics.leakage(value, x, mask, seed=1))
    leaking = ms.as_value_function(
        lambda x, mask: (x[:, None] + 0.0 * mask)[..., :2], iris_x(inputs)
    )
    pairs = ms.metrics.shapley_pairs(len(iris_x(inputs)), 4, least=20)
    yield (
        "scores, leakage that there is",
        torch.tensor(ms.metrics.leakage(leaking, iris_x(inputs), pairs)),
    )
    numbers = ms.imputed_value(
        regression(mixed["model"], reference), made["gaussian"], "identity", draws=12
    )
    yield "scores, numbers", ms.metrics.mean_squared_error(numbers, x, mask)
    yield (
        "scores, distance",
        ms.metrics.mean_squared_error(values["marginal"], x, mask, truth=values["gaussian"]),
    )


def iris_x(inputs: Inputs) -> torch.Tensor:
    return inputs["iris"]["x"]


def global_figures(inputs: Inputs) -> Results:
    """Global values of classes and of a regression; the error of learning."""
    mixed = inputs["mixed"]
    reference, labels = mixed["reference"], mixed["labels"]
    players, model = players_of(mixed), network(mixed["model"])
    x, y = reference[:30], labels[:30]
    half, other, whole = (
        ms.permutation_shapley(
            ms.imputed_value(model, ms.imputers.GaussianImputer(rows, players, RIDGE), draws=8),
            x,
            permutations=4,
            seed=seed,
        )
        for seed, rows in enumerate((reference[::2], reference[1::2], reference))
    )
    yield "global, classes", ms.global_values(half, y)
    yield "global, interval", torch.stack(ms.global_values(half, y).interval(0.9))
    learned = ms.with_learning_error(whole, [half, other])
    yield "learning error", learned
    yield "learning error, interval", torch.stack(learned.interval(0.9))
    table = long_frame(learned).select_dtypes("number")
    yield "learning error, long frame", torch.from_numpy(table.head(40).to_numpy(float, copy=True))
    yield "sampled, interval", torch.stack(half.interval(0.9))
    yield "global, learning error", ms.global_values(learned, y)
    numbers = regression(mixed["model"], reference)
    value = ms.imputed_value(
        numbers, ms.imputers.MarginalImputer(reference, players), "identity", draws=8
    )
    found = ms.permutation_shapley(value, x, permutations=4)
    target = reference[:30, 0].numpy()
    yield "global, numbers", ms.global_values(found, target, found.outputs[1])


def oracles(inputs: Inputs) -> Results:
    """Known laws, true value functions and true Shapley values."""
    law = ms.oracles.GaussianMixture.random(elements=5, components=3, seed=0)
    x, y = law.sample(6, seed=1)
    mask = ms.metrics.shapley_pairs(6, 5, least=30, seed=2)
    yield "mixture, rows", x
    yield "mixture, labels", y
    yield "mixture, completed", law.complete(x, mask, draws=3)
    yield "mixture, posterior", law.posterior(x, mask)
    model = ms.as_model(lambda x: (x[:, :3] + x[:, 2:]).tanh().softmax(-1), x)
    truth = ms.oracles.true_value(model, law, space="ilr", draws=20, rows=300)
    yield from estimated("mixture, truth", truth, x, mask)
    posterior = ms.oracles.PosteriorValue(law)
    yield "mixture, posterior", ms.exact_shapley(posterior, x)
    drawn = ms.imputed_value(model, ms.oracles.OracleImputer(law, rows=50), "ilr", draws=8)
    yield from estimated("mixture, drawn", drawn, x, mask)
    off = ms.imputed_value(
        model, ms.imputers.MarginalImputer(law.sample(100, seed=3).x), "ilr", draws=8
    )
    yield "mixture, distance", ms.metrics.mean_squared_error(off, x, mask, truth=truth)
    true_phi = ms.oracles.true_shapley(truth, x[:3], error=0.1)
    yield "mixture, true values", true_phi
    far = ms.oracles.distance_to_true_shapley(ms.exact_shapley(off, x[:3]), true_phi)
    yield "mixture, far", torch.tensor([far.error, far.standard_error, far.truth_error])
