"""Seven ways to explain one model: the data, and the whole in small."""

import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import manifold_shap as ms
from benchmarks.papers import bike, report, seven_ways, seven_ways_figures
from benchmarks.papers import seven_ways_measures as measures
from benchmarks.papers.seven_ways_claims import OF_MARGINAL, claims
from manifold_shap.data import sources

ORDERING = [["trend"], ["cosyear", "sinyear"], ["temp", "hum", "windspeed"]]
CONFOUNDING = [False, True, False]
SPLIT = bike.split

needs_data = pytest.mark.skipif(
    sources.find(None, bike.FILE) is None,
    reason=f"no {bike.FILE!r} in a folder named by {sources.VARIABLE}",
)


def explained(phi: list[list[float]], error: float = 0.0) -> ms.Explanation:
    values = torch.tensor(phi)[..., None]
    x, base = torch.zeros(len(phi), 6), torch.zeros(1)
    error_of = torch.full_like(values, error)
    return ms.Explanation(
        values, error_of, base, values.sum(1), x, bike.PLAYERS, (bike.UNIT,), "identity"
    )


@needs_data
def test_features_are_those_of_the_paper() -> None:
    table = bike.read()
    assert table.shape == (731, 16)
    found = bike.features(table).set_index(table["dteday"])
    assert tuple(found.columns) == bike.PLAYERS.names
    first = found.iloc[0]
    assert (first["trend"], first["cosyear"], first["sinyear"]) == (0, 1, 0)
    october, december = found.loc[bike.OCTOBER], found.loc[bike.DECEMBER]
    assert october["temp"] == pytest.approx(13.0, abs=0.01)
    assert december["temp"] == pytest.approx(13.27, abs=0.01)
    assert october["cosyear"] < december["cosyear"]
    assert found["hum"].max() < 100


@needs_data
def test_days_are_learned_from_or_explained() -> None:
    data = bike.split(seed=1)
    assert (len(data.x_train), len(data.x_test), len(data.dates)) == (585, 146, 146)
    assert data.dates[:2] == (20121009, 20121203)
    trends = torch.cat((data.x_train, data.x_test))[:, 0]
    assert len(trends.unique()) == 731
    fewer = bike.split(seed=1, days=5)
    assert torch.equal(fewer.x_train, data.x_train)
    assert torch.equal(fewer.x_test, data.x_test[:5])


def test_the_table_is_read_from_the_archive_of_its_publisher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(sources.VARIABLE, str(tmp_path))
    monkeypatch.setattr(sources, "cache", lambda: tmp_path / "cache")
    archive = tmp_path / bike.ARCHIVE
    archive.parent.mkdir()
    with zipfile.ZipFile(archive, "w") as parts:
        parts.writestr("day.csv", "instant,dteday,cnt\r\n1,2011-01-01,985\r\n")
    table = bike.read()
    assert table["cnt"].tolist() == [985]
    assert table["dteday"].dt.year.tolist() == [2011]


def test_what_goes_to_other_features_is_counted_once() -> None:
    one = explained([[3.0, 0, 0, 1, 0, 0], [1.0, 0, 0, 0, 0, 0]], error=0.1)
    other = explained([[1.0, 0, 0, 3, 0, 0], [1.0, 0, 0, 0, 0, 0]])
    assert measures.apart(one, other).tolist() == [2.0, 0.0]
    expected = torch.randn(100_000, generator=torch.Generator().manual_seed(0)).abs().mean().item()
    assert measures.noise(one, other) == pytest.approx(0.1 * 6 * expected / 2, rel=0.01)


def test_shares_at_other_features_go_from_alike_to_one() -> None:
    one = explained([[3.0, 0, 0, -1, 0, 0], [2.0, 0, 0, 0, 0, 0]])
    some = explained([[3.0, 0, 0, 0, 0, -1], [0.0, 0, 0, 0, 2, 0]])
    none = explained([[0.0, 3, 1, 0, 0, 0], [0.0, 0, 0, 0, 2, 0]])
    assert measures.share_apart(one, one) == 0
    assert measures.share_apart(one, some) == pytest.approx(3 / 6)
    assert measures.share_apart(one, none) == pytest.approx(1)
    assert measures.largest_share([one, one, none]) == pytest.approx(1)


