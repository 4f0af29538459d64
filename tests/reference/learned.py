"""Everything that is learned: after three steps of its training, and with weights that are stored.

Each is made by its own fit function, in three steps. Their results are those `AFTER` three steps;
then weights that `make.py --weights` has trained for longer take the place of these.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn

import manifold_shap as ms
from manifold_shap.vae.likelihood import Likelihood
from tests.reference.compare import AFTER
from tests.reference.examples import (
    DIGITS,
    GAUSSIAN,
    INPUTS,
    LEVEL,
    MIXED,
    MODEL,
    NUMBERS,
    PLAYERS,
    SERIES,
    STORED,
    TOKENS,
    Pictures,
    Tokens,
    estimators,
    network,
)
from tests.reference.results import estimated

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
# Biases in front of a batch normalisation have no gradient but its rounding, which AdamW makes as
# large as any. In double precision it is too small for that.
DOUBLE = STEPS | {
    "weight_averaging": None,
    "trainer": {**STEPS["trainer"], "precision": "64-true"},
}

# Codes in a bank. One is drawn where a uniform number falls among sums of their weights, which are
# rounded: with few codes and draws none falls between two roundings.
CODES = 12
ROWS, PICTURES = MIXED["reference"], DIGITS["reference"]
PATCHES = ms.Players.patches((1, 8, 8), 2)
MIXTURE = ms.imputers.MixtureImputer(ROWS, PLAYERS, components=3)


def amortized(of: str, x: Tensor, **settings: Any) -> ms.AmortizedExplainer:
    return ms.fit_amortized(stored(of), x, **settings)


surrogate, vae = ms.fit_surrogate, ms.fit_imputer
of_rows = partial(surrogate, MODEL, ROWS)
of_pictures = partial(surrogate, Pictures(), PICTURES)
teacher = partial(ms.imputed_value, ms.as_model(MODEL, ROWS, returns="logits"), draws=4)
# What is learned, from how long to train.
LEARNED: dict[str, Callable[..., Any]] = {
    "mixed surrogate": partial(of_rows, players=PLAYERS, hidden=[32, 32]),
    "mixed surrogate of log-ratios": partial(
        of_rows, players=PLAYERS, hidden=[32], activation="silu", space="ilr"
    ),
    "mixed surrogate of numbers": partial(
        surrogate, NUMBERS, ROWS, players=PLAYERS, hidden=[32], space="identity"
    ),
    "mixed surrogate with a teacher": partial(
        of_rows, teacher=teacher(GAUSSIAN), teacher_pairs=800, hidden=[16, 16]
    ),
    "digits, convolutions": partial(of_pictures, players=PATCHES, hidden=[4, 8], network="conv"),
    "digits, transformer": partial(
        of_pictures, players=ms.Players.patches((1, 8, 8), 4), hidden=[32], patch=4,
        network="transformer",
    ),
    "digits, the model": partial(of_pictures, players=PATCHES, network="model"),
    "series, convolutions": partial(
        surrogate, LEVEL, SERIES[0], players=SERIES[1], hidden=[4, 4], space="identity",
        network="conv",
    ),
    "tokens, transformer": partial(
        surrogate, Tokens().eval().forward, TOKENS[0], players=TOKENS[1], hidden=[32],
        space="identity", network="transformer",
    ),
    "tokens, the model": partial(
        surrogate, Tokens().eval(), TOKENS[0], players=TOKENS[1], space="identity",
        network="model",
    ),
    # Its masked encoder is there for those who draw from it.
    "mixed vae": partial(
        vae, ROWS, players=PLAYERS, hidden=[24, 24], latent=3, components=2,
        posterior="encoder", temper=0.4,
    ),
    "mixed vae of quantiles": partial(
        vae, ROWS, players=PLAYERS, continuous="quantile", bins=6, fill=0.0, hidden=[16],
        latent=2, components=3, beta=0.5, detach=False, posterior="encoder", temper=1.0,
    ),
    "digits vae of convolutions": partial(
        vae, PICTURES, players=PATCHES, hidden=[4, 8], latent=3, temper=0.05,
        posterior="encoder", network="conv",
    ),
    "series vae": partial(
        vae, SERIES[0], players=SERIES[1], hidden=[16], latent=2, components=2, temper=0.3,
        bank_size=CODES,
    ),
    "mixed guided": partial(
        of_rows, teacher=teacher(MIXTURE, seed=2), guide=MIXTURE, teacher_pairs=300,
        hidden=[24, 24],
    ),
    "mixed amortised": partial(amortized, "mixed surrogate", ROWS, hidden=[16, 8]),
    "digits amortised, transformer": partial(amortized, "digits, transformer", PICTURES),
    "tokens amortised, transformer": partial(amortized, "tokens, transformer", TOKENS[0]),
}  # fmt: skip


@cache
def briefly(name: str) -> Any:
    """Something learned, after three steps."""
    double = name in ("digits, convolutions", "series, convolutions")
    return LEARNED[name](**(DOUBLE if double else STEPS))


@cache
def stored(name: str) -> Any:
    """Something learned, with the stored weights: a VAE has its codes from them."""
    thing = LEARNED[name](**STEPS)
    network_of(thing).float()
    own, weights = weights_of(thing), STORED["weights"][name]
    if isinstance(thing, ms.VAEImputer):
        # Behind them are those of a masked encoder, and units.
        weights = weights[: len(own)]
    shapes = [tuple(each.shape) for each in own], [tuple(each.shape) for each in weights]
    assert shapes[0] == shapes[1], (
        "the network has other tensors than the stored ones, or in another order; put the stored "
        f"ones in their new places in inputs.pt: {shapes}"
    )
    with torch.no_grad():
        for mine, theirs in zip(own, weights, strict=True):
            mine.copy_(theirs)
    return drawn_by(thing, **thing.settings) if isinstance(thing, ms.VAEImputer) else thing


def network_of(thing: Any) -> nn.Module:
    return thing.surrogate if isinstance(thing, ms.SurrogateValue) else thing.network


def weights_of(thing: Any) -> list[Tensor]:
    """Parameters and floating buffers of the network of something learned, in their order.

    Units of a likelihood are not among them: they are those of the rows.
    """
    whole = network_of(thing)
    parts = [part for part in whole.modules() if isinstance(part, Likelihood)]
    units = {id(each) for part in parts for each in part.buffers()}
    tensors = [*whole.parameters(), *whole.buffers()]
    return [each for each in tensors if each.is_floating_point() and id(each) not in units]


def train_again() -> None:
    """Store weights of everything that is learned, trained for longer on the stored rows."""
    for name, build in LEARNED.items():
        STORED["weights"][name] = [each.float() for each in weights_of(build(**LONG))]
    torch.save(STORED, INPUTS)


def drawn_by(imputer: ms.VAEImputer, **settings: Any) -> ms.VAEImputer:
    """The same VAE, whose codes are drawn in another way."""
    return ms.VAEImputer(imputer.network, imputer.reference, imputer.players, **settings)


def rows_of(name: str) -> Tensor:
    """Three rows of the data that a thing has learned."""
    rows = {"series": SERIES[0], "tokens": TOKENS[0], "mixed": MIXED["x"], "digits": DIGITS["x"]}
    return rows[name.split(" ")[0].strip(",")][:3]


def masks(value: ms.ValueFunction, x: Tensor) -> Tensor:
    counts = value.counts(x) if value.players.by_row else None
    return ms.metrics.shapley_pairs(
        len(x), len(value.players), least=8 * len(x), seed=7, counts=counts
    )


def trainings() -> dict[str, Any]:
    """Values after three steps of every training, and the validation error."""
    found: dict[str, Any] = {}
    for name in LEARNED:
        thing, x = briefly(name), rows_of(name)
        if isinstance(thing, ms.AmortizedExplainer):
            found[f"{name}, {AFTER}, phi"] = thing(x)
            continue
        value = thing
        if isinstance(thing, ms.VAEImputer):
            sizes = [each.square().sum().sqrt() for each in weights_of(thing)]
            found[f"{name}, {AFTER}, weights"] = torch.stack(sizes)
            # Of numbers, so that draws count as they are.
            model = ms.as_model(lambda x: x.flatten(1)[:, :4].cumsum(1), x, returns="values")
            model = LEVEL if name.startswith("series") else model
            value = ms.imputed_value(model, thing, "identity", draws=8, seed=3)
        found[f"{name}, {AFTER}, values"] = value(x, masks(value, x))
        found[f"{name}, {AFTER}, validation"] = thing.training_record["validation"]
    return found


def other_trainings() -> dict[str, Any]:
    """Other schedules, blocks of players, and global values of two halves."""
    x, small = MIXED["x"], {"players": PLAYERS, "hidden": [8]}
    few = {"folds": 2, "players": PLAYERS, "training": {"hidden": [8], **STEPS}}
    cosine = {"schedule": "cosine", "patience": None, "weight_averaging": None}
    constant = {"schedule": "constant", "weight_decay": 0.5, "seed": 3, "max_epochs": 2}
    of_patches = {"players": PATCHES, "network": "mlp", "hidden": [8], "blocks": 1.0}
    blocks = ms.fit_surrogate(network(DIGITS["model"]), PICTURES, **of_patches, **STEPS)
    return {
        f"blocks, {AFTER}, values": blocks(DIGITS["x"], masks(blocks, DIGITS["x"])),
        f"corrected, {AFTER}": ms.corrected_global_values(MODEL, ROWS, MIXED["labels"], **few),
        **{
            f"{options['schedule']}, {AFTER}, values": of_rows(**small, **{**STEPS, **options})(
                x, MIXED["mask"]
            )
            for options in (cosine, constant)
        },
    }


def surrogates() -> dict[str, Any]:
    """Values and Shapley values of surrogates with stored weights."""
    found: dict[str, Any] = {}
    for name in LEARNED:
        value, x = stored(name), rows_of(name)
        if not isinstance(value, ms.SurrogateValue):
            continue
        few = max(60, 2 * len(value.players) - 2)
        found[name] = estimated(value, x, masks(value, x))
        found[f"{name}, auto"] = ms.auto_shapley(value, x, evaluations=few, seed=2)
        if name.startswith("digits"):
            found[f"{name}, permutation"] = ms.permutation_shapley(
                value.select([3, 7]), x, permutations=4, seed=2
            )
    value, x = stored("mixed surrogate"), MIXED["x"]
    few = {f"few by {kind}": call(value, x) for kind, call in estimators(len(PLAYERS)).items()}
    grouped = value.grouped({"front": list(PLAYERS.names[:3])}).select([1])
    scores = ms.metrics.errors_by_law(stored("digits, convolutions"), DIGITS["x"], least=40)
    return found | {
        "mixed surrogate": {
            **found["mixed surrogate"],
            **few,
            "exact": ms.exact_shapley(value, x),
            "group": ms.exact_shapley(grouped, x),
            "error": ms.metrics.mean_squared_error(value, x, masks(value, x)),
        },
        "digits, convolutions": {**found["digits, convolutions"], **scores},
    }


def vaes() -> dict[str, Any]:
    """Values by VAEs with stored weights: codes of a bank, and codes of the masked encoder."""
    rows, pictures = stored("mixed vae"), stored("digits vae of convolutions")
    mixed, digits = (MODEL, MIXED["x"], 16, 6), (network(DIGITS["model"]), DIGITS["x"], 4, 4)
    importance = {"posterior": "encoder", "importance": True, "temper": 0.3}
    made: dict[str, tuple[tuple[Any, Tensor, int, int], ms.VAEImputer]] = {
        "mixed, vae, bank": (mixed, drawn_by(rows, temper=0.4, bank_size=CODES)),
        "mixed, vae, encoder": (mixed, drawn_by(rows, posterior="encoder")),
        "mixed, vae, importance": (mixed, drawn_by(rows, **importance)),
        "mixed, vae, quantiles, encoder": (mixed, stored("mixed vae of quantiles")),
        "digits vae of convolutions, encoder": (digits, pictures),
        "series vae": ((LEVEL, SERIES[0][:3], 6, 4), stored("series vae")),
    }
    found: dict[str, Any] = {}
    for name, ((model, x, draws, permutations), imputer) in made.items():
        space = "identity" if model is LEVEL else "probability"
        value = ms.imputed_value(model, imputer, space, draws=draws, seed=5)
        value = value.select([3, 7]) if name.startswith("digits") else value
        mask = MIXED["mask"] if name.startswith("mixed") else masks(value, x)
        found[name] = estimated(value, x, mask)
        found[f"{name}, permutation"] = ms.permutation_shapley(
            value, x, permutations=permutations, seed=1
        )
    return found


def amortised() -> dict[str, Any]:
    """Shapley values in one pass, and their measured error."""
    explainers = {name: stored(name) for name in LEARNED if " amortised" in name}
    one = explainers["mixed amortised"]
    explain = partial(ms.amortized_shapley, one.value, MIXED["x"], explainer=one)
    exact = ms.exact_shapley(one.value, ROWS[:20])
    return {
        **{
            name: ms.amortized_shapley(each.value, rows_of(name), explainer=each)
            for name, each in explainers.items()
        },
        "mixed amortised, one output": explain(outputs=[1]),
        "mixed amortised, measured": one.measure(exact),
    }
