"""Digits on and off the manifold (Frye et al. 2021, Fig. 6): curves, and claims about them."""

from pathlib import Path
from typing import Any

import pytest
import torch
from sklearn.neural_network import MLPClassifier
from torch import Tensor

import manifold_shap as ms
from benchmarks.papers import pixels, report
from tests.benchmarks.test_reproduce import Small, save


def test_half_of_the_prediction_is_interpolated() -> None:
    sizes = torch.tensor([0, 10, 20, 40])
    assert pixels.half(sizes, torch.tensor([0.1, 0.3, 0.5, 0.9])) == pytest.approx(20)
    assert pixels.half(sizes, torch.tensor([0.0, 0.0, 0.0, 1.0])) == pytest.approx(30)
    # A value that falls does not count as gained.
    assert pixels.half(sizes, torch.tensor([0.0, 0.4, 0.2, 1.0])) == pytest.approx(20 + 20 / 6)
    # A prediction below the base.
    assert pixels.half(sizes, torch.tensor([1.0, 0.4, 0.2, 0.0])) == pytest.approx(50 / 6)


class Additive:
    """v(S) of class k: k times the sum of the present elements of the row."""

    players = ms.Players.of_elements((6,))

    def __init__(self) -> None:
        self.seen: list[Tensor] = []

    def __call__(self, x: Tensor, mask: Tensor, keys: Tensor) -> Tensor:
        self.seen.append(mask)
        assert keys.shape == mask.shape[:2]
        return (x[:, None] * mask).sum(-1, keepdim=True) * torch.arange(3)


def test_values_along_an_order_are_of_growing_coalitions_and_the_true_class() -> None:
    generator = torch.Generator().manual_seed(0)
    rows = pixels.BLOCK + 5
    x, y = torch.rand(rows, 6, generator=generator), torch.arange(rows) % 3
    sizes, first, second = torch.tensor([0, 1, 4, 6]), Additive(), Additive()
    v = pixels.along(first, x, y, sizes, seed=0)  # type: ignore[arg-type]
    pixels.along(second, x, y, sizes, seed=0)  # type: ignore[arg-type]
    mask = torch.cat(first.seen)
    assert (mask.sum(-1) == sizes).all()
    assert (mask[:, :-1] <= mask[:, 1:]).all()
    # Orders are rows' own, and the same for another value function.
    assert len(mask[:, 1].unique(dim=0)) == 6
    assert torch.equal(mask, torch.cat(second.seen))
    torch.testing.assert_close(v, (x[:, None] * mask).sum(-1).T * y)


def claims(counts: dict[str, float], on: list[float], off: list[float]) -> list[int]:
    """Those that fail, of one digit or more with these absolute values of its ten pixels."""
    found = {"on manifold": torch.tensor([on]), "off manifold": torch.tensor([off])}
    told = pixels.claims(counts, found)
    assert len(told) == 4
    return [number for number, claim in enumerate(told) if not claim.holds]


FEW = {"on manifold": 49.0, "off manifold": 100.0}
SPIKE, FLAT = [0.9] + 9 * [0.2], [0.3] + 9 * [0.1]


def test_what_the_paper_says_holds_of_figures_like_its_own() -> None:
    assert claims(FEW, on=SPIKE, off=FLAT) == []


@pytest.mark.parametrize(
    ("changes", "fails"),
    [
        ({"counts": {"on manifold": 50.0, "off manifold": 100.0}}, [0]),
        ({"on": [0.9] + 9 * [0.4]}, [1]),
        ({"off": [0.7] + 9 * [0.25]}, [2]),
        ({"off": [0.95] + 9 * [0.1], "on": [0.9] + 9 * [0.01]}, [2, 3]),
        ({"off": [0.9] + 9 * [0.2]}, [1, 2, 3]),
    ],
)
def test_every_claim_may_fail(changes: dict[str, Any], fails: list[int]) -> None:
    assert claims(**({"counts": FEW, "on": SPIKE, "off": FLAT} | changes)) == fails


def test_the_largest_value_of_every_digit_counts() -> None:
    on = torch.tensor([SPIKE, SPIKE])
    off = torch.tensor([FLAT, [1.0] + 9 * [0.0]])
    told = pixels.claims(FEW, {"on manifold": on, "off manifold": off})
    assert not told[3].holds


def test_the_experiment_runs_on_small_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Small] = []

    def trained(*words: Any) -> Small:
        made.append(Small(*words))
        return made[-1]

    monkeypatch.setattr(pixels, "Trained", trained)
    settings = {"coalitions": 32, "permutations": 8, "rows": 20, "epochs": 1}
    found = pixels.run(digits=[0, 1], **settings, seed=0)
    # App. B.4.
    assert isinstance(made[0].fitted, MLPClassifier)
    assert made[0].fitted.hidden_layer_sizes == (512,)
    assert found.tables == ()
    save(tmp_path, "some", found)
    assert f"## {pixels.TITLE}" in report.page(tmp_path, ["some"])
