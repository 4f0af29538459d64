"""Every value function of the package keeps the contract."""

from typing import Any

import pytest

import manifold_shap as ms
from manifold_shap.values.mapped import MappedValue
from tests.contracts import ValueFunctionContract
from tests.examples import VALUES, Made


class TestValueFunctions(ValueFunctionContract):
    @pytest.fixture(params=VALUES)
    def made(self, request: pytest.FixtureRequest) -> Made:
        return VALUES[request.param]()


def kinds(base: type[Any]) -> set[type[Any]]:
    """Classes of the package that derive from this one, and can be made."""
    found = {other for each in base.__subclasses__() for other in {each} | kinds(each)}
    return {
        each
        for each in found
        if each.__module__.startswith("manifold_shap.") and not each.__abstractmethods__
    }


def test_every_kind_is_held_to_the_contract() -> None:
    held = {type(make().value) for make in VALUES.values()}
    assert kinds(ms.ValueFunction) - {MappedValue} <= held  # It maps nothing by itself.
