"""The amortised explainer: efficient by construction, close to the estimators, safe to load."""

import copy
from pathlib import Path

import pytest
import torch
from torch import nn

import manifold_shap as ms
from manifold_shap.amortized.contributions import contributions
from manifold_shap.amortized.explainer import AmortizedExplainer
from manifold_shap.amortized.perceptron import AmortizedPerceptron
from manifold_shap.surrogate.game import GameShape
from manifold_shap.surrogate.perceptron import Perceptron
from tests.amortized.test_networks import made, rows
from tests.estimators.test_coalition import network
from tests.examples import uniform


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> AmortizedExplainer:
    explainer = ms.fit_amortized(
        network(8),
        uniform(2000, 8),
        hidden=[64, 64],
        max_epochs=2,
        learning_rate=5e-3,
        trainer={"accelerator": "cpu"},
    )
    explainer.measure(ms.exact_shapley(explainer.value, held_out()))
    return explainer


def held_out() -> torch.Tensor:
    return torch.rand(50, 8, generator=torch.Generator().manual_seed(7)) + 0.5


def test_it_learns_shapley_values_of_rows_it_has_not_seen(trained: AmortizedExplainer) -> None:
    """From one noisy estimate at a time, each with errors as large as the values."""
    exact = ms.exact_shapley(trained.value, held_out())
    missed, size = (
        each.flatten(1).norm(dim=1) for each in (trained(held_out()) - exact.phi, exact.phi)
    )
    assert trained.measure(exact) == pytest.approx((missed / size).mean().item(), rel=1e-4)
    assert trained.relative_error < 0.08
    mean = (exact.phi.mean(0) - exact.phi).square().mean()
    assert missed.square().mean() / exact.phi[0].numel() < 0.5 * mean


@pytest.mark.usefixtures("many_calls")
@pytest.mark.parametrize(("padded", "batch_size"), [(False, 5), (False, 128), (True, 100)])
def test_labels_are_unbiased_for_any_batch_size(padded: bool, batch_size: int) -> None:
    """Means over 4,000 or so labels, of 24 numbers: beyond 4.5 errors once in 6,000 times."""
    value = made("padded mlp") if padded else network(8)
    x = rows(value.players, 1) if padded else uniform(1, 8)
    count, many = int(value.counts(x)[0]), x.expand(batch_size, *x.shape[1:])
    generator = torch.Generator().manual_seed(3)
    steps = range(max(60, 4000 // batch_size))
    labels = torch.stack([contributions(value.surrogate, many, generator).mean(0) for _ in steps])
    assert (labels[:, count:] == 0).all()
    # Of the network itself, whose ends are not anchored to the model.
    ends = torch.tensor([[[False], [True]]]).expand(1, 2, len(value.players))
    change = value.surrogate(x, ends).diff(dim=1)[0, 0]
    exact = ms.exact_shapley(value, x).phi[0, :count]
    wanted = exact + (change - exact.sum(0)) / count
    labels = labels[:, :count]
    error = labels.std(0) / len(labels) ** 0.5
    assert (((labels.mean(0) - wanted) / error).abs() < 4.5).all()


def started(surrogate: Perceptron, change: torch.Tensor, shares: int = 4) -> AmortizedPerceptron:
    """An explainer before any training."""
    widths = [layer.in_features for layer in surrogate.rest if isinstance(layer, nn.Linear)]
    features = surrogate.first.index.tolist()
    explainer = AmortizedPerceptron(surrogate.game, features, widths, hidden=(8,), shares=shares)
    explainer.start(surrogate, change)
    return explainer


@pytest.mark.parametrize(
    ("index", "hidden", "shares"),
    [([0, 1, 2], (5,), 1), ([0, 1, 1, 2], (4, 3), 4), ([2, 0, 0, 1, 1], (3, 5, 4), 5)],
)
def test_values_sum_to_the_change_of_the_prediction(
    index: list[int], hidden: tuple[int, ...], shares: int
) -> None:
    torch.manual_seed(0)
    game = GameShape((len(index),), index, 2, on_simplex=shares > 1)
    surrogate, change = Perceptron(game, hidden), torch.randn(5, 2)
    explainer = started(surrogate, change, shares=shares)
    torch.nn.init.normal_(explainer.head.weight)
    phi = explainer(surrogate, torch.randn(5, len(index)), change)
    assert phi.shape == (5, 3, 2)
    torch.testing.assert_close(phi.sum(1), change)


def test_without_training_it_is_exact_where_all_units_are_active() -> None:
    """The surrogate is linear there, and its slope is the same at every coalition."""
    torch.manual_seed(0)
    surrogate = Perceptron(GameShape((4,), [0, 1, 1, 2], 2, False), hidden=(6, 5))
    with torch.no_grad():
        surrogate.target_scale.copy_(torch.tensor([3.0, 0.5]))
        surrogate.first.bias.fill_(1e3)
        surrogate.rest[1].weight.abs_()
    rows = torch.randn(6, 4)
    ends = surrogate(rows, torch.tensor([[False] * 3, [True] * 3]).expand(6, 2, 3))
    change = ends[:, 1] - ends[:, 0]
    phi = started(surrogate, change)(surrogate, rows, change)
    alone = surrogate(rows, torch.eye(3, dtype=torch.bool).expand(6, 3, 3)) - ends[:, :1]
    torch.testing.assert_close(phi, alone, rtol=1e-3, atol=1e-3)


def test_it_explains_its_surrogate_and_a_copy_of_it(
    trained: AmortizedExplainer, tmp_path: Path
) -> None:
    for value in (trained.value, copy.deepcopy(trained.value)):
        found = ms.amortized_shapley(value, held_out(), explainer=trained)
        torch.testing.assert_close(found.phi, trained(held_out()))
    with pytest.raises(ValueError, match="put together by hand"):
        ms.save(AmortizedExplainer(trained.value, trained.network), tmp_path)


def test_other_surrogates_and_value_functions_are_refused(trained: AmortizedExplainer) -> None:
    x = held_out()
    with pytest.raises(ValueError, match="`value` is another one"):
        ms.amortized_shapley(network(8, scale=1), x, explainer=trained)
    pairs = trained.value.grouped([0, 0, 0, 0, 1, 1, 1, 1])
    for call in (
        lambda: ms.fit_amortized(pairs, x),
        lambda: ms.amortized_shapley(pairs, x, explainer=trained),
    ):
        with pytest.raises(TypeError, match=r"to be a surrogate but got GroupedValue"):
            call()
