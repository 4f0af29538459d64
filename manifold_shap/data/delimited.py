"""Takes files of separated values apart: their encoding, separator, header and lines."""

import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from manifold_shap._messages import shown
from manifold_shap.data.findings import Findings

# Before the comma, which stands in numbers, too.
_SEPARATORS = ("\t", ";", "|", ",")
_MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_SAMPLE = 100
_USUAL = 0.9
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")

Row = list[str]


class Format(NamedTuple):
    """How a file of separated values is written; None where that is to be found.

    Attributes:
        separator: the character between two cells.
        decimal: the sign in numbers.
        header: whether the first line names the columns.
        encoding: a name that Python knows.
        skip: whether lines with another number of cells are left out.
        na_values: texts that stand for a missing value, as an empty cell does.
    """

    separator: str | None = None
    decimal: str | None = None
    header: bool | None = None
    encoding: str | None = None
    skip: bool = False
    na_values: tuple[str, ...] = ()


class Cells(NamedTuple):
    """What a file holds: text and numbers, with no more than an empty cell missing.

    Attributes:
        frame: its rows, whose columns have distinct names.
        first: the first line.
        copies: columns whose name occurs before, and how pandas names them.
        about: how it was read, in words.
    """

    frame: pd.DataFrame
    first: Row
    copies: dict[str, str]
    about: str


def read_cells(raw: bytes, form: Format, named: Sequence[str], found: Findings) -> Cells | None:
    """The table in a file of separated values; None if there is none that could be looked into.

    Args:
        raw: content of the file.
        form: what is known of it.
        named: columns that the caller's settings name, which tell whether there is a header.
        found: collects what is wrong.
    """
    text, encoding = _decoded(raw, form.encoding, found)
    if text is None:
        return None
    if "\0" in text[:100_000]:
        found.problem("it is no text, or in an encoding of more bytes a character", "encoding")
        return None
    separator = form.separator or _separator(text)
    try:
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True)
        counts = [(len(row), rows.line_num) for row in rows if row]
    except csv.Error as error:
        found.problem(f"line {rows.line_num} cannot be read ({error}): is a quote left open?")
        return None
    if not counts:
        found.problem("it is empty; name another file", "path")
        return None
    usual = Counter(count for count, _ in counts).most_common(1)[0][0]
    # R names no column for the names of the rows.
    shift = counts[0][0] == usual - 1 > 1 and all(count == usual for count, _ in counts[1:])
    bad = [line for count, line in counts[shift:] if count != usual]
    if bad:
        _say_ragged(bad, usual, form.skip, found)
        text = _whole_lines(text, separator, usual)
    first, few, names, header = _named(text, separator, form.header, named, shift)
    decimal = form.decimal or _decimal(few, separator)
    _check_separator(first, separator, found)
    distinct, copies = _distinct(names)
    frame = pd.read_csv(
        io.StringIO(text),
        sep=separator,
        header=0 if header else None,
        names=distinct,
        decimal=decimal or ".",
        index_col=False,
        skipinitialspace=True,
        # Only an empty cell is missing: "None" and "NA" may well be categories.
        keep_default_na=False,
        na_values=["", *form.na_values],
        low_memory=False,
    )
    sign = {"\t": "tabs"}.get(separator, f"{separator!r}")
    names_from = "names in the first line" if header else "no line of names"
    comma = ", decimal comma" if decimal == "," else ""
    about = f"{encoding}, separated by {sign}{comma}, {names_from}"
    return Cells(frame, first, copies, about)


def looks_numeric(text: str) -> bool:
    """Whether a cell is written like a number, with a decimal point or comma.

    >>> looks_numeric("1,5"), looks_numeric("1.5e3"), looks_numeric("1-5")
    (True, True, False)
    """
    return _NUMBER.fullmatch(text.strip()) is not None


def _decoded(raw: bytes, encoding: str | None, found: Findings) -> tuple[str | None, str]:
    """The text, if it can be read, and the encoding that it is in."""
    marked = next((name for mark, name in _MARKS.items() if raw.startswith(mark)), None)
    try:
        named = encoding or marked or "utf-8"
        return raw.decode(named), named.removesuffix("-sig")
    except LookupError:
        found.problem(f"Python knows no encoding {encoding!r}", "encoding")
        return None, ""
    except UnicodeError as error:
        if encoding is not None or marked == "utf-16":
            found.problem(f"it is not in the encoding {named} ({error})", "encoding")
            return None, named
    texts, odd, beyond = [], [], 0
    for number, line in enumerate(raw.split(b"\n"), 1):
        try:
            texts.append(line.decode("utf-8"))
            beyond += not line.isascii()
        except UnicodeError:
            texts.append(line.decode("cp1252", "replace"))
            odd.append(number)
    if beyond:
        found.remark(
            f"lines {shown(odd, 5)} are not in UTF-8 as others are, and are read as Windows-1252; "
            "data.encoding=... reads all lines in one encoding"
        )
    return "\n".join(texts).removeprefix("\ufeff"), "utf-8" if beyond else "Windows-1252"


