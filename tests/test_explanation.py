"""The explanation: labels, conversions, and a store that is whole or not there."""

import json
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
import xarray as xr
from torch import Tensor

import manifold_shap as ms
from manifold_shap.estimators.audit import Audit
from manifold_shap.learning_error import in_order

Make = Callable[..., ms.Explanation]
FullDisk = Callable[[], AbstractContextManager[None]]
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


PEOPLE = pd.DataFrame(
    {
        "age": [20.5, np.nan],
        "town": ["Oslo", None],
        "born": pd.to_datetime(["2001-02-03 00:00", "1990-01-01 12:30"]),
        "rooms": [3, 2**60 + 1],
        "owns": [True, False],
        "size": pd.Categorical(["small", "large"], ["small", "large"], ordered=True),
    },
    index=["Ann", "Bob"],
)


def of_table() -> ms.Explanation:
    """People whose town and number of rooms are one player; whether they own them is of none."""
    players = ms.Players.of_elements((4,), ["age", "home", "born", "size"])
    phi = torch.arange(8.0).reshape(2, 4, 1)
    return make(
        phi=phi, standard_error=0 * phi, base=torch.zeros(2, 1), prediction=phi.sum(1),
        outputs=("yes",), x=PEOPLE, instances=("Ann", "Bob"),
        players=players.owning(torch.tensor([0, 1, 2, 1, -1, 3])),
    )  # fmt: skip


def assert_same(a: ms.Explanation, b: ms.Explanation) -> None:
    for name, one in vars(a).items():
        other = getattr(b, name)
        if isinstance(one, Tensor):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            assert one.numpy().tobytes() == other.numpy().tobytes()
        elif name == "x":
            frames = (each.reset_index(drop=True) for each in (one, other))
            pd.testing.assert_frame_equal(*frames, check_categorical=False)
        elif name == "players":
            assert one.same_as(other)
            assert one.by_row == other.by_row
        else:
            assert one == other


def ragged() -> ms.Explanation:
    """Two sentences of two and three words, padded to three."""
    phi = torch.tensor([[[1.0], [2.0], [torch.nan]], [[1.0], [1.0], [1.0]]])
    return make(
        phi=phi,
        standard_error=0 * phi,
        base=torch.tensor([[0.0], [1.0]]),
        prediction=torch.tensor([[3.0], [4.0]]),
        x=torch.tensor([[7.0, 8.0, 0.0], [4.0, 5.0, 6.0]]),
        players=ms.Players.of_rows((3,), 3),
        owners=torch.tensor([[1, 0, -1], [0, 1, 2]]),
        outputs=("sum",),
    )


