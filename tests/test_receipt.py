"""The measured error of an explanation: against known errors, by noisy and by exact references."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.estimators.audited import _chosen, _count
from manifold_shap.receipt import Receipt, merged

ROWS = torch.randn(400, 4, generator=torch.Generator().manual_seed(0))
BIAS, SPREAD = torch.tensor([0.3, 0.0, -0.2, 0.0]), 0.1
MANY = torch.randn(24, 20, generator=torch.Generator().manual_seed(1))
TWO_PAIRS = partial(ms.permutation_shapley, permutations=4)


def game(x: Tensor, mask: Tensor) -> Tensor:
    kept = x[:, None] * mask
    return torch.stack((kept.sum(-1), kept.prod(-1) + kept.cumsum(-1).tanh().sum(-1)), dim=-1)


def hasty(value: Any, x: Tensor, seed: int = 0) -> ms.Explanation:
    """Exact values with known errors: a bias by player, and noise."""
    found = ms.exact_shapley(value, x)
    noise = torch.randn(found.phi.shape, generator=torch.Generator().manual_seed(seed))
    phi = found.phi + BIAS[: len(found.players), None] + SPREAD * noise
    unknown = torch.full_like(phi, torch.nan)
    made_by = {**found.made_by, "estimator": "hasty"}
    return ms.Explanation(
        phi, unknown, found.base, found.prediction, found.x, found.players, found.outputs,
        found.space, made_by=made_by,
    )  # fmt: skip


@pytest.fixture(scope="module")
def explained() -> ms.Explanation:
    return hasty(game, ROWS)


@pytest.fixture(scope="module")
def truth() -> ms.Explanation:
    return ms.exact_shapley(game, ROWS)


# What is measured.


def test_of_all_rows_an_exact_reference_finds_the_very_errors(
    explained: ms.Explanation, truth: ms.Explanation
) -> None:
    receipt = ms.audit(explained, game, rows=len(ROWS))
    away = (explained.phi - truth.phi).double()
    assert receipt.rows == len(ROWS)
    assert receipt.reference == "exact"
    torch.testing.assert_close(receipt.bias().estimate, away.mean(0))
    torch.testing.assert_close(receipt.mean_squared_error().estimate, away.square().mean(0))
    relative = away.square().sum() / truth.phi.double().square().sum()
    torch.testing.assert_close(receipt.relative_error().estimate, relative.sqrt())


def test_intervals_are_those_of_means_over_rows(
    explained: ms.Explanation, truth: ms.Explanation
) -> None:
    from scipy import stats

    few = [3, 50, 70, 200, 399]
    receipt = ms.audit(explained[few], game, rows=5)
    away = (explained.phi - truth.phi).double()[few]
    for measured, sample in (
        (receipt.bias(0.9), away),
        (receipt.mean_squared_error(0.9), away.square()),
    ):
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


@pytest.mark.parametrize("reference", [ms.exact_shapley, TWO_PAIRS])
def test_intervals_hold_the_errors_of_all_rows(
    explained: ms.Explanation, truth: ms.Explanation, reference: Any
) -> None:
    """Of 80 samples of 60 rows, 95 % intervals hold the truth about 95 times in a hundred."""
    away = (explained.phi - truth.phi).double()
    relative = (away.square().sum() / truth.phi.double().square().sum()).sqrt()
    held = {"bias": 0.0, "error": 0.0, "relative": 0.0}
    times = 80
    for seed in range(times):
        receipt = ms.audit(explained, game, rows=60, reference=reference, seed=seed)
        for name, measured, true in (
            ("bias", receipt.bias(), away.mean(0)),
            ("error", receipt.mean_squared_error(), away.square().mean(0)),
            ("relative", receipt.relative_error(), relative),
        ):
            inside = (measured.low <= true) & (true <= measured.high)
            held[name] += inside.double().mean().item() / times
    # Rows are drawn without replacement, 60 of 400, so that they hold a little more often.
    assert 0.9 < held["bias"] <= 0.99
    assert 0.87 < held["error"] <= 1.0
    assert 0.87 < held["relative"] <= 1.0


def test_a_known_bias_is_found_and_none_is_made_up(explained: ms.Explanation) -> None:
    low, high = ms.audit(explained, game, rows=300, reference=TWO_PAIRS).bias(0.999)[1:]
    for player, bias in enumerate(BIAS):
        assert bool(((low[player] < bias) & (bias < high[player])).all())
    assert bool((low[0] > 0).all())
    assert bool((high[2] < 0).all())


def test_more_players_than_can_be_enumerated() -> None:
    def value(x: Tensor, mask: Tensor) -> Tensor:
        return (x[:, None] * mask).sum(-1, keepdim=True)

    found = ms.permutation_shapley(value, MANY, permutations=2)
    found = ms.Explanation(
        found.phi * 1.1, found.standard_error, found.base, found.prediction, found.x,
        found.players, found.outputs, found.space,
    )  # fmt: skip
    receipt = ms.audit(found, value, rows=24)
    assert receipt.reference == "permutation"
    torch.testing.assert_close(
        receipt.relative_error().estimate, torch.tensor(0.1).double(), atol=1e-4, rtol=0
    )


# Parts, plain data and frames.


def test_receipts_of_parts_add_up(explained: ms.Explanation) -> None:
    parts = [explained[:150], explained[150:]]
    first, second = (ms.audit(part, game, rows=len(part.phi)) for part in parts)
    known = json.loads(json.dumps(merged(first.to_dict(), second.to_dict())))
    whole, both = ms.audit(explained, game, rows=400), Receipt.from_dict(known)
    assert both.rows == 400
    for key, each in whole.sums.items():
        torch.testing.assert_close(both.sums[key], each)
    assert known["relative_error"] == pytest.approx(whole.relative_error().estimate.item())


def test_receipts_of_other_games_do_not_add_up(explained: ms.Explanation) -> None:
    one = ms.audit(explained, game, rows=3)
    other = ms.audit(explained, game, rows=3, reference=TWO_PAIRS)
    with pytest.raises(ValueError, match=r"^Expected receipts of the same players and outputs"):
        one + other


def test_one_row_has_no_interval(explained: ms.Explanation) -> None:
    known = ms.audit(explained[7], game).to_dict()
    assert known["rows"] == 1
    assert known["relative_error"] > 0
    assert known["interval"] == [None, None]
    assert "NaN" not in json.dumps(known)


def test_frames_have_bias_and_error_with_their_ends(explained: ms.Explanation) -> None:
    frame = ms.audit(explained, game, rows=50).to_frame()
    assert list(frame.columns) == [
        "bias", "bias_low", "bias_high", "error", "error_low", "error_high",
    ]  # fmt: skip
    assert frame.index.names == ["player", "output"]
    assert len(frame) == 4 * 2
    assert (frame.error_low <= frame.error).all()


# Estimators with a receipt.


def test_an_audited_estimator_gives_the_same_values() -> None:
    plain = hasty(game, ROWS, seed=5)
    found = ms.audited_shapley(game, ROWS, estimator=hasty, share=0.1, seed=5)
    assert torch.equal(found.phi, plain.phi)
    receipt = found.receipt
    assert receipt is not None
    assert receipt.rows == 40
    assert plain.receipt is None
    assert found.made_by["audited_share"] == 0.1
    assert found.made_by["estimator"] == "hasty"


def test_evaluations_and_the_batch_size_are_those_of_the_estimator() -> None:
    audited = partial(ms.audited_shapley, estimator=ms.permutation_shapley, share=0.1)
    found = audited(game, ROWS, evaluations=24, batch_size=50)
    assert found.made_by["evaluations"] == 24 * len(ROWS)
    assert torch.equal(found.phi, ms.permutation_shapley(game, ROWS, evaluations=24).phi)
    with pytest.raises(TypeError, match="evaluations"):
        ms.audited_shapley(game, ROWS, estimator=hasty, share=0.1, evaluations=24)


def test_shares_of_a_row_are_right_in_the_mean() -> None:
    counts = [_count(10, 0.125, seed) for seed in range(400)]
    assert set(counts) == {1, 2}
    assert 1.15 < sum(counts) / 400 < 1.35
    assert _count(10, 0.0, 3) == 0
    assert _count(10, 1.0, 3) == 10


def test_every_row_is_chosen_as_often() -> None:
    often = torch.zeros(10)
    for seed in range(1000):
        chosen = _chosen(10, 3, seed)
        assert len(set(chosen)) == 3
        often[chosen] += 1
    assert bool(((often - 300).abs() < 75).all())


def test_streamed_rows_have_one_receipt(tmp_path: Path) -> None:
    for share in (0.25, 1.0):
        estimator = partial(ms.audited_shapley, estimator=hasty, share=share)
        ms.explain_rows(tmp_path / "rows", game, ROWS, estimator, block=64)
        found = ms.Explanation.load(tmp_path / "rows")
        assert found.receipt is not None
        assert found.receipt.rows == share * 400
    whole = ms.audit(found, game, rows=400)
    for key, each in whole.sums.items():
        torch.testing.assert_close(found.receipt.sums[key], each)


def test_a_receipt_survives_an_interruption(tmp_path: Path) -> None:
    class Stops:
        calls = 0

        def __call__(self, value: Any, x: Tensor, seed: int = 0) -> ms.Explanation:
            Stops.calls += 1
            if Stops.calls == 4:
                raise KeyboardInterrupt
            return ms.audited_shapley(value, x, estimator=hasty, share=0.5, seed=seed)

    ms.explain_rows(
        tmp_path / "whole", game, ROWS, partial(ms.audited_shapley, estimator=hasty, share=0.5),
        block=64,
    )  # fmt: skip
    for resume in (False, True):
        if resume:
            ms.explain_rows(tmp_path / "cut", game, ROWS, Stops(), block=64, resume=True)
        else:
            with pytest.raises(KeyboardInterrupt):
                ms.explain_rows(tmp_path / "cut", game, ROWS, Stops(), block=64)
    whole, cut = (ms.Explanation.load(tmp_path / name).made_by for name in ("whole", "cut"))
    assert whole["receipt"] == cut["receipt"]


def test_half_precision_is_part_of_the_error(tmp_path: Path) -> None:
    few: Any = {"max_epochs": 1, "trainer": {"accelerator": "cpu", "limit_train_batches": 3}}
    value = ms.fit_surrogate(lambda x: x[:, :2].softmax(-1), ROWS, hidden=[16], **few)
    half = value.in_precision("bf16-mixed")
    found = ms.exact_shapley(half, ROWS[:50])
    assert found.made_by["precision"] == "bf16-mixed"
    error = ms.audit(found, half, rows=50).relative_error()
    true = ms.exact_shapley(value, ROWS[:50]).phi
    away = ((found.phi - true).square().sum() / true.square().sum()).sqrt()
    assert away > 1e-4
    torch.testing.assert_close(error.estimate, away.double(), rtol=1e-3, atol=0)
    selected = half.select([0])
    ms.audit(ms.exact_shapley(selected, ROWS[:5]), selected)


# Errors.


def test_references_with_a_bias_are_refused(explained: ms.Explanation) -> None:
    with pytest.raises(ValueError, match=r"^Expected a `reference` without bias but got 'kernel'"):
        ms.audit(explained, game, rows=5, reference=partial(ms.kernel_shapley, evaluations=12))


def test_references_with_unknown_errors_are_refused(explained: ms.Explanation) -> None:
    one_pair = partial(ms.permutation_shapley, permutations=2)
    with pytest.raises(ValueError, match=r"^Expected a `reference` with known standard errors"):
        ms.audit(explained, game, rows=5, reference=one_pair)


def test_other_value_functions_are_refused(explained: ms.Explanation) -> None:
    with pytest.raises(ValueError, match=r"^Expected the value function that was .* predictions"):
        ms.audit(explained, lambda x, mask: 2 * game(x, mask), rows=5)
    with pytest.raises(ValueError, match=r"^Expected the value function that was .* outputs"):
        ms.audit(explained, lambda x, mask: game(x, mask)[..., :1], rows=5)


@pytest.mark.parametrize("share", [-0.1, 1.5])
def test_shares_are_from_none_to_all(share: float) -> None:
    with pytest.raises(ValueError, match=r"^Expected `share` to be a finite number of at least 0"):
        ms.audited_shapley(game, ROWS, estimator=hasty, share=share)