def _separator(text: str) -> str:
    """The character that cuts the first lines into the same number of cells, and more than one."""
    lines = [line for line in itertools.islice(io.StringIO(text), _SAMPLE) if line.strip()]
    shares = {}
    for separator in _SEPARATORS:
        try:
            rows = csv.reader(lines, delimiter=separator, skipinitialspace=True)
            counts = [len(row) for row in rows if row]
        except csv.Error:
            continue
        usual, times = Counter(counts).most_common(1)[0] if counts else (1, 0)
        shares[separator] = times / len(counts) if usual > 1 else 0.0
    # Consistent ones first, in order; else the one that fits most lines.
    usual_ones = [sign for sign, share in shares.items() if share >= _USUAL]
    best = max(shares, key=lambda sign: (shares[sign], sign == ","), default=",")
    return next(iter(usual_ones), best)


def _say_ragged(bad: list[int], usual: int, skip: bool, found: Findings) -> None:
    lines = f"{len(bad)} lines have" if len(bad) > 1 else "1 line has"
    said = f"{lines} another number of cells than {usual}: {shown(bad, 5)}"
    if skip:
        found.remark(f"{said}; left out, as data.bad_lines=skip says")
    else:
        found.problem(said, "bad_lines", "skip", "leaves them out")


def _whole_lines(text: str, separator: str, usual: int) -> str:
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True)
    out = io.StringIO()
    csv.writer(out, delimiter=separator).writerows(row for row in rows if len(row) == usual)
    return out.getvalue()


def _named(
    text: str, separator: str, header: bool | None, named: Sequence[str], shift: bool
) -> tuple[Row, list[Row], Row, bool]:
    """The first line and some below, the names of the columns, and whether that line has them."""
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True)
    first, *few = itertools.islice((row for row in lines if row), _SAMPLE)
    if shift:
        first = ["", *first]
    columns = list(zip(first, *(row for row in few if len(row) == len(first)), strict=True))
    if header is None:
        meant = any(name == cell for name in named for cell, *below in columns if cell not in below)
        header = shift or meant or not _is_data(columns)
    if header:
        return first, few, [name.strip() or f"Unnamed: {k}" for k, name in enumerate(first)], True
    return first, few, [f"column {k + 1}" for k in range(len(first))], False


def _is_data(columns: Sequence[Sequence[str]]) -> bool:
    """Whether the first line is a row of data: where numbers are below, there is one above."""
    tops = [
        top
        for top, *below in columns
        if top and any(below) and all(looks_numeric(cell) for cell in below if cell)
    ]
    alike = [top for top in tops if looks_numeric(top)]
    whole = [int(name) for name in alike if name.strip().isdigit()]
    # A frame without names is written with their numbers; years are names as well.
    numbered = len(whole) == len(alike) > 1 and all(
        after == before + 1 for before, after in itertools.pairwise(whole)
    )
    return bool(alike) and len(alike) == len(tops) and not numbered


def _decimal(few: list[Row], separator: str) -> str | None:
    """A comma, where numbers in the first lines have one and none has a point.

    "1,234" may be a thousand and more, unless a semicolon has to separate cells.
    """
    cells = [cell for row in few for cell in row if looks_numeric(cell)]
    commas = [cell for cell in cells if "," in cell]
    if separator != ";":
        commas = [cell for cell in commas if not re.fullmatch(r".*,\d{3}", cell)]
    return "," if commas and not any("." in cell for cell in cells) else None


def _check_separator(first: Row, separator: str, found: Findings) -> None:
    others = [sign for sign in _SEPARATORS if len(first) == 1 and sign in first[0]]
    if others:
        sign = {"\t": "tab"}.get(others[0], others[0])
        found.problem(
            f"it is one column if {separator!r} separates cells, but its first line, "
            f"{first[0][:100]!r}, holds {sign!r}",
            "separator",
            sign,
            "separates by that",
        )


def _distinct(names: Row) -> tuple[Row, dict[str, str]]:
    """Names as pandas makes them distinct, and what each copy is a copy of."""
    distinct: dict[str, None] = {}
    copies = {}
    for name in names:
        own, times = name, 0
        while own in distinct or (times and own in names):
            times += 1
            own = f"{name}.{times}"
        distinct[own] = None
        if times:
            copies[own] = name
    return list(distinct), copies
