"""Surrogates taught by another value function: what they gain, and that trainings are resumed."""

import copy
import itertools
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import manifold_shap as ms
from manifold_shap.coalitions import all_coalitions
from manifold_shap.surrogate import distillation
from manifold_shap.surrogate.distillation import (
    check_teacher,
    disagreement,
    evaluate_teacher,
    rows_to_teach,
)
from manifold_shap.surrogate.perceptron import Perceptron
from manifold_shap.surrogate.task import SurrogateTask
from manifold_shap.values import model_for
from manifold_shap.values.model import ModelValue

MASKS = all_coalitions(3)
ROWS = torch.tensor(list(itertools.product([0.0, 1.0], repeat=3)))
# Rows out of 100 with each value of three binary features; the first two go together.
COUNTS = torch.tensor([22, 18, 4, 6, 5, 5, 10, 30])
TABLE = ROWS.repeat_interleave(COUNTS, dim=0)


def classifier(x: Tensor) -> Tensor:
    """Probabilities of two classes, with an interaction."""
    p = torch.sigmoid(2 * x[:, 0] - 3 * x[:, 1] * x[:, 2] + x[:, 2])
    return torch.stack((1 - p, p), dim=-1)


class TableValue(ModelValue):
    """v(S) = E[f | x_S] under the table, plus an offset; and how many values were evaluated for."""

    name = "table"

    def __init__(self, offset: float = 0.0, players: ms.Players | None = None) -> None:
        space = ms.Probability()
        self.offset, self.evaluated = offset, 0
        players = players or ms.Players.of_elements((3,))
        model = model_for(classifier, ROWS, space)
        super().__init__(model, players, space, classifier(TABLE).mean(0))

    def values(self, x: Tensor, mask: Tensor, keys: Tensor) -> Tensor:
        self.evaluated += keys.numel()
        differs = x[:, None, None] != TABLE
        agrees = ~(differs & self.players.expand(mask)[:, :, None]).any(-1)
        weight = agrees / agrees.sum(-1, keepdim=True)
        return weight @ classifier(TABLE) + self.offset * torch.tensor([1.0, -1.0])


def fit(**settings: Any) -> ms.SurrogateValue:
    """A surrogate of `classifier` trained for moments, unless `settings` say otherwise."""
    arguments: dict[str, Any] = {
        "x_validation": TABLE[::7], "hidden": [8], "max_epochs": 3, "batch_size": 16,
        "teacher_pairs": 200, "trainer": {"accelerator": "cpu", "limit_train_batches": 10},
    }  # fmt: skip
    model = settings.pop("model", classifier)
    return ms.fit_surrogate(model, settings.pop("x_train", TABLE), **{**arguments, **settings})


def distance(value: ms.SurrogateValue, truth: ms.ValueFunction) -> float:
    """Mean squared difference over all rows and coalitions with one or two players."""
    mask = MASKS[1:-1].expand(8, -1, -1)
    return (value(ROWS, mask) - truth(ROWS, mask)).square().mean().item()


def marginal(draws: int = 4, seed: int = 0) -> ms.ImputedValue:
    return ms.imputed_value(classifier, ms.MarginalImputer(TABLE), draws=draws, seed=seed)


def weights(value: ms.SurrogateValue) -> list[Tensor]:
    return list(value.surrogate.state_dict().values())


def same_weights(a: ms.SurrogateValue, b: ms.SurrogateValue) -> bool:
    return all(torch.equal(*pair) for pair in zip(weights(a), weights(b), strict=True))


@contextmanager
def ctrl_c_at(step: int) -> Iterator[None]:
    """Send this process SIGINT, as Ctrl-C does, in the given training step of a surrogate."""
    steps = itertools.count()

    def interrupt(module: nn.Module, _: Any) -> None:
        if isinstance(module, Perceptron) and module.training and next(steps) == step:
            signal.raise_signal(signal.SIGINT)

    hook = nn.modules.module.register_module_forward_pre_hook(interrupt)
    try:
        yield
    finally:
        hook.remove()


