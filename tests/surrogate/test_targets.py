"""Surrogates taught by another value function: what they gain, and that trainings are resumed."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.coalitions import Coalitions
from manifold_shap.surrogate.targets import evaluate_teacher, rows_to_teach
from manifold_shap.values import model_for
from manifold_shap.values.base import Estimate
from manifold_shap.values.model import ModelValue, disagreement
from tests import learned
from tests.learned import COUNTS, LONGER, MASKS, ROWS, TABLE, classifier

EVERY = MASKS.expand(8, -1, -1)
PROPER = EVERY[:, 1:-1]


class TableValue(ModelValue):
    """v(S) = E[f | x_S] under the table, plus an offset."""

    def __init__(self, offset: float = 0.0) -> None:
        space, players = ms.spaces.Probability(), ms.Players.of_elements((3,))
        model = model_for(classifier, ROWS, space)
        super().__init__(model, players, space, classifier(TABLE).mean(0), name="table")
        self.offset = offset

    def values(self, x: Tensor, coalitions: Coalitions) -> Estimate:
        mask = coalitions.masks()
        differs = x[:, None, None] != TABLE
        agrees = ~(differs & self.players.expand(mask)[:, :, None]).any(-1)
        weight = agrees / agrees.sum(-1, keepdim=True)
        return Estimate(weight @ classifier(TABLE) + self.offset * torch.tensor([1.0, -1.0]))


def fit(*given: Any, **settings: Any) -> ms.SurrogateValue:
    return learned.fit(*given, **{"teacher_pairs": 200, **settings})


def marginal(draws: int = 4) -> ms.ImputedValue:
    return ms.imputed_value(classifier, ms.imputers.MarginalImputer(TABLE), draws=draws)


def test_a_good_teacher_brings_the_surrogate_closer_to_the_truth() -> None:
    truth, steps = TableValue(), {**LONGER, "batch_size": 32, "teacher_pairs": 2000}

    def gap(**taught: Any) -> float:
        found = fit(**steps, **taught)(ROWS, PROPER)
        return (found - truth(ROWS, PROPER)).square().mean().item()

    assert gap(teacher=truth, teacher_share=1.0) < 0.3 * gap()


def test_targets_are_the_teachers_values_each_by_draws_of_its_own() -> None:
    teacher = marginal()
    targets = evaluate_teacher(teacher, TABLE, 301, seed=5)
    assert targets.target.shape == (151, 2, 2)
    # Each row once, and half of them once more.
    assert sorted(torch.bincount(targets.row).unique().tolist()) == [1, 2]
    # One player of a pair is in neither coalition.
    assert torch.equal(targets.mask.sum((1, 2)), torch.full((151,), 2))
    assert not (targets.mask[:, 0] & targets.mask[:, 1]).any()
    empty = ~targets.mask.any(-1)
    expected = teacher.expectation.expand(int(empty.sum()), -1)
    torch.testing.assert_close(targets.target[empty], expected)
    # One donor each: four completions of the first feature, with three different outputs.
    single = evaluate_teacher(marginal(draws=1), TABLE[:1], 400, seed=0)
    first = single.mask.flatten(0, 1).long() @ torch.tensor([1, 2, 4]) == 1
    assert len(single.target.flatten(0, 1)[first][:, 0].unique()) == 3


def test_another_teacher_is_another_training(tmp_path: Path) -> None:
    # Of the same name and settings, but with other values.
    fit(teacher=TableValue(), directory=tmp_path, max_epochs=1)
    with pytest.raises(ValueError, match=r"differs in: teacher\.values"):
        fit(teacher=TableValue(0.05), directory=tmp_path, max_epochs=1)
    with pytest.raises(ValueError, match=r"differs in: teacher\.pairs"):
        fit(teacher=TableValue(), teacher_pairs=100, directory=tmp_path, max_epochs=1)


def test_rows_of_a_small_table_are_drawn_from_the_teacher() -> None:
    teacher = marginal()
    # Four coalitions a row are few enough.
    assert rows_to_teach(teacher, TABLE, 400, seed=0) is None
    rows = rows_to_teach(teacher, TABLE, 2002, seed=0)
    assert rows is not None
    assert rows.shape == (4004, 3)
    share = (rows[:, None] == ROWS).all(-1).double().mean(0)
    torch.testing.assert_close(share, COUNTS / COUNTS.sum(), atol=0.04, rtol=0, check_dtype=False)
    # Of a grouped teacher they are those of its columns; one without a law of rows has none.
    grouped = teacher.grouped({"both": ["x0", "x1"]})
    assert torch.equal(rows, rows_to_teach(grouped, TABLE, 2002, seed=0))
    assert rows_to_teach(TableValue(), TABLE, 2002, seed=0) is None


def test_drawn_rows_teach_by_their_own_prediction_too() -> None:
    rows = marginal().draw_rows(300, seed=3)
    known = evaluate_teacher(marginal(), rows, 300, seed=1, drawn=True)
    torch.testing.assert_close(known.outputs, classifier(rows))
    (x, mask), target = known.sample((TABLE[:50],), torch.Generator().manual_seed(0))
    assert [part.shape for part in (x, mask)] == [(50, 3), (50, 2, 3)]
    own = classifier(x)[:, None].expand(-1, 2, -1)
    torch.testing.assert_close(target[25:], own[25:])
    assert not torch.allclose(target[:25], own[:25])
    # One alone is the teacher's.
    assert not torch.allclose(known.sample((TABLE[:1],), torch.Generator())[1], own[:1])


def test_a_surrogate_taught_by_drawn_rows_is_read_back(tmp_path: Path) -> None:
    def model(x: Tensor) -> Tensor:
        return x[:, :2].softmax(-1)

    x = torch.randn(150, 3, generator=torch.Generator().manual_seed(0))
    teacher = ms.imputed_value(model, ms.imputers.GaussianImputer(x), draws=2)
    value = fit(model, x, x_validation=x[:20], teacher=teacher, teacher_pairs=4000)
    assert value.surrogate.binned.tolist() == [0, 1, 2]
    assert value.training_record["teacher_seconds"] > 0
    ms.save(value, tmp_path)
    loaded = ms.load(tmp_path, model)
    assert torch.equal(loaded(x[:8], EVERY), value(x[:8], EVERY))
    taught = loaded.task.settings["teacher"]
    assert taught.items() >= {"pairs": 4000, "share": 0.5, **teacher.provenance}.items()


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_another_model_is_told_from_another_machine_in_any_unit(unit: float) -> None:
    known = unit * torch.linspace(0, 1, 20)[:, None]
    assert disagreement(known * (1 + 1e-6), known) == 0
    assert disagreement(known + 0.01 * unit, known) == pytest.approx(0.01 * unit, rel=1e-3)
    assert disagreement(known[:5], known) == torch.inf
