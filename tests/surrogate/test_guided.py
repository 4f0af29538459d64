"""Guided surrogates: what hints are, how they are weighed, and how close values come."""

from typing import Any

import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.coalitions import all_coalitions
from manifold_shap.surrogate.game import GameShape
from manifold_shap.surrogate.guided import GuidedNetwork
from tests import examples
from tests.contracts import devices

MASKS = all_coalitions(4)[1:-1]
FEW: dict[str, Any] = {"teacher_pairs": 400, "hidden": [16], "batch_size": 32}
FEW |= {"max_epochs": 2, "trainer": {"accelerator": "cpu", "limit_train_batches": 10}}


def classifier(x: Tensor) -> Tensor:
    return x[:, :2].softmax(-1)


X = examples.normal(50, 4)


def fit(model: Any = classifier, space: str = "probability", **own: Any) -> ms.SurrogateValue:
    guide = ms.imputers.MixtureImputer(X, components=2)
    teacher = ms.imputed_value(model, guide, space, draws=4)
    taught = {"teacher": teacher, "guide": guide, "space": space}
    return ms.fit_surrogate(model, X, **{**taught, **FEW, **own})


@pytest.mark.parametrize("on_simplex", [True, False])
def test_a_network_weighs_the_hint_and_an_output_of_its_own(on_simplex: bool) -> None:
    torch.manual_seed(0)
    network = GuidedNetwork(GameShape((3,), [0, 1, 1], 3, on_simplex), hidden=[8])
    x, expected = torch.randn(2, 5, 3).unbind()
    mask, hint = torch.rand(5, 2) < 0.5, torch.rand(5, 3).softmax(-1)
    log_odds = network.body.behind[-1].bias.data[3:]
    log_odds.fill_(100)
    torch.testing.assert_close(network(x, mask, expected, hint), hint)
    log_odds.fill_(-100)
    own = network(x, mask, expected, hint)
    if on_simplex:
        torch.testing.assert_close(own.sum(-1), torch.ones(5))
    # Of x the present elements are read, and the absent ones of the expected row.
    present = mask[:, [0, 1, 1]]
    assert torch.equal(network(torch.where(present, x, 9.0), mask, expected, hint), own)
    assert torch.equal(network(x, mask, torch.where(present, 9.0, expected), hint), own)
    assert not torch.equal(network(x, mask, expected + 1, hint), own)


def test_hints_are_the_model_s_predictions_for_rows_that_keep_their_known_elements() -> None:
    value, x, *_ = examples.guided_rows()
    assert isinstance(value, ms.GuidedValue)
    _, completed, hint = value.hints(x, MASKS.expand(3, -1, -1))
    present = value.players.expand(MASKS)
    assert torch.equal(completed[0][present], x[0].expand(len(MASKS), -1)[present])
    predicted = value.prediction(completed.flatten(0, 1)).unflatten(0, (3, -1))
    assert torch.equal(hint, predicted)
    _, completed, _ = value.hints(x, torch.ones(3, 1, 4, dtype=torch.bool))
    assert torch.equal(completed[:, 0], x)


# Two hidden classes behind three numbers.
LAW = ms.oracles.GaussianMixture(
    [0.5, 0.5], [[-1.0, -1.0, 1.0], [1.0, 1.0, -1.0]], [0.49 * torch.eye(3)] * 2
)


def steps(x: Tensor) -> Tensor:
    """A tree of them."""
    p = 0.1 + 0.8 * ((x[:, 0] > 0.3) ^ (x[:, 1] > -0.2)).float() * (x[:, 2] < 0.5).float()
    return torch.stack((p, 1 - p), -1)


def test_values_are_close_to_the_truth_and_closer_than_a_surrogate_is() -> None:
    x, held_out = LAW.sample(600).x, LAW.sample(200, seed=1).x
    guide = ms.imputers.MixtureImputer(x)
    options = {"hidden": [64], "max_epochs": 4, "learning_rate": 0.01, "teacher_pairs": 4000}
    options |= {"teacher": ms.imputed_value(steps, guide, draws=8)}
    options |= {"trainer": {"accelerator": "cpu", "limit_train_batches": 40}}
    value = ms.fit_surrogate(steps, x, guide=guide, batch_size=256, **options)
    alone = ms.fit_surrogate(steps, x, **options)
    mask = all_coalitions(3)[1:-1].expand(200, -1, -1)
    truth = ms.oracles.true_value(steps, LAW, draws=1000)(held_out, mask)

    def error(of: ms.ValueFunction) -> float:
        return (of(held_out, mask) - truth).square().mean().item()

    assert error(value) < 0.1 * truth.var().item()
    assert error(value) < 0.8 * error(alone)


@devices
def test_a_teacher_may_be_on_an_accelerator(device: str) -> None:
    x, mask = examples.normal(4, 4, 2), MASKS.expand(4, -1, -1)
    model = torch.nn.Linear(4, 2)

    def made(on: str) -> ms.GuidedValue:
        teacher = ms.imputed_value(model, ms.imputers.MixtureImputer(X, components=2), draws=4).to(
            on
        )
        value = fit(model, teacher=teacher)
        assert isinstance(value, ms.GuidedValue)
        return value

    expected, moved = made("cpu")(x, mask), made(device).to(device)
    buffers = [*moved.guide.buffers(), *moved.surrogate.state_dict().values(), moved(x, mask)]
    assert {part.device.type for part in buffers} == {device}
    # A draw of the teacher may be another one where two uniform numbers are equal to rounding.
    torch.testing.assert_close(moved(x, mask).cpu(), expected, rtol=0, atol=0.02)
