"""Models of the frames of a law, as functions of its rows."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

import manifold_shap as ms
from manifold_shap.models import predictor_of
from manifold_shap.oracles import ConditionalLaw

# Rows of a frame that a model is given.
MOST_ROWS = 2**16


class OfFrames:
    """Makes a frame of the rows for a model of frames; a class, so that it can be pickled."""

    def __init__(self, model: Any, law: ConditionalLaw) -> None:
        self.model, self.law = model, law

    def __call__(self, x: Tensor) -> Any:
        return self.model(self.law.frame(x))


def model_of(
    law: ConditionalLaw,
    model: Any,
    classes: Sequence[str] | None = None,
    returns: str | None = None,
) -> ms.Model:
    """A model of the law's frames; arguments as of `as_model`."""
    predictor = predictor_of(model, returns)
    names, returns = classes or predictor.classes, returns or predictor.returns
    return ms.as_model(OfFrames(predictor, law), law.sample(64).x, names, returns, MOST_ROWS)
