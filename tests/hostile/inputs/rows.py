"""Rows that are none, or hold what is no number."""

import numpy as np
import torch

import manifold_shap as ms
from tests.hostile.inputs.table import Input
from tests.hostile.inputs.things import NAMES, ROWS, explained, imputed, model

ARRAY = ROWS.numpy()


class Overriding:
    """Answers every function of torch with itself."""

    @classmethod
    def __torch_function__(cls, *_: object, **__: object) -> "Overriding":
        return cls()


def loop() -> list:
    """A list that contains itself."""
    rows: list = [[1.0, 2.0]]
    rows.append(rows)
    return rows


INPUTS = [
    Input(
        "a complex tensor",
        lambda _: explained(ROWS + 1j),
        TypeError,
        "Expected `x` to be a tensor or an array of numbers but got a tensor of torch.complex64; take its real part.",
        mark="kept",
    ),
    Input(
        "a complex array",
        lambda _: explained(ARRAY + 1j),
        TypeError,
        "Expected `x` to be a tensor or an array of numbers but got an array of complex64; take its real part.",
        mark="twin",
    ),
    Input(
        "a meta tensor",
        lambda _: explained(ROWS.to("meta")),
        TypeError,
        "Expected `x` to be a dense tensor or array but got a tensor on the meta device, which holds no numbers; load its data first.",
        mark="library",
    ),
    Input(
        "a sparse tensor",
        lambda _: explained(ROWS.to_sparse()),
        TypeError,
        "Expected `x` to be a dense tensor or array but got a tensor of layout torch.sparse_coo; make it dense by `.to_dense()`.",
        mark="library",
    ),
    Input(
        "a nested tensor",
        lambda _: explained(
            torch.nested.as_nested_tensor([ROWS[0], ROWS[1, :2]], layout=torch.jagged)
        ),
        TypeError,
        "Expected `x` to be a dense tensor or array but got a tensor of layout torch.jagged; make it dense by `.to_dense()`.",
        slow=True,
        mark="library",
    ),
    Input(
        "a masked array",
        lambda _: explained(np.ma.masked_array(ARRAY, ARRAY > 1)),
        TypeError,
        "Expected `x` to be a dense tensor or array but got a masked array; fill its masked entries by `.filled(...)`.",
        mark="kept",
    ),
    Input(
        "1e300",
        lambda _: explained(np.full((2, 3), 1e300)),
        ValueError,
        "Expected numbers in `x` that fit float32 (at most 3.4e38) but 1e+300 does not fit float32, the first of 6 at [0, 0]; correct it, or change the unit.",
        mark="kept",
    ),
    Input(
        "huge whole numbers in a list",
        lambda _: explained([[10**400, 1]]),
        TypeError,
        "Expected `x` to be a tensor, an array, a list of rows or a data frame of numbers but got a list of other things; of ... such a table as it is and, step by step, `ms.Codebook.fit(frame)` makes rows of it.",
        mark="library",
    ),
    Input(
        "NaN",
        lambda _: explained(ROWS.masked_fill(ROWS == 3, torch.nan)),
        ValueError,
        "Expected finite numbers but 1 of 12 entries of `x` are NaN or infinite, the first in row 1, element 1 (nan); impute or drop these rows first.",
        mark="kept",
    ),
    Input(
        "infinity",
        lambda _: explained(ROWS / 0),
        ValueError,
        "Expected finite numbers but 12 of 12 entries of `x` are NaN or infinite, the first in row 0, element 0 (inf); impute or drop these rows first.",
        mark="twin",
    ),
    Input(
        "an array of objects",
        lambda _: explained(ARRAY.astype(object)),
        TypeError,
        "Expected `x` to be a tensor or an array of numbers but got an array of object; convert it by `numpy.asarray(rows, dtype='float32')`.",
        mark="library",
    ),
    Input(
        "an array of text",
        lambda _: explained(ARRAY.astype(str)),
        TypeError,
        "Expected `x` to be a tensor or an array of numbers but got an array of <U32; convert it by `numpy.asarray(rows, dtype='float32')`.",
        mark="library",
    ),
    Input(
        "an array of dates",
        lambda _: explained(np.array([["2024-01-01", "2024-01-02"]], "M8[D]")),
        TypeError,
        "Expected `x` to be a tensor or an array of numbers but got an array of datetime64[D]; convert it by `numpy.asarray(rows, dtype='float32')`.",
        mark="library",
    ),
    Input(
        "a structured array",
        lambda _: explained(np.zeros(2, dtype=[("a", "f4"), ("b", "f4")])),
        TypeError,
        "Expected `x` to be a tensor or an array of numbers but got an array of [('a', '<f4'), ('b', '<f4')]; convert it by `numpy.asarray(rows, dtype='float32')`.",
        mark="library",
    ),
    Input(
        "None",
        lambda _: explained(None),
        TypeError,
        "Expected `x` to be a tensor, an array, a list of rows or a data frame of numbers but got NoneType; of other tables, ... such a table as it is and, step by step, `ms.Codebook.fit(frame)` makes rows of it.",
        mark="library",
    ),
    Input(
        "a path",
        lambda _: explained("rows.csv"),
        TypeError,
        "Expected `x` to be a tensor, an array, a list of rows or a data frame of numbers but got str; read the file first, as by `pandas.read_csv(path)`.",
        mark="kept",
    ),
    Input(
        "bytes",
        lambda _: explained(b"\x00\x01"),
        TypeError,
        "Expected `x` to be a tensor, an array, a list of rows or a data frame of numbers but got bytes; of other tables, ... such a table as it is and, step by step, `ms.Codebook.fit(frame)` makes rows of it.",
        mark="library",
    ),
    Input(
        "a generator",
        lambda _: explained(row for row in ARRAY),
        TypeError,
        "Expected `x` to be a tensor, an array, a list of rows or a data frame of numbers but got generator; of other tables, ... such a table as it is and, step by step, `ms.Codebook.fit(frame)` makes rows of it.",
        mark="library",
    ),
    Input(
        "a set",
        lambda _: explained({1.0, 2.0}),
        TypeError,
        "Expected `x` to be a tensor, an array, a list of rows or a data frame of numbers but got set; of other tables, ... such a table as it is and, step by step, `ms.Codebook.fit(frame)` makes rows of it.",
        mark="library",
    ),
    Input(
        "a dict",
        lambda _: explained({"a": [1.0]}),
        TypeError,
        "Expected `x` to be a tensor, an array, a list of rows or a data frame of numbers but got dict; `pandas.DataFrame(columns)` makes a frame of columns by name.",
        mark="library",
    ),
    Input(
        "a module",
        lambda _: explained(np),
        TypeError,
        "Expected `x` to be a tensor, an array, a list of rows or a data frame of numbers but got module; of other tables, ... such a table as it is and, step by step, `ms.Codebook.fit(frame)` makes rows of it.",
        mark="library",
    ),
    Input(
        "a class",
        lambda _: explained(torch.Tensor),
        TypeError,
        "Expected `x` to be a tensor, an array, a list of rows or a data frame of numbers but got _TensorMeta; a model comes first, then the rows, as in `ms.Explainer(model, frame)`.",
        mark="library",
    ),
    Input(
        "an object with __torch_function__",
        lambda _: explained(Overriding()),
        TypeError,
        "Expected `x` to be a tensor, an array, a list of rows or a data frame of numbers but got Overriding; of other tables, ... such a table as it is and, step by step, `ms.Codebook.fit(frame)` makes rows of it.",
        mark="library",
    ),
    Input(
        "a number",
        lambda _: explained(3.0),
        TypeError,
        "Expected `x` to be a tensor, an array, a list of rows or a data frame of numbers but got float; of other tables, ... such a table as it is and, step by step, `ms.Codebook.fit(frame)` makes rows of it.",
        mark="library",
    ),
    Input(
        "a tensor without axes",
        lambda _: explained(torch.tensor(3.0)),
        ValueError,
        "Expected `x` of shape (rows, *event) but got (); pass rows of the shape that `players` own, and one row as `x[:1]`.",
        mark="library",
    ),
    Input(
        "one row without its axis",
        lambda _: ms.exact_shapley(imputed(), ROWS[0]),
        ValueError,
        "Expected `x` of shape (rows, 3) but got (3,); pass rows of the shape that `players` own, and one row as `x[:1]`.",
        mark="kept",
    ),
    Input(
        "no rows",
        lambda _: explained(ROWS[:0]),
        ValueError,
        "Expected at least one row in `x` but got none; pass some rows.",
        mark="kept",
    ),
    Input(
        "rows without elements",
        lambda _: explained(torch.zeros(2, 0)),
        ValueError,
        "Expected at least one player but got none; give rows an element.",
        mark="twin",
    ),
    Input(
        "no rows for a value function",
        lambda _: ms.exact_shapley(imputed(), ROWS[:0]),
        ValueError,
        "Expected at least one row in `x` but got none; pass some rows.",
        mark="twin",
    ),
    Input(
        "ragged lists",
        lambda _: explained([[1.0, 2.0], [1.0]]),
        ValueError,
        "Expected the rows in `x` to have one shape but got a list of unequal ones (setting an array element with a sequence. ... shape was (2,) + inhomogeneous part.); give each row as many numbers as the others.",
        mark="library",
    ),
    Input(
        "a list that contains itself",
        lambda _: explained(loop()),
        ValueError,
        "Expected the rows in `x` to have one shape but got a list of unequal ones (setting an array element with a sequence. ... shape was (2, 2) + inhomogeneous part.); give each row as many numbers as the others.",
        mark="library",
    ),
    Input(
        "an empty list",
        lambda _: explained([]),
        ValueError,
        "Expected `x` of shape (rows, *event) but got (0,); pass rows of the shape that `players` own, and one row as `x[:1]`.",
        mark="twin",
    ),
    Input(
        "a list of text",
        lambda _: explained([["1", "2"]]),
        TypeError,
        "Expected `x` to be a tensor, an array, a list of rows or a data frame of numbers but got a list of other things; of ... such a table as it is and, step by step, `ms.Codebook.fit(frame)` makes rows of it.",
        mark="library",
    ),
    Input(
        "a list of None",
        lambda _: explained([[None, 1.0]]),
        TypeError,
        "Expected `x` to be a tensor, an array, a list of rows or a data frame of numbers but got a list of other things; of ... such a table as it is and, step by step, `ms.Codebook.fit(frame)` makes rows of it.",
        mark="library",
    ),
    Input(
        "a column too many",
        lambda _: ms.exact_shapley(imputed(), torch.zeros(2, 4)),
        ValueError,
        "Expected `x` of shape (rows, 3) but got (2, 4); pass rows of the shape that `players` own, and one row as `x[:1]`.",
        mark="kept",
    ),
    Input(
        "an axis too many",
        lambda _: ms.exact_shapley(imputed(), torch.zeros(2, 3, 1)),
        ValueError,
        "Expected `x` of shape (rows, 3) but got (2, 3, 1); pass rows of the shape that `players` own, and one row as `x[:1]`.",
        mark="twin",
    ),
    Input(
        "no rows to impute from",
        lambda _: ms.MarginalImputer(ROWS[:0]),
        ValueError,
        "Expected at least one row in `reference` but got none; pass some rows.",
        mark="kept",
    ),
    Input(
        "NaN to impute from",
        lambda _: ms.GaussianImputer(ROWS * torch.nan),
        ValueError,
        "Expected finite numbers but 12 of 12 entries of `reference` are NaN or infinite, the first in row 0, element 0 (nan); impute or drop these rows first.",
        mark="kept",
    ),
    Input(
        "one row for a covariance",
        lambda _: ms.GaussianImputer(ROWS[:1]),
        ValueError,
        "Expected at least two rows in `reference`, to estimate their covariance, but got 1; pass more of the training data.",
        mark="kept",
    ),
    Input(
        "training rows that are NaN",
        lambda _: ms.fit_surrogate(model, ROWS * torch.nan),
        ValueError,
        "Expected finite numbers but 12 of 12 entries of `x_train` are NaN or infinite, the first in row 0, element 0 (nan); impute or drop these rows first.",
        mark="kept",
    ),
    Input(
        "one training row",
        lambda _: ms.fit_surrogate(model, ROWS[:1]),
        ValueError,
        "Expected at least 2 training rows but got 1; one of them is held out for validation.",
        mark="kept",
    ),
    Input(
        "two names for three columns",
        lambda _: ms.Players.of_elements((3,), NAMES[:2]),
        ValueError,
        "Expected 3 names, one per element of shape (3,), but got 2; name every element, or leave `names` out.",
        mark="kept",
    ),
    Input(
        "a name twice",
        lambda _: ms.Players(["a", "a"], [0, 1]),
        ValueError,
        "Expected distinct names of players but got ['a'] more than once; number them, or let one player own their elements.",
        mark="kept",
    ),
    Input(
        "text for the rows of a value function",
        lambda _: imputed()("rows", torch.zeros(1, 1, 3, dtype=torch.bool)),
        TypeError,
        "Expected `x` to be a tensor, an array, a list of rows or a data frame of numbers but got str; read the file first, as by `pandas.read_csv(path)`.",
        mark="twin",
    ),
    Input(
        "17 players for enumeration",
        lambda _: explained(torch.zeros(1, 17)),
        ValueError,
        "Expected at most 16 players for exact enumeration (2^n coalitions per row) but got 17; use `coalition_shapley`, or `permutation_shapley` with an ordering, or group features into fewer players.",
        mark="kept",
    ),
    Input(
        "100,000 players for enumeration",
        lambda _: explained(torch.zeros(1, 10**5)),
        ValueError,
        "Expected at most 16 players for exact enumeration (2^n coalitions per row) but got 100000; use `coalition_shapley`, or `permutation_shapley` with an ordering, or group features into fewer players.",
        slow=True,
        mark="twin",
    ),
]
