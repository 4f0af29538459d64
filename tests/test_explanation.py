"""The explanation: labels, conversions, and a store that is whole or not there."""

import dataclasses
import json
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr
from torch import Tensor

import manifold_shap as ms
from manifold_shap.audits import Audit
from manifold_shap.tables.features import in_order

Make = Callable[..., ms.Explanation]
FullDisk = Callable[[], AbstractContextManager[None]]
TENSORS = ("phi", "standard_error", "base", "prediction", "x", "covariance")
PARTITION = ms.simplex.Partition.of_tree([["ja", "3"], "größer"], ("ja", "größer", "3"))


def make(space: str = "probability", names: tuple[str, ...] = ("α", "weight", "日本"), **more):
    """Two instances, three players, two outputs, with phi that adds up; covariances for ilr."""
    generator = torch.Generator().manual_seed(0)
    phi = torch.randn(2, 3, 2, generator=generator)
    base = torch.randn(2, generator=generator).repeat(2, 1)
    fields = {
        "phi": phi,
        "standard_error": torch.rand(2, 3, 2, generator=generator),
        "base": base,
        "prediction": base + phi.sum(1),
        "x": torch.randn(2, 3, generator=generator),
        "players": ms.Players.of_elements((3,), names),
        "outputs": ("ja", "größer : 3"),
        "space": ms.spaces.as_space(space),
        "made_by": {"estimator": "exact", "permutations": 8, "share": 0.5},
    }
    if space == "ilr":
        root = torch.randn(2, 3, 2, 2, generator=generator)
        fields |= {"outputs": PARTITION.names, "partition": PARTITION, "covariance": root @ root.mT}
    return ms.Explanation(**{**fields, **more})


# Fields with a single output.
ONE = {"phi": torch.ones(2, 3, 1), "standard_error": torch.zeros(2, 3, 1)} | {
    name: torch.ones(2, 1) for name in ("base", "prediction")
}


def table() -> tuple[ms.tables.Schema, ms.Explanation]:
    """An explanation of a table with a categorical column of three elements."""
    frame = pd.DataFrame({"age": [20.0, 40.0, 60.0], "colour": ["red", "grün", "blue"]})
    schema = ms.tables.Schema.fit(frame)
    players = schema.players
    explanation = make(
        players=players,
        x=schema.encode(frame[:2]),
        phi=torch.ones(2, 2, 2),
        standard_error=torch.zeros(2, 2, 2),
        schema=schema,
        instances=(7, 9),
    )
    return schema, explanation


def assert_same(a: ms.Explanation, b: ms.Explanation) -> None:
    for name in TENSORS:
        one, other = getattr(a, name), getattr(b, name)
        if one is None:
            assert other is None
            continue
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert one.numpy().tobytes() == other.numpy().tobytes()
    assert torch.equal(a.players.index, b.players.index)
    assert a.players.names == b.players.names
    for name in ("outputs", "space", "instances", "made_by", "schema", "partition"):
        assert getattr(a, name) == getattr(b, name)


@pytest.mark.parametrize(
    "explanation",
    [
        make(),
        make("ilr"),
        make("ilr", covariance=None).in_basis([["3", "größer"], "ja"]),
        table()[1],
        make(x=torch.rand(2, 1, 2, 3), players=ms.Players.of_elements((1, 2, 3)),
             phi=torch.rand(2, 6, 2), standard_error=torch.full((2, 6, 2), math.nan)),
        make(standard_error=torch.zeros(2, 3, 2), phi=-torch.zeros(2, 3, 2)),
    ],
    ids=["unicode", "ilr", "ilr without covariance", "schema", "image", "zeros"],
)  # fmt: skip
def test_round_trips_are_bit_identical(explanation: ms.Explanation, tmp_path: Path) -> None:
    assert_same(ms.Explanation.from_xarray(explanation.to_xarray()), explanation)
    path = tmp_path / "runs" / "explanations.zarr"
    explanation.save(path)
    assert_same(ms.Explanation.load(path), explanation)
    assert [entry.name for entry in path.parent.iterdir()] == ["explanations.zarr"]


