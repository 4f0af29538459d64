"""Shapley values on the data manifold, with learned value functions.

value = ms.fit_surrogate(model, x_train, output="probability")
explanation = ms.permutation_shapley(value, x_test, permutations=64)
"""

import lazy_loader

# The public names stand in `__init__.pyi`, each once, and are imported when they are first asked
# for: torch, Lightning and matplotlib take seconds, and only those who compute, train or draw wait.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
