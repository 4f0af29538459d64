"""Shows what the commands found: tables as text, figures in files, and hints."""

import math
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from manifold_shap import plots, simplex
from manifold_shap.cli import engines, page
from manifold_shap.cli.directory import METRICS, PLOTS, STORE, SUMMARY, read_json, write_json
from manifold_shap.cli.model import record_of
from manifold_shap.data.base import TensorDataModule
from manifold_shap.explanation import Explanation
from manifold_shap.io.files import write_whole
from manifold_shap.metrics import Score
from manifold_shap.quality import OFF_MANIFOLD
from manifold_shap.values import ImputedValue, ValueFunction

if TYPE_CHECKING:
    from manifold_shap.cli.run import Run

# Axes of matplotlib, or a list of several, with the `figure` that they are in.
Drawn = Any

# Rows of a table, and rows of compositions, each with half a dozen figures.
_LISTED_ROWS, _COMPOSITIONS = 10, 3
# Players that a table names.
_LISTED_PLAYERS = 3


def table(explanation: Explanation, rows: int | None = None) -> str:
    """A short table: of each row the largest output, and the players that moved it most.

    On the simplex the row's most probable class, and the players of the largest norms.

    Args:
        explanation: of all rows, or of the first of them.
        rows: how many there are in all.
    """
    rows = len(explanation.phi) if rows is None else rows
    of = "largest Shapley values", "output"
    if explanation.partition is not None:
        of = "largest norms (towards a class)", "class"
    lines = [f"{'row':>6}  {of[1]:<12}{'base':>8}{'prediction':>12}  {of[0]}"]
    listed = explanation[:_LISTED_ROWS]
    entries = _entries(listed) if listed.partition is None else _compositions(listed)
    for label, (name, base, prediction, players) in zip(listed.instances, entries, strict=True):
        lines.append(f"{label:>6}  {name:<12.12}{base:>8.3f}{prediction:>12.3f}  {players}")
    if rows > _LISTED_ROWS:
        lines.append(f"   ... {rows - _LISTED_ROWS} more rows in explanations.zarr")
    return "\n".join(lines)


def _entries(explanation: Explanation) -> list[tuple[str, float, float, str]]:
    """Of each row: the output, its base, its prediction, and the largest values."""
    entries = []
    for k, prediction in enumerate(explanation.prediction):
        output = int(prediction.argmax())
        phi, errors = explanation.phi[k, :, output], explanation.standard_error[k, :, output]
        players = [
            f"{explanation.players.names[i]} {phi[i]:+.3f}{_error(errors[i])}"
            for i in _largest(phi.abs(), explanation.present[k])
        ]
        base = float(explanation.base[k, output])
        name = explanation.outputs[output]
        entries.append((name, base, float(prediction[output]), ", ".join(players)))
    return entries


def _compositions(explanation: Explanation) -> list[tuple[str, float, float, str]]:
    """Of each row: the class, its probability at the base and in the prediction, and the norms."""
    p = simplex.ilr_inv(explanation.prediction, explanation.basis).exp()
    base = simplex.ilr_inv(explanation.base, explanation.basis).exp()
    norms, errors = explanation.norms(), explanation.norm_errors()
    towards = explanation.projections().argmax(-1)
    entries = []
    for k in range(len(p)):
        top = int(p[k].argmax())
        players = [
            f"{explanation.players.names[i]} {norms[k, i]:.3f}{_error(errors[k, i])} "
            f"({explanation.classes[towards[k, i]]})"
            for i in _largest(norms[k], explanation.present[k])
        ]
        name = explanation.classes[top]
        entries.append((name, float(base[k, top]), float(p[k, top]), ", ".join(players)))
    return entries


def _largest(size: Tensor, present: Tensor) -> list[int]:
    """Players of the largest values, of those that a row has."""
    order = size.where(present, -1.0).argsort(descending=True)
    return order[: min(_LISTED_PLAYERS, int(present.sum()))].tolist()


def _error(error: Any) -> str:
    """An error that is known and not zero."""
    return f" ± {error:.3f}" if error > 0 else ""


def comparison(
    scores: Mapping[str, Score], seconds: Mapping[str, float], half_trained: Collection[str] = ()
) -> str:
    """A short table: the errors of value functions on the same pairs, and what they took."""
    some = next(iter(scores.values()))
    lines = [f"{'':<14}{'MSE':>11}{'± SE':>11}{'debiased':>11}{'draws':>7}{'seconds':>9}"]
    for name, score in scores.items():
        lines.append(
            f"{name:<14}{score.mse:>11.4g}{score.standard_error:>11.2g}{score.debiased:>11.4g}"
            f"{score.draws:>7}{seconds[name]:>9.1f}{'  half-trained' * (name in half_trained)}"
        )
    lines.append(
        f"MSE over the same {sum(some.by_size.pairs)} pairs of a sample of the test rows (of all "
        "of them: metrics.json); seconds of explaining the rows"
    )
    return "\n".join(lines)


