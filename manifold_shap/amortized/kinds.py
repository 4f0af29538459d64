"""Says which networks an amortised explainer may have, and makes them from settings."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from torch import Tensor

from manifold_shap._messages import check_choice
from manifold_shap.amortized.network import AmortizedNetwork
from manifold_shap.amortized.perceptron import AmortizedPerceptron
from manifold_shap.amortized.transformer import AmortizedTransformer
from manifold_shap.nn import options_given
from manifold_shap.surrogate.game import GameShape
from manifold_shap.surrogate.network import SurrogateNetwork
from manifold_shap.surrogate.perceptron import Perceptron

# The kinds of networks by name.
KINDS: dict[str, type[AmortizedNetwork]] = {
    "mlp": AmortizedPerceptron,
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
    if network is None:
        network = "mlp" if isinstance(surrogate, Perceptron) else "transformer"
    kind = KINDS[check_choice("network", network, tuple(KINDS))]
    own = kind.settings_for(surrogate, x)
    if options.get("chosen") is not None and not kind.takes_some_outputs:
        raise ValueError(
            f"Expected all outputs for the network {network!r}, whose passes share the layers of "
            "the surrogate, but got some of them; leave `outputs` out, and choose among those of "
            "`explain`."
        )
    given = options_given(kind, network, options)
    return {"kind": network, "game": asdict(surrogate.game), **own, **given}


def make_network(settings: Mapping[str, Any]) -> AmortizedNetwork:
    """The network of these settings."""
    own = {name: option for name, option in settings.items() if name not in ("kind", "game")}
    return KINDS[settings["kind"]](GameShape(**settings["game"]), **own)
