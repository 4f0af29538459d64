"""Seven ways where columns are categories: what each draws, how far values agree, and the plots."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from benchmarks.papers import categories
from benchmarks.support import people, people_measures
from benchmarks.support.differences import jackknife, share_apart
from benchmarks.support.people import COLUMNS, EXACT, IMPUTERS, MARGINAL, OF_MARGINAL, WAYS
from manifold_shap.data import sources
from tests.benchmarks.conftest import Run

needs_census = pytest.mark.skipif(
    sources.find(None, "census/adult.data") is None,
    reason=f"no census in a folder named by {sources.VARIABLE}",
)


@pytest.fixture(scope="module")
def bench() -> people.Bench:
    return people.Bench(rows=4, background=500, draws=4, repeats=2, seed=0)


def found_of(phi: Any, sex: list[str]) -> dict[str, Any]:
    """Values of sex, and none of other columns, of each way."""
    values = {}
    for way, one in phi.items():
        values[way] = np.zeros((len(sex), len(COLUMNS)))
        values[way][:, COLUMNS.index("sex")] = one
    return {
        "phi": {way: one.tolist() for way, one in values.items()},
        "standard_error": {way: (0 * one).tolist() for way, one in values.items()},
        "people": {"sex": sex},
        "prediction": [0.45, 0.9, 0.5, 0.1],
    }


def test_categories_are_apart_by_the_share_of_variance_between_them() -> None:
    sex = ["Female", "Female", "Male", "Male"]
    found = found_of({"one": [-1, -1, 2, 2], "other": [-1, 1, -1, 1], "third": [0, 2, 2, 4]}, sex)
    told = [people_measures.separation(found, way, "sex") for way in ("one", "other", "third")]
    assert told == pytest.approx([1, 0, 0.5])
    assert people_measures.by_sex(found, "third") == (1, 3)


def test_noise_of_draws_does_not_bring_categories_together() -> None:
    generator = np.random.default_rng(0)
    sex = ["Female", "Male"] * 10_000
    means = np.where(np.array(sex) == "Male", 1.0, -1.0)
    own, noise = means + generator.normal(0, 0.5, 20_000), generator.normal(0, 1, 20_000)
    found = found_of({"noisy": own + noise}, sex)
    assert people_measures.separation(found, "noisy", "sex") < 0.5
    found["standard_error"]["noisy"] = np.ones((20_000, len(COLUMNS))).tolist()
    # Of variances 1 between and 0.25 within.
    assert people_measures.separation(found, "noisy", "sex") == pytest.approx(0.8, abs=0.05)


def test_noise_counts_by_degrees_of_freedom() -> None:
    found = found_of({"one": [0, 2, 2, 4]}, ["Female", "Female", "Male", "Male"])
    found["standard_error"]["one"] = np.full((4, len(COLUMNS)), 0.4**0.5).tolist()
    # Of variances 1 between two means, and 2 of four values, 0.4 · 1/4 and 0.4 · 3/4 are noise.
    assert people_measures.separation(found, "one", "sex") == pytest.approx(0.9 / 1.7)


def test_one_way_leads_by_its_eta_squared_and_an_error_over_people() -> None:
    generator = np.random.default_rng(0)
    sex = ["Female", "Male"] * 50
    means = np.where(np.array(sex) == "Male", 1.0, -1.0)
    sharp, blurred = (means + generator.normal(0, spread, 100) for spread in (0.1, 1.0))
    found = found_of({"sharp": sharp, "blurred": blurred, "twin": blurred}, sex)
    difference, error = people_measures.lead(found, ("sharp",), ("blurred", "twin"), "sex")
    each = [people_measures.separation(found, way, "sex") for way in ("sharp", "blurred")]
    assert difference == pytest.approx(each[0] - each[1])
    # Of correlations: an error of R² is about 2 R (1 - R²) / √n.
    expected = 2 * each[1] ** 0.5 * (1 - each[1]) / 10
    assert expected / 2 < error < 2 * expected
    assert people_measures.lead(found, ("twin",), ("blurred",), "sex") == (0, 0)


def test_values_are_apart_from_alike_to_one() -> None:
    one, other = torch.tensor([[1.0, -2.0]]), torch.tensor([[1.0, 2.0]])
    assert share_apart(one, one) == 0
    assert share_apart(one, -one) == 1
    assert share_apart(one, other) == pytest.approx(4 / 6)
    found = found_of({"a": [1, 1], "b": [1, 1], "c": [3, 1]}, ["Female", "Male"])
    assert people_measures.most_apart(found, ("a", "b"), ["sex"]) == 0
    assert people_measures.most_apart(found, ("a", "b", "c"), ["sex"]) == pytest.approx(2 / 6)


def test_the_jackknife_of_a_mean_has_its_standard_error() -> None:
    figures = np.array([1.0, 2.0, 4.0, 9.0])
    mean, error = jackknife(lambda k: float(figures[np.arange(4) != k].mean()), 4)
    assert mean == 4
    assert error == pytest.approx(figures.std(ddof=1) / 2)


def test_people_agree_if_all_ways_have_one_feature_first() -> None:
    sex = ["Female"] * 4
    found = found_of({way: [1, 1, 1, 1] for way in WAYS}, sex)
    assert people_measures.agreeing(found, 1.0) == (4, 4)
    assert people_measures.agreeing(found, 0.1) == (2, 2)
    found["phi"][WAYS[3]][0][0] = -2.0
    assert people_measures.agreeing(found, 0.1) == (1, 2)


def test_a_relationship_may_contradict_the_sex() -> None:
    frame = pd.DataFrame({
        "sex": ["Male", "Female", "Male", "Female", "Female"],
        "relationship": ["Husband", "Husband", "Wife", "Wife", "Own-child"],
    })  # fmt: skip
    assert people.contradicting(frame).tolist() == [False, True, True, False, False]


@needs_census
def test_the_first_of_the_people_is_nearest_to_a_half(bench: people.Bench) -> None:
    assert abs(bench.predict(bench.people)[0, 1] - 0.5) < 0.001
    assert 0.82 < bench.accuracy < 0.86
    assert 0 < bench.couples < 0.001
    assert bench.people.index.is_unique


@needs_census
def test_numbers_for_categories_mean_the_same_people(bench: people.Bench) -> None:
    """Cells of the background are drawn as they are, however they are numbered."""
    expected = bench.explain(bench.imputer(MARGINAL))
    for turned in (False, True):
        found = bench.numbered(MARGINAL, turned)
        torch.testing.assert_close(found.phi, expected.phi)
    one, other = (bench.numbered(people.GAUSSIAN, turned) for turned in (False, True))
    assert share_apart(one.phi[..., 1], other.phi[..., 1]) > 0.01


@needs_census
def test_a_gaussian_of_numbers_draws_what_no_category_is(bench: people.Bench) -> None:
    tried = {way: bench.as_they_are(way) for way in IMPUTERS}
    assert {one["frame of text"] for one in tried.values()} == {"refused"}
    whole, blocks = (
        {way: one[f"{what} drawn that are no category"] for way, one in tried.items()}
        for what in ("whole numbers", "one-hot blocks")
    )
    assert {way for way, share in whole.items() if share > 0} == {people.GAUSSIAN}
    assert whole[people.GAUSSIAN] == blocks[people.GAUSSIAN] == 1
    # Of rows, blocks are categories.
    assert blocks[MARGINAL] == blocks[people.EMPIRICAL] == blocks[EXACT] == 0


@needs_census
def test_cells_of_one_row_contradict_each_other_less(bench: people.Bench) -> None:
    marginal, causal = bench.unlike(bench.imputer(MARGINAL)), bench.unlike(bench.causal())
    # Of a thousand draws, which have the shares of the rows that they are.
    assert marginal["shares of categories apart"] < 0.05
    seen = bench.unlike(bench.imputer(people.EMPIRICAL))["contradictions, sex drawn"]
    # A cause is drawn whatever its effects are.
    assert seen < min(one["contradictions, sex drawn"] for one in (marginal, causal))


@needs_census
def test_categories_in_small(run: Run, tmp_path: Path) -> None:
    found = run("papers/categories", rows=6, background=60, draws=4)
    assert {"categories.png", "categories_drawn.png"} < {path.name for path in tmp_path.iterdir()}
    for values in found["phi"].values():
        sums = np.array(values).sum(1) + found["base"]
        assert sums == pytest.approx(found["prediction"], abs=1e-5)
    figures = categories.figures(found)
    panels = figures[""].axes
    assert [axes.get_title("left") for axes in panels] == [*WAYS, EXACT, OF_MARGINAL]
    labels = [text.get_text() for text in panels[0].get_yticklabels()]
    assert labels == [f"{name} = {found['people'][name][0]}" for name in COLUMNS]
    assert f"predicted {found['prediction'][0]:.3f}" in figures[""].get_suptitle()
    assert all(axes.get_xlabel() for axes in figures["drawn"].axes)


@pytest.mark.parametrize("changes", [{"rows": 1}, {"repeats": 1}])
def test_one_person_or_one_repeat_is_refused_before_anything_is_read(
    changes: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(people, "Bench", lambda *_: pytest.fail("read"))
    with pytest.raises(ValueError, match="Expected 2 or more `repeats` and `rows` but got"):
        categories.run(**changes)
