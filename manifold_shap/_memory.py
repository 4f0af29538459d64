"""Keeps memory that is used again, and tells a lack of it from other errors."""

import ctypes
import re
import sys

import torch

# Parameters of glibc's `mallopt`, and the largest threshold that it takes.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _LARGEST = -1, -3, 2**25


def keep_freed() -> None:
    """Let the process keep memory that it frees, up to 64 MB, for what it allocates next.

    glibc hands blocks of 128 KB and more back to the system when they are freed, and the system
    clears each page of the next one: a fifth of the time of an explanation. It learns to keep them
    when large blocks were freed, but late, and never in workers of Dask, which set a threshold.
    Trainings on rows beyond memory do without: what they keep would grow with the rows.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:  # It is no part of musl.
            mallopt(_MMAP_THRESHOLD, _LARGEST)
            mallopt(_TRIM_THRESHOLD, 2 * _LARGEST)


# What libraries say of it in errors that have no type of their own.
_SAID = re.compile(r"t allocate|out of memory|not enough memory|ALLOC_FAILED", re.IGNORECASE)


def lacks_memory(error: BaseException) -> bool:
    """Whether an error says that a device, or the machine, has no memory left.

    >>> lacks_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory"))
    True
    >>> lacks_memory(RuntimeError("mat1 and mat2 must have the same dtype"))
    False
    """
    known = isinstance(error, torch.OutOfMemoryError | MemoryError)
    return known or bool(_SAID.search(str(error)))
