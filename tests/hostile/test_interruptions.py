"""Runs are killed, stopped, doubled and starved; see `python -m tests.hostile`."""

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.hostile import page
from tests.hostile.kills import COUNTS, WORKERS_KILLED, planned


def campaign(root: Path, place: Path, *words: str) -> dict[str, Any]:
    """The figures of a campaign, in a process of its own: what it forks has none of pytest."""
    results = place / "results.json"
    command = [sys.executable, "-m", "tests.hostile", str(results), *words]
    environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return json.loads(results.read_text())


def test_the_plan_has_200_moments_spread_over_every_run() -> None:
    kills = planned()
    assert len(kills) == len(set(kills)) == 200
    assert sum(kill.fresh for kill in kills) == 30
    assert {kill.sent for kill in kills} == {"SIGINT", "SIGTERM", "SIGKILL"}
    for what in COUNTS:
        shares = sorted(kill.share for kill in kills if kill.what == what)
        assert 0 <= shares[0] < 0.1
        assert 0.9 < shares[-1] < 1
        assert max(later - first for first, later in pairwise(shares)) < 0.2
    assert sum(kill.victim == "worker" for kill in kills) == WORKERS_KILLED


def test_what_is_killed_ends_with_the_same_bytes(root: Path, tmp_path: Path) -> None:
    found = campaign(root, tmp_path, "--quick", "--parts", "kills")["kills"]
    assert sum(row["moments"] for row in found["table"]) == 12
    statuses = {each["kill"]["sent"]: each["status"] for each in found["outcomes"]}
    assert statuses.keys() == {"SIGINT", "SIGTERM", "SIGKILL"}
    assert sum(row["in_mid_work"] for row in found["table"]) >= 6


@pytest.mark.slow
def test_the_whole_campaign(root: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    found = campaign(root, tmp_path)
    assert sum(row["moments"] for row in found["kills"]["table"]) == 200
    assert all(row["tried"] >= 3 for row in found["twos"]["table"])
    if kept := os.environ.get("HOSTILE_RESULTS"):
        del found["kills"]["outcomes"]
        Path(kept).write_text(json.dumps(found, indent=1) + "\n")


@pytest.mark.skipif(
    not page.FIGURES.exists() or "HOSTILE_RESULTS" in os.environ,
    reason="`make hostile` has not been run in full, or is about to write the page",
)
def test_the_page_has_the_figures_of_the_last_campaign() -> None:
    text = page.PAGE.read_text()
    assert text == page.with_figures(text, json.loads(page.FIGURES.read_text()))
