"""What the commands show: figures in files, and a short table."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from manifold_shap import plots
from manifold_shap.checkpoints import write_whole
from manifold_shap.explanation import Explanation

TITLES = {"surrogate": "on manifold", "marginal": "off manifold"}


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
            + (f" ± {error[i]:.3f}" * bool(error[i]))
            for i in largest
        ]
        lines.append(
            f"{explanation.instances[k]:>6}  {explanation.outputs[output]:<12.12}"
            f"{explanation.base[output]:>8.3f}{explanation.prediction[k, output]:>12.3f}  "
            f"{', '.join(named)}"
        )
    if len(explanation.phi) > most:
        lines.append(f"   ... {len(explanation.phi) - most} more rows in explanations.zarr")
    return "\n".join(lines)


def figures(explanations: Mapping[str, Explanation]) -> dict[str, plots.Figure]:
    named = {TITLES.get(name, name): explanation for name, explanation in explanations.items()}
    first = next(iter(explanations.values()))
    if first.x.ndim == 4:
        return {"pixel_maps": plots.pixel_maps(named)}
    figures = {
        f"bars_{label}": plots.bars(named, instance=k)
        for k, label in enumerate(first.instances[:8])
    }
    return {**figures, "summary": plots.sina(first)}


def save_figures(figures: Mapping[str, plots.Figure], directory: Path) -> None:
    for name, figure in figures.items():
        write_whole(directory / f"{name}.png", partial(figure.savefig, format="png", dpi=200))


def remove_other_figures(figures: Mapping[str, plots.Figure], directory: Path) -> None:
    """Remove the figures of an earlier explanation of other rows."""
    for path in directory.glob("*.png"):
        if path.stem not in figures and path.stem != "mse_by_size":
            path.unlink()
