"""Asks models with scikit-learn's methods: classifiers, regressors and pipelines."""

from collections.abc import Iterator
from typing import Any, ClassVar

from manifold_shap._arrays import is_frame
from manifold_shap._messages import shown
from manifold_shap.models.predictor import Predictor
from manifold_shap.models.rows import as_array, in_fitted_order


class EstimatorPredictor(Predictor):
    """A classifier by `predict_proba`, a regressor by `predict`.

    It is given the caller's own frame; the columns in the order of the fit, where it knows their
    names. An array becomes a frame of pandas for what was fitted to names, and a frame an array for
    what scikit-learn fitted to an array, so that nobody is warned.

    Raises:
        TypeError: a classifier without probabilities, or no estimator.
        ValueError: it is not fitted, or a classifier for which something other than probabilities
            is asked.
    """

    # Where the names of columns are that the model was fitted to.
    names_in: ClassVar[str] = "feature_names_in_"

    def __init__(self, model: Any, returns: str | None = None) -> None:
        super().__init__(model, returns)
        predict, probabilities, classes, columns, width = _parts(
            model, "predict", "predict_proba", "classes_", self.names_in, "n_features_in_"
        )
        self.columns = None if columns is None else tuple(map(str, columns))
        # A pipeline, too, knows how many columns its first step was fitted to.
        own = type(model).__module__.partition(".")[0] == "sklearn"
        self._of_arrays = own and columns is None and width is not None
        if classes is None or len(classes) == 0:
            self._ask, self.returns = predict, self._of_regressor(returns, probabilities)
        else:
            self.classes = tuple(map(str, classes))
            self._ask, self.returns = self._of_classifier(returns, probabilities)

    @classmethod
    def takes(cls, model: Any) -> bool:
        predict, probabilities, classes = _parts(model, "predict", "predict_proba", "classes_")
        # What can be called as well, such as a model of Keras, is asked as a function.
        fitted = probabilities is not None and classes is not None
        return predict is not None and (fitted or not callable(model))

    def prepared(self, rows: Any) -> Any:
        if is_frame(rows):
            ordered = in_fitted_order(rows, self.columns, self.name)
            named = any(isinstance(name, str) for name in rows.columns)
            return as_array(ordered) if self._of_arrays and named else self.of_frame(ordered)
        rows = as_array(rows)
        if self.columns is None:
            return rows
        if rows.shape[1] != len(self.columns):
            raise ValueError(
                f"Expected rows of the {len(self.columns)} columns {shown(self.columns)} that "
                f"{self.name} was fitted to but got {rows.shape[1]}."
            )
        import pandas as pd

        return pd.DataFrame(rows, columns=list(self.columns))

    def of_frame(self, frame: Any) -> Any:
        """What the library takes for a frame: by default that frame."""
        return frame

    def ask(self, rows: Any) -> Any:
        return self._ask(rows)

    def _of_regressor(self, returns: str | None, probabilities: Any) -> str:
        if probabilities is not None:
            raise ValueError(
                f"Expected a fitted classifier but this {self.name} is not; call `fit` first."
            )
        if returns not in (None, "values"):
            raise ValueError(
                f"Expected returns='values' for {self.name}, which has `predict` only, but got "
                f"{returns!r}; explain a regressor with output='identity'."
            )
        return "values"

    def _of_classifier(self, returns: str | None, probabilities: Any) -> tuple[Any, str]:
        if probabilities is None:
            raise TypeError(
                f"Expected a classifier with probabilities but {self.name} has `predict` only; "
                "explain those of a `CalibratedClassifierCV`."
            )
        (joint,) = _parts(self.model, "predict_joint_log_proba")
        # Probabilities of naive Bayes, but not their logarithms, underflow.
        if joint is not None and returns in (None, "log_probabilities"):
            return self.model.predict_log_proba, "log_probabilities"
        if returns in (None, "probabilities"):
            return probabilities, "probabilities"
        raise ValueError(
            f"Expected returns='probabilities' for the classifier {self.name} but got "
            f"{returns!r}; explain its probabilities (output='probability', 'log_odds' or 'ilr') "
            "or, for another function of them, wrap that: `ms.as_model(function, x, "
            "returns='values')` with output='identity'."
        )


def _parts(model: Any, *names: str) -> Iterator[Any]:
    """Attributes of an estimator, None for those that it does not have.

    Not by a Protocol: which methods an estimator of scikit-learn has depends on its settings (as of
    `SVC(probability=True)`), and a Protocol may look at the class alone.
    """
    return (getattr(model, name, None) for name in names)