@pytest.mark.parametrize(
    "explanation",
    [
        make(),
        ragged(),
        make("ilr"),
        make("ilr", covariance=None).in_basis([["3", "größer"], "ja"]),
        of_table(),
        make(x=torch.rand(2, 1, 2, 3), players=ms.Players.of_elements((1, 2, 3)),
             phi=torch.rand(2, 6, 2), standard_error=torch.full((2, 6, 2), math.nan)),
        make(standard_error=torch.zeros(2, 3, 2), phi=-torch.zeros(2, 3, 2)),
    ],
    ids=["unicode", "ragged", "ilr", "ilr without covariance", "table", "image", "zeros"],
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


def test_a_frame_has_a_column_for_each_player() -> None:
    explanation = make(instances=("Ann", "Bob"))
    frame = explanation.to_frame("ja")
    with pytest.raises(ValueError, match="texts that an `Explainer` has explained but got numbers"):
        explanation.words()
    assert frame.index.tolist() == ["Ann", "Bob"]
    assert frame.columns.tolist() == ["α", "weight", "日本"]
    assert frame.to_numpy().tolist() == explanation.phi[..., 0].tolist()
    pd.testing.assert_frame_equal(explanation.to_frame(0), frame)
    whole = explanation.to_frame()
    assert whole.columns.names == ["output", "player"]
    pd.testing.assert_frame_equal(whole["ja"], frame)
    assert whole["größer : 3"].loc["Bob", "weight"] == explanation.phi[1, 1, 1].item()
    frame.loc["Ann"] = 0.0
    assert explanation.phi[0, 0, 0] != 0
    with pytest.raises(ValueError, match=r"`output` to be one of .* but got 'nein'"):
        explanation.to_frame("nein")


def test_wide_frames_have_a_column_for_every_number() -> None:
    found = full()
    frame = ms.wide_frame(found)
    assert list(frame.index) == ["one", "two"]
    assert len(frame.columns) == 2 * 2 + 3 * 6
    for k, output in enumerate(found.outputs):
        for name in ("prediction", "base"):
            assert frame[f"{name}_{output}"].tolist() == getattr(found, name)[:, k].tolist()
        for j, player in enumerate(found.players.names):
            for name in ("phi", "standard_error", "model_error"):
                known = getattr(found, name)[:, j, k].tolist()
                assert frame[f"{name}_{output}_{player}"].tolist() == known
    assert list(ms.wide_frame(of_table()))[:3] == ["prediction", "base", "phi_age"]
    with pytest.raises(ValueError, match=r"distinct .* got \['phi_a_b_c', .*rename some of them"):
        ms.wide_frame(make(names=("b_c", "c", "d"), outputs=("a", "a_b")))


@pytest.mark.parametrize(
    ("index", "rows"),
    [
        (1, [1]), (-1, [1]), (slice(0, 1), [0]), ([1, 0], [1, 0]), ([], []),
        (torch.tensor([False, True]), [1]), (np.array([True, False]), [0]), (np.int64(1), [1]),
        (range(2), [0, 1]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("whole", [make("ilr", instances=(7, 9)), of_table()])
def test_it_is_an_array_of_rows(whole: ms.Explanation, index: object, rows: list[int]) -> None:
    some = whole[index]
    assert len(some) == len(rows)
    assert some.instances == tuple(whole.instances[k] for k in rows)
    for name in ("phi", "standard_error", "base", "prediction", "covariance"):
        tensor = getattr(whole, name)
        assert tensor is None or torch.equal(getattr(some, name), tensor[rows])
    assert some.data.equals(whole.data.iloc[rows])
    assert [row.instances[0] for row in whole] == list(whole.instances)


def test_rows_by_label() -> None:
    found = of_table()
    assert found.loc["Bob"].data["age"].isna().all()
    assert found.loc[["Bob", "Ann"]].instances == ("Bob", "Ann")
    with pytest.raises(KeyError, match="Eve"):
        found.loc["Eve"]
    for index, said in (
        (2, "2"), (torch.tensor([True]), "1"), ((0, 1), r"\(0, 1\); `\.loc"), ("Ann", "`.loc")
    ):  # fmt: skip
        with pytest.raises(IndexError, match=said):
            found[index]
    assert np.array_equal(np.asarray(found), found.phi)


def test_data_are_in_original_units_and_x_is_what_the_model_saw() -> None:
    found = of_table()
    assert found.x is PEOPLE
    assert found.data.index.tolist() == ["Ann", "Bob"]
    assert found.data["home"].tolist() == [
        "town = Oslo, rooms = 3", f"town = missing, rooms = {2**60 + 1}"
    ]  # fmt: skip
    assert found.data["size"].tolist() == ["small", "large"]
    assert [list(each) for each in found.columns([1, 3])] == [["town", "rooms"], ["size"]]
    pairs = make(players=ms.Players(["two", "one"], [0, 0, 1]), x=torch.tensor([[1, 2.5, 3]] * 2),
                 phi=torch.ones(2, 2, 2), standard_error=torch.zeros(2, 2, 2))  # fmt: skip
    assert pairs.data["two"].tolist() == ["1, 2.5"] * 2
    superpixels = ms.Players(["left", "right"], [[[0, 1], [0, 1]]])
    image = make(players=superpixels, x=torch.rand(2, 1, 2, 2), phi=torch.ones(2, 2, 2),
                 standard_error=torch.zeros(2, 2, 2))  # fmt: skip
    assert image.data is None


@pytest.mark.parametrize("library", ["pandas", "polars", "numpy", "torch"])
def test_rows_of_every_library_are_explained_and_audited(library: str) -> None:
    frame = pd.DataFrame({"a": [1, 2, 4, 3] * 9, "b": [0.5, 1.0, 2.0, 1.5] * 9, "c": 1})
    array = frame.to_numpy()
    rows: Any = {"pandas": frame, "polars": pl.from_pandas(frame), "numpy": array}
    rows["torch"] = torch.from_numpy(array)
    table = ms.Table.fit(rows[library])
    model = ms.as_model(lambda x: np.asarray(x)[:, 0] * 2.0, table, returns="values")
    codes = table.rows(rows[library])
    imputer = ms.imputers.table_imputer(ms.imputers.MarginalImputer, table, codes)
    value = ms.imputed_value(model, imputer, "identity", draws=36)
    found = ms.exact_shapley(value, codes[:5])
    assert type(found.x) is (type(rows[library]) if hasattr(rows[library], "columns") else Tensor)
    assert found[3].data.to_numpy().tolist() == [[3, 1.5, 1]]
    assert found.phi.shape[1] == 3
    assert ms.audit(found, value).relative_error().estimate < 1e-6


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


@pytest.mark.parametrize(
    ("whole", "changes", "words"),
    [
        (make(), {"players": ms.Players.of_elements((2,))}, r"`phi` .*\(2, 2, 2\) .*\(2, 3, 2\)"),
        (make(), {"outputs": ("one",)}, r"`phi` of shape \(2, 3, 1\)"),
        (make(), {"instances": (1, 2, 3)}, "label for each of 2 rows but got 3"),
        (make(), {"x": torch.zeros(2, 4)}, r"`x` of shape \(2, 3\)"),
        (make("ilr"), {"covariance": torch.zeros(2, 3, 2)}, r"`covariance` of .*\(2, 3, 2, 2\)"),
        (ragged(), {"owners": None}, "`owners` where rows have players of their own"),
        (make(), {"owners": torch.zeros(2, 3, dtype=torch.int64)}, "`owners` .*got some"),
    ],
)
@pytest.mark.usefixtures("any_type")
def test_what_does_not_fit_together(
    whole: ms.Explanation, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        replace(whole, **changes)


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
    assert bool(turned.interval()[0].isnan().all())
    assert bool(whole.norm_errors().isnan().all())
    exact = replace(whole, model_error=torch.zeros_like(whole.phi))
    assert torch.equal(exact.in_basis([["3", "größer"], "ja"]).model_error, exact.model_error)
    alone = replace(whole, model_error=None)
    torch.testing.assert_close(exact.norm_errors(), alone.norm_errors())


def test_what_is_not_an_explanation_is_neither_read_nor_overwritten(tmp_path: Path) -> None:
    folder, store, text = (tmp_path / name for name in ("folder", "foreign.zarr", "notes.txt"))
    folder.mkdir()
    (folder / "thesis.tex").write_text("years of work")
    xr.Dataset({"t": ("t", [1.0])}).to_zarr(store, consolidated=False)
    text.write_text("mine")
    with pytest.raises(ValueError, match=r"Expected a dataset written by Explanation.save"):
        ms.Explanation.load(store)
    with pytest.raises(ValueError, match=r"notes.txt but something else stands there"):
        ms.Explanation.load(text)
    for path in (folder, store, text):
        with pytest.raises(FileExistsError, match="something else stands there"):
            make().save(path)
    assert (folder / "thesis.tex").read_text() == "years of work"
    assert xr.open_zarr(store, consolidated=False).t.values.tolist() == [1.0]
    assert text.read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 3


def test_a_failed_save_keeps_the_earlier_explanation(tmp_path: Path, full_disk: FullDisk) -> None:
    # Random numbers that no compression fits into the kilobyte of `full_disk`.
    x = torch.rand(2, 400, 4, generator=torch.Generator().manual_seed(0))
    path, (earlier, later) = tmp_path / "e.zarr", (ms.exact_shapley(total, each) for each in x)
    earlier.save(path)
    with full_disk(), pytest.raises(OSError, match="large"):
        later.save(path)
    assert_same(ms.Explanation.load(path), earlier)
    assert [entry.name for entry in tmp_path.iterdir()] == ["e.zarr"]


def test_rows_with_players_of_their_own() -> None:
    explanation = ragged()
    assert explanation.counts.tolist() == [2, 3]
    assert explanation.present.tolist() == [[True, True, False], [True, True, True]]
    assert explanation.efficiency_gap == 0
    assert explanation.data.iloc[0, :2].tolist() == [8.0, 7.0]
    assert np.isnan(explanation.data.iloc[0, 2])
    assert explanation[0].efficiency_gap == 0


# What is printed.

X = torch.tensor([[1.0, 2.0, -4.0, 0.5], [3.0, 5.0, 0.0, -0.25]])


def total(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return (x[:, None] * mask).sum(-1, keepdim=True)


def test_the_largest_contributions_of_each_row_with_the_values_of_players() -> None:
    explanation = ms.exact_shapley(total, pd.DataFrame(X.numpy(), ["Ann", "Bob"], list("abcd")))
    assert repr(explanation).splitlines() == [
        "Explanation(2 instances, 4 players, model output, by 'exact')",
        "     prediction  base  largest contributions",
        "Ann  −0.5        0     c = −4: −4.00, b = 2: +2.00, a = 1: +1.00",
        "Bob  7.75        0     b = 5: +5.00, a = 3: +3.00, d = −0.25: −0.25",
    ]
    assert "2 to 3 players" in repr(ragged())
    one = ms.exact_shapley(total, X[:1, :1])
    assert repr(one).startswith("Explanation(1 instance, 1 player, ")


def test_errors_are_shown_where_they_are_known() -> None:
    explanation = ms.permutation_shapley(lambda x, mask: total(x, mask) ** 3, X[:1], permutations=4)
    first = explanation.phi[0, :, 0].abs().argsort()[-2]
    value, error = (each[0, first, 0] for each in (explanation.phi, explanation.standard_error))
    assert f": {value:+.0f} ± {error:.0f}".replace("-", "−") in repr(explanation)
    unknown = replace(explanation, standard_error=torch.full_like(explanation.phi, torch.nan))
    assert "±" not in repr(unknown)
    for of, said in (
        (explanation, "± is one standard error of sampling"),
        (unknown, "errors of sampling unknown"),
    ):
        assert repr(of).splitlines()[-1] == said
        assert f"<p>{said}</p>" in of._repr_html_()
    learned = replace(explanation, made_by={"learned": True})
    assert "of sampling, that of learning, often larger, not included" in repr(learned)
    halved = replace(learned, model_error=learned.standard_error)
    assert "± is one standard error of sampling and learning" in repr(halved)
    exact = replace(learned, standard_error=0 * explanation.phi)
    assert "error of learning is unknown" in repr(exact)
    assert "ms.with_learning_error" in repr(exact)
    by_count = replace(unknown, made_by={"estimator": {"5": "exact", "8": "odd", "9": "odd"}})
    assert "by 'exact, odd')" in repr(by_count)


def test_of_several_outputs_the_one_that_is_moved_most_is_shown() -> None:
    both = ms.as_value_function(lambda x, m: torch.cat((total(x, m), -2 * total(x, m)), -1), X)
    lines = repr(ms.exact_shapley(both, X)).splitlines()
    assert [line.split()[:3] for line in lines[2:]] == [["0", "1", "1"], ["1", "1", "−15.5"]]


@pytest.mark.parametrize(
    ("rows", "end"), [(5, None), (6, "and 1 more row"), (9, "and 4 more rows")]
)
def test_many_rows_are_counted_and_html_is_escaped(rows: int, end: str | None) -> None:
    players = ms.Players.of_elements((4,), ["<b>", "b", "c", "d"])
    value = ms.as_value_function(total, X, players, outputs=["<i>"])
    explanation = ms.exact_shapley(value, X[:1].repeat(rows, 1))
    lines, page = repr(explanation).splitlines(), explanation._repr_html_()
    assert len(lines) == 2 + min(rows, 5) + (end is not None)
    assert end in (None, lines[-1])
    assert page.count("<tr") == 1 + min(rows, 5)
    assert "&lt;b&gt; = 1: +1.00" in page
    assert "&lt;i&gt;" in page
    assert "<b>" not in page
    assert "<i>" not in page
