"""A causal order of the players, as the command line gives it, and what it does."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from manifold_shap.imputers import CausalImputer
from manifold_shap.values import ImputedValue, ValueFunction


@dataclass(frozen=True)
class Orders:
    """The four kinds of values: neither, asymmetric, causal, or both.

    Attributes:
        ordering: names of the players, component after component; None for no order. A number
            stands for the name that reads so, which the command line takes for a number.
        asymmetric: whether permutations are restricted to it.
        confounding: for each component, whether its players share hidden causes; values are then
            causal. None leaves conditional ones.

    Raises:
        ValueError: an ordering that changes nothing, or `confounding` without one.
    """

    ordering: Sequence[Any] | None = None
    asymmetric: bool = True
    confounding: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.ordering, Sequence) and not isinstance(self.ordering, str):
            object.__setattr__(self, "ordering", [_named(part) for part in self.ordering])
        if self.ordering is None and self.confounding is not None:
            raise ValueError(
                "Expected `ordering` together with `confounding`, whose flags are for its "
                "components, but got none; give ordering=[[...],[...]]."
            )
        if self.ordering is not None and not self.asymmetric and self.confounding is None:
            raise ValueError(
                "Expected asymmetric=true or `confounding` together with `ordering`, which does "
                "nothing otherwise; asymmetric=true restricts the permutations to it, and "
                "confounding=[...] makes values causal."
            )

    @property
    def of_estimator(self) -> dict[str, Any]:
        """Arguments of an estimator."""
        return {"ordering": self.ordering} if self.ordering and self.asymmetric else {}

    @property
    def record(self) -> dict[str, Any]:
        """What `summary.json` says of it: nothing where there is none."""
        if self.ordering is None:
            return {}
        return {
            "ordering": self.ordering,
            "asymmetric": self.asymmetric,
            "confounding": self.confounding,
        }

    def intervened(self, value: ValueFunction) -> ValueFunction:
        """The causal value function, where `confounding` is given.

        Raises:
            TypeError, ValueError: the ordering is none of these players, or there is no imputer
                whose draws could obey it.
        """
        if self.ordering is None or self.confounding is None:
            return value
        if not isinstance(value, ImputedValue):
            raise ValueError(
                "Expected value functions with an imputer for causal values (`confounding`) but "
                f"{value.name!r} has none; choose vae, gaussian, copula, empirical, exact_match or "
                "marginal for `value_function` and `compare`."
            )
        imputer = CausalImputer(value.imputer, self.ordering, self.confounding)
        draws = value.requested
        return ImputedValue(imputer, value.model, value.space, value.expectation, draws, value.seed)


def _named(component: Any) -> Any:
    if isinstance(component, str) or not isinstance(component, Sequence):
        return component
    number = (int, float)
    return [
        str(name) if isinstance(name, number) and not isinstance(name, bool) else name
        for name in component
    ]
