"""
Groups of columns
=================

Columns that belong together join a coalition together: of irises, the length and the width of each
leaf, in centimetres, become one player.
"""

from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier

import manifold_shap as ms

iris = load_iris(as_frame=True)
frame = iris.data.rename(columns=lambda name: name.removesuffix(" (cm)"))
model = RandomForestClassifier(50, random_state=0).fit(frame, iris.target_names[iris.target])
leaves = {leaf: [f"{leaf} length", f"{leaf} width"] for leaf in ("sepal", "petal")}
explainer = ms.Explainer(model, frame, players=leaves, candidates=["gaussian"])
explanation = explainer(frame.iloc[[0, 70, 120]])
explanation.plot.waterfall(1)
