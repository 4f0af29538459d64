"""
Shapley compositions of three classes
=====================================

In log-ratio coordinates the Shapley values of a column for all classes are one vector: a
composition of the simplex, drawn as an arrow.
"""

from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

import manifold_shap as ms

iris = load_iris()
model = LogisticRegression(max_iter=1000).fit(iris.data, iris.target)
players = ms.Players.of_elements((4,), iris.feature_names)
value = ms.imputed_value(
    ms.as_model(model, iris.data, classes=iris.target_names),
    ms.imputers.GaussianImputer(iris.data, players),
    space="ilr",
    draws=64,
)
explanation = ms.exact_shapley(value, iris.data[[60, 90, 120]])
ms.plots.ilr_plane(explanation, row=2)

# %%
# Norms, projections on the classes and cosines of angles, as numbers:

explanation.summarize(2).drop(columns="standard_error").round(2)

# %%
# The compositions themselves, which multiply the base to the prediction:

ms.plots.compositions(explanation, row=2)
