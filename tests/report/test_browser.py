"""The page in a real browser: drawn, chosen from, and safe from what others wrote."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import manifold_shap as ms
from tests.plots import helpers
from tests.report.test_report import HOSTILE, rows, series, texts

pytestmark = pytest.mark.slow
KINDS = ("table", "pictures", "text", "series", "compositions", "many classes", "hostile")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    found = {kind: folder / f"{kind}.html" for kind in KINDS}
    interactions = ms.shapley_interactions(
        lambda x, mask: torch.where(mask, x[:, None], 0.0).prod(-1, keepdim=True), torch.rand(9, 4)
    )
    interactions.shapley.report(found["table"], interactions=interactions)
    helpers.digits().report(found["pictures"])
    explanation, tokens = texts()
    explanation.report(found["text"], tokens=tokens)
    series(channels=3, time=200, length=20).report(found["series"])
    helpers.composed(5, 4, rows=3).report(found["compositions"])
    rows(30, players=20, outputs=40).report(found["many classes"])
    names = (f"{HOSTILE} a", f"{HOSTILE} b", f"{HOSTILE} c")
    hostile = helpers.composed(3, names, names=names)
    replace(hostile, instances=(HOSTILE, "two")).report(found["hostile"], title=HOSTILE)
    return found


def shown(page: Path, script: str = "", allowed: bool = True) -> str:
    """What a browser makes of a page, after a script that its policy must let run, if `allowed`."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    text = page.read_text(encoding="utf-8")
    if allowed:
        text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    copy = page.with_stem(f"{page.stem} again")
    copy.write_text(f"{text}<script>{script}</script>", encoding="utf-8")
    options = ["--headless=new", "--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND"]
    command = [program, *options, "--dump-dom", copy.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    return done.stdout


def part(dom: str, name: str) -> str:
    """The text of an element by its id."""
    (found,) = re.findall(rf'<(\w+)[^>]* id="{name}"[^>]*>(.*?)</\1>', dom, re.DOTALL)
    return re.sub(r"<[^>]*>", " ", found[1])


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_is_drawn_by_its_script_alone(pages: dict[str, Path], kind: str) -> None:
    dom = shown(pages[kind], "document.title = 'run'", allowed=False)
    assert "prediction" in part(dom, "steps")
    assert "<title>run" not in dom
    assert 'src="x"' not in dom


def test_rows_and_outputs_are_chosen(pages: dict[str, Path]) -> None:
    page = pages["many classes"]
    assert part(shown(page), "chosen") == "Row 0"
    other = shown(page, "document.querySelector('tr[data-row=\"7\"] td').click()")
    assert part(other, "chosen") == "Row 7"
    assert part(other, "steps") != part(shown(page), "steps")
    choose = (
        "const e = document.getElementById('row-output');"
        "e.selectedIndex = 1; e.dispatchEvent(new Event('change', { bubbles: true }))"
    )
    assert part(shown(page, choose), "steps") != part(shown(page), "steps")
    choose = "document.querySelector('tr[data-row=\"2\"] button').click()"
    assert part(shown(pages["series"], choose), "curves") != part(shown(pages["series"]), "curves")
