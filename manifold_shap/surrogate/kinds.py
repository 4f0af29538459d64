"""Says which networks a surrogate may have, and makes them from the settings of a training."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from manifold_shap._checks import check_known
from manifold_shap._words import check_choice, warn
from manifold_shap.models import Model
from manifold_shap.models.outputs import check_outputs
from manifold_shap.spaces import as_space
from manifold_shap.surrogate.adapted import AdaptedModel, OwnNetwork
from manifold_shap.surrogate.convolution import Convolution
from manifold_shap.surrogate.network import SurrogateNetwork
from manifold_shap.surrogate.perceptron import Perceptron
from manifold_shap.surrogate.transformer import Transformer

# The kinds of networks by name: "own" is a module of the user's, which is not called by a name.
KINDS: dict[str, type[SurrogateNetwork]] = {
    "mlp": Perceptron,
    "conv": Convolution,
    "transformer": Transformer,
    "model": AdaptedModel,
    "own": OwnNetwork,
}
# A share of the largest value that means nothing.
_NOTHING = 1e-5
NAMED = tuple(name for name in KINDS if name != "own")


def kind_of(network: Any) -> str:
    """The kind of network that is asked for by its name, or by a module.

    Raises:
        TypeError, ValueError: neither; the names that there are.
    """
    if isinstance(network, nn.Module):
        return "own"
    if not isinstance(network, str):
        raise TypeError(
            f"Expected `network` to be one of {NAMED} or a torch module of rows and masks but got "
            f"{type(network).__name__}."
        )
    return check_choice("network", network, NAMED)


def network_settings(
    kind: str, options: Mapping[str, Any], rows: Sequence[Tensor], model: Model
) -> dict[str, Any]:
    """Settings from which `make_network` makes a network, as plain data.

    Args:
        kind: one of `KINDS`.
        options: `hidden`, `activation` and `patch`; None for the usual ones of this kind.
        rows: those of the training and of the validation, as the network sees them.
        model: the model to explain.

    Raises:
        ValueError: an option that this kind does not have; rows that are no tokens.
    """
    given = {name: option for name, option in options.items() if option is not None}
    taken = set(inspect.signature(KINDS[kind].__init__).parameters)
    check_known(given, sorted(taken & set(options)), f"options of the network {kind!r}")
    if kind == "transformer" and rows[0].ndim == 2:
        given["vocabulary"] = max(map(tokens_in, rows))
    if kind == "model":
        given["returns"] = model.returns
    return {"kind": kind, **given}


def make_network(
    settings: Mapping[str, Any],
    inputs: tuple[Sequence[int], Sequence[int]],
    outputs: int,
    space: Mapping[str, Any],
    padding: float | None = None,
    module: nn.Module | None = None,
) -> SurrogateNetwork:
    """The network of these settings.

    Args:
        settings: from `network_settings`.
        inputs: shape of a row, and the player that owns each of its flattened elements.
        outputs: of T.
        space: settings of T.
        padding: see `Players`.
        module: see `module_behind`.
    """
    kind, own = settings["kind"], {key: settings[key] for key in settings if key != "kind"}
    own |= {"outputs": outputs, "padding": padding}
    own |= {} if module is None else {"module": module}
    chosen = as_space(**space)
    own |= {"space": chosen} if kind == "model" else {"on_simplex": chosen.on_simplex}
    return KINDS[kind](*inputs, **own)


def module_behind(kind: str | None, network: Any, model: Any) -> nn.Module | None:
    """What a network is made of: the user's module, or the model to explain; None for others.

    Raises:
        TypeError: it is no torch module.
    """
    if kind not in ("own", "model"):
        return None
    found = network
    if kind == "model":
        found = model.predictor.model if isinstance(model, Model) else model
    if isinstance(found, nn.Module):
        return found
    raise TypeError(
        "Expected a torch module for network='model', which fine-tunes a copy of it, but got "
        f"{type(found).__name__}; choose another network."
        if kind == "model"
        else "Expected `network` to be the torch module that the surrogate was made of but got "
        f"{type(found).__name__}; pass such a module, whatever its weights."
    )


@torch.no_grad()
def check_network(network: SurrogateNetwork, x: Tensor) -> None:
    """Raise ValueError unless a network gives finite outputs and, on the simplex, distributions.

    Args:
        network: to be asked about coalitions of half of the players, and about all of them.
        x: a few rows, as it sees them.
    """
    half = torch.arange(network.players) % 2 == 0
    mask = torch.stack((half, torch.ones_like(half))).expand(len(x), 2, -1)
    found = network.eval()(x, mask).flatten(0, 1)
    network.train()
    try:
        check_outputs(found, "probabilities" if network.on_simplex else "values")
    except ValueError as error:
        raise ValueError(
            str(error).replace("model(x)", "network(x, mask)").replace("the model", "`network`")
        ) from error


@torch.no_grad()
def warn_if_blind(network: SurrogateNetwork, x: Tensor) -> None:
    """Warn where what a network gives does not depend on the mask, as found on a few rows.

    It may do so by way of the absent elements alone, which are 0: then elements that are 0 in a row
    count as absent. Where 0 is padding, no player owns such an element.
    """
    every = torch.ones(len(x), 1, network.players, dtype=torch.bool, device=x.device)
    whole, nobody = network(x, every), network(x, ~every)
    scale, moved = whole.abs().max().item(), (whole - nobody).abs().max().item()
    if moved <= _NOTHING * scale:
        warn(
            "The network does not depend on the mask: its values of the grand coalition and of the "
            f"empty one differ by at most {moved:.2g} on {len(x)} rows. Shapley values of it mean "
            "little; let it use both of its arguments, or train it longer.",
        )
        return
    half = every & (torch.arange(network.players, device=x.device) % 2 == 0)
    holed = [(x * network.present(some)[:, 0], some) for some in (half, every & ~half)]
    moved = max((network(y, every) - network(y, some)).abs().max().item() for y, some in holed)
    if moved <= _NOTHING * scale and network.padding != 0:
        warn(
            "The network cannot tell an absent element from one that is 0: on rows in which every "
            "other player is 0, its values with and without these players differ by at most "
            f"{moved:.2g}, on {len(x)} rows. Let it use its second argument, the mask, besides the "
            "rows whose absent elements are 0.",
        )


def tokens_in(x: Tensor) -> int:
    """How many tokens there are in rows of tokens, numbered from 0.

    >>> tokens_in(torch.tensor([[3.0, 1.0], [0.0, 2.0]]))
    4

    Raises:
        ValueError: rows of other numbers.
    """
    if bool((x < 0).any()) or bool((x != x.round()).any()):
        raise ValueError(
            "Expected rows of tokens (whole numbers from 0 on), pictures or series for the network "
            "'transformer' but got rows of a table; use network='mlp'."
        )
    return int(x.max()) + 1
