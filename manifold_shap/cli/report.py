"""Writes what the commands found: figures, a summary and a page."""

from collections.abc import Mapping
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import manifold_shap as ms
from manifold_shap import plots
from manifold_shap._stored import sample_of
from manifold_shap.cli.run import is_trained, read_json, to_json
from manifold_shap.data import Data
from manifold_shap.io.files import remove
from manifold_shap.io.zarr import earlier
from manifold_shap.metrics import Score, mean_squared_error, shapley_pairs

# In one file, or streamed into a folder.
STORE, STREAM = "explanations.zarr.zip", "explanations.zarr"
SUMMARY, REPORT, PLOTS = "summary.json", "report.html", "plots"
# The one figure that a training draws.
CURVE = "mse_by_size.png"
# Rows that have figures of their own; the page has all.
_DRAWN_ROWS = 4
# Pairs of a row and a coalition that an error is a mean over, at least one of each row: with more
# of the same rows it would take as long as a training, and be hardly more certain.
_PAIRS = 2_000
# What a value function that is scored on test rows was learned from.
FITS = "a fit to the training rows"
# Rows of which means say something.
_FEWEST = 30


def scored(value: ms.ValueFunction, rows: Any, progress: bool | None) -> Score:
    """The error of a value function on rows, with coalitions that depend on these rows alone."""
    x = sample_of(rows)
    counts = value.counts(x.to(value.device)).cpu() if value.players.by_row else None
    mask = shapley_pairs(len(x), len(value.players), _PAIRS, counts=counts)
    return mean_squared_error(value, x, mask, progress=progress)


def advice(cfg: Any, data: Data, warning: str | None) -> str:
    """What to do about a value function of a table that was trained in vain."""
    if not (warning and is_trained(cfg) and data.kind == "table"):
        return ""
    return (
        "What needs no training may be better: python explain.py ... value_function=mixture, or "
        "beside this one compare=[mixture,gaussian,empirical].\n"
    )


def figures_of(score: Score, of: str = "") -> dict[str, Any]:
    """What a record says of a score; `of` stands in the names."""
    return {
        f"mse{of}": score.mse,
        f"mse{of}_standard_error": score.standard_error,
        f"mse{of}_debiased": score.debiased,
        f"draws{of}": score.draws,
        f"effective_draws{of}": score.effective_draws,
    }


def check_free(place: Path, overwrite: bool) -> None:
    """Raise FileExistsError where streamed rows would be replaced unasked, or files of others."""
    streamed, _ = (earlier(place / name) for name in (STREAM, STORE))
    if streamed is not None and not overwrite:
        raise FileExistsError(
            f"Expected no streamed rows in {place / STREAM}, finished or not; resume=true "
            "continues, overwrite=true replaces them, and run=... names another folder."
        )


def forget(place: Path, kept: str = "") -> None:
    """Remove an explanation that is replaced, which is said, and no file of others.

    Args:
        place: the folder.
        kept: the store that has replaced it already.
    """
    stores = (place / name for name in (STREAM, STORE) if name != kept)
    there = [path for path in stores if earlier(path) is not None]
    summary = read_json(place / SUMMARY)
    if there or summary:
        rows = summary.get("instances", "unfinished")
        print(f"This replaces the explanation of {rows} rows in {place}.")
    for path in (*there, place / REPORT, place / SUMMARY):
        remove(path)
    for name in summary.get("figures", []):
        drawn = place / PLOTS / name
        # Names in a run from someone else may lead anywhere.
        if drawn.is_file() and Path(name).name == name:
            drawn.unlink()


def _figures(
    data: Data, explanations: Mapping[str, ms.Explanation], explanation: ms.Explanation
) -> dict[str, Any]:
    """Figures that suit the rows, by file name; pages of HTML as text."""
    labels, drawn = explanation.instances[:_DRAWN_ROWS], dict[str, Any]()
    if data.vocabulary is not None:
        tokens = data.vocabulary.decode(explanation.x)
        drawn["text.html"] = plots.text(explanations, tokens).page
    elif data.kind == "pictures":
        drawn["pixel_maps.png"] = plots.pixel_maps(explanations)
    elif data.kind == "series":
        drawn |= {f"series_{k}.png": plots.series(explanations, label=k) for k in labels}
    else:
        drawn["bar.png"] = plots.bar(explanations)
        drawn["beeswarm.png"] = plots.beeswarm(explanation)
        for label in labels:
            if len(explanations) == 1:
                drawn[f"waterfall_{label}.png"] = plots.waterfall(explanation, label=label)
            else:
                drawn[f"bar_{label}.png"] = plots.bar(explanations, label=label)
    if explanation.partition is not None:
        drawn["bifurcation_tree.png"] = plots.bifurcation_tree(explanation.partition)
        names = ["compositions", "cumulative", "parallel_coordinates"]
        names += {1: [], 2: ["ilr_plane"]}.get(len(explanation.outputs), ["ilr_space"])
        for name, label in product(names, labels):
            drawn[f"{name}_{label}.png"] = getattr(plots, name)(explanation, label=label)
    return drawn


def write(
    place: Path,
    data: Data,
    explanations: Mapping[str, ms.Explanation],
    name: str,
    facts: Mapping[str, Any],
    y: Any,
) -> dict[str, Any]:
    """Draw, write and print the results; return what `summary.json` holds.

    Args:
        place: the folder.
        data: see `Data`.
        explanations: by title of the value function, in the order to draw them, of all rows or of
            the first of them.
        name: which of them is that of the run.
        facts: about all rows.
        y: labels of the rows, for a page; None for no page.
    """
    main = explanations[name]
    drawings = _figures(data, explanations, main)
    (place / PLOTS).mkdir(parents=True, exist_ok=True)
    for file, drawn in drawings.items():
        if isinstance(drawn, str):
            (place / PLOTS / file).write_text(drawn, encoding="utf-8")
        else:
            drawn.figure.savefig(place / PLOTS / file)
    summary = {
        "players": int(main.counts.max()),
        "outputs": len(main.outputs),
        "estimator": main.made_by.get("auto", main.made_by["estimator"]),
        **facts,
        **({} if main.audit is None else {"audit": main.audit.summary}),
        "figures": list(drawings),
    }
    (place / SUMMARY).write_text(to_json(summary))
    if y is not None:
        more = dict[str, Any]()
        if data.vocabulary is not None:
            more["tokens"] = data.vocabulary.decode(main.x)
        elif data.kind == "series":
            more["series"] = main.x
        if len(y) >= _FEWEST:
            true = [data.classes[k] for k in y.tolist()] if data.classes else y
            with suppress(ValueError):  # There are none of log-ratios, or of players of each row.
                more["global_values"] = ms.global_values(main, true)
        main.report(place / REPORT, **more)
    print(main)
    for each in (main.audit, main.partition):
        if each is not None:
            print(each)
    seconds = f"{facts['seconds']:.1f} s ({summary['estimator']})"
    print(f"{facts['instances']} rows in {seconds}; results and plots in {place}")
    return summary
