"""Tables: the cells of a frame as codes, and how they are encoded as rows of numbers."""

import lazy_loader

# pandas is slow to import, and only frames need it.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
