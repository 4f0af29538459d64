"""Everything that is learned: after three steps of its training, and with weights that are stored.

Each is made by its own fit function, in three steps. Their results are those `AFTER` three steps;
then weights that `make.py --inputs` has trained for longer take the place of these.
"""

import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import manifold_shap as ms
from tests.reference.compare import AFTER, INPUTS, Inputs, Results, load
from tests.reference.doors import (
    RIDGE,
    drawn_by,
    estimated,
    estimators,
    network,
    players_of,
    regression,
    weights_of,
    with_weights,
)
from tests.reference.rows import padded_series, some_tokens, token_model

CPU: Mapping[str, Any] = {"accelerator": "cpu"}
# A patience, so that the smallest validation error and its weights count, too.
STEPS: dict[str, Any] = {
    "max_epochs": 1,
    "batch_size": 32,
    "learning_rate": 3e-2,
    "patience": 5,
    "weight_averaging": 0.5,
    "progress": False,
    "trainer": {**CPU, "limit_train_batches": 3},
}
LONG: dict[str, Any] = {"max_epochs": 3, "batch_size": 64, "progress": False, "trainer": CPU}

# Codes in a bank. One is drawn where a uniform number falls among sums of their weights, which are
# rounded: with few codes and draws none falls between two roundings.
CODES = 12


@cache
def briefly(name: str) -> Any:
    """Something learned, after three steps."""
    return builders()[name](STEPS)


@cache
def stored(name: str) -> Any:
    """Something learned, with the stored weights."""
    return with_weights(builders()[name](STEPS), load(INPUTS)["weights"][name])


def train_again(weights: dict[str, list[Tensor]]) -> None:
    """Put in what is stored of everything that is learned, trained for longer."""
    for name, build in builders().items():
        weights[name] = [each.float() for each in weights_of(build(LONG))]


class OwnModel(nn.Module):
    """A convolutional classifier of pictures of 8 x 8, from stored weights."""

    def __init__(self, tensors: Inputs) -> None:
        super().__init__()
        filters, last = tensors["filters"], tensors["last"]
        self.convolution = nn.Conv2d(1, len(filters), 3, 2)
        self.last = nn.Linear(last.shape[1], len(last))
        with torch.no_grad():
            self.convolution.weight.copy_(filters)
            self.convolution.bias.zero_()
            self.last.weight.copy_(last)
            self.last.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.convolution(x).relu().flatten(1))


