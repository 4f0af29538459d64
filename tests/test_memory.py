"""Memory that is freed is used again."""

import os
import subprocess
import sys

import pytest

CODE = """
import resource, torch
from manifold_shap.estimators import auto_shapley
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
torch.ones(2**20)
before = faults()
for _ in range(100):
    torch.ones(2**20)  # 4 MB, in 1024 pages
print(faults() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the allocator is that of glibc")
def test_a_fresh_process_keeps_the_memory_that_it_frees() -> None:
    """Workers of Dask start with a threshold of their own, which keeps glibc from learning."""
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env={**os.environ, "MALLOC_TRIM_THRESHOLD_": "65536"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < 30_000  # Of 102,400 pages, where each is cleared every time.
