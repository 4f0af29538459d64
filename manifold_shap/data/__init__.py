"""Data sets: functions in one registry, and what splits and encodes the rows that they have."""

import lazy_loader

# Imported when they are first asked for: a file of one's own is read and checked without torch.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
