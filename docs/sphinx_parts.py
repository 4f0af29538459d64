"""Parts of the site that Sphinx has no setting for: docstrings, formulas."""

import re
import textwrap
from itertools import groupby
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.ext import autosummary

_SECTION = re.compile(r"(Args|Attributes|Raises|Returns|Yields):\s*$", re.MULTILINE)


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    # A summary is a first sentence, which does not end there.
    autosummary.WELL_KNOWN_ABBREVIATIONS += ("Eq.", "Eqs.")
    # Before napoleon, which makes lists of the sections.
    app.connect("autodoc-process-docstring", _as_restructured_text, priority=100)
    app.connect("autodoc-skip-member", _unnamed)
    app.add_html_math_renderer("mathml", (_inline_formula, None), (_formula, None))
    return {"parallel_read_safe": True}


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


def _inline_formula(writer: Any, node: nodes.math) -> None:
    """A formula in a line, as MathML, which browsers draw and screen readers read."""
    writer.body.append(convert(node.astext()))
    raise nodes.SkipNode


def _formula(writer: Any, node: nodes.math_block) -> None:
    """A formula of its own, with its number."""
    formula = convert(node.astext(), display="block")
    place = f' id="{node["ids"][0]}"' if node["ids"] else ""
    number = f'<span class="eqno">({node["number"]})</span>' if node["number"] else ""
    writer.body.append(f'<div class="math formula"{place}><div>{formula}</div>{number}</div>')
    raise nodes.SkipNode