def figures_of(score: Score, of: str = "") -> dict[str, Any]:
    """What a record says of a score; `of` stands in the names."""
    return {
        f"mse{of}": score.mse,
        f"mse{of}_standard_error": score.standard_error,
        f"mse{of}_debiased": score.debiased,
        f"draws{of}": score.draws,
        f"effective_draws{of}": score.effective_draws,
    }


def hints(value: ValueFunction, score: Score, off: ValueFunction, score_off: Score) -> list[str]:
    """What a reader of the results should know about a value function, with the figures.

    Args:
        value: the value function, and `score`, its error.
        off: the one off the manifold, and `score_off`, its error on the same pairs.
    """
    imputers = [each.imputer for each in (value, off) if isinstance(each, ImputedValue)]
    if len(imputers) == 2 and type(imputers[0]) is type(imputers[1]):
        return []
    error, error_off = (
        some.debiased if math.isfinite(some.debiased) else some.mse for some in (score, score_off)
    )
    if error < error_off:
        return []
    return [
        f"{value.name} is no better than values off the manifold: its MSE is {error:.4g}, theirs "
        f"{error_off:.4g}, on the same test pairs; train longer, or choose another value function."
    ]


def figures(
    data: TensorDataModule,
    explanations: Mapping[str, Explanation],
    name: str,
    titles: Mapping[str, str],
    scores: Mapping[str, Score],
    balances: Sequence[int | str] | None = None,
) -> dict[str, Drawn | str]:
    """Figures of explanations of the same rows, by file name; coloured texts as HTML.

    Args:
        data: the source of the rows, which says what suits them.
        explanations: by name of the value function, in the order to draw them.
        name: of the one that is drawn alone where only one can be.
        titles: of the value functions.
        scores: of the value functions, where they are compared.
        balances: of compositions: two or three to draw, by number or name; by default the first.
    """
    main = explanations[name]
    by_title = {titles[which]: explanation for which, explanation in explanations.items()}
    notes = {titles[which]: f"MSE {scores[which].mse:.4f}" for which in scores}
    drawn = data.figures(by_title, titles[name], notes)
    return drawn if main.partition is None else drawn | _of_compositions(main, balances)


def _of_compositions(
    explanation: Explanation, balances: Sequence[int | str] | None
) -> dict[str, Drawn | str]:
    """Figures of compositions: the tree of their balances, and the first rows."""
    drawn: dict[str, Drawn | str] = {}
    drawn["bifurcation_tree.png"] = plots.bifurcation_tree(explanation.partition)
    chosen = list(balances or range(1, 1 + min(3, len(explanation.outputs))))
    for k, label in enumerate(explanation.instances[:_COMPOSITIONS]):
        drawn[f"compositions_{label}.png"] = plots.compositions(explanation, k)
        drawn[f"cumulative_{label}.png"] = plots.cumulative(explanation, k)
        drawn[f"parallel_coordinates_{label}.png"] = plots.parallel_coordinates(explanation, k)
        if len(chosen) == 2:
            drawn[f"ilr_plane_{label}.png"] = plots.ilr_plane(explanation, k, chosen)
        elif len(chosen) == 3:
            drawn[f"ilr_space_{label}.png"] = plots.ilr_space(explanation, k, chosen)
    return drawn


def save_figures(figures: Mapping[str, Drawn | str], directory: Path) -> None:
    """Write figures, each whole or not at all."""
    for name, drawn in figures.items():

        def write(path: Path, drawn: Any = drawn) -> None:
            if isinstance(drawn, str):
                path.write_text(drawn, encoding="utf-8")
            else:
                drawn.figure.savefig(path, format="png", dpi=200)

        write_whole(directory / name, write)


