"""Data sources: batches, splits, published figures and every error."""

import gzip
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import hydra
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lightning.pytorch import LightningModule, Trainer
from omegaconf import OmegaConf
from sklearn.utils import Bunch
from torch import Tensor

from manifold_shap.data import (
    CSV,
    MNIST,
    Abalone,
    Census,
    DigitComponents,
    Digits,
    Drug,
    FashionMNIST,
    Iris,
    TensorDataModule,
    loader,
    sources,
)
from manifold_shap.data.base import Loaded, split_rows
from manifold_shap.data.images import read_idx
from manifold_shap.players import Players
from manifold_shap.training.batches import _common_rows

CONF = Path(__file__).parents[2] / "conf" / "data"
SOURCES = {
    "digits": Digits,
    "digit_components": DigitComponents,
    "iris": Iris,
    "mnist": MNIST,
    "fashion_mnist": FashionMNIST,
    "drug": Drug,
    "abalone": Abalone,
    "census": Census,
    "csv": CSV,
}
PARTS = ("train", "validation", "test")


def local(relative: str) -> Path:
    """The folder of local data, or a skip where it lacks `relative`."""
    named = os.environ.get(sources.VARIABLE)
    if named is None or not (Path(named) / relative).exists():
        pytest.skip(f"no {relative!r} in a folder named by {sources.VARIABLE}")
    return Path(named)


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Neither a data folder nor a cache: the home folder is empty."""
    monkeypatch.delenv(sources.VARIABLE, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.fixture(scope="module")
def mnist() -> MNIST:
    data = MNIST(root=str(local("mnist")))
    data.setup()
    return data


def labels(data: TensorDataModule) -> Tensor:
    return torch.cat([getattr(data, f"y_{part}") for part in PARTS])


@settings(max_examples=50, deadline=None)
@given(
    rows=st.integers(1, 60),
    batch_size=st.integers(1, 70),
    shuffle=st.booleans(),
    seed=st.integers(0, 2**40),
    epoch=st.integers(0, 1000),
)
def test_batches_hold_every_row_once(
    rows: int, batch_size: int, shuffle: bool, seed: int, epoch: int
) -> None:
    x = torch.arange(rows)
    batches = loader(x, -x, batch_size=batch_size, shuffle=shuffle, seed=seed)
    batches.sampler.set_epoch(epoch)
    seen = list(batches)
    assert len(seen) == len(batches)
    assert all(len(a) == batch_size for a, _ in seen[:-1])
    assert all(torch.equal(a, -b) for a, b in seen)
    found = torch.cat([a for a, _ in seen])
    assert torch.equal(found.sort().values, x)
    assert shuffle or torch.equal(found, x)


def order(seed: int, epoch: int, rows: int = 50) -> list[int]:
    batches = loader(torch.arange(rows), batch_size=7, shuffle=True, seed=seed)
    batches.sampler.set_epoch(epoch)
    return torch.cat([x for (x,) in batches]).tolist()


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**40), epoch=st.integers(0, 1000))
def test_order_is_a_function_of_seed_and_epoch(seed: int, epoch: int) -> None:
    torch.manual_seed(epoch)
    assert order(seed, epoch) == order(seed, epoch)
    assert order(seed, epoch) != order(seed, epoch + 1)
    assert order(seed, epoch + 1) != order(seed + 1, epoch)
    assert order(seed, epoch) != order(seed + 2**32, epoch)


def test_an_epoch_set_after_iter_counts() -> None:
    batches = loader(torch.arange(50), batch_size=50, shuffle=True)
    started = iter(batches)
    batches.sampler.set_epoch(3)
    assert next(started)[0].tolist() == order(0, 3)


def test_batches_leave_the_global_generator_alone() -> None:
    before = torch.random.get_rng_state()
    list(loader(torch.arange(9), batch_size=2, shuffle=True))
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("shuffle", [True, False])
def test_rows_per_epoch_repeats_full_passes(shuffle: bool) -> None:
    batches = loader(torch.arange(10), batch_size=8, shuffle=shuffle, rows_per_epoch=25)
    found = torch.cat([x for (x,) in batches])
    assert len(batches) == 4
    assert len(found) == 25
    first, second = found[:10], found[10:20]
    assert first.sort().values.tolist() == second.sort().values.tolist() == list(range(10))
    assert torch.equal(first, second) is not shuffle
    assert len(found[20:].unique()) == 5


def test_fewer_rows_per_epoch_differ_between_epochs() -> None:
    batches = loader(torch.arange(100), batch_size=10, shuffle=True, rows_per_epoch=20)
    one = torch.cat([x for (x,) in batches])
    batches.sampler.set_epoch(1)
    other = torch.cat([x for (x,) in batches])
    assert len(one) == len(one.unique()) == 20
    assert not torch.equal(one.sort().values, other.sort().values)


def test_a_batch_is_a_tuple_of_tensors_with_their_own_types() -> None:
    x, y = torch.rand(5, 1, 2), torch.arange(5)
    batch = next(iter(loader(x, y, batch_size=5)))
    assert isinstance(batch, tuple)
    assert torch.equal(batch[0], x)
    assert torch.equal(batch[1], y)


@pytest.mark.parametrize(
    ("tensors", "options", "message"),
    [
        ((), {}, "at least one tensor but got none"),
        ((torch.rand(3), torch.rand(2)), {}, r"number of rows but got shapes \[\(3,\), \(2,\)\]"),
        ((torch.rand(0, 2),), {}, r"non-zero number of rows but got shapes \[\(0, 2\)\]"),
        ((torch.tensor(1.0),), {}, r"number of rows but got shapes \[\(\)\]"),
        ((torch.rand(3),), {"batch_size": 0}, "`batch_size` to be an integer >= 1 but got 0"),
        ((torch.rand(3),), {"rows_per_epoch": 0}, "`rows_per_epoch` to be an integer >= 1"),
        ((torch.rand(3),), {"seed": -1}, "`seed` to be an integer >= 0 but got -1"),
    ],
)
def test_what_cannot_be_batched(tensors: tuple, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        loader(*tensors, **{"batch_size": 2, **options})


def test_batches_are_of_tensors() -> None:
    # The checker of annotations that runs in tests stands before the public door.
    with pytest.raises(TypeError, match="Expected tensors but got ndarray"):
        _common_rows((np.zeros(3),))


class Recorder(LightningModule):
    """Learns nothing and keeps the batches it saw."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.seen: list[list[float]] = []

    def training_step(self, batch: tuple[Tensor, ...], _: int) -> Tensor:
        self.seen.append(batch[0].flatten().tolist())
        return self.weight * batch[0].mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.0)


