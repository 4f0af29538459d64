"""Writes the number of inputs into the page on hardening: `python -m tests.hostile.counts`."""

from pathlib import Path

from tests.hostile.inputs import odd
from tests.hostile.inputs.all import KINDS

PAGE = Path(__file__).parents[2] / "docs" / "hardening.md"
BEGIN, END = "<!-- inputs: made by tests/hostile/counts.py -->\n", "<!-- end of inputs -->\n"


def figures() -> str:
    """How many inputs there are of each kind, as a table."""
    lines = ["| hostile in | inputs | of these by `make test` |", "|---|---|---|"]
    for kind, inputs in KINDS.items():
        lines.append(f"| {kind} | {len(inputs)} | {sum(not each.slow for each in inputs)} |")
    every = [each for inputs in KINDS.values() for each in inputs]
    quick = sum(not each.slow for each in every)
    lines.append(f"| **all** | **{len(every)}** | **{quick}** |")
    lines.append(f"| odd and sound: the numbers of the plain input | {len(odd.INPUTS)} | all |")
    return "\n".join(lines) + "\n"


def written(page: str) -> str:
    """The page with the figures of today."""
    before, rest = page.split(BEGIN)
    return before + BEGIN + figures() + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
