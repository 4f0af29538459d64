"""The page in a real browser: drawn, chosen from, and safe from what others wrote."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import manifold_shap as ms
from tests.plots import helpers
from tests.report.chromium import Browser
from tests.report.test_report import HOSTILE, rows, series, texts

pytestmark = pytest.mark.slow

# What is wrong for those who do not see the page, or use no mouse.
FAULTS = """
(() => {
  const found = [], all = (query) => [...document.querySelectorAll(query)];
  const seen = (query) => all(query).filter((each) => each.checkVisibility());
  const start = (element) => element.outerHTML.slice(0, 80);
  const scrolls = (style) => ["auto", "scroll"].includes(style.overflowX);
  const ids = all("[id]").map((each) => each.id).filter((id) => !id.startsWith("clip"));
  if (new Set(ids).size < ids.length) found.push("an id occurs twice");
  if (document.documentElement.lang !== "en") found.push("no language");
  if (!document.title.trim()) found.push("no title");
  for (const mark of ["header", "nav", "main", "footer", "h1"])
    if (all(mark).length !== 1) found.push(`${all(mark).length} of ${mark}`);
  let level = 0;
  for (const head of seen("h1, h2, h3, h4, h5, h6")) {
    const own = Number(head.tagName[1]);
    if (own > level + 1) found.push(`heading ${head.textContent} skips a level`);
    if (!head.textContent.trim()) found.push("an empty heading");
    level = own;
  }
  for (const image of seen("img"))
    if (!image.alt.trim()) found.push(`no alt text: ${start(image)}`);
  for (const part of all("svg").filter((each) => !each.closest("[role=img]")))
    if (part.getAttribute("aria-hidden") !== "true") found.push("a drawing without a name");
  for (const control of all("input, select, button, [role=region], section, nav, [role=img]")) {
    const by = control.getAttribute("aria-labelledby");
    const name = control.getAttribute("aria-label")
      || (by && document.getElementById(by)?.textContent)
      || [...(control.labels ?? [])].map((each) => each.textContent).join("")
      || (control.tagName === "BUTTON" && control.textContent);
    if (!name || !name.trim()) found.push(`no name: ${start(control)}`);
  }
  for (const control of seen("input, select, button")) {
    const box = control.getBoundingClientRect();
    if (box.width < 24 || box.height < 24) found.push(`too small to touch: ${start(control)}`);
    if (control.tabIndex < 0) found.push("not reached by keyboard");
  }
  for (const link of all("a[href^='#']"))
    if (!document.getElementById(link.hash.slice(1))) found.push(`a dead link: ${link.hash}`);
  for (const table of all("table")) {
    if (!table.caption?.textContent.trim()) found.push("a table without a caption");
    if ([...table.querySelectorAll("th")].some((head) => !head.scope)) found.push("no scope");
  }
  for (const each of all("*")) {
    const more = each.scrollWidth > each.clientWidth + 1 && scrolls(getComputedStyle(each));
    if (more && each.tabIndex < 0) found.push(`scrolled by no key: ${start(each)}`);
  }
  // On a phone `innerWidth` grows with what is in the page.
  const { scrollWidth, clientWidth } = document.documentElement;
  if (scrollWidth > clientWidth) found.push("wider than the screen");
  return found;
})()
"""

KINDS = ("table", "pictures", "text", "series", "compositions", "many classes", "hostile")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    found = {kind: folder / f"{kind}.html" for kind in KINDS}
    x = torch.randn(12, 4, generator=torch.Generator().manual_seed(0))
    interactions = ms.shapley_interactions(
        lambda x, mask: torch.where(mask, x[:, None], 0.0).prod(-1, keepdim=True) + mask[..., :1], x
    )
    interactions.shapley.report(found["table"], interactions=interactions)
    helpers.digits().report(found["pictures"])
    explanation, tokens = texts()
    explanation.report(found["text"], tokens=tokens)
    waves = series(channels=3, time=200, length=20)
    names = ("pressure in the left chamber", "flow", HOSTILE)
    waves.report(found["series"], series={n: waves.x[:, k] for k, n in enumerate(names)})
    helpers.composed(5, 4, rows=3).report(found["compositions"])
    rows(30, players=20, outputs=40).report(found["many classes"])
    names = (f"{HOSTILE} a", f"{HOSTILE} b", f"{HOSTILE} c")
    hostile = helpers.composed(3, names, names=names)
    replace(hostile, instances=(HOSTILE, "two")).report(found["hostile"], title=HOSTILE)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_is_drawn_without_trouble(
    chromium: Browser, pages: dict[str, Path], kind: str
) -> None:
    for width in (1280, 390):
        chromium.open(pages[kind], width=width)
        assert chromium.trouble == []
        assert chromium.run("document.getElementById('steps').tBodies[0].rows.length") > 2
        assert chromium.run(FAULTS) == []


def test_rows_and_outputs_are_chosen(chromium: Browser, pages: dict[str, Path]) -> None:
    chromium.open(pages["many classes"])
    chosen = "document.getElementById('chosen').textContent"
    assert chromium.run(chosen) == "Row 0"
    shown = "[...document.getElementById('steps').tBodies[0].rows].map((row) => row.textContent)"
    before = chromium.run(shown)
    chromium.run("document.querySelector('tr[data-row=\"7\"] td').click()")
    assert chromium.run(chosen) == "Row 7"
    assert chromium.run(shown) != before
    chromium.open(pages["pictures"])
    source = "document.getElementById('map').src"
    before = chromium.run(source)
    change = "e.selectedIndex = 1; e.dispatchEvent(new Event('change', { bubbles: true }))"
    chromium.run(f"(() => {{ const e = document.getElementById('row-output'); {change} }})()")
    assert chromium.run(source) != before
    chromium.run(f"(() => {{ const e = document.getElementById('output'); {change} }})()")
    parts = "[...document.querySelectorAll('[data-output]')].map((each) => each.checkVisibility())"
    assert chromium.run(parts) == [False, True, False]


def test_curves_follow_the_row_and_the_output(chromium: Browser, pages: dict[str, Path]) -> None:
    chromium.open(pages["series"])
    lines = (
        "[...document.querySelectorAll('#curves polyline')].map((e) => e.getAttribute('points'))"
    )
    before = chromium.run(lines)
    assert len(before) == 6
    chromium.run("document.querySelector('tr[data-row=\"2\"] button').click()")
    assert chromium.run(lines) != before
    ticks = "[...document.querySelectorAll('#curves .ticks span')].map((e) => e.textContent)"
    assert chromium.run(ticks) == ["time 0", "50", "100", "150"]


def test_nothing_of_anyone_elses_runs(chromium: Browser, pages: dict[str, Path]) -> None:
    chromium.open(pages["hostile"])
    assert chromium.run("document.querySelectorAll('img[src=x]').length") == 0
    assert chromium.run("document.title").startswith("</script><script>alert(1)")
    # And if it were in the page, the policy would not let it.
    script = "Object.assign(document.createElement('script'), { textContent: 'window.ran = 1' })"
    chromium.run(f"document.body.append({script})")
    assert chromium.run("window.ran") is None
    assert any("Content Security Policy" in each for each in chromium.trouble)
