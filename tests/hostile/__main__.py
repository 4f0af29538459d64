"""The campaign against interruptions: `python -m tests.hostile results.json`.

Kills at 200 moments, and stops at the steps on the disk, of which `--steps` are tried for each run;
two of everything at once. With `--quick` a dozen kills and few steps.
"""

import argparse
import json
import os
import time
from collections import defaultdict
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, get_args

import torch

from tests.hostile.campaign import Campaign, campaign
from tests.hostile.hazards import READ_ONLY, clock, memory, read_only
from tests.hostile.kills import killed, planned, table
from tests.hostile.steps import How, is_set_aside, steps_of, stopped
from tests.hostile.twos import PAIRS, SHARES, at_once, trainings_at_once

PARTS = ("kills", "steps", "twos", "hazards")


def say(misses: list[str], *where: object) -> bool:
    """Print misses; whether there are any."""
    for miss in misses:
        print(*where, miss, sep=": ", flush=True)  # noqa: T201
    return bool(misses)


def kills(own: Campaign, quick: bool, only: list[str]) -> dict[str, Any]:
    """Kills at moments by the clock."""
    outcomes, wrong = [], 0
    for kill in planned(quick):
        if kill.what in only:
            try:
                outcomes.append(killed(own, kill))
            except TimeoutError as error:
                raise TimeoutError(f"{kill}: {error}") from error
            wrong += say(outcomes[-1].misses, kill)
    return {"wrong": wrong, "table": table(outcomes), "outcomes": list(map(asdict, outcomes))}


def steps(own: Campaign, most: int, only: list[str]) -> dict[str, Any]:
    """Stops at steps on the disk, spread evenly, and in the middle of each replacement."""
    rows = []
    for what in (what for what in only if what != "dask"):
        taken = steps_of(own, what)
        count = len(taken)
        # And those behind a rename of what stood there before, of which there are few.
        aside = (k + 1 for k, step in enumerate(taken[:-1]) if is_set_aside(step))
        tried = sorted({k * (count - 1) // max(1, most - 1) for k in range(most)} | {*aside})
        for how in get_args(How):
            wrong = [say(stopped(own, what, step, how), what, how, step) for step in tried]
            row = {"what": what, "how": how, "steps": count, "tried": len(tried)}
            rows.append({**row, "same": len(tried) - sum(wrong)})
    return {"wrong": sum(row["tried"] - row["same"] for row in rows), "table": rows}


def twos(own: Campaign, quick: bool) -> dict[str, Any]:
    """Two of everything at once."""
    wrong, tried = defaultdict[str, int](int), defaultdict[str, int](int)
    for share in SHARES[1:2] if quick else SHARES:
        for name in PAIRS:
            tried[name] += 1
            wrong[name] += say(at_once(own, name, share), name, share)
        name = "fit_surrogate and fit_surrogate"
        tried[name] += 1
        wrong[name] += say(trainings_at_once(own, share), name, share)
    rows = [
        {"what": name, "tried": tried[name], "same": tried[name] - wrong[name]} for name in tried
    ]
    return {"wrong": sum(wrong.values()), "table": rows}


def hazards(own: Campaign) -> dict[str, Any]:
    """Folders that are read-only, clocks that jump, and no memory left."""
    cases = {f"read-only: {name}": partial(read_only, own, name) for name in READ_ONLY}
    cases |= {
        f"clock: {what}": partial(clock, own, what) for what in ("train", "explain", "stream")
    }
    cases["memory"] = partial(memory, own)
    rows = [{"what": name, "same": not say(case(), name)} for name, case in cases.items()]
    return {"wrong": sum(not row["same"] for row in rows), "table": rows}


def main() -> None:
    parser = argparse.ArgumentParser("python -m tests.hostile", description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    runs = ["train", "explain", "stream", "dask"]
    parser.add_argument("--only", nargs="+", choices=runs, default=runs)
    given = parser.parse_args()
    torch.set_num_threads(1)
    began, spent, found = time.monotonic(), os.times(), dict[str, Any]()
    only = given.only[:3] if given.quick else given.only
    with campaign("dask" in only and "kills" in given.parts) as own:
        if "kills" in given.parts:
            found["kills"] = kills(own, given.quick, only)
        if "steps" in given.parts:
            found["steps"] = steps(own, given.steps, only)
        if "twos" in given.parts:
            found["twos"] = twos(own, given.quick)
        if "hazards" in given.parts:
            found["hazards"] = hazards(own)
    used = [now - before for now, before in zip(os.times(), spent, strict=True)]
    found["seconds"], found["cpu_seconds"] = time.monotonic() - began, sum(used[:4])
    given.results.write_text(json.dumps(found, indent=1) + "\n")
    # Threads of others would wait for what is gone.
    os._exit(any(part["wrong"] for part in found.values() if isinstance(part, dict)))


if __name__ == "__main__":
    main()
