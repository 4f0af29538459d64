"""
Which value function is nearest?
================================

The error of v(S) on held-out rows, by the size of the coalition: off the manifold the error stays
large until nearly all columns are known.
"""

from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import manifold_shap as ms

data = load_wine()
train, test, target, _ = train_test_split(data.data, data.target, random_state=0)
model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)).fit(train, target)

players = ms.Players.of_elements((13,), data.feature_names)
mask = ms.metrics.shapley_pairs(len(test), len(players), least=3000)
errors = {}
for imputer in (
    ms.imputers.MarginalImputer(train, players),
    ms.imputers.GaussianImputer(train, players),
    ms.imputers.EmpiricalImputer(train, players, 0.5),
):
    value = ms.imputed_value(model, imputer, draws=8)
    errors[imputer.name] = ms.metrics.mean_squared_error(value, test, mask)
    print(f"{imputer.name:10} {errors[imputer.name].mse:.4f}")

ms.plots.mse_curve(errors)
