"""How precise Shapley values are for a number of values of v, and how long they take."""

from collections.abc import Sequence
from functools import partial
from statistics import mean, median

from torch import Tensor

import manifold_shap as ms
from benchmarks.support.references import relative
from benchmarks.timing import timed


def relative_error(found: ms.Explanation, reference: ms.Explanation) -> float:
    """The norm of the differences of Shapley values over that of the reference, mean over rows.

    >>> x = torch.tensor([[1.0, 2.0]])
    >>> one = ms.exact_shapley(lambda x, mask: (x[:, None] * mask).sum(-1, True), x)
    >>> relative_error(one, one)
    0.0
    """
    # A row may lack players.
    gap, phi = (part.nan_to_num(0) for part in (found.phi - reference.phi, reference.phi))
    return relative(gap, phi).mean().item()


def precision(
    value: ms.ValueFunction,
    x: Tensor,
    outputs: int,
    budgets: Sequence[int],
    reference: int,
    explainer: ms.AmortizedExplainer | None = None,
) -> dict[str, dict[str, float]]:
    """Errors and seconds of the default estimator, row by row, and of an amortised explainer.

    Args:
        value: the value function.
        x: rows, explained one after the other.
        outputs: how many of the most probable classes of each.
        budgets: values of v for a row.
        reference: values of v behind the reference, of another seed.
        explainer: of the value function; None for the estimator alone.

    Returns:
        by budget, the mean relative error and the median of the seconds for a row.
    """
    estimate = partial(ms.auto_shapley, value, outputs=outputs)
    ways = {f"{budget} values": partial(estimate, evaluations=budget) for budget in budgets}
    if explainer is not None:
        ways["amortized"] = partial(
            ms.amortized_shapley, value, explainer=explainer, outputs=outputs
        )
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for row in x.split(1):
        long = estimate(row, evaluations=reference, seed=1)
        for name, way in ways.items():
            short, seconds = timed(partial(way, row))
            found[name].append((relative_error(short, long), seconds))
    return {
        name: {
            "relative error": mean(error for error, _ in of_rows),
            "seconds": median(seconds for _, seconds in of_rows),
        }
        for name, of_rows in found.items()
    }