# A few hundred steps.
LONGER = {
    "x_validation": TABLE, "hidden": [32], "max_epochs": 4, "batch_size": 32,
    "learning_rate": 0.02, "weight_averaging": 0.95, "teacher_pairs": 2000,
    "trainer": {"accelerator": "cpu", "limit_train_batches": 50},
}  # fmt: skip


@pytest.mark.usefixtures("many_calls")
@pytest.mark.slow
def test_a_good_teacher_brings_the_surrogate_closer_to_the_truth() -> None:
    truth = TableValue()

    def gap(**taught: Any) -> float:
        """Mean over three seeds, of as many steps of as many rows."""
        return sum(distance(fit(**LONGER, seed=seed, **taught), truth) for seed in range(3)) / 3

    plain = gap()
    assert gap(teacher=truth, teacher_share=0.9) < 0.6 * plain
    assert gap(teacher=truth, teacher_share=1.0) < 0.3 * plain


def test_the_surrogate_believes_its_teacher_as_far_as_its_share_goes() -> None:
    truth, wrong = TableValue(), TableValue(offset=-0.1)
    whole = fit(**LONGER, teacher=wrong, teacher_share=1.0)
    half = fit(**LONGER, teacher=wrong, teacher_share=0.5)
    mask = MASKS[1:-1].expand(8, -1, -1)

    def shift(value: ms.SurrogateValue) -> float:
        return (value(ROWS, mask) - truth(ROWS, mask))[..., 0].mean().item()

    assert shift(whole) == pytest.approx(-0.1, abs=0.02)
    assert shift(half) == pytest.approx(-0.05, abs=0.02)


def test_anchors_are_the_models_own() -> None:
    value, truth = fit(teacher=TableValue(offset=0.1)), TableValue()
    mask = MASKS.expand(8, -1, -1)
    assert torch.equal(value(ROWS, mask)[:, -1], truth.prediction(ROWS))
    torch.testing.assert_close(value.base(ROWS), truth.base(ROWS))


def test_targets_are_the_teachers_values() -> None:
    teacher = marginal()
    targets = evaluate_teacher(teacher, TABLE, 301, seed=5)
    assert targets.target.shape == (151, 2, 2)
    # Each row once, and half of them once more.
    assert sorted(torch.bincount(targets.row).unique().tolist()) == [1, 2]
    # One player of a pair is in neither coalition.
    assert torch.equal(targets.mask.sum((1, 2)), torch.full((151,), 2))
    assert not (targets.mask[:, 0] & targets.mask[:, 1]).any()
    empty = ~targets.mask.any(-1)
    torch.testing.assert_close(
        targets.target[empty], teacher.expectation.expand(int(empty.sum()), -1)
    )


def test_each_target_has_draws_of_its_own() -> None:
    targets = evaluate_teacher(marginal(draws=1), TABLE[:1], 400, seed=0)
    first = targets.mask.flatten(0, 1).long() @ torch.tensor([1, 2, 4]) == 1
    # One donor each: four completions of the first feature, with three different outputs.
    assert len(targets.target.flatten(0, 1)[first][:, 0].unique()) == 3


def test_the_size_of_a_call_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = evaluate_teacher(marginal(), TABLE, 300, seed=1)
    monkeypatch.setattr(distillation, "_ROWS_PER_CALL", 7)
    parts = evaluate_teacher(marginal(), TABLE, 300, seed=1)
    torch.testing.assert_close(parts.target, whole.target)
    assert torch.equal(parts.mask, whole.mask)


def test_a_sample_of_targets() -> None:
    targets = evaluate_teacher(TableValue(), TABLE, 300, seed=1)
    sampled = targets.sample(50, torch.Generator().manual_seed(0))
    x, mask, target = sampled
    torch.testing.assert_close(TableValue()(x, mask), target)
    again = targets.sample(50, torch.Generator().manual_seed(0))
    assert all(torch.equal(*pair) for pair in zip(sampled, again, strict=True))
    # A copy for averaged weights must not double the data.
    assert copy.deepcopy(targets).mask is targets.mask


