"""Writes an explanation as one HTML page, which needs no other file and no internet.

The page is put together by templates of jinja2, with figures of `manifold_shap.plots`. A security
policy in the page allows its script, by its checksum, and nothing else: no other script and no
connection.
"""

from manifold_shap.report.page import write

__all__ = ["write"]
