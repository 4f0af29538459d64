"""The measured error of an explanation: against known errors, by noisy and by exact references."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor

import manifold_shap as ms

ROWS = torch.randn(400, 4, generator=torch.Generator().manual_seed(0))
BIAS, SPREAD = torch.tensor([0.3, 0.0, -0.2, 0.0]), 0.1
TWO_PAIRS = partial(ms.permutation_shapley, permutations=4)


def game(x: Tensor, mask: Tensor) -> Tensor:
    kept = x[:, None] * mask
    return torch.stack((kept.sum(-1), kept.prod(-1) + kept.cumsum(-1).tanh().sum(-1)), dim=-1)


def hasty(value: Any, x: Tensor, seed: int = 0) -> ms.Explanation:
    """Exact values with known errors: a bias by player, and noise."""
    found = ms.exact_shapley(value, x)
    noise = torch.randn(found.phi.shape, generator=torch.Generator().manual_seed(seed))
    phi = found.phi + BIAS[: len(found.players), None] + SPREAD * noise
    made_by = {**found.made_by, "estimator": "hasty"}
    return replace(found, phi=phi, standard_error=phi * torch.nan, made_by=made_by)


@pytest.fixture(scope="module")
def explained() -> ms.Explanation:
    return hasty(game, ROWS)


@pytest.fixture(scope="module")
def truth() -> ms.Explanation:
    return ms.exact_shapley(game, ROWS)


def test_an_exact_reference_finds_the_very_errors_and_intervals_over_rows(
    explained: ms.Explanation, truth: ms.Explanation
) -> None:
    few = [3, 50, 70, 200, 399]
    found = ms.audit(explained[few], game, rows=5)
    away = (explained.phi - truth.phi).double()[few]
    assert (found.rows, found.reference) == (5, "exact")
    grouped = ms.as_value_function(game, ROWS).grouped(ms.Players("ab", [0, 0, 1, 1]))
    assert ms.audit(ms.exact_shapley(grouped, ROWS[few]), grouped).relative_error().estimate == 0
    relative = away.square().sum() / truth.phi[few].double().square().sum()
    torch.testing.assert_close(found.relative_error().estimate, relative.sqrt())
    for measured, sample in (
        (found.bias(0.9), away),
        (found.mean_squared_error(0.9), away.square()),
    ):
        torch.testing.assert_close(measured.estimate, sample.mean(0))
        error = stats.sem(sample.numpy(), axis=0)
        low, high = stats.t.interval(0.9, 4, sample.mean(0).numpy(), error)
        torch.testing.assert_close(measured.low, torch.from_numpy(low))
        torch.testing.assert_close(measured.high, torch.from_numpy(high))


def test_the_noise_of_the_reference_is_in_no_figure(truth: ms.Explanation) -> None:
    """Two pairs of orders are far off in each row, exact values are not off at all."""
    noisy = ms.audit(truth, game, rows=400, reference=TWO_PAIRS)
    sampled = TWO_PAIRS(game, ROWS)
    naive = (sampled.phi - truth.phi).square().sum() / truth.phi.square().sum()
    error = noisy.relative_error()
    assert naive.sqrt() > 0.05
    assert error.low == 0
    assert error.high < naive.sqrt() / 2
    bias = noisy.bias(0.999)
    assert bool(((bias.low <= 1e-6) & (bias.high >= -1e-6)).all())


@pytest.mark.parametrize("players", [2, 3, 4])
def test_a_few_players_with_drawn_values_have_an_audit(players: int) -> None:
    rows = ROWS[:, :players]
    value = ms.imputed_value(
        lambda x: x.sum(1, True), ms.imputers.GaussianImputer(rows), "identity", 4
    )
    found = ms.audit(ms.permutation_shapley(value, rows[:40], permutations=2), value, rows=20)
    assert found.to_frame().notna().all(axis=None)


def test_one_row_has_no_interval(explained: ms.Explanation) -> None:
    known = ms.audit(explained[7], game).to_dict()
    assert known["rows"] == 1
    assert known["relative_error"] > 0
    assert known["interval"] == [None, None]
    assert "NaN" not in json.dumps(known)


def test_streamed_rows_have_the_audit_of_all(tmp_path: Path) -> None:
    path, calls = tmp_path / "rows", iter(range(4))

    def stops(value: Any, x: Tensor, seed: int = 0) -> ms.Explanation:
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return hasty(value, x, seed)

    with pytest.raises(KeyboardInterrupt):
        ms.explain_rows(path, game, ROWS, stops, block=64, audit=400)
    assert ms.explain_rows(path, game, ROWS, hasty, block=64, audit=400, resume=True) == 400 - 192
    stored = ms.Explanation.load(path)
    whole = ms.audit(stored, game, rows=400)
    assert stored.audit is not None
    assert stored.audit.rows == 400
    assert stored.made_by["estimator"] == "hasty"
    for key, each in whole.sums.items():
        torch.testing.assert_close(stored.audit.sums[key], each)
    ms.explain_rows(path, game, ROWS, hasty, block=64, audit=60, overwrite=True)
    few = ms.Explanation.load(path)
    assert few.audit is not None
    assert few.audit.rows == 60
    assert torch.equal(few.phi, stored.phi)
    low, high = few.audit.bias(0.9999)[1:]
    assert bool(((low < BIAS[:, None]) & (BIAS[:, None] < high)).all())
    ms.explain_rows(path, game, ROWS, hasty, block=64, overwrite=True)
    assert ms.Explanation.load(path).audit is None


def test_the_ordering_and_the_basis_are_those_of_the_explanation(
    make_value: Callable[..., ms.ValueFunction],
) -> None:
    value, ordering = make_value("surrogate", "ilr"), [["x1", "x3"], ["x0", "x2"]]
    some = ROWS[:30] / 2
    found = ms.exact_shapley(value, some, ordering=ordering)
    assert ms.audit(found, value, rows=30).relative_error().estimate < 1e-5
    turned = found.in_basis([["2", "0"], "1"])
    assert ms.audit(turned, value, rows=30).relative_error().estimate < 1e-5
    assert ms.audit(found, value, rows=5, reference=ms.exact_shapley).relative_error()[0] < 1e-5
    grouped = ms.exact_shapley(value, some, ordering=ms.Ordering.of_groups(ordering, value.players))
    assert ms.audit(grouped, value, rows=5).relative_error().estimate < 1e-5


@pytest.mark.parametrize(
    ("value", "reference", "words"),
    [
        (game, partial(ms.kernel_shapley, evaluations=12), "`reference` without bias but got 'k"),
        (lambda x, mask: 2 * game(x, mask), None, "the value function that was .* predictions"),
    ],
)
def test_what_would_measure_something_else_is_refused(
    explained: ms.Explanation, value: Any, reference: Any, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        ms.audit(explained, value, rows=5, reference=reference)
