"""Writes the figures of the campaign into the page of the docs: `python -m tests.hostile.page`."""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FIGURES = Path(__file__).with_name("interruptions.json")
PAGE = ROOT / "docs" / "hardening.md"
BEGIN, END = "<!-- figures of interruptions -->\n", "<!-- end of figures -->\n"
_NAMES = {
    "train": "`train.py`",
    "explain": "`explain.py`",
    "stream": "`explain_rows`",
    "dask": "`explain_rows` on Dask",
}


def figures(found: dict[str, Any]) -> str:
    """The tables, in Markdown."""
    parts = [_kills(found["kills"]), _steps(found["steps"]), _twos(found["twos"])]
    checked = found["hazards"]["table"]
    right = sum(row["same"] for row in checked)
    named = ", ".join(row["what"] for row in checked)
    parts.append(f"Of {len(checked)} other hazards, {right} end as they should: {named}.")
    minutes = found["cpu_seconds"] / 60
    parts.append(f"All of it takes {minutes:.0f} minutes of one processor.")
    return "\n\n".join(parts) + "\n"


def _kills(found: dict[str, Any]) -> str:
    rows = [
        (
            _NAMES[row["what"]] + (", a worker" if row["victim"] == "worker" else ""),
            row["moments"],
            row["fresh"],
            row["in_mid_work"],
            _seconds(row["largest_seconds_to_end"]),
            row["same"],
        )
        for row in found["table"]
    ]
    sums = [sum(int(row[k]) for row in rows) for k in (1, 2, 3, 5)]
    rows.append(("all", *sums[:3], "", sums[3]))
    head = (
        "killed",
        "moments",
        "in fresh processes",
        "before the end",
        "computed s to the end, at most",
        "same bytes after a rerun",
    )
    return _table(head, rows)


def _steps(found: dict[str, Any]) -> str:
    how = {"killed": "killed there", "full": "no space from there on"}
    rows = [
        (_NAMES[row["what"]], how[row["how"]], row["steps"], row["tried"], row["same"])
        for row in found["table"]
    ]
    head = ("run", "stopped at a step on the disk", "steps", "tried", "same bytes after a rerun")
    return _table(head, rows)


def _twos(found: dict[str, Any]) -> str:
    rows = [(row["what"], row["tried"], row["same"]) for row in found["table"]]
    return _table(("two at once", "tried", "one wins, the other is told or waits"), rows)


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.2f}"


def _table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def with_figures(text: str, found: dict[str, Any]) -> str:
    """A page with other figures between its marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{figures(found)}\n{END}{after}"


def main() -> None:
    PAGE.write_text(with_figures(PAGE.read_text(), json.loads(FIGURES.read_text())))


if __name__ == "__main__":
    main()