def test_dataset_is_labelled() -> None:
    explanation = make("ilr")
    dataset = explanation.to_xarray()
    assert dataset.phi.dims == ("instances", "players", "outputs")
    one = dataset.phi.sel(instances=1, players="日本", outputs="ja : 3").item()
    assert one == explanation.phi[1, 2, 0].item()
    assert dataset.covariance.dims == ("instances", "players", "outputs", "outputs_too")
    assert json.loads(dataset.attrs["space"])["space"] == "ilr"


def test_a_wide_frame_has_a_column_for_each_player() -> None:
    explanation = make(instances=("Ann", "Bob"))
    frame = explanation.to_frame("ja")
    assert frame.index.tolist() == ["Ann", "Bob"]
    assert frame.columns.tolist() == ["α", "weight", "日本"]
    assert frame.to_numpy().tolist() == explanation.phi[..., 0].tolist()
    whole = explanation.to_frame()
    assert whole.columns.names == ["output", "player"]
    pd.testing.assert_frame_equal(whole["ja"], frame)
    assert whole["größer : 3"].loc["Bob", "weight"] == explanation.phi[1, 1, 1].item()
    frame.loc["Ann"] = 0.0
    assert explanation.phi[0, 0, 0] != 0
    with pytest.raises(ValueError, match=r"`output` to be one of .* but got 'nein'"):
        explanation.to_frame("nein")


@pytest.mark.parametrize(
    ("index", "rows", "labels"),
    [(1, [1], (9,)), (-1, [1], (9,)), (slice(0, 1), [0], (7,)), ([1, 0], [1, 0], (9, 7))],
)
def test_indexing_keeps_labels(index: object, rows: list[int], labels: tuple[int, ...]) -> None:
    explanation = make("ilr", instances=(7, 9))
    some = explanation[index]
    assert some.instances == labels
    for name in ("phi", "standard_error", "base", "prediction", "x", "covariance"):
        assert torch.equal(getattr(some, name), getattr(explanation, name)[rows])
    assert some.partition == explanation.partition
    assert make(instances=(7, 9))[index].covariance is None


def test_efficiency_gap_on_numbers_by_hand() -> None:
    explanation = make(
        phi=torch.tensor([[[1.0, 0], [1, 0], [1, 0]], [[0.0, 0], [0, 0], [0, 2]]]),
        base=torch.tensor([[1.0, 0.0]]).repeat(2, 1),
        prediction=torch.tensor([[5.0, 0.0], [1.0, 2.5]]),
    )
    # The sums miss 4 by 1 and 2.5 by 0.5; the largest change is 4.
    assert explanation.efficiency_gap == 0.25
    assert make().efficiency_gap < 1e-6
    constant = make(phi=torch.zeros(2, 3, 2), base=torch.ones(2, 2), prediction=torch.ones(2, 2))
    assert constant.efficiency_gap == 0


def test_features_in_original_units() -> None:
    features = table()[1].features()
    assert features is not None
    assert features.index.tolist() == [7, 9]
    assert features["colour"].tolist() == ["red", "grün"]
    assert features["age"].tolist() == pytest.approx([20, 40])


def test_players_and_outputs_must_fit_phi() -> None:
    with pytest.raises(ValueError, match=r"`phi` of shape \(2, 2, 2\) .* but got \(2, 3, 2\)"):
        make(players=ms.Players.of_elements((2,)))
    with pytest.raises(ValueError, match=r"`phi` of shape \(2, 3, 1\)"):
        make(outputs=("one",))
    with pytest.raises(ValueError, match=r"`phi` of shape \(3, 3, 2\)"):
        make(instances=(1, 2, 3))


def test_log_ratios_come_with_the_partition_that_names_them() -> None:
    with pytest.raises(ValueError, match=r"`partition` where outputs are log-ratio .* got none in"):
        make("ilr", partition=None)
    with pytest.raises(ValueError, match="got one in 'probability'"):
        make(partition=PARTITION)
    message = r"balances of `partition` as `outputs`, \('ja : 3', .* but got \('ja : 3', 'b'\)"
    with pytest.raises(ValueError, match=message):
        make("ilr", outputs=("ja : 3", "b"))