class OwnNetwork(nn.Module):
    """A surrogate's network of one's own, which takes known elements and the mask."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(128, 24), nn.Tanh(), nn.Linear(24, 10))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.layers(torch.cat((x.flatten(1), mask.flatten(1)), 1)).softmax(-1)


# From how long to train.
Builder = Callable[[dict[str, Any]], Any]
MIXED, DIGITS = load(INPUTS)["mixed"], load(INPUTS)["digits"]
PATCHES = ms.Players.patches((1, 8, 8), 2)
SERIES, TOKENS = padded_series(load(INPUTS)), some_tokens(load(INPUTS))
NUMBERS = regression(MIXED["model"], MIXED["reference"])


def _surrogate(model: Any, x: Tensor, players: ms.Players | None = None, **own: Any) -> Builder:
    def build(steps: dict[str, Any]) -> Any:
        made = {**own, "network": own["network"]()} if callable(own.get("network")) else own
        return ms.fit_surrogate(model, x, players=players, **made, **steps)

    return build


def _of_mixed(model: Any = None, **own: Any) -> Builder:
    model = model or network(MIXED["model"])
    return _surrogate(model, MIXED["reference"], players_of(MIXED), **own)


def _of_digits(players: ms.Players = PATCHES, **own: Any) -> Builder:
    return _surrogate(OwnModel(DIGITS["own model"]), DIGITS["reference"], players, **own)


def _in_double(build: Builder) -> Builder:
    """The same three steps in double precision.

    Biases in front of a batch normalisation have no gradient but its rounding, which AdamW makes as
    large as any. In double precision it is too small for that.
    """

    def doubled(steps: dict[str, Any]) -> Any:
        double = {"trainer": {**steps["trainer"], "precision": "64-true"}}
        return build(steps if steps is LONG else {**steps, "weight_averaging": None, **double})

    return doubled


def _taught(imputer: ms.imputers.Imputer, model: Any, draws: dict[str, int], **own: Any) -> Builder:
    """A surrogate of the mixed rows that learns from an imputer."""
    teacher = ms.imputed_value(model, imputer, own.get("space", "probability"), **draws)
    return _surrogate(model, MIXED["reference"], teacher=teacher, **own)


def _vae(x: Tensor, players: ms.Players, **own: Any) -> Builder:
    return lambda steps: ms.fit_imputer(x, players=players, **own, **steps)


def _amortised(of: str, x: Tensor, slow: bool = False, **own: Any) -> Builder:
    def build(steps: dict[str, Any]) -> Any:
        # Pixels that are always 0 have no gradient but its rounding.
        slower = {"learning_rate": 2e-4} if slow and steps is STEPS else {}
        return ms.fit_amortized(stored(of), x, **own, **{**steps, **slower})

    return build


@cache
def builders() -> dict[str, Builder]:
    x, players = MIXED["reference"], players_of(MIXED)
    pictures, pixels = DIGITS["reference"], players_of(DIGITS)
    discrete = load(INPUTS)["discrete"]
    gaussian = ms.imputers.GaussianImputer(x, players, RIDGE)
    mixture = ms.imputers.MixtureImputer(x, players, components=3)
    tokens = token_model(load(INPUTS))
    plain = network(MIXED["model"])
    drawn = {"draws": 4, "seed": 2}
    return {
        "mixed surrogate": _of_mixed(hidden=[32, 32]),
        "mixed surrogate of log-ratios": _of_mixed(hidden=[32], activation="silu", space="ilr"),
        "mixed surrogate of numbers": _of_mixed(NUMBERS, hidden=[32], space="identity"),
        "mixed surrogate with a teacher": _taught(
            gaussian, plain, {"draws": 4}, teacher_pairs=800, hidden=[16, 16]
        ),
        "discrete surrogate of log-odds": _surrogate(
            network(discrete["model"]), discrete["reference"], space="log_odds", hidden=[16]
        ),
        "digits surrogate": _surrogate(
            network(DIGITS["model"]), pictures, pixels, hidden=[32, 32]
        ),
        "digits, convolutions": _in_double(_of_digits(hidden=[4, 8], network="conv")),
        "digits, transformer": _of_digits(
            ms.Players.patches((1, 8, 8), 4), hidden=[32], patch=4, network="transformer"
        ),
        "digits, the model": _of_digits(network="model"),
        "digits, own network": _of_digits(network=_own_network),
        "series, convolutions": _in_double(
            _surrogate(*SERIES, hidden=[4, 4], space="identity", network="conv")
        ),
        "tokens, transformer": _surrogate(
            tokens.forward, *TOKENS, hidden=[32], space="identity", network="transformer"
        ),
        "tokens, the model": _surrogate(tokens, *TOKENS, space="identity", network="model"),
        # Its masked encoder is there for those who draw from it.
        "mixed vae": _vae(
            x, players, hidden=[24, 24], latent=3, components=2, posterior="encoder", temper=0.4
        ),
        "mixed vae of quantiles": _vae(
            x, players, continuous="quantile", bins=6, fill=0.0, hidden=[16], latent=2,
            components=3, beta=0.5, detach=False, posterior="encoder", temper=1.0,
        ),
        "digits vae": _vae(
            pictures, pixels, hidden=[24], latent=3, components=2, temper=0.05, bank_size=CODES
        ),
        "digits vae of convolutions": _vae(
            pictures, PATCHES, hidden=[4, 8], latent=3, temper=0.05, posterior="encoder",
            network="conv",
        ),
        "series vae": _vae(
            *SERIES[1:], hidden=[16], latent=2, components=2, temper=0.3, bank_size=CODES
        ),
        "mixed guided": _taught(
            mixture, plain, drawn, guide=mixture, teacher_pairs=300, hidden=[24, 24]
        ),
        "mixed guided, of numbers": _taught(
            gaussian, NUMBERS, drawn, guide=ms.imputers.MixtureImputer(x, players),
            teacher_pairs=300, space="identity", hidden=[16],
        ),
        "mixed amortised": _amortised("mixed surrogate", x, hidden=[16, 8]),
        "digits amortised": _amortised(
            "digits surrogate", pictures, slow=True, hidden=[8], shares=2
        ),
        "digits amortised, transformer": _amortised("digits, transformer", pictures),
        "tokens amortised, transformer": _amortised("tokens, transformer", TOKENS[0]),
    }  # fmt: skip


def _own_network() -> OwnNetwork:
    torch.manual_seed(0)
    OwnModel(DIGITS["own model"])  # As its numbers were drawn when results were first stored.
    return OwnNetwork()


def _rows(name: str, inputs: Inputs) -> Tensor:
    """Three rows of the data that a thing has learned."""
    if name.startswith("series"):
        return padded_series(inputs)[1][:3]
    if name.startswith("tokens"):
        return some_tokens(inputs)[0][:3]
    return inputs[name.split(" ")[0].strip(",")]["x"][:3]


def trainings(inputs: Inputs) -> Results:
    """Values after three steps of every training, and the validation error."""
    for name in builders():
        thing, x = briefly(name), _rows(name, inputs)
        if isinstance(thing, ms.AmortizedExplainer):
            yield f"{name}, {AFTER}, phi", thing(x)
            continue
        if isinstance(thing, ms.VAEImputer):
            yield (
                f"{name}, {AFTER}, weights",
                torch.stack([_size(each) for each in weights_of(thing)]),
            )
            value: Any = ms.imputed_value(_model(name, inputs), thing, "identity", draws=8, seed=3)
        else:
            value = thing
        mask = _masks(value, x)
        yield f"{name}, {AFTER}, values", value(x, mask)
        yield (
            f"{name}, {AFTER}, validation",
            torch.tensor(thing.training_record["validation"]),
        )
    yield from _corrected(inputs)
    yield from _with_other_options(inputs)


def _size(weights: Tensor) -> Tensor:
    return weights.square().sum().sqrt()


def _model(name: str, inputs: Inputs) -> ms.Model:
    """Numbers, so that draws count as they are."""
    if name.startswith("series"):
        return padded_series(inputs)[0]
    x = _rows(name, inputs)
    return ms.as_model(lambda x: x.flatten(1)[:, :4].cumsum(1), x, returns="values")


def _masks(value: ms.ValueFunction, x: Tensor) -> Tensor:
    counts = value.counts(x) if value.players.by_row else None
    return ms.metrics.shapley_pairs(
        len(x), len(value.players), least=8 * len(x), seed=7, counts=counts
    )


def _corrected(inputs: Inputs) -> Results:
    """Global values with surrogates of halves, of the model's outputs and of labels."""
    mixed = inputs["mixed"]
    model, x, y = network(mixed["model"]), mixed["reference"], mixed["labels"]
    few = {"folds": 2, "players": players_of(mixed), "training": {"hidden": [8], **STEPS}}
    yield f"corrected, {AFTER}", ms.corrected_global_values(model, x, y, **few)
    sampled = ms.corrected_global_values(model, x, y, estimator=ms.permutation_shapley, **few)
    yield f"corrected by permutations, {AFTER}", sampled

    def learn(rows: Any, labels: Tensor) -> Any:
        imputer = ms.imputers.MarginalImputer(rows.train[:40], players_of(mixed))
        return tuple(ms.imputed_value(each, imputer, draws=4) for each in (model, other))

    other = ms.as_model(lambda x: (model(x).detach() / 2).softmax(-1), x)
    found = ms.corrected_global_values(model, x, y, folds=2, learn=learn, players=players_of(mixed))
    yield "corrected, own value functions", found


