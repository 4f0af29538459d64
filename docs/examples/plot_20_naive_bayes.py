"""
Exact values of a naive Bayes classifier
========================================

Its log-probabilities are sums over the features, so that Shapley values are known without
sampling, and so is the weight of evidence.
"""

from sklearn.datasets import load_iris
from sklearn.naive_bayes import GaussianNB

import manifold_shap as ms

iris = load_iris()
two = iris.target < 2
model = GaussianNB().fit(iris.data[two], iris.target[two])
explanation = ms.naive_bayes_shapley(model, iris.data[two], iris.data[two])
explanation.plot.waterfall(0)
