"""
Many rows, with a receipt
=========================

An amortised explainer answers in one pass, without knowing its own error. Some of its rows are
estimated again, without bias, and the store carries the error that this measured.
"""

import tempfile
from functools import partial
from pathlib import Path

from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

import manifold_shap as ms

iris = load_iris()
x = iris.data.astype("float32")
model = LogisticRegression(max_iter=1000).fit(x, iris.target_names[iris.target])
players = ms.Players.of_elements((4,), iris.feature_names)
value = ms.fit_surrogate(model, x, players=players, hidden=[64], max_epochs=10, seed=0)
explainer = ms.fit_amortized(value, x, hidden=[64], max_epochs=10)

fast = partial(ms.amortized_shapley, explainer=explainer)
estimator = partial(ms.audited_shapley, estimator=fast, share=0.5)
with tempfile.TemporaryDirectory() as folder:
    store = Path(folder) / "rows.zarr"
    ms.explain_rows(store, value, x, estimator, block=50)
    explanation = ms.Explanation.load(store)
explanation.receipt

# %%
# The rows themselves, as of any explanation:

explanation.plot.beeswarm(output="virginica")