def _with_other_options(inputs: Inputs) -> Results:
    """The last weights, plain ones, other schedules, and blocks of players."""
    mixed, digits = inputs["mixed"], inputs["digits"]
    for name, options in {
        "cosine": {"schedule": "cosine", "patience": None, "weight_averaging": None},
        "constant": {"schedule": "constant", "weight_decay": 0.5, "seed": 3, "max_epochs": 2},
    }.items():
        settings = {"players": players_of(mixed), "hidden": [8], **STEPS, **options}
        value = ms.fit_surrogate(network(mixed["model"]), mixed["reference"], **settings)
        yield f"{name}, {AFTER}, values", value(mixed["x"], mixed["mask"])
        yield f"{name}, epochs", torch.tensor(value.training_record["epochs"])
    settings = {"players": ms.Players.patches((1, 8, 8), 2), "hidden": [8], "blocks": 1.0, **STEPS}
    value = ms.fit_surrogate(network(digits["model"]), digits["reference"], **settings)
    yield f"blocks, {AFTER}, values", value(digits["x"], _masks(value, digits["x"]))


def surrogates(inputs: Inputs) -> Results:
    """Values of surrogates with stored weights, and Shapley values by every estimator."""
    for name in builders():
        value, x = stored(name), _rows(name, inputs)
        if isinstance(value, ms.SurrogateValue):
            mask = _masks(value, x)
            yield from estimated(name, value, x, mask)
            yield f"{name}, base", value.base(x)
            few = max(60, 2 * len(value.players) - 2)
            yield f"{name}, auto", ms.auto_shapley(value, x, evaluations=few, seed=2)
            yield f"{name}, error", ms.metrics.mean_squared_error(value, x, mask)
    for name in ("mixed surrogate", "mixed surrogate of numbers", "mixed guided"):
        value, x = stored(name), inputs["mixed"]["x"]
        for kind, estimate in estimators(len(value.players)).items():
            yield f"{name}, few by {kind}", estimate(value, x)
        yield f"{name}, exact", ms.exact_shapley(value, x)
    for name in (
        "digits, transformer",
        "digits, convolutions",
        "digits, own network",
        "digits, the model",
    ):
        value, x = stored(name).select([3, 7]), inputs["digits"]["x"]
        found = ms.permutation_shapley(value, x, permutations=4, seed=2)
        yield f"{name}, permutation", found
    value, x = stored("digits surrogate").select([3, 7]), inputs["digits"]["x"]
    runs = {
        "permutation": ms.permutation_shapley(value, x, permutations=6, seed=2),
        "adaptive": ms.adaptive_shapley(value, x, samples=512, least=4, seed=2),
        "kernel": ms.kernel_shapley(value, x, evaluations=400, seed=2),
    }
    for name, found in runs.items():
        yield f"digits surrogate, {name}", found
    value = stored("mixed surrogate")
    groups = {"front": list(value.players.names[:3])}
    grouped = value.grouped(groups).select([1])
    yield "mixed surrogate, group", ms.exact_shapley(grouped, inputs["mixed"]["x"])
    for law, score in ms.metrics.errors_by_law(
        stored("digits, convolutions"), inputs["digits"]["x"], least=40
    ).items():
        yield f"digits, convolutions, {law}", score


