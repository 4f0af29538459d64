"""
Orders of the players: components, graphs, weights
==================================================

A Shapley value is a mean over the orders in which columns become known; in general each order has
a weight, w(π) in Eq. 3.5.1 of Carballo's thesis. Symmetric values weigh all orders alike. A chain
of components asks that whole groups of columns come one after the other; a graph, that each column
comes after its own causes, whenever the others come. Weights need forbid nothing: here, an order
counts half as much for each effect that comes before its cause. (What causes what is assumed.)
"""

from itertools import permutations

from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor

import manifold_shap as ms

diabetes = load_diabetes(scaled=False, as_frame=True)
columns = {"age": "age", "sex": "sex", "bmi": "body mass", "bp": "blood pressure", "s5": "lipids"}
x = diabetes.data[list(columns)].to_numpy()
model = RandomForestRegressor(50, min_samples_leaf=5, random_state=0).fit(x, diabetes.target)
players = ms.Players.of_elements((5,), list(columns.values()))
value = ms.imputed_value(model, ms.imputers.GaussianImputer(x, players), "identity", draws=16)

components = [["age", "sex"], ["body mass"], ["blood pressure", "lipids"]]
graph = {"blood pressure": ["age", "body mass"], "lipids": ["body mass"]}
edges = [(cause, effect) for effect, causes in graph.items() for cause in causes]


def weight(order):  # half as much for each effect that comes before its cause
    return 0.5 ** sum(order.index(effect) < order.index(cause) for cause, effect in edges)


orderings = {
    "symmetric": None,
    "chain of components": components,
    "graph of causes": graph,
}
explanations = {
    name: ms.exact_shapley(value, x[:60], ordering=ordering) for name, ordering in orderings.items()
}
weights = [(list(order), weight(order)) for order in permutations(players.names)]
explanations["weights w(π)"] = ms.permutation_shapley(value, x[:60], orders=weights)
for name, relations in {"components": components, "graph": graph}.items():
    print(f"{name}: {ms.Ordering(relations, players).allowed.count} of 120 orders")
ms.plots.bar(explanations)
