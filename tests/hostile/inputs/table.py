"""The form of the tables: what is done, and the error that it has to raise."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple


class Input(NamedTuple):
    """A hostile input.

    Attributes:
        name: for the test, and for whoever reads the table.
        do: gives it to the package; its argument is an empty folder, HERE.
        error: the type of what it raises; a warning where the input is taken all the same.
        says: the whole sentence: what was expected, what was received, what to do. "..." stands
            for any text.
        slow: whether it takes seconds, or is like another one.
    """

    name: str
    do: Callable[[Path], Any]
    error: type[BaseException]
    says: str
    slow: bool = False

    @property
    def pattern(self) -> str:
        """What the message has to match from its first to its last letter."""
        return ".*?".join(map(re.escape, self.says.split("...")))


class Odd(NamedTuple):
    """An input that looks odd and is sound: it has to give the numbers of the plain one."""

    name: str
    do: Callable[[], Any]
    plain: Callable[[], Any]
