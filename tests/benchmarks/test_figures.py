"""What experiments compute of their measurements, against closed forms and other packages."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

import manifold_shap as ms
from benchmarks import gpu, reproduce
from benchmarks.papers import fewer_evaluations, one_outlier, splices
from benchmarks.speed import leverage
from benchmarks.support import associations, coalition_games, people_measures, tree_values
from benchmarks.support.differences import jackknife
from benchmarks.support.people import COLUMNS
from benchmarks.support.products import of_all, of_few
from benchmarks.support.repetitions import cell_means
from manifold_shap.coalitions import all_coalitions
from tests.test_metrics import Noisy


def test_the_position_is_along_the_way_from_marginal_to_conditional() -> None:
    marginal = torch.tensor([[1.0, 0.0], [0.0, 0.0]])
    law = marginal + torch.tensor([[0.0, 4.0], [0.0, 0.0]])
    # A quarter of the way, and a step aside.
    path = marginal + torch.tensor([[2.0, 1.0], [0.0, 3.0]])
    phi = {tree_values.MARGINAL: marginal, tree_values.PATH: path, "law": law}
    assert tree_values.position(phi, "law") == pytest.approx(0.25)


def test_associations_are_those_of_the_thesis() -> None:
    generator = np.random.default_rng(0)
    kinds, a = generator.integers(0, 3, 300), generator.normal(size=300)
    columns = {"a": a, "b": generator.normal(size=300) - a, "kinds": kinds, "copy": (kinds + 1) % 3}
    columns["shifted"] = kinds**2 + 0.1 * a
    found = np.array(associations.associations(columns, ("kinds", "copy")))
    assert found[0, 1] == pytest.approx(stats.pearsonr(a, columns["b"]).statistic)
    assert found[2, 3] == pytest.approx(1)
    means = np.array([columns["shifted"][kinds == one].mean() for one in kinds])
    assert found[2, 4] == pytest.approx((means.var() / columns["shifted"].var()) ** 0.5)


def test_categories_are_apart_by_the_share_of_variance_between_them_without_noise() -> None:
    generator = np.random.default_rng(0)
    sex = ["Female", "Male"] * 1000
    # Of variances 1 between and 0.25 within.
    own = np.where(np.array(sex) == "Male", 1.0, -1.0) + generator.normal(0, 0.5, 2000)
    phi = np.zeros((2000, len(COLUMNS)))
    phi[:, COLUMNS.index("sex")] = own + generator.normal(0, 1, 2000)
    found = {"phi": {"way": phi}, "standard_error": {"way": 0 * phi}, "people": {"sex": sex}}
    assert people_measures.separation(found, "way", "sex") < 0.5
    found["standard_error"]["way"] = np.ones_like(phi)
    assert people_measures.separation(found, "way", "sex") == pytest.approx(0.8, abs=0.1)


def test_the_jackknife_of_a_mean_has_its_standard_error() -> None:
    figures = np.array([1.0, 2.0, 4.0, 9.0])
    mean, error = jackknife(lambda k: float(figures[np.arange(4) != k].mean()), 4)
    assert mean == 4
    assert error == pytest.approx(figures.std(ddof=1) / 2)


def test_contributions_telescope_and_noise_counts_twice() -> None:
    x, y = torch.rand(60, 5, generator=torch.Generator().manual_seed(0)), torch.zeros(60).long()
    noisy = Noisy(1, 0.5, players=5)
    exact = fewer_evaluations.contributions(Noisy(1, 0.0, players=5), x, y, 200, seed=0)
    torch.testing.assert_close(exact.sum(2), x.sum(1)[:, None].expand(-1, 200))
    drawn = fewer_evaluations.contributions(noisy, x, y, 200, seed=0)
    shared = fewer_evaluations.contributions(noisy, x, y, 200, seed=0, shared=True)
    # Of five contributions along an order, eight ends are noisy, and two are known; shared noise
    # stays in the first and the last contribution alone.
    found = [fewer_evaluations.variance(c, overall=False) for c in (exact, drawn, shared)]
    assert found[0] == pytest.approx(0, abs=1e-6)
    assert found[1:] == pytest.approx([8 * 0.25, 2 * 0.25], rel=0.03)


def test_an_outlier_is_wrong_beyond_doubt_by_standard_errors() -> None:
    phi, error = torch.full((20,), 0.1), torch.full((20,), 0.3)
    phi[:5] = torch.tensor([5.0, 4.0, 1.0, 3.0, 2.0])
    phi[7], error[7] = 2.5, 0.4
    assert one_outlier.doubtless(phi, error) == pytest.approx(1.5 / 0.5)
    assert one_outlier.outranked(phi.tolist()) == 2


def test_coalitions_of_splices_are_nested_and_distances_those_of_the_nearest() -> None:
    mask = splices.coalitions(4, [3, 9], 16, seed=0)
    assert mask.sum(-1).tolist() == [[3, 9]] * 4
    assert not (mask[:, 0] & ~mask[:, 1]).any()
    x = torch.tensor([[1.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    torch.testing.assert_close(splices.apart(x, torch.eye(3)), torch.tensor([0.0, 2**0.5]))


@pytest.mark.parametrize("make", [of_few, of_all])
def test_interactions_in_closed_form_are_those_of_enumeration(make: Any) -> None:
    game = make(10, 3, seed=1)
    found = ms.shapley_interactions(game, torch.zeros(1, 10)).values[0].double()
    found = found * (1 - torch.eye(10))[..., None]
    torch.testing.assert_close(found, game.interactions(), atol=1e-6, rtol=0)


def test_cell_means_are_means_of_the_rows_that_agree() -> None:
    """With one more row, the mean of all: also where no row agrees."""
    generator = torch.Generator().manual_seed(0)
    sizes = (2, 3, 4)
    x = torch.stack([torch.randint(n, (30,), generator=generator) for n in sizes], 1).float()
    targets = torch.rand(30, 2, generator=generator).double()
    rows = torch.cartesian_prod(*(torch.arange(n) for n in sizes)).float()
    mask = all_coalitions(3).expand(len(rows), -1, -1)
    alike = ((rows[:, None, None] == x) | ~mask[:, :, None]).all(-1).double()
    expected = (alike @ targets + targets.mean(0)) / (alike.sum(-1, keepdim=True) + 1)
    assert (alike.sum(-1) == 0).any()
    torch.testing.assert_close(cell_means(x, targets, sizes)(rows, mask), expected)


@pytest.mark.parametrize(("players", "budget"), [(4, 12), (7, 40), (60, 300)])
def test_leverage_shap_draws_no_coalition_twice(players: int, budget: int) -> None:
    mask, probability = coalition_games.drawn_once(players, budget, seed=0)
    assert len(np.unique(mask, axis=0)) == len(mask) == budget - 2
    assert (mask[::2] != mask[1::2]).all()
    # As many of each size, or all.
    size = mask.sum(1)
    for one in np.unique(size):
        of_size = probability[size == one]
        assert len(of_size) == pytest.approx(of_size[0] * math.comb(players, one))


# shap uses what matplotlib is about to remove.
@pytest.mark.filterwarnings("ignore:The set_:PendingDeprecationWarning")
@pytest.mark.parametrize("side", [leverage.LEVERAGE, "RegressionMSR"])
def test_estimators_of_the_papers_are_exact_on_all_coalitions(side: str) -> None:
    values = torch.randn(2**6, generator=torch.Generator().manual_seed(0)).double()
    bits = 2 ** torch.arange(6)

    def game(x: Tensor, mask: Tensor) -> Tensor:
        return values[(mask * bits).sum(-1)][..., None]

    asked: Callable[..., Any] = lambda mask: game(  # noqa: E731
        values, torch.from_numpy(np.atleast_2d(mask) > 0.5)
    )[:, 0].numpy()
    exact = ms.exact_shapley(game, torch.zeros(1, 6).double()).phi[0, :, 0]
    assert leverage.PEERS[side](asked, 6, 2**6, 0) == pytest.approx(exact.numpy(), abs=1e-4)


def test_experiments_of_a_gpu_take_their_settings() -> None:
    for name, words in gpu.EXPERIMENTS.items():
        reproduce.experiment(name).chosen(False, dict(word.split("=") for word in words))
