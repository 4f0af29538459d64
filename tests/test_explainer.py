"""The front door: from a model and a frame to explanations, saved and loaded."""

import math
import re
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

import manifold_shap as ms
from manifold_shap import candidates
from manifold_shap._messages import UnfitError
from manifold_shap.plots import selection
from tests.learned import few_pairs

FEW = ("gaussian", "copula")


def table(rows: int = 120, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    size = rng.normal(80, 25, rows).round()
    return pd.DataFrame(
        {
            "size": size,
            "rooms": (size / 25 + rng.normal(0, 0.7, rows)).round().clip(1),
            "town": pd.Categorical(np.where(size + rng.normal(0, 20, rows) > 90, "Oslo", "Rome")),
            "renovated": np.where(rng.random(rows) < 0.4, np.nan, rng.integers(1990, 2025, rows)),
        },
        index=[f"house {k}" for k in range(rows)],
    )


FRAME = table()
PRICE = 3 * FRAME["size"] + 40.0 * (FRAME["town"] == "Oslo") + 20.0 * FRAME["renovated"].isna()
TREES = HistGradientBoostingClassifier(max_iter=10, random_state=0).fit(FRAME, PRICE > 250)


@pytest.fixture(scope="module")
def explainer() -> ms.Explainer:
    return ms.Explainer(TREES, FRAME, candidates=FEW, players={"house": ["size", "rooms"]})


def test_rows_of_a_frame_are_explained(explainer: ms.Explainer) -> None:
    explanation = explainer(FRAME.tail(3), evaluations=200)
    assert explanation.instances == ("house 117", "house 118", "house 119")
    assert explanation.players.names == ("house", "town", "renovated")
    assert explanation.outputs == ("False", "True")
    # Trees answer in double precision, and so do explanations.
    assert np.array_equal(explanation.prediction.numpy(), TREES.predict_proba(FRAME.tail(3)))
    assert explanation.efficiency_gap < 1e-6
    assert explanation.made_by["quality"]["chosen"] == explainer.quality.chosen


def test_a_frame_gives_a_frame_with_its_index(explainer: ms.Explainer, tmp_path: Path) -> None:
    index = pd.MultiIndex.from_product([["a", "b"], range(3)], names=["group", "k"])
    rows = FRAME.tail(6).set_axis(index)
    exact = {"estimator": ms.exact_shapley, "outputs": ["True"]}
    found, known = explainer.frame(rows, **exact), explainer(rows, **exact)
    assert found.index.equals(index)
    assert found.index.names == index.names
    assert tuple(found.columns[:3]) == ("prediction", "base", "phi_house")
    assert (found.dtypes == "float64").all()
    assert found["phi_town"].tolist() == known.phi[:, 1, 0].tolist()
    # Of several levels, pandas joins those of the same names.
    known.save(tmp_path / "rows.zarr")
    joined = rows.join(ms.Explanation.load(tmp_path / "rows.zarr").to_frame()[["house"]])
    assert joined["house"].tolist() == found["phi_house"].tolist()
    pd.testing.assert_frame_equal(explainer.frame(rows[["town", "rooms", "size", "renovated"]],
                                                  **exact), found)  # fmt: skip
    nothing = explainer.frame(rows.head(0), **exact)
    assert nothing.dtypes.equals(found.dtypes)
    assert nothing.index.equals(index[:0])
    assert list(explainer.frame(rows.head(0))) == list(explainer.frame(rows, evaluations=20))


def test_the_least_error_on_held_out_rows_is_taken(explainer: ms.Explainer) -> None:
    quality = explainer.quality
    assert set(quality.mse) == {"marginal", *FEW, "stacked"}
    assert quality.mse[quality.chosen] == min(quality.mse.values())
    assert (quality.rows, quality.fits) == (len(FRAME), "5 fits to 96 of 120 rows")
    # What explains is fitted to all rows.
    assert len(explainer.candidates["gaussian"].imputer.reference) == len(FRAME)
    assert explainer.value.name == quality.chosen
    with pytest.raises(KeyError, match=r"\['marginal', .*'typo'"):
        explainer.candidates["typo"]
    assert repr(explainer) == (
        f"Explainer(3 players, outputs ['False', 'True'] in 'probability', by {quality.chosen!r})"
    )


def test_halves_tell_the_error_of_learning(explainer: ms.Explainer) -> None:
    rows = FRAME.tail(3)
    found, again = (explainer(rows, halves=halves, evaluations=200) for halves in (4, 2))
    without = explainer(rows, evaluations=200)
    assert torch.equal(found.phi, without.phi)
    assert (found.model_error > 0).any()
    assert not torch.equal(found.model_error, again.model_error)
    widths = [high - low for low, high in (each.interval() for each in (without, found, again))]
    assert all((width >= widths[0]).all() for width in widths)
    columns = [explainer.frame(part, halves=2).columns for part in (rows, rows.head(0))]
    assert columns[0].equals(columns[1])
    with pytest.raises(ValueError, match="at least 2"):
        explainer(rows, halves=1)


@pytest.fixture
def quick_trainings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings of a few steps."""
    few = {"max_epochs": 1, "hidden": (8,), "trainer": {"limit_train_batches": 2}}
    settings: dict[str, dict[str, Any]] = {
        "fit_imputer": {"latent": 2, "bank_size": 50},
        "fit_surrogate": {"teacher_pairs": 64},
    }

    def quick(fit: Callable[..., Any], own: dict[str, Any], *args: Any, **given: Any) -> Any:
        return fit(*args, **{**given, **few, **own})

    for name, own in settings.items():
        monkeypatch.setattr(candidates, name, partial(quick, getattr(candidates, name), own))


@pytest.mark.usefixtures("quick_trainings")
@pytest.mark.filterwarnings("ignore:Of the candidates")
@pytest.mark.parametrize(
    "names",
    [
        ["surrogate"],
        ["gaussian", "empirical"],
        ["guided_surrogate"],
        pytest.param([*candidates.FAST, *candidates.SLOW], marks=pytest.mark.slow),
    ],
)
def test_every_candidate_is_fitted_saved_and_loaded(names: list[str], tmp_path: Path) -> None:
    explainer = ms.Explainer(TREES, FRAME, candidates=names)
    stacked = {"stacked"} if len(names) > 1 else set()
    assert set(explainer.quality.mse) == {"marginal", *names, *stacked}
    assert explainer.quality.skipped == {}
    for name, value in explainer.candidates.items():
        value.update(quality=explainer.value.spec.quality)
        explainer.value = value
        ms.save(explainer, tmp_path / name)
        loaded = ms.load(tmp_path / name, TREES)
        one, other = (each(FRAME.head(2), evaluations=60) for each in (explainer, loaded))
        assert torch.equal(one.phi, other.phi)
        assert one.made_by == other.made_by


def test_a_model_at_fault_is_not_a_candidate_that_cannot_be_fitted() -> None:
    def sometimes(frame: pd.DataFrame) -> Any:
        answers = TREES.predict_proba(frame)
        answers[frame.index[frame["size"] == FRAME["size"].iloc[100]]] = np.nan
        return answers

    with pytest.raises(ValueError, match="are NaN or infinite"):
        ms.Explainer(sometimes, FRAME, candidates=FEW)


@pytest.mark.parametrize(
    ("error", "reasons"),
    [
        (UnfitError, {"vae": "a fault"}),
        (KeyboardInterrupt, {"vae": "interrupted", "surrogate": "interrupted"}),
    ],
)
def test_candidates_that_do_not_fit_the_table_or_are_interrupted_are_left_out(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException], reasons: dict[str, str]
) -> None:
    def failing(*_: Any, **__: Any) -> Any:
        raise error("a fault")

    monkeypatch.setattr(candidates, "fit_imputer", failing)
    with pytest.warns(UserWarning, match=f"left out: {reasons}"):
        quality = ms.Explainer(TREES, FRAME, candidates=["gaussian", *reasons]).quality
    assert quality.skipped == reasons
    assert [*quality.seconds] == [*quality.mse] == ["marginal", "gaussian"]
    with pytest.raises((ValueError, error), match="a fault"):
        ms.Explainer(TREES, FRAME, candidates=["vae"])


@pytest.mark.filterwarnings("ignore:Of the candidates")
def test_a_regression_is_explained_in_its_own_values() -> None:
    model = HistGradientBoostingRegressor(max_iter=10, random_state=0).fit(FRAME, PRICE)
    explainer = ms.Explainer(model, FRAME, candidates="gaussian", unit="EUR")
    assert explainer.value.space.name == "identity"
    found = explainer(FRAME.head(2), evaluations=60)
    assert found.unit == "EUR"
    assert found.prediction[:, 0].tolist() == pytest.approx(model.predict(FRAME.head(2)))


def test_constant_columns_have_a_share_of_exactly_0_or_belong_to_their_groups() -> None:
    frame = FRAME.assign(country="Norway", year=2024, month=1, kind="flat")
    groups = {"place": ["country", "town"], "date": ["year", "month"]}

    def predict(rows: pd.DataFrame) -> Any:
        assert "kind" not in rows or rows["kind"].eq("flat").all()
        return TREES.predict_proba(rows[[*FRAME]])

    with pytest.warns(UserWarning, match=r"a share of exactly 0: \['country', .*'kind'\]"):
        explainer = ms.Explainer(predict, frame, players=groups, candidates=["gaussian"])
    found = explainer(frame.head(2), evaluations=60)
    alone = ms.Explainer(predict, FRAME, players={"place": ["town"]}, candidates=["gaussian"])
    other = alone(FRAME.head(2), evaluations=60)
    assert found.players.names == (*other.players.names, "date", "kind")
    assert torch.equal(found.phi[:, :-2], other.phi)
    assert (found.phi[:, -2:] == 0).all()
    assert (found.standard_error[:, -2:] == 0).all()
    cells = found.data.iloc[0]
    assert cells["place"] == f"town = {frame['town'].iloc[0]}, country = Norway"
    assert cells["date"] == "year = 2024, month = 1"


@pytest.mark.filterwarnings("ignore:Columns that hold a single value")
def test_groups_and_orderings_may_name_constant_columns() -> None:
    frame = FRAME.assign(country="Norway", year=2024)

    def predict(rows: pd.DataFrame) -> Any:
        return TREES.predict_proba(rows[[*FRAME]])

    value = ms.Explainer(predict, frame, candidates=["gaussian"]).value
    some, first, rest = frame.head(2), [*FRAME][:2], [*FRAME][2:]
    known = ms.exact_shapley(value.grouped({"some": first}), some)
    found = ms.exact_shapley(value.grouped({"some": [*first, "year"]}), some)
    assert found.players.names == known.players.names == ("some", *rest, "country", "year")
    assert torch.equal(found.phi, known.phi)
    known = ms.auto_shapley(value, some, ordering=[first, rest])
    for ordering in ([[*first, "year"], [*rest, "country"]], [["year"], first, rest]):
        found = ms.auto_shapley(value, some, ordering=ordering)
        assert torch.equal(found.phi, known.phi)
        assert found.made_by["ordering"] == [first, rest]
    by_row = value.grouped(
        lambda x: torch.tensor([0, *[1] * (len(FRAME.columns) - 1)]).expand_as(x), 2
    )
    assert ms.exact_shapley(by_row, some).players.names == ("group 0", "group 1")

    with pytest.raises(ValueError, match=r"names than those of constant columns .* \['year'\]"):
        value.grouped({"year": first})
    with pytest.raises(ValueError, match=r"\['same'\] hold none"):
        value.grouped({"same": ["year", "country"]})


@pytest.mark.filterwarnings("ignore:Of the candidates")
def test_a_column_that_never_repeats_may_be_left_out() -> None:
    frame = FRAME[["size"]].assign(number=range(120))

    def predict(rows: pd.DataFrame) -> Any:
        assert list(rows) == list(frame)
        return rows["size"].to_numpy()

    few: Any = {"returns": "values", "candidates": ["gaussian"]}
    told = r"No value repeats in columns \['number'\].*data.drop=\['number'\].*`left_out`"
    with pytest.warns(UserWarning, match=told):
        assert ms.Explainer(predict, frame, **few).table.names == ("size", "number")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "No value repeats")
        explainer = ms.Explainer(predict, frame, left_out="number", **few)
    assert explainer(frame.head(2), evaluations=60).players.names == ("size",)


NORMAL = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 3)), columns=["a", "b", "c"])
A, B = NORMAL["a"], NORMAL["b"]


@pytest.mark.filterwarnings("ignore:Of the candidates")
@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (NORMAL.assign(d=A, e=2.54 * A + 1), r"same in every row, \[\['a', 'd', 'e'\]\]"),
        (NORMAL.assign(d=[*"abc"] * 20, e=[7, 3, 5] * 20), r"in every row, \[\['d', 'e'\]\]"),
        (NORMAL.assign(d=B.where(B.index > 0, 1e9)), r"\['d'\] hold numbers so far out"),
        (NORMAL.assign(d=np.nan, e=1), r"a single value .* \['d', 'e'\]"),
        (NORMAL.assign(d=[f"house {k}" for k in range(60)]), r"No value repeats .*\['d'\]"),
    ],
    ids=["copies", "one to one", "1e9", "missing everywhere", "a category per row"],
)  # fmt: skip
def test_rows_of_any_kind_have_finite_shares(frame: pd.DataFrame, message: str) -> None:
    def predict(rows: pd.DataFrame) -> Any:
        return np.tanh(rows.iloc[:, 0] + rows.iloc[:, 1]) + (rows.iloc[:, -1] == frame.iloc[0, -1])

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        explainer = ms.Explainer(predict, frame, returns="values")
    found = [str(each.message) for each in caught]
    assert len([each for each in found if "candidates" not in each]) == 1
    assert any(re.search(message, each) for each in found)
    explanation = explainer(frame.head(2), evaluations=60)
    assert explanation.phi.isfinite().all()
    assert explanation.efficiency_gap < 1e-5


@pytest.mark.filterwarnings("ignore:Of the candidates")
def test_by_default_nothing_is_trained_and_the_model_is_asked_for_few_rows() -> None:
    asked = 0

    def model(rows: pd.DataFrame) -> Any:
        nonlocal asked
        asked += len(rows)
        return np.tanh(rows["a"] * rows["b"] + rows["c"])

    with few_pairs(math.inf):
        explainer = ms.Explainer(model, NORMAL, returns="values")
    assert set(explainer.quality.mse) == {"marginal", *candidates.FAST, "stacked"}
    # Of each, 2,048 pairs of a row and a coalition with 16 draws, and predictions.
    assert asked < 1.1 * 5 * 2048 * 16
    asked = 0
    explainer(NORMAL.head(2))
    assert asked < 1.1 * 2 * 8192 * (len(NORMAL.columns) + 1)


def test_a_model_no_value_function_is_better_for_is_warned_of() -> None:
    few: Any = {"returns": "values", "candidates": ["empirical"]}
    with pytest.warns(UserWarning, match=r"^'empirical' is not clearly better than off"):
        explainer = ms.Explainer(lambda rows: rows.sum(axis=1).to_numpy(), NORMAL, **few)
    explanation = explainer(NORMAL.head(2))
    assert f"Caution: {explanation.quality['warning']}" in repr(explanation)


def test_candidates_that_are_late_are_left_out() -> None:
    with pytest.warns(UserWarning, match="left out: {'copula': 'fit_seconds=1e-06 had passed'}"):
        quality = ms.Explainer(TREES, FRAME, candidates=FEW, fit_seconds=1e-6).quality
    assert set(quality.mse) == {"marginal", "gaussian"}
    assert quality.skipped == {"copula": "fit_seconds=1e-06 had passed"}
    assert quality.rows <= -(-len(FRAME) // 5)  # One is compared all the same, by a single fit.


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        (FRAME.head(10), {}, "at least 20 rows, .* but got 10"),
        (FRAME, {"candidates": []}, r"at least one of `candidates` to be fitted but of \[\]"),
        (FRAME, {"effort": "most"}, "`effort` to be one of .'low', 'high'"),
        (FRAME, {"classes": ["no", "no"]}, "Expected distinct `classes`"),
        (FRAME, {"unit": "EUR"}, "`unit` for the values of a regression"),
        (FRAME.assign(price=PRICE), {}, r"has \['price'\] besides; drop"),
    ],
)
def test_bad_input(frame: pd.DataFrame, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ms.Explainer(TREES, frame, **options)


def test_names_of_classes_are_no_choice_of_their_order() -> None:
    with pytest.raises(ValueError, match=r"`classes` in the model's order, \['False', 'True'\]"):
        ms.Explainer(TREES, FRAME, classes=["True", "False"])


def test_each_candidate_says_how_good_it_is(explainer: ms.Explainer) -> None:
    off = ms.auto_shapley(explainer.candidates["marginal"], FRAME.head(2), evaluations=60)
    assert repr(explainer.candidates).startswith("Fits(['marginal', ")
    share = 100 * (1 - explainer.quality.off_manifold / explainer.quality.variance)
    assert f"'marginal' explains {share:.0f} % of the model's variance where" in repr(off)


def test_a_target_has_no_place() -> None:
    with pytest.raises(TypeError, match="leave the target out"):
        ms.Explainer(TREES, FRAME, PRICE)


@pytest.mark.usefixtures("any_type")
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_evals": 9}, r"\['evaluations', .*'outputs'.* but got \['max_evals'\]"),
        ({"estimator": "exact"}, "a function, such as `ms.exact_shapley`, but got 'exact'"),
    ],
)
def test_settings_of_a_call_are_checked(
    explainer: ms.Explainer, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        explainer(FRAME.head(2), **settings)


def test_people_are_told_how_much_of_the_model_the_value_function_explains(
    explainer: ms.Explainer,
) -> None:
    quality, found = explainer.quality, explainer(FRAME.head(2), evaluations=60)
    predictions = torch.from_numpy(TREES.predict_proba(FRAME))
    assert quality.variance == pytest.approx(predictions.var(0, correction=0).mean().item())
    sure = max(1, round(100 * quality.error_standard_error / quality.variance))
    said = f"explains {100 * quality.explained:.0f} ± {sure} % of the model's variance"
    off = 100 * (1 - quality.off_manifold / quality.variance)
    assert f"{said} where features are hidden (off the manifold {off:.0f} %" in repr(found)
    assert f"error {quality.root_mean_squared_error:.3g} (probability)" in repr(found)
    assert said in repr(quality)
    assert any(said in line for line in selection.notes({"": found}))


def test_what_a_slow_model_will_take_is_announced(capsys: pytest.CaptureFixture[str]) -> None:
    asked, said = list[int](), ""

    def slow_by_row(frame: pd.DataFrame) -> np.ndarray:
        nonlocal said
        asked.append(len(frame))
        said += capsys.readouterr().err
        if "Comparing" not in said:  # Until then it is timed.
            time.sleep(1e-3 * len(frame))
        return TREES.predict_proba(frame)

    def slow_by_call(frame: pd.DataFrame) -> np.ndarray:
        time.sleep(0.08)
        return TREES.predict_proba(frame)

    ms.Explainer(slow_by_row, FRAME, candidates=FEW, progress=True)
    (rows,) = re.findall(r"Comparing 3 value functions: about ([\d,]+) rows", said)
    assert int(rows.replace(",", "")) == pytest.approx(sum(asked), rel=0.05)
    ms.Explainer(slow_by_call, FRAME, candidates=FEW, progress=True)
    assert "Comparing" not in capsys.readouterr().err
