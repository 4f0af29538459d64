"""Runs in directories of their own: prepared, started, and compared with those undisturbed."""

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

from manifold_shap.explanation import Explanation
from manifold_shap.io import streaming
from tests.hostile import cluster
from tests.hostile.processes import Child, forked, started
from tests.hostile.workloads import Workload, contents, explain, train, with_dask, workloads

# Imported here, as it comes with zarr when it is asked for: what is forked has it.
assert streaming


class Campaign:
    """Runs in directories below a place.

    Args:
        place: an empty directory.
        address: of a cluster of Dask, for runs on it.
    """

    def __init__(self, place: Path, address: str | None = None) -> None:
        self.place, self.number = place, 0
        self.runs = workloads(place / "trained")
        if address is not None:
            stream = self.runs["stream"]
            self.runs["dask"] = Workload(
                stream.prepare,
                partial(with_dask, address),
                lambda place, again: [*stream.words(place, again), f"on={address}"],
            )
        self._wholes: dict[tuple[str, bool], tuple[float, dict[str, str]]] = {}

    def begin(self) -> None:
        """Train what is explained, here, so that all is imported and read when processes fork."""
        place, earlier = self.place / "trained", "instances=[7,8]"
        train(place)
        # Zarr starts threads, which a fork does not have.
        with patch.object(Explanation, "save", lambda *_: None):
            explain(place, False, earlier)
        child = forked(lambda: explain(place, False, earlier), self.place / "begin.said")
        assert child.wait() == 0, child.said.read_text()
        assert not [each for each in threading.enumerate() if "zarr" in each.name]

    def whole(self, what: str, fresh: bool = False) -> tuple[float, dict[str, str]]:
        """How long a run takes that nothing disturbs, and what it ends with."""
        if (what, fresh) not in self._wholes:
            seconds, found = [], []
            for _ in range(2):
                place = self.prepared(what)
                child = self.start(what, place, fresh)
                assert child.wait() == 0, child.said.read_text()
                seconds.append(time.monotonic() - child.began)
                found.append(contents(place))
            assert found[0] == found[1], "two runs that nothing disturbs differ"
            self._wholes[what, fresh] = min(seconds), found[0]
        return self._wholes[what, fresh]

    def prepared(self, what: str) -> Path:
        """A new directory with all that a run needs."""
        self.number += 1
        place = self.place / f"{self.number}"
        self.runs[what].prepare(place)
        return place

    def start(self, what: str, place: Path, fresh: bool = False, again: bool = False) -> Child:
        """Start a run, as a user would who knows whether it is for the first time."""
        run, said = self.runs[what], self.place / f"{place.name}{'.again' * again}.said"
        if fresh:
            return started(run.words(place, again), said)
        return forked(partial(run.run, place, again), said)

    def misses_in_the_end(self, what: str, place: Path, again: bool = True) -> list[str]:
        """Run again, if so, and say in what the results differ from those undisturbed."""
        misses = []
        if again:
            child = self.start(what, place, again=True)
            if failed := child.wait():
                misses.append(f"again: exit status {failed}: {child.said.read_text()[-800:]}")
        return misses + differences(self.whole(what)[1], contents(place))


def unreadable(place: Path, before: dict[str, str]) -> list[str]:
    """Stores of explanations that stood there before and that can no longer be read."""
    misses = []
    for store in sorted(
        {f"{path.partition('.zarr/')[0]}.zarr" for path in before if ".zarr/" in path}
    ):
        try:
            Explanation.load(place / store)
        except (OSError, ValueError) as error:
            misses.append(f"an earlier explanation: {error}")
    return misses


def differences(expected: dict[str, str], found: dict[str, str]) -> list[str]:
    """Paths that are missing, too many or others than expected."""
    said = {(True, False): "missing", (False, True): "too many", (True, True): "differs"}
    return [
        f"{said[path in expected, path in found]}: {path}"
        for path in sorted(expected.keys() | found.keys())
        if expected.get(path) != found.get(path)
    ]


@contextmanager
def campaign(with_cluster: bool) -> Iterator[Campaign]:
    """A campaign in a temporary directory, which has begun."""
    with tempfile.TemporaryDirectory(prefix="hostile") as name:
        place = Path(name).resolve()
        with cluster.on_loopback(place / "cluster.json", none=not with_cluster) as address:
            own = Campaign(place, address)
            own.begin()
            yield own
