"""Every imputer of the package keeps the contract."""

from functools import partial

import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from tests.contracts import ImputerContract
from tests.examples import IMPUTERS, REMOVERS, normal
from tests.values.test_contract import kinds


class TestImputers(ImputerContract):
    @pytest.fixture(params=IMPUTERS)
    def imputer(self, request: pytest.FixtureRequest) -> ms.imputers.Imputer:
        return IMPUTERS[request.param]()


class TestRemovers(ImputerContract):
    """What present and absent elements become is tested in `test_tokens` and `test_blur`."""

    @pytest.fixture(params=REMOVERS)
    def imputer(self, request: pytest.FixtureRequest) -> ms.imputers.Imputer:
        return REMOVERS[request.param]()

    def test_present_players_stay(self, imputer: ms.imputers.Imputer, x: Tensor) -> None:
        completed = self.complete(imputer, x, range(3)).rows
        assert completed.shape == (2, 5, 3, *imputer.players.event)
        grand = x[:, None].expand_as(completed[:, 1])
        assert (completed[:, 1] == grand).all()

    def test_absent_players_are_never_read(self, imputer: ms.imputers.Imputer, x: Tensor) -> None:
        found = [self.complete(imputer, rows, range(3)).rows[:, 0] for rows in (x, x + 1)]
        assert found[0].equal(found[1]) == (imputer.name == "deletion")


class TestPlayersOfSeveralElements(ImputerContract):
    """Nine players own fourteen elements, which stand in no order."""

    @pytest.fixture(
        params=[
            ms.imputers.GaussianImputer,
            ms.imputers.CopulaImputer,
            partial(ms.imputers.EmpiricalImputer, bandwidth=1.0, share=1.0),
        ]
    )
    def imputer(self, request: pytest.FixtureRequest) -> ms.imputers.Imputer:
        owners = torch.tensor([3, 0, 8, 1, 1, 2, 4, 8, 5, 6, 7, 0, 8, 3])
        return request.param(normal(40, 14), ms.Players(tuple("abcdefghi"), owners))


def test_every_kind_is_held_to_the_contract() -> None:
    held = {type(make()) for make in (*IMPUTERS.values(), *REMOVERS.values())}
    assert kinds(ms.imputers.Imputer) <= held
