"""Data sources: splits, checks of what a source loads, and configurations."""

import shutil
from pathlib import Path

import hydra
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf
from torch import Tensor

from manifold_shap import data as package
from manifold_shap.data import MNIST, FashionMNIST, Iris, TensorDataModule
from manifold_shap.data.base import Table
from manifold_shap.data.splits import split_rows

CONF = Path(__file__).parents[2] / "conf" / "data"
SOURCES = {
    source.name: source
    for source in (getattr(package, name) for name in dir(package))
    if isinstance(source, type) and issubclass(source, TensorDataModule)
    if source is not TensorDataModule
}


@settings(max_examples=50, deadline=None)
@given(
    rows=st.integers(30, 300),
    validation=st.floats(0.05, 0.45),
    test=st.floats(0.05, 0.45),
    seed=st.integers(0, 2**31),
)
def test_splits_are_disjoint_and_exhaustive(
    rows: int, validation: float, test: float, seed: int
) -> None:
    shares = {"validation": validation, "test": test}
    parts = split_rows(rows, shares, seed)
    assert torch.cat(parts).sort().values.tolist() == list(range(rows))
    assert [len(part) for part in parts[1:]] == [round(validation * rows), round(test * rows)]
    again = split_rows(rows, shares, seed)
    assert all(torch.equal(a, b) for a, b in zip(parts, again, strict=True))
    assert not torch.equal(parts[0], split_rows(rows, shares, seed + 1)[0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"validation": 0.001}, "'validation': 0, .* change `validation` or `test`"),
        ({"validation": 0.5, "test": 0.5}, "'train': 0"),
        ({"test": 1.5}, "`test` to be a finite number above 0 and below 1 but got 1.5"),
        ({"test": 0.0}, "`test` to be a finite number above 0 and below 1 but got 0.0"),
        ({"validation": float("nan")}, "`validation` to be a finite number .* but got nan"),
        ({"batch_size": 0}, "`batch_size` to be a whole number of at least 1 but got 0"),
        ({"seed": -1}, "`seed` to be a whole number from 0 to .* but got -1"),
    ],
)
def test_numbers_out_of_range(settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Iris(**settings).setup()


class Handmade(TensorDataModule):
    """Rows that a test made."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        super().__init__(name="handmade")
        self.rows = (x, y)

    def read(self) -> Table:
        return Table(*self.rows, ("no", "yes"))


def test_a_handmade_source_is_served() -> None:
    x, y = torch.rand(20, 2), torch.tensor([0, 1] * 10)
    data = Handmade(x, y)
    data.setup()
    train, _, test = data.split(20)
    assert torch.equal(data.x_train, x[train])
    assert torch.equal(data.y_test, y[test])
    assert data.schema is None
    assert data.players.names == ("x0", "x1")


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([0.0, float("nan")], [0, 1], "10 of 40 entries of `features` .* row 1, element 0"),
        ([float("inf"), 1], [0, 1], "`features` are NaN or infinite, the first in row 0"),
        ([0.0, 1], [1, 1], "at least two classes in 'handmade' but every one is 'yes'"),
        ([0.0, 1], [1], "as many inputs as labels in 'handmade' but got 20 inputs and 10 labels"),
    ],
)
def test_rows_that_cannot_be_served(x: list, y: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Handmade(torch.tensor([[e, 3.0] for e in x] * 10), torch.tensor(y * 10)).setup()


def test_setup_is_idempotent_and_seeded() -> None:
    data = Iris(seed=3)
    data.setup()
    first = data.x_train
    data.setup()
    assert data.x_train is first
    again, other = Iris(seed=3), Iris(seed=4)
    again.setup()
    other.setup()
    assert torch.equal(again.x_train, first)
    assert not torch.equal(other.y_train, data.y_train)


def test_misspelled_settings_are_refused() -> None:
    with pytest.raises(TypeError, match="batchsize"):
        Iris(batchsize=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="test"):
        MNIST(test=0.3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="test"):
        FashionMNIST(test=0.3)


@pytest.mark.parametrize("name", SOURCES)
def test_each_configuration_builds_its_source(name: str) -> None:
    plain = OmegaConf.load(CONF / f"{name}.yaml")
    plain.pop("defaults", None)
    plain.name = name
    given = {"target": "b"} if name == "table" else {}
    given |= {"path": f"{name}.csv"} if OmegaConf.is_missing(plain, "path") else {}
    plain.update(given)
    config = OmegaConf.create({"seed": 11, "data": plain})
    data = hydra.utils.instantiate(config.data)
    assert type(data) is SOURCES[name]
    assert (data.name, data.seed) == (name, 11)
    same = SOURCES[name](**given)
    own, others = vars(data), vars(same)
    different = {key for key in others if key in plain and own[key] != others[key]}
    assert different == ({"seed", "law"} if name.endswith("mixture") else {"seed"})


def test_every_source_has_a_configuration() -> None:
    assert {path.stem for path in CONF.glob("*.yaml")} == set(SOURCES)


def test_drug_brings_its_classifier(tmp_path: Path) -> None:
    shutil.copytree(CONF, tmp_path / "data")
    (tmp_path / "classifier").mkdir()
    for name in ("mlp", "random_forest"):
        (tmp_path / "classifier" / f"{name}.yaml").write_text(f"kind: {name}\n")
    main = "defaults:\n  - classifier: mlp\n  - data: iris\n  - _self_\nseed: 0\n"
    (tmp_path / "main.yaml").write_text(main)
    with hydra.initialize_config_dir(str(tmp_path), version_base="1.3"):
        kinds = {
            options: hydra.compose("main", overrides=options.split()).classifier.kind
            for options in ("data=iris", "data=drug", "data=drug classifier=mlp")
        }
    assert kinds == {
        "data=iris": "mlp",
        "data=drug": "random_forest",
        "data=drug classifier=mlp": "mlp",
    }
