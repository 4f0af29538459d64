"""Frames of explanations: the same numbers however a table is cut, under distinct names."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.io import transfer
from tests.io.shared import FEW, FRAME, ROWS, drawn_value

TABLE = FRAME.head(12).set_index(pd.Index([f"row {k}" for k in range(12)], name="name"))
COALITIONS = partial(ms.coalition_shapley, coalitions=32)
ADAPTIVE = partial(ms.adaptive_shapley, samples=64)
TARGET = partial(ms.permutation_shapley, target_error=0.05)
REGRESSION = partial(ms.kernel_shapley, evaluations=10)


@pytest.fixture(scope="module")
def smooth() -> ms.ValueFunction:
    """A value function that draws nothing."""
    few = {"max_epochs": 1, "hidden": [8], "trainer": {"accelerator": "cpu"}}
    return ms.fit_surrogate(drawn_value().model, ROWS, players=drawn_value().players, **few)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "value.ckpt"


def whole_and_parts(explain_frame: ms.FrameExplainer) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The frame of a table, and the same put together from parts in another order."""
    parts = [TABLE.iloc[:1], TABLE.iloc[1:6], TABLE.iloc[[11, 6, 9]], TABLE.iloc[[7, 8, 10]]]
    found = pd.concat([explain_frame(part) for part in reversed(parts)])
    return explain_frame(TABLE), found.loc[TABLE.index]


@pytest.mark.parametrize("estimator", [FEW, COALITIONS, TARGET, ADAPTIVE])
@pytest.mark.parametrize("draws", [False, True])
def test_rows_that_are_drawn_for_are_the_same_bytes_in_any_part(
    file: Path, smooth: ms.ValueFunction, estimator: Callable[..., Any], draws: bool
) -> None:
    value = drawn_value() if draws else smooth
    whole, parts = whole_and_parts(ms.FrameExplainer(file, value, estimator, outputs=["1"]))
    pd.testing.assert_frame_equal(whole, parts, check_exact=True)


def test_another_seed_gives_other_numbers(file: Path) -> None:
    one, other = (ms.FrameExplainer(file, drawn_value(), FEW, seed=k)(TABLE) for k in (0, 1))
    assert not np.allclose(one["phi_0_a"], other["phi_0_a"], atol=1e-4)


@pytest.mark.parametrize("estimator", [REGRESSION, ms.exact_shapley, ms.auto_shapley])
@pytest.mark.parametrize("draws", [False, True])
def test_rows_that_share_coalitions_are_the_same_in_any_part(
    file: Path, smooth: ms.ValueFunction, estimator: Callable[..., Any], draws: bool
) -> None:
    value = drawn_value() if draws else smooth
    whole, parts = whole_and_parts(ms.FrameExplainer(file, value, estimator))
    pd.testing.assert_frame_equal(whole, parts, check_exact=draws, atol=1e-6, rtol=0)


def test_amortised_rows_are_the_same_in_any_part(file: Path, smooth: ms.SurrogateValue) -> None:
    few: dict[str, Any] = {"max_epochs": 1, "hidden": [8], "trainer": {"accelerator": "cpu"}}
    explainer = ms.fit_amortized(smooth, ROWS, **few)
    estimator = partial(ms.amortized_shapley, explainer=explainer)
    whole, parts = whole_and_parts(ms.FrameExplainer(file, smooth, estimator))
    pd.testing.assert_frame_equal(whole, parts, atol=1e-6, rtol=0)
    alone = explainer(ROWS[:12])
    np.testing.assert_allclose(whole["phi_1_b"], alone[:, 1, 1], atol=1e-6)
    assert whole["standard_error_1_b"].isna().all()


def test_equal_rows_have_equal_numbers_and_others_draws_of_their_own(file: Path) -> None:
    same = pd.concat([TABLE.iloc[:3], TABLE.iloc[[1]], -TABLE.iloc[:3] * 0, TABLE.iloc[:3] * 0])
    found = ms.FrameExplainer(file, drawn_value(), FEW)(same).to_numpy()
    assert np.array_equal(found[1], found[3])
    assert (found[4:] == found[4]).all()  # Zero of either sign.
    seeds = set[int]()

    def noted(value: Any, x: Tensor, seed: int) -> ms.Explanation:
        seeds.add(seed)
        return FEW(value, x, seed=seed)

    explain_frame = ms.FrameExplainer(file, drawn_value(), FEW)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transfer, "load", lambda reference: (drawn_value(), noted))
        explain_frame(TABLE)
    assert len(seeds) == len(TABLE)


