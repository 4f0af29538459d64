"""Puts a page together, and writes it."""

import math
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from manifold_shap import plots, shown
from manifold_shap.explanation import Explanation
from manifold_shap.io.files import location, write_bytes
from manifold_shap.plots import canvas, selection
from manifold_shap.plots.maps import per_pixel
from manifold_shap.plots.text import check_page, scale
from manifold_shap.report import figures
from manifold_shap.report.rows import Rows

# Bytes of a page, and of its rows at most.
LARGEST = 3_000_000
# Rows of a page, rows of a swarm, outputs of all rows together.
_ROWS, _POINTS, _OUTPUTS = 400, 300, 5
# Letters of an entry of how values were made, which has no entries that are told in other words.
_LONGEST = 400
_TOLD = ("quality", "audit", "model")
_AT_THE_TOP = ("quality", "half_trained")
# A sum that is further off than this, relative to the largest change, is worth a warning.
_GAP = 0.01


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
    several = {} if interactions is None else {"interactions": interactions.shapley}
    selection.named({"explanation": explanation, **several})
    check_page(path)
    place = location("path", path)
    order = torch.randperm(len(explanation), generator=torch.Generator().manual_seed(0))
    # What the page says once, at its top, figures need not repeat.
    made_by = {k: each for k, each in explanation.made_by.items() if k not in _AT_THE_TOP}
    known = explanation.phi.where(explanation.phi.isfinite(), torch.nan)
    drawn = replace(explanation, phi=known, made_by=made_by)
    rows = Rows(drawn, order[:_ROWS].tolist(), interactions=interactions, **looks)
    text = page(explanation, rows, title, global_values)
    write_bytes(place, text.encode("utf-8", "replace"))


