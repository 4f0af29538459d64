"""Explanations on the simplex, as the command line asks for them and shows them."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from manifold_shap import plots, simplex
from manifold_shap.cli.value_functions import Source
from manifold_shap.explanation import Explanation
from manifold_shap.plots.path import positions
from manifold_shap.simplex.dendrogram import cluster_classes
from manifold_shap.simplex.partition import Partition
from manifold_shap.spaces import OutputSpace, as_space
from manifold_shap.values import LogRatioOfMean, ValueFunction

DENDROGRAM = "dendrogram"
# Each has half a dozen figures.
_DRAWN_ROWS = 3
# Classes whose whole log-ratio space can be drawn.
_PLANE, _SPACE = 3, 4


@dataclass(frozen=True)
class OnSimplex:
    """How compositions are made and shown.

    Attributes:
        basis: of the log-ratios: nested pairs of class names, `dendrogram` for the partition that
            the model's predictions of the training rows suggest, or None for the sequential one.
        balances: which of them to draw, by number or name; by default the first.
        log_ratio_of_mean: take log-ratios of the values of a value function on probabilities.
    """

    basis: str | Sequence[Any] | None = None
    balances: Any = None
    log_ratio_of_mean: bool = False

    def game(self, value: ValueFunction) -> ValueFunction:
        """The value function to explain.

        Raises:
            ValueError: it is in another output space than these settings are for.
        """
        if self.log_ratio_of_mean:
            return LogRatioOfMean(value)
        if value.space.partition(value.classes) is None and (
            self.basis is not None or self.balances is not None
        ):
            raise ValueError(
                "Expected a value function with output='ilr' together with `basis` or `balances` "
                f"but {value.name!r} has output={value.space.name!r}; train it with "
                "value_function.output=ilr, or give log_ratio_of_mean=true."
            )
        return value

    def partition(self, source: Source, space: OutputSpace) -> Partition | None:
        """The partition of the classes that `basis` means; None for the sequential one.

        Args:
            source: the model, and rows of every class.
            space: says what becomes of exact zeros.

        Raises:
            ValueError: it is no binary tree of the model's classes, or `balances` are not of it.
        """
        chosen = self._chosen(source, space)
        if self.balances is not None:
            names = (chosen or Partition.sequential(source.model.classes)).names
            self._check_balances(names)
        return chosen

    def _chosen(self, source: Source, space: OutputSpace) -> Partition | None:
        model, data = source.model, source.data
        if self.basis is None:
            return None
        if self.basis == DENDROGRAM:
            log_ratios = as_space("ilr", space.settings.get("zero_replacement"))(
                model(data.x_train)
            )
            return cluster_classes(simplex.ilr_inv(log_ratios), data.y_train, model.classes)
        if isinstance(self.basis, str):
            raise ValueError(
                f"Expected `basis` to be {DENDROGRAM!r} or nested pairs of class names, as in "
                f"[[a,b],c], but got {self.basis!r}."
            )
        return Partition.of_tree(self.basis, model.classes)

    def _check_balances(self, names: Sequence[str]) -> None:
        """Before anything is computed that a figure's error could cost."""
        balances = self.balances
        if not isinstance(balances, Sequence) or isinstance(balances, str):
            raise ValueError(f"Expected `balances` to be a list but got {balances!r}.")
        if len(balances) not in (2, 3):
            raise ValueError(
                f"Expected two or three `balances`, for a plane or a space, but got {balances!r}."
            )
        positions(names, balances)


def figures(
    explanation: Explanation, balances: Sequence[int | str] | None = None
) -> dict[str, plots.Figure]:
    """Figures of compositions: the tree of their balances, and the first rows.

    Args:
        explanation: in the space `ilr`.
        balances: two or three to draw, by number or name; by default the first, as many as there
            are up to three.
    """
    drawn = {"bifurcation_tree": plots.bifurcation_tree(explanation.partition)}
    for k, label in enumerate(explanation.instances[:_DRAWN_ROWS]):
        drawn |= {
            f"compositions_{label}": plots.compositions(explanation, k),
            f"cumulative_{label}": plots.cumulative(explanation, k),
            f"parallel_coordinates_{label}": plots.parallel_coordinates(explanation, k),
            **_in_log_ratios(explanation, k, label, balances),
        }
    return drawn


def pages(explanation: Explanation) -> dict[str, str]:
    """Interactive figures as HTML, where three or four classes make them whole."""
    if len(explanation.classes) not in (_PLANE, _SPACE):
        return {}
    if find_spec("plotly") is None:
        print("For figures that can be turned: pip install 'manifold_shap[plotly]'.")
        return {}
    return {
        f"interactive_{label}": plots.interactive(explanation, k).to_html()
        for k, label in enumerate(explanation.instances[:_DRAWN_ROWS])
    }


def table(explanation: Explanation, most: int = 10, players: int = 3) -> str:
    """A short table: each row's predicted class, and the players of the largest norms."""
    p = simplex.ilr_inv(explanation.prediction, explanation.basis).exp()
    base = simplex.ilr_inv(explanation.base[0], explanation.basis).exp()
    norms, errors = explanation.norms(), explanation.norm_errors()
    towards = explanation.projections().argmax(-1)
    names, classes = explanation.players.names, explanation.classes
    lines = [
        f"{'row':>6}  {'class':<12}{'base':>8}{'prediction':>12}  largest norms (towards a class)"
    ]
    for k, label in enumerate(explanation.instances[:most]):
        top = int(p[k].argmax())
        listed = ", ".join(
            f"{names[i]} {norms[k, i]:.3f}"
            + f" ± {errors[k, i]:.3f}" * bool(errors[k, i] > 0)
            + f" ({classes[towards[k, i]]})"
            for i in norms[k].argsort(descending=True)[:players].tolist()
        )
        lines.append(
            f"{label:>6}  {classes[top]:<12.12}{base[top]:>8.3f}{p[k, top]:>12.3f}  {listed}"
        )
    if len(explanation.phi) > most:
        lines.append(f"   ... {len(explanation.phi) - most} more rows in explanations.zarr")
    return "\n".join(lines)


def _in_log_ratios(
    explanation: Explanation, k: int, label: int, balances: Sequence[int | str] | None
) -> dict[str, plots.Figure]:
    """The path of one row in the plane or space of some balances; two classes have neither."""
    chosen = list(balances or range(1, 1 + min(3, len(explanation.outputs))))
    if len(chosen) == 1:
        return {}
    if len(chosen) == 2:
        return {f"ilr_plane_{label}": plots.ilr_plane(explanation, k, chosen)}
    return {f"ilr_space_{label}": plots.ilr_space(explanation, k, chosen)}
