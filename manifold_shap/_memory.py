"""Tells a lack of memory from other errors."""

import re

import torch

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
