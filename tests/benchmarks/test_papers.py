"""The experiments of the papers on small data, and oracles of what they compute."""

import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from torch import Tensor, nn

import manifold_shap as ms
from benchmarks.papers import compositions, negative, pixels, retraining, seven_ways, table1
from benchmarks.papers import outliers as outliers_
from benchmarks.papers import suppressed as suppressed_
from benchmarks.support import bike, coupled, forests, scores, suppression, trained
from benchmarks.support.forests import EVEN, KINDS, LAWS, OFF, ON, ORDERS, OUTLIER, Mixture
from manifold_shap.coalitions import all_coalitions
from manifold_shap.data import sources
from manifold_shap.nn import MLP
from tests.benchmarks.conftest import Run

DRUG = Path(os.environ.get("MANIFOLD_SHAP_DATA", "."), "drug", "drug_consumption.data")


class Bits:
    """Binary rows whose first elements are copies of one bit, which is the class, mostly."""

    def __init__(self, event: Sequence[int] = (4,), names: Sequence[str] | None = None) -> None:
        generator = torch.Generator().manual_seed(0)
        y = torch.randint(2, (240,), generator=generator)
        x = torch.randint(2, (240, *event), generator=generator).float()
        x.flatten(1)[:, :2] = y[:, None]
        wrong = torch.rand(240, generator=generator) < 0.1
        self.x_train = self.x_validation = self.x_test = x
        self.y_train = self.y_test = torch.where(wrong, 1 - y, y)
        self.players = ms.Players.of_elements(tuple(event), names)
        self.classes, self.task = ("0", "1"), "classification"


SMALL_DATA: dict[str, Callable[[], Any]] = {
    "abalone": Bits,
    "drug": Bits,
    "census": partial(Bits, names=("sex", "job", "age", "luck")),
    "mnist": partial(Bits, event=(1, 4, 4)),
}


class Small(trained.Trained):
    """Some players of made-up rows, and imputers that need no training."""

    made: list["Small"] = []  # noqa: RUF012

    def __init__(self, name: str, seed: int, fit: Any = None) -> None:
        self.name, self.seed = name, seed
        self.data: Any = SMALL_DATA[name]()
        x, y = self.data.x_train, self.data.y_train
        self.fitted = fit(x, y) if fit else LogisticRegression().fit(x.flatten(1), y)
        self.explain(self.fitted)
        self.made.append(self)

    def surrogate(self, **changes: Any) -> Any:
        return self.vae(8)

    def vae(self, draws: int, *overrides: str, **changes: Any) -> Any:
        return self.imputed(ms.ExactMatchImputer(self.data.x_train, self.data.players), draws)


def check_sums(values: dict[str, Any], total: float) -> None:
    """Values add up to what the model itself says (Eq. 5)."""
    sums = [sum(one["phi"]) for one in values.values()]
    assert len(sums) >= 3
    assert sums == pytest.approx([total] * len(sums), abs=1e-5)


@pytest.mark.parametrize(("module", "hidden"), [(negative, 100), (pixels, 512)])
def test_experiments_on_small_data_fit_the_papers_classifier(
    run: Run, module: Any, hidden: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "Trained", Small)
    if module is negative:
        found = run("papers/negative", samples=300, draws=4, epochs=1)
        check_sums(found["abalone"], found["above chance"])
    else:
        small = {"coalitions": 32, "permutations": 8, "rows": 20, "epochs": 1}
        found = run("papers/pixels", digits=[0, 1], **small)
        assert (tmp_path / "pixels_maps.png").exists()
        assert found["sizes"][-1] == len(found["digits"][0]) == 16
    classifier = Small.made[-1].fitted
    assert isinstance(classifier, MLPClassifier)
    assert classifier.hidden_layer_sizes == (hidden,)


