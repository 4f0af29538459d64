"""Decides what print, figures, reports and exports show of an explanation, and writes its numbers.

They all ask here, so that a row has one output and a number one wording wherever it is shown.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap._arrays import pandas_columns
from manifold_shap._checks import check_whole
from manifold_shap.values.selected import output_position

if TYPE_CHECKING:
    import pandas as pd

    from manifold_shap.explanation import Explanation

# Numbers that may stand behind the name of a player of a tensor; those of a patch are noise.
_CELLS = 4


def has_two_classes(explanation: "Explanation") -> bool:
    """Whether outputs are the probabilities of two classes, so that one has the sign of both."""
    return (
        explanation.space.on_simplex and len(explanation.outputs) == 2 and not explanation.selected
    )


def outputs_of_rows(
    explanation: "Explanation", output: str | int | None = None
) -> Int64[Tensor, " instances"]:
    """The position of the output to show of each row: of `output`, or by default.

    By default it is the second of two classes and, of more, the most probable one; among outputs
    that are no probabilities, the one that the row moves furthest from the base.
    """
    return top_outputs(explanation, output, 1)[:, 0]


def top_outputs(
    explanation: "Explanation", output: str | int | Sequence[str | int] | None, top: int
) -> Int64[Tensor, "instances outputs"]:
    """The outputs to show of each row: those named, or so many, the first as `outputs_of_rows`.

    Raises:
        ValueError: no such output, or both names and a number of them.
    """
    outputs, rows = explanation.outputs, len(explanation.phi)
    if output is None:
        check_whole("top", top, 1, len(outputs))
        return _weight(explanation).argsort(dim=1, descending=True, stable=True)[:, :top]
    names = [output] if isinstance(output, str | int | np.integer) else list(output)
    if top != 1 or not names:
        raise ValueError(
            f"Expected names of outputs, or how many of the `top` ones, but got `top={top}` and "
            f"`output={output!r:.100}`; leave one of the two out."
        )
    positions = [output_position("output", name, outputs) for name in names]
    return torch.tensor(positions).expand(rows, -1)


def _weight(explanation: "Explanation") -> Float[Tensor, "instances outputs"]:
    if has_two_classes(explanation):
        return torch.tensor([0.0, 1.0]).expand_as(explanation.prediction)
    if explanation.space.on_simplex:
        return explanation.prediction
    return (explanation.prediction - explanation.base).abs()


def output_of_all(explanation: "Explanation", output: str | int | None = None) -> tuple[int, str]:
    """The output to show of all rows together, and why this one where that may not be clear.

    By default it is the second of two classes and, of more, the one that is predicted for the most
    rows; among outputs that are no probabilities, the one with the largest mean |phi|.
    """
    outputs = len(explanation.outputs)
    if output is not None:
        return output_position("output", output, explanation.outputs), ""
    if outputs == 1 or has_two_classes(explanation):
        return outputs - 1, ""
    if not explanation.space.on_simplex:
        moved = int(explanation.phi.abs().nanmean((0, 1)).argmax())
        return moved, f"1 of {outputs} outputs, the most moved"
    predicted = explanation.prediction.argmax(1).bincount(minlength=outputs)
    k = int(predicted.argmax())
    return k, f"1 of {outputs} outputs, predicted for {count(int(predicted[k]), 'row')}"


def quantity(explanation: "Explanation", output: int) -> str:
    """What the Shapley values of one output share out, without its unit."""
    label = explanation.space.label(explanation.outputs[output])
    label = label.removesuffix(f" ({unit(explanation)})")
    return f"output {label}" if label.isdigit() else label


def unit(explanation: "Explanation") -> str:
    """The unit of a regression that has one, such as "EUR"; nothing else."""
    return str(explanation.space.settings.get("unit", ""))


def amount(explanation: "Explanation", value: float) -> str:
    """A base or a prediction, with its unit."""
    said = explanation.space.amount(value) or number(value)
    return f"{said} {unit(explanation)}".rstrip()


def base_of(explanation: "Explanation") -> str:
    """What the base is the model's answer to: "an empty text" where absent words are deleted.

    Elsewhere it is an average, and there is no word for it.
    """
    deleted = explanation.made_by.get("value_function") == "deletion"
    return "an empty text" if deleted else ""


def of_errors(
    explanations: Sequence["Explanation"], errors: Float[Tensor, " errors"], mark: str
) -> str:
    """What the errors that a print or a figure shows are of, and what they leave out.

    Args:
        explanations: that are shown.
        errors: those of sampling, with those of learning where they were estimated.
        mark: what is drawn or printed of them.
    """
    learned, exact = "", ""
    estimated = [each.model_error is not None for each in explanations]
    if any(estimated):
        learned = " and learning" if all(estimated) else ", and of learning where it was estimated"
    elif any(each.made_by.get("learned") for each in explanations):
        learned = ", that of learning, often larger, not included"
        exact = (
            "exact sums; the error of learning is unknown: halves= of an Explainer, or "
            "ms.with_learning_error, estimates it"
        )
    unknown, said = errors.isnan(), list[str]()
    if bool((errors > 0).any()):
        said.append(f"{mark} of sampling{learned}")
    if bool(unknown.any()):
        said.append(f"{'' if bool(unknown.all()) else 'some '}errors of sampling unknown")
    return "; ".join(said) if said or not len(errors) else exact


def unmeasured(made_by: Mapping[str, Any]) -> str:
    """That the error of a learned value function of groups is not known, where it is not."""
    known = made_by.get("quality") or "grouped" not in made_by or not made_by.get("learned")
    measured = "`ms.metrics.mean_squared_error(explained_value, x)` measures it"
    return "" if known else f"has an unknown error for these players; {measured}"


def has_words(explanation: "Explanation") -> bool:
    """Whether rows are texts, whose words an `Explainer` has explained."""
    if isinstance(explanation.x, Tensor) or not explanation.players.by_row:
        return False
    return pandas_columns(explanation.x).columns[0] in ("word 1", "sentence 1")


def noun(explanation: "Explanation") -> str:
    """What a player is called: "word" or "token" where players differ by row, else "feature"."""
    players = explanation.players
    numbered = players.by_row and re.fullmatch(r"(\w+) \d+", players.names[0])
    return numbered[1] if numbered else "feature"


def players_with_values(
    explanation: "Explanation", row: int, players: Sequence[int], room: int = 40
) -> list[str]:
    """`name = value` of some players of a row, at most so many letters each."""
    from manifold_shap.tables.features import as_text, row_text

    found = []
    for player, cells in zip(players, explanation[[row]].columns(players), strict=True):
        said = explanation.players.names[player]
        if cells.shape[1] == 1:
            said = f"{said} = {as_text(cells.iat[0, 0])}"
        elif cells.shape[1] <= _CELLS or not isinstance(explanation.x, Tensor):
            # A group of columns has all of them: "size: Area = 3.1, Perimeter = 7".
            said = ": ".join(filter(None, (said, row_text(cells, 0))))
        found.append(shorten(re.sub(r"(?<= )-(?=\d)", "−", said), room))
    return found


def kinds(explanation: "Explanation") -> list[str]:
    """What distinguishes the values from ordinary ones: "asymmetric" (restricted orders), "causal".

    >>> import manifold_shap as ms
    >>> x = torch.tensor([[1.0, -2.0], [3.0, 1.0]])
    >>> value = lambda x, mask: (x[:, None] * mask).sum(-1, True)
    >>> explanation = ms.permutation_shapley(value, x, ordering=[["x0"], ["x1"]])
    >>> kinds(explanation)
    ['asymmetric']
    """
    named = {"ordering": "asymmetric", "causal_ordering": "causal"}
    return [kind for key, kind in named.items() if key in explanation.made_by]


def number(value: float) -> str:
    """About three significant digits, and no exponent where none is needed."""
    if not math.isfinite(value):
        return str(value)
    digits = f"{value:.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.3g}"
    return digits.replace("-", "−")


def signed(values: Sequence[float]) -> list[str]:
    """Numbers with their signs and the same decimals, three significant digits of the largest.

    What is zero to these decimals has no sign. Where decimals would be many, each has an exponent.

    >>> signed([0.0795, -0.00495, -0.00002])
    ['+0.0795', '−0.0050', '0.0000']
    >>> signed([2.18e-10, -9e12])
    ['+2.18e−10', '−9.00e+12']
    """
    largest = max((abs(value) for value in values), default=0.0)
    decimals = 2 - math.floor(math.log10(largest)) if largest > 0 else 0
    if -5 < decimals <= 6:
        texts = [f"{value:+.{max(decimals, 0)}f}" for value in values]
    else:
        texts = [f"{value:+.2e}" for value in values]
    return [(text if float(text) else text[1:]).replace("-", "−") for text in texts]


def with_error(value: float, error: float, sign: str = "") -> str:
    """Both to two digits of the error, if that is known, not zero, and shows in six digits.

    With `sign="+"` positive values have one.

    >>> with_error(0.0171, 0.0011), with_error(-4738.0, 310.0, "+"), with_error(0.3, 1e-9)
    ('0.0171 ± 0.0011', '−4738 ± 310', '0.3')
    >>> with_error(2.18e-10, 3e-12, "+"), with_error(-0.001, 0.2, "+")
    ('+2.180e−10 ± 3.0e−12', '0.00 ± 0.20')
    """
    if not (math.isfinite(value) and math.isfinite(error) and error > 0):
        return number(value)
    # Places of the last digit and of the first, as powers of ten.
    last = math.floor(math.log10(error)) - 1
    digits = math.floor(math.log10(max(abs(value), error))) - last
    if digits > 5:
        return number(value)
    forms = [f".{max(-last, 0)}f"] * 2 if -6 <= last <= 6 else [f".{digits}e", ".1e"]
    text, margin = f"{value:{sign}{forms[0]}}", f"{error:{forms[1]}}"
    text = text if float(text) else text.lstrip("+-")
    return f"{text} ± {margin}".replace("-", "−")


def count(many: int, what: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{many} {what}" if many == 1 else f"{many} {what}s"


def bare(words: "pd.Series") -> "pd.Series":
    """Words in small letters and without the punctuation around them; bare marks as they are.

    >>> import pandas as pd
    >>> bare(pd.Series(["Great,", "isn't", "?"])).tolist()
    ['great', "isn't", '?']
    """
    found = words.str.lower().str.replace(r"^\W+|\W+$", "", regex=True)
    return found.where(found != "", words)


def by_word(words: "pd.Series", values: Float[Tensor, "several rows players"]) -> "pd.DataFrame":
    """Means over the places of each word, whatever its capitals and punctuation, the largest first.

    The standard error is that of texts, not of places, which a text makes alike: Σ (Σ of a text's
    deviations)² / count², times t / (t - 1) for t texts; NaN of one. What rounding leaves is 0.

    Args:
        words: as they are written, by row and player.
        values: of one explanation or several.

    Returns:
        Columns `mean`, `standard_error` and `count`, each of every explanation.
    """
    import pandas as pd

    said = bare(words).to_numpy()
    rows, players = (words.index.get_level_values(level).tolist() for level in (0, 1))
    places = pd.DataFrame(values[:, rows, players].T.double().numpy())
    by = places.groupby(said)
    of_texts = (places - by.transform("mean")).groupby([said, rows]).sum().pow(2).groupby(level=0)
    mean, count, texts = by.mean(), by.count(), of_texts.count()
    error = (of_texts.sum() * texts / (texts - 1)).pow(0.5).where(texts > 1) / count
    least = torch.finfo().eps * mean.abs().max()
    mean, error = (each.mask(each.abs() < least, 0.0) for each in (mean, error))
    found = pd.concat({"mean": mean, "standard_error": error, "count": count}, axis=1)
    first: Any = ("mean", 0)
    return found.sort_values(first, key=abs, ascending=False, kind="stable")


def shorten(text: str, most: int = 30) -> str:
    """On one line and at most so many characters, by an ellipsis two thirds along.

    Long names tend to differ at their ends, so the end is kept.
    """
    text = " ".join(text.split())
    if len(text) <= most:
        return text
    head = 2 * most // 3
    return f"{text[:head].rstrip()}…{text[len(text) - max(most - head - 1, 0) :].lstrip()}"