def test_it_is_pickled_small_and_its_file_is_read_once(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, load_checkpoint = list[Path](), transfer.load_checkpoint

    def counted(path: Path, kind: str) -> dict[str, Any]:
        reads.append(path)
        return load_checkpoint(path, kind)

    monkeypatch.setattr(transfer, "load_checkpoint", counted)
    value = drawn_value()
    value.imputer = ms.MarginalImputer(ROWS.repeat(1000, 1))
    explain_frame = ms.FrameExplainer(file, value, FEW)
    pickled = pickle.dumps(explain_frame.each)  # As Spark sends it.
    assert len(pickled) < 10_000 < 1_000_000 < file.stat().st_size
    again = pickle.loads(pickled)
    parts = list(again([TABLE.iloc[:4], TABLE.iloc[4:]]))
    pd.testing.assert_frame_equal(pd.concat(parts), explain_frame(TABLE), check_exact=True)
    assert reads == [file]


@pytest.mark.parametrize(
    "index",
    [
        pd.MultiIndex.from_product([["a", "b"], range(6)], names=["group", "k"]),
        pd.date_range("2024-01-31", periods=12, freq="D", tz="UTC"),
    ],
)
def test_the_index_and_what_is_kept_come_back(file: Path, index: pd.Index) -> None:
    frame = TABLE.set_axis(index).assign(key=pd.Categorical(["x", "y"] * 6))
    explain_frame = ms.FrameExplainer(file, drawn_value(), FEW, outputs=["1"], keep=["key"])
    found = explain_frame(frame)
    assert found.index.equals(index)
    assert found.index.names == index.names
    assert found["key"].equals(frame["key"])
    assert tuple(found.columns) == ("key", *explain_frame.columns)
    assert explain_frame.columns[:3] == ("prediction", "base", "phi_a")
    assert (found.dtypes[1:] == "float64").all()
    sums = found[[f"phi_{name}" for name in "abcd"]].sum(axis=1)
    np.testing.assert_allclose(sums, found["prediction"] - found["base"], atol=1e-6)
    nothing = explain_frame(frame.head(0))
    assert nothing.dtypes.equals(found.dtypes)
    assert nothing.index.equals(index[:0])


def test_columns_in_another_order_are_found_by_name(file: Path) -> None:
    explain_frame = ms.FrameExplainer(file, drawn_value(), FEW)
    found = explain_frame(TABLE[["d", "b", "a", "c"]])
    pd.testing.assert_frame_equal(found, explain_frame(TABLE), check_exact=True)


def test_a_table_of_categories_is_explained_as_by_its_explainer(file: Path) -> None:
    frame = pd.DataFrame({"size": [k % 13 for k in range(60)], "kind": list("abc") * 20})
    codebook = ms.Codebook.fit(frame)
    model = ms.as_model(by_size_and_kind, codebook.rows(frame), returns="values", codebook=codebook)
    value = ms.imputed_value(
        model, ms.table_imputer(ms.EmpiricalImputer, codebook, frame), output="identity"
    )
    explain_frame = ms.FrameExplainer(file, value, ms.exact_shapley)
    found = explain_frame(frame.iloc[7:9])
    assert list(found.columns[2:4]) == ["phi_size", "phi_kind"]
    assert list(found.index) == [7, 8]
    np.testing.assert_allclose(found["prediction"], by_size_and_kind(frame.iloc[7:9]))


def by_size_and_kind(frame: pd.DataFrame) -> np.ndarray:
    return frame["size"].to_numpy() * 0.5 + (frame["kind"] == "b").to_numpy()


# Errors.


def other_outputs(value: Any, x: Tensor) -> ms.Explanation:
    return FEW(value, x, outputs=["0"])


def test_what_cannot_be_explained_is_refused(file: Path) -> None:
    explain_frame = ms.FrameExplainer(file, drawn_value(), FEW, keep=["key"])
    with pytest.raises(ValueError, match=r"columns to keep but it lacks \['key'\]; it has \['a'"):
        explain_frame(TABLE)
    with pytest.raises(TypeError, match=r"frame of pandas but got ndarray; `pandas.DataFrame"):
        explain_frame(TABLE.to_numpy())  # type: ignore[arg-type]
    polars = pytest.importorskip("polars")
    with pytest.raises(TypeError, match=r"frame of pandas but got DataFrame; its `to_pandas\(\)`"):
        explain_frame(polars.DataFrame({"a": [1.0]}))
    with pytest.raises(ValueError, match=r"outputs of the value function but .*choose by `outputs"):
        ms.FrameExplainer(file, drawn_value(), other_outputs)(TABLE)
    file.write_bytes(b"other")
    with pytest.raises(ValueError, match="others are there"):
        explain_frame(TABLE.assign(key=1))
    file.unlink()
    with pytest.raises(FileNotFoundError, match="worker process to see"):
        explain_frame(TABLE.assign(key=1))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"value": lambda x, mask: x}, r"a value function but got function; .* `ms.ValueFunction`"),
        ({"keep": ["phi_0_a"]}, r"distinct names of columns .* got \['phi_0_a'\] more than once"),
        ({"estimator": lambda value, x: x}, r"can be sent .* top level of a module"),
        ({"outputs": ["2"]}, r"Expected `outputs` to be one of"),
        ({"path": drawn_value}, "`path` to be text .* comes first, then the value function"),
        ({"seed": -1}, "`seed`"),
    ],
)
@pytest.mark.usefixtures("any_type")
def test_what_no_frame_explainer_is_made_of_is_refused(
    file: Path, changes: dict[str, Any], message: str
) -> None:
    given = {"path": file, "value": drawn_value(), "estimator": FEW, **changes}
    with pytest.raises((TypeError, ValueError), match=message):
        ms.FrameExplainer(**given)
    assert not file.exists()