def test_same_seed_same_weights() -> None:
    first = fit(teacher=marginal(), seed=3)
    torch.rand(5)
    assert same_weights(fit(teacher=marginal(), seed=3), first)
    assert not same_weights(fit(teacher=marginal(seed=1), seed=3), first)
    assert not same_weights(fit(seed=3), first)


def test_an_interrupted_training_goes_on_as_if_nothing_had_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distillation, "_ROWS_PER_CALL", 20)
    # Three epochs of 10 steps: the interruption comes in the second one.
    teacher = TableValue()
    whole = fit(teacher=teacher)
    with ctrl_c_at(13), pytest.raises(KeyboardInterrupt):
        fit(teacher=teacher, directory=tmp_path)
    evaluated = teacher.evaluated
    continued = fit(teacher=teacher, directory=tmp_path)
    assert same_weights(continued, whole)
    # One call of the teacher, to tell that it is the same; its values were kept.
    assert teacher.evaluated - evaluated == 20
    assert continued.training_record["teacher_seconds"] > 0


def test_an_interruption_while_the_teacher_is_evaluated_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(TableValue):
        def values(self, x: Tensor, mask: Tensor, keys: Tensor) -> Tensor:
            if self.evaluated > 100:
                raise KeyboardInterrupt
            return super().values(x, mask, keys)

    monkeypatch.setattr(distillation, "_ROWS_PER_CALL", 20)
    with pytest.raises(KeyboardInterrupt):
        fit(teacher=Interrupted(), directory=tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert same_weights(fit(teacher=TableValue(), directory=tmp_path), fit(teacher=TableValue()))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"teacher_pairs": 100}, "differs in: teacher"),
        ({"teacher": None}, "differs in: teacher"),
        # Of the same name and settings, but trained otherwise.
        ({"teacher": TableValue(0.05)}, r"its teacher was another one \(.* by up to 0.05\)"),
    ],
)
def test_a_directory_with_another_training_is_refused(
    tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    settings = {"max_epochs": 1, "directory": tmp_path, "teacher": TableValue()}
    with ctrl_c_at(3), pytest.raises(KeyboardInterrupt):
        fit(**settings)
    assert [path.name for path in tmp_path.iterdir()] == ["teacher.ckpt"]
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ValueError, match=message):
        fit(**{**settings, **changed})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_round_trip_through_a_file(tmp_path: Path) -> None:
    value = fit(teacher=marginal(), teacher_share=0.25)
    value.save(tmp_path / "surrogate.ckpt")
    loaded = ms.load_surrogate(tmp_path / "surrogate.ckpt", classifier)
    mask = MASKS.expand(8, -1, -1)
    assert torch.equal(loaded(ROWS, mask), value(ROWS, mask))
    taught = loaded.checkpoint["hyper_parameters"]["teacher"]
    assert taught == {"pairs": 200, "share": 0.25, **marginal().provenance}
    # Nor do the values of the teacher, or the rows, go into the file.
    assert loaded.checkpoint["state_dict"].keys() == fit().checkpoint["state_dict"].keys()


def test_players_are_those_of_the_teacher() -> None:
    players = ms.Players(("left", "right"), torch.tensor([0, 1, 1]))
    value = fit(teacher=TableValue(players=players))
    assert value.players.names == ("left", "right")
    assert torch.equal(value.players.index, players.index)


def test_a_small_share_of_a_small_batch_has_no_target() -> None:
    settings = {
        "event": (3,), "index": [0, 1, 2], "players": "abc", "outputs": "01",
        "network": {"kind": "mlp", "hidden": [8]}, "elements": None, "padding": None, "blocks": 0,
        "space": {"output": "probability"}, "teacher": {"share": 0.1}, "seed": 0,
    }  # fmt: skip
    task = SurrogateTask(settings)
    task.teacher_targets = evaluate_teacher(TableValue(offset=100.0), TABLE, 20, seed=0)
    batch = TABLE[:4], classifier(TABLE[:4])
    generator = torch.Generator()
    assert task.loss(batch, generator).mean() < 1
    task.settings["teacher"]["share"] = 0.25
    assert task.loss(batch, generator).mean() > 1000


