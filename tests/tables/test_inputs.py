"""Models of several tensors: a tuple or a dictionary, with players over all of them."""

from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import manifold_shap as ms
from manifold_shap.tables import Inputs

PICTURES, COLUMNS = torch.rand(40, 1, 4, 4), torch.randn(40, 2)
PLAYERS: dict[str, Any] = {"picture": ms.Players.patches((1, 4, 4), 2)}


class OfBoth(nn.Module):
    """A sum over the picture and the columns, linear in both."""

    def forward(self, picture: Tensor, columns: Tensor) -> Tensor:
        return picture.sum((1, 2, 3))[:, None] + columns @ torch.tensor([[1.0], [-2.0]])


@pytest.mark.parametrize("given", [dict, tuple])
def test_players_own_elements_of_all_tensors(given: type) -> None:
    named = {"picture": PICTURES, "columns": COLUMNS}
    x = named if given is dict else tuple(named.values())
    players: Any = PLAYERS if given is dict else {0: PLAYERS["picture"]}
    inputs = Inputs.fit(x, players)
    rows = inputs.rows(x)
    model = ms.as_model(OfBoth(), rows, returns="values", table=inputs)
    imputer = ms.imputers.table_imputer(ms.imputers.MarginalImputer, inputs, x)
    value = ms.imputed_value(model, imputer, "identity", draws=40)
    phi = ms.exact_shapley(value, rows[:3]).phi[..., 0]
    far = PICTURES[:3] - PICTURES.mean(0)
    patches = far.unfold(2, 2, 2).unfold(3, 2, 2).sum((1, 4, 5)).flatten(1)
    columns = (COLUMNS[:3] - COLUMNS.mean(0)) * torch.tensor([1.0, -2.0])
    torch.testing.assert_close(phi, torch.cat((patches, columns), 1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_surrogate_takes_what_the_model_takes(tmp_path: Path, wrapped: bool) -> None:
    x = {"picture": PICTURES, "columns": COLUMNS}
    few: dict[str, Any] = {"hidden": [4], "max_epochs": 1, "progress": False}
    named = ms.as_model(OfBoth(), x, ["sum"], returns="values") if wrapped else OfBoth()
    value = ms.fit_surrogate(named, x, players=PLAYERS, space="identity", **few)
    assert value.outputs == (("sum",) if wrapped else ("0",))
    assert value.players.names[0] == "patch 0,0"
    assert value.quality is not None
    assert set(value.quality.mse) == {"surrogate", "marginal"}
    some = {name: each[:2] for name, each in x.items()}
    found = ms.exact_shapley(value, some)
    torch.testing.assert_close(found.prediction, OfBoth()(**some))
    assert found.made_by["inputs"] == {"picture": [1, 4, 4], "columns": [2]}
    ms.save(value, tmp_path / "both")
    again = ms.load(tmp_path / "both", OfBoth())
    torch.testing.assert_close(ms.exact_shapley(again, some).phi, found.phi)


def test_tensors_share_players_and_keep_their_types() -> None:
    ids, mask = torch.randint(9, (5, 3)), torch.ones(5, 3, dtype=torch.bool)
    inputs = Inputs.fit((ids, mask), {1: 0})
    assert inputs.players.index.tolist() == [0, 1, 2, 0, 1, 2]
    named = Inputs.fit({"ids": ids, "picture": torch.zeros(5, 3, 1, 2)}, {"ids": ["a", "b", "c"]})
    assert named.players.names == ("a", "b", "c", "picture pixel 0,0", "picture pixel 0,1")
    again = inputs.frame(inputs.rows((ids, mask)))
    assert [each.dtype for each in again] == [torch.int64, torch.bool]
    assert torch.equal(again[0], ids)
    frame = pd.DataFrame({"age": [1, 2]})
    assert Inputs.fit({"a": frame}).rows({"a": frame}).tolist() == [[1.0], [2.0]]
    drawn = inputs.frame(torch.full((1, 6), 1.7))
    assert drawn[0].tolist() == [[2, 2, 2]]


@pytest.mark.parametrize(
    ("x", "players", "says"),
    [
        ({"a": torch.zeros(2, 1), "b": torch.zeros(3, 1)}, {}, "same number of rows"),
        ({"a": torch.zeros(2, 1)}, {"c": "a"}, "'c'"),
        ((torch.zeros(2, 1), torch.zeros(2)), {}, r"'1': \(2,\)}; leave labels out"),
        ({"a": torch.zeros(2, 1)}, {"a": ms.Players("ab", [0, 1])}, r"shape \(1,\)"),
        ({"a": torch.zeros(2, 1)}, {"a": ["b", "c"]}, "for 2 names"),
        ({"a": torch.zeros(2, 1)}, {"a": ms.Players.tokens(1)}, "every row has for 'a'.*ids != 0"),
    ],
)
def test_what_does_not_fit_is_named(x: Any, players: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Inputs.fit(x, players)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda x: ms.Explainer(OfBoth(), x), r"\(40, 1, 4, 4\); pictures and series"),
        (lambda x: ms.imputers.MarginalImputer(x), r"got several; .*Inputs\.fit\(.*table_imputer"),
        *[
            (
                partial(ms.fit_surrogate, OfBoth(), network=name, space="identity"),
                "'mlp'.*one tensor",
            )
            for name in ("model", "conv", "transformer")
        ],
    ],
)
def test_doors_for_one_tensor_name_those_for_several(call: Any, says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        call({"picture": PICTURES, "columns": COLUMNS})
