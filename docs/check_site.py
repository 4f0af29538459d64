"""Checks links within the built site: `python docs/check_site.py build/site`."""

import sys
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The places of a page, and what it links to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, text in attributes:
            if name == "id" and text:
                self.places.add(text)
            elif name in ("href", "src") and text and tag != "link":
                self.links.append(text)


def read(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


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
    """0 where all links lead somewhere."""
    site = Path(sys.argv[1]).resolve()
    links = broken(site, read(site))
    print("\n".join([*links, f"{len(links)} broken links in {site.name}"]))
    return min(1, len(links))


if __name__ == "__main__":
    sys.exit(main())
