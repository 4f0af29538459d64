"""VAE imputers of rows in a file or of a data set: the same as of a tensor, in bounded memory."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import manifold_shap as ms
from manifold_shap.coalitions import Listed

X = torch.randn(300, 4, generator=torch.Generator().manual_seed(0)).cumsum(1)
MASK, KEYS = torch.rand(5, 3, 4, generator=torch.Generator().manual_seed(1)) < 0.5, torch.arange(3)
FEW: dict[str, Any] = {
    "latent": 2,
    "hidden": [8],
    "bank_size": 1000,
    "max_epochs": 1,
    "batch_size": 32,
    "trainer": {"accelerator": "cpu", "limit_train_batches": 5},
    "progress": False,
}


def in_file(place: Path, x: Tensor = X) -> np.ndarray:
    np.save(place / "x.npy", x.numpy())
    return np.load(place / "x.npy", mmap_mode="r")


def drawn(imputer: Any) -> Tensor:
    return imputer.impute(X[:5], Listed(MASK, KEYS.expand(5, 3)), range(4)).rows


def test_the_same_imputer_wherever_rows_lie(tmp_path: Path) -> None:
    expected = ms.fit_imputer(X, **FEW)
    labelled = TensorDataset(X, torch.zeros(len(X)))
    for rows in (labelled, DataLoader(labelled, num_workers=1), in_file(tmp_path)):
        found = ms.fit_imputer(rows, **FEW)
        assert found.settings == expected.settings
        assert torch.equal(found.reference, expected.reference)
        assert torch.equal(drawn(found), drawn(expected))


def test_of_many_rows_some_are_kept_and_the_codes_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manifold_shap._stored._MOST_SAMPLED", 40)
    validation = TensorDataset(X[:30])
    more = {**FEW, "bank_size": 270, "temper": 1.0}
    found = ms.fit_imputer(in_file(tmp_path), x_validation=validation, **more)
    assert (len(found.reference), len(found.bank)) == (40, 270)
    # Codes are those of all rows: a bank of the kept ones alone has them but a few times each.
    assert torch.equal(found.reference, X[torch.arange(40) * 300 // 40])
    whole = ms.fit_imputer(X, x_validation=X[:30], **more)
    spread = [drawn(each)[~MASK[:, :, None].expand(-1, -1, 4, -1)].std() for each in (found, whole)]
    assert abs(spread[0] / spread[1] - 1) < 0.5