# A normal table of three columns; the first two make a product, so that v(S) is no plane.
MIXING = torch.tensor([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [-0.6, 0.3, 0.7]])
NORMAL = torch.randn(150, 3, generator=torch.Generator().manual_seed(0)) @ MIXING.T


def product(x: Tensor) -> Tensor:
    """A regression with a product and a step."""
    return x[:, :1] * x[:, 1:2] + (x[:, 2:] > 0.5).float()


class NormalValue(ModelValue):
    """v(S) of `product` under the normal law with the moments of some rows, in closed form."""

    name = "normal"

    def __init__(self, x: Tensor) -> None:
        space = ms.Identity()
        players = ms.Players.of_elements((3,))
        super().__init__(model_for(product, x, space), players, space, product(x).mean(0))
        self.mean, self.covariance = x.mean(0).double(), x.T.double().cov()

    def values(self, x: Tensor, mask: Tensor, keys: Tensor) -> Tensor:
        out = torch.stack(
            [self._value(row, s) for row, own in zip(x, mask, strict=True) for s in own]
        )
        return out.view(*mask.shape[:2], 1).float()

    def _value(self, row: Tensor, s: Tensor) -> Tensor:
        mean, covariance = row.double().clone(), torch.zeros(3, 3, dtype=torch.float64)
        a, b = (~s).nonzero()[:, 0], s.nonzero()[:, 0]
        gain = torch.linalg.solve(self.covariance[b][:, b], self.covariance[b][:, a]).T
        mean[a] = self.mean[a] + gain @ (row[b].double() - self.mean[b])
        covariance[a[:, None], a] = self.covariance[a][:, a] - gain @ self.covariance[b][:, a]
        above = torch.special.ndtr((mean[2] - 0.5) / covariance[2, 2].sqrt())
        step = above if covariance[2, 2] > 0 else (mean[2] > 0.5).double()
        return mean[0] * mean[1] + covariance[0, 1] + step


@pytest.mark.usefixtures("many_calls")
def test_of_a_small_table_a_surrogate_is_as_close_to_the_truth_as_its_teacher() -> None:
    imputer = ms.GaussianImputer(NORMAL)
    teacher = ms.imputed_value(product, imputer, "identity", draws=4)
    truth, x = NormalValue(NORMAL), teacher.drawn_rows(200, seed=7)
    mask = MASKS[1:-1].expand(200, -1, -1)

    def error(**taught: Any) -> float:
        brief = {"output": "identity", "hidden": [64], "max_epochs": 6, "batch_size": 128}
        few = {"accelerator": "cpu", "limit_train_batches": 100}
        value = ms.fit_surrogate(
            product, NORMAL, x_validation=x, learning_rate=0.01, trainer=few, **brief, **taught
        )
        return (value(x, mask) - truth(x, mask)).square().mean().item()

    spread = truth(x, mask).var().item()
    taught = error(teacher=teacher, teacher_pairs=6000, teacher_share=0.9)
    assert taught < 0.04 * spread
    assert taught < 0.6 * error()


def test_rows_of_a_small_table_are_drawn_from_the_teacher() -> None:
    teacher = marginal()
    # Four coalitions a row are few enough.
    assert rows_to_teach(teacher, TABLE, 400, seed=0) is None
    assert rows_to_teach(teacher, TABLE, 401, seed=0) is not None
    rows = rows_to_teach(teacher, TABLE, 2002, seed=0)
    assert rows is not None
    assert rows.shape == (4004, 3)
    share = (rows[:, None] == ROWS).all(-1).double().mean(0)
    torch.testing.assert_close(share, COUNTS / COUNTS.sum(), atol=0.04, rtol=0, check_dtype=False)
    assert torch.equal(rows, rows_to_teach(teacher, TABLE, 2002, seed=0))
    # A teacher without a law of its rows has none to draw.
    assert rows_to_teach(TableValue(), TABLE, 2002, seed=0) is None


