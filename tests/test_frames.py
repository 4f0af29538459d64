"""Frames of explanations: every number in a column of its own, and a row for each row."""

from dataclasses import replace

import pytest
import torch

import manifold_shap as ms


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
        phi = found.phi[:, "ab".index(name), ("no", "yes").index(output)]
        assert frame[f"phi_{output}_{name}"].tolist() == phi.tolist()
        assert (frame[f"standard_error_{output}_{name}"] == 0.5).all()
        assert frame[f"model_error_{output}_{name}"].tolist() == (phi + 0.25).tolist()
    assert frame["prediction_yes"].tolist() == found.prediction[:, 1].tolist()
    assert (frame["base_no"] == 0).all()
    alone = ms.wide_frame(explanation(["a"], ["no"]))
    assert list(alone) == ["prediction", "base", "phi_a", "standard_error_a"]


def test_names_that_make_a_column_twice_are_refused() -> None:
    with pytest.raises(ValueError, match=r"distinct .* got \['phi_a_b_c', .*rename some of them"):
        ms.wide_frame(explanation(["b_c", "c"], ["a", "a_b"]))
