"""Collects what is wrong with a table, to say it at once with the settings that repair it."""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

_MOST = 40
# Words that are no text where they are typed without quotes.
_NOT_TEXT = ("true", "false", "null", "inf", "nan")


class TableError(ValueError):
    """All that is wrong with a table, in a line for each."""


class Findings:
    """TableError and remarks about one table.

    A problem has one setting of `data` that repairs it; settings that list columns or texts are
    put together, so that the last line of the problems can be typed as it is.

    >>> found = Findings("shop.csv")
    >>> found.problem("column 'a' holds lists", "drop", ["a"], "leaves it out")
    >>> found.problem("column 'b' holds lists", "drop", ["b"], "leaves it out")
    >>> print(found.error())
    2 problems with shop.csv.
    1. Column 'a' holds lists; data.drop=[a] leaves it out.
    2. Column 'b' holds lists; data.drop=[b] leaves it out.
    All of these settings: data.drop=[a,b]

    Attributes:
        name: what the error calls the table.
        problems: sentences about what the table cannot be read with.
        remarks: sentences about what is no problem.
        troubled: columns that have a problem.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.problems: list[str] = []
        self.remarks: list[str] = []
        self.troubled: set[str] = set()
        self._settings: dict[str, Any] = {}

    def problem(
        self, text: str, setting: str | None = None, value: Any = None, does: str = ""
    ) -> None:
        """Something that the table cannot be read with.

        Args:
            text: what it is.
            setting: of `data`, that repairs it.
            value: of the setting, if there is one to be offered; lists are put together.
            does: what the setting then does.
        """
        if setting is not None:
            fix = f"set data.{setting}" if value is None else typed(setting, value)
            text = f"{text}; {fix} {does}".rstrip()
        if isinstance(value, list):
            self._settings[setting or ""] = [*self._settings.get(setting or "", []), *value]
        elif value is not None:
            self._settings[setting or ""] = value
        self.problems.append(_sentence(text))

    def remark(self, text: str) -> None:
        """Something worth knowing, with which the table can be read."""
        self.remarks.append(_sentence(text))

    def error(self, listed: Mapping[str, Sequence[str]] | None = None) -> TableError:
        """All problems, the settings that repair them, and the remarks.

        Args:
            listed: what the caller's settings list already, which stays.
        """
        count = len(self.problems)
        fixes = " ".join(
            typed(name, [*(listed or {}).get(name, ()), *to] if isinstance(to, list) else to)
            for name, to in self._settings.items()
        )
        numbered = [f"{k}. {text}" for k, text in enumerate(self.problems[:_MOST], 1)]
        lines = [f"{count} problem{'s' if count > 1 else ''} with {self.name}.", *numbered]
        lines += [f"{count - _MOST} more."] if count > _MOST else []
        lines += [f"All of these settings: {fixes}"] if count > 1 and fixes else []
        return TableError("\n".join([*lines, *(f"Note: {remark}" for remark in self.remarks)]))


def typed(setting: str, value: Any) -> str:
    """A setting of `data` as it is typed in a shell.

    >>> print(typed("drop", ["id", "the name"]))
    'data.drop=[id,"the name"]'
    """
    if isinstance(value, list):
        text = f"[{','.join(_plain(entry) for entry in value)}]"
    else:
        text = str(value).lower() if isinstance(value, bool) else _plain(str(value))
    whole = f"data.{setting}={text}"
    return shlex.quote(whole) if re.search(r"[^\w.=\[\],+-]", whole) else whole


def _plain(text: str) -> str:
    # What YAML would take for a number, or for true, stays text in quotes.
    is_word = re.fullmatch(r"[A-Za-z_]\w*", text) and text.lower() not in _NOT_TEXT
    return text if is_word else '"' + text.replace('"', r"\"") + '"'


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""
