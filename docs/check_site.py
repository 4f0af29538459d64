"""Checks links within the built site, and its figures: `python docs/check_site.py build/site`."""

import re
import sys
from collections import Counter
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Of an example; its thumbnail is elsewhere.
_FIGURE = re.compile(r"sphx_glr_plot_\w+_\d{3}\.png$")


class Page(HTMLParser):
    """The places of a page, what it links to, and how many figures have which ground."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.links: list[str] = []
        self.grounds: Counter[str] = Counter()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, text in attributes:
            if name == "class" and text:
                self.grounds.update(set(text.split()) & {"only-light", "only-dark"})
            if name == "id" and text:
                self.places.add(text)
            elif name in ("href", "src") and text and tag != "link":
                self.links.append(text)


def read(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def on_wrong_ground(site: Path, pages: Mapping[Path, Page]) -> list[str]:
    """Examples whose figures are not there once for light pages and once for dark ones."""
    return [
        f"{path.relative_to(site)}: {dict(page.grounds)} with figures"
        for path, page in sorted(pages.items())
        if any(_FIGURE.search(link) for link in page.links)
        and not 0 < page.grounds["only-light"] == page.grounds["only-dark"]
    ]


def broken(site: Path, pages: Mapping[Path, Page]) -> list[str]:
    """Links to a file or a place that is not there, each with its page."""
    found = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link == "#":
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            place = unquote(parts.fragment)
            known = pages[there].places if there in pages else set()
            if not there.exists() or (place and there in pages and place not in known):
                found.append(f"{path.relative_to(site)}: {link}")
    return sorted(set(found))


def main() -> int:
    """0 where all links lead somewhere, and figures suit their pages."""
    site = Path(sys.argv[1]).resolve()
    pages = read(site)
    links, figures = broken(site, pages), on_wrong_ground(site, pages)
    print("\n".join([*links, *figures, f"{len(links)} broken links in {site.name}"]))
    return min(1, len(links) + len(figures))


if __name__ == "__main__":
    sys.exit(main())
