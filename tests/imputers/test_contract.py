"""Every imputer of the package keeps the contract."""

import pytest

import manifold_shap as ms
from tests.contracts import ImputerContract
from tests.examples import IMPUTERS
from tests.values.test_contract import kinds


class TestImputers(ImputerContract):
    @pytest.fixture(params=IMPUTERS)
    def imputer(self, request: pytest.FixtureRequest) -> ms.Imputer:
        return IMPUTERS[request.param]()


def test_every_kind_is_held_to_the_contract() -> None:
    held = {type(make()) for make in IMPUTERS.values()}
    assert kinds(ms.Imputer) <= held
