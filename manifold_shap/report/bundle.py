"""Packs scripts and data for a page: escaped, and named by their checksums."""

import base64
import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any


def checksum(script: str) -> str:
    """Of a script, as a content security policy names it.

    >>> checksum("")
    'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='
    """
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def as_json(content: Any) -> str:
    """Data for a `<script>` of a page: no character of it ends the script, or starts a tag.

    Numbers have four digits, those that are not finite are null.

    >>> print(as_json({"</script>": [1 / 3, float("nan")]}))
    {"\\u003c/script\\u003e":[0.3333,null]}
    """
    text = json.dumps(plain(content), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def plain(content: Any) -> Any:
    """Data that JSON can hold: numbers of four digits, null for those that are not finite."""
    if isinstance(content, Mapping):
        return {str(key): plain(entry) for key, entry in content.items()}
    if isinstance(content, list | tuple):
        return [plain(entry) for entry in content]
    if isinstance(content, float):
        return float(f"{content:.4g}") if math.isfinite(content) else None
    return content if isinstance(content, bool | int | None) else str(content)
