"""Says an explanation in few lines: its first rows, with what contributes most to each."""

import math
from html import escape
from typing import TYPE_CHECKING

import pandas as pd
import torch

from manifold_shap import shown
from manifold_shap.learning_error import total_error
from manifold_shap.tables.features import as_text

if TYPE_CHECKING:
    from manifold_shap.explanation import Explanation

_ROWS = 5
_PLAYERS = 3
_LONGEST = 40
_NONE = "no rows"


def text(explanation: "Explanation", title: str) -> str:
    """A title, and a table of the first rows."""
    if len(explanation.phi) == 0:
        return f"{title}\n{_NONE}"
    table = _table(explanation)
    columns = [["", *table.index], *([name, *table[name]] for name in table)]
    padded = [[cell.ljust(max(map(len, column))) for cell in column] for column in columns]
    rows = ["  ".join(cells).rstrip() for cells in zip(*padded, strict=True)]
    return "\n".join([title, *rows, *_more(explanation)])


def html(explanation: "Explanation", title: str) -> str:
    """The same for a notebook."""
    if len(explanation.phi) == 0:
        return f"<div><p>{escape(title)}</p><p>{_NONE}</p></div>"
    end = "".join(f"<p>{words}</p>" for words in _more(explanation))
    return f"<div><p>{escape(title)}</p>{_table(explanation).to_html()}{end}</div>"


def _table(explanation: "Explanation") -> pd.DataFrame:
    """A line for each of the first rows, all of it text."""
    some = explanation[: min(_ROWS, len(explanation.phi))]
    output = shown.outputs_of_rows(some).tolist()
    lines = {
        "output": [some.outputs[k] for k in output],
        "prediction": [
            shown.amount(some, some.prediction[row, k].item()) for row, k in enumerate(output)
        ],
        "base": [shown.amount(some, some.base[row, k].item()) for row, k in enumerate(output)],
        "largest contributions": _contributions(some, output),
    }
    if len(explanation.outputs) == 1:
        del lines["output"]
    return pd.DataFrame(lines, index=list(map(as_text, some.instances)))


def _contributions(some: "Explanation", output: list[int]) -> list[str]:
    """The largest of each row, as in "age = 70: +0.31 ± 0.02, height = 1.8: -0.1"."""
    values, errors = some.features(), total_error(some)
    lines = []
    for row, k in enumerate(output):
        phi, error = some.phi[row, :, k], errors[row, :, k]
        largest = phi.abs().nan_to_num(-1).argsort(descending=True, stable=True)
        parts = []
        said = iter(shown.signed(phi[largest][torch.isfinite(phi[largest])].tolist()))
        for player in largest[torch.isfinite(phi[largest])][:_PLAYERS].tolist():
            known = "" if values is None else f" = {as_text(values.iat[row, player])}"
            margin = error[player].item()
            around = f" ± {margin:.2g}" if math.isfinite(margin) and margin > 0 else ""
            name = f"{some.players.names[player]}{known}"
            name = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
            parts.append(f"{name}: {next(said)}{around}")
        lines.append(", ".join(parts))
    return lines


def _more(explanation: "Explanation") -> list[str]:
    left = len(explanation.phi) - _ROWS
    more = [f"and {left} more row{'s' if left > 1 else ''}"] if left > 0 else []
    unknown = explanation.standard_error.isnan() & explanation.phi.isfinite()
    return [*more, "standard errors are unknown"] if bool(unknown.any()) else more
