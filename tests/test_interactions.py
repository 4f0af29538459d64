"""The result object of interactions."""

import torch

import manifold_shap as ms
from manifold_shap.simplex import geometry
from tests.examples import VALUES, Ragged, table, uniform


def test_a_frame_has_every_pair_once() -> None:
    found = ms.shapley_interactions(table(4), uniform(7, 4), index="k-SII")
    frame = found.to_frame()
    assert len(frame) == 7 * 10 * 2
    line = frame.query("instance == 3 and player == 'x1' and other == 'x2' and output == '1'")
    assert float(line["value"].iloc[0]) == float(found.values[3, 1, 2, 1])
    sums = frame.groupby(["instance", "output"])["value"].sum().to_numpy().reshape(7, 2)
    change = found.shapley.prediction - found.shapley.base
    torch.testing.assert_close(torch.tensor(sums), change, atol=1e-5, rtol=1e-5)


def test_a_frame_leaves_out_players_that_a_row_lacks() -> None:
    frame = ms.shapley_interactions(Ragged(), Ragged.some_rows()).to_frame()
    assert frame.groupby("instance").size().tolist() == [12, 2, 20, 12, 6]
    assert not frame["value"].isna().any()


def test_log_ratios_are_compositions() -> None:
    made = VALUES["surrogate of log-ratios"]()
    found = ms.shapley_interactions(made.value, made.x, index="k-SII")
    parts = found.compositions()
    assert parts.shape == (3, 4, 4, 3)
    torch.testing.assert_close(parts.sum(-1), torch.ones(3, 4, 4))
    total = geometry.ilr_inv(found.shapley.base, found.shapley.basis)
    for i in range(4):
        for j in range(i, 4):
            total = geometry.perturb(total, parts[:, i, j].log())
    expected = geometry.ilr_inv(found.shapley.prediction, found.shapley.basis)
    torch.testing.assert_close(total, expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(found.norms(), found.values.square().sum(-1).sqrt())
    assert found.projections().shape == (3, 4, 4, 3)
    torch.testing.assert_close(found.projections().sum(-1), torch.zeros(3, 4, 4), atol=1e-5, rtol=0)
