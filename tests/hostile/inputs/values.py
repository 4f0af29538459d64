"""Models, callables and value functions that do not do what one does."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

import manifold_shap as ms
from tests.hostile.inputs.table import Input
from tests.hostile.inputs.things import ROWS, codebook, explained, frame, model, value

MARGINAL = ms.MarginalImputer(ROWS)


def asked(answer: Any, **settings: Any) -> object:
    """Explains a model that answers so."""
    return ms.exact_shapley(ms.imputed_value(answer, MARGINAL, draws=2, **settings), ROWS)


def game(answer: Any) -> object:
    """Explains a callable that answers so."""
    return ms.exact_shapley(answer, ROWS)


class Broken(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        raise KeyError("weights")


class NotFitted:
    classes_ = np.array([0, 1])

    def predict_proba(self, x: Any) -> Any:
        raise AttributeError("not fitted")


def counting() -> Any:
    """A model that gives other numbers at every call."""
    generator = torch.Generator().manual_seed(0)
    return lambda x: torch.rand(len(x), 2, generator=generator).softmax(-1)


INPUTS = [
    Input(
        "a model that is None",
        lambda _: asked(None),
        TypeError,
        "Expected `model` to be a torch module, ... but got None.",
        mark="library",
    ),
    Input(
        "a model that is a number",
        lambda _: asked(3),
        TypeError,
        "Expected `model` to be a torch module, ... but got 3.",
        mark="library",
    ),
    Input(
        "a model that is text",
        lambda _: asked("best"),
        ValueError,
        "Expected a model file that ends in one of ['.onnx', '.skops', '.ubj', '.json', '.txt', '.cbm'] but got 'best'.",
        mark="twin",
    ),
    Input(
        "a class in the place of a model",
        lambda _: asked(Broken),
        TypeError,
        "Expected `model` to be a torch module, ... but got <class 'tests.hostile.inputs.values.Broken'>, a class; pass an instance of it: `Broken(...)`.",
        mark="kept",
    ),
    Input(
        "a model that fails",
        lambda _: asked(Broken()),
        RuntimeError,
        "Expected the model to take a tensor of 4 rows but Broken failed with KeyError: 'weights'",
        mark="kept",
    ),
    Input(
        "an estimator that is not fitted",
        lambda _: asked(NotFitted()),
        RuntimeError,
        "Expected the model to take a tensor of 4 rows but NotFitted failed with AttributeError: not fitted",
        mark="twin",
    ),
    Input(
        "a model that returns None",
        lambda _: asked(lambda x: None),
        TypeError,
        "Expected the model to return a tensor or an array of numbers but got NoneType.",
        mark="kept",
    ),
    Input(
        "a model that returns text",
        lambda _: asked(lambda x: np.array(["a"] * len(x))),
        TypeError,
        "Expected the model to return a tensor or an array of numbers but got an array of <U1; names of classes are no numbers, `predict_proba` is.",
        mark="kept",
    ),
    Input(
        "a model that returns a list",
        lambda _: asked(lambda x: [0.5] * len(x)),
        TypeError,
        "Expected the model to return a tensor or an array of numbers but got list; make it an array ... with returns='values'.",
        mark="library",
    ),
    Input(
        "a model that returns a tuple",
        lambda _: asked(lambda x: (model(x), None)),
        TypeError,
        "Expected the model to return a tensor or an array of numbers but got tuple; pass the part that is meant: `lambda rows: model(rows)[0]`.",
        mark="kept",
    ),
    Input(
        "a model that returns complex numbers",
        lambda _: asked(lambda x: model(x) + 1j),
        TypeError,
        "Expected the model to return a tensor or an array of numbers but got complex numbers.",
        mark="library",
    ),
    Input(
        "a model that returns a sparse tensor",
        lambda _: asked(lambda x: model(x).to_sparse()),
        TypeError,
        "Expected what the model returns to be a dense tensor or array but got a tensor of layout torch.sparse_coo; make it dense by `.to_dense()`.",
        mark="library",
    ),
    Input(
        "a model that returns a meta tensor",
        lambda _: asked(lambda x: model(x).to("meta")),
        TypeError,
        "Expected what the model returns to be a dense tensor or array but got a tensor on the meta device, which holds no numbers; load its data first.",
        slow=True,
        mark="library",
    ),
    Input(
        "a model that returns NaN",
        lambda _: asked(lambda x: model(x) * torch.nan),
        ValueError,
        "Expected finite numbers but 8 of 8 entries of `model(x)` are NaN or infinite, the first in row 0, element 0 (nan); look for an overflow or a logarithm of zero in the model.",
        mark="kept",
    ),
    Input(
        "a model that returns infinity",
        lambda _: asked(lambda x: model(x) / 0),
        ValueError,
        "Expected finite numbers but 8 of 8 entries of `model(x)` are NaN or infinite, the first in row 0, element 0 (inf); look for an overflow or a logarithm of zero in the model.",
        mark="twin",
    ),
    Input(
        "a model that returns one row",
        lambda _: asked(lambda x: model(x)[:1]),
        ValueError,
        "Expected a row of outputs for each of 4 rows but the function '<lambda>' returned shape (1, 2); it must not drop or join rows.",
        mark="kept",
    ),
    Input(
        "a model that returns no outputs",
        lambda _: asked(lambda x: model(x)[:, :0]),
        ValueError,
        "Expected the model to return a column for every class, of shape (4, classes) for 4 rows but got (4, 0); for a ... of two classes return both columns, as by `numpy.column_stack((1 - p, p))`.",
        mark="twin",
    ),
    Input(
        "a model that returns three axes",
        lambda _: asked(lambda x: model(x)[..., None]),
        ValueError,
        "Expected the model to return a row of outputs for each of 4 rows but got shape (4, 2, 1); ... `lambda x: model(x).flatten(1)`.",
        mark="kept",
    ),
    Input(
        "a model of other columns",
        lambda _: asked(lambda x: x @ torch.ones(5, 2)),
        RuntimeError,
        "Expected the model to take a tensor of 4 rows but the function '<lambda>' failed with RuntimeError: ...mat1 and mat2 shapes cannot be multiplied (4x3 and 5x2)",
        mark="twin",
    ),
    Input(
        "a model whose outputs grow with the rows",
        lambda _: asked(lambda x: torch.ones(len(x), len(x)) / len(x)),
        ValueError,
        "Expected 4 columns, one per name in `classes`, but the model returned 1; it must return as many for any rows.",
        mark="kept",
    ),
    Input(
        "a model that is random",
        lambda _: asked(counting()),
        UserWarning,
        "The model gives other outputs when it is called again on the same rows (by up to ...), which no standard error of Shapley values counts. Switch its dropout or sampling off, or fix its seed in every call.",
        mark="kept",
    ),
    Input(
        "names of three classes for two",
        lambda _: ms.as_model(model, ROWS, classes=["a", "b", "c"]),
        ValueError,
        "Expected 3 columns, one per name in `classes`, but the model returned 2; it must return as many for any rows.",
        mark="kept",
    ),
    Input(
        "a class twice",
        lambda _: ms.as_model(model, ROWS, classes=["a", "a"]),
        ValueError,
        "Expected distinct `classes` but got ['a'] more than once; give each output a name of its own.",
        mark="kept",
    ),
    Input(
        "a model that returns an unknown scale",
        lambda _: ms.as_model(model, ROWS, returns="percent"),
        ValueError,
        "Expected `returns` to be one of ['logits', 'probabilities', 'log_probabilities', 'values'] but got 'percent'.",
        mark="kept",
    ),
    Input(
        "probabilities that are negative",
        lambda _: ms.as_model(lambda x: -model(x), ROWS, returns="probabilities"),
        ValueError,
        "Expected the model to return a distribution over the classes (no negative entry, rows that sum to one within ...) but ... return logits (returns='logits'). Of several labels at once, and of a regression, ... with output='identity'.",
        mark="kept",
    ),
    Input(
        "probabilities in per cent",
        lambda _: ms.as_model(lambda x: 100 * model(x), ROWS, returns="probabilities"),
        ValueError,
        "Expected the model to return a distribution over the classes (no negative entry, rows that sum to one within ...) but ... return logits (returns='logits'). Of several labels at once, and of a regression, ... with output='identity'.",
        mark="kept",
    ),
    Input(
        "a batch size of the model of 0",
        lambda _: ms.as_model(model, ROWS, batch_size=0),
        ValueError,
        "Expected `batch_size` to be a whole number of at least 1 but got 0.",
        mark="twin",
    ),
    Input(
        "log-odds of three classes",
        lambda _: asked(lambda x: x.softmax(-1), output="log_odds"),
        ValueError,
        "Expected two classes for output='log_odds' but got 3; use output='ilr', which is the log-ratio space of any number of classes.",
        mark="kept",
    ),
    Input(
        "a callable that returns None",
        lambda _: game(lambda x, mask: None),
        TypeError,
        "Expected the value function to return a tensor or an array of numbers but got NoneType.",
        mark="library",
    ),
    Input(
        "a callable of one argument",
        lambda _: game(lambda x: x),
        TypeError,
        "Expected a value function, or a callable from rows and a mask to values, but <function <lambda>.<locals>.<lambda> at ... imputer)` and `ms.fit_surrogate(model, x)` make one; that of an explainer is `explainer.value`. It comes first, then the rows.",
        mark="twin",
    ),
    Input(
        "a callable that returns NaN",
        lambda _: game(lambda x, mask: value(x, mask) * torch.nan),
        ValueError,
        "Expected finite values but the value function gave NaN or infinite ones for 4 rows, the first of them row 0 of `x`; look for an overflow or a logarithm of zero in it.",
        mark="kept",
    ),
    Input(
        "a callable that returns complex numbers",
        lambda _: game(lambda x, mask: value(x, mask) + 1j),
        TypeError,
        "Expected the value function to return a tensor or an array of numbers but got complex numbers.",
        mark="library",
    ),
    Input(
        "a callable that returns another shape",
        lambda _: game(lambda x, mask: value(x, mask)[:, :1]),
        ValueError,
        "Expected the value function to return shape (1, 3, outputs) for 1 rows with 3 coalitions each but got (1, 1, 1); a single output is `values[..., None]`.",
        mark="kept",
    ),
    Input(
        "a callable that returns no outputs",
        lambda _: game(lambda x, mask: value(x, mask)[..., :0]),
        ValueError,
        "Expected the value function to return shape (1, 3, outputs) for 1 rows with 3 coalitions each but got (1, 3, 0); a single output is `values[..., None]`.",
        mark="twin",
    ),
    Input(
        "a callable that returns 1e39 as float64",
        lambda _: game(lambda x, mask: value(x, mask).double() * 1e200 * 1e200),
        ValueError,
        "Expected finite values but the value function gave NaN or infinite ones for 4 rows, the first of them row 0 of `x`; look for an overflow or a logarithm of zero in it.",
        mark="twin",
    ),
    Input(
        "a value function that is None",
        lambda _: game(None),
        TypeError,
        "Expected a value function, or a callable from rows and a mask to values, but NoneType cannot be called; of a model, `ms.imputed_value(model, imputer)` and `ms.fit_surrogate(model, x)` make one; that of an explainer is `explainer.value`. It comes first, then the rows.",
        mark="library",
    ),
    Input(
        "a value function that is text",
        lambda _: game("sum"),
        TypeError,
        "Expected a value function, or a callable from rows and a mask to values, but str cannot be called; of a model, `ms.imputed_value(model, imputer)` and `ms.fit_surrogate(model, x)` make one; that of an explainer is `explainer.value`. It comes first, then the rows.",
        mark="library",
    ),
    Input(
        "a model in the place of a value function",
        lambda _: game(torch.nn.Linear(3, 2)),
        TypeError,
        "Expected a value function, or a callable from rows and a mask to values, but Linear(in_features=3, out_features=2, ... imputer)` and `ms.fit_surrogate(model, x)` make one; that of an explainer is `explainer.value`. It comes first, then the rows.",
        mark="kept",
    ),
    Input(
        "rows in the place of a value function",
        lambda _: ms.exact_shapley(ROWS, value),
        TypeError,
        "Expected a value function, or a callable from rows and a mask to values, but Tensor cannot be called; of a model, `ms.imputed_value(model, imputer)` and `ms.fit_surrogate(model, x)` make one; that of an explainer is `explainer.value`. It comes first, then the rows.",
        mark="library",
    ),
    Input(
        "an imputer in the place of a value function",
        lambda _: game(MARGINAL),
        TypeError,
        "Expected a value function, or a callable from rows and a mask to values, but MarginalImputer cannot be called; of a ... imputer)` and `ms.fit_surrogate(model, x)` make one; that of an explainer is `explainer.value`. It comes first, then the rows.",
        mark="library",
    ),
    Input(
        "a model in the place of an imputer",
        lambda _: ms.imputed_value(MARGINAL, model),
        TypeError,
        "Expected `imputer` to be an imputer but got function; the model comes first, then for example `ms.MarginalImputer(x)`.",
        mark="kept",
    ),
    Input(
        "the class of an imputer",
        lambda _: ms.imputed_value(model, ms.MarginalImputer),
        TypeError,
        "Expected `imputer` to be an imputer but got ABCMeta; the model comes first, then for example `ms.MarginalImputer(x)`.",
        mark="twin",
    ),
    Input(
        "an imputer of other columns",
        lambda _: ms.imputed_value(model, ms.MarginalImputer(torch.zeros(3, 5))),
        RuntimeError,
        "Expected the model to take a tensor of 3 rows but the function 'model' failed with RuntimeError: ...mat1 and mat2 ... as whole numbers, `x.long()`, or let the model make them: `lambda x: model(x.long())`",
        mark="twin",
    ),
    Input(
        "no player",
        lambda _: ms.Players([], []),
        ValueError,
        "Expected at least one player but got none; give rows an element.",
        mark="kept",
    ),
    Input(
        "no player for estimation",
        lambda _: ms.permutation_shapley(value, torch.zeros(2, 0), permutations=2),
        ValueError,
        "Expected at least one player but got none; give rows an element.",
        mark="twin",
    ),
    Input(
        "players that skip a number",
        lambda _: ms.Players(["a", "b"], [0, 2]),
        ValueError,
        "Expected `index` to hold every integer from 0 to 1, one per name in `names`, but got [0, 2] for 2 names.",
        mark="kept",
    ),
    Input(
        "negative numbers of players",
        lambda _: ms.Players(["a", "b"], [0, -1]),
        ValueError,
        "Expected `index` to hold every integer from 0 to 1, one per name in `names`, but got [-1, 0] for 2 names.",
        mark="twin",
    ),
    Input(
        "numbers of players that are floats",
        lambda _: ms.Players(["a", "b"], [0.0, 1.5]),
        ValueError,
        "Expected `index` to hold every integer from 0 to 1, one per name in `names`, but got [0.0, 1.5] for 2 names.",
        mark="twin",
    ),
    Input(
        "numbers of players that are text",
        lambda _: ms.Players(["a", "b"], ["a", "b"]),
        TypeError,
        "Expected `index` to be a tensor, an array or a nested list of whole numbers but got ['a', 'b']; it says by number whose each element is, as in [0, 1, 1].",
        mark="library",
    ),
    Input(
        "players of a shape of text",
        lambda _: ms.Players.of_elements("3"),
        TypeError,
        "Expected `event` to be a shape, such as (4,), but got '3'.",
        mark="library",
    ),
    Input(
        "players of a negative shape",
        lambda _: ms.Players.of_elements((-3,)),
        ValueError,
        "Expected `event` to be a whole number of at least 0 but got -3; it is the shape of one row.",
        mark="library",
    ),
    Input(
        "patches of size 0",
        lambda _: ms.Players.patches((1, 8, 8), 0),
        ValueError,
        "Expected `size` to be a whole number of at least 1 but got 0.",
        mark="kept",
    ),
    Input(
        "patches of half a pixel",
        lambda _: ms.Players.patches((1, 8, 8), 0.5),
        TypeError,
        "Expected `size` to be a whole number of at least 1 but got 0.5 (float).",
        mark="library",
    ),
    Input(
        "pixels of a table",
        lambda _: ms.Players.pixels((8,)),
        TypeError,
        "Expected `event` to be the shape of a picture, such as (3, 32, 32) or (28, 28), but got (8,).",
        mark="kept",
    ),
    Input(
        "padding of text",
        lambda _: ms.Players.tokens(4, padding="x"),
        TypeError,
        "Expected `padding` to be a finite number but got 'x' (str).",
        mark="library",
    ),
    Input(
        "a group of unknown columns",
        lambda _: imputed_groups({"all": ["nosuch"]}),
        ValueError,
        "Expected players in `groups` among ['x0', 'x1', 'x2'] but got ['nosuch'].",
        mark="kept",
    ),
    Input(
        "a player in two groups",
        lambda _: imputed_groups({"a": ["x0"], "b": ["x0", "x1"]}),
        ValueError,
        "Expected distinct players in `groups` but got ['x0'] more than once; put each of them into one group.",
        mark="kept",
    ),
    Input(
        "an empty group",
        lambda _: imputed_groups({"a": []}),
        ValueError,
        "Expected players in every group of `groups` but ['a'] are empty, or hold constant columns alone.",
        mark="kept",
    ),
    Input(
        "a group named like a player",
        lambda _: imputed_groups({"x2": ["x0", "x1"]}),
        ValueError,
        "Expected distinct names of players but got ['x2'] more than once; number them, or let one player own their elements.",
        mark="kept",
    ),
    Input(
        "groups as text",
        lambda _: imputed_groups("x0"),
        TypeError,
        "Expected `groups` to be a dictionary of names, a label map, `Players` or a callable from rows to label maps but got str.",
        mark="library",
    ),
    Input(
        "groups as a number",
        lambda _: imputed_groups(3),
        TypeError,
        "Expected `groups` to be a dictionary of names, a label map, `Players` or a callable from rows to label maps but got int.",
        mark="library",
    ),
    Input(
        "a group that is text",
        lambda _: imputed_groups({"a": "x0"}),
        TypeError,
        "Expected the names of the players in group 'a' as a list but got 'x0'; a single player is ['x0'].",
        mark="kept",
    ),
    Input(
        "groups by labels that skip",
        lambda _: imputed_groups([0, 2, 2]),
        ValueError,
        "Expected labels 0, 1, ... without a gap but got [0, 2].",
        mark="kept",
    ),
    Input(
        "groups by labels that are NaN",
        lambda _: imputed_groups([0, float("nan"), 1]),
        ValueError,
        "Expected a label map of whole numbers, one for each of 3 players or of shape (3,), but got torch.float32 for 3; maps that differ from row to row are `label_maps(x, labels)`, with a `count`.",
        mark="twin",
    ),
    Input(
        "groups by too few labels",
        lambda _: imputed_groups([0, 1]),
        ValueError,
        "Expected a label map of whole numbers, one for each of 3 players or of shape (3,), but got torch.int64 for 2; maps that differ from row to row are `label_maps(x, labels)`, with a `count`.",
        mark="kept",
    ),
    Input(
        "groups by row of another shape",
        lambda _: explained_groups(lambda x: torch.zeros(2, 2, dtype=torch.long)),
        ValueError,
        "Expected label maps of whole numbers of shape (4, 3), one for each row, but got torch.int64 of shape (2, 2).",
        mark="kept",
    ),
    Input(
        "groups by row that are text",
        lambda _: explained_groups(lambda x: "a"),
        TypeError,
        "Expected `groups(x)` to be a tensor, an array or a nested list of whole numbers but got 'a'; it says by number whose each element is, as in [0, 1, 1].",
        mark="library",
    ),
    Input(
        "groups by row of -5",
        lambda _: explained_groups(lambda x: torch.full(x.shape, -5)),
        ValueError,
        "Expected the labels of each row to be 0, 1, ... without a gap but row 0 has [-5].",
        mark="twin",
    ),
    Input(
        "an ordering of text",
        lambda _: explained(ROWS, ordering="abc"),
        TypeError,
        "Expected `ordering` to be a list of lists of names, as in [['a', 'b'], ['c']], or the causes of each player, as in {'c': ['a', 'b']}, but got 'abc'.",
        mark="library",
    ),
    Input(
        "an ordering of unknown players",
        lambda _: explained(ROWS, ordering=[["x0", "x9"]]),
        ValueError,
        "Expected players in `ordering` among ['x0', 'x1', 'x2'] but got ['x9'].",
        mark="kept",
    ),
    Input(
        "an ordering that leaves players out",
        lambda _: explained(ROWS, ordering=[["x0"]]),
        ValueError,
        "Expected `ordering` to name every player but it leaves out ['x1', 'x2']; players without an order among them share a component.",
        mark="kept",
    ),
    Input(
        "an ordering with an empty component",
        lambda _: explained(ROWS, ordering=[["x0", "x1", "x2"], []]),
        ValueError,
        "Expected at least one player in each component of `ordering` but got [['x0', 'x1', 'x2'], []]; leave the empty one out.",
        mark="kept",
    ),
    Input(
        "an ordering that names a player twice",
        lambda _: explained(ROWS, ordering=[["x0", "x1"], ["x1", "x2"]]),
        ValueError,
        "Expected distinct players in `ordering` but got ['x1'] more than once; put each of them into one component.",
        mark="kept",
    ),
    Input(
        "an ordering of numbers",
        lambda _: explained(ROWS, ordering=[[0, 1, 2]]),
        ValueError,
        "Expected players in `ordering` among ['x0', 'x1', 'x2'] but got [0, 1, 2]; did you mean 'x0' for 0?; did you mean 'x1' for 1?; did you mean 'x2' for 2?",
        mark="twin",
    ),
    Input(
        "an ordering of lists of lists",
        lambda _: explained(ROWS, ordering=[[["x0"], "x1", "x2"]]),
        TypeError,
        "Expected the components of `ordering` to list names of players but got [['x0']]; lists stand in no other list than `ordering` itself.",
        mark="library",
    ),
    Input(
        "causes that are a number",
        lambda _: explained(ROWS, ordering={"x0": 1}),
        TypeError,
        "Expected the causes of 'x0' in `ordering` to be a list of names but got 1; a single one is ['name'].",
        mark="library",
    ),
    Input(
        "causes of lists",
        lambda _: explained(ROWS, ordering={"x0": [["x1"]]}),
        TypeError,
        "Expected the causes of 'x0' in `ordering` to be names of players but got [['x1']]; as in {'c': ['a', 'b']}.",
        mark="library",
    ),
    Input(
        "causes in a circle",
        lambda _: explained(ROWS, ordering={"x0": ["x1"], "x1": ["x0"]}),
        ValueError,
        "Expected causes in `ordering` to come before their effects but got the circle x0 -> x1 -> x0; take one of these relations out.",
        mark="kept",
    ),
    Input(
        "confounding of two for one component",
        lambda _: ms.CausalImputer(MARGINAL, [["x0", "x1", "x2"]], [True, False]),
        ValueError,
        "Expected `confounding` with one flag for each of the 1 components of the ordering but got 2: [True, False].",
        mark="kept",
    ),
    Input(
        "a partition of other classes",
        lambda _: ms.Partition([[1, -1]], ["a", "b", "c"]),
        ValueError,
        "Expected `signs` of shape (2, 3), one row less than the 3 classes, but got (1, 2).",
        mark="kept",
    ),
    Input(
        "a partition of NaN",
        lambda _: ms.Partition([[float("nan"), -1]], ["a", "b"]),
        ValueError,
        "Expected `signs` of 1, -1 and 0 but got [-1.0, nan].",
        mark="kept",
    ),
    Input(
        "a codebook of other columns",
        lambda _: codebook().rows(frame().drop(columns="town")),
        ValueError,
        "Expected the columns ['age', 'price', 'town'], as in training, but the frame lacks ['town']; give it these columns, as by `frame[columns]`.",
        mark="twin",
    ),
]


def imputed_groups(groups: Any) -> ms.ValueFunction:
    return ms.imputed_value(model, MARGINAL, draws=2).grouped(groups)


def explained_groups(groups: Any) -> ms.Explanation:
    return ms.exact_shapley(ms.imputed_value(model, MARGINAL, draws=2).grouped(groups, 3), ROWS)
