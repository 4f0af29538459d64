"""Puts a page together, and writes it."""

from base64 import b64encode
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch

from manifold_shap import plots, shown
from manifold_shap.explanation import Explanation
from manifold_shap.io.files import location, write_bytes
from manifold_shap.plots import canvas, quality, selection
from manifold_shap.plots.text import scale
from manifold_shap.report import facts, figures
from manifold_shap.report.rows import Rows

# Bytes of a page, and of its rows at most.
LARGEST = 3_000_000
# Rows of a page, rows of a swarm, outputs of all rows together.
_ROWS, _POINTS, _OUTPUTS = 400, 300, 5


def write(
    explanation: Explanation,
    path: str | Path,
    *,
    title: str | None = None,
    global_values: Any = None,
    interactions: Any = None,
    **looks: Any,
) -> None:
    """Write a page; see `Explanation.report`."""
    selection.one(explanation)
    if Path(str(path)).suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"Expected `path` to end in '.html' but got {str(path)!r}.")
    if interactions is not None and (
        (interactions.shapley.instances, interactions.players.names, interactions.outputs)
        != (explanation.instances, explanation.players.names, explanation.outputs)
    ):
        raise ValueError(
            "Expected `interactions` of the rows, players and outputs of the explanation but "
            "they differ; write the report of `interactions.shapley`."
        )
    place = location("path", path)
    order = torch.randperm(len(explanation), generator=torch.Generator().manual_seed(0))
    rows = Rows(explanation, order[:_ROWS].tolist(), interactions=interactions, **looks)
    write_bytes(place, page(rows, title, global_values).encode("utf-8", "replace"))


def page(rows: Rows, title: str | None, global_values: Any) -> str:
    """The text of a page, which has as many rows as it has room for."""
    explanation, environment = rows.explanation, _environment()
    outputs = _of_outputs(rows)
    overall = [each for output in outputs for each in output["figures"]]
    if global_values is not None:
        overall.append(figures.svg(partial(plots.bar, global_values)))
    what = explanation.space.named(explanation.outputs)
    if explanation.partition is not None or explanation.space.on_simplex:
        what = ", ".join(explanation.classes if explanation.partition else explanation.outputs)
    script = environment.get_template("report.js").render().strip()
    context = {
        "title": title or shown.shorten(f"Shapley values of {what}", 80),
        "explanation": explanation,
        "counts": _counts(explanation),
        "checksum": f"sha256-{b64encode(sha256(script.encode()).digest()).decode()}",
        "script": script,
        "colours": canvas,
        "model": facts.model_of(explanation),
        "quality": quality.notes({"": explanation}),
        "warnings": facts.warnings_of(explanation),
        "audit": facts.audit_of(explanation),
        "made_by": facts.made_by(explanation),
        "kinds": shown.kinds(explanation),
        "outputs": outputs,
        "global_values": overall[-1] if global_values is not None else "",
        "kind": rows.kind,
        "limit": rows.limit,
        "scale": scale(rows.limit, f"Shapley value ({explanation.unit})"),
    }
    template, texts = environment.get_template("row.html"), dict[int, str]()
    left = LARGEST - len(environment.get_template("report.html").render(context, rows=[]).encode())
    for place, row in enumerate(rows.chosen):
        text = template.render(context, row=rows.row(place))
        left -= len(text.encode("utf-8", "replace"))
        if left < 0 and texts:
            break
        texts[row] = text
    listed = [texts[row] for row in sorted(texts)]
    return environment.get_template("report.html").render(context, rows=listed)


def _of_outputs(rows: Rows) -> list[dict[str, Any]]:
    """What a page says of all rows together, for some outputs, the main one first."""
    explanation = rows.explanation
    main, _ = shown.output_of_all(explanation)
    weight = explanation.phi.double().abs().nanmean((0, 1))
    if explanation.space.on_simplex:
        weight = explanation.prediction.double().mean(0)
    weight[main] = torch.inf
    chosen = (
        [main]
        if shown.has_two_classes(explanation)
        else (weight.argsort(descending=True, stable=True)[:_OUTPUTS].tolist())
    )
    known = explanation.phi.isfinite()
    clean = Explanation(**{**vars(explanation), "phi": explanation.phi.where(known, torch.nan)})
    some = clean[sorted(rows.chosen[:_POINTS])]
    found = []
    for k in chosen:
        of: dict[str, Any] = {"name": shown.quantity(explanation, k), "figures": [], "words": []}
        summed = not explanation.players.by_row and bool(known[..., k].any())
        if summed and rows.kind in ("table", "series"):
            of["figures"].append(figures.svg(partial(plots.bar, clean, output=k)))
            if len(some.phi) > 1 and bool(some.phi[..., k].isfinite().any()):
                of["figures"].append(figures.svg(partial(plots.beeswarm, some, output=k)))
        if summed and rows.interactions is not None:
            draw = partial(plots.interaction_map, rows.interactions, output=k)
            of["figures"].append(figures.svg(draw))
        of["words"] = rows.mean_words(k) if rows.kind == "texts" else []
        of["map"] = rows.mean_map(k) if rows.kind == "pictures" else ""
        found.append(of)
    return found


def _counts(explanation: Explanation) -> list[str]:
    players = shown.count(len(explanation.players), "feature")
    return [
        shown.count(len(explanation), "row"),
        f"at most {players} in a row" if explanation.players.by_row else players,
        shown.count(len(explanation.outputs), "output"),
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
    # What rounds to zero has no sign.
    environment.filters["side"] = lambda said: {"+": "raise", "−": "lower"}.get(said[:1], "")
    return environment
