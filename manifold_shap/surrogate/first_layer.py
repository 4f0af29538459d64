"""Finds the layer of a model that sees its rows first, and gives it weights for what is absent."""

import copy
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn.utils import parametrize

NUMBERS, TOKENS = (nn.Linear, nn.Conv1d, nn.Conv2d), (nn.Embedding, nn.EmbeddingBag)
# Rows of random elements, which what was found has to be right about.
_CHECKS = 16
# A share of the step between two numbers that is rounding.
_ROUNDING = 1e-3
# Of a layer that sees more numbers for an element of a row, all are taken for features.
_MOST_SEEN = 64
# Numbers that are known as a category, too, where a column holds one.
_LOW, _HIGH = 0.0, 1.0


class FirstLayer(NamedTuple):
    """What a layer sees of rows.

    Attributes:
        layer: its name.
        call: which of its calls in one of the model, from 0.
        axis: of its input, along which rows lie.
        order: of each number in the layer's input for one row, the element of the row that it is
            made of; -1 for what is no part of a row.
    """

    layer: str
    call: int
    axis: int
    order: Int64[Tensor, " inputs"]


@torch.no_grad()
def find_first_layer(
    module: nn.Module, event: Sequence[int], padding: float | None
) -> tuple[FirstLayer, bool]:
    """The first layer whose inputs are elements of rows, each of its own; whether these are tokens.

    Elements are followed to it by rows of two numbers only, in which those of each element spell
    its place. They may come in any order, and each changed by itself, as by a normalisation.

    Args:
        module: the model, which is put into evaluation mode.
        event: shape of a row.
        padding: the number that rows are padded by.

    Raises:
        ValueError: there is no such layer.
    """
    embeddings = [part for part in module.modules() if isinstance(part, TOKENS)]
    numbers = (p.dtype for p in module.parameters() if p.is_floating_point())
    dtype, reason = next(numbers, torch.get_default_dtype()), ""
    attempts: list[tuple[tuple[type[nn.Module], ...], float, float, torch.dtype]] = []
    if embeddings and len(event) == 1:
        size = max(part.num_embeddings for part in embeddings)
        known = [k for k in range(size > 3, 4) if k != padding]
        attempts.append((TOKENS, known[0], known[1], torch.int64))
    attempts.append((NUMBERS, _LOW, _HIGH, dtype))
    for kinds, low, high, kind in attempts:
        codes = _codes(torch.Size(event).numel())
        rows = torch.where(codes, high, low).to(kind).unflatten(1, tuple(event))
        try:
            found = _search(module.eval(), kinds, rows, codes)
        except Exception as error:  # A model of the user's may refuse such rows in any way.
            reason = reason or f", and fails on rows of {low:g} and {high:g} ({error!r:.200})"
            continue
        if found is not None:
            return found, kinds is TOKENS
    raise ValueError(
        "Expected a model for network='model' whose first layer is a Linear, Conv1d, Conv2d, "
        "Embedding or EmbeddingBag that sees the elements of a row one by one, to give it weights "
        f"for absent ones, but {type(module).__name__} has none that sees all that the model uses "
        f"of a row{reason}. Give a module of your own instead, `network=module`, that makes "
        "outputs of `(x * mask, mask)`; the model may be a part of it."
    )


def _codes(elements: int) -> Bool[Tensor, "rows elements"]:
    """Rows of no and yes, and after these the bits of each element's place, then random ones."""
    place = torch.arange(elements)
    bits = place >> torch.arange(max(1, (elements - 1).bit_length()))[:, None] & 1
    generator = torch.Generator().manual_seed(0)
    checks = torch.randint(2, (_CHECKS, elements), generator=generator)
    return torch.cat((torch.zeros(1, elements), torch.ones(1, elements), bits, checks)).bool()


def _search(
    module: nn.Module,
    kinds: tuple[type[nn.Module], ...],
    rows: Tensor,
    codes: Bool[Tensor, "rows elements"],
) -> FirstLayer | None:
    calls: Counter[str] = Counter()
    found: list[tuple[FirstLayer, Bool[Tensor, " elements"]]] = []

    def hook(name: str, layer: nn.Module, args: Any, kwargs: Any) -> None:
        given = args[0] if args else kwargs["input"]
        for axis in range(given.ndim):
            order = _order(given.movedim(axis, 0).cpu(), codes)
            if order is not None:
                unseen = torch.ones(codes.shape[1], dtype=torch.bool)
                unseen[order[order >= 0]] = False
                found.append((FirstLayer(name, calls[name], axis, order), unseen))
                break
        calls[name] += 1

    hooks = [
        part.register_forward_pre_hook(partial(hook, name), with_kwargs=True)
        for name, part in module.named_modules()
        if isinstance(part, kinds)
    ]
    device = next((p.device for p in module.parameters()), rows.device)
    try:
        outputs = module(rows.to(device))
    finally:
        for each in hooks:
            each.remove()
    for first, unseen in found:
        # What this layer does not see, the model must not use in another way.
        other = rows.flatten(1).where(~unseen, rows[:1].flatten(1)).reshape(rows.shape)
        if not bool(unseen.any()) or torch.equal(module(other.to(device)), outputs):
            return first
    return None


