"""Imputers that complete from chosen rows: one reference point, or those to compare against."""

from typing import Any

from manifold_shap._checks import check_rows, to_tensor
from manifold_shap.imputers.marginal import MarginalImputer
from manifold_shap.players import Players


class BaselineImputer(MarginalImputer):
    """Absent features take the values of one reference point, e.g. the mean or a blank image.

    v(∅) is the model's output there, and one draw is exact.

    Args:
        point: `[*event]`, one row without a batch axis.
        players: who plays; by default every element of the point on its own.

    Raises:
        TypeError, ValueError: `point` is no tensor or array of finite numbers of the shape that
            `players` own.
    """

    name = "baseline"

    def __init__(self, point: Any, players: Players | None = None) -> None:
        row = to_tensor(point, "point")
        players = players or Players.of_elements(row.shape)
        if row.ndim == 0 or tuple(row.shape) != players.event:
            raise ValueError(
                f"Expected `point` of shape ({', '.join(map(str, players.event)) or '*event'}), "
                f"one row without a batch axis, but got {tuple(row.shape)}; take one as `x[0]`."
            )
        super().__init__(check_rows(row[None], players, "point"), players)


class ContrastiveImputer(MarginalImputer):
    """Absent features come from rows to compare against: why this outcome, and not theirs?

    v(∅) is the mean output over these rows, so a row's Shapley values share out its difference
    from them. With as many draws as there are rows, or a multiple, values are exact.

    Args:
        rows: `[rows, *event]`, e.g. those of another class, or a single one as `x[:1]`.
        players: who plays; by default every element of a row on its own.

    Raises:
        TypeError, ValueError: `rows` is no tensor or array of finite rows of the shape that
            `players` own.
    """

    name = "contrastive"

    def __init__(self, rows: Any, players: Players | None = None) -> None:
        tensor = to_tensor(rows, "rows")
        players = players or Players.of_elements(tensor.shape[1:])
        super().__init__(check_rows(tensor, players, "rows"), players)
