"""Seven ways to explain one model: the data, and the whole in small."""

import inspect
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

import manifold_shap as ms
from benchmarks.papers import bike, report, seven_ways
from manifold_shap.data import sources
from manifold_shap.ordering import Ordering

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
    return ms.Explanation(values, error_of, base, values.sum(1), x, bike.PLAYERS, ("0",))


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
    assert seven_ways.apart(one, other).tolist() == [2.0, 0.0]
    expected = torch.randn(100_000, generator=torch.Generator().manual_seed(0)).abs().mean().item()
    assert seven_ways.noise(one, other) == pytest.approx(0.1 * 6 * expected / 2, rel=0.01)


def test_the_share_of_what_comes_before_the_weather() -> None:
    one = explained([[-1.0, 1, 1, 1, 0, 0], [0.0, 0, 0, 1, 1, 2]])
    assert seven_ways.earlier_share(one, ORDERING).tolist() == [0.75, 0.0]


def test_days_differ_by_their_values_with_the_error_of_both() -> None:
    one = explained([[0.0, 5, 0, 0, 0, 0], [0.0, 2, 0, 0, 0, 0]], error=0.3)
    assert seven_ways.between_days(one, "cosyear") == pytest.approx((3.0, 0.3 * 2**0.5))


@pytest.mark.parametrize(("shift", "larger"), [(0.0, False), (0.02, False), (1.0, True)])
def test_a_mean_is_larger_only_beyond_its_noise(shift: float, larger: bool) -> None:
    noise = torch.randn(2, 100, generator=torch.Generator().manual_seed(0))
    assert seven_ways.surely_larger(noise[0] + shift, noise[1]) == larger


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
    assert "## Seven ways" in report.page(tmp_path, ["seven_ways"])


@pytest.mark.parametrize("quick", [False, True])
def test_settings_are_those_of_the_experiment(root: Path, quick: bool) -> None:
    with initialize_config_dir(str(root / "conf"), version_base="1.3"):
        cfg = compose("reproduce", ["experiment=papers/seven_ways"])
    settings = {**cfg.settings, **(cfg.quick_settings if quick else {})}
    inspect.signature(seven_ways.run).bind(**settings)
    Ordering(OmegaConf.to_container(cfg.settings.ordering), bike.PLAYERS)