def test_rows_with_players_of_their_own_have_no_columns_in_common(file: Path) -> None:
    value = drawn_value()
    value.players = ms.Players.of_rows((4,), 4)
    with pytest.raises(ValueError, match=r"players that all rows share.*`ms.explain_rows`"):
        ms.FrameExplainer(file, value, FEW)


# Wide frames.


def explanation(names: list[str], outputs: list[str]) -> ms.Explanation:
    shape = (2, len(names), len(outputs))
    phi = torch.arange(2.0 * len(names) * len(outputs)).reshape(shape)
    total = phi.sum(1)
    players = ms.Players(names, torch.arange(len(names)))
    error = torch.full(shape, 0.5)
    x = torch.zeros(2, len(names))
    return ms.Explanation(phi, error, total * 0, total, x, players, tuple(outputs))


def test_wide_frames_have_a_column_for_every_number() -> None:
    found = explanation(["a", "b"], ["no", "yes"]).with_labels(["Ann", "Bob"])
    found = replace(found, model_error=found.phi + 0.25)
    frame = ms.wide_frame(found)
    assert list(frame.index) == ["Ann", "Bob"]
    assert len(frame.columns) == 2 * 2 + 3 * 4
    for output, name in ((o, n) for o in ("no", "yes") for n in ("a", "b")):
        k, o = "ab".index(name), ("no", "yes").index(output)
        assert frame[f"phi_{output}_{name}"].tolist() == found.phi[:, k, o].tolist()
        assert (frame[f"standard_error_{output}_{name}"] == 0.5).all()
        assert (
            frame[f"model_error_{output}_{name}"].tolist() == (found.phi[:, k, o] + 0.25).tolist()
        )
    assert frame["prediction_yes"].tolist() == found.prediction[:, 1].tolist()
    assert (frame["base_no"] == 0).all()
    assert list(ms.wide_frame(explanation(["a"], ["no"]))) == [
        "prediction",
        "base",
        "phi_a",
        "standard_error_a",
    ]


def test_names_that_make_a_column_twice_are_refused() -> None:
    with pytest.raises(ValueError, match=r"distinct .* got \['phi_a_b_c', .*rename some of them"):
        ms.wide_frame(explanation(["b_c", "c"], ["a", "a_b"]))


# Other engines.


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning")
def test_batches_of_ray_are_explained_as_pandas_has_them(file: Path) -> None:
    ray = pytest.importorskip("ray")
    frame = FRAME.assign(key=range(len(ROWS)))
    explain_frame = ms.FrameExplainer(file, drawn_value(), FEW, keep=["key"])
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        parts = ray.data.from_pandas(frame).repartition(3)
        found = parts.map_batches(explain_frame, batch_format="pandas", batch_size=20).to_pandas()
    finally:
        ray.shutdown()
    found = found.sort_values("key").reset_index(drop=True)
    assert np.array_equal(found.to_numpy(float), explain_frame(frame).to_numpy(float))