@pytest.mark.filterwarnings("ignore")
def test_an_interrupted_training_goes_on_with_the_same_batches(tmp_path: Path) -> None:
    def train(epochs: int, checkpoint: str | None = None) -> tuple[Recorder, Trainer]:
        model, data = Recorder(), Iris(batch_size=40, seed=5)
        trainer = Trainer(
            max_epochs=epochs,
            accelerator="cpu",
            limit_val_batches=0,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(model, data, ckpt_path=checkpoint, weights_only=True)
        return model, trainer

    whole, _ = train(4)
    half, trainer = train(2)
    trainer.save_checkpoint(tmp_path / "half.ckpt")
    rest, _ = train(4, str(tmp_path / "half.ckpt"))
    assert len(whole.seen) == 4 * 100
    assert half.seen + rest.seen == whole.seen
    assert whole.seen[:100] != whole.seen[100:200]


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
        ({"validation": 0.001}, "'validation': 0, .* change `validation`"),
        ({"validation": 0.5, "test": 0.5}, "'train': 0"),
        ({"test": 1.5}, "shares between 0 and 1 .* change `test`"),
        ({"test": 0.0}, "shares between 0 and 1 .* change `test`"),
    ],
)
def test_shares_that_leave_a_split_empty(settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Iris(**settings).setup()


class Handmade(TensorDataModule):
    """Rows that a test made."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        super().__init__(name="handmade")
        self.rows = (x, y)

    def load(self) -> Loaded:
        return Loaded(self.rows, self.rows, self.rows, ("no", "yes"), Players.of_elements((2,)))


def test_a_handmade_source_is_served() -> None:
    x, y = torch.rand(6, 2), torch.tensor([0, 1] * 3)
    data = Handmade(x, y)
    batches = list(data.test_dataloader())
    assert torch.equal(batches[0][0], x)
    assert data.schema is None


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([[0.0, 1], [2, float("nan")]], [0, 1], "1 of 2 rows of the train split .* first row 1"),
        ([[float("inf"), 1], [2, 3]], [0, 1], "hold NaN or infinity, first row 0"),
        ([[0.0, 1], [2, 3]], [1, 1], "at least two classes in 'handmade' but every one is 'yes'"),
        ([[0.0, 1], [2, 3]], [1], "in the train split but got 2 inputs and 1 labels"),
    ],
)
def test_rows_that_cannot_be_served(x: list, y: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Handmade(torch.tensor(x), torch.tensor(y)).setup()


def test_setup_is_idempotent_and_seeded() -> None:
    data = Iris(seed=3)
    data.setup()
    first = data.x_train
    data.setup("fit")
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


def test_digits() -> None:
    data = Digits()
    data.setup()
    assert data.x_train.shape == (1258, 1, 8, 8)
    assert data.x_train.dtype == torch.float32
    assert (data.x_train.min(), data.x_train.max()) == (0, 1)
    assert labels(data).bincount().tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert data.players.index.shape == (1, 8, 8)
    assert data.players.names[9] == "pixel (1, 1)"


@pytest.mark.parametrize(
    ("source", "relative", "rows", "counts", "width", "players", "continuous_columns"),
    [
        (Iris, None, 150, [50, 50, 50], 4, 4, 4),
        (Drug, "drug", 1885, [1069, 816], 10, 10, 0),
        (Abalone, "abalone", 4177, [2096, 2081], 10, 8, 7),
        (Census, "census", 48842, [37155, 11687], 106, 13, 5),
    ],
)
def test_tables_have_their_published_figures(
    source: type,
    relative: str | None,
    rows: int,
    counts: list[int],
    width: int,
    players: int,
    continuous_columns: int,
) -> None:
    data = source(root=str(local(relative)) if relative else None)
    data.setup()
    assert sum(len(getattr(data, f"x_{part}")) for part in PARTS) == rows
    assert labels(data).bincount().tolist() == counts
    assert labels(data).dtype == torch.int64
    assert data.x_train.shape[1:] == data.players.index.shape == (width,)
    assert len(data.players.names) == players
    continuous = [column.kind == "continuous" for column in data.schema.columns]
    chosen = torch.tensor(continuous)[data.players.index]
    assert chosen.sum() == continuous_columns
    x = data.x_train.double().numpy()[:, chosen]
    np.testing.assert_allclose(x.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(x.std(0), 1, atol=1e-5)


def test_drug_has_binary_features_and_rows_in_their_place() -> None:
    data = Drug(root=str(local("drug")))
    data.setup()
    assert {column.kind for column in data.schema.columns} == {"binary"}
    assert data.x_train.unique().tolist() == [0, 1]
    table = data.read()
    # The file's second person: amphetamine CL2, benzodiazepine CL0, LSD CL2.
    assert table.features.iloc[1][["Amphet", "Benzos", "Cannabis"]].tolist() == [1, 0, 1]
    assert table.labels[:2].tolist() == [0, 1]


def test_census_keeps_the_publishers_test_rows() -> None:
    data = Census(root=str(local("census")))
    data.setup()
    assert (len(data.x_train), len(data.x_validation), len(data.x_test)) == (29305, 3256, 16281)
    assert data.y_test.bincount().tolist() == [12435, 3846]
    kinds = {column.name: column for column in data.schema.columns}
    assert "fnlwgt" not in kinds
    assert "?" in kinds["workclass"].categories
    assert kinds["sex"].categories == ("Female", "Male")
    first = data.schema.decode(data.x_test[:1]).iloc[0]
    assert (first["education"], round(first["age"])) == ("11th", 25)


def test_mnist_figures(mnist: MNIST) -> None:
    assert mnist.x_train.shape == (54000, 1, 28, 28)
    assert mnist.x_validation.shape == (6000, 1, 28, 28)
    assert mnist.x_test.shape == (10000, 1, 28, 28)
    assert mnist.y_test.bincount().tolist() == [
        *[980, 1135, 1032, 1010, 982],
        *[892, 958, 1028, 974, 1009],
    ]
    both = torch.cat([mnist.y_train, mnist.y_validation])
    assert both.bincount().tolist() == [
        *[5923, 6742, 5958, 6131, 5842],
        *[5421, 5918, 6265, 5851, 5949],
    ]
    assert mnist.x_test.unique().tolist() == [0, 1]
    assert len(mnist.players.names) == 784


def test_mnist_grey_values_have_their_published_mean_and_spread(mnist: MNIST) -> None:
    grey = MNIST(root=mnist.root, binarize=False)
    images, digits = grey._read(train=True)
    pixels, _ = grey._inputs(images, digits)
    assert pixels.mean(dtype=torch.float64).item() == pytest.approx(0.1307, abs=5e-5)
    assert pixels.std().item() == pytest.approx(0.3081, abs=5e-5)
    some = slice(0, 1000)
    binary, _ = mnist._inputs(images[some], digits[some])
    assert torch.equal(binary, (pixels[some] > 0.5).float())


def test_places_are_searched_in_order(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = {name: nowhere / name for name in ("root", "named")}
    folders["cache"] = sources.cache()
    assert sources.find(None, "a/b.data") is None
    for name in ("cache", "named", "root"):
        (folders[name] / "a").mkdir(parents=True)
        (folders[name] / "a/b.data").write_text(name)
    assert sources.find(None, "a/b.data") == folders["cache"] / "a/b.data"
    monkeypatch.setenv(sources.VARIABLE, str(folders["named"]))
    assert sources.find(None, "a/b.data") == folders["named"] / "a/b.data"
    assert sources.find(folders["root"], "a/b.data") == folders["root"] / "a/b.data"
    (folders["root"] / "a/b.data").unlink()
    assert sources.find(folders["root"], "a/b.data") is None


@pytest.mark.parametrize("source", [Drug, Abalone, Census, MNIST, FashionMNIST])
def test_a_root_without_the_file_is_an_error_and_not_a_download(
    source: type, nowhere: Path
) -> None:
    with pytest.raises(FileNotFoundError, match=rf"none at {nowhere}/.*; correct `root`"):
        source(root=str(nowhere)).setup()


def test_a_failed_download_names_the_places_and_the_variable(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(sources.VARIABLE, str(nowhere / "named"))
    absent = (nowhere / "absent.data").as_uri()
    pattern = r"named/a.data, .*home/.cache/manifold_shap/a.data; the download failed .*DATA"
    with pytest.raises(FileNotFoundError, match=pattern):
        sources.require(None, "a.data", absent)
    assert not sources.cache().exists()


def test_a_download_lands_in_the_cache_once(nowhere: Path) -> None:
    remote = nowhere / "remote.data"
    remote.write_text("1,2")
    path = sources.require(None, "a/b.data", remote.as_uri())
    assert path == sources.cache() / "a/b.data"
    assert path.read_text() == "1,2"
    assert [file.name for file in path.parent.iterdir()] == ["b.data"]
    remote.unlink()
    assert sources.require(None, "a/b.data", remote.as_uri()) == path


def published(columns: list[str], rows: list[list], target: str) -> Bunch:
    return Bunch(frame=pd.DataFrame(rows, columns=columns).astype({target: "category"}))


def test_abalone_of_openml(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [f"V{i}" for i in range(8)] + ["Class_number_of_rings"]
    rows = [["MFI"[i % 3], *[i / 10 + j for j in range(7)], str(i)] for i in range(20)]
    bunch = published(columns, rows, "Class_number_of_rings")
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda *_, **__: bunch)
    data = Abalone()
    data.setup()
    assert data.players.names[4] == "Whole weight"
    assert labels(data).bincount().tolist() == [10, 10]


def test_census_of_openml(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [f"V{i}" for i in range(14)] + ["class"]
    words = [["a", None, "c"][i % 3] for i in range(30)]
    row = [[i, words[i], 7, "x" if i % 2 else "y", i % 5] for i in range(30)]
    text = [["p" if i % 4 else "q"] * 5 for i in range(30)]
    tail = [[i % 7, i % 3, i, words[i], [">50K", "<=50K"][i % 2]] for i in range(30)]
    rows = [a + b + c for a, b, c in zip(row, text, tail, strict=True)]
    frame = published(columns, rows, "class").frame.astype({"V1": "category"})
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda *_, **__: Bunch(frame=frame))
    data = Census(test=0.3)
    data.setup()
    assert len(data.x_test) == 9
    assert data.schema.columns[1].categories == ("?", "a", "c")
    assert labels(data).bincount().tolist() == [15, 15]


def test_another_table_of_that_name_on_openml(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bunch = published(["a", "b"], [[1, 2]], "b")
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda *_, **__: bunch)
    with pytest.raises(ValueError, match=r"'abalone' \(version 1\) to have .* got \['a', 'b'\]"):
        Abalone().setup()


def test_mnist_of_torchvision_is_the_local_one(
    nowhere: Path, mnist: MNIST, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = sources.cache() / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for path in (Path(mnist.root) / "mnist").glob("*.gz"):
        with gzip.open(path) as packed, open(raw / path.stem, "wb") as plain:
            shutil.copyfileobj(packed, plain)
    images, digits = MNIST()._read(train=False)
    x, y = mnist._inputs(images, digits)
    assert torch.equal(x, mnist.x_test)
    assert torch.equal(y, mnist.y_test)


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("source", [MNIST, FashionMNIST])
def test_a_folder_of_torchvision_is_found(source: type, ending: str, tmp_path: Path) -> None:
    raw = tmp_path / source.__name__ / "raw"
    for prefix, rows in (("train", 60), ("t10k", 6)):
        pixels = np.full((rows, 28, 28), rows, dtype=np.uint8)
        write_idx(raw / f"{prefix}-images-idx3-ubyte{ending}", pixels)
        write_idx(raw / f"{prefix}-labels-idx1-ubyte{ending}", np.arange(rows, dtype=np.uint8) % 10)
    data = source(root=str(tmp_path), binarize=False)
    data.setup()
    assert (len(data.x_train), len(data.x_test)) == (54, 6)
    assert data.x_test.unique().tolist() == pytest.approx([6 / 255])


@pytest.mark.parametrize("stat", [False, True], ids=["file", "folder"])
@pytest.mark.parametrize(
    ("source", "file"),
    [
        (lambda root: CSV(path="a.csv", target="b", root=root), "a.csv"),
        (lambda root: MNIST(root=root), "mnist/train-images-idx3-ubyte.gz"),
        (lambda root: Drug(root=root), "drug/drug_consumption.data"),
    ],
    ids=["csv", "mnist", "drug"],
)
def test_a_closed_file_is_neither_damaged_nor_missing(
    source: Callable[[str], TensorDataModule],
    file: str,
    stat: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def closed(path: Path, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    for name in {file, file.replace("images-idx3", "labels-idx1")}:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    # The user of the tests may be one to whom no file is closed.
    if stat:
        monkeypatch.setattr(Path, "stat", closed)
    else:
        monkeypatch.setattr(Path, "read_bytes", closed)
        monkeypatch.setattr(pd, "read_csv", closed)
    with pytest.raises(PermissionError, match="Permission denied"):
        source(str(tmp_path)).setup()


def test_a_closed_cache_is_no_failed_download() -> None:
    with pytest.raises(PermissionError, match="closed"), sources.fetching(None, "a.data"):
        raise PermissionError("closed")


def write_idx(path: Path, values: np.ndarray) -> None:
    head = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, dtype=">u4").tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    content = head + values.tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def test_fashion_mnist_has_grey_values_and_names(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for prefix, rows in (("train", 20), ("t10k", 6)):
        folder = tmp_path / "fashion_mnist"
        pixels = rng.integers(0, 256, size=(rows, 28, 28), dtype=np.uint8)
        write_idx(folder / f"{prefix}-images-idx3-ubyte.gz", pixels)
        write_idx(folder / f"{prefix}-labels-idx1-ubyte.gz", np.arange(rows, dtype=np.uint8) % 10)
    data = FashionMNIST(root=str(tmp_path))
    data.setup()
    np.testing.assert_allclose(data.x_test[:, 0].numpy(), pixels / 255, rtol=1e-6)
    assert data.classes[5] == "Sandal"
    assert len(data.x_train) == 18


@pytest.mark.parametrize(
    "content",
    [
        b"no gzip",
        gzip.compress(b"\0\0\x0d\1\0\0\0\1a"),
        gzip.compress(b"\0\0\x08\1\0\0\0\2a"),
        gzip.compress(b"\0\0"),
        gzip.compress(bytes(500))[:-9],
        gzip.compress(bytes(500))[:10] + b"\xff" * 20,
        b"",
    ],
    ids=["plain", "floats", "short", "header", "truncated", "garbled", "empty"],
)
def test_damaged_idx_files(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "images.gz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"an IDX file of bytes, .* at .*images.gz .* fresh copy"):
        read_idx(path)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = range(40)
    frame = pd.DataFrame(
        {
            "id": [f"n{i}" for i in rows],
            "age": [20 + 3 * i for i in rows],
            "rooms": [1 + i % 3 for i in rows],
            "colour": [["red", "green", "blue"][i % 3] for i in rows],
            "price": [i * 1.5 for i in rows],
            "bought": [["no", "yes"][i % 2] for i in rows],
            "always": 1,
            "gap": [None if i == 7 else i for i in rows],
        }
    )
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    return path


def test_csv(table: Path) -> None:
    data = CSV(
        path=str(table), target="bought", categorical=["rooms"], drop=["id", "gap", "always"]
    )
    data.setup()
    assert data.players.names == ("age", "rooms", "colour", "price")
    assert data.classes == ("no", "yes")
    assert labels(data).bincount().tolist() == [20, 20]
    assert data.x_train.shape == (28, 8)
    age = data.schema.decode(data.x_test)["age"].round().astype(int)
    assert torch.equal(torch.tensor((age - 20).to_numpy() % 2), data.y_test)


def test_csv_is_found_under_the_root(table: Path) -> None:
    data = CSV(path=table.name, target="bought", drop=["id", "gap"], root=str(table.parent))
    data.setup()
    assert len(data.players.names) == 5


def test_classes_of_numbers_are_in_numeric_order(table: Path) -> None:
    frame = pd.read_csv(table).assign(grade=[[10, 9, 2][i % 3] for i in range(40)])
    frame.to_csv(table, index=False)
    data = CSV(path=str(table), target="grade", drop=["id", "gap"])
    data.setup()
    assert data.classes == ("2", "9", "10")
    assert labels(data).bincount().tolist() == [13, 13, 14]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "bougth"}, "`target` to name a column .* 'bougth'; .* mean 'bought'?"),
        ({"target": "zzz"}, r"got 'zzz'; the columns are \['id', 'age', .*\]\."),
        ({"drop": ["idd"]}, "`drop` to name a column .* 'idd'; .* did you mean 'id'?"),
        ({"categorical": ["room"]}, "`categorical` to name .* did you mean 'rooms'?"),
        ({"target": "always"}, "two classes in the target 'always' but every row holds '1'"),
        ({"drop": ["id"]}, "column 'gap' without missing values but 1 of 40 rows .* first row 7"),
        ({"target": "gap"}, "column 'gap' without missing values but 1 of 40 rows"),
    ],
)
def test_what_a_csv_cannot_mean(table: Path, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CSV(**{"path": str(table), "target": "bought", "drop": ["id", "gap"], **options}).setup()


def test_a_continuous_target(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    pd.DataFrame({"a": range(300), "price": np.arange(300) / 7}).to_csv(path, index=False)
    with pytest.raises(ValueError, match="target 'price' but it holds 300 distinct values"):
        CSV(path=str(path), target="price").setup()


@pytest.mark.parametrize(
    ("column", "options", "message"),
    [
        ({"kind": np.arange(60) / 7}, {"target": "kind"}, "'kind' but 51 of 60 .* first 0.142857"),
        ({"kind": [0.5, 1.5] * 30}, {"target": "kind"}, "60 of 60 .* looks continuous; bin it"),
        ({"kind": ["NA", *[1, 2] * 30][:60]}, {"target": "kind"}, "'kind' is text .* not 'NA' in"),
        ({"kind": ["0,5", "1,5"] * 30}, {"target": "kind"}, "60 with a decimal comma"),
        ({"day": ["2020-01-02", "2021-03-04"] * 30}, {}, "'day' looks like dates, .*'2020-01-02'"),
        (
            {"row": range(60)},
            {},
            "'row', which looks like a row number, from 0 to 59; leave it out",
        ),
        ({"row": range(7, 67)}, {"drop": ["old"]}, r'from 7 to 66; .*data.drop=\["old", "row"\]'),
        ({"Unnamed: 0": 1.0}, {}, r'which has no name, .*data.drop=\["Unnamed: 0"\]'),
        (
            {"code": [f"x{i}" for i in range(60)]},
            {},
            "'code' looks like an identifier: 60 distinct",
        ),
        ({"size": [1, *["2", "NaN"] * 20, *[3] * 19]}, {}, "40 of its 60 values are .* 'NaN' in"),
        ({"size": [*range(59), "None"]}, {}, "59 of its 60 values are numbers, but not 'None' in"),
        ({"size": [f"{i},5" for i in range(60)]}, {}, "60 with a decimal comma, first '0,5' in"),
        ({"size": ["1,5", *[2] * 59]}, {}, "60 of its 60 values look like numbers, 1 with a dec"),
        ({"size": [np.inf, *range(59)]}, {}, "'size' but 1 of 60 .* first inf in row 0"),
    ],
)
def test_columns_that_are_not_what_they_seem(
    tmp_path: Path, column: dict, options: dict, message: str
) -> None:
    path = tmp_path / "table.csv"
    plain = {"old": [i % 7 for i in range(60)], "bought": ["no", "yes", "maybe"] * 20}
    pd.DataFrame({**plain, **column}).to_csv(path, index=False)
    with pytest.raises(ValueError, match=message):
        CSV(**{"path": str(path), "target": "bought", **options}).setup()


def test_columns_that_only_look_odd_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    frame = pd.DataFrame(
        {
            "garage": ["None", "NA", "attached"] * 20,
            "dependents": ["0", "1", "3+"] * 20,
            "ages": ["10-14", "15-19", "may"] * 20,
            "version": ["1.2.3", "1.2.4", "1.2.5"] * 20,
            "minute": [float(i) for i in range(60)],
            "cluster": range(60),
            "bought": [0.0, 1.0] * 30,
        }
    )
    frame.to_csv(path, index=False)
    data = CSV(path=str(path), target="bought", categorical=["version", "cluster"])
    data.setup()
    kinds = {column.name: (column.kind, column.width) for column in data.schema.columns}
    assert data.schema.columns[0].categories == ("NA", "None", "attached")
    assert data.classes == ("0", "1")
    assert kinds == {
        **dict.fromkeys(("garage", "dependents", "ages", "version"), ("categorical", 3)),
        "minute": ("continuous", 1),
        "cluster": ("categorical", 60),
    }


def test_a_class_that_no_training_row_is_of(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    kinds = ["rare", *["a", "b"] * 30]
    pd.DataFrame({"x": np.arange(61) % 7, "kind": kinds}).to_csv(path, index=False)
    shares = {"validation": 0.1, "test": 0.2}
    held_out = {seed: 0 not in split_rows(61, shares, seed)[0] for seed in range(20)}
    assert set(held_out.values()) == {False, True}
    for seed, absent in held_out.items():
        data = CSV(path=str(path), target="kind", seed=seed)
        if absent:
            with pytest.raises(ValueError, match=r"none of the 43 is of \['rare'\]; merge or drop"):
                data.setup()
        else:
            data.setup()


def test_a_column_name_that_occurs_twice(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("a,b,a,,\n1,2,3,4,5\n")
    with pytest.raises(ValueError, match=r"distinct column names but got \['a'\] more than once"):
        CSV(path=str(path), target="b").setup()


def test_a_file_with_other_separators(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("a;b\n1;2\n")
    with pytest.raises(ValueError, match="is the file separated by something else than commas"):
        CSV(path=str(path), target="b").setup()


@pytest.mark.parametrize(
    "content", [b"", b"a,b\n1,2\n3,4,5\n", b"\xff\xfe\x00"], ids=["empty", "ragged", "binary"]
)
def test_a_file_that_is_no_table(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"comma-separated values with a header line in .*\.csv"):
        CSV(path=str(path), target="b").setup()


def test_no_such_csv(nowhere: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"'mine.csv' .* nor is there one at /.*mine.csv"):
        CSV(path="mine.csv", target="b").setup()


@pytest.mark.parametrize("name", SOURCES)
def test_each_configuration_builds_its_source(name: str) -> None:
    plain = OmegaConf.load(CONF / f"{name}.yaml")
    plain.pop("defaults", None)
    config = OmegaConf.create({"seed": 11, "data": plain})
    given = {"path": "a.csv", "target": "b"} if name == "csv" else {}
    data = hydra.utils.instantiate(config.data, **given)
    assert type(data) is SOURCES[name]
    assert (data.name, data.seed) == (name, 11)
    same = SOURCES[name](**given)
    different = {key for key in plain if key != "_target_" and key not in given}
    assert {key for key in different if getattr(data, key) != getattr(same, key)} == {"seed"}


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
