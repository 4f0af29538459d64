"""Defines the output spaces T: the scales on which Shapley values share out a prediction."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap import simplex
from manifold_shap._checks import check_number
from manifold_shap._messages import check_choice, check_text, shown
from manifold_shap.simplex.partition import Partition

__all__ = [
    "ILR",
    "Identity",
    "LogOdds",
    "OutputSpace",
    "Probability",
    "as_space",
]


def __dir__() -> list[str]:
    return __all__


# What models with exact zeros give to these, all together, where nobody says it.
_ZEROS = 1e-3
# Zeros of a model of logits, beyond what its rows reach.
_LOG_OF_ZERO = -1e4
# What values of a regression are in where nobody says it.
_NO_UNIT = "model output"

# Every output space by its name; `OutputSpace.__init_subclass__` enters them.
SPACES: dict[str, type["OutputSpace"]] = {}


class OutputSpace(ABC):
    """T, which maps what a model returns to the outputs in which values add up.

    A subclass with a `name` can be asked for by it everywhere, on the command line too.

        >>> as_space("log_odds").outputs(["no", "yes"])
        ('log-odds of yes',)

    Attributes:
        name: as in the configuration.
        unit: of values and Shapley values, for the axes of figures.
        on_simplex: whether outputs are probabilities of the classes.
        takes: what T is a function of: `"probabilities"` or `"log_probabilities"` of a classifier,
            or the `"values"` of a regression model. They come in the model's own precision.
        zero_replacement: of log-ratios; a probability below `zero_replacement / K` counts as that,
            and the others shrink to make room (multiplicative replacement), so that log-ratios
            never rise as a probability falls to zero. By default a value function says it by the
            reference rows of its model: 0.001 where some have exact zeros, as of forests and
            nearest neighbours, or less where a smaller probability is among them; of others that
            return probabilities, the square of the precision for each class. Logits are not
            touched; a space by itself replaces exact zeros alone, by the smallest number.
    """

    name: ClassVar[str]
    unit: str
    on_simplex: ClassVar[bool] = False
    takes: ClassVar[str] = "probabilities"
    zero_replacement: float | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in cls.__dict__:
            SPACES[cls.name] = cls

    @abstractmethod
    def __call__(
        self, prediction: Float[Tensor, "*batch classes"]
    ) -> Float[Tensor, "*batch outputs"]:
        """T of what it takes, see `takes`."""

    @abstractmethod
    def outputs(self, classes: Sequence[str]) -> tuple[str, ...]:
        """Names of the outputs for a model with these classes.

        Raises:
            ValueError: a number of classes that T is not defined for.
        """

    @property
    def regression(self) -> bool:
        """Whether T takes the plain values of a model, not probabilities."""
        return self.takes == "values"

    @property
    def takes_logarithms(self) -> bool:
        """Whether an exact zero among the probabilities needs replacement."""
        return self.takes == "log_probabilities"

    def partition(self, classes: Sequence[str]) -> Partition | None:
        """What each output compares, where outputs are log-ratio coordinates; None elsewhere."""
        return None

    def label(self, output: str) -> str:
        """What an output is, for the axes of figures."""
        return output

    def named(self, outputs: Sequence[str]) -> str:
        """Outputs in a line about what has them.

        >>> Probability().named(["no", "yes"]), Identity(unit="EUR").named(["price"])
        ("outputs ['no', 'yes'] in 'probability'", 'price (EUR)')
        """
        if len(outputs) == 1:
            return self.label(outputs[0])
        return f"outputs {shown(outputs, 10)} in {self.name!r}"

    def amount(self, value: float) -> str | None:
        """How a single output is written where the space has a way of its own; None elsewhere."""
        return None

    @property
    def settings(self) -> dict[str, Any]:
        """Plain data: `as_space(**settings)` makes this space again."""
        own: Any = fields(self) if is_dataclass(self) else ()
        changed = {f.name: v for f in own if (v := getattr(self, f.name)) != f.default}
        return {"space": self.name, **changed}


@dataclass(frozen=True)
class Probability(OutputSpace):
    """Probabilities of the K classes.

    >>> Probability()(torch.tensor([[0.2, 0.8]]))
    tensor([[0.2000, 0.8000]])
    """

    name = "probability"
    unit = "probability"
    on_simplex = True

    def __call__(self, prediction: Tensor) -> Tensor:
        return prediction

    def outputs(self, classes: Sequence[str]) -> tuple[str, ...]:
        return tuple(classes)

    def label(self, output: str) -> str:
        return f"probability of {output}"

    def amount(self, value: float) -> str:
        if 0.995 <= value < 1:
            return "> 0.99"
        return "< 0.01" if 0 < value < 0.005 else f"{value:.2f}"


@dataclass(frozen=True)
class Identity(OutputSpace):
    """The plain values of a regression model, in their unit.

    >>> Identity()(torch.tensor([[3.0]]))
    tensor([[3.]])
    >>> Identity(unit="kg").label("weight")
    'weight (kg)'

    Raises:
        TypeError: `unit` is no text.
    """

    unit: str = _NO_UNIT

    name = "identity"
    takes = "values"

    def __call__(self, prediction: Tensor) -> Tensor:
        return prediction

    def outputs(self, classes: Sequence[str]) -> tuple[str, ...]:
        return tuple(classes)

    def __post_init__(self) -> None:
        check_text("unit", self.unit)

    def label(self, output: str) -> str:
        # A function without names for its outputs numbers them.
        named = _NO_UNIT if output == "0" else output
        return named if self.unit == _NO_UNIT else f"{named} ({self.unit})"


@dataclass(frozen=True)
class LogRatios(OutputSpace):
    """A space of log-ratios of probabilities.

    Raises:
        TypeError, ValueError: `zero_replacement` is no number above 0 and of at most 0.5.
    """

    zero_replacement: float | None = field(default=None, compare=False)
    takes = "log_probabilities"

    def __post_init__(self) -> None:
        share = "it is the share of probability that exact zeros get, such as 0.001"
        if self.zero_replacement is not None:
            check_number("zero_replacement", self.zero_replacement, above=0, high=0.5, fix=share)

    def fitted(self, log_p: Float[Tensor, "rows classes"], rounded: bool) -> "LogRatios":
        """The space for a model that gives these to its reference rows; see `OutputSpace`.

        Args:
            log_p: logarithms.
            rounded: whether the model returns their exponentials.
        """
        zero, classes = torch.isneginf(log_p), log_p.shape[-1]
        if bool(zero.any()):
            least = log_p.where(~zero, 0.0).min().double().exp().item()
            # Below the least double, which what falls further is raised to with the zeros.
            least = max(least, torch.finfo(torch.float64).tiny)
            return replace(self, zero_replacement=min(_ZEROS, classes * least))
        precision = torch.finfo(log_p.dtype).eps
        return replace(self, zero_replacement=classes * precision**2) if rounded else self

    def without_zeros(
        self, log_p: Float[Tensor, "*batch classes"]
    ) -> Float[Tensor, "*batch classes"]:
        """Log-probabilities in which zeros, and what is below their replacement, are replaced."""
        if self.zero_replacement is None:
            return log_p.clamp(min=_LOG_OF_ZERO)
        amount = self.zero_replacement / log_p.shape[-1]
        small = (log_p < math.log(amount)).any(-1, keepdim=True)
        # In double precision, where the least amount is above zero.
        replaced = simplex.replace_zeros(log_p.double().exp(), amount).log().to(log_p)
        return torch.where(small, replaced, log_p)


@dataclass(frozen=True)
class LogOdds(LogRatios):
    """Log-odds of the second of two classes, in nats.

    >>> LogOdds()(torch.tensor([[0.5, 0.5]]).log())
    tensor([[0.]])
    """

    name = "log_odds"
    unit = "log-odds"

    def __call__(self, prediction: Tensor) -> Tensor:
        log_p = self.without_zeros(prediction)
        return log_p[..., 1:] - log_p[..., :1]

    def outputs(self, classes: Sequence[str]) -> tuple[str, ...]:
        if len(classes) != 2:
            raise ValueError(
                f"Expected two classes for space='log_odds' but got {len(classes)}; use "
                "space='ilr', which is the log-ratio space of any number of classes."
            )
        return (f"log-odds of {classes[1]}",)


@dataclass(frozen=True)
class ILR(LogRatios):
    """The K-1 isometric log-ratio coordinates of the simplex (Egozcue et al. 2003).

    Shapley values in it are Shapley compositions (Noé et al. 2024).

        >>> ILR().outputs(["a", "b", "c"])
        ('a : b', 'a+b : c')
    """

    name = "ilr"
    unit = "log-ratio"

    def __call__(self, prediction: Tensor) -> Tensor:
        return simplex.coordinates(self.without_zeros(prediction))

    def outputs(self, classes: Sequence[str]) -> tuple[str, ...]:
        return self.partition(classes).names

    def partition(self, classes: Sequence[str]) -> Partition:
        if len(classes) < 2:
            raise ValueError(f"Expected at least two classes for space='ilr', got {classes}.")
        return Partition.sequential(classes)

    def label(self, output: str) -> str:
        return f"log-ratio {output}"


def as_space(
    space: "str | OutputSpace", zero_replacement: float | None = None, unit: str | None = None
) -> OutputSpace:
    """The output space of this name, or the space itself.

        >>> as_space("ilr", zero_replacement=1e-6)
        ILR(zero_replacement=1e-06)

    Args:
        space: a name in `SPACES`, or an output space.
        zero_replacement: of a named space that takes logarithms; see `OutputSpace`.
        unit: of the named space `identity`: that of the values of a regression model.

    Raises:
        TypeError: `zero_replacement` is no number or `unit` no text, or there is a `unit` for a
            space of probabilities, which has its own.
        ValueError: no space has this name, or `zero_replacement` is out of range.
    """
    if isinstance(space, OutputSpace):
        return space
    named: Any = SPACES[check_choice("space", space, SPACES, "or an output space")]
    if unit is not None:
        return named(unit=unit)
    takes_zeros = zero_replacement is not None and named().takes_logarithms
    return named(zero_replacement) if takes_zeros else named()


def check_partition(
    partition: Partition | None, space: OutputSpace, outputs: tuple[str, ...]
) -> None:
    """Check that outputs have the partition that makes coordinates of them, if they are such.

    Raises:
        ValueError: a partition that is missing, not wanted, or of other outputs.
    """
    wanted = space.partition(("a", "b")) is not None
    if (partition is not None) != wanted or (partition and partition.names != outputs):
        raise ValueError(
            "Expected a `partition` with the outputs as its balances where these are log-ratio "
            f"coordinates, and there only, but got {partition!r} of outputs {outputs} in "
            f"{space.name!r}."
        )
