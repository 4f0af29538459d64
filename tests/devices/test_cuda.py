"""On CUDA everything gives the numbers that it gives on the CPU."""

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import manifold_shap as ms
from manifold_shap.coalitions import Coalitions, Listed, Nested, Toggled, toggled
from manifold_shap.imputers.base import Completions
from manifold_shap.values.base import Estimate
from tests.examples import (
    ESTIMATORS,
    IMPUTERS,
    REMOVERS,
    VALUES,
    Made,
    amortized,
    normal,
    surrogate,
)

Cuda = Callable[[], AbstractContextManager[Any]]


def there(given: Any) -> Any:
    """A copy of a tensor on CUDA; all else as it is."""
    return given.to("cuda") if isinstance(given, Tensor) else given


def compare(cuda: Cuda, here: Any, moved: Any, *given: Any, tolerance: float = 2e-3) -> None:
    """The same call here and there: a tensor that lies there, with the same numbers."""
    expected = here(*given)
    with cuda():
        found = moved(*map(there, given))
        assert found.device.type == "cuda"
        found = found.cpu()
    assert_close(found, expected, rtol=tolerance, atol=tolerance)


# -- value functions ---------------------------------------------------------------------------


def asked(made: Made) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Rows with equally many players, coalitions, orders, and keys of three of each."""
    counts = made.value.counts(made.x)
    x, players = made.x[counts == counts[0]], int(counts[0])
    generator = torch.Generator().manual_seed(0)
    mask = torch.rand(len(x), 3, players, generator=generator) < 0.5
    mask[..., 0], mask[..., 1] = True, False
    orders = torch.rand(len(x), 3, players, generator=generator).argsort(-1)
    return x, mask, orders, torch.arange(3 * len(x)).reshape(len(x), 3)


@pytest.mark.parametrize("name", VALUES)
@torch.no_grad()
def test_values(name: str, cuda: Cuda) -> None:
    made = VALUES[name]()
    here, moved = made.value, copy.deepcopy(made.value)
    with cuda():
        moved.to("cuda")
        assert moved.device.type == ("cuda" if made.moves else "cpu")
    x, mask, orders, keys = asked(made)
    compare(cuda, here.prediction, moved.prediction, x)
    compare(cuda, here.base, moved.base, x)
    lacking = len(here.players) - mask.shape[2]
    for kind, items in ((Listed, mask), (Nested, orders), (Toggled, mask)):
        of_kind = partial(kind, lacking=lacking)
        asked_of = [partial(_asked, each.values, of_kind) for each in (here, moved)]
        compare(cuda, *asked_of, x, items, keys)
    if linear := here.linearized():
        with cuda():
            other = moved.linearized()
        assert other is not None
        of_kind = partial(Toggled, lacking=lacking)
        asked_of = [partial(_asked, each.values, of_kind) for each in (linear, other)]
        compare(cuda, *asked_of, x, mask, keys)


def _asked(
    values: Callable[..., Estimate],
    kind: Callable[..., Coalitions],
    x: Tensor,
    items: Tensor,
    keys: Tensor,
) -> Tensor:
    """Values of coalitions, but not of those that stand in for empty and full ones."""
    coalitions = kind(items, keys)
    found = values(x, coalitions).values
    if not isinstance(coalitions, Toggled):
        return found
    proper = toggled(items).sum(-1).flatten(1)[..., None] % items.shape[2] != 0
    return torch.where(proper, found, 0.0)


# -- imputers ----------------------------------------------------------------------------------


def rows_of(completed: Completions) -> Tensor:
    """Rows beside weights, effective draws and corrections, where there are any."""
    parts = [completed.rows.flatten(1).double()]
    for part in completed[1:4]:
        if part is not None:
            parts.append(part.flatten(1).exp().double())
    return torch.cat(parts, 1)


@pytest.mark.parametrize("name", [*IMPUTERS, *REMOVERS])
@torch.no_grad()
def test_completions(name: str, cuda: Cuda) -> None:
    here = {**IMPUTERS, **REMOVERS}[name]()
    moved, players = copy.deepcopy(here), len(here.players)
    with cuda():
        moved.to("cuda")
        assert moved.device.type == "cuda"
    x = here.reference[:2].expand(2, *here.players.event).clone()
    sizes = torch.tensor([0, players, 1, players // 2])[:, None]
    mask = (torch.arange(players) < sizes).expand(2, -1, -1)

    def impute(imputer: ms.imputers.Imputer, *asked: Tensor) -> Tensor:
        return rows_of(imputer.impute(asked[0], Listed(*asked[1:]), range(3)))

    def sample(imputer: ms.imputers.Imputer, *asked: Tensor) -> Tensor:
        return imputer.sample(asked[0], Listed(*asked[1:]), range(3))

    for call in (impute, sample):
        asked = x, mask, torch.arange(8).reshape(2, 4)
        compare(cuda, partial(call, here), partial(call, moved), *asked)


# -- estimators --------------------------------------------------------------------------------

# Of so many players that estimators draw coalitions.
NINE = partial(surrogate, "ilr", 9)
EXPLAINED = [
    *((name, NINE) for name in ESTIMATORS),
    *(("permutation", VALUES[game]) for game in ("imputed", "grouped by row", "callable")),
]


@pytest.mark.parametrize(("name", "make"), EXPLAINED)
def test_explanations(name: str, make: Callable[[], Made], cuda: Cuda) -> None:
    estimator, made = ESTIMATORS[name], make()
    settings = {**estimator.few, **estimator.fewest}
    expected = estimator.estimate(made.value, made.x, **settings)
    moved = copy.deepcopy(made.value)
    with cuda():
        found = estimator.estimate(moved.to("cuda"), there(made.x), **settings)
        parts = (found.phi, found.standard_error, found.base, found.prediction, found.x)
        assert {part.device.type for part in parts} == {"cpu"}
    # Rounding may decide what is drawn next.
    slack = 0.0 if estimator.linear else 8 * expected.standard_error.nan_to_num().max().item()
    assert_close(found.phi, expected.phi, rtol=2e-3, atol=2e-3 + slack, equal_nan=True)
    assert found.made_by["evaluations"] == pytest.approx(expected.made_by["evaluations"], rel=0.2)


def test_an_amortised_explainer(cuda: Cuda) -> None:
    _, known = amortized()
    moved, x = copy.deepcopy(known), normal(5, 4, 2)
    expected = known(x)
    with cuda():
        moved.value.to("cuda")
        found = moved(there(x))
        assert found.device.type == "cuda"
        explained = ms.amortized_shapley(moved.value, x, explainer=moved, batch_size=2)
        assert_close(found.cpu(), expected, rtol=2e-3, atol=2e-3)
    assert_close(explained.phi, expected, rtol=2e-3, atol=2e-3)


def test_players_of_labels_on_the_device(cuda: Cuda) -> None:
    index = torch.tensor([0, 1, 1, 2])
    players = ms.Players("abc", index)
    with cuda():
        made = ms.Players("abc", there(index))
        assert made.index.device.type == "cpu"
        assert made.same_as(players)
        padded = ms.Players("ab", there(torch.tensor([0, 0, 1])), padding=0)
        assert padded.owned(there(torch.tensor([[3.0, 0, 0]]))).tolist() == [[True, False]]


def test_a_tensor_left_behind_is_found(cuda: Cuda) -> None:
    class LeftBehind(ms.imputers.MarginalImputer):
        """An imputer whose background data does not move."""

        def _apply(self, fn: Any, recurse: bool = True) -> Any:
            return self

    imputer, keys = LeftBehind(normal(20, 4)), torch.zeros(1, 1, dtype=torch.int64)
    x, mask = normal(1, 4), torch.tensor([[[True, False, True, False]]])
    assert rows_of(imputer.impute(x, Listed(mask, keys), range(3))).isfinite().all()
    with cuda(), pytest.raises(RuntimeError, match="on the same device"):
        imputer.to("cuda").impute(there(x), Listed(there(mask), there(keys)), range(3))


class Stays(ms.ValueFunction):
    """Of rows that are where it is: it moves none itself."""

    def __init__(self) -> None:
        super().__init__(ms.values.GameSpec(ms.Players.of_elements((9,)), ("a", "b")))
        self.weight = torch.linspace(0.5, 1, 9)

    @property
    def device(self) -> torch.device:
        return self.weight.device

    def to(self, device: Any) -> "Stays":
        self.weight = self.weight.to(device)
        return self

    def values(self, x: Tensor, coalitions: Coalitions) -> Estimate:
        return Estimate(self._of(x, coalitions.masks()))

    def _of(self, x: Tensor, mask: Tensor) -> Tensor:
        total = ((x * self.weight)[:, None] * mask).sum(-1, keepdim=True)
        return torch.cat((total, total.square()), -1)

    def prediction(self, x: Tensor) -> Tensor:
        return self._of(x, torch.ones_like(x, dtype=torch.bool)[:, None]).tanh()[:, 0]

    def base(self, x: Tensor) -> Tensor:
        return 0 * (x * self.weight)[:, :2]


SCORES: dict[str, Callable[..., Any]] = {
    "error": lambda value, x, mask: ms.metrics.mean_squared_error(value, x, mask).by_row,
    "errors by law": lambda value, x, mask: torch.tensor(
        [each.mse for each in ms.metrics.errors_by_law(value, x, least=30).values()]
    ),
    "distance": lambda value, x, mask: (
        ms.metrics.mean_squared_error(value, x, mask, truth=value).by_row
    ),
    "leakage": lambda value, x, mask: torch.tensor(ms.metrics.leakage(value, x, mask)),
    "interactions": lambda value, x, mask: ms.shapley_interactions(value, x).values,
    "captum": lambda value, x, mask: ms.interop.CaptumAttribution(value).forward_func(x),
}


@pytest.mark.parametrize("name", SCORES)
def test_rows_are_moved_to_where_a_value_function_is(name: str, cuda: Cuda) -> None:
    x, value = normal(6, 9), Stays()
    mask = torch.eye(9, dtype=torch.bool).expand(len(x), -1, -1)
    expected = SCORES[name](value, x, mask)
    with cuda():
        found = SCORES[name](copy.deepcopy(value).to("cuda"), x, mask).cpu()
    assert_close(found, expected, rtol=2e-3, atol=1e-5, equal_nan=True)
