"""Shapley values on the data manifold, with learned value functions.

value = ms.fit_surrogate(model, x_train, output="probability")
explanation = ms.permutation_shapley(value, x_test, permutations=64)
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

# By public name, the module that it is imported from when it is first asked for: torch, Lightning
# and matplotlib take seconds, and only those who compute, train or draw wait for them.
_HOMES = {
    alias.name: str(statement.module)
    for statement in ast.parse(Path(__file__).with_suffix(".pyi").read_text("utf-8")).body
    if isinstance(statement, ast.ImportFrom)
    for alias in statement.names
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES[name]
    if home == __name__:
        return import_module(f"{home}.{name}")
    globals()[name] = found = vars(import_module(home))[name]
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
