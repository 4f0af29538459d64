"""What the commands show: figures in files, and a short table."""

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TextIO

from manifold_shap import plots
from manifold_shap.explanation import Explanation
from manifold_shap.io.files import write_whole
from manifold_shap.metrics import Score

TITLES = {
    "marginal": "off manifold",
    "vae": "VAE",
    "gaussian": "Gaussian",
    "exact_match": "exact match",
}


def table(explanation: Explanation, most: int = 10, players: int = 3) -> str:
    """A short table: for each row the predicted output and the players that moved it most."""
    lines = [f"{'row':>6}  {'output':<12}{'base':>8}{'prediction':>12}  largest Shapley values"]
    for k in range(min(most, len(explanation.phi))):
        output = int(explanation.prediction[k].argmax())
        phi = explanation.phi[k, :, output]
        error = explanation.standard_error[k, :, output]
        largest = phi.abs().argsort(descending=True)[:players].tolist()
        named = [
            f"{explanation.players.names[i]} {phi[i]:+.3f}"
            + (f" ± {error[i]:.3f}" * bool(error[i] > 0))
            for i in largest
        ]
        lines.append(
            f"{explanation.instances[k]:>6}  {explanation.outputs[output]:<12.12}"
            f"{explanation.base[k, output]:>8.3f}{explanation.prediction[k, output]:>12.3f}  "
            f"{', '.join(named)}"
        )
    if len(explanation.phi) > most:
        lines.append(f"   ... {len(explanation.phi) - most} more rows in explanations.zarr")
    return "\n".join(lines)


def comparison(scores: Mapping[str, Score], seconds: Mapping[str, float]) -> str:
    """A short table: the errors of value functions on the same pairs, and what they took."""
    some = next(iter(scores.values()))
    pairs = sum(some.by_size.pairs)
    lines = [f"{'':<14}{'MSE':>11}{'± SE':>11}{'debiased':>11}{'draws':>7}{'seconds':>9}"]
    for name, score in scores.items():
        lines.append(
            f"{name:<14}{score.mse:>11.4g}{score.standard_error:>11.2g}{score.debiased:>11.4g}"
            f"{score.draws:>7}{seconds[name]:>9.1f}"
        )
    lines.append(
        f"MSE over the same {pairs} pairs of a sample of the test rows (of all of them: "
        "metrics.json); seconds of explaining the rows"
    )
    return "\n".join(lines)


def figures(
    explanations: Mapping[str, Explanation], name: str, scores: Mapping[str, Score]
) -> dict[str, plots.Figure]:
    """Figures of explanations of the same rows.

    Args:
        explanations: by name of the value function, in the order to draw them.
        name: of the one that is drawn alone where only one can be.
        scores: of the value functions, where they are compared.
    """
    first = next(iter(explanations.values()))
    pixels = first.x.ndim == 4
    named = {
        _title(which, explanation, scores.get(which), "\n" if pixels else " "): explanation
        for which, explanation in explanations.items()
    }
    if pixels:
        return {"pixel_maps": plots.pixel_maps(named)}
    figures = {
        f"bars_{label}": plots.bars(named, instance=k)
        for k, label in enumerate(first.instances[:8])
    }
    return {**figures, "summary": plots.sina(explanations[name])}


def _title(name: str, explanation: Explanation, score: Score | None, separator: str) -> str:
    """What stands over a column of maps, or in the legend of bars, whose axis says the kind."""
    title = TITLES.get(name, name)
    if separator == " ":
        return title if score is None else f"{title} (MSE {score.mse:.4f})"
    error = [] if score is None else [f"MSE {score.mse:.4f}"]
    return separator.join([title, *plots.kinds(explanation), *error])


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning as one line of text; stands in for `warnings.showwarning`."""
    print(f"Warning: {' '.join(str(message).split())}", file=file or sys.stderr)


def save_figures(figures: Mapping[str, plots.Figure], directory: Path) -> None:
    for name, figure in figures.items():
        write_whole(directory / f"{name}.png", partial(figure.savefig, format="png", dpi=200))


def save_pages(pages: Mapping[str, str], directory: Path) -> None:
    """Write figures for a browser."""
    for name, page in pages.items():
        write_whole(directory / f"{name}.html", partial(Path.write_text, data=page))


def remove_others(kept: Sequence[str], directory: Path) -> None:
    """Remove the figures of an earlier explanation of other rows."""
    for path in [*directory.glob("*.png"), *directory.glob("*.html")]:
        if path.stem not in kept and path.stem != "mse_by_size":
            path.unlink()
