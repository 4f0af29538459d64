"""Says which networks an amortised explainer may have, and makes them from settings."""

import inspect
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from manifold_shap._checks import check_known
from manifold_shap._words import check_choice
from manifold_shap.amortized.convolution import AmortizedConvolution
from manifold_shap.amortized.network import AmortizedNetwork
from manifold_shap.amortized.perceptron import AmortizedPerceptron
from manifold_shap.amortized.transformer import AmortizedTransformer
from manifold_shap.surrogate.kinds import tokens_in
from manifold_shap.surrogate.network import SurrogateNetwork

# The kinds of networks by name.
KINDS: dict[str, type[AmortizedNetwork]] = {
    "mlp": AmortizedPerceptron,
    "conv": AmortizedConvolution,
    "transformer": AmortizedTransformer,
}


def network_settings(
    surrogate: SurrogateNetwork, network: str | None, options: Mapping[str, Any], x: Tensor
) -> dict[str, Any]:
    """Settings from which `make_network` makes the network of an explainer, as plain data.

    Args:
        surrogate: the network to explain.
        network: one of `KINDS`; None for what suits the surrogate.
        options: of the network, None for the usual ones; and `chosen`, numbers of the outputs that
            are learned, where these are not all.
        x: training rows, as the surrogate sees them.

    Raises:
        ValueError: an option that this kind does not have, or a kind that does not suit.
    """
    own = surrogate.amortized
    if network is not None and check_choice("network", network, tuple(KINDS)) != own["kind"]:
        own = {"kind": network}
    if own["kind"] == "mlp" and "widths" not in own:
        raise ValueError(
            "Expected a surrogate of network='mlp' for network='mlp', which uses its layers, but "
            f"got {type(surrogate).__name__}; choose 'conv' or 'transformer', or leave it out."
        )
    given = {name: option for name, option in options.items() if option is not None}
    if own["kind"] == "mlp" and "chosen" in given:
        raise ValueError(
            "Expected all outputs for the network 'mlp', whose passes share the layers of the "
            "surrogate, but got some of them; leave `outputs` out, and choose among those of "
            "`explain`."
        )
    taken = set(inspect.signature(KINDS[own["kind"]].__init__).parameters)
    check_known(given, sorted(taken & set(options)), f"options of the network {own['kind']!r}")
    if own["kind"] == "transformer" and "vocabulary" not in own and _whole(x):
        own["vocabulary"] = tokens_in(x)
    return {
        "event": list(surrogate.index.shape),
        "index": surrogate.index.flatten().tolist(),
        "outputs": len(given.get("chosen", surrogate.target_mean)),
        "padding": surrogate.padding,
        **own,
        **given,
    }


def make_network(settings: Mapping[str, Any]) -> AmortizedNetwork:
    """The network of these settings."""
    kind = KINDS[settings["kind"]]
    taken = inspect.signature(kind.__init__).parameters
    return kind(**{name: option for name, option in settings.items() if name in taken})


def _whole(x: Tensor) -> bool:
    """Whether rows are of tokens."""
    return x.ndim == 2 and bool((x >= 0).all()) and bool((x == x.round()).all())
