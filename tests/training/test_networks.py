"""Networks of classifiers: which rows they take, padding, scales, and tasks that they learn."""

import pytest
import torch
from torch import Tensor

from manifold_shap.training.classifier import ClassifierNetwork

CONV = {"kind": "conv", "hidden": [4, 8], "activation": "relu"}
TRANSFORMER = {"kind": "transformer", "hidden": [32], "activation": "gelu", "patch": None}
TOKENS = {**TRANSFORMER, "vocabulary": 5}
MLP = {"kind": "mlp", "hidden": [8], "activation": "relu", "dropout": 0.0}
PADDED = [
    (CONV, (2, 6), -9.0),
    (TRANSFORMER, (2, 6), -9.0),
    (TOKENS, (6,), 0.0),
]
CASES = [
    *PADDED,
    (MLP, (2, 3), None),
    (CONV, (3, 7, 5), None),
    (CONV, (1, 9), None),
    (TRANSFORMER, (3, 7, 5), None),
]


def rows(event: tuple[int, ...], padding: float | None, count: int = 6) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    if len(event) == 1:
        x = torch.randint(1, 5, (count, *event), generator=generator).float()
    else:
        x = torch.randn((count, *event), generator=generator)
    if padding is not None:
        x[1, ..., 3:] = padding
    return x


def made(settings: dict, event: tuple[int, ...], padding: float | None) -> ClassifierNetwork:
    torch.manual_seed(0)
    network = ClassifierNetwork(settings, event, 3, padding).eval()
    network.standardise(rows(event, padding))
    return network


@pytest.mark.parametrize(("settings", "event", "padding"), CASES)
def test_rows_do_not_depend_on_each_other(
    settings: dict, event: tuple[int, ...], padding: float | None
) -> None:
    network, x = made(settings, event, padding), rows(event, padding)
    together = network(x)
    assert together.shape == (6, 3)
    apart = torch.cat([network(row[None]) for row in x])
    torch.testing.assert_close(together, apart, rtol=1e-4, atol=1e-5)
    assert (together - together.mean(0)).abs().max() > 1e-3
