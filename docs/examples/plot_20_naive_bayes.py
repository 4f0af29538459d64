"""
Exact values of a naive Bayes classifier
========================================

Its log-odds are sums over the features, so that Shapley values are known without sampling, and so
is the weight of evidence. A Shapley value is what a feature changes against the average row; its
weight of evidence, how much likelier its value is in one class than in the other.
"""

from sklearn.datasets import load_iris
from sklearn.naive_bayes import GaussianNB

import manifold_shap as ms

iris = load_iris(as_frame=True)
two = iris.target > 0  # versicolor and virginica
flowers, names = iris.data[two], iris.target_names[iris.target[two]]
model = GaussianNB().fit(flowers, names)
values = ms.naive_bayes.naive_bayes_shapley(model, flowers, flowers)
values.plot.waterfall(0)

# %%
# The weight of evidence of the same flower, beside the Shapley values:

evidence = ms.naive_bayes.weight_of_evidence(model, flowers)
ms.plots.bar({"Shapley values": values, "weight of evidence": evidence}, row=0)
