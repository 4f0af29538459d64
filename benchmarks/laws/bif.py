"""Reads discrete Bayesian networks from files of the Bayesian interchange format (.bif).

The grammar is that of version 0.15 (Cozman 1998), as the public repositories of networks use it:
`network`, `variable` and `probability` blocks, tables as `table` lines, rows by the states of the
parents, and `default` rows. Properties are skipped.
"""

import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.laws.variables import Variable, check_network
from manifold_shap._messages import check_text, shown

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TOKEN = re.compile(r'"[^"]*"|[{}()\[\],;|]|[^\s{}()\[\],;|"]+')
_END = "the end of the file"


def read_bif(path: str | Path) -> tuple[Variable, ...]:
    """The variables of a network, in the order of the file.

    Args:
        path: of a .bif file, or of one compressed by gzip.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is damaged or of another format; a table that is missing, of a wrong size,
            negative or does not sum to one, or has a row twice; a variable or a state that is not
            declared, or twice; a parent that is named twice; a cycle.

    >>> import tempfile
    >>> text = '''network rain {}
    ... variable rain { type discrete [ 2 ] { yes, no }; }
    ... variable wet { type discrete [ 2 ] { yes, no }; }
    ... probability ( rain ) { table 0.2, 0.8; }
    ... probability ( wet | rain ) { (yes) 0.9, 0.1; (no) 0.0, 1.0; }'''
    >>> with tempfile.NamedTemporaryFile("w", suffix=".bif") as file:
    ...     _ = file.write(text), file.flush()
    ...     rain, wet = read_bif(file.name)
    >>> wet.parents, wet.table.tolist()
    (('rain',), [[0.9, 0.1], [0.0, 1.0]])
    """
    path = Path(check_text("path", path))
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode()
        return check_network(_Reader(text).network())
    except (EOFError, OSError, zlib.error, UnicodeDecodeError) as error:
        if isinstance(error, FileNotFoundError):
            raise FileNotFoundError(
                f"Expected a network at {path} but no file is there; correct `path`."
            ) from error
        if isinstance(error, OSError) and not isinstance(error, gzip.BadGzipFile):
            raise
        raise ValueError(
            f"Expected {path} to be a text file, or one compressed by gzip, but it is damaged "
            f"({error}); fetch it again."
        ) from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