def vaes(inputs: Inputs) -> Results:
    """Values by VAEs with stored weights: codes of a bank, and codes of the masked encoder."""
    mixed, digits = inputs["mixed"], inputs["digits"]
    x, mask = mixed["x"], mixed["mask"]
    imputer, model = (
        drawn_by(stored("mixed vae"), temper=0.4, bank_size=CODES),
        network(mixed["model"]),
    )
    made = {
        "bank": imputer,
        "bank of 5": drawn_by(imputer, bank_size=5, temper=1.0, seed=2),
        "encoder": drawn_by(imputer, posterior="encoder"),
        "importance": drawn_by(imputer, posterior="encoder", importance=True, temper=0.3),
        "quantiles, encoder": stored("mixed vae of quantiles"),
        "quantiles, bank": drawn_by(stored("mixed vae of quantiles"), temper=0.3, bank_size=CODES),
    }
    for name, each in made.items():
        value = ms.imputed_value(model, each, draws=16, seed=5)
        yield from estimated(f"mixed, vae, {name}", value, x, mask)
        found = ms.permutation_shapley(value, x, permutations=6, seed=1)
        yield f"mixed, vae, {name}, permutation", found
    for name in ("bank", "importance"):
        value = ms.imputed_value(model, made[name], draws=8, seed=5)
        for kind, estimate in estimators(len(value.players)).items():
            if kind != "permutation":
                yield f"mixed, vae, {name}, {kind}", estimate(value, x)
    causal = ms.imputers.CausalImputer(
        imputer, [list(value.players.names[:4]), list(value.players.names[4:])]
    )
    value = ms.imputed_value(model, causal, draws=8, seed=5)
    yield "mixed, vae, causal, exact", ms.exact_shapley(value, x)
    x = digits["x"]
    convolved = stored("digits vae of convolutions")
    drawn = {
        "digits vae": stored("digits vae"),
        "digits vae of convolutions": drawn_by(convolved, temper=0.05, bank_size=CODES),
        "digits vae of convolutions, encoder": convolved,
    }
    for name, imputer in drawn.items():
        value = ms.imputed_value(network(digits["model"]), imputer, draws=4, seed=5)
        value = value.select([3, 7])
        yield from estimated(name, value, x, _masks(value, x))
        yield f"{name}, permutation", ms.permutation_shapley(value, x, permutations=4, seed=1)
    numbers, series, _ = padded_series(inputs)
    value = ms.imputed_value(numbers, stored("series vae"), "identity", draws=6, seed=5)
    yield from estimated("series vae", value, series[:3], _masks(value, series[:3]))
    found = ms.permutation_shapley(value, series[:3], permutations=4, seed=1)
    yield "series vae, permutation", found