def announce(run: "Run", rows: Sequence[int]) -> dict[str, dict[str, Any]]:
    """Say what should be known before rows are explained.

    That is that a training was interrupted, what its metrics say of its quality, that results of
    other rows are replaced, and which settings of many rows do nothing for few.

    Returns:
        What the record of each explanation says of its value function, by name.
    """
    settings = run.settings
    half_trained = [name for name, source in run.drawn.items() if source.is_half_trained]
    found = [
        f"{name} is half-trained: its training was interrupted, and the best checkpoint so far is "
        "used; the command of the training finishes it."
        for name in half_trained
    ]
    metrics = read_json(run.directory.path / METRICS) or {}
    recorded = [hint for hint in metrics.get("hints", []) if isinstance(hint, str)]
    found += recorded
    for hint in found:
        print(f"Note: {hint}")
    before = run.directory.summary.get("rows")
    if (run.directory.path / STORE).exists() and before not in (None, ranges(rows)):
        few = str(before)[:100].rpartition(",")[0]
        listed = f"{few}, ..." if len(str(before)) > 100 else before
        print(f"Replacing the explanation of rows {listed} in {run.directory.path / STORE}")
    idle = ["resume=true"] if settings["resume"] else []
    idle += [f"audit={settings['audit']}"] if settings["audit"] else []
    idle += engines.typed(settings)
    if idle and len(rows) <= settings["block"]:
        print(
            f"No effect of {' and '.join(idle)}: {len(rows)} rows fit one block of "
            f"{settings['block']}, and are explained at once."
        )
    model = record_of(run)
    about: dict[str, dict[str, Any]] = {name: {"model": model} for name in run.drawn}
    for name in half_trained:
        about[name]["half_trained"] = True
    about[run.name]["settings"] = run.source.record
    if found:
        about[run.name]["hints"] = found
    if "mse_off_manifold" in metrics:
        about[run.name]["quality"] = _quality(run.name, metrics, recorded)
    return about


def _quality(name: str, metrics: Mapping[str, Any], warnings: Sequence[str]) -> dict[str, Any]:
    """How good a value function is, as its training measured it, for figures and the store."""
    error, off = (
        metrics[debiased] if math.isfinite(metrics.get(debiased) or math.nan) else metrics[plain]
        for plain, debiased in (
            ("mse", "mse_debiased"),
            ("mse_off_manifold", "mse_off_manifold_debiased"),
        )
    )
    known = {"chosen": name, "mse": {OFF_MANIFOLD: off, name: error}}
    return known | ({"warning": warnings[0]} if warnings else {})


def ranges(numbers: Sequence[int]) -> str:
    """Numbers as text, neighbours joined.

    >>> ranges([0, 1, 2, 7, 3])
    '0-2,7,3'
    """
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], number]
        else:
            parts.append([number])
    return ",".join("-".join(str(number) for number in part) for part in parts)


def write(
    run: "Run",
    explanations: Mapping[str, Explanation],
    scores: Mapping[str, Score],
    seconds: Mapping[str, float],
    facts: Mapping[str, Any],
    rows: Sequence[int],
) -> dict[str, Any]:
    """Draw, write and print the results; return what `summary.json` holds.

    Args:
        run: receives them.
        explanations: by name of the value function, in the order to draw them, of all rows or of
            the first of them.
        scores: of the value functions, where there are several.
        seconds: that each explanation took.
        facts: about all rows.
        rows: numbers of all rows.
    """
    main, settings = explanations[run.name], run.settings
    titles = {name: source.title for name, source in run.drawn.items()}
    half_trained = [name for name, source in run.drawn.items() if source.is_half_trained]
    drawings = figures(run.data, explanations, run.name, titles, scores, settings["balances"])
    orders = ("ordering", "asymmetric", "confounding") if settings["ordering"] is not None else ()
    tree = None if settings["basis"] is None else main.partition
    compared = {name: figures_of(scores[name]) | {"seconds": seconds[name]} for name in scores}
    summary = {
        "value_function": main.made_by["settings"],
        "half_trained": half_trained,
        "hints": main.made_by.get("hints", []),
        "instances": len(rows),
        "rows": ranges(rows),
        "players": len(main.players),
        "outputs": len(main.outputs),
        "estimator": main.made_by.get("auto", main.made_by["estimator"]),
        **facts,
        **{key: settings[key] for key in orders},
        **({"log_ratio_of_mean": True} if settings["log_ratio_of_mean"] else {}),
        **({"basis": tree.tree} if tree is not None else {}),
        **({"compared": compared} if scores else {}),
        "figures": list(drawings),
    }
    stale = set(run.directory.drawn) - set(drawings)
    run.place(PLOTS, partial(save_figures, drawings))
    for name in stale:
        (run.directory.path / PLOTS / name).unlink(missing_ok=True)
    page.place(run, main, scores)
    run.place(SUMMARY, partial(write_json, content=summary))
    if half_trained:
        print(f"half-trained: {', '.join(half_trained)}")
    print(table(main, len(rows)))
    if main.audit is not None:
        print(main.audit)
    if tree is not None:
        print(tree)
    if scores:
        print(comparison(scores, seconds, half_trained))
    named = run.source.title if half_trained else run.name
    took = f"{facts['seconds']:.1f} s for {named} ({summary['estimator']})"
    print(f"{took}; results and plots in {run.directory.path}")
    return summary