class _Reader:
    """Reads the blocks of a network, token by token."""

    def __init__(self, text: str) -> None:
        plain = _COMMENT.sub(" ", text)
        self._tokens: Iterator[str] = iter(_TOKEN.findall(plain))
        self._next = next(self._tokens, _END)
        self._states: dict[str, tuple[str, ...]] = {}
        self._tables: dict[str, tuple[tuple[str, ...], Tensor]] = {}

    def network(self) -> list[Variable]:
        blocks = {"network": self._skip, "variable": self._variable, "probability": self._table}
        while self._next != _END:
            kind = self._take()
            if kind not in blocks:
                raise ValueError(
                    f"Expected a block of {shown(blocks)} but got {kind!r}; the file is damaged, "
                    "or no .bif file."
                )
            blocks[kind]()
        if not self._states:
            raise ValueError("Expected at least one variable but the file has none.")
        lacking = [name for name in self._states if name not in self._tables]
        if lacking:
            raise ValueError(
                f"Expected a `probability` block for every variable but {shown(lacking)} have "
                "none; the file may be cut off."
            )
        return [
            Variable(name, states, *self._tables[name]) for name, states in self._states.items()
        ]

    def _take(self, *expected: str) -> str:
        token, self._next = self._next, next(self._tokens, _END)
        if (expected and token not in expected) or token == _END:
            wanted = " or ".join(map(repr, expected)) or "more"
            raise ValueError(f"Expected {wanted} but got {token!r}; the file is damaged.")
        return token.strip('"')

    def _skip(self) -> None:
        while self._take() != "{":
            pass
        while self._take() != "}":
            pass

    def _names(self, end: str) -> list[str]:
        """Names with commas between them, up to a closing sign."""
        names = []
        while self._next != end:
            names.append(self._take())
            if self._next != end:
                self._take(",")
        self._take(end)
        return names

    def _variable(self) -> None:
        name = self._take()
        if name in self._states:
            raise ValueError(f"Expected each variable once but {name!r} is declared twice.")
        self._take("{")
        while self._next != "}":
            if self._take() != "type":
                self._statement()
                continue
            self._take("discrete")
            self._take("[")
            count = self._take()
            self._take("]")
            self._take("{")
            states = self._names("}")
            self._take(";")
            if count != str(len(states)):
                raise ValueError(
                    f"Expected {count} states of {name!r}, as declared, but got {len(states)}: "
                    f"{shown(states)}."
                )
            self._states[name] = tuple(states)
        self._take("}")
        if name not in self._states:
            raise ValueError(f"Expected a `type discrete` line for {name!r} but it has none.")

    def _statement(self) -> list[str]:
        """The rest of a statement, up to its semicolon."""
        words = []
        while (word := self._take()) != ";":
            words.append(word)
        return words

    def _table(self) -> None:
        self._take("(")
        name = self._take()
        parents = tuple(self._names(")")) if self._take("|", ")") == "|" else ()
        for other in (name, *parents):
            if other not in self._states:
                raise ValueError(
                    f"Expected variables that are declared before their tables but {other!r} is "
                    "not."
                )
        if name in self._tables:
            raise ValueError(f"Expected one table for each variable but {name!r} has two.")
        shape = [len(self._states[each]) for each in (*parents, name)]
        table = torch.full(shape, torch.nan, dtype=torch.float64)
        rest = torch.full(shape[-1:], torch.nan, dtype=torch.float64)
        self._take("{")
        while self._next != "}":
            kind = self._take()
            if kind == "(":
                place = self._place(name, parents)
                self._check_new(name, f"row for the states {place} of its parents", table[place])
                table[place] = self._numbers(name, shape[-1])
            elif kind == "table":
                self._check_new(name, "`table` line", table)
                table = self._numbers(name, table.numel()).view(shape)
            elif kind == "default":
                self._check_new(name, "`default` line", rest)
                rest = self._numbers(name, shape[-1])
            else:
                self._statement()
        self._take("}")
        self._tables[name] = (parents, torch.where(table.isnan(), rest, table))

    def _check_new(self, name: str, what: str, numbers: Tensor) -> None:
        """Refuse numbers in place of others."""
        if not bool(numbers.isnan().all()):
            raise ValueError(
                f"Expected one {what} in the table of {name!r} but there are numbers for it "
                "already; take one of the two out."
            )

    def _place(self, name: str, parents: tuple[str, ...]) -> tuple[int, ...]:
        """Where the row of these states of the parents stands in the table."""
        states = self._names(")")
        if len(states) != len(parents):
            raise ValueError(
                f"Expected a state of each of the parents {shown(parents)} in the rows of {name!r} "
                f"but got {shown(states)}."
            )
        for parent, state in zip(parents, states, strict=True):
            if state not in self._states[parent]:
                raise ValueError(
                    f"Expected states of {parent!r} among {shown(self._states[parent])} in the "
                    f"table of {name!r} but got {state!r}."
                )
        return tuple(self._states[p].index(s) for p, s in zip(parents, states, strict=True))

    def _numbers(self, name: str, count: int) -> Tensor:
        words = [word for word in self._statement() if word != ","]
        try:
            numbers = torch.tensor([float(word) for word in words], dtype=torch.float64)
        except ValueError as error:
            raise ValueError(f"Expected numbers in the table of {name!r}: {error}.") from error
        if len(numbers) != count:
            raise ValueError(
                f"Expected {count} numbers in a line of the table of {name!r} but got "
                f"{len(numbers)}."
            )
        return numbers