def amortised(inputs: Inputs) -> Results:
    """Shapley values in one pass, and their measured error."""
    for name in builders():
        explainer, x = stored(name), _rows(name, inputs)
        if isinstance(explainer, ms.AmortizedExplainer):
            yield name, ms.amortized_shapley(explainer.value, x, explainer=explainer)
    explainer, x = stored("mixed amortised"), inputs["mixed"]["x"]
    yield (
        "mixed amortised, one output",
        ms.amortized_shapley(explainer.value, x, explainer=explainer, outputs=[1]),
    )
    exact = ms.exact_shapley(explainer.value, inputs["mixed"]["reference"][:20])
    yield "mixed amortised, measured", torch.tensor(explainer.measure(exact))


def rows_in_files(inputs: Inputs) -> Results:
    """What is learned from rows in a file or a data set, and rows in a file that are explained."""
    mixed = inputs["mixed"]
    model, x, players = network(mixed["model"]), mixed["reference"], players_of(mixed)
    settings = {"players": players, "hidden": [8], **STEPS}
    with tempfile.TemporaryDirectory() as place:
        np.save(f"{place}/rows.npy", x.numpy())
        mapped = np.load(f"{place}/rows.npy", mmap_mode="r")
        sources = {"file": mapped, "data set": TensorDataset(x)}
        for name, rows in sources.items():
            value = ms.fit_surrogate(model, rows, **settings)
            yield f"{name}, surrogate {AFTER}, values", value(mixed["x"], mixed["mask"])
        vae = ms.fit_imputer(mapped, latent=2, temper=0.4, bank_size=CODES, **settings)
        value = ms.imputed_value(model, vae, draws=8, seed=1)
        yield f"file, vae {AFTER}, values", value(mixed["x"], mixed["mask"])
        explainer = ms.fit_amortized(stored("mixed surrogate"), mapped, hidden=[8], **STEPS)
        yield f"file, amortised {AFTER}, phi", explainer(mixed["x"])
        value = stored("mixed surrogate")
        ms.explain_rows(f"{place}/of.zarr", value, mapped[:9], ms.exact_shapley, block=4)
        yield "file, explained", ms.Explanation.load(f"{place}/of.zarr")
