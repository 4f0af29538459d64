"""Parts of the site that Sphinx has no setting for: figures of examples, and plain docstrings."""

import re
import textwrap
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sphinx.application import Sphinx
from sphinx_gallery.scrapers import figure_rst

_SECTION = re.compile(r"(Args|Attributes|Raises|Returns|Yields):\s*$", re.MULTILINE)


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    # Before napoleon, which makes lists of the sections.
    app.connect("autodoc-process-docstring", _as_restructured_text, priority=100)
    app.connect("autodoc-skip-member", _unnamed)
    return {"parallel_read_safe": True}


def drawn(block: tuple[Any, ...], variables: dict[str, Any], settings: dict[str, Any]) -> str:
    """Saves the figure that a block of an example ends with, as a notebook shows it.

    The package's plots return axes, or a list of them, and do not pass through pyplot.
    """
    last = variables["example_globals"].get("___")
    paths = []
    for figure in _figures(last if isinstance(last, list | tuple) else [last]):
        path = next(variables["image_path_iterator"])
        figure.savefig(path, dpi=120, bbox_inches="tight")
        paths.append(path)
    variables["example_globals"]["___"] = None
    return figure_rst(paths, str(Path(settings["src_dir"])))


def _figures(shown: Iterable[Any]) -> list[Figure]:
    found: dict[int, Figure] = {}
    for one in shown:
        figure = one.figure if isinstance(one, Axes) else one
        if isinstance(figure, Figure):
            found[id(figure)] = figure
    return list(found.values())


def _as_restructured_text(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Docstrings are plain text with code in backticks: escapes what would be markup elsewhere.

    An indented part outside of a section is code, with or without prompts.
    """
    parts = [
        "\n".join(part) for gap, part in groupby(lines, lambda line: not line.strip()) if not gap
    ]
    found: list[str] = []
    in_section = in_code = False
    for part in parts:
        if not part.startswith(" "):
            in_section, in_code = bool(_SECTION.match(part)), False
        if part.lstrip().startswith(">>>"):
            found += textwrap.dedent(part).splitlines()
        elif part.startswith("    ") and not in_section:
            found += [] if in_code else ["::", ""]
            in_code = True
            found += part.splitlines()
        else:
            found += _escaped(part).splitlines()
        found.append("")
    lines[:] = found


def _escaped(part: str) -> str:
    """Stars and bars outside of backticks are themselves, and a list begins after an empty line."""
    pieces = re.split(r"(`[^`]*`)", part)
    pieces[::2] = [re.sub(r"([*|])", r"\\\1", piece) for piece in pieces[::2]]
    return re.sub(r"(?m)^( *)([^-\n ].*)\n(?=\1? *- )", r"\1\2\n\n", "".join(pieces))


def _unnamed(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Fields of a named tuple are described with the class."""
    return True if type(obj).__name__ == "_tuplegetter" else None
