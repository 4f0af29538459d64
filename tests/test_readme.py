"""What the README and the pages of docs/ say can be typed, can be typed; `make docs` runs it."""

import math
import re
from pathlib import Path

import pytest

from tests.learned import few_pairs

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.notebook
@pytest.mark.parametrize(
    "page", [page for page in PAGES if "```python" in page.read_text()], ids=lambda page: page.name
)
def test_the_python_examples_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    examples = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    # One after the other: the later ones of a page use the data and the model of the first.
    with few_pairs(math.inf):
        exec(compile("\n".join(examples), str(page), "exec"), {})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_figures_are_there(page: Path) -> None:
    links = re.findall(r'(?:src="|\]\()([^")#]+)', page.read_text())
    local = [link for link in links if "://" not in link]
    assert all((page.parent / link).exists() for link in local), local
