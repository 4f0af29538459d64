"""
A column and its Shapley values
===============================

A regression of diabetes, in the unit of its target: how the Shapley value of a column depends
on what the column holds, coloured by another one.
"""

from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingRegressor

import manifold_shap as ms

frame, target = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
model = GradientBoostingRegressor(random_state=0).fit(frame, target)
explainer = ms.Explainer(
    model, frame, space=ms.spaces.Identity(unit="progression"), candidates=["gaussian"]
)
explanation = explainer(frame.head(150), evaluations=60)
explanation.plot.scatter("bmi", color="s5")

# %%
# All columns and rows at a glance:

explanation.plot.heatmap()
