"""The site's reference has every public name, each with an example, and a gallery."""

import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import manifold_shap as ms
from docs.check_site import broken, read
from manifold_shap.training.task import TrainingOptions

DOCS = Path(__file__).parent.parent / "docs"
MODULES = [name for name in ms.__all__ if inspect.ismodule(getattr(ms, name))]


def public() -> dict[str, Any]:
    """All public names, those of public modules behind the name of these."""
    found = {name: getattr(ms, name) for name in ms.__all__ if name != "__version__"}
    for module in MODULES:
        inner = found.pop(module)
        found |= {f"{module}.{name}": getattr(inner, name) for name in inner.__all__}
    return found


def listed() -> list[str]:
    """The names on the pages of the reference."""
    pages = [page.read_text() for page in sorted((DOCS / "api").glob("*.rst"))]
    blocks = re.findall(r":toctree: generated\n\n((?:   \S+\n)+)", "\n".join(pages))
    return [name for block in blocks for name in block.split()]


def test_every_public_name_is_in_the_reference_once() -> None:
    assert sorted(listed()) == sorted(public())


def test_every_public_name_has_an_example() -> None:
    without = [name for name, each in public().items() if ">>>" not in (inspect.getdoc(each) or "")]
    assert without == []


@pytest.mark.parametrize("module", MODULES)
def test_only_public_names_are_listed(module: str) -> None:
    assert dir(getattr(ms, module)) == sorted(getattr(ms, module).__all__)


@pytest.mark.parametrize("fit", [ms.fit_surrogate, ms.fit_imputer, ms.fit_amortized])
def test_help_lists_every_argument_of_a_training_with_its_default(fit: Any) -> None:
    usual = {each.name: each.default for each in fields(TrainingOptions)}
    listed = inspect.signature(fit).parameters
    assert usual.keys() <= listed.keys()
    assert listed["learning_rate"].default == usual["learning_rate"]
    assert all(each.kind is not each.VAR_KEYWORD for each in listed.values())


def test_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<h1 id="top"></h1><a href="#"></a><a href="#top"></a><a href="b.html#there"></a>'
        '<a href="https://example.org/x"></a><img src="c.png"><a href="#gone"></a>'
        '<a href="b.html#gone"></a><a href="d.html"></a>'
    )
    (tmp_path / "b.html").write_text('<p id="there">')
    assert broken(tmp_path, read(tmp_path)) == [
        f"a.html: {to}" for to in ("#gone", "b.html#gone", "c.png", "d.html")
    ]
