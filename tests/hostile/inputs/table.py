"""The form of the tables: what is done, and the error that it has to raise."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple


class Input(NamedTuple):
    """A hostile input.

    Attributes:
        name: for the test, and for whoever reads the table.
        do: gives it to the package; its argument is an empty folder, HERE.
        error: the type of what it raises; a warning where the input is taken all the same.
        says: the whole sentence: what was expected, what was received, what to do. "..." stands
            for any text.
        slow: whether it takes seconds, or is like another one.
        mark: what becomes of it. "kept": the answer would otherwise be silently wrong, or the
            error of the library would leave a user helpless; "twin": the same check as that of a
            kept row, which stands for both; "library": what torch, pandas, Hydra, zarr or Python
            says is good enough; "gone": its feature goes.
    """

    name: str
    do: Callable[[Path], Any]
    error: type[BaseException]
    says: str
    slow: bool = False
    mark: Literal["kept", "twin", "library", "gone"] = "kept"

    @property
    def pattern(self) -> str:
        """What the message has to match from its first to its last letter."""
        return ".*?".join(map(re.escape, self.says.split("...")))


class Odd(NamedTuple):
    """An input that looks odd and is sound: it has to give the numbers of the plain one."""

    name: str
    do: Callable[[], Any]
    plain: Callable[[], Any]
