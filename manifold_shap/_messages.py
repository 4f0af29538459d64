"""Formats messages of errors and warnings, and checks plain settings, without other packages."""

import os
import sys
import warnings
from collections.abc import Collection, Iterable
from traceback import walk_stack
from typing import TYPE_CHECKING, Any

_PACKAGE = os.path.join(os.path.dirname(__file__), "")
# Packages that stand between a caller and what they decorate.
_DECORATORS = ("torch.", "jaxtyping.", "beartype.")


# Of classes, what to write in place of the names that other packages have.
_INSTEAD = {
    "Explainer": {
        "explainer(frame)": "explain attribute plot",
        "explainer(frame).phi": "shap_values",
        "explainer(frame).base": "expected_value",
        "explainer(frame).prediction": "predict",
        "explainer.table.players.names": "feature_names",
        "ms.save(explainer, folder)": "save",
        "ms.load(folder, model)": "load",
    },
    "Explanation": {
        "explanation.phi": "values shape abs mean to_numpy",
        "explanation.base": "base_values expected_value",
        "explanation.players.names": "feature_names",
        "explanation.outputs": "output_names",
        "explanation.to_frame()": "to_csv to_pandas",
        "explanation[:5]": "iloc head",
    },
    "ValueFunction": {
        "ms.auto_shapley(value, x)": "explain attribute shap_values",
        "value.base(x)": "expected_value",
        "value.prediction(x)": "predict",
        "ms.save(value, folder)": "save",
        "ms.load(folder, model)": "load",
    },
    "GlobalValues": {"values.phi": "values", "ms.plots.bar(values)": "plot"},
    "Interactions": {"ms.plots.interaction_map(interactions)": "plot"},
}


class Instead:
    """Answers a name that other packages have by what to write here."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            for base in type(self).__mro__:
                for line, names in _INSTEAD.get(base.__name__, {}).items():
                    if name in names.split():
                        raise AttributeError(f"There is no `{name}` here; write `{line}`.")
            return object.__getattribute__(self, name)  # With the error that it raised.


class UnfitError(ValueError):
    """Rows that a value function cannot be fitted to: for no fault of the model or of settings."""


def warn(message: str) -> None:
    """Warn of something at the line of the caller's own that called the package."""
    frames = [frame for frame, _ in walk_stack(sys._getframe())]
    own = [k for k, frame in enumerate(frames) if frame.f_code.co_filename.startswith(_PACKAGE)]
    names = [frame.f_globals.get("__name__", "") for frame in frames]
    outside = (k for k in range(own[-1] + 1, len(frames)) if not names[k].startswith(_DECORATORS))
    place = next(outside, own[-1])
    code, line, caller = frames[place].f_code, frames[place].f_lineno, frames[place].f_globals
    registry = caller.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, UserWarning, code.co_filename, line, names[place], registry)


def shown(values: Iterable[Any], most: int = 20) -> str:
    """A list for an error message: the first values, and how many more there are.

    >>> shown(range(5), most=3)
    '[0, 1, 2] and 2 more'
    """
    every = values if isinstance(values, list | tuple) else list(values)
    rest = f" and {len(every) - most} more" if len(every) > most else ""
    return f"{list(every[:most])}{rest}"


def check_choice(name: str, value: Any, choices: Collection[str], fix: str = "") -> str:
    """One of the words in `choices`.

    >>> check_choice("schedule", "cosine", ("cosine", "constant"))
    'cosine'

    Raises:
        ValueError: `value` is none of them.
    """
    if isinstance(value, str) and value in choices:
        return str(value)
    raise ValueError(
        f"Expected `{name}` to be one of {shown(choices)} but got {value!r:.100}"
        f"{f'; {fix}' if fix else ''}."
    )


def check_flag(name: str, value: Any) -> bool:
    """True or False; text such as "no", which would count as true, is refused.

    >>> check_flag("resume", True)
    True

    Raises:
        TypeError: `value` is neither.
    """
    if not isinstance(value, bool):
        raise TypeError(
            f"Expected `{name}` to be true or false but got {value!r:.100} "
            f"({type(value).__name__})."
        )
    return value


def check_text(name: str, value: Any) -> str:
    """Text, or a path, as `str`.

    >>> from pathlib import Path
    >>> check_text("path", Path("table.csv"))
    'table.csv'

    Raises:
        TypeError: `value` is something else.
        ValueError: it has a null byte, which ends a text for the system.
    """
    if not isinstance(value, str | os.PathLike):
        raise TypeError(
            f"Expected `{name}` to be text but got {value!r:.100} ({type(value).__name__})."
        )
    text = os.fspath(value)
    if "\0" in text:
        raise ValueError(
            f"Expected `{name}` to be text without null bytes but got {text!r:.100}; leave them "
            "out."
        )
    return text
