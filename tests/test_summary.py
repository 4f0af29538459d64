"""What a person sees of an explanation: a title, the first rows, what contributes most."""

import pandas as pd
import pytest
import torch

import manifold_shap as ms
from tests.examples import Ragged

X = torch.tensor([[1.0, 2.0, -4.0, 0.5], [3.0, 5.0, 0.0, -0.25]])


def total(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return (x[:, None] * mask).sum(-1, keepdim=True)


def both(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return torch.cat((total(x, mask), 1 - total(x, mask)), -1)


def test_the_largest_contributions_of_each_row_with_the_values_of_players() -> None:
    explanation = ms.exact_shapley(total, pd.DataFrame(X.numpy(), ["Ann", "Bob"], list("abcd")))
    assert repr(explanation).splitlines() == [
        "Explanation(2 instances, 4 players, output '0' in 'identity', by 'exact')",
        "     prediction  base  largest contributions",
        "Ann  −0.5        0     c = -4: −4.00, b = 2: +2.00, a = 1: +1.00",
        "Bob  7.75        0     b = 5: +5.00, a = 3: +3.00, d = -0.25: −0.25",
    ]


def test_errors_are_shown_where_they_are_known() -> None:
    explanation = ms.permutation_shapley(lambda x, mask: total(x, mask) ** 3, X[:1], permutations=4)
    first = explanation.phi[0, :, 0].abs().argsort()[-2]
    assert f" ± {explanation.standard_error[0, first, 0]:.2g}, " in repr(explanation)
    unknown = torch.full_like(explanation.phi, torch.nan)
    assert "±" not in repr(ms.Explanation(**{**vars(explanation), "standard_error": unknown}))


def test_of_several_outputs_the_largest_is_shown() -> None:
    lines = repr(ms.exact_shapley(both, X)).splitlines()
    assert lines[2].split()[:3] == ["0", "1", "1.5"]
    assert lines[3].split()[:3] == ["1", "0", "7.75"]


@pytest.mark.parametrize(
    ("rows", "end"), [(5, None), (6, "and 1 more row"), (9, "and 4 more rows")]
)
def test_many_rows_are_counted(rows: int, end: str | None) -> None:
    explanation = ms.exact_shapley(total, X[:1].repeat(rows, 1))
    lines = repr(explanation).splitlines()
    assert len(lines) == 2 + min(rows, 5) + (end is not None)
    assert end in (None, lines[-1])
    assert explanation._repr_html_().count("<tr") == 1 + min(rows, 5)


def test_html_is_escaped() -> None:
    players = ms.Players.of_elements((4,), ["<b>", "b", "c", "d"])
    value = ms.as_value_function(total, X, players, outputs=["<i>"])
    page = ms.exact_shapley(value, X)._repr_html_()
    assert "&lt;b&gt; = 3: +3.00" in page
    assert "&lt;i&gt;" in page
    assert "<b>" not in page
    assert "<i>" not in page


def test_players_that_a_row_lacks_are_not_named() -> None:
    lines = repr(ms.exact_shapley(Ragged(), Ragged.some_rows())).splitlines()
    assert [line.count("player ") for line in lines[2:]] == [3, 1, 3, 3, 2]


def test_log_ratios_show_the_coordinate_that_moved_most() -> None:
    x = torch.tensor([[3.0, 0.0, 0.0], [0.0, 0.0, 3.0], [0.0, 3.0, 3.0]])
    value = ms.imputed_value(lambda x: x.softmax(-1), ms.imputers.MarginalImputer(x), "ilr")
    explanation = ms.exact_shapley(value, x)
    moved = (explanation.prediction - explanation.base).abs().argmax(1).tolist()
    assert len(set(moved)) == 2
    lines = repr(explanation).splitlines()[2:]
    for line, k in zip(lines, moved, strict=True):
        assert explanation.outputs[k] in line


def test_errors_that_are_not_known_are_said() -> None:
    value = ms.imputed_value(
        lambda x: x[:, :1], ms.imputers.GaussianImputer(torch.randn(30, 4)), "identity"
    )
    once = ms.exact_shapley(value, X)
    assert repr(once).splitlines()[-1] == "standard errors are unknown"
    assert "<p>standard errors are unknown</p>" in once._repr_html_()
    assert "unknown" not in repr(ms.exact_shapley(value, X, evaluations=28))