def page(explanation: Explanation, rows: Rows, title: str | None, global_values: Any) -> str:
    """The text of a page, which has as many rows as it has room for."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("manifold_shap.report"),
        autoescape=lambda name: name is not None and name.endswith(".html"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # What rounds to zero has no sign.
    environment.filters["side"] = lambda said: {"+": "raise", "−": "lower"}.get(said[:1], "")
    outputs = _of_outputs(rows)
    what = explanation.space.named(explanation.outputs)
    if shown.has_two_classes(explanation):
        what = shown.quantity(explanation, 1)
    elif explanation.partition is not None or explanation.space.on_simplex:
        what = ", ".join(explanation.classes if explanation.partition else explanation.outputs)
    script = environment.get_template("report.js").render().strip()
    players = shown.count(len(explanation.players), shown.noun(explanation))
    made_by = {k: each for k, each in explanation.made_by.items() if k not in _TOLD}
    for name, entry in made_by.items():
        if isinstance(entry, Mapping) and all(str(key).isdigit() for key in entry):
            # By how many players rows have, which would be a line for each.
            each = [str(value).partition(":")[0] for value in entry.values() if value is not None]
            made_by[name] = ", ".join(dict.fromkeys(each))
    made_by |= {"output space": explanation.space.name, "unit of the values": explanation.unit}
    pictures = rows.kind == "pictures"
    axis = selection.axis(explanation, None, per_pixel(explanation) if pictures else "")
    if explanation.partition is not None and rows.kind == "texts":
        axis = "Projection on the class that is predicted: red speaks for it, blue against it"
    context = {
        "title": title or shown.shorten(f"Shapley values of {what}", 80),
        "explanation": explanation,
        "counts": [
            shown.count(len(explanation), "row"),
            f"at most {players} in a row" if explanation.players.by_row else players,
            shown.count(len(explanation.outputs), "output"),
        ],
        "checksum": f"sha256-{b64encode(sha256(script.encode()).digest()).decode()}",
        "script": script,
        "colours": canvas,
        "model": _model(explanation),
        "quality": selection.notes({"": explanation}) if explanation.quality else [],
        "warnings": _warnings(explanation),
        "made_by": list(_flat(made_by)),
        "estimator": made_by.get("estimator"),
        "kinds": shown.kinds(explanation),
        "whiskers": selection.whiskers([explanation], slice(None)),
        "outputs": outputs,
        "global_values": "",
        "scale": scale(rows.limit, axis, pictures),
    }
    if global_values is not None:
        context["global_values"] = figures.svg(partial(plots.bar, global_values))
    whole, template = environment.get_template("report.html"), environment.get_template("row.html")
    left, texts = LARGEST - len(whole.render(context, rows=[]).encode()), dict[int, str]()
    for place, row in enumerate(rows.chosen):
        text = template.render(context, row=rows.row(place))
        left -= len(text.encode("utf-8", "replace"))
        if left < 0 and texts:
            break
        texts[row] = text
    return whole.render(context, rows=[texts[row] for row in sorted(texts)])


def _of_outputs(rows: Rows) -> list[dict[str, Any]]:
    """What a page says of all rows together, for some outputs, the main one first."""
    explanation = rows.explanation
    main, _ = shown.output_of_all(explanation)
    weight = explanation.phi.double().abs().nanmean((0, 1))
    if explanation.space.on_simplex:
        weight = explanation.prediction.double().mean(0)
    weight[main] = torch.inf
    many = 1 if shown.has_two_classes(explanation) else _OUTPUTS
    some = explanation[sorted(rows.chosen[:_POINTS])]
    found = []
    for k in weight.argsort(descending=True, stable=True)[:many].tolist():
        draw: list[Any] = []
        if rows.kind == "texts":
            draw.append(partial(plots.bar, explanation, None, k, signed=True, tokens=rows.tokens))
        elif not explanation.players.by_row and bool(explanation.phi[..., k].isfinite().any()):
            if rows.kind != "pictures":
                draw.append(partial(plots.bar, explanation, output=k))
                if len(some) > 1 and bool(some.phi[..., k].isfinite().any()):
                    draw.append(partial(plots.beeswarm, some, output=k))
            if rows.interactions is not None:
                draw.append(partial(plots.interaction_map, rows.interactions, output=k))
        found.append(
            {
                "name": shown.quantity(explanation, k),
                "figures": list(map(figures.svg, draw)),
                "map": rows.mean_map(k) if rows.kind == "pictures" else "",
            }
        )
    return found


def _model(explanation: Explanation) -> list[str]:
    """Which model is explained, how good it is, and the error that an audit measured."""
    model, audit = explanation.made_by.get("model") or {}, explanation.audit
    found = []
    if "name" in model:
        rows = shown.count(model["rows"], "test row") if "rows" in model else "test rows"
        said = f"The model that is explained is {shown.shorten(str(model['name']), 80)}"
        if "accuracy" in model:
            said += f". It predicts the right class for {model['accuracy']:.2%} of {rows}"
        elif "r2" in model:
            said += f". Its R², the share of the variance explained, is {model['r2']:.3g} on {rows}"
        found.append(f"{said}.")
    if audit is not None:
        figure, low, high = (float(each) for each in audit.relative_error())
        around = f" (95 % interval {low:.1%} to {high:.1%})" if math.isfinite(low + high) else ""
        found.append(
            f"{shown.count(audit.rows, 'row')} were estimated again without bias, by "
            f"{audit.reference!r}: the relative error of Shapley values is {figure:.1%}{around}."
        )
    return found


def _warnings(explanation: Explanation) -> list[str]:
    """What a reader should know before anything else."""
    found = [each.removeprefix("Caution: ") for each in selection.cautions({"": explanation})]
    hints = map(str, explanation.made_by.get("hints", []))
    found += [hint for hint in hints if not hint.startswith(tuple(found) or ("\0",))]
    if not bool(explanation.phi[explanation.present].isfinite().all()):
        found.append("some Shapley values are not known")
    elif explanation.efficiency_gap > _GAP:
        found.append(
            "Shapley values do not add up to prediction - base: they are off by up to "
            f"{explanation.efficiency_gap:.1%} of the largest difference"
        )
    unknown = explanation.standard_error[explanation.present].isnan()
    if bool(unknown.any()):
        found.append(f"{'' if bool(unknown.all()) else 'some '}standard errors are unknown")
    return [f"{selection.capital(each.rstrip('.'))}." for each in found]


def _flat(made_by: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """How values were made, in words and without settings that were left open."""
    for name, entry in pd.json_normalize(dict(made_by), sep=": ").loc[0].dropna().items():
        listed = ", ".join(map(str, entry)) if isinstance(entry, list | tuple) else str(entry)
        yield str(name).replace("_", " "), shown.shorten(listed, _LONGEST) or "none"
