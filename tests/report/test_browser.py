"""The page in a real browser: narrow, searched, and safe from what others wrote."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.plots import helpers
from tests.report.test_report import HOSTILE, rows

pytestmark = pytest.mark.slow


def dom(page: Path, script: str, allowed: bool = True) -> str:
    """What a browser makes of a page in a frame of 390 pixels, after a script, if `allowed`."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    text = page.read_text(encoding="utf-8")
    if allowed:
        text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    text = text.replace("<body>", '<body style="width: 390px">', 1)
    copy = page.with_stem(f"{page.stem} again")
    copy.write_text(f"{text}<script>{script}</script>", encoding="utf-8")
    options = ["--headless=new", "--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND"]
    command = [program, *options, "--dump-dom", copy.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    return done.stdout


def test_no_script_but_that_of_the_page_runs(tmp_path: Path) -> None:
    page = tmp_path / "hostile.html"
    helpers.composed(3, (HOSTILE, "b", "c")).report(page, title=HOSTILE)
    assert "<title>run" not in dom(page, "document.title = 'run'", allowed=False)
    assert "<title>run" in dom(page, "document.title = 'run'")


def test_rows_are_searched_outputs_chosen_and_nothing_is_wider_than_a_phone(
    tmp_path: Path,
) -> None:
    page = tmp_path / "page.html"
    rows(12, outputs=3).with_labels(["Zora", *range(11)]).report(page)
    script = """
    const search = document.getElementById("search"), output = document.getElementById("output");
    search.value = "ROW zora"; search.dispatchEvent(new Event("input"));
    output.selectedIndex = 1; output.dispatchEvent(new Event("change"));
    const left = [...document.querySelectorAll("details")].filter((row) => !row.hidden);
    const parts = [...document.querySelectorAll("[data-output]")].map((part) => part.hidden);
    document.title = `${left.length} ${parts} ${document.body.scrollWidth}`;
    """
    (said,) = re.findall("<title>(.*?)</title>", dom(page, script))
    count, parts, width = said.split()
    assert (count, parts) == ("1", "true,false,true")
    assert int(width) <= 390