def full() -> ms.Explanation:
    """Every attribute that an explanation of log-ratios may have."""
    generator = torch.Generator().manual_seed(1)
    made = make("ilr")
    known = made.phi, made.phi + 0.1, torch.full_like(made.phi, 0.01)
    audit = Audit.of(*known, made.players.names, made.outputs, "exact").to_dict()
    return replace(
        made,
        standard_error=made.covariance.diagonal(dim1=-2, dim2=-1).sqrt(),
        model_error=torch.rand(2, 3, 2, generator=generator),
        degrees_of_freedom=torch.tensor([3.0, 5.0]),
        made_by={**made.made_by, "audit": audit, "seed": 1, "evaluations": 12},
        instances=("one", "two"),
    )


def stored(explanation: ms.Explanation, tmp_path: Path) -> ms.Explanation:
    explanation.save(tmp_path / "stored.zarr")
    return ms.Explanation.load(tmp_path / "stored.zarr")


@pytest.mark.parametrize(
    ("derive", "rows", "players"),
    [
        (lambda e, _: e[1], [1], [0, 1, 2]),
        (lambda e, _: e[[1, 0]], [1, 0], [0, 1, 2]),
        (lambda e, _: e.with_labels([4, 5]), [0, 1], [0, 1, 2]),
        (lambda e, _: ms.Explanation.from_xarray(e.to_xarray()), [0, 1], [0, 1, 2]),
        (stored, [0, 1], [0, 1, 2]),
        (lambda e, _: in_order(e, ("日本", "α", "weight")), [0, 1], [2, 0, 1]),
        (lambda e, _: e.in_basis(e.partition), [0, 1], [0, 1, 2]),
    ],
)
def test_what_is_derived_keeps_every_error(
    derive: Callable[..., ms.Explanation], rows: list[int], players: list[int], tmp_path: Path
) -> None:
    whole = full()
    found = derive(whole, tmp_path)
    for name in ("phi", "standard_error", "model_error", "covariance"):
        assert torch.equal(getattr(found, name), getattr(whole, name)[rows][:, players])
    assert torch.equal(found.degrees_of_freedom, whole.degrees_of_freedom[rows])
    for end, own in zip(found.interval(), whole.interval(), strict=True):
        torch.testing.assert_close(end, own[rows][:, players])
    assert found.made_by == whole.made_by


def test_another_basis_forgets_what_was_of_the_coordinates() -> None:
    whole = full()
    turned = whole.in_basis([["3", "größer"], "ja"])
    assert turned.audit is None
    assert turned.made_by["evaluations"] == 12
    assert bool(turned.model_error.isnan().all())
    with pytest.raises(ValueError, match=r"error of learning .* before `with_learning_error`"):
        turned.interval()
    assert bool(whole.norm_errors().isnan().all())
    exact = replace(whole, model_error=torch.zeros_like(whole.phi))
    assert torch.equal(exact.in_basis([["3", "größer"], "ja"]).model_error, exact.model_error)
    alone = replace(whole, model_error=None)
    torch.testing.assert_close(exact.norm_errors(), alone.norm_errors())


@pytest.mark.parametrize("name", [".zmetadata", "phi/0.0.0", "players/0"])
@pytest.mark.parametrize("damage", ["truncated", "changed"])
def test_damaged_store(tmp_path: Path, name: str, damage: str) -> None:
    path = tmp_path / "explanation.zarr"
    make("ilr").save(path)
    whole = (path / name).read_bytes()
    half = len(whole) // 2
    rest = b"" if damage == "truncated" else bytes([whole[half] ^ 0x20]) + whole[half + 1 :]
    (path / name).write_bytes(whole[:half] + rest)
    if damage == "changed" and name == ".zmetadata":
        (path / name).write_bytes(b"[1]")
    with pytest.raises(ValueError, match=r"explanation store at .*explanation.zarr"):
        ms.Explanation.load(path)


def test_foreign_store_and_file(tmp_path: Path) -> None:
    store, text = tmp_path / "foreign.zarr", tmp_path / "notes.txt"
    xr.Dataset({"t": ("t", [1.0])}).to_zarr(store, zarr_format=2)
    text.write_text("mine")
    with pytest.raises(ValueError, match=r"Expected a dataset written by Explanation.save"):
        ms.Explanation.load(store)
    with pytest.raises(ValueError, match=r"explanation store at .*notes.txt"):
        ms.Explanation.load(text)


