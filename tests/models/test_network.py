"""Torch modules get what they were made for: whole numbers, their own precision and device."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import manifold_shap as ms
from manifold_shap.models import as_model, predictor_of

TOKENS = torch.tensor([[0, 3, 2], [4, 1, 1], [2, 2, 0], [1, 0, 4]])


class Words(nn.Module):
    """Class scores of numbers of words, which nothing but whole numbers can index."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5, 2, _weight=torch.arange(10.0).reshape(5, 2) % 3)

    def forward(self, tokens: Tensor) -> Tensor:
        assert not tokens.is_floating_point()
        return self.table(tokens).sum(1)


@pytest.mark.parametrize("kind", ["tensor", "array", "pandas", "table"])
def test_whole_numbers_stay_whole(kind: str) -> None:
    module, expected = Words(), Words()(TOKENS).log_softmax(-1).detach()
    if kind == "pandas":
        found = predictor_of(module)(pd.DataFrame(TOKENS.numpy())).log_softmax(-1)
    elif kind == "table":
        table = ms.Table.fit(TOKENS)
        assert table.frame(table.rows(TOKENS)).dtype == torch.int64
        found = as_model(module, table)(table.rows(TOKENS))
    else:
        x = TOKENS if kind == "tensor" else TOKENS.numpy()
        found = as_model(module, x, returns="logits")(TOKENS.float())
    torch.testing.assert_close(found.detach(), expected)


def test_whole_numbers_of_a_frame_are_measurements_where_no_embedding_takes_them() -> None:
    module = nn.Linear(3, 2)
    expected = module(TOKENS.float()).detach()
    assert torch.equal(predictor_of(module)(pd.DataFrame(TOKENS.numpy())).detach(), expected)
    for rows in (TOKENS.numpy(), TOKENS):
        with pytest.raises(RuntimeError, match=r"same dtype.*`x\.float\(\)`"):
            predictor_of(module)(rows)


class Normalised(nn.Module):
    """With layers that are others in training, and methods besides `forward`."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(
            nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, 2)
        )

    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        return scale * self.layers(x)

    def probabilities(self, x: Tensor) -> Tensor:
        return self(x).softmax(-1)


MEASURED = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
ASKED: dict[str, Callable[[Normalised], Any]] = {
    "module": lambda module: module,
    "forward": lambda module: module.forward,
    "method": lambda module: module.probabilities,
    "compiled": lambda module: torch.compile(module, backend="eager"),
    "scripted": torch.jit.script,
}


@pytest.mark.filterwarnings("ignore:`torch.jit:FutureWarning", "ignore:.*torch.jit.*deprecated")
@pytest.mark.parametrize("name", ASKED)
def test_a_module_in_training_is_asked_in_evaluation_mode(name: str) -> None:
    module = Normalised()
    returns = "probabilities" if name == "method" else "logits"
    asked = ASKED[name](module)
    model = as_model(asked, MEASURED, returns=returns)
    value = ms.imputed_value(model, ms.imputers.MarginalImputer(MEASURED), draws=4)
    expected = ms.exact_shapley(value, MEASURED[:2]).phi
    module = asked if name == "scripted" else module
    module.train()
    next(module.children()).eval()
    before = {name: weight.clone() for name, weight in module.state_dict().items()}
    modes = [each.training for each in module.modules()]
    assert torch.equal(ms.exact_shapley(value, MEASURED[:2]).phi, expected)
    assert torch.equal(
        ms.exact_shapley(value, MEASURED[1:2]).prediction, value.prediction(MEASURED[1:2])
    )
    assert [each.training for each in module.modules()] == modes
    assert any(modes)
    assert all(torch.equal(before[name], weight) for name, weight in module.state_dict().items())


def test_threads_that_ask_one_module_leave_its_mode() -> None:
    module = Normalised()
    ask = predictor_of(module)
    expected = ask(MEASURED)
    module.train()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: ask(MEASURED), range(64)))
    assert all(torch.equal(each, expected) for each in found)
    assert all(each.training for each in module.modules())


@pytest.mark.parametrize("given", ["tensor", "array"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_rows_have_the_precision_of_the_module(dtype: torch.dtype, given: str) -> None:
    module = nn.Sequential(nn.Linear(3, 2), nn.Softmax(-1)).to(dtype)
    x = MEASURED.to(dtype)
    expected = module(x).detach()
    rows = x if given == "tensor" else x.double().numpy()
    model = as_model(module, rows)
    assert model.returns == "probabilities"
    found = model(MEASURED, scale="probabilities")
    assert found.dtype == torch.promote_types(dtype, torch.float32)
    torch.testing.assert_close(found, expected.to(found.dtype))
    value = ms.imputed_value(module, ms.imputers.MarginalImputer(x), draws=4)
    torch.testing.assert_close(ms.exact_shapley(value, x[:2]).prediction, found[:2])
    with pytest.raises(RuntimeError, match="failed with RuntimeError"):
        as_model(lambda x: module(x), x)
