"""Times the message about a table of 100,000 rows and 30 columns with every kind of trouble.

    python -m benchmarks.speed.troubles

writes the file, calls `train.py` on it, and prints what that says and how long it took.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROWS = 100_000


def write(path: Path, rows: int = ROWS, seed: int = 0) -> None:
    """A file of semicolons and decimal commas in which nearly every column has its own trouble."""
    rng = np.random.default_rng(seed)
    number = rng.integers(0, 10_000, rows)
    day, month = rng.integers(1, 29, rows), rng.integers(1, 13, rows)
    zone = np.where(number % 2, "+01:00", "+02:00")

    def some(every: int, usual: np.ndarray, odd: str) -> np.ndarray:
        return np.where(np.arange(rows) % every == every - 1, odd, usual.astype(str))

    def decimal(scale: float) -> np.ndarray:
        return np.char.replace(np.char.mod("%.3f", rng.normal(size=rows) * scale), ".", ",")

    iso = [f"{2000 + y % 24}-{m:02d}-{d:02d}" for y, m, d in zip(number, month, day, strict=True)]
    short = [f"{d % 12 + 1}/{m}/2021" for d, m in zip(day, month, strict=True)]
    long = [f"{d}/{m}/2021" for d, m in zip(day, month, strict=True)]
    columns = {
        "id": np.arange(rows),
        "code": [f"c{i}-{n}" for i, n in enumerate(number)],
        "price": decimal(100),
        "size": some(50, decimal(3), "NA"),
        "weight": some(997, decimal(3), "heavy"),
        "length": some(991, decimal(3), "1.25"),
        "mixed": some(3, number, "text") if rows else number,
        "signal": some(1009, decimal(1), "inf"),
        "day": iso,
        "either": short,
        "ordered": long,
        "forms": np.where(number % 3 == 0, iso, long),
        "stamp": [f"{date}T10:{d:02d}:00{z}" for date, d, z in zip(iso, day, zone, strict=True)],
        "unzoned": [
            f"{date} 10:00{'' if d % 2 else 'Z'}" for date, d in zip(iso, day, strict=True)
        ],
        "list": [f"[{n}, {d}]" for n, d in zip(number, day, strict=True)],
        "city": [f"city {n}" for n in rng.permutation(np.arange(rows) % 50_000)],
        "always": np.full(rows, "x"),
        "nothing": np.full(rows, ""),
        "name": np.where(number % 5 == 0, "José", "Zoë"),
        "twice": number % 7,
        "rare": some(20_011, number % 4, "9"),
        "flag": np.where(number % 2, "true", "false"),
        "gap": some(4, number % 10, ""),
        **{f"plain {k}": decimal(1) for k in range(4)},
        "class": [f"k{n % 400}" for n in number],
        "label": some(100, np.where(number % 3, "yes", "no"), ""),
    }
    names = [*columns, "twice"]
    cells = [*map(list, columns.values()), list(number % 11)]
    lines = [";".join(map(str, row)).encode() for row in zip(*cells, strict=True)]
    for ragged in (rows // 10, rows // 2):
        lines[ragged] += b";too;many"
    for foreign in (rows // 5, rows // 3):
        lines[foreign] = lines[foreign].decode().encode("latin-1")
    path.write_bytes(b"\n".join([";".join(names).encode(), *lines]))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "troubles.csv"
        write(path)
        words = ["data=table", f"data.path={path}", "data.target=class", f"runs_dir={folder}/runs"]
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "train.py", *words], capture_output=True, text=True, check=False
        )
        seconds = time.perf_counter() - start
        print(done.stdout, done.stderr, sep="\n")
        print(f"{path.stat().st_size / 1e6:.1f} MB, exit status {done.returncode}, {seconds:.2f} s")


if __name__ == "__main__":
    main()
