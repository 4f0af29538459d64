"""Tables: the columns of a frame, and how they are encoded as rows of numbers."""

from manifold_shap.tables.schema import Column, Schema

__all__ = ["Column", "Schema"]


def __dir__() -> list[str]:
    return __all__
