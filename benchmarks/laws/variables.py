"""Describes the variables of a discrete Bayesian network, and checks that they make one."""

from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

import torch
from jaxtyping import Bool
from torch import Tensor

from manifold_shap._checks import check_distinct
from manifold_shap._messages import shown
from manifold_shap.oracles.base import Rows

# By how much the sum of a distribution may be off 1: public files round their numbers.
_ROUNDING = 1e-4


class Variable(NamedTuple):
    """A variable, its states, and its probabilities given its parents.

    >>> Variable("rain", ("yes", "no")).states  # Both states are equally probable.
    ('yes', 'no')

    Attributes:
        name: of the variable.
        states: names of its states.
        parents: names of the variables that it depends on.
        table: P(state | states of the parents), `[*states of parents, states]`; None for a variable
            without parents whose states are equally probable.
    """

    name: str
    states: tuple[str, ...]
    parents: tuple[str, ...] = ()
    table: Tensor | None = None


def check_network(variables: Sequence[Variable]) -> tuple[Variable, ...]:
    """The same variables, with tables in float64 that sum to one exactly.

    Raises:
        ValueError: a name, a state or a parent that occurs twice, a parent that is none of the
            variables, a cycle, or a table of another shape, with negative numbers, or that does not
            sum to one.

    >>> two = (Variable("a", ("x", "y"), ("b",)), Variable("b", ("x", "y"), ("a",)))
    >>> check_network(two)
    Traceback (most recent call last):
    ValueError: Expected a network without cycles but ['a', 'b', 'a'] depend on one another...
    """
    check_distinct([each.name for each in variables], "names of variables", "rename one of them")
    by_name = {each.name: each for each in variables}
    for each in variables:
        check_distinct(each.states, f"states of {each.name!r}", "name each state once")
        check_distinct(each.parents, f"parents of {each.name!r}", "name each parent once")
        for parent in each.parents:
            if parent not in by_name:
                raise ValueError(
                    f"Expected the parents of {each.name!r} among the variables but {parent!r} is "
                    "not one."
                )
    try:
        TopologicalSorter({each.name: each.parents for each in variables}).prepare()
    except CycleError as error:
        raise ValueError(
            f"Expected a network without cycles but {shown(error.args[1])} depend on one another; "
            "take one of these arrows out."
        ) from None
    return tuple(
        each._replace(table=_checked(each, [len(by_name[p].states) for p in each.parents]))
        for each in variables
    )


def _checked(variable: Variable, above: Sequence[int]) -> Tensor:
    """The table, normalised."""
    name, states = variable.name, len(variable.states)
    if states == 0:
        raise ValueError(f"Expected {name!r} to have at least one state but it has none.")
    if variable.table is None and not above:
        return torch.full((states,), 1 / states, dtype=torch.float64)
    given = () if variable.table is None else variable.table
    table = torch.as_tensor(given, dtype=torch.float64)
    if tuple(table.shape) != (*above, states):
        raise ValueError(
            f"Expected a table of shape {(*above, states)} for {name!r}, states of its parents "
            f"{shown(variable.parents)} and then its own, but got {tuple(table.shape)}."
        )
    if bool(table.isnan().any()):
        place = tuple(table.isnan().nonzero()[0].tolist()[:-1])
        where = f" for the states {place} of {shown(variable.parents)}" * bool(place)
        raise ValueError(
            f"Expected probabilities of {name!r} for every state of its parents but there are none"
            f"{where}."
        )
    total = table.sum(-1, keepdim=True)
    wrong = ((total - 1).abs() > _ROUNDING) | (table < 0).any(-1, keepdim=True)
    if bool(wrong.any()):
        place = tuple(wrong.nonzero()[0].tolist()[:-1])
        where = f", for the states {place} of its parents {shown(variable.parents)}" * bool(place)
        raise ValueError(
            f"Expected probabilities of {name!r} that are not negative and sum to one but got "
            f"{table[place].tolist()}, which sum to {total[place].item():g}{where}."
        )
    return table / total


def check_states(
    x: Rows,
    present: Bool[Tensor, "batch elements"],
    sizes: Sequence[int],
    names: Sequence[str],
) -> None:
    """Present elements hold numbers of states, 0 to one below their `sizes`.

    Raises:
        ValueError: one does not.
    """
    most = torch.tensor(sizes, device=x.device)
    wrong = present & ((x < 0) | (x >= most) | (x != x.floor()))
    if bool(wrong.any()):
        row, column = wrong.nonzero()[0].tolist()
        raise ValueError(
            f"Expected a state of {names[column]!r} as a whole number from 0 to "
            f"{sizes[column] - 1} but got {x[row, column].item():g} in row {row}; "
            "`rows(frame)` makes numbers of the names of states."
        )
