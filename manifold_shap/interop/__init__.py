"""Hands value functions and explanations to other packages, in the forms that these expect."""

from manifold_shap.interop.captum_attribution import CaptumAttribution
from manifold_shap.interop.shapiq_values import to_shapiq

__all__ = ["CaptumAttribution", "to_shapiq"]


def __dir__() -> list[str]:
    return __all__
