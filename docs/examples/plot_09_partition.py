"""
Balances of many classes
========================

With more classes, a partition decides what each log-ratio coordinate compares; here it is found
by clustering the classes by the model's predictions.
"""

from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import manifold_shap as ms

digits = load_digits()
x = digits.data / 16
model = LogisticRegression(max_iter=300).fit(x, digits.target)
adapted = ms.as_model(model, x)
partition = ms.simplex.cluster_classes(model.predict_log_proba(x), digits.target, adapted.classes)
ms.plots.bifurcation_tree(partition)

# %%
# An explanation in log-ratios turns to this basis without being computed again; the first
# balances tell apart what is easiest to tell apart.

value = ms.fit_surrogate(adapted, x, space="ilr", hidden=[64, 64], max_epochs=4, seed=0)
explanation = ms.auto_shapley(value, x[:2]).in_basis(partition)
explanation
