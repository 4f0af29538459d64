"""Keeps memory that is used again, and tells a lack of it from other errors."""

import re

import torch

# glibc hands blocks above a threshold back to the system when they are freed, and the system clears
# each page of the next one: a fifth of the time of an explanation. The threshold begins at 128 KB
# and rises to the largest such block that was freed, 32 MB at most: here is one, of whose pages
# nobody touches any.
torch.empty(2**25 - 2**13, dtype=torch.uint8)

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