def test_the_share_of_what_comes_before_the_weather() -> None:
    one = explained([[-1.0, 1, 1, 1, 0, 0], [0.0, 0, 0, 1, 1, 2]])
    assert measures.earlier_share(one, ORDERING).tolist() == [0.75, 0.0]


def test_days_differ_by_their_values_with_the_error_of_both() -> None:
    one = explained([[0.0, 5, 0, 0, 0, 0], [0.0, 2, 0, 0, 0, 0]], error=0.3)
    assert measures.between_days(one, "cosyear") == pytest.approx((3.0, 0.3 * 2**0.5))


@pytest.mark.parametrize(("shift", "larger"), [(0.0, False), (0.02, False), (1.0, True)])
def test_a_mean_is_larger_only_beyond_its_noise(shift: float, larger: bool) -> None:
    noise = torch.randn(2, 100, generator=torch.Generator().manual_seed(0))
    assert measures.surely_larger(noise[0] + shift, noise[1]) == larger


# How much of the temperature's value a way gives to `cosyear`; the second is of the marginal game.
SHIFTS = {
    "marginal": 0.0,
    OF_MARGINAL: 2.0,
    "Gaussian": 0.15,
    "copula": 0.3,
    "empirical": 0.45,
    "causal": 0.6,
    "asymmetric": 2.65,
    "asymmetric causal": 2.6,
}


def held(error: float = 0.01, **changes: float) -> list[bool]:
    """Whether the claims hold of made-up values, with more of the shift in October."""
    size = 1 + torch.linspace(0, 0.5, 20)
    size[:2] = 1
    often = torch.ones(20)
    often[0] = 2
    found = {}
    for name, shift in (SHIFTS | changes).items():
        moved = shift * often
        column = torch.stack(
            (
                torch.full((20,), 100.0),
                10 + moved,
                torch.full((20,), 10.0),
                10.5 - moved,
                *torch.full((2, 20), 10.0),
            ),
            1,
        )
        found[name] = explained((size[:, None] * column).tolist(), error)
    others = {OF_MARGINAL: found.pop(OF_MARGINAL)}
    return [claim.holds for claim in claims(found, others, ORDERING)]


def test_values_as_the_papers_have_them_bear_out_all_claims() -> None:
    assert held() == [True] * 11


@pytest.mark.parametrize(
    ("changes", "fails"),
    [
        ({"empirical": 30.0}, [0]),
        ({OF_MARGINAL: 19.0, "asymmetric causal": 20.0, "asymmetric": 20.05}, [1]),
        ({OF_MARGINAL: 0.1}, [2]),
        ({"causal": -0.2}, [3, 7, 9, 10]),
        ({"asymmetric": -0.07}, [4, 8]),
        ({"asymmetric causal": -2.6}, [2, 5, 8]),
        ({"marginal": 0.375}, [6]),
        ({"causal": 0.22}, [7]),
        ({"asymmetric": 3.0}, [8]),
        ({"error": 1.0}, [9, 10]),
    ],
)
def test_every_claim_may_fail(changes: dict[str, float], fails: list[int]) -> None:
    assert [k for k, holds in enumerate(held(**changes)) if not holds] == fails