def test_drawn_rows_teach_by_their_own_prediction_too() -> None:
    rows = marginal().drawn_rows(300, seed=3)
    known = evaluate_teacher(marginal(), rows, 300, seed=1, drawn=True)
    torch.testing.assert_close(known.outputs, classifier(rows))
    x, mask, target = known.sample(50, torch.Generator().manual_seed(0))
    assert [part.shape for part in (x, mask)] == [(50, 3), (50, 2, 3)]
    own = classifier(x)[:, None].expand(-1, 2, -1)
    torch.testing.assert_close(target[25:], own[25:])
    assert not torch.allclose(target[:25], own[:25])
    # One alone is the teacher's.
    assert not torch.allclose(known.sample(1, torch.Generator())[2], own[:1])


def test_a_surrogate_taught_by_drawn_rows_is_resumed_and_read_back(tmp_path: Path) -> None:
    def gaussian(x: Tensor) -> Tensor:
        return x[:, :2].softmax(-1)

    teacher = ms.imputed_value(gaussian, ms.GaussianImputer(NORMAL), draws=2)
    taught = {"model": gaussian, "x_train": NORMAL, "x_validation": NORMAL[:20]}
    taught |= {"teacher": teacher, "teacher_pairs": 4000}
    whole = fit(**taught)
    assert whole.surrogate.binned.tolist() == [0, 1, 2]
    with ctrl_c_at(13), pytest.raises(KeyboardInterrupt):
        fit(**taught, directory=tmp_path)
    assert same_weights(fit(**taught, directory=tmp_path), whole)
    whole.save(tmp_path / "surrogate.ckpt")
    loaded = ms.load_surrogate(tmp_path / "surrogate.ckpt", gaussian)
    mask = MASKS.expand(8, -1, -1)
    assert torch.equal(loaded(NORMAL[:8], mask), whole(NORMAL[:8], mask))


class Overflowing(TableValue):
    """Values that are infinite."""

    def values(self, x: Tensor, mask: Tensor, keys: Tensor) -> Tensor:
        return super().values(x, mask, keys) / 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"teacher_pairs": 1}, "`teacher_pairs` to be a whole number of at least 2 but got 1"),
        ({"teacher_share": 0.0}, "number above 0 and of at most 1 but got 0.0"),
        ({"teacher_share": 1.5}, "number above 0 and of at most 1 but got 1.5"),
        (
            {"players": ms.Players.of_elements((3,), ("a", "b", "c"))},
            r"the surrogate's 3 players \('a', 'b', 'c'\) but it has 3, \('x0', 'x1', 'x2'\)",
        ),
        (
            {"players": ms.Players(("x0", "x1", "x2"), torch.tensor([1, 0, 2]))},
            "or they own other elements; give the same `players` to both",
        ),
        ({"output": "ilr"}, "output='ilr', as the surrogate, but it has 'probability'"),
        ({"model": lambda x: classifier(1 - x)}, "it predicts otherwise"),
        ({"teacher": Overflowing()}, r"entries of `teacher\(x, mask\)` are NaN or infinite"),
    ],
)
def test_errors(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit(**{"teacher": TableValue(), **settings})


def test_a_teacher_is_a_value_function_and_its_pairs_are_counted() -> None:
    with pytest.raises(TypeError, match=r"`teacher` to be a value function, .* but got str"):
        check_teacher("vae", 200, 0.5)
    with pytest.raises(TypeError, match=r"`teacher_pairs` to be a whole number .* got 200000.0"):
        check_teacher(TableValue(), 2e5, 0.5)


@pytest.mark.gpu
def test_targets_reach_a_training_on_a_gpu() -> None:
    value = fit(**{**LONGER, "trainer": {"accelerator": "gpu"}}, teacher=TableValue())
    assert distance(value, TableValue()) < 1e-3


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_another_model_is_told_from_another_machine_in_any_unit(unit: float) -> None:
    known = unit * torch.linspace(0, 1, 20)[:, None]
    assert disagreement(known * (1 + 1e-6), known) == 0
    assert disagreement(known + 0.01 * unit, known) == pytest.approx(0.01 * unit, rel=1e-3)
    assert disagreement(known[:5], known) == torch.inf
