"""Outputs of an amortised explainer can be chosen wherever rows are explained."""

from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch

import manifold_shap as ms


def three_classes(x: torch.Tensor) -> torch.Tensor:
    return x.softmax(-1)


def test_outputs_of_an_amortised_explainer_are_chosen_at_any_door(tmp_path: Path) -> None:
    x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    few: dict[str, Any] = {
        "max_epochs": 1,
        "trainer": {"accelerator": "cpu", "limit_train_batches": 5},
    }
    value = ms.fit_surrogate(three_classes, x, hidden=[8, 8], **few)
    fast = partial(ms.amortized_shapley, explainer=ms.fit_amortized(value, x, hidden=[8], **few))
    whole = fast(value, x[:4])
    one = fast(value.select(["2", "0"]), x[:4], outputs=["0"])
    assert one.outputs == ("0",)
    assert torch.equal(one.phi[..., 0], whole.phi[..., 0])
    ms.explain_rows(tmp_path / "rows.zarr", value, x[:4], fast, outputs=["2"])
    stored = ms.Explanation.load(tmp_path / "rows.zarr")
    assert stored.outputs == ("2",)
    assert torch.equal(stored.phi[..., 0], whole.phi[..., 2])
    explain_frame = ms.FrameExplainer(tmp_path / "value.ckpt", value, fast, outputs=["1"])
    frame = explain_frame(pd.DataFrame(x[:4].numpy(), columns=list(value.players.names)))
    assert torch.equal(torch.tensor(frame["phi_x1"].to_numpy()).float(), whole.phi[:, 1, 1])
