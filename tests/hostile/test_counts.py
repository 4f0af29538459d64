"""The figures of the page on hardening are those of the tables."""

from tests.hostile.counts import PAGE, written


def test_the_figures_are_those_of_today() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == written(page), "python -m tests.hostile.counts writes them"
