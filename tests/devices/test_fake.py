"""Shapes and devices on fake CUDA tensors, by torch's own rules: nothing is computed.

What asks for a number, or makes a tensor of as many entries as the numbers say, ends there. Where
is listed; `test_cuda` goes on from there on a device that is pretended.
"""

import copy
import logging
import traceback
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

from tests.devices.pretended import innermost
from tests.devices.test_cuda import asked
from tests.examples import VALUES

ENDS = (DataDependentOutputException, DynamicOutputShapeException)


def replace(module: nn.Module, move: Callable[[Tensor], Tensor]) -> nn.Module:
    """As `Module._apply`, which swaps the parts of tensors: fake ones it cannot swap twice."""
    for child in module.children():
        replace(child, move)
    for name, own in module._parameters.items():
        if own is not None:
            module._parameters[name] = nn.Parameter(move(own.detach()), own.requires_grad)
    for name, held in module._buffers.items():
        module._buffers[name] = None if held is None else move(held)
    return module


@pytest.fixture(autouse=True)
def _fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Modules of fake tensors move, and torch does not log each operation that ends."""
    monkeypatch.setattr(nn.Module, "_apply", replace)
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def place(error: Exception) -> str:
    """The innermost function of the package."""
    return innermost(traceback.extract_tb(error.__traceback__))


def ways(name: str) -> dict[str, Callable[[], Tensor]]:
    """What is asked of a value function."""
    made = VALUES[name]()
    x, mask, orders, keys = asked(made)

    def ask(method: str, *given: Tensor) -> Callable[[], Tensor]:
        value = copy.deepcopy(made.value)

        def way() -> Tensor:
            value.to("cuda")
            return getattr(value, method)(*(each.to("cuda") for each in given))

        return way

    found = {"prediction": ask("prediction", x), "base": ask("base", x)}
    found["values"] = ask("values", x, mask, keys)
    found["values_along"] = ask("values_along", x, orders, keys)
    return {**found, "values_around": ask("values_around", x, mask, keys)}


def outcome(way: Callable[[], Tensor]) -> str:
    """Where it ends; nothing where it gives a tensor on the device."""
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        try:
            found = way()
        except ENDS as error:
            return place(error)
        except RuntimeError as error:
            if "numpy() is not supported" in str(error):
                return place(error)
            raise
    assert found.device.type == "cuda"
    return ""


# Where fake tensors end, why, and what goes there.
PLACES = {
    "_checks.py:check_finite": ("answers of a model are checked", "surrogate", "prediction"),
    "models/predictor.py:_hint": ("the model takes a frame", "imputed, table", "prediction"),
    "models/rows.py:as_array": ("a model of scikit-learn takes arrays", "retrained", "prediction"),
    "surrogate/transformer.py:forward": ("tokens are checked", "surrogate of tokens", "values"),
    "_random.py:uniform": ("keys are told apart", "imputed", "values"),
    "coalitions.py:distinct_coalitions": ("they are told apart", "imputed, nested", "values"),
    "imputers/gaussian.py:_numbers": ("keys are told apart", "imputed, nested", "values_along"),
    "tables/drawing.py:_largest": ("ties are broken", "guided, table", "values"),
    "oracles/value.py:sampled_values": (
        "few completions are summed",
        "truth of a discrete law",
        "values",
    ),
    "oracles/base.py:check_states": ("states are checked", "posterior", "values"),
    "values/grouped.py:owners": ("labels are checked", "grouped by row", "values"),
    "values/calls.py:<listcomp>": ("the example checks its rows", "ragged", "values_along"),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_are_on_the_device_or_end_in_a_known_place(name: str) -> None:
    found = {method: outcome(way) for method, way in ways(name).items()}
    assert {place for place in found.values() if place} <= set(PLACES)
    for place_of, (_, known, method) in PLACES.items():
        if known == name:
            assert found[method] == place_of


def test_networks_that_take_columns_and_pictures_run_to_their_end() -> None:
    for name in ("surrogate", "surrogate of pictures", "surrogate of patches", "selected"):
        found = {method: outcome(way) for method, way in ways(name).items()}
        assert found.pop("prediction") == "_checks.py:check_finite"
        assert not any(found.values())
