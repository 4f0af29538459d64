"""The amortised explainer: a network that maps a row to all of its Shapley values in one pass.

It is trained on noisy estimates of them (Covert et al. 2024, stochastic amortisation; FastSHAP,
Jethani et al. 2022, trains on values of coalitions instead). Means of squared errors do not care
about noise that is unbiased, so a single coalition and its complement for each visit of a row are
enough.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from manifold_shap.nn import MLP, check_hidden, make_activation
from manifold_shap.surrogate import Surrogate

# Shares of everybody that are present when the surrogate's hidden layers are looked at.
_SHARES = (0.1, 0.3, 0.6, 1.0)


class Explainer(nn.Module):
    """phi(x) of all players and outputs, which sums to v(N) - v(∅) by construction.

    What it sees is the row, v(N) - v(∅), and the hidden layers of the surrogate when a share of
    everybody is present. A player's values are linear in what it is itself, with coefficients
    that depend on the whole row.

    Args:
        index: player that owns each of the flattened input elements.
        features: width of `features_of`.
        outputs: number of outputs of T.
        hidden: width of each hidden layer.
        activation: one of `nn.ACTIVATIONS`.
    """

    index: Tensor
    scale: Tensor

    def __init__(
        self,
        index: Sequence[int],
        features: int,
        outputs: int,
        hidden: Sequence[int] = (512, 512),
        activation: str = "gelu",
    ) -> None:
        super().__init__()
        check_hidden(hidden)
        self.players, self.outputs = max(index) + 1, outputs
        self.register_buffer("index", torch.tensor(list(index)), persistent=False)
        self.register_buffer("scale", torch.ones(outputs))
        self.element = nn.Parameter(torch.ones(len(index)))
        seen = features + len(index) + outputs
        self.body = nn.Sequential(
            MLP(seen, hidden[:-1], hidden[-1], activation), make_activation(activation)
        )
        self.head = nn.Linear(hidden[-1], 2 * self.players * outputs)
        with torch.no_grad():
            self.head.weight.mul_(0.1)

    def forward(
        self,
        rows: Float[Tensor, "batch elements"],
        features: Float[Tensor, "batch features"],
        change: Float[Tensor, "batch outputs"],
    ) -> Float[Tensor, "batch players outputs"]:
        """Shapley values of rows.

        Args:
            rows: standardised and flat.
            features: what the surrogate makes of them, see `features_of`.
            change: v(N) - v(∅).
        """
        seen = torch.cat((rows, features, change / self.scale), dim=1)
        shape = (len(rows), self.players, self.outputs)
        always, by_own = self.head(self.body(seen)).chunk(2, dim=1)
        own = rows.new_zeros(len(rows), self.players).index_add(1, self.index, rows * self.element)
        phi = always.reshape(shape) + by_own.reshape(shape) * own[..., None]
        phi = phi.float() * self.scale
        return phi + ((change - phi.sum(1)) / self.players)[:, None]


def features_of(
    surrogate: Surrogate, rows: Float[Tensor, "batch elements"]
) -> Float[Tensor, "batch features"]:
    """The hidden layers of a surrogate when a share of every player is present, for some shares.

    Args:
        surrogate: the network.
        rows: standardised and flat.
    """
    everybody = surrogate.first.sum_of_terms(rows)
    share = torch.tensor(_SHARES, device=rows.device)[:, None]
    hidden = surrogate.first.bias + share * everybody[:, None]
    seen = []
    # The last layer gives the outputs, which v(N) - v(∅) tells exactly.
    for layer in surrogate.rest[:-1]:
        hidden = layer(hidden)
        if not isinstance(layer, nn.Linear):
            seen.append(hidden.flatten(1))
    return torch.cat(seen, dim=1)


def width_of_features(hidden: Sequence[int]) -> int:
    """Width of `features_of` a surrogate with these hidden layers."""
    return len(_SHARES) * sum(hidden)
