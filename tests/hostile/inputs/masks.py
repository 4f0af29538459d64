"""Coalitions that are none."""

import numpy as np
import torch

import manifold_shap as ms
from tests.hostile.inputs.table import Input
from tests.hostile.inputs.things import ROWS, given, imputed

MASK = torch.ones(4, 2, 3, dtype=torch.bool)

INPUTS = [
    Input(
        "numbers for truth",
        lambda _: given(MASK.float()),
        TypeError,
        "Expected `mask` to be a bool tensor or array (True = in the coalition) but got torch.float32; compare a number with a threshold, as in `mask > 0`.",
        mark="kept",
    ),
    Input(
        "whole numbers for truth",
        lambda _: given(MASK.int().numpy()),
        TypeError,
        "Expected `mask` to be a bool tensor or array (True = in the coalition) but got int32; compare a number with a threshold, as in `mask > 0`.",
        mark="twin",
    ),
    Input(
        "a nested list",
        lambda _: given(MASK.tolist()),
        TypeError,
        "Expected `mask` to be a bool tensor or array (True = in the coalition) but got list; compare a number with a threshold, as in `mask > 0`.",
        mark="library",
    ),
    Input(
        "None",
        lambda _: given(None),
        TypeError,
        "Expected `mask` to be a bool tensor or array (True = in the coalition) but got NoneType; compare a number with a threshold, as in `mask > 0`.",
        mark="library",
    ),
    Input(
        "text",
        lambda _: given("110"),
        TypeError,
        "Expected `mask` to be a bool tensor or array (True = in the coalition) but got str; compare a number with a threshold, as in `mask > 0`.",
        mark="library",
    ),
    Input(
        "a sparse mask",
        lambda _: given(MASK.to_sparse()),
        TypeError,
        "Expected `mask` to be a dense tensor or array but got a tensor of layout torch.sparse_coo; make it dense by `.to_dense()`.",
        mark="library",
    ),
    Input(
        "a meta mask",
        lambda _: given(MASK.to("meta")),
        TypeError,
        "Expected `mask` to be a dense tensor or array but got a tensor on the meta device, which holds no numbers; load its data first.",
        mark="library",
    ),
    Input(
        "a masked array",
        lambda _: given(np.ma.masked_array(MASK.numpy(), MASK.numpy())),
        TypeError,
        "Expected `mask` to be a dense tensor or array but got a masked array; fill its masked entries by `.filled(...)`.",
        mark="twin",
    ),
    Input(
        "no coalitions",
        lambda _: given(MASK[:, :0]),
        ValueError,
        "Expected `mask` of shape (4, m, 3), m >= 1 coalitions for each row, but got (4, 0, 3); one per row is `mask[:, None]`.",
        mark="kept",
    ),
    Input(
        "one player too few",
        lambda _: given(MASK[..., :2]),
        ValueError,
        "Expected `mask` with 3 players on its last axis but got shape (4, 2, 2); a mask has one entry per player, not per input element.",
        mark="kept",
    ),
    Input(
        "rows of others",
        lambda _: given(MASK[:2]),
        ValueError,
        "Expected `mask` of shape (4, m, 3), m >= 1 coalitions for each row, but got (2, 2, 3); one per row is `mask[:, None]`.",
        mark="kept",
    ),
    Input(
        "no axis of coalitions",
        lambda _: given(MASK[:, 0]),
        ValueError,
        "Expected `mask` of shape (4, m, 3), m >= 1 coalitions for each row, but got (4, 3); one per row is `mask[:, None]`.",
        mark="kept",
    ),
    Input(
        "an axis too many",
        lambda _: given(MASK[None]),
        ValueError,
        "Expected `mask` of shape (4, m, 3), m >= 1 coalitions for each row, but got (1, 4, 2, 3); one per row is `mask[:, None]`.",
        mark="twin",
    ),
    Input(
        "a mask without axes",
        lambda _: given(torch.tensor(True)),
        ValueError,
        "Expected `mask` with 3 players on its last axis but got shape (); a mask has one entry per player, not per input element.",
        mark="twin",
    ),
    Input(
        "a mask of other rows for the MSE",
        lambda _: ms.mean_squared_error(imputed(), ROWS, MASK[:3, 0]),
        ValueError,
        "Expected `mask` of shape (4, m, 3), m >= 1 coalitions for each row, but got (3, 3); one per row is `mask[:, None]`.",
        mark="kept",
    ),
    Input(
        "a mask for leakage",
        lambda _: ms.leakage(imputed(), ROWS, MASK.float()),
        TypeError,
        "Expected `mask` to be a bool tensor or array (True = in the coalition) but got torch.float32; compare a number with a threshold, as in `mask > 0`.",
        mark="kept",
    ),
    Input(
        "keys that are too few",
        lambda _: imputed()(ROWS, MASK, torch.arange(2)),
        ValueError,
        "Expected `keys` to be an int64 tensor of shape (4, 2), one per coalition, but got torch.int64 of shape (2,).",
        mark="kept",
    ),
    Input(
        "keys that are text",
        lambda _: imputed()(ROWS, MASK, "keys"),
        TypeError,
        "Expected `keys` to be an int64 tensor of shape (4, 2), one per coalition, but got 'keys'; without any, all coalitions share one key.",
        mark="library",
    ),
    Input(
        "a law without players",
        lambda _: ms.ShapleyKernel(0),
        ValueError,
        "Expected `players` to be a whole number of at least 2 but got 0.",
        mark="kept",
    ),
    Input(
        "a law of half a player",
        lambda _: ms.ShapleyKernel(2.5),
        TypeError,
        "Expected `players` to be a whole number of at least 2 but got 2.5 (float).",
        mark="twin",
    ),
    Input(
        "log-probability of a mask of others",
        lambda _: ms.SizeUniform(4).log_prob(MASK),
        ValueError,
        "Expected `mask` with 4 players on its last axis but got shape (4, 2, 3); a mask has one entry per player, not per input element.",
        mark="kept",
    ),
    Input(
        "a mixture of nothing",
        lambda _: ms.Mixture([]),
        TypeError,
        "Expected `laws` to be a list of one `CoalitionLaw` or more but got [].",
        mark="library",
    ),
    Input(
        "negative weights of a mixture",
        lambda _: ms.Mixture([ms.SizeUniform(3), ms.ShapleyKernel(3)], [1, -1]),
        ValueError,
        "Expected `weights` to be a finite number above 0 but got -1.",
        mark="kept",
    ),
    Input(
        "NaN weights of a mixture",
        lambda _: ms.Mixture([ms.SizeUniform(3), ms.ShapleyKernel(3)], [1, float("nan")]),
        ValueError,
        "Expected `weights` to be a finite number above 0 but got nan.",
        mark="twin",
    ),
]