def _order(given: Tensor, codes: Bool[Tensor, "rows elements"]) -> Int64[Tensor, " inputs"] | None:
    """The element that each number is made of, -1 for none; None where one is made of several.

    Args:
        given: inputs of a layer, `[rows * more, *inputs]`.
        codes: which elements of the rows are high.
    """
    if len(given) % len(codes) or given.numel() > _MOST_SEEN * codes.numel():
        return None
    given = given.reshape(len(codes), -1).double()
    low, high = given[0], given[1]
    is_high = (given - high).abs() < (given - low).abs()
    off = torch.minimum((given - high).abs(), (given - low).abs())
    varies, bits = high != low, is_high[2:-_CHECKS]
    place = (bits.long() << torch.arange(len(bits))[:, None]).sum(0).where(varies, 0)
    known = bool((off <= _ROUNDING * (high - low).abs()).all())
    if not known or not bool(varies.any()) or int(place.max()) >= codes.shape[1]:
        return None
    same = is_high[-_CHECKS:] == codes[-_CHECKS:, place]
    return place.where(varies, -1) if bool((same | ~varies).all()) else None


class AbsenceWeights(nn.Module):
    """Weights of a layer for what is absent, which a hook adds to what it gives.

    The layer stays in its place, where the rest of a model may ask for its weights.

    Args:
        layer: that layer.
        first: what it sees.
    """

    order: Tensor

    def __init__(self, layer: Any, first: FirstLayer) -> None:
        super().__init__()
        self.call, self.axis = first.call, first.axis
        self.register_buffer("order", first.order.to(layer.weight.device), persistent=False)
        self.calls, self.absent = 0, torch.zeros(0)
        if isinstance(layer, TOKENS):
            self.vector = nn.Parameter(layer.weight.detach().mean(0))
        else:
            self.of_absence = _without_weight(layer)
        layer.register_forward_hook(self.hook, with_kwargs=True)

    @contextmanager
    def of(self, absent: Float[Tensor, "rows *event"]) -> Iterator[None]:
        """The context of one call of the model, on rows that lack these elements (1)."""
        nothing = self.absent
        self.calls, self.absent = 0, absent
        try:
            yield
        finally:
            self.absent = nothing  # With its graph it could not be copied.

    def hook(self, layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any], found: Tensor) -> Any:
        """What the layer gives; of a call that sees no rows, as it is."""
        self.calls += 1
        if self.calls != self.call + 1 or self.absent.shape[0] == 0:
            return None
        given = dict(zip(("input", "offsets", "per_sample_weights"), args, strict=False)) | kwargs
        inputs = given["input"]
        places = F.pad(self.absent.flatten(1), (0, 1))[:, self.order]
        shape = inputs.movedim(self.axis, 0).shape
        absent = places.reshape(shape).movedim(0, self.axis).to(found.dtype)
        if isinstance(layer, nn.Embedding):
            return found + absent[..., None] * (self.vector - found)
        if not isinstance(layer, nn.EmbeddingBag):
            # Without the hooks that a user's layer may have.
            return found + self.of_absence.forward(absent)
        # A bag of embeddings is made again, with one more token, the absent one.
        tokens = torch.where(absent > 0, layer.num_embeddings, inputs)
        return F.embedding_bag(
            tokens,
            torch.cat((layer.weight, self.vector[None])),
            given.get("offsets"),
            mode=layer.mode,
            per_sample_weights=given.get("per_sample_weights"),
            include_last_offset=layer.include_last_offset,
            padding_idx=layer.padding_idx,
        )


def _without_weight(layer: Any) -> nn.Module:
    """A layer of the same shape, and with the same padding of its own, that gives zeros."""
    other = copy.deepcopy(layer)
    if parametrize.is_parametrized(layer):
        # To remove parametrizations from a copy removes them from the layer, too.
        other.__class__ = parametrize.type_before_parametrizations(layer)
        del other.parametrizations
    other.weight = nn.Parameter(torch.zeros_like(layer.weight))
    other.register_parameter("bias", None)
    return other