def test_a_day_is_drawn_in_bicycles_and_by_its_date() -> None:
    found = {name: explained([[1.0] * 6, [2.0] * 6], 0.1) for name in SHIFTS if name != OF_MARGINAL}
    figure = seven_ways_figures.of_a_day(found, 1, bike.DECEMBER)
    assert "Predicted for 2012-12-03: 12 bicycles" in figure.get_suptitle()
    assert "two standard errors" in figure.get_suptitle()
    axes = figure.axes[0]
    assert axes.get_xlabel() == "Shapley value (bicycles)"
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == list(found)
    assert legend._ncols == 2
    figure.draw_without_rendering()
    # Beside each other, not one over the other, and all on the page.
    box = legend.get_window_extent()
    assert box.x1 <= figure.bbox.x1
    whole = seven_ways_figures.of_all_days(found)
    assert whole.get_supxlabel() == "Shapley value (bicycles)"
    assert whole.get_suptitle() == "What each feature adds, 2 days"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"days": 1}, "Expected `days` to be 2 or more, .* but got 1"),
        ({"repeats": 1}, "Expected `repeats` to be 2 or more, .* but got 1"),
    ],
)
def test_one_day_or_one_repeat_is_refused_before_anything_is_read(
    changes: dict[str, int], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bike, "read", lambda: pytest.fail("read"))
    settings: dict[str, Any] = {"draws": 4, "repeats": 2, "days": 2, "seed": 0}
    settings |= {"ordering": ORDERING, "confounding": CONFOUNDING}
    with pytest.raises(ValueError, match=message):
        seven_ways.run(**(settings | changes))


def few(seed: int, days: int | None = None) -> bike.Rentals:
    """A few days to explain, and a sixth of those to learn from."""
    whole = SPLIT(seed, days or 4)
    return replace(whole, x_train=whole.x_train[::6], y_train=whole.y_train[::6])


@needs_data
def test_every_way_shares_out_the_same_difference() -> None:
    bench = bike.Bench(few(seed=0), ORDERING, draws=8, repeats=2, seed=0)
    found = seven_ways.ways(bench, CONFOUNDING)
    assert len(found) == 7
    first = found["marginal"]
    for one in found.values():
        torch.testing.assert_close(one.prediction, first.prediction)
        torch.testing.assert_close(one.base, first.base)
        assert one.efficiency_gap < 1e-5
        assert one.instances == bench.data.dates
    known = {name for name, one in found.items() if (one.standard_error == 0).all()}
    assert known == {"marginal", "empirical"}


@needs_data
def test_where_nothing_is_confounded_orders_make_seeing_and_setting_one() -> None:
    bench = bike.Bench(few(seed=0, days=2), ORDERING, draws=64, repeats=20, seed=0)
    gaussian = ms.GaussianImputer(bench.data.x_train, bike.PLAYERS)
    causal = ms.CausalImputer(gaussian, ORDERING)

    def standardised(asymmetric: bool) -> float:
        seen, set_to = (bench.explain(one, asymmetric) for one in (gaussian, causal))
        error = (seen.standard_error.square() + set_to.standard_error.square()).sqrt()
        return ((seen.phi - set_to.phi) / error).abs().max().item()

    # Of Student's t with 19 degrees of freedom or more, one of 12 is above 7 once in 70,000 times.
    assert standardised(asymmetric=True) < 7
    assert standardised(asymmetric=False) > 7


@needs_data
def test_seven_ways_write_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bike, "split", few)
    settings: dict[str, Any] = {"draws": 4, "repeats": 2, "days": None, "seed": 0}
    settings |= {"ordering": ORDERING, "confounding": CONFOUNDING}
    found = seven_ways.run(**settings)
    report.save(found, tmp_path, "seven_ways", "command", settings, 1.0)
    names = {"seven_ways.json", "seven_ways.png"}
    names |= {f"seven_ways_{month}.png" for month in ("october", "december")}
    assert {path.name for path in tmp_path.iterdir()} == names
    kept = json.loads((tmp_path / "seven_ways.json").read_text())
    assert len(kept["claims"]) == 11
    assert len(kept["more"]) == 11
    shares = [line["ours"] for line in kept["lines"] if "share of Σ|φ|" in line["what"]]
    assert len(shares) == 6
    assert all(0 < share < 1 for share in shares)
    assert "## Seven ways" in report.page(tmp_path, ["seven_ways"])