def test_retraining_on_small_data(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("shap", reason="needs manifold_shap[shap]")
    monkeypatch.setattr(retraining, "Trained", Small)
    found = run("papers/retraining", samples=300, draws=4, trees=3, epochs=1)
    own = {k: v for k, v in found["values"].items() if k not in ("TreeSHAP", "model retraining")}
    check_sums(own, found["above chance"])
    assert all(0 <= share <= 1 for share in found["ahead"].values())


def test_suppressed_on_small_data(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suppressed_, "Trained", Small)
    small = {"samples": 300, "draws": 4, "rates": [1e-3, 1e-4], "tuning_epochs": 2, "epochs": 1}
    found = run("papers/suppressed", **small)
    for name, model in found["models"].items():
        own = {method: values[name] for method, values in found["values"].items()}
        check_sums(own, model["above chance"])
    assert found["chosen"]["rate"] in [one["rate"] for one in found["tried"]]


class People:
    """Rows of sex, a feature that goes with it, and one that does not; y depends on both."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        sex = (torch.rand(600, generator=generator) < 0.5).float()
        noise = torch.randn(600, 3, generator=generator)
        x = torch.stack((1 - sex, sex, sex + 0.3 * noise[:, 0], noise[:, 1]), 1)
        self.x_train, self.y_train = x, (2 * sex - 1 + x[:, 3] + noise[:, 2] > 0).long()
        self.players = ms.Players(("sex", "job", "luck"), torch.tensor([0, 0, 1, 2]))
        self.classes = ("no", "yes")


def test_both_ways_replace_one_player_in_every_row() -> None:
    people = People()
    one, other = suppression.both_ways(people.x_train, people.players)
    assert {tuple(row) for row in one[:, :2].tolist()} == {(0.0, 1.0)}
    assert {tuple(row) for row in other[:, :2].tolist()} == {(1.0, 0.0)}
    for moved in (one, other):
        assert torch.equal(moved[:, 2:], people.x_train[:, 2:])
    # One of the two is the row as it is.
    assert ((one == people.x_train).all(1) ^ (other == people.x_train).all(1)).all()
    with pytest.raises(ValueError, match="Expected two values of 'sex' but the rows have 1"):
        suppression.both_ways(one, people.players)


def test_the_penalty_makes_dependence_fall_and_leaves_accuracy() -> None:
    people = People()
    network = suppression.classifier(people.x_train, people.y_train, seed=0)
    assert isinstance(network, MLP)
    # Two normal features and a bit: the best is about 0.85.
    assert (network(people.x_train).argmax(1) == people.y_train).double().mean() > 0.75
    ways = suppression.both_ways(people.x_train, people.players)
    own: Any = SimpleNamespace(data=people, fitted=network)
    before = suppression.dependence(network, *ways).item()
    kept, hidden = (suppression.suppress(own, alpha, 1e-3, 40, seed=0) for alpha in (0.0, 3.0))
    assert before > 0.2
    assert suppression.dependence(kept, *ways) > before / 2
    assert suppression.dependence(hidden, *ways) < before / 5
    # The job tells the sex.
    assert (hidden(people.x_train).argmax(1) == people.y_train).double().mean() > 0.7
    # The original is another network, and as it was.
    assert suppression.dependence(network, *ways).item() == before


@pytest.mark.parametrize(
    ("dependences", "expected"), [((0.3, 0.09, 0.01, 0.02), 3), ((0.3, 0.11, 0.2, 0.5), 1)]
)
def test_the_most_faithful_copy_that_hides_is_chosen(
    dependences: Sequence[float], expected: int
) -> None:
    """Agreement on test rows, where it would be another one, has no say."""
    tried = [
        {"dependence": left, "faithful": faithful, "agree": 1 - faithful}
        for left, faithful in zip(dependences, (0.99, 0.95, 0.9, 0.96), strict=True)
    ]
    assert suppression.most_faithful(tried) is tried[expected]


def test_agreement_is_on_classes_and_dependence_a_mean_distance_of_the_second() -> None:
    x = torch.tensor([[0.1, 0.9], [0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])
    other: Any = lambda x: x.roll(1, 1)  # noqa: E731
    assert suppression.agreement(nn.Identity(), other, x) == 0.25
    network = nn.Linear(1, 2)
    with torch.no_grad():
        network.weight.copy_(torch.tensor([[0.0], [1.0]]))
        network.bias.zero_()
    one, other = torch.tensor([[0.0], [2.0]]), torch.tensor([[2.0], [0.0]])
    expected = torch.tensor(2.0).sigmoid().item() - 0.5
    assert suppression.dependence(network, one, other).item() == pytest.approx(expected)


def test_values_of_the_tree_are_those_of_the_table_by_hand() -> None:
    x, y = negative.patients(seed=3)
    table = np.zeros((2, 2, 2))
    np.add.at(table, (*x.long().numpy().T, y.numpy()), 1 / len(x))
    p = table.sum(2)
    chance = table / p[..., None]  # f_y(x): a tree that is grown in full.
    on = {
        (): (p[..., None] * chance).sum((0, 1)) + 0 * chance,
        (0,): (table.sum(1) / p.sum(1)[:, None])[:, None] + 0 * chance,
        (1,): (table.sum(0) / p.sum(0)[:, None])[None] + 0 * chance,
        (0, 1): chance,
    }
    off = on | {
        (0,): np.einsum("b,aby->ay", p.sum(0), chance)[:, None] + 0 * chance,
        (1,): np.einsum("a,aby->by", p.sum(1), chance)[None] + 0 * chance,
    }
    found = negative.synthetic(seed=3)
    for name, v in {"on manifold": on, "off manifold": off}.items():
        mean = {coalition: (table * values).sum() for coalition, values in v.items()}
        empty, zero, one, both = mean[()], mean[0,], mean[1,], mean[0, 1]
        expected = [(zero - empty + both - one) / 2, (one - empty + both - zero) / 2]
        # Means of 10,000 numbers in single precision.
        np.testing.assert_allclose(found[name]["phi"], expected, atol=5e-5)
    # What Fig. 4(b) shows; of all tables with the same chances, not of this sample alone.
    assert negative.negative(found["off manifold"]) == ["x1"]
    assert not negative.negative(found["on manifold"])


def test_half_of_the_prediction_is_interpolated() -> None:
    sizes = [0, 10, 20, 40]
    assert pixels.half(sizes, [0.1, 0.3, 0.5, 0.9]) == pytest.approx(20)
    assert pixels.half(sizes, [0.0, 0.0, 0.0, 1.0]) == pytest.approx(30)
    # A value that falls does not count as gained.
    assert pixels.half(sizes, [0.0, 0.4, 0.2, 1.0]) == pytest.approx(20 + 20 / 6)
    # A prediction below the base.
    assert pixels.half(sizes, [1.0, 0.4, 0.2, 0.0]) == pytest.approx(50 / 6)


def test_values_along_an_order_are_of_growing_coalitions_and_the_true_class() -> None:
    generator = torch.Generator().manual_seed(0)
    rows = pixels.BLOCK + 5
    x, y = torch.rand(rows, 6, generator=generator), torch.arange(rows) % 3
    sizes, seen = torch.tensor([0, 1, 4, 6]), []

    def value(x: Tensor, mask: Tensor, keys: Tensor) -> Tensor:
        assert keys.shape == mask.shape[:2]
        seen.append(mask)
        return (x[:, None] * mask).sum(-1, keepdim=True) * torch.arange(3)

    value.players = ms.Players.of_elements((6,))  # type: ignore[attr-defined]
    first, second = (pixels.along(value, x, y, sizes, seed=0) for _ in range(2))  # type: ignore[arg-type]
    mask = torch.cat(seen[:2])
    assert (mask.sum(-1) == sizes).all()
    assert (mask[:, :-1] <= mask[:, 1:]).all()
    # Orders are rows' own, and the same for another value function.
    assert len(mask[:, 1].unique(dim=0)) == 6
    assert torch.equal(first, second)
    torch.testing.assert_close(first, (x[:, None] * mask).sum(-1).T * y)


SCALE = 0.4
PRESENT = [[], [0], [0, 7], [0, 1, 2, 9, 12], list(range(19))]


@pytest.mark.parametrize("present", PRESENT, ids=str)
def test_the_true_conditional_has_the_moments_of_the_posterior(present: list[int]) -> None:
    """Against the four components' weights and moments from their densities, in doubles."""
    x = torch.rand(1, 20, generator=torch.Generator().manual_seed(1))
    mask = torch.zeros(1, 1, 20, dtype=torch.bool)
    mask[..., present] = True
    imputer = forests.TrueConditional(Mixture(SCALE), torch.rand(2, 20))
    count, keys = 40_000, torch.zeros(1, 1, dtype=torch.int64)
    drawn = imputer.impute(x, mask, range(count), keys).rows[0, 0].double().numpy()
    assert (drawn[:, present] == x[0, present].double().numpy()).all()
    means = np.stack([np.full(20, z) for z in (0.0, 1.0)])
    means = np.concatenate([means, np.where(np.arange(20) < 5, 1 - means, means)])
    weights = np.array([0.495, 0.495, 0.005, 0.005])
    if present:
        own = x[0].double().numpy()[present]
        weights = weights * [multivariate_normal.pdf(own, m[present], SCALE**2) for m in means]
        weights /= weights.sum()
    absent = [i for i in range(20) if i not in present]
    mean = weights @ means[:, absent]
    centred = means[:, absent] - mean
    covariance = (weights[:, None] * centred).T @ centred + SCALE**2 * np.eye(len(absent))
    tolerance = 5 * np.sqrt(covariance.diagonal().max() / count)
    np.testing.assert_allclose(drawn[:, absent].mean(0), mean, atol=tolerance, rtol=0)
    spread = np.atleast_2d(np.cov(drawn[:, absent].T))
    np.testing.assert_allclose(spread, covariance, atol=tolerance, rtol=0)


def test_a_hundredth_of_the_rows_read_the_opposite_in_the_first_five() -> None:
    x, is_outlier = Mixture(0.01).draw(seed=0)
    bits = x.round()
    assert is_outlier.sum() == 100
    assert (bits[:, 5:] == bits[:, 5:6]).all()
    assert (bits[:, :5] == torch.where(is_outlier, 1 - bits[:, 5], bits[:, 5])[:, None]).all()
    assert bits[:, 5].mean() == pytest.approx(0.5, abs=0.02)


def test_an_explanation_is_wrong_unless_the_first_five_are_the_largest() -> None:
    right = torch.cat((torch.full((5,), 2.0), torch.ones(15)))
    order_within = right + 0.1 * torch.arange(20).flip(0) * (torch.arange(20) < 5)
    one_below, a_tie = right.clone(), right.clone()
    one_below[3], a_tie[7] = 0.9, 2.0
    phi = torch.stack((right, order_within, one_below, a_tie, right - 5))
    assert forests.error_rate(phi) == 2 / 5


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("kind", KINDS)
def test_coalitions_hold_all_five_or_none_and_others_by_their_law(kind: str, law: str) -> None:
    mask = forests.coalitions(1000, kind, law).flatten(0, 1)
    assert (mask[:, :5] == (kind == OUTLIER)).all()
    found = np.bincount(mask[:, 5:].sum(1).numpy(), minlength=16) / len(mask)
    # Random orders give a coalition a chance of 1 / (21 C(20, size)).
    with_five = 5 if kind == OUTLIER else 0
    chances = [math.comb(15, k) / math.comb(20, k + with_five) for k in range(16)]
    expected = np.full(16, 1 / 16) if law == EVEN else np.array(chances) / sum(chances)
    assert (np.abs(found - expected) < 5 * np.sqrt(expected / len(mask)) + 1e-3).all()
    # No feature is more often in than another.
    share = mask[:, 5:].double().mean(0)
    assert share.max() - share.min() < 0.03


def test_scores_of_coalitions_off_and_on_the_manifold() -> None:
    found = forests.Detector(0.05, 100, seed=0, outliers=4, orders=8)
    of = forests.scores(found, EVEN)[OUTLIER]
    # One in sixteen has the first five alone, which agree, as in an inlier.
    alone = ~forests.coalitions(100, OUTLIER, EVEN)[..., 5:].any(-1)
    assert 0.04 < alone.double().mean() < 0.09
    assert abs(of["mistaken"][ON] - alone.double().mean()) < 0.01
    # Orders hardly ever meet them alone.
    assert forests.scores(found, ORDERS)[OUTLIER]["mistaken"][ON] < 0.01
    assert all(
        sum(density) * np.diff(of["edges"])[0] == pytest.approx(1)
        for density in of["density"].values()
    )


def test_outliers_in_small(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forests.Detector, "learned", lambda self, epochs: {"VAE": self.values[ON]})
    small = {"outliers": 4, "orders": 8, "number_of_forests": 2, "trees": 20, "more_trees": [10]}
    found = run("papers/outliers", sigmas=[0.15, 0.05], learned=[0.05], seed=3, **small)
    kinds = [(one["trees"], one["sigma"]) for one in found["forests"]]
    # Larger forests stand at the ends of the noise.
    assert kinds == [(20, 0.15), (20, 0.05), (10, 0.05), (10, 0.15)]
    assert [sorted(one["wrong"]) for one in found["forests"]] == [
        [OFF, ON], ["VAE", OFF, ON], [OFF, ON], [OFF, ON]
    ]  # fmt: skip
    assert found["forests"][1]["wrong"]["VAE"] == found["forests"][1]["wrong"][ON]
    for one in found["forests"]:
        assert all(
            4 * share == int(4 * share) for shares in one["wrong"].values() for share in shares
        )
    with pytest.raises(ValueError, match=r"Expected `learned` to be some of `sigmas` .* \[0.1\]"):
        outliers_.run(learned=[0.1])


UNITS = ["iris_fixed", "iris_seed_0", "iris_seed_1"]


def of_iris(folder: Path, **changes: Any) -> dict[str, Any]:
    small: dict[str, Any] = {
        "data": ["iris"],
        "seeds": [0, 1],
        "split": 0,
        "pairs": 300,
        "draws": 4,
    }
    return table1.run(**small | {"epochs": 1, "published": None, "folder": str(folder)} | changes)


@pytest.mark.usefixtures("short_trainings")
def test_table_1_of_a_small_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = of_iris(tmp_path)
    assert {path.stem for path in tmp_path.iterdir()} == set(UNITS)
    each = found["iris"]["scores"]
    assert {method: len(some) for method, some in each.items()} == {
        scores.OFF: 1, scores.VAE: 2, scores.SURROGATE: 2
    }  # fmt: skip
    assert all(0 < score["mse"] < 1 for some in each.values() for score in some)
    # Seeds of trainings differ.
    assert each[scores.VAE][0]["mse"] != each[scores.VAE][1]["mse"]
    assert found["seconds"] > 0
    # Once more, nothing is trained.
    monkeypatch.setattr(scores, "prepared", lambda *_: pytest.fail("trained again"))
    assert of_iris(tmp_path) == json.loads(json.dumps(found))


def counted(monkeypatch: pytest.MonkeyPatch, until: int = 99) -> list[str]:
    """Names of the parts that are measured from now on, by nothing; the one after `until` stops."""
    names: list[str] = []

    def measure(own: Any, kind: str, seed: int | None, **_: Any) -> dict[str, Any]:
        if len(names) == until:
            raise KeyboardInterrupt
        names.append(f"iris_{kind}" + ("" if seed is None else f"_{seed}"))
        return {"accuracy": 0.9, "scores": {}, "seconds": 2.0}

    monkeypatch.setattr(scores, "measure", measure)
    return names


def test_an_interrupted_table_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = counted(monkeypatch, until=2)
    with pytest.raises(KeyboardInterrupt):
        of_iris(tmp_path)
    assert first == UNITS[:2]
    rest = counted(monkeypatch)
    of_iris(tmp_path)
    assert rest == UNITS[2:]


@pytest.mark.parametrize(
    ("changes", "measured"),
    [
        ({"seeds": [0, 1, 2]}, ["iris_seed_2"]),
        ({"seeds": [1]}, []),
        ({"epochs": 2}, UNITS[1:]),
        ({"draws": 5}, UNITS),
        ({"pairs": 301}, UNITS),
        ({"split": 1}, UNITS),
    ],
)
def test_what_is_kept_serves_the_same_settings_only(
    changes: dict[str, Any], measured: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted(monkeypatch)
    of_iris(tmp_path)
    names = counted(monkeypatch)
    of_iris(tmp_path, **changes)
    assert names == measured


def test_a_table_of_all_binary_rows_is_the_model() -> None:
    rows = all_coalitions(5).float()
    model = ms.as_model(lambda x: torch.stack((x @ torch.arange(5.0), x[:, 0]), 1), rows)
    shuffled = rows[torch.randperm(32, generator=torch.Generator().manual_seed(0))]
    torch.testing.assert_close(trained.Tabulated(model, 5)(shuffled), model(shuffled).exp())


@pytest.mark.skipif(not DRUG.exists(), reason="no drug data under MANIFOLD_SHAP_DATA")
def test_the_conditional_of_the_test_rows_is_the_optimum_on_them() -> None:
    own = scores.prepared("drug", 0)
    fixed = {"pairs": 2000, "draws": 16, "split": 0}
    found = scores.measure(lambda: own, "fixed", None, None, **fixed)["scores"]
    optimum = found[scores.TABLE]
    assert optimum["mse"] < found[scores.TRAINING_ROWS]["mse"] < found[scores.OFF]["mse"]
    # It draws nothing, and so has no noise to be taken out.
    assert optimum["debiased"] == pytest.approx(optimum["mse"])


SPLIT = bike.split
needs_bikes = pytest.mark.skipif(
    sources.find(None, "bike/day.csv") is None,
    reason=f"no bicycles in a folder named by {sources.VARIABLE}",
)


@needs_bikes
def test_two_days_of_like_temperatures_come_first_and_none_twice() -> None:
    data, fewer = bike.split(seed=1), bike.split(seed=1, days=5)
    assert (len(data.x_train), len(data.x_test), len(data.dates)) == (585, 146, 146)
    assert data.dates[:2] == (20121009, 20121203)
    day = dict(zip(bike.PLAYERS.names, data.x_test[:2].T, strict=True))
    assert day["temp"].tolist() == pytest.approx([13.0, 13.27], abs=0.01)
    assert day["cosyear"][0] < day["cosyear"][1]
    assert len(torch.cat((data.x_train, data.x_test))[:, 0].unique()) == 731
    assert torch.equal(fewer.x_train, data.x_train)
    assert torch.equal(fewer.x_test, data.x_test[:5])


def test_what_goes_to_other_features_is_counted_once() -> None:
    one = torch.tensor([[3.0, 0, 0, -1, 0, 0], [2.0, 0, 0, 0, 0, 0]])
    some = torch.tensor([[3.0, 0, 0, 0, 0, -1], [0.0, 0, 0, 0, 2, 0]])
    none = torch.tensor([[0.0, 3, 1, 0, 0, 0], [0.0, 0, 0, 0, 2, 0]])
    assert seven_ways.apart(one, some).tolist() == [1.0, 2.0]
    assert seven_ways.shares_apart([one, one, some]) == pytest.approx([0, 3 / 6, 3 / 6])
    assert seven_ways.shares_apart([one, none]) == pytest.approx([1])
    found = {"earlier": [1, 1, 1, 0, 0, 0]}
    own = torch.tensor([[-1.0, 1, 1, 1, 0, 0], [0.0, 0, 0, 1, 1, 2]])
    assert seven_ways.earlier_share(found, own).tolist() == [0.75, 0.0]


def test_days_differ_by_their_values_with_the_error_of_both() -> None:
    rows = [[0.0, 5, 0, 0, 0, 0], [0.0, 2, 0, 0, 0, 0]]
    found = {"phi": {"way": rows}, "standard_error": {"way": [[0.3] * 6] * 2}}
    between = seven_ways.between_days(found, "way", "cosyear")
    assert between == pytest.approx((3.0, 0.3 * 2**0.5))


@pytest.mark.parametrize(("shift", "larger"), [(0.0, False), (0.02, False), (1.0, True)])
def test_a_mean_is_larger_only_beyond_its_noise(shift: float, larger: bool) -> None:
    noise = torch.randn(2, 100, generator=torch.Generator().manual_seed(0))
    assert seven_ways.sure(seven_ways.gap(noise[0] + shift, noise[1])) == larger


@pytest.mark.parametrize("changes", [{"days": 1}, {"repeats": 1}])
def test_one_day_or_one_repeat_is_refused_before_anything_is_read(
    changes: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bike, "split", lambda *_: pytest.fail("read"))
    with pytest.raises(ValueError, match="Expected 2 or more `repeats` and `days` but got"):
        seven_ways.run(**changes)


def few(seed: int, days: int | None = None) -> bike.Rentals:
    """A few days to explain, and a sixth of those to learn from."""
    whole = SPLIT(seed, days or 4)
    return replace(whole, x_train=whole.x_train[::6], y_train=whole.y_train[::6])


@needs_bikes
def test_every_way_shares_out_the_same_difference() -> None:
    bench = bike.Bench(few(seed=0), seven_ways.ORDERING, draws=8, repeats=2, seed=0)
    found = bench.ways((False, True, False))
    first = found["marginal"]
    for one in found.values():
        torch.testing.assert_close(one.prediction, first.prediction)
        torch.testing.assert_close(one.base, first.base)
        assert one.efficiency_gap < 1e-5
    known = {name for name, one in found.items() if (one.standard_error == 0).all()}
    assert known == {"marginal", "empirical", bike.AICC, bike.OF_MARGINAL}


@needs_bikes
def test_where_nothing_is_confounded_orders_make_seeing_and_setting_one() -> None:
    ordering = [list(part) for part in seven_ways.ORDERING]
    bench = bike.Bench(few(seed=0, days=2), ordering, draws=64, repeats=20, seed=0)
    gaussian = ms.GaussianImputer(bench.data.x_train, bike.PLAYERS)
    causal = ms.CausalImputer(gaussian, ordering)

    def standardised(asymmetric: bool) -> float:
        seen, set_to = (bench.explain(one, asymmetric) for one in (gaussian, causal))
        error = (seen.standard_error.square() + set_to.standard_error.square()).sqrt()
        return ((seen.phi - set_to.phi) / error).abs().max().item()

    # Of Student's t with 19 degrees of freedom or more, one of 12 is above 7 once in 70,000 times.
    assert standardised(asymmetric=True) < 7
    assert standardised(asymmetric=False) > 7


@needs_bikes
def test_seven_ways_in_small(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bike, "split", few)
    found = run("papers/seven_ways", draws=4, repeats=2, days=4)
    assert len(found["phi"]) == len(found["standard_error"]) == 11
    names = {"seven_ways.png", "seven_ways_october.png", "seven_ways_december.png"}
    assert names < {path.name for path in tmp_path.iterdir()}
    bars = bike.figures(found)["december"]
    assert f"Predicted for {bike.DECEMBER}" in bars.get_suptitle()
    assert bars.axes[0].get_xlabel() == "Shapley value (bicycles)"
    legend: Any = bars.axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == list(bike.WAYS)
    bars.draw_without_rendering()
    # Beside each other, not one over the other, and all on the page.
    assert legend._ncols == 2
    assert legend.get_window_extent().x1 <= bars.bbox.x1


@pytest.mark.parametrize("scaled_by", ["all", "training"])
def test_norms_and_cosines_are_those_of_the_paper(scaled_by: str) -> None:
    flower = coupled.iris(scaled_by)
    explained = [flower.explain(seed) for seed in range(10)]
    told = [compositions.summary(one) for one in explained]
    # To within what the random calibration of the machine itself moves.
    for what in (what for what in compositions.PAPER if what.startswith("norm")):
        figures = torch.tensor([one[what] for one in told])
        assert abs(figures.mean() - compositions.PAPER[what]) < 3 * figures.std()
    assert all(one["cosine of petal length and petal width"] > 0.98 for one in told)
    # Petal length says next to nothing on virginica.
    assert all(abs(one["projection of petal length on virginica"]) < 0.1 for one in told)
    # Features are told in centimetres.
    features: Any = explained[0].features()
    assert features.index.tolist() == [coupled.IRIS_ROW]
    assert features["petal length (cm)"].item() == pytest.approx(4.6, abs=1e-4)
    path = compositions.path(explained[0])
    torch.testing.assert_close(path.sum(1), torch.ones_like(path[:, 0]))
    last = ms.simplex.ilr_inv(explained[0].prediction[0].double(), explained[0].basis)
    torch.testing.assert_close(path[-1], last.exp(), atol=1e-5, rtol=0)


def test_sampling_agrees_with_enumeration() -> None:
    found = compositions.gaps(coupled.iris("all"), range(2))
    assert all(0 < gap < 4 for gap in found.values())


def test_compositions_in_small(run: Run, tmp_path: Path) -> None:
    found = run("papers/compositions", seeds=2, samples=200)
    figures = {f"compositions_figure_{number}.png" for number in (4, 7, 8, 9, 10)}
    assert figures < {path.name for path in tmp_path.iterdir()}
    exact, sampled, scaled = found["told"].values()
    assert exact != sampled != scaled
    again = compositions.drawn(found)["iris"]
    explained = coupled.iris("all").explain(0)
    torch.testing.assert_close(again.phi.double(), explained.phi.double(), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match=r"Expected `seeds` to be 2 or more, .* but got 1"):
        compositions.run(seeds=1)
