"""Callables become value functions; models, which take no coalitions, are told how."""

from typing import Any

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

import manifold_shap as ms

ROWS = torch.randn(12, 3, generator=torch.Generator().manual_seed(0))
MODEL = LogisticRegression().fit(ROWS.numpy(), (ROWS[:, 0] > 0).numpy())


class Masked(nn.Module):
    """A network that takes coalitions."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return (x[:, None] * mask).sum(-1, keepdim=True)


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (MODEL, "LogisticRegression"),
        (nn.Linear(3, 2), "Linear"),
        (ROWS, "Tensor"),
    ],
    ids=["estimator", "module", "rows"],
)
@pytest.mark.parametrize("estimator", [ms.auto_shapley, ms.exact_shapley])
@pytest.mark.usefixtures("any_type")
def test_a_model_is_no_value_function(estimator: Any, value: Any, what: str) -> None:
    with pytest.raises(
        TypeError, match=rf"got {what}: .* Of a model, `ms.imputed_value.* comes first"
    ):
        estimator(value, ROWS)


def shared_between_ends(x: Tensor, mask: Tensor) -> Tensor:
    """Noise that all coalitions of a call share, but for the empty and the grand one."""
    proper = mask.any(-1, True) & ~mask.all(-1, True)
    return (x[:, None] * mask).sum(-1, True) + proper * torch.randn(1)


def noisy(level: float, noise: float) -> Any:
    """Sums with noise where some players are absent and the row is not zero."""

    def game(x: Tensor, mask: Tensor) -> Tensor:
        unknown = (~mask).any(-1, True) * x[:, None].abs().sum(-1, True)
        return (
            (x[:, None] * mask).sum(-1, True) + level + noise * unknown * torch.randn(unknown.shape)
        )

    return game


@pytest.mark.parametrize(
    ("value", "sampled"),
    [
        (shared_between_ends, True),
        (noisy(0, 1), True),
        (noisy(1e6, 1), True),
        (noisy(1e6, 0), False),
        (noisy(0, 0), False),
        (noisy(0, 1e-7), False),
        (lambda x, mask: 5 + 0 * mask[..., :1].float(), False),
    ],
)
def test_a_callable_that_draws_is_noticed(value: Any, sampled: bool) -> None:
    torch.manual_seed(1)
    assert ms.as_value_function(value, ROWS).spec.work.sampled == sampled


NORMALISED = nn.BatchNorm1d(3)


class Normalised(Masked):
    """In training mode it mixes rows, and moves its running means."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.BatchNorm1d(3)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return super().forward(self.layer(x), mask)


def around_a_network(x: Tensor, mask: Tensor) -> Tensor:
    masked = (x[:, None] * mask).flatten(0, 1)
    return NORMALISED(masked).sum(-1, keepdim=True).unflatten(0, mask.shape[:2])


@pytest.mark.parametrize(
    "value",
    [
        around_a_network,
        lambda x, mask: Masked()(x - x.mean(0), mask),
        lambda x, mask: Masked()(x.cumsum(0), mask),
    ],
    ids=["in training mode", "standardised", "steps of a series"],
)
def test_a_callable_whose_rows_depend_on_each_other_is_named(value: Any) -> None:
    with pytest.warns(UserWarning, match="value function .*depend on the other rows of the call"):
        ms.exact_shapley(value, ROWS)


def test_a_module_is_asked_in_evaluation_mode() -> None:
    value = Normalised()
    assert torch.equal(ms.exact_shapley(value, ROWS).phi, ms.exact_shapley(value.eval(), ROWS).phi)
    assert value.layer.num_batches_tracked == 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_a_module_gets_rows_of_its_precision(dtype: torch.dtype) -> None:
    class Linear(Masked):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 1).to(dtype)

        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            return self.layer(x[:, None] * mask)

    assert ms.exact_shapley(Linear(), ROWS.to(dtype)).efficiency_gap < 1e-2
