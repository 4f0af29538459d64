"""Shapley values on the data manifold, with learned value functions.

explainer = ms.Explainer(model, frame)         # any table, any model: the best value function
explanation = explainer(frame.head(100))
explanation.to_frame(), explanation.plot       # a column for each player; figures

Step by step:

value = ms.fit_surrogate(model, x_train)       # a value function that is learned, or
value = ms.imputed_value(model, imputer)       # ... of ms.imputers.GaussianImputer(x_train)
explanation = ms.auto_shapley(value, x_test)   # the estimator that suits it
ms.metrics.mean_squared_error(value, x, mask)  # how good the value function is
ms.global_values(explanation, y_test)          # what each player adds to the accuracy
ms.explain_rows(path, value, x, estimator)     # more rows than memory holds
explainer.frame(frame)                         # frame in, frame out: Dask, Ray, Spark

`help(ms.fit_surrogate)` and so on say more: what follows here are all of these texts at once.
"""

import lazy_loader

# The public names stand in `__init__.pyi`, each once, and are imported when they are first asked
# for: torch, Lightning and matplotlib take seconds, and only those who compute, train or draw wait.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
