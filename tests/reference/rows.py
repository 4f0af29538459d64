"""Rows whose players differ from row to row: padding, words, superpixels, labels."""

from typing import Any

import torch
from torch import Tensor, nn

import manifold_shap as ms
from tests.reference.compare import Inputs, Results
from tests.reference.doors import estimated, estimators, network

PADDING = -9.0
TEXTS = [
    "The room was quiet. It was good!",
    "Bad food; the service was slow and cold.",
    "Good.",
    "The food was fresh, and it's not cold.",
]


def padded_series(inputs: Inputs) -> tuple[ms.Model, Tensor, ms.Players]:
    """Series of two channels and up to twelve time points, padded, and a model of them."""
    x, weight = inputs["series"]["x"], inputs["series"]["weight"]

    def level(x: Tensor) -> Tensor:
        known = x.where(x != PADDING, 0.0)
        return (known * weight).sum((1, 2))[:, None].tanh() + known.mean((1, 2))[:, None]

    return ms.as_model(level, x, returns="values"), x, ms.Players.segments((2, 12), 2, PADDING)


def some_tokens(inputs: Inputs) -> tuple[Tensor, ms.Players]:
    """Rows of up to six tokens out of nine, padded by 0."""
    x = inputs["tokens"]["x"]
    return x, ms.Players.tokens(x.shape[1], padding=0)


class TokenModel(nn.Module):
    """A mean of vectors of tokens and of their order, through a tanh."""

    def __init__(self, tensors: Inputs) -> None:
        super().__init__()
        self.embedding = nn.Embedding(*tensors["vectors"].shape, padding_idx=0)
        self.last = nn.Linear(tensors["vectors"].shape[1], 1)
        with torch.no_grad():
            self.embedding.weight.copy_(tensors["vectors"])
            self.last.weight.copy_(tensors["last"])
            self.last.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        vectors = self.embedding(x)
        return self.last((vectors + 0.5 * vectors.cumsum(1)).sum(1).tanh())


def token_model(inputs: Inputs) -> TokenModel:
    return TokenModel(inputs["tokens"]).eval()


def padded(inputs: Inputs) -> Results:
    """Tokens and series of differing length under every estimator."""
    x, players = some_tokens(inputs)
    model, few = token_model(inputs), x[:4]
    imputers = {
        "padding": ms.imputers.PaddingImputer(players),
        "deletion": ms.imputers.DeletionImputer(players),
        "mask token": ms.imputers.MaskTokenImputer(1, players),
        "marginal": ms.imputers.MarginalImputer(x, players),
    }
    for name, imputer in imputers.items():
        value = ms.imputed_value(model, imputer, "identity", draws=8, seed=5)
        counts = value.counts(few)
        yield f"tokens, {name}, counts", counts
        mask = ms.metrics.shapley_pairs(len(few), len(players), least=32, seed=1, counts=counts)
        yield from estimated(f"tokens, {name}", value, few, mask)
        yield f"tokens, {name}, exact", ms.exact_shapley(value, few)
        yield f"tokens, {name}, base", value.base(few)
    value = ms.imputed_value(model, imputers["marginal"], "identity", draws=8, seed=5)
    for kind, estimate in estimators(len(players)).items():
        yield f"tokens, marginal, {kind}", estimate(value, few)
    value = ms.imputed_value(model, imputers["padding"], "identity")
    yield "tokens, padding, pairs", ms.shapley_interactions(value, few)
    numbers, series, segments = padded_series(inputs)
    value = ms.imputed_value(
        numbers, ms.imputers.MarginalImputer(series, segments), "identity", draws=8
    )
    yield "series, marginal, exact", ms.exact_shapley(value, series[:4])
    yield (
        "series, marginal, in time",
        ms.permutation_shapley(value, series[:4], ordering=[[name] for name in segments.names]),
    )


def by_row(inputs: Inputs) -> Results:
    """Words, sentences, superpixels and labels of one's own, as players of each row."""
    vocabulary = ms.text.Vocabulary.fit(TEXTS)
    x = vocabulary.encode(TEXTS)
    yield "words, tokens", x
    yield "words, of tokens", vocabulary.words(x)
    yield "words, sentences of tokens", vocabulary.sentences(x)
    yield "words, text", " ".join(token for row in vocabulary.decode(x) for token in row)
    generator = torch.Generator().manual_seed(0)
    worth = torch.randn(len(vocabulary), generator=generator)
    players = ms.Players.tokens(x.shape[1], padding=0)

    def rating(x: Tensor) -> Tensor:
        mine = worth[x] * (x != 0)
        return (mine.sum(1) + mine.cumsum(1).tanh().sum(1))[:, None]

    value = ms.imputed_value(
        ms.as_model(rating, x, returns="values"), ms.imputers.PaddingImputer(players), "identity"
    )
    kinds: dict[str, Any] = {
        "words": value.grouped(vocabulary.words, 10),
        "sentences": value.grouped(vocabulary.sentences, 3),
        "words of another tokenizer": value.grouped(
            ms.text.word_maps(x, [[k // 2 for k in range(x.shape[1])] for _ in x]), 8
        ),
    }
    for name, grouped in kinds.items():
        found = ms.auto_shapley(grouped, x, evaluations=60, seed=1)
        yield f"{name}, counts", found.counts
        yield f"{name}, auto", found
        yield f"{name}, permutation", ms.permutation_shapley(grouped, x, permutations=8, seed=1)
    yield from _pictures(inputs)


def _pictures(inputs: Inputs) -> Results:
    """Superpixels of plain fields of colour, and labels of one's own; blurred pictures."""
    fields = torch.zeros(2, 1, 8, 8)
    fields[:, :, :4, :4], fields[:, :, 4:, 4:] = 0.9, 0.5
    fields[1, :, :4] = 0.7
    labels = ms.superpixels(segments=4)
    yield "superpixels, labels", labels(fields)
    digits = inputs["digits"]
    model, players = network(digits["model"]), ms.Players.pixels((1, 8, 8))
    value = ms.imputed_value(
        model, ms.imputers.MarginalImputer(digits["reference"], players), draws=8
    )
    yield "superpixels, exact", ms.exact_shapley(value.grouped(labels, 4).select([3, 7]), fields)
    x = digits["x"]
    own = torch.arange(8)[:, None] // 4 * 2 + torch.arange(8) // 4
    own = torch.stack((own, own.clamp(max=2), own // 2))
    grouped = value.grouped(ms.label_maps(x, own), 4).select([3, 7])
    for kind, estimate in estimators(4).items():
        yield f"labels, {kind}", estimate(grouped, x)
    yield "labels, pairs", ms.shapley_interactions(grouped, x[:2])
    patches = ms.Players.patches((1, 8, 8), 4)
    blur = ms.imputed_value(model, ms.imputers.BlurImputer(digits["reference"], patches, sigma=1.0))
    yield "blur, exact", ms.exact_shapley(blur.select([3, 7]), x)
