"""
Groups of columns
=================

Columns that belong together join a coalition together: two measures of each leaf become one
player each.
"""

from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier

import manifold_shap as ms

frame, target = load_iris(return_X_y=True, as_frame=True)
model = RandomForestClassifier(50, random_state=0).fit(frame, target)
leaves = {
    "sepal": ["sepal length (cm)", "sepal width (cm)"],
    "petal": ["petal length (cm)", "petal width (cm)"],
}
explainer = ms.Explainer(model, frame, players=leaves, candidates=["gaussian"])
explanation = explainer(frame.iloc[[0, 70, 120]])
explanation.plot.waterfall(1)
