"""Images: published figures, files of torchvision, and damaged files."""

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from manifold_shap.data import MNIST, DigitComponents, Digits, FashionMNIST
from tests.data.test_tables import labels


@pytest.fixture(scope="module")
def mnist(local: Callable[[str], str]) -> MNIST:
    data = MNIST(root=local("mnist"))
    data.setup()
    return data


def test_digits() -> None:
    data = Digits()
    data.setup()
    assert data.x_train.shape == (1258, 1, 8, 8)
    assert data.x_train.dtype == torch.float32
    assert (data.x_train.min(), data.x_train.max()) == (0, 1)
    assert labels(data).bincount().tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert data.players.index.shape == (1, 8, 8)
    assert data.players.names[9] == "pixel 1,1"


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
    pixels = MNIST(root=mnist.root, binarize=False).read().features[:60_000]
    assert pixels.mean(dtype=torch.float64).item() == pytest.approx(0.1307, abs=5e-5)
    assert pixels.std().item() == pytest.approx(0.3081, abs=5e-5)
    assert torch.equal(mnist.read().features[:60_000], (pixels > 0.5).float())


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("source", [MNIST, FashionMNIST])
def test_a_folder_of_torchvision_is_found(source: type, ending: str, tmp_path: Path) -> None:
    raw = tmp_path / source.__name__ / "raw"
    for prefix, rows in (("train", 60), ("t10k", 6)):
        pixels = np.full((rows, 28, 28), rows, dtype=np.uint8)
        write_idx(raw / f"{prefix}-images-idx3-ubyte{ending}", pixels)
        write_idx(raw / f"{prefix}-labels-idx1-ubyte{ending}", np.arange(rows, dtype=np.uint8) % 10)
    data = source(root=str(tmp_path), **({"binarize": False} if source is MNIST else {}))
    data.setup()
    assert (len(data.x_train), len(data.x_test)) == (54, 6)
    assert data.x_test.unique().tolist() == pytest.approx([6 / 255])


def write_idx(path: Path, values: np.ndarray) -> None:
    head = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, dtype=">u4").tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    content = head + values.tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


@pytest.mark.parametrize(
    "content", [b"no gzip", gzip.compress(bytes(500))[:-9]], ids=["plain", "cut"]
)
def test_damaged_files(content: bytes, tmp_path: Path) -> None:
    folder = tmp_path / "mnist"
    for prefix in ("train", "t10k"):
        write_idx(folder / f"{prefix}-images-idx3-ubyte.gz", np.zeros((2, 28, 28), dtype=np.uint8))
        write_idx(folder / f"{prefix}-labels-idx1-ubyte.gz", np.zeros(2, dtype=np.uint8))
    (folder / "t10k-images-idx3-ubyte.gz").write_bytes(content)
    with pytest.raises(ValueError, match=r"files of MNIST in .*mnist .* fresh copies"):
        MNIST(root=str(tmp_path)).setup()


def test_components_of_digits() -> None:
    data = DigitComponents(digits=[3, "8"], components=2)
    data.setup()
    assert (data.classes, data.players.names) == (("3", "8"), ("PC1", "PC2"))
    assert sum(len(x) for x in (data.x_train, data.x_validation, data.x_test)) == 183 + 174
    x = data.table.encode(data.x_train).double()
    covariance = x.T @ x / len(x)
    torch.testing.assert_close(covariance, torch.eye(2).double(), rtol=0, atol=1e-5)
