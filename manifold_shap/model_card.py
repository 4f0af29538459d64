"""Words the `README.md` of a saved explainer: a model card, as the Hugging Face hub shows it."""

from collections.abc import Sequence

from manifold_shap._version import __version__
from manifold_shap.quality import OFF_MANIFOLD, Quality
from manifold_shap.values.base import ValueFunction

# Names that a table has, of players and of outputs: the others are in the folder.
_MOST = 20
_CARD = """\
---
library_name: manifold_shap
tags:
- manifold_shap
- shapley-values
- explainability
- tabular
---

# Shapley values on the data manifold

Explains the predictions of one model of tables. The value function v(S), the model's expected
prediction when only the columns in S are known, was chosen on held-out rows. Written by
`manifold_shap` {version}.

| | |
|---|---|
| value function | {chosen}, {why} |
| players ({players}) | {player_names} |
| outputs ({outputs}) | {output_names} |
| output space | {space} |
| the model | {model} |

## Measured quality

Mean squared error of v(S) on {rows} held-out rows, on which nothing was learned or chosen (Frye et
al. 2021, Eq. 16). Smaller is better, but 0 is out of reach: it holds what the known columns leave
open. `{off}` is the value function off the data manifold, which others should be better than.

| value function | error | share of that off the manifold | ± of the difference to the chosen |
|---|---|---|---|
{table}
{warning}
## Use

```python
import manifold_shap as ms

explainer = ms.Explainer.from_pretrained("this folder, or the name of the repository"{argument})
explanation = explainer(frame.head(10))
```

Loading runs no code from this folder, and checks that the model predicts what it did before.

## What it holds

The settings and the values of the training frame's cells (`explainer.json`), the weights of a
network or the rows that an imputer draws from, and a few rows to recognise the model by
(`tensors.safetensors`). **It is as confidential as that frame.** Shapley values explain the model,
not the world.

No license is stated: whoever publishes this adds a `license:` to the lines at the top.
"""


def model_card(value: ValueFunction, quality: Quality, model_file: str | None) -> str:
    """The text of a card, of figures that were measured alone.

    Args:
        value: the value function that was chosen.
        quality: of all candidates.
        model_file: the name of the model's file, where the folder has one.
    """
    names = sorted(quality.mse, key=lambda name: quality.mse[name])
    lines = [
        f"| {_code(name)}{' (chosen)' if name == quality.chosen else ''} | {quality.mse[name]:.4g} "
        f"| {quality.mse[name] / quality.off_manifold:.3f} | {quality.standard_error[name]:.2g} |"
        for name in names
    ]
    return _CARD.format(
        version=__version__,
        chosen=_code(quality.chosen),
        why=quality.why,
        players=len(value.players),
        player_names=_listed(value.players.names),
        outputs=len(value.outputs),
        output_names=_listed(value.outputs),
        space=_code(value.space.name),
        model="not here: pass it" if model_file is None else f"here, {_code(model_file)}",
        rows=quality.rows,
        off=OFF_MANIFOLD,
        table="\n".join(lines),
        warning=f"\n**Beware:** {quality.warning}.\n" if quality.warning else "",
        argument=", model" if model_file is None else "",
    )


def _listed(names: Sequence[str]) -> str:
    more = ", ..." if len(names) > _MOST else ""
    return ", ".join(map(_code, names[:_MOST])) + more


def _code(name: str) -> str:
    """A name as it is, which cannot end its cell of a table.

    >>> _code("a|b`c")
    "`a\\\\|b'c`"
    """
    return f"`{' '.join(name.split()).replace('`', chr(39)).replace('|', chr(92) + '|')}`"
