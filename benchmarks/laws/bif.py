"""Reads discrete Bayesian networks from files of the Bayesian interchange format (.bif)."""

import gzip
import math
import re
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_VARIABLE = re.compile(r"variable\s+(\S+|\"[^\"]*\")\s*\{.*?\{(.*?)\}", re.DOTALL)
_TABLE = re.compile(r"probability\s*\((.*?)\)\s*\{(.*?)\}", re.DOTALL)
_LINE = re.compile(r"(?:table|default|\(([^)]*)\))([^;]*);")


class Variable(NamedTuple):
    """A variable, its states, and its probabilities given its parents.

    Attributes:
        name: of the variable.
        states: names of its states.
        parents: names of the variables that it depends on.
        table: P(state | states of the parents), `[*states of parents, states]`, in float64.
    """

    name: str
    states: tuple[str, ...]
    parents: tuple[str, ...]
    table: Tensor


def read_bif(path: Path) -> tuple[Variable, ...]:
    """The variables of a network, in the order of the file; files end in .bif or .bif.gz.

    >>> import tempfile
    >>> text = '''network rain {}
    ... variable rain { type discrete [ 2 ] { yes, no }; }
    ... variable wet { type discrete [ 2 ] { yes, no }; }
    ... probability ( rain ) { table 0.2, 0.8; }
    ... probability ( wet | rain ) { (yes) 0.9, 0.1; (no) 0.0, 1.0; }'''
    >>> with tempfile.NamedTemporaryFile("w", suffix=".bif") as file:
    ...     _ = file.write(text), file.flush()
    ...     rain, wet = read_bif(Path(file.name))
    >>> wet.parents, wet.table.tolist()
    (('rain',), [[0.9, 0.1], [0.0, 1.0]])
    """
    raw = path.read_bytes()
    text = _COMMENT.sub(" ", (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode())
    states = {_names(name)[0]: _names(of) for name, of in _VARIABLE.findall(text)}
    found = {}
    for head, body in _TABLE.findall(text):
        name, *parents = _names(head.replace("|", ","))
        shape = [len(states[each]) for each in (*parents, name)]
        table = torch.zeros(shape, dtype=torch.float64)
        # A `default` line is for the rows that have no line.
        for row, numbers in sorted(_LINE.findall(body)):
            given = _names(row) if row else ()
            place = tuple(states[p].index(s) for p, s in zip(parents, given, strict=False))
            line = torch.tensor([*map(float, _names(numbers))], dtype=torch.float64)
            table[place] = line.view(shape[len(place) :] if line.numel() > shape[-1] else -1)
        # Public files round their numbers.
        total = table.sum(-1, keepdim=True)
        if not math.isclose(total.min(), 1, abs_tol=1e-4):
            raise ValueError(f"Expected probabilities of {name!r} that sum to one in {path}.")
        found[name] = Variable(name, states[name], tuple(parents), table / total)
    return tuple(found[name] for name in states)


def _names(text: str) -> tuple[str, ...]:
    return tuple(each.strip().strip('"') for each in text.split(","))
