"""Table 1 of Frye et al. (2021): a small one end to end, what is kept of it, and its claims."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

import manifold_shap as ms
from benchmarks.papers import parts, scored, table1, trained
from benchmarks.papers.scored import OFF, SURROGATE, TABLE, TRAINING_ROWS, VAE, Unit
from benchmarks.papers.trained import Tabulated
from manifold_shap.coalitions import all_coalitions

DRUG = Path(os.environ.get("MANIFOLD_SHAP_DATA", "."), "drug", "drug_consumption.data")
UNITS = ["iris_fixed", "iris_seed_0", "iris_seed_1"]


def small(folder: Path, **changes: Any) -> dict[str, Any]:
    settings = {"data": ["iris"], "seeds": [0, 1], "split": 0, "pairs": 300, "draws": 4}
    return settings | {"epochs": 1, "published": None, "folder": str(folder)} | changes


def counted(monkeypatch: pytest.MonkeyPatch, until: int = 99) -> list[str]:
    """Names of the units that are measured from now on, by nobody; the one after `until` stops."""
    names: list[str] = []

    def measure(trained: Any, unit: Unit) -> dict[str, Any]:
        if len(names) == until:
            raise KeyboardInterrupt
        names.append(unit.name)
        methods = [OFF] if unit.kind == "fixed" else [VAE, SURROGATE]
        score = {"mse": 0.1 + 0.01 * len(names), "error_over_rows": 0.01, "debiased": 0.1}
        figures = {method: {**score, "seconds": 1.0} for method in methods}
        return {"accuracy": 0.9, "scores": figures, "seconds": 2.0}

    monkeypatch.setattr(table1, "measure", measure)
    return names


def test_the_table_of_a_small_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_commands = trained.settings
    brief = ("value_function.hidden=[16]", "classifier.hidden=[16]", "classifier.max_epochs=1")
    monkeypatch.setattr(trained, "settings", lambda *words: of_commands(*words, *brief))
    report = table1.run(**small(tmp_path))
    assert {path.stem for path in tmp_path.iterdir()} == set(UNITS)
    ours = {line.what: (line.ours, line.error) for line in report.lines}
    assert ours.keys() == {
        "iris, accuracy of the classifier",
        *(f"iris, {method}" for method in (OFF, VAE, SURROGATE)),
    }
    assert (report.seconds or 0) > 0
    assert all(0 < figure < 1 for figure, _ in ours.values())
    # Seeds of trainings differ, and nothing else does.
    assert ours["iris, unsupervised"][1] > 0
    assert ours["iris, off manifold"][1] is None
    json.dumps(report.more)
    # Once more, nothing is trained.
    monkeypatch.setattr(table1, "prepared", lambda *_: pytest.fail("trained again"))
    again = table1.run(**small(tmp_path))
    assert again.lines == report.lines
    assert again.claims == report.claims
    assert again.seconds == report.seconds


def test_an_interrupted_table_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = counted(monkeypatch, until=2)
    with pytest.raises(KeyboardInterrupt):
        table1.run(**small(tmp_path))
    assert first == UNITS[:2]
    rest = counted(monkeypatch)
    table1.run(**small(tmp_path))
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
    table1.run(**small(tmp_path))
    names = counted(monkeypatch)
    table1.run(**small(tmp_path, **changes))
    assert names == measured


def test_a_part_that_fails_leaves_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "part.json"
    assert parts.kept(path, {"seed": 0}, lambda: {"mse": 1.0}) == {"mse": 1.0}
    with pytest.raises(ZeroDivisionError):
        parts.kept(path, {"seed": 1}, lambda: 1 / 0)
    assert parts.kept(path, {"seed": 0}, lambda: pytest.fail("made again")) == {"mse": 1.0}
    assert [file.name for file in tmp_path.iterdir()] == ["part.json"]


def scores(*figures: float) -> list[dict[str, float]]:
    return [{"mse": mse, "debiased": mse, "error_over_rows": 0.0} for mse in figures]


def of_paper() -> dict[str, Any]:
    """Two trainings of the mean and deviation that the paper has."""
    found: dict[str, Any] = {}
    for name, columns in table1.PAPER.items():
        one: dict[str, Any] = {}
        for method, (middle, deviation) in columns.items():
            apart = (deviation or 0.0) / 2**0.5
            one[method] = scores(*((middle - apart, middle + apart) if apart else (middle,)))
        found[name] = {"accuracy": 0.9, "scores": one}
    return found


def holding(found: dict[str, Any]) -> list[bool]:
    return [claim.holds for claim in table1.claims(found)]


def test_the_figures_of_the_paper_are_what_the_paper_says() -> None:
    assert holding(of_paper()) == [True] * 4


@pytest.mark.parametrize(
    ("name", "method", "figures", "fails"),
    [
        ("mnist", VAE, (0.044, 0.046), [0]),
        ("census", SURROGATE, (0.0301, 0.0302), [1]),
        ("abalone", SURROGATE, (0.0200, 0.0220), [2]),
        ("drug", SURROGATE, (0.0445, 0.0446), [3]),
        ("drug", OFF, (0.04,), [0]),
    ],
)
def test_every_claim_may_fail(
    name: str, method: str, figures: tuple[float, ...], fails: list[int]
) -> None:
    found = of_paper()
    found[name]["scores"][method] = scores(*figures)
    assert [k for k, holds in enumerate(holding(found)) if not holds] == fails


def test_one_training_has_no_deviation_to_claim_anything_about() -> None:
    found = of_paper()
    found["drug"]["scores"][VAE] = scores(0.05)
    texts = [claim.text for claim in table1.claims(of_paper())]
    assert [text for text in texts if "differ less" in text]
    assert [claim.text for claim in table1.claims(found)] == [
        text for text in texts if "differ less" not in text
    ]


def test_a_table_of_all_binary_rows_is_the_model() -> None:
    rows = all_coalitions(5).float()
    model = ms.as_model(lambda x: torch.stack((x @ torch.arange(5.0), x[:, 0]), 1), rows)
    shuffled = rows[torch.randperm(32, generator=torch.Generator().manual_seed(0))]
    torch.testing.assert_close(Tabulated(model, 5)(shuffled), model(shuffled).exp())


@pytest.mark.skipif(not DRUG.exists(), reason="no drug data under MANIFOLD_SHAP_DATA")
def test_the_conditional_of_the_test_rows_is_the_optimum_on_them() -> None:
    unit = Unit("drug", 0, "fixed", None, 2000, 16, None)
    trained = scored.prepared("drug", 0)
    found = scored.measure(lambda: trained, unit)["scores"]
    assert found[TABLE]["mse"] < found[TRAINING_ROWS]["mse"] < found[OFF]["mse"]
    # It draws nothing, and so has no noise to be taken out.
    assert found[TABLE]["debiased"] == pytest.approx(found[TABLE]["mse"])
