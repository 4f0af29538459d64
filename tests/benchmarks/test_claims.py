"""Claims of papers are decided by figures: others than those stored turn their verdicts."""

import copy
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest

from benchmarks import reproduce
from benchmarks.papers import (
    one_against_rest,
    pixels,
    several_models,
    splices,
    table1,
    two_forests,
)

Change = Callable[[dict[str, Any]], object]
VAE, MODELS = table1.VAE, f"{several_models.LOGISTIC}, {several_models.BOOSTED}"
TRACK, WOMAN = "correlation with retraining", ("forests", two_forests.CANCER)


@cache
def stored(name: str) -> dict[str, Any]:
    return reproduce.stored(f"papers/{name}")["found"]


def put(*path: Any, to: Any) -> Change:
    """Another figure at this place, or what a function makes of the one there."""

    def change(found: Any) -> None:
        for key in path[:-1]:
            found = found[key]
        found[path[-1]] = to(found[path[-1]]) if callable(to) else to

    return change


def mse(name: str, method: str, *figures: float) -> Change:
    some = [{"mse": mse, "debiased": mse, "error_over_rows": 0.001} for mse in figures]
    return put(name, "scores", method, to=some)


TURNED = put("told", "exact", to=lambda told: [
    dict(zip(one, reversed(one.values()), strict=True)) for one in told
])  # fmt: skip
# Which verdicts turn, by their positions, when some of the stored figures are others.
CASES: list[tuple[str, list[int], Sequence[Change]]] = [
    ("table1", [0], [mse("mnist", VAE, 0.044, 0.046)]),
    ("suppressed", [0], [put("chosen", "agree", to=0.97)]),
    ("retraining", [0], [put("tracking", TRACK, "off manifold", to=[0.9999, 0.0])]),
    ("outliers", [0], [put("forests", to=lambda some: [one | {"misjudged": 0} for one in some])]),
    ("one_outlier", [0], [put("lead", to=[1.0, 2.9])]),
    ("splices", [0], [put("distance", splices.OFF, 2, to=[7.0, 0.1])]),
    ("one_against_rest", [0], [put("lowest", one_against_rest.APART, to=[0.1, 0.0])]),
    ("two_forests", [0, 5], [put(*WOMAN, "prediction", to=0.57), put(*WOMAN, "base", to=0.03)]),
    ("negative", [0], [put("decision tree", "off manifold", "phi", 1, to=0.02)]),
    ("pixels", [0], [lambda found: found["curves"][pixels.ON].update(found["curves"][pixels.OFF])]),
    ("categories", [0], [put("tried", "copula", "moved by other numbers", to=[0.13, 0.005])]),
    ("several_models", [0], [lambda found: [
        split["between models"]["causal"].update({MODELS: 0.09})
        for split in found["splits"]]]),
    ("naive_bayes_figures", [0],
     [put("adult", "rows", "0.99", "phi of near rows", to=lambda some: [[-1.0, 0.1]] * len(some))]),
    ("compositions", [0, 2], [TURNED]),
]  # fmt: skip


def verdicts(name: str, found: dict[str, Any]) -> list[bool]:
    claims = reproduce.experiment(f"papers/{name}").claims(found)
    assert len({claim.text for claim in claims}) == len(claims)
    assert all(claim.paper and claim.ours for claim in claims)
    return [claim.holds for claim in claims]


@pytest.mark.parametrize(("name", "turned", "changes"), CASES)
def test_other_figures_turn_a_verdict(
    name: str, turned: list[int], changes: Sequence[Change]
) -> None:
    found = copy.deepcopy(stored(name))
    for change in changes:
        change(found)
    both = zip(verdicts(name, stored(name)), verdicts(name, found), strict=True)
    assert [number for number, (before, after) in enumerate(both) if before != after] == turned
