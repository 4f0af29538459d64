"""
A table and a model
===================

`ms.Explainer` takes a trained model and the rows that it was trained on, and chooses how absent
columns are drawn.
"""

from sklearn.datasets import load_wine
from sklearn.ensemble import HistGradientBoostingClassifier

import manifold_shap as ms

frame, target = load_wine(return_X_y=True, as_frame=True)
model = HistGradientBoostingClassifier(max_iter=20, random_state=0).fit(frame, target)
explainer = ms.Explainer(model, frame, candidates=["gaussian", "copula"])
explanation = explainer(frame.head(20), evaluations=150)
explanation

# %%
# One wine: how each column moves the prediction from the average one to its own.

explanation.plot.waterfall(0)

# %%
# All twenty: a point for each wine, in the colour of the column's value.

explanation.plot.beeswarm(output="0", max_display=8)
