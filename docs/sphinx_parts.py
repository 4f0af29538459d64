"""Parts of the site that Sphinx has no setting for: figures of examples, and plain docstrings."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sphinx.application import Sphinx
from sphinx_gallery.scrapers import figure_rst

_SECTION = re.compile(
    r"(Args|Attributes|Raises|Returns|Yields|Example|Examples|Note|References|Keyword Args):\s*$"
)
_CODE = re.compile(r"``.*?``|`[^`]*`")


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    # Before napoleon, which makes lists of the sections.
    app.connect("autodoc-process-docstring", _as_restructured_text, priority=100)
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
    found: list[str] = []
    in_section, in_code = False, False
    for line in lines:
        bare = line.strip()
        indented = line.startswith("    ")
        if bare and not indented:
            in_section, in_code = bool(_SECTION.match(line)), False
        if indented and not in_section and not in_code and not bare.startswith((">>>", "...")):
            in_code = not found or not found[-1].strip()
            if in_code and not _follows_prompt(found):
                found += ["::", ""]
        prompt = bare.startswith((">>>", "...")) or _follows_prompt(found)
        if indented and not in_section and prompt:
            found.append(line[4:])
        elif in_code or (prompt and bare):
            found.append(line)
        else:
            found.append(_escaped(line))
    lines[:] = found


def _follows_prompt(lines: list[str]) -> bool:
    """Whether the next line is of the output of an example."""
    for line in reversed(lines):
        if not line.strip():
            return False
        if line.lstrip().startswith(">>>"):
            return True
    return False


def _escaped(line: str) -> str:
    parts, end = [], 0
    for code in _CODE.finditer(line):
        parts += [re.sub(r"([*|])", r"\\\1", line[end : code.start()]), code.group()]
        end = code.end()
    bullet = re.match(r"\s*\* ", line)
    rest = re.sub(r"([*|])", r"\\\1", line[end:])
    text = "".join([*parts, rest])
    # A trailing underscore would be a link.
    return text if bullet is None else text.replace(r"\* ", "* ", 1)
