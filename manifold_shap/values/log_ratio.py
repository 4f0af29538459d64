"""Takes log-ratios of another value function's probabilities: a game of its own on the simplex."""

from jaxtyping import Float
from torch import Tensor

from manifold_shap.spaces import ILR
from manifold_shap.values.base import ValueFunction
from manifold_shap.values.mapped import MappedValue


class LogRatioOfMean(MappedValue):
    """v(S) = ilr(E[f(X) | x_S]): compositions of a value function on probabilities.

    Not the game of Noé et al. (2024), Eq. (8), which is E[ilr f(X) | x_S]: the logarithm of a mean
    is not the mean of logarithms. It is efficient all the same, between the mean distribution and
    the prediction, and a surrogate trained on probabilities serves for it. A sampled value function
    gives it, besides noise, a bias that falls with the number of draws.

        >>> import torch
        >>> from manifold_shap import imputed_value
        >>> from manifold_shap.imputers import MarginalImputer
        >>> imputer = MarginalImputer(torch.tensor([[0.0, 0.0], [0.0, 1.0]]))
        >>> value = LogRatioOfMean(imputed_value(lambda x: x.softmax(-1), imputer))
        >>> value.outputs, value(torch.ones(1, 2), torch.tensor([[[True, True]]]))
        (('0 : 1',), tensor([[[0.]]]))

    Attributes:
        value: the value function on probabilities.

    Args:
        value: a value function with space="probability", of all classes.
        zero_replacement: see `OutputSpace`.

    Raises:
        ValueError: the value function's outputs are not probabilities of classes.
    """

    def __init__(self, value: ValueFunction, zero_replacement: float | None = None) -> None:
        if not (value.space.on_simplex and value.classes):
            raise ValueError(
                "Expected a value function of all classes with space='probability' to take "
                f"log-ratios of but got {value.name!r} with space={value.space.name!r}."
            )
        space = value.fitted(ILR(zero_replacement))
        name, outputs = f"log-ratio of {value.name}", space.outputs(value.classes)
        # That of probabilities is no error of log-ratios.
        super().__init__(value, name=name, space=space, outputs=outputs, quality=None)

    def prediction(self, x: Tensor) -> Tensor:
        return self.value.prediction_in(self.space, x)

    def mapped(self, values: Float[Tensor, "*batch classes"]) -> Float[Tensor, "*batch outputs"]:
        return self.space(values.log())
