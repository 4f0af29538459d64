"""Puts a page together, and writes it whole."""

import json
import math
import warnings
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from matplotlib import style as styles
from matplotlib.colors import to_hex

from manifold_shap.explanation import Explanation
from manifold_shap.io.files import location, write_bytes
from manifold_shap.plots import interaction_map, selection, style
from manifold_shap.plots.bar import bar
from manifold_shap.plots.text_layout import check_tokens
from manifold_shap.report import balances, curves, facts, overall, pictures, rows
from manifold_shap.report.shown import MOST_ROWS, Shown

# Bytes of a page.
LARGEST = 3_000_000
_ENDS = (".html", ".htm")
# Of the colour behind the strongest word, of 255: text upon it can be read.
_OPACITY = 191
# Characters of a channel's name, beside its curve.
_CHANNEL = 32
# What may be shown of all rows for an output.
_NOTHING = dict.fromkeys(("bars", "swarm", "pairs", "words", "map"))
# Bars of global values.
_GLOBAL = 15


@dataclass(frozen=True)
class Given:
    """What a page is made of.

    Attributes:
        explanation, title, tokens, images, series, global_values, interactions: see
            `Explanation.report`.

    Raises:
        TypeError, ValueError: what is given is of other rows or players.
    """

    explanation: Explanation
    title: Any
    tokens: Any
    images: Any
    series: Any
    global_values: Any
    interactions: Any

    def __post_init__(self) -> None:
        selection.one(self.explanation)
        rows, players = len(self.explanation.phi), self.explanation.players.names
        if self.tokens is not None:
            check_tokens(self.tokens, rows)
        own, pairs = self.explanation, self.interactions
        if pairs is not None and (own.instances, players, own.outputs) != (
            pairs.instances,
            pairs.players.names,
            pairs.outputs,
        ):
            raise ValueError(
                "Expected `interactions` of the rows, players and outputs of the explanation but "
                "they differ; write the report of `interactions.shapley`."
            )


def write(explanation: Explanation, path: str | Path, **given: Any) -> None:
    """Write a page; see `Explanation.report`."""
    place = location("path", path)
    if Path(str(path)).suffix.lower() not in _ENDS:
        raise ValueError(f"Expected `path` to end in '.html' but got {str(path)!r}.")
    write_bytes(place, page(Given(explanation, **given)).encode())


def page(given: Given) -> str:
    """The text of a page, which has fewer rows where many would make it too large."""
    shown, most = Shown.of(given.explanation), min(MOST_ROWS, len(given.explanation.phi))
    # Not in colours of the user's, for which the page has none that suit.
    with styles.context("default"), warnings.catch_warnings():
        # Of characters that matplotlib has no letters for: browsers have fonts of their own.
        warnings.filterwarnings("ignore", "Glyph")
        figures = _figures(given, shown)
        while len((text := _page(given, shown, most, figures)).encode()) > LARGEST and most > 1:
            most //= 2
        return text


def _figures(given: Given, shown: Shown) -> dict[int | None, dict[str, str]]:
    """What is drawn of all rows together: for each output, and under None of global values."""
    explanation, pairs = given.explanation, given.interactions
    found: dict[int | None, dict[str, str]] = {output: {} for output in shown.outputs}
    if not explanation.players.by_row:
        for output in shown.outputs:
            if _kind(given) in ("table", "series"):
                found[output] |= overall.of_output(explanation, shown.order, output)
            if pairs is not None:
                found[output]["pairs"] = overall.drawn(interaction_map(pairs, output=output))
    if given.global_values is not None:
        found[None] = {"bars": overall.drawn(bar(given.global_values, most=_GLOBAL))}
    return found


def _page(
    given: Given, shown: Shown, most: int, figures: Mapping[int | None, dict[str, str]]
) -> str:
    explanation = given.explanation
    chosen = shown.rows(most)
    found = rows.rows_of(shown, chosen, given.tokens, _kind(given))
    scale = _ADDED[found.kind](given, chosen, found) if found.kind in _ADDED else None
    data: dict[str, Any] = {
        "outputs": [
            rows.short(selection.quantity(explanation, j)) for j in range(len(explanation.outputs))
        ],
        "unit": explanation.unit,
        "rows": found.data,
    }
    if given.interactions is not None:
        for position, row in zip(chosen, found.data, strict=True):
            own = [each["output"] for each in row["outputs"]]
            row["pairs"] = rows.pairs_of_row(given.interactions, position, own)
    if explanation.partition is not None:
        data["classes"] = balances.classes_of(explanation)
        paths = balances.of_rows(explanation, chosen, data["classes"])
        for row, path in zip(found.data, paths, strict=True):
            row["path"] = path
    named = sorted(set().union(*map(rows.players_of, found.data)))
    data["players"] = {i: rows.short(explanation.players.names[i]) for i in named}
    of_outputs = []
    for j in shown.outputs:
        own_of = {"index": j, "name": data["outputs"][j], **_NOTHING, **figures[j]}
        if found.kind == "texts":
            own_of["words"] = overall.of_words(found, j)
        elif found.kind == "pictures":
            own_of["map"] = pictures.mean_map(explanation, chosen, j)
        of_outputs.append(own_of)
    return _rendered(given, shown, found, data, of_outputs, figures.get(None), scale)