def test_what_is_not_an_explanation_is_not_overwritten(tmp_path: Path) -> None:
    folder, store, text = (tmp_path / name for name in ("folder", "foreign.zarr", "notes.txt"))
    folder.mkdir()
    (folder / "thesis.tex").write_text("years of work")
    xr.Dataset({"t": ("t", [1.0])}).to_zarr(store, zarr_format=2)
    text.write_text("mine")
    for path in (folder, store, text):
        with pytest.raises(FileExistsError, match="something else stands there"):
            make().save(path)
    assert (folder / "thesis.tex").read_text() == "years of work"
    assert xr.open_zarr(store).t.values.tolist() == [1.0]
    assert text.read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 3


def large(seed: int = 0) -> ms.Explanation:
    """Random numbers that no compression fits into the kilobyte of `full_disk`."""
    phi: Tensor = torch.rand(50, 3, 2, generator=torch.Generator().manual_seed(seed))
    prediction = torch.rand(50, 2)
    return make(
        phi=phi, standard_error=phi, base=prediction, prediction=prediction, x=torch.rand(50, 3)
    )


def test_a_failed_save_keeps_the_earlier_explanation(tmp_path: Path, full_disk: FullDisk) -> None:
    path, earlier = tmp_path / "explanation.zarr", large()
    earlier.save(path)
    with full_disk(), pytest.raises(OSError, match="Nothing there was changed"):
        large(seed=1).save(path)
    assert_same(ms.Explanation.load(path), earlier)
    assert [entry.name for entry in tmp_path.iterdir()] == ["explanation.zarr"]


def ragged() -> ms.Explanation:
    """Two sentences of two and three words, padded to three."""
    phi = torch.tensor([[[1.0], [2.0], [torch.nan]], [[1.0], [1.0], [1.0]]])
    return ms.Explanation(
        phi=phi,
        standard_error=0 * phi,
        base=torch.tensor([[0.0], [1.0]]),
        prediction=torch.tensor([[3.0], [4.0]]),
        x=torch.tensor([[7.0, 8.0, 0.0], [4.0, 5.0, 6.0]]),
        players=ms.Players.of_rows((3,), 3),
        owners=torch.tensor([[1, 0, -1], [0, 1, 2]]),
        outputs=("sum",),
        space=ms.spaces.Identity(),
    )


def test_rows_with_players_of_their_own(tmp_path: Path) -> None:
    explanation = ragged()
    assert explanation.counts.tolist() == [2, 3]
    assert explanation.present.tolist() == [[True, True, False], [True, True, True]]
    assert explanation.efficiency_gap == 0
    features = explanation.features()
    assert features is not None
    assert features.iloc[0, :2].tolist() == [8.0, 7.0]
    assert np.isnan(features.iloc[0, 2])
    explanation.save(tmp_path / "e.zarr")
    loaded = ms.Explanation.load(tmp_path / "e.zarr")
    assert loaded.owners is not None
    assert torch.equal(loaded.owners, explanation.owners)
    assert loaded.players.by_row
    assert loaded[0].efficiency_gap == 0


def test_owners_belong_to_rows_with_players_of_their_own() -> None:
    with pytest.raises(ValueError, match="Expected `owners` where rows have players of their own"):
        dataclasses.replace(ragged(), owners=None)
    with pytest.raises(ValueError, match=r"`owners` .*got some"):
        make(owners=torch.zeros(2, 3, dtype=torch.int64))


def test_a_group_of_columns_has_all_their_values() -> None:
    schema, _ = table()
    model = ms.as_model(lambda x: x[:, :2], torch.zeros(2, schema.width), returns="values")
    x = schema.encode(pd.DataFrame({"age": [20.0, 40.0], "colour": ["red", "blue"]}))
    value = ms.imputed_value(model, ms.imputers.MarginalImputer(x, schema.players), "identity")
    value.schema = schema
    features = ms.exact_shapley(value.grouped({"both": ["age", "colour"]}), x).features()
    assert features is not None
    assert features["both"].tolist() == ["age = 20, colour = red", "age = 40, colour = blue"]
