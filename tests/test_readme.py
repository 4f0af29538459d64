"""What the README and the pages of docs/ say can be typed, can be typed."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if "```python" in page.read_text()], ids=lambda page: page.name
)
def test_the_python_examples_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    examples = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    # One after the other: the later ones of a page use the data and the model of the first.
    exec(compile("\n".join(examples), str(page), "exec"), {})
    assert page.name != "README.md" or (tmp_path / "explanations.zarr").exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_figures_are_there(page: Path) -> None:
    links = re.findall(r'(?:src="|\]\()([^")#]+)', page.read_text())
    local = [link for link in links if "://" not in link]
    assert all((page.parent / link).exists() for link in local), local


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tables_have_a_head_and_no_gaps(page: Path) -> None:
    """Lines after a gap would be text with bars in it."""
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for table in re.findall(r"(?:^\|.*\n)+", prose, re.MULTILINE):
        assert re.match(r"\|.*\n\|[-:| ]+\|\n", table), table


def test_the_readme_is_short_and_shows_a_picture() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 150
    assert "docs/mnist.png" in text