def _kind(given: Given) -> str:
    """What rows are, see `rows.Rows`."""
    if given.tokens is not None:
        return "texts"
    if given.series is None and pictures.are_pictures(given.explanation, given.images):
        return "pictures"
    return "series" if curves.are_series(given.explanation, given.series) else "table"


def _add_pictures(given: Given, chosen: Sequence[int], found: rows.Rows) -> str:
    """Give rows their pictures and maps; return what the end of the colours' scale is."""
    explanation = given.explanation
    urls, limit = pictures.maps(explanation, chosen, _outputs_of(found))
    shown = pictures.of_rows(explanation, chosen, given.images)
    for row, line, url, maps in zip(found.data, found.lines, shown, urls, strict=True):
        row["maps"] = maps
        line["picture"] = url
    return style.signed([limit])[0].lstrip("+")


def _add_series(given: Given, chosen: Sequence[int], found: rows.Rows) -> str:
    """Give rows their curves; return what the end of the colours' scale is."""
    channels = curves.channels_of(given.explanation, given.series)
    drawn, limit = curves.of_rows(given.explanation, chosen, _outputs_of(found), channels)
    for row, line, each in zip(found.data, found.lines, drawn, strict=True):
        line["curve"] = each.pop("small")
        row["curves"] = {**each, "names": [style.shorten(name, _CHANNEL) for name in each["names"]]}
    return style.signed([limit])[0].lstrip("+")


_ADDED = {"pictures": _add_pictures, "series": _add_series}


def _outputs_of(found: rows.Rows) -> list[list[int]]:
    return [[each["output"] for each in row["outputs"]] for row in found.data]


def _rendered(
    given: Given,
    shown: Shown,
    found: rows.Rows,
    data: dict[str, Any],
    outputs: Sequence[dict[str, Any]],
    global_values: Mapping[str, str] | None,
    scale: str | None,
) -> str:
    explanation = given.explanation
    environment = _environment()
    named = explanation.outputs if explanation.partition is None else explanation.classes
    script = environment.get_template("report.js").render(colours=style, opacity=_OPACITY).strip()
    text = environment.get_template("report.html").render(
        title=given.title or rows.short(f"Shapley values of {', '.join(named)}"),
        explanation=explanation,
        counts=_counts(explanation),
        checksum=f"sha256-{b64encode(sha256(script.encode()).digest()).decode()}",
        script=script,
        colours=style,
        opacity=_OPACITY,
        signed=[to_hex(style.DIVERGING(k / 8)) for k in range(9)],
        outputs=outputs,
        unit=explanation.unit,
        kinds=selection.kinds(explanation),
        lines=found.lines,
        scale=scale,
        model=facts.model_of(explanation),
        quality=facts.quality_of(explanation),
        warnings=facts.warnings_of(explanation),
        audit=facts.audit_of(explanation),
        made_by=facts.made_by(explanation),
        global_values=global_values,
        interactions=given.interactions,
        index="" if given.interactions is None else given.interactions.index,
        classes=data.get("classes", []),
        kind=found.kind,
        data=_as_json(data),
    )
    # Halves of characters, which UTF-8 cannot hold.
    return text.encode("utf-8", "replace").decode()


def _counts(explanation: Explanation) -> list[str]:
    players = style.count(len(explanation.players), "feature")
    return [
        style.count(len(explanation.phi), "row"),
        f"at most {players} in a row" if explanation.players.by_row else players,
        style.count(len(explanation.outputs), "output"),
    ]


def _environment() -> Any:
    try:
        import jinja2
    except ImportError as error:
        raise ImportError(
            "Explanation.report needs the package jinja2: pip install 'manifold_shap[report]'."
        ) from error
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("manifold_shap.report"),
        autoescape=lambda name: name is not None and name.endswith(".html"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["counted"] = style.count
    return environment


def _as_json(content: Any) -> str:
    """Data for a `<script>` of a page: no character of it ends the script, or starts a tag.

    Numbers have four digits, those that are not finite are null.

    >>> print(_as_json({"</script>": [1 / 3, float("nan")]}))
    {"\\u003c/script\\u003e":[0.3333,null]}
    """
    text = json.dumps(_plain(content), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _plain(content: Any) -> Any:
    """Data that JSON can hold: numbers of four digits, null for those that are not finite."""
    if isinstance(content, Mapping):
        return {str(key): _plain(entry) for key, entry in content.items()}
    if isinstance(content, list | tuple):
        return [_plain(entry) for entry in content]
    if isinstance(content, float):
        return float(f"{content:.4g}") if math.isfinite(content) else None
    return content if isinstance(content, bool | int | None) else str(content)
