"""Networks of the user's, wherever one is learned: modules, and functions that make them."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import manifold_shap as ms
from manifold_shap.coalitions import Listed
from tests.learned import Masked
from tests.training.test_directories import MASK, X, model

FEW: dict[str, Any] = {
    "max_epochs": 1, "trainer": {"accelerator": "cpu", "limit_train_batches": 5},
}  # fmt: skip


def dense(inputs: Sequence[int], outputs: Sequence[int]) -> nn.Module:
    return nn.Sequential(nn.Linear(*inputs, 8), nn.ReLU(), nn.Linear(8, *outputs))


class Values(nn.Module):
    """Values of players from a row and the change of its prediction."""

    def __init__(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        super().__init__()
        self.outputs = tuple(outputs)
        self.layer = nn.Linear(inputs[0] + outputs[1], math.prod(outputs))

    def forward(self, x: Tensor, change: Tensor) -> Tensor:
        return self.layer(torch.cat((x, change), 1)).unflatten(1, self.outputs).tanh()


def surrogate(network: Any, path: Path) -> tuple[Tensor, Callable[[Any], Tensor]]:
    def found(value: ms.SurrogateValue) -> Tensor:
        return value(X[:4], MASK)

    value = ms.fit_surrogate(model, X, network=network, **FEW)
    ms.save(value, path)
    return found(value), lambda network: found(ms.load(path, model, network=network))


def imputer(posterior: str) -> Any:
    def fit(network: Any, path: Path) -> tuple[Tensor, Callable[[Any], Tensor]]:
        def found(made: Any) -> Tensor:
            return made.impute(X[:4], Listed(MASK, torch.arange(8).reshape(4, 2)), range(3)).rows

        own: dict[str, Any] = {"latent": 2, "posterior": posterior, "temper": 1.0, "bank_size": 64}
        made = ms.fit_imputer(X, x_validation=X[:9], network=network, **own, **FEW)
        ms.save(made, path)
        return found(made), lambda network: found(ms.load(path, network=network))

    return fit


def amortized(network: Any, path: Path) -> tuple[Tensor, Callable[[Any], Tensor]]:
    value = ms.fit_surrogate(model, X, hidden=[8, 8], **FEW)
    explainer = ms.fit_amortized(value, X, network=network, **FEW)
    change = value.prediction(X[:4]) - value.base(X[:4])
    torch.testing.assert_close(explainer(X[:4]).sum(1), change)
    ms.save(explainer, path)
    return explainer(X[:4]), lambda network: ms.load(path, model, network=network)(X[:4])


def masked(inputs: Sequence[int], outputs: Sequence[int]) -> nn.Module:
    return Masked(tuple(inputs), outputs[0])


# What is learned, by a module or by what makes one, and networks of another shape.
OWN: dict[str, tuple[Any, Any, Any]] = {
    "surrogate": (surrogate, masked, Masked((3,), 3)),
    "surrogate, module": (surrogate, Masked((3,), 2), Masked((3,), 3)),
    "imputer": (imputer("bank"), dense, lambda inputs, _: dense(inputs, (5,))),
    "imputer, encoder": (imputer("encoder"), dense, lambda inputs, _: dense(inputs, (5,))),
    "amortized": (amortized, Values, lambda inputs, _: Values(inputs, (2, 2))),
    "amortized, module": (amortized, Values((3,), (3, 2)), Values((3,), (2, 2))),
}


@pytest.mark.parametrize("name", OWN)
def test_it_is_trained_and_comes_back_from_a_file(name: str, tmp_path: Path) -> None:
    fit, network, _ = OWN[name]
    before = [p.clone() for p in network.parameters()] if isinstance(network, nn.Module) else []
    found, again = fit(network, tmp_path)
    assert found.std() > 0
    # It is a copy that was trained, and the weights are those in the file.
    assert not before or all(map(torch.equal, before, network.parameters()))
    torch.manual_seed(1)
    assert torch.equal(again(network), found)
    with pytest.raises(TypeError, match="`network` to be the torch module that was trained"):
        again(None)


@pytest.mark.parametrize("name", OWN)
def test_outputs_of_another_shape_are_refused(name: str, tmp_path: Path) -> None:
    fit, _, wrong = OWN[name]
    with pytest.raises(ValueError, match="Expected `network` to return a tensor of shape"):
        fit(wrong, tmp_path)


@pytest.mark.usefixtures("any_type")
@pytest.mark.parametrize("name", ["surrogate", "imputer", "amortized"])
def test_what_is_no_network_is_named(name: str, tmp_path: Path) -> None:
    fit = OWN[name][0]
    with pytest.raises(ValueError, match=r"`network` to be one of .*'mlp'.*or pass a torch module"):
        fit("cnn", tmp_path)
    with pytest.raises(TypeError, match=r"`network` to be a torch module, .*but it made int"):
        fit(lambda *_: 3, tmp_path)
    if name == "imputer":
        with pytest.raises(ValueError, match="options of the network 'own'"):
            ms.fit_imputer(X, network=dense, hidden=[8])
