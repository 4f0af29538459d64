"""Output spaces T: the scale on which a prediction is shared out among the players."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap import simplex
from manifold_shap.simplex.partition import Partition

SPACES = ("probability", "log_odds", "ilr", "identity")


@dataclass(frozen=True)
class Space:
    """T, which maps a model's log-probabilities to the outputs in which values add up.

    Attributes:
        name: `probability` (K outputs), `log_odds` (binary classifiers, 1 output: nats in favour
            of the second class), `ilr` (K-1 coordinates of the Aitchison simplex) or `identity`
            (regression: the model's own outputs).
        zero_replacement: probability mass that exact zeros of a model receive before logarithms
            are taken: each becomes `zero_replacement / K` (multiplicative replacement). Networks
            give no exact zeros; forests and nearest neighbours do.
    """

    name: str
    zero_replacement: float = 1e-3

    def __post_init__(self) -> None:
        if self.name not in SPACES:
            raise ValueError(f"Expected `output` to be one of {SPACES} but got {self.name!r}.")
        if not 0 < self.zero_replacement < 1:
            raise ValueError(
                "Expected `zero_replacement` to be a share of probability between 0 and 1 but "
                f"got {self.zero_replacement}."
            )

    @classmethod
    def of(cls, output: "str | Space") -> "Space":
        """The space of this name, or the space itself."""
        return output if isinstance(output, Space) else cls(output)

    @property
    def takes_logarithms(self) -> bool:
        """Whether an exact zero of the model needs replacement."""
        return self.name in ("log_odds", "ilr")

    def __call__(
        self, prediction: Float[Tensor, "*batch classes"]
    ) -> Float[Tensor, "*batch outputs"]:
        """T of log-probabilities (for `identity`: of the model's own outputs)."""
        if self.name == "identity":
            return prediction
        if self.name == "probability":
            return prediction.exp()
        log_p = self._without_zeros(prediction)
        return (
            log_p[..., 1:] - log_p[..., :1]
            if self.name == "log_odds"
            else simplex.coordinates(log_p)
        )

    def outputs(self, classes: Sequence[str]) -> tuple[str, ...]:
        """Names of the outputs for a model with these classes.

        Raises:
            ValueError: `log_odds` for other than two classes, `ilr` for fewer than two.
        """
        if self.name in ("probability", "identity"):
            return tuple(classes)
        if self.name == "log_odds":
            if len(classes) != 2:
                raise ValueError(
                    f"Expected two classes for output='log_odds' but got {len(classes)}; use "
                    "output='ilr', which is the log-ratio space of any number of classes."
                )
            return (f"log-odds of {classes[1]}",)
        if len(classes) < 2:
            raise ValueError(f"Expected at least two classes for output='ilr', got {classes}.")
        return Partition.sequential(classes).names

    def _without_zeros(
        self, log_p: Float[Tensor, "*batch classes"]
    ) -> Float[Tensor, "*batch classes"]:
        replaced = simplex.replace_zeros(log_p.exp(), self.zero_replacement / log_p.shape[-1])
        has_zero = torch.isneginf(log_p).any(-1, keepdim=True)
        return torch.where(has_zero, replaced.log(), log_p)
