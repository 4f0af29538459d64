"""
Why this row rather than those?
===============================

A contrastive imputer replaces absent columns by those of rows that you choose: here of another
kind of iris. The base is then the mean prediction of these rows.
"""

from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

import manifold_shap as ms

iris = load_iris()
model = LogisticRegression(max_iter=1000).fit(iris.data, iris.target)
players = ms.Players.of_elements((4,), iris.feature_names)
versicolor = iris.data[iris.target == 1][:20]
value = ms.imputed_value(
    ms.as_model(model, iris.data, classes=iris.target_names),
    ms.imputers.ContrastiveImputer(versicolor, players),
)
explanation = ms.exact_shapley(value, iris.data[iris.target == 2][:1])
explanation.plot.waterfall(0, output="virginica")
