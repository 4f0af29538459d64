"""Networks of the user's, wherever one is learned: modules, and functions that make them."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import manifold_shap as ms
from tests.learned import Masked
from tests.training.test_directories import X, amortized, model, surrogate, vae, values_of


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


def masked(inputs: Sequence[int], outputs: Sequence[int]) -> nn.Module:
    return Masked(tuple(inputs), outputs[0])


# What is learned, by a module or by what makes one, and networks of another shape.
OWN: dict[str, tuple[Callable[..., Any], Any, Any]] = {
    "surrogate": (surrogate, masked, Masked((3,), 3)),
    "surrogate, module": (surrogate, Masked((3,), 2), Masked((3,), 3)),
    "imputer": (vae, dense, lambda inputs, _: dense(inputs, (5,))),
    "imputer, encoder": (
        partial(vae, posterior="encoder"), dense, lambda inputs, _: dense(inputs, (5,))
    ),
    "amortized": (amortized, Values, lambda inputs, _: Values(inputs, (2, 2))),
    "amortized, module": (amortized, Values((3,), (3, 2)), Values((3,), (2, 2))),
}  # fmt: skip
FEW: dict[str, Any] = {"hidden": None, "max_epochs": 1}


@pytest.mark.parametrize("name", OWN)
def test_it_is_trained_and_comes_back_from_a_file(name: str, tmp_path: Path) -> None:
    fit, network, _ = OWN[name]
    before = [p.clone() for p in network.parameters()] if isinstance(network, nn.Module) else []
    learned = fit(X, network=network, **FEW)
    found, of_imputer = values_of(learned), isinstance(learned, ms.VAEImputer)
    assert found.std() > 0
    # It is a copy that was trained, and the weights are those in the file.
    assert not before or all(map(torch.equal, before, network.parameters()))
    ms.save(learned, tmp_path)
    torch.manual_seed(1)
    again = partial(ms.load, tmp_path, None if of_imputer else model)
    assert torch.equal(values_of(again(network=network)), found)
    with pytest.raises(TypeError, match="`network` to be the torch module that was trained"):
        again(network=None)


@pytest.mark.parametrize("name", OWN)
def test_outputs_of_another_shape_are_refused(name: str) -> None:
    fit, _, wrong = OWN[name]
    with pytest.raises(ValueError, match="Expected `network` to return a tensor of shape"):
        fit(X, network=wrong, **FEW)


def test_values_of_a_network_sum_to_the_change_of_the_prediction() -> None:
    explainer = amortized(X, network=Values, **FEW)
    change = explainer.value.prediction(X[:4]) - explainer.value.base(X[:4])
    torch.testing.assert_close(explainer(X[:4]).sum(1), change)


@pytest.mark.usefixtures("any_type")
@pytest.mark.parametrize("fit", [surrogate, vae, amortized])
def test_what_is_no_network_is_named(fit: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match=r"`network` to be one of .*'mlp'.*or pass a torch module"):
        fit(X, network="cnn", **FEW)
    with pytest.raises(TypeError, match=r"`network` to be a torch module, .*but it made int"):
        fit(X, network=lambda *_: 3, **FEW)
    with pytest.raises(ValueError, match="options of the network 'own'"):
        fit(X, network=dense, hidden=[8])
