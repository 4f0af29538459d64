"""The page in a real browser: drawn, searched, sorted, chosen, read aloud and printed."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import manifold_shap as ms
from manifold_shap.plots import style
from tests.plots import helpers
from tests.report.chromium import Browser
from tests.report.test_report import HOSTILE, rows, series

# Contrast of every text with what is behind it (WCAG 2), the least first.
CONTRAST = """
(() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const read = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => below.map((each, k) => top[3] * top[k] + (1 - top[3]) * each);
  const light = (colour) => {
    const [r, g, b] = colour.map((each) => each / 255).map(
      (each) => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    const layers = [];
    for (let each = element; each; each = each.parentElement)
      layers.push(read(getComputedStyle(each).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), element = walker.currentNode.parentElement;
    if (!text || element.closest("script, style, noscript, .hidden")) continue;
    if (!element.checkVisibility() || element.getBoundingClientRect().width < 2) continue;
    const style = getComputedStyle(element), behind = ground(element);
    const own = over(read(element.closest("svg") ? style.fill : style.color), behind);
    const [a, b] = [light(own), light(behind)].sort((x, y) => y - x);
    found.push([(a + 0.05) / (b + 0.05), text.slice(0, 60), element.tagName]);
  }
  return found.sort((x, y) => x[0] - y[0]);
})()
"""

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
DRAWN = "!document.getElementById('plotly') || document.getElementById('figure').dataset.drawn"


def see(chromium: Browser) -> None:
    """Figures are drawn when they come into view."""
    chromium.run("document.getElementById('figure')?.scrollIntoView()")
    chromium.wait(DRAWN)


def interacting() -> ms.Interactions:
    x = torch.randn(12, 4, generator=torch.Generator().manual_seed(0))
    return ms.shapley_interactions(
        lambda x, mask: torch.where(mask, x[:, None], 0.0).prod(-1, keepdim=True) + mask[..., :1], x
    )


def texts() -> tuple[ms.Explanation, list[list[str]]]:
    x = torch.tensor([[4.0, 2.0, 3.0], [2.0, 5.0, 0.0]])
    players = ms.Players.tokens(3, padding=0)
    value = ms.imputed_value(lambda x: x.sum(1, True), ms.MarginalImputer(x, players), "identity")
    return ms.exact_shapley(value, x), [["it", "is", "good"], ["is", "bad"]]


KINDS = (
    "table", "pictures", "text", "series", "one channel", "three classes", "four classes",
    "many classes", "fifty compositions", "hostile",
)  # fmt: skip


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    found = {kind: folder / f"{kind}.html" for kind in KINDS}
    interactions = interacting()
    known = {"chosen": "vae", "mse": {"marginal": 0.04, "vae": 0.01}, "rows": 500, "warning": "no"}
    table = replace(interactions.shapley, made_by={"quality": known})
    table.report(found["table"], interactions=interactions)
    helpers.digits().report(found["pictures"])
    explanation, tokens = texts()
    explanation.report(found["text"], tokens=tokens)
    waves = series(channels=3, time=200, length=20)
    names = ("pressure in the left chamber", "flow", HOSTILE)
    waves.report(found["series"], series={n: waves.x[:, k] for k, n in enumerate(names)})
    series(channels=1).report(found["one channel"])
    helpers.composed(5, 3, rows=3).report(found["three classes"])
    helpers.composed(5, 4, rows=3).report(found["four classes"])
    rows(30, players=20, outputs=40).report(found["many classes"])
    helpers.composed(5, 50, rows=3).report(found["fifty compositions"])
    names = (f"{HOSTILE} a", f"{HOSTILE} b", f"{HOSTILE} c")
    hostile = helpers.composed(3, names, names=names)
    replace(hostile, instances=(HOSTILE, "two")).report(found["hostile"], title=HOSTILE)
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_page_is_drawn_without_trouble_and_can_be_read(
    chromium: Browser, pages: dict[str, Path], kind: str, dark: bool
) -> None:
    for width in (1280, 390):
        chromium.open(pages[kind], width=width, dark=dark)
        see(chromium)
        # Drivers without a graphics card say that they are slow.
        assert not [
            each for each in chromium.trouble if "ReadPixels" not in each and "readback" not in each
        ]
        assert chromium.run("document.getElementById('steps').tBodies[0].rows.length") > 2
        assert chromium.run(FAULTS) == []
        contrast = chromium.run(CONTRAST)
        assert len(contrast) > 40
        assert contrast[0][0] >= 4.5, contrast[:5]


def test_the_audits_find_faults(chromium: Browser, pages: dict[str, Path]) -> None:
    chromium.open(pages["table"])
    assert chromium.run(CONTRAST)[0][0] >= 4.5
    chromium.run("document.querySelector('h1').style.color = '#999'")
    assert chromium.run(CONTRAST)[0][0] < 3
    chromium.run("document.querySelector('label').remove()")
    chromium.run("document.querySelector('h2').outerHTML = '<h4>x</h4>'")
    assert {"heading x skips a level"} < set(chromium.run(FAULTS))
    chromium.open(pages["table"], width=390)
    assert chromium.run(FAULTS) == []
    chromium.run("document.querySelector('h1').style.width = '500px'")
    assert chromium.run(FAULTS) == ["wider than the screen"]


def chosen(chromium: Browser) -> str:
    return chromium.run("document.getElementById('chosen').textContent")


def test_rows_are_chosen_searched_and_sorted_by_mouse(
    chromium: Browser, pages: dict[str, Path]
) -> None:
    chromium.open(pages["many classes"])
    assert chosen(chromium) == "Row 0"
    shown = "[...document.getElementById('steps').tBodies[0].rows].map((row) => row.textContent)"
    before = chromium.run(shown)
    chromium.run("document.querySelector('tr[data-row=\"7\"] td').click()")
    assert chosen(chromium) == "Row 7"
    assert chromium.run(shown) != before
    assert "Row 7 is chosen" in chromium.run("document.getElementById('status').textContent")
    # Of a click with a pointer, which goes from row to row, the table stays in view.
    chromium.run("document.activeElement.blur()")
    clicked = "new MouseEvent('click', { bubbles: true, detail: 1 })"
    chromium.run(f"document.querySelector('tr[data-row=\"5\"] td').dispatchEvent({clicked})")
    assert chosen(chromium) == "Row 5"
    assert chromium.run("document.activeElement.tagName") == "BODY"

    chromium.run("document.querySelector('[data-sort=\"0\"]').click()")
    lines = "[...document.getElementById('rows').tBodies[0].rows]"
    numbers = f"{lines}.map((row) => Number(row.dataset.numbers.split(' ')[0]))"
    up = chromium.run(numbers)
    assert up == sorted(up)
    assert chromium.run("document.querySelectorAll('[aria-sort=ascending]').length") == 1
    chromium.run("document.querySelector('[data-sort=\"0\"]').click()")
    assert chromium.run(numbers) == sorted(up, reverse=True)

    search = "document.getElementById('search')"
    chromium.run(f"{search}.value = 'x0 = 40'; {search}.dispatchEvent(new Event('input'))")
    seen = f"{lines}.filter((row) => row.checkVisibility())"
    left = f"{seen}.map((row) => row.cells[0].textContent.trim())"
    assert chromium.run(left) == ["20", "2"]
    assert chromium.run("document.getElementById('status').textContent") == "2 of 30 rows match."


def test_another_output_is_chosen(chromium: Browser, pages: dict[str, Path]) -> None:
    chromium.open(pages["pictures"])
    source = "document.getElementById('map').src"
    before = chromium.run(source)
    change = "e.selectedIndex = 1; e.dispatchEvent(new Event('change', { bubbles: true }))"
    chromium.run(f"(() => {{ const e = document.getElementById('row-output'); {change} }})()")
    assert chromium.run(source) != before
    chromium.run(f"(() => {{ const e = document.getElementById('output'); {change} }})()")
    parts = "[...document.querySelectorAll('[data-output]')].map((each) => each.checkVisibility())"
    assert chromium.run(parts) == [False, True, False]


def test_the_scale_of_words_ends_in_the_colours_of_the_strongest(
    chromium: Browser, tmp_path: Path
) -> None:
    explanation, tokens = texts()
    phi = torch.tensor([1.0, -1.0, 0.5]).reshape(1, 3, 1).repeat(2, 1, 1)
    replace(explanation, phi=phi).report(tmp_path / "text.html", tokens=tokens)
    chromium.open(tmp_path / "text.html")
    words = "[...document.querySelectorAll('#passage span')]"
    colours = chromium.run(f"{words}.map((each) => getComputedStyle(each).backgroundColor)")
    scale = "getComputedStyle(document.querySelector('.ramp.words')).backgroundImage"
    high, low, half = colours
    assert chromium.run(scale) == f"linear-gradient(90deg, {low}, rgba(0, 0, 0, 0), {high})"
    assert len({high, low, half}) == 3


def test_a_single_further_channel_is_singular(chromium: Browser, tmp_path: Path) -> None:
    for channels, said in ((9, "1 further channel has"), (10, "2 further channels have")):
        series(channels=channels).report(tmp_path / "series.html")
        chromium.open(tmp_path / "series.html")
        text = chromium.run("document.getElementById('other-channels').textContent")
        assert text == f"{said} smaller values."


def test_curves_follow_the_row_and_the_output(chromium: Browser, pages: dict[str, Path]) -> None:
    chromium.open(pages["series"])
    lines = (
        "[...document.querySelectorAll('#curves polyline')].map((e) => e.getAttribute('points'))"
    )
    source = "document.getElementById('map').src"
    names = "document.querySelector('#curves .channels').textContent"
    before, colours = chromium.run(lines), chromium.run(source)
    assert len(before) == 6
    assert "pressure in the left chamber" in chromium.run(names)
    assert "</script><script>al" in chromium.run(names)
    chromium.run("document.querySelector('tr[data-row=\"2\"] button').click()")
    assert chromium.run(lines) != before
    assert chromium.run(source) != colours
    colours = chromium.run(source)
    change = "e.selectedIndex = 1; e.dispatchEvent(new Event('change', { bubbles: true }))"
    chromium.run(f"(() => {{ const e = document.getElementById('row-output'); {change} }})()")
    assert chromium.run(source) != colours
    ticks = "[...document.querySelectorAll('#curves .ticks span')].map((e) => e.textContent)"
    assert chromium.run(ticks) == ["time 0", "50", "100", "150"]
    high = "document.querySelector('#curves .drawn').getBoundingClientRect().height"
    assert chromium.run(high) > 200
    assert chromium.run("document.getElementById('map').naturalWidth") == 200


@pytest.mark.parametrize("kind", KINDS)
def test_everything_is_reached_by_keyboard(
    chromium: Browser, pages: dict[str, Path], kind: str
) -> None:
    chromium.open(pages[kind])
    see(chromium)
    wanted = chromium.run(
        "[...document.querySelectorAll('a, input, select, button, [tabindex=\"0\"]')]"
        ".filter((each) => each.checkVisibility()).length"
    )
    seen = set()
    for _ in range(wanted):
        chromium.press("Tab", 9)
        place = "[...document.querySelectorAll('*')].indexOf(document.activeElement)"
        seen.add(chromium.run(place))
        style = chromium.run("getComputedStyle(document.activeElement).outlineStyle")
        assert style != "none"
    assert len(seen) == wanted


def test_rows_are_chosen_and_searched_by_keyboard(
    chromium: Browser, pages: dict[str, Path]
) -> None:
    chromium.open(pages["table"])
    chromium.run("document.getElementById('search').focus()")
    chromium.write("x0 =")
    assert chromium.run("document.getElementById('status').textContent") == "12 of 12 rows match."
    chromium.run("document.querySelector('tr[data-row=\"3\"] button').focus()")
    chromium.press("Enter", 13, "\r")
    assert chosen(chromium) == "Row 3"
    # Who reads on is at the row's values, not before the buttons of all other rows.
    focus = "document.activeElement"
    assert chromium.run(f"{focus}.id") == "chosen"
    top = f"{focus}.getBoundingClientRect().top"
    chromium.wait(f"{top} >= 0 && {top} < innerHeight / 2")
    chromium.press("Tab", 9)
    assert chromium.run(f"{focus}.textContent") == "Back to the table of rows"
    chromium.press("Enter", 13, "\r")
    assert chromium.run(f"{focus}.closest('tr').dataset.row") == "3"
    search = "document.getElementById('search')"
    chromium.run(f"{search}.value = 'nowhere'; {search}.dispatchEvent(new Event('input'))")
    chromium.run("document.getElementById('back').click()")
    assert chromium.run(f"{focus}.id") == "search"


def test_a_page_that_opens_takes_no_focus(chromium: Browser, pages: dict[str, Path]) -> None:
    chromium.open(pages["table"])
    assert chromium.run("document.activeElement.tagName") == "BODY"
    assert chromium.run("scrollY") == 0


def test_numbers_are_said_as_in_the_table_above(chromium: Browser, tmp_path: Path) -> None:
    """Whatever their size: the script of the page words no number."""
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    found = ms.shapley_interactions(
        lambda x, mask: 1e-10 * torch.where(mask, x[:, None], 0.0).sum(-1, keepdim=True).square(), x
    )
    found.shapley.report(tmp_path / "small.html", interactions=found)
    chromium.open(tmp_path / "small.html")
    lines = "[...document.querySelectorAll('#steps tbody tr:not(.end) .number:nth-of-type(2)')]"
    below = chromium.run(f"{lines}.map((each) => each.textContent)")
    phi = found.shapley.phi[0, :, 0].double()
    order = phi.abs().argsort(descending=True)
    assert below == style.signed(phi[order].tolist())
    above = "[...document.querySelectorAll('tr[data-row=\"0\"] .part > span')]"
    assert chromium.run(f"{above}.map((each) => each.textContent)")[0] == below[0]
    assert re.fullmatch(r"[+−]\d\.\d\de−\d\d", below[0])
    pairs = "[...document.querySelectorAll('#pairs tbody .number')].map((each) => each.textContent)"
    first, error = chromium.run(pairs)[:2]
    assert re.fullmatch(r"[+−]\d\.\d\de−\d\d", first)
    assert error == "exact"


@pytest.fixture(scope="module")
def long_text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two texts of thirty words, of which "mango" comes last and has the largest value."""
    path = tmp_path_factory.mktemp("text") / "text.html"
    words = [[f"word{k}" for k in range(29)] + ["mango"], ["zebra", *(["so"] * 29)], ["apple"] * 30]
    phi = torch.linspace(0.01, 0.3, 30).reshape(1, 30, 1) * torch.tensor([3.0, 1, 2])[:, None, None]
    x = torch.ones(3, 30)
    players = ms.Players.tokens(30, padding=0)
    explanation = helpers.explained(x, players, ("a",), ms.Identity(), owners=players.owners(x))
    replace(explanation, phi=phi, prediction=explanation.base + phi.sum(1)).report(
        path, tokens=words
    )
    return path


def test_values_of_all_words_are_reached_by_keyboard(chromium: Browser, long_text: Path) -> None:
    chromium.open(long_text)
    lines = "[...document.querySelectorAll('#steps tbody tr:not(.end)')]"
    names = f"{lines}.map((each) => each.cells[0].textContent)"
    assert chromium.run(names)[-1] == "18 other features"
    assert len(chromium.run(names)) == 13
    every = "document.getElementById('every')"
    assert chromium.run(f"{every}.textContent") == "Show all 30 features"
    chromium.run(f"{every}.focus()")
    chromium.press("Enter", 13, "\r")
    shown = chromium.run(names)
    assert len(shown) == 30
    assert sum("word0" in each for each in shown) == 1
    numbers = chromium.run(f"{lines}.map((each) => each.cells[2].textContent)")
    values = [0.03 * (30 - k) for k in range(30)]
    assert numbers == style.signed(values)
    assert chromium.run("document.activeElement.id") == "every"
    # The next row is shown as wholly.
    chromium.run("document.querySelector('tr[data-row=\"1\"] button').click()")
    assert len(chromium.run(names)) == 30
    chromium.run(f"{every}.click()")
    assert len(chromium.run(names)) == 13
    assert chromium.run(FAULTS) == []


def test_texts_are_sorted_by_their_words(chromium: Browser, long_text: Path) -> None:
    chromium.open(long_text)
    button = "document.querySelector('#rows thead th:last-child button')"
    first = "[...document.querySelectorAll('#rows tbody tr')].map((row) => row.dataset.row)"
    chromium.run(f"{button}.click()")
    assert chromium.run(first) == ["2", "0", "1"]  # apple, word0, zebra
    said = chromium.run("document.getElementById('status').textContent")
    assert said == "Sorted by Text, the smallest first."
    chromium.run(f"{button}.click()")
    assert chromium.run(first) == ["1", "0", "2"]


def test_negative_numbers_are_found_by_what_is_on_a_keyboard(
    chromium: Browser, tmp_path: Path
) -> None:
    x = torch.tensor([[-1.3, 2.0], [1.3, -4.0], [5.0, 6.0]])
    explanation = helpers.explained(x, ms.Players.of_elements((2,)), ("a",), ms.Identity())
    replace(explanation, phi=explanation.phi.abs(), instances=("a–b", "c", "d")).report(
        tmp_path / "page.html"
    )
    chromium.open(tmp_path / "page.html")
    search = "document.getElementById('search')"
    seen = (
        "[...document.querySelectorAll('#rows tbody tr')].filter((row) => !row.hidden)"
        ".map((row) => row.dataset.row)"
    )
    for text, found in (
        ("= -1.3", ["0"]), ("= −1.3", ["0"]), ("= -", ["0", "1"]), ("A-B", ["0"]),
        (" x1 = 6 ", ["2"]), ("-7", []),
    ):  # fmt: skip
        chromium.run(f"{search}.value = {text!r}; {search}.dispatchEvent(new Event('input'))")
        assert chromium.run(seen) == found, text


@pytest.mark.parametrize("kind", ["three classes", "four classes"])
def test_figures_of_compositions_follow_the_row_and_turn(
    chromium: Browser, pages: dict[str, Path], kind: str
) -> None:
    chromium.open(pages[kind])
    see(chromium)
    assert chromium.run("document.querySelectorAll('#figure .main-svg').length") > 0
    chromium.run("document.querySelector('tr[data-row=\"2\"] button').click()")
    chromium.wait("document.getElementById('figure').dataset.drawn === '2'")
    assert "row 2" in chromium.run("document.getElementById('figure-says').textContent")
    if kind == "four classes":
        eye = "document.getElementById('figure')._fullLayout.scene.camera.eye.x"
        before = chromium.run(eye)
        chromium.run("document.querySelector('[data-turn]').click()")
        chromium.wait(f"{eye} !== {before}")


def test_nothing_of_anyone_elses_runs(chromium: Browser, pages: dict[str, Path]) -> None:
    chromium.open(pages["hostile"])
    see(chromium)
    assert chromium.run("document.querySelectorAll('img[src=x]').length") == 0
    assert chromium.run("document.title").startswith("</script><script>alert(1)")
    # And if it were in the page, the policy would not let it.
    script = "Object.assign(document.createElement('script'), { textContent: 'window.ran = 1' })"
    chromium.run(f"document.body.append({script})")
    assert chromium.run("window.ran") is None
    assert any("Content Security Policy" in each for each in chromium.trouble)


@pytest.fixture(scope="module")
def largest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages of as much as a page can hold."""
    folder = tmp_path_factory.mktemp("largest")
    found = {kind: folder / f"{kind}.html" for kind in ("four classes", "table")}
    helpers.composed(12, 4, rows=150).report(found["four classes"])
    rows(400, players=40, outputs=10).report(found["table"])
    return found


@pytest.mark.parametrize("kind", ["four classes", "table"])
def test_a_page_opens_soon(chromium: Browser, largest: dict[str, Path], kind: str) -> None:
    """The first row's values stand there within a second, before the figures are drawn."""
    assert largest[kind].stat().st_size > 2_500_000
    milliseconds = min(_opened(chromium, largest[kind]) for _ in range(3))
    assert 0 < milliseconds < 1000
    assert chromium.run("document.getElementById('steps').tBodies[0].rows.length") > 10
    assert chromium.run("typeof Plotly") == "undefined"
    see(chromium)
    assert chromium.run("typeof Plotly") == ("object" if kind == "four classes" else "undefined")


def _opened(chromium: Browser, path: Path) -> float:
    """When the page was loaded and painted, its script has run and its main thread is free."""
    chromium.open(path)
    entry = "performance.getEntriesByType('navigation')[0]"
    paint = "performance.getEntriesByName('first-contentful-paint')[0]"
    chromium.wait(f"{entry}.loadEventEnd > 0 && {paint}")
    loaded, painted = chromium.run(f"[{entry}.loadEventEnd, {paint}.startTime]")
    return max(loaded, painted)


def test_a_figure_that_nobody_has_looked_at_is_drawn_after_a_while(
    chromium: Browser, pages: dict[str, Path]
) -> None:
    """So that it is there on paper."""
    chromium.open(pages["three classes"])
    assert not chromium.run(f"Boolean({DRAWN})")
    assert "when it comes into view" in chromium.run(
        "document.getElementById('figure-says').textContent"
    )
    chromium.wait(DRAWN)
    assert chromium.run("scrollY") == 0


def test_a_page_is_printed(chromium: Browser, pages: dict[str, Path], tmp_path: Path) -> None:
    if shutil.which("pdftotext") is None:
        pytest.skip("no pdftotext is installed: apt-get install poppler-utils")
    chromium.open(pages["three classes"], dark=True)
    see(chromium)
    chromium.pdf(tmp_path / "page.pdf")
    subprocess.run(["pdftotext", tmp_path / "page.pdf", tmp_path / "page.txt"], check=True)
    text = (tmp_path / "page.txt").read_text()
    for said in ("How good the value function is", "Row 0", "Its composition", "How it was made"):
        assert said in text
    assert "Search the rows" not in text


def test_the_first_rows_of_what_was_searched_are_printed(chromium: Browser, tmp_path: Path) -> None:
    if shutil.which("pdftotext") is None:
        pytest.skip("no pdftotext is installed: apt-get install poppler-utils")
    x = torch.randn(120, 3, generator=torch.Generator().manual_seed(0))
    players = ms.Players.of_elements((3,), [f"{helpers.LONG} {k}" for k in "abc"])
    labels = [2134 + 7 * k for k in range(120)]
    explanation = helpers.explained(x, players, ("no", "surely"), instances=tuple(labels))
    explanation.report(tmp_path / "page.html")
    surely = [
        label for label, top in zip(labels, explanation.prediction.argmax(1), strict=True) if top
    ]
    assert 24 < len(surely) < 96

    def printed(search: str) -> tuple[list[int], str]:
        chromium.open(tmp_path / "page.html")
        box = "document.getElementById('search')"
        chromium.run(f"{box}.value = '{search}'; {box}.dispatchEvent(new Event('input'))")
        chromium.pdf(tmp_path / "page.pdf")
        subprocess.run(
            ["pdftotext", "-layout", tmp_path / "page.pdf", tmp_path / "page.txt"], check=True
        )
        text = (tmp_path / "page.txt").read_text()
        table = text[text.index("One row") : text.index("How to read")]
        # A label that is broken in the middle of its number is none of them.
        return [int(each) for each in re.findall(r"^[ \f]*(\d{4})\b", table, re.MULTILINE)], text

    found, text = printed("")
    assert found == labels[:12]
    assert "The first 12 rows of the list are printed." in text
    found, text = printed("surely")
    assert found == surely[:12]
    assert "The first 12 rows of the list are printed." in text
    found, text = printed(str(labels[77]))
    assert found == [labels[77]]
    assert "rows of the list are printed" not in text
