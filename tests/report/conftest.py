"""Pages, and a browser to look at them."""

from collections.abc import Iterator

import pytest

from tests.report.chromium import Browser, browser, installed


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A headless browser; nothing is downloaded."""
    program = installed()
    if program is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    with browser(program, tmp_path_factory.mktemp("chromium")) as found:
        yield found
