"""Hostile inputs: what would otherwise be silently wrong, or fail with an error of no help.

One table: what is done in an empty folder, the type of the error, and words that must occur in it.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars
import pytest
import torch
from torch import Tensor, nn

import manifold_shap as ms
from manifold_shap.surrogate.fit import load_surrogate
from manifold_shap.vae.fit import load_imputer
from tests.hostile.things import (
    FEW,
    MARGINAL,
    X,
    asked,
    checkpoint,
    codebook,
    explained,
    explanation,
    folder,
    frame,
    front,
    imputed,
    model,
    of_frame,
    recorded,
    tampered,
    trained,
    typed,
    value,
    written,
)

NAN = float("nan")
MASK = torch.ones(4, 2, 3, dtype=torch.bool)

few = partial(ms.permutation_shapley, value, X, permutations=2)
fit = partial(ms.fit_surrogate, model, X)
outputs = partial(ms.exact_shapley, imputed(), X, outputs=["0"])
ordered = partial(explained, X)
words = ms.text.Vocabulary(["a"])


def rows_of(x: Any) -> ms.Explanation:
    return ms.exact_shapley(imputed(), x)


def masked(mask: Any) -> Tensor:
    return imputed()(X, mask)


def answers(change: Callable[[Tensor], Any]) -> ms.Explanation:
    """A model whose answers are changed."""
    return asked(lambda x: change(model(x)))


def plays(change: Callable[[Tensor], Any]) -> ms.Explanation:
    """A callable whose values are changed."""
    return ms.exact_shapley(lambda x, mask: change(value(x, mask)), X)


def grouped(*groups: Any) -> ms.Explanation:
    return ms.exact_shapley(ms.imputed_value(model, MARGINAL, draws=2).grouped(*groups), X)


def streamed(path: Any = "s.zarr", x: Any = X, **settings: Any) -> int:
    estimator = partial(ms.permutation_shapley, permutations=2)
    call = {"estimator": estimator, "block": 2, "progress": False, **settings}
    return ms.explain_rows(path, imputed(), x, **call)


def half_stored() -> str:
    """The store of a call that failed after its first block."""

    def fails(value: Any, x: Tensor, seed: int) -> ms.Explanation:
        if torch.equal(x[0], X[2]):
            raise MemoryError
        return ms.permutation_shapley(value, x, permutations=2, seed=seed)

    with suppress(MemoryError):
        streamed(estimator=fails)
    return "s.zarr"


def random_model() -> Callable[[Tensor], Tensor]:
    """Gives other numbers at every call."""
    generator = torch.Generator().manual_seed(0)
    return lambda x: torch.rand(len(x), 2, generator=generator).softmax(-1)


def no_surrogate(run: Path) -> None:
    (run / "surrogate" / "surrogate.ckpt").unlink()


def constant(rows: pd.DataFrame) -> np.ndarray:
    return np.full((len(rows), 2), 0.5)


class Broken(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        raise KeyError("weights")


Row = tuple[str, Callable[[], Any], type[BaseException], str]

ROWS: Sequence[Row] = [
    ("complex rows", lambda: explained(X + 1j), TypeError, "real"),
    ("masked array", lambda: explained(np.ma.masked_array(X, X > 1)), TypeError, "masked"),
    ("too large for float32", lambda: explained(np.full((2, 3), 1e300)), ValueError, "float32"),
    ("NaN", lambda: explained(X.masked_fill(X == 3, NAN)), ValueError, "finite row 1, element 1"),
    ("one row without its axis", lambda: rows_of(X[0]), ValueError, "(3,) x[:1]"),
    ("a column too many", lambda: rows_of(torch.zeros(2, 4)), ValueError, "(rows, 3) (2, 4)"),
    ("17 players", lambda: explained(torch.zeros(1, 17)), ValueError, "at most 16 players 17"),
    (
        "NaN in a reference",
        lambda: ms.imputers.GaussianImputer(X * NAN),
        ValueError,
        "reference finite",
    ),
    (
        "one row's covariance",
        lambda: ms.imputers.GaussianImputer(X[:1]),
        ValueError,
        "at least two rows",
    ),
    ("NaN to train on", lambda: ms.fit_surrogate(model, X * NAN), ValueError, "x_train finite"),
    ("one row to train on", lambda: ms.fit_surrogate(model, X[:1]), ValueError, "2 training rows"),
    ("too few names", lambda: ms.Players.of_elements((3,), "ab"), ValueError, "3 names 2"),
]
COALITIONS: Sequence[Row] = [
    ("numbers for truth", lambda: masked(MASK.float()), TypeError, "bool float32"),
    ("too few players", lambda: masked(MASK[..., :2]), ValueError, "3 players (4, 2, 2)"),
    ("other rows' masks", lambda: masked(MASK[:2]), ValueError, "(4, m, 3) (2, 2, 3)"),
    ("no axis of coalitions", lambda: masked(MASK[:, 0]), ValueError, "(4, 3) mask[:, None]"),
    ("too few keys", lambda: imputed()(X, MASK, torch.arange(2)), ValueError, "keys (4, 2) (2,)"),
]
SETTINGS: Sequence[Row] = [
    ("a seed of -1", lambda: few(seed=-1), ValueError, "seed from 0 -1"),
    ("NaN evaluations", lambda: few(evaluations=NAN), TypeError, "evaluations nan"),
    (
        "two budgets",
        lambda: few(evaluations=100),
        ValueError,
        "one budget evaluations permutations",
    ),
    ("a target of 0", lambda: ms.auto_shapley(value, X, target_error=0), ValueError, "above 0"),
    ("progress as text", lambda: few(progress="no"), TypeError, "progress true or false 'no'"),
    ("unknown law", lambda: ms.kernel_shapley(value, X, law="lever"), ValueError, "leverage lever"),
    ("unknown output", lambda: outputs(outputs=["cat"]), ValueError, "outputs '0', '1' 'cat'"),
    ("unknown output space", lambda: asked(model, space="logits"), ValueError, "ilr logits"),
    ("misspelled option", lambda: fit(patiense=3), TypeError, "patiense"),
    ("unknown network", lambda: fit(network="resnet50"), ValueError, "transformer resnet50"),
    (
        "training that diverges",
        lambda: ms.fit_surrogate(model, X.repeat(20, 1), **{**FEW, "learning_rate": 1e30}),
        ValueError,
        "diverged learning_rate",
    ),
    ("too few labels", lambda: ms.global_values(explanation(), [0, 1]), ValueError, "4 (2,)"),
    ("unknown label", lambda: ms.global_values(explanation(), [0, 1, 7, 0]), ValueError, "'7'"),
]
MODELS: Sequence[Row] = [
    ("scale", lambda: ms.as_model(model, X, returns="percent"), ValueError, "logits percent"),
    ("a class", lambda: asked(Broken), TypeError, "model class Broken"),
    ("a model that fails", lambda: asked(Broken()), RuntimeError, "Broken KeyError weights"),
    ("answers None", lambda: answers(lambda y: None), TypeError, "model NoneType"),
    ("answers a tuple", lambda: answers(lambda y: (y, None)), TypeError, "tuple [0]"),
    ("answers NaN", lambda: answers(lambda y: y * NAN), ValueError, "finite model nan"),
    ("answers one row", lambda: answers(lambda y: y[:1]), ValueError, "each of 4 rows (1, 2)"),
    ("more classes than names", lambda: asked(lambda x: x @ x.T), ValueError, "columns classes"),
    ("random answers", lambda: asked(random_model()), UserWarning, "other outputs same rows"),
    ("classes", lambda: ms.as_model(model, X, classes="abc"), ValueError, "3 columns 2"),
    (
        "negative probabilities",
        lambda: ms.as_model(lambda x: -model(x), X, returns="probabilities"),
        ValueError,
        "distribution negative",
    ),
    (
        "percentages",
        lambda: ms.as_model(lambda x: 100 * model(x), X, returns="probabilities"),
        ValueError,
        "distribution sum to one",
    ),
    (
        "log-odds of three classes",
        lambda: asked(lambda x: x.softmax(-1), space="log_odds"),
        ValueError,
        "two classes 3 ilr",
    ),
    ("values of NaN", lambda: plays(lambda v: v * NAN), ValueError, "finite row 0"),
    (
        "values of another shape",
        lambda: plays(lambda v: v[:, :1]),
        ValueError,
        "outputs) 3 coalitions 1, 1)",
    ),
    ("a model as a game", lambda: ms.exact_shapley(nn.Linear(3, 2), X), TypeError, "imputed_value"),
    ("swapped", lambda: ms.imputed_value(MARGINAL, model), TypeError, "imputer model first"),
]
PLAYERS: Sequence[Row] = [
    ("none", lambda: ms.Players([], []), ValueError, "at least one player"),
    ("a number skipped", lambda: ms.Players("ab", [0, 2]), ValueError, "0 to 1 [0, 2]"),
    ("pixels of a table", lambda: ms.Players.pixels((8,)), TypeError, "picture (8,)"),
    (
        "targets of other rows",
        lambda: ms.imputers.EmpiricalImputer(
            X, bandwidth="aicc", targets=torch.zeros(len(X) + 1, 2)
        ),
        ValueError,
        "`targets` reference",
    ),
    ("an unknown member", lambda: grouped({"all": ["z"]}), ValueError, "groups x0 'z'"),
    ("in two groups", lambda: grouped({"a": ["x0"], "b": ["x0"]}), ValueError, "distinct x0"),
    ("an empty group", lambda: grouped({"a": []}), ValueError, "every group 'a'"),
    ("a group of letters", lambda: grouped({"a": "x0"}), TypeError, "list 'x0' ['x0']"),
    ("labels", lambda: grouped(lambda x: x[:2, :2].long(), 3), ValueError, "(4, 3) (2, 2)"),
    ("unknown", lambda: ordered(ordering=[["x0", "x9"]]), ValueError, "ordering x0 x9"),
    ("left out", lambda: ordered(ordering=[["x0"]]), ValueError, "every player x1 x2"),
    ("twice", lambda: ordered(ordering=[["x0", "x1"], ["x1", "x2"]]), ValueError, "distinct x1"),
    ("a circle", lambda: ordered(ordering={"x0": ["x1"], "x1": ["x0"]}), ValueError, "x0 -> x1"),
    (
        "partition",
        lambda: ms.simplex.Partition([[1, -1]], "abc"),
        ValueError,
        "signs (2, 3) (1, 2)",
    ),
]
FRAMES: Sequence[Row] = [
    ("unknown tokens", lambda: words.decode([[99.0]]), ValueError, "from 0 to 2 99"),
    ("one row", lambda: front(frame()[:1]), ValueError, "varies every one"),
    (
        "a column twice",
        lambda: front(pd.concat((frame(), frame()[["age"]]), axis=1)),
        ValueError,
        "distinct age",
    ),
    ("lists in cells", lambda: front(frame(bag=[[1, 2]] * 40)), TypeError, "bag list"),
    ("infinity", lambda: front(frame(price=np.r_[np.inf, np.ones(39)])), ValueError, "price inf"),
    ("no rows", lambda: front(frame()[:0]), ValueError, "0 rows"),
    ("constants", lambda: front(frame()[["age"]] * 0, constant), ValueError, "varies age"),
    ("swapped", lambda: ms.Explainer(frame(), of_frame), TypeError, "frame function"),
    ("unknown candidate", lambda: front(frame(), candidates=["cop"]), ValueError, "copula 'cop'"),
    ("a column less", lambda: codebook().rows(frame()[["age", "price"]]), ValueError, "town"),
    ("a new category", lambda: codebook().rows(frame(town="Bonn")), UserWarning, "town Bonn"),
    ("text as a number", lambda: codebook().rows(frame(price="dear")), ValueError, "price float64"),
    ("unknown codes", lambda: codebook().check(torch.full((1, 3), 1e6)), ValueError, "age row 0"),
    ("missing", lambda: explained(polars.DataFrame({"a": [1, None]})), ValueError, "missing 'a"),
    ("text", lambda: explained(frame()), TypeError, "town Explainer"),
]
FILES: Sequence[Row] = [
    (
        "a model that is cut short",
        lambda: ms.load_model(written("m.txt", "tree\nversion=v4\nnum_class=10000000000\n")),
        ValueError,
        "m.txt cut short",
    ),
    ("no store", lambda: ms.Explanation.load("no.zarr"), FileNotFoundError, "explanation no.zarr"),
    ("an empty folder", lambda: ms.Explanation.load("."), ValueError, "explanation"),
    (
        "a data set of others",
        lambda: ms.Explanation.from_xarray(explanation().to_xarray().assign_attrs(format="x")),
        ValueError,
        "Explanation 'x'",
    ),
    (
        "a file in the way",
        lambda: explanation().save(written("s.zarr")),
        FileExistsError,
        "s.zarr",
    ),
    (
        "a user's folder in the way",
        lambda: explanation().save(Path(written("mine/file")).parent),
        FileExistsError,
        "mine",
    ),
    (
        "no checkpoint",
        lambda: load_surrogate("no.ckpt", model),
        FileNotFoundError,
        "surrogate no.ckpt",
    ),
    (
        "a checkpoint of another kind",
        lambda: trained().save("s.ckpt") or load_imputer("s.ckpt", X),
        ValueError,
        "vae surrogate",
    ),
    ("no weights", lambda: checkpoint(state_dict={}), ValueError, "surrogate s.ckpt"),
    ("no settings", lambda: checkpoint(hyper_parameters=None), ValueError, "surrogate s.ckpt"),
    ("a vast layer", lambda: checkpoint(hidden=[10**15]), ValueError, "surrogate s.ckpt"),
    (
        "another model's",
        lambda: checkpoint() and load_surrogate("s.ckpt", lambda x: model(-x)),
        ValueError,
        "model predicts otherwise",
    ),
    ("half a record", lambda: folder(manifold_shap='{"for'), ValueError, "folder damaged"),
    ("another model", lambda: folder(lambda f: of_frame(f)[:, ::-1]), ValueError, "predicts"),
    (
        "an explainer over a user's folder",
        lambda: ms.save(folder(), Path(written("mine/manifold_shap.json")).parent),
        FileExistsError,
        "mine manifold_shap.json",
    ),
    (
        "a model that is cut short",
        lambda: ms.load_model(written("m.txt", "tree\nversion=v4\nnum_class=10000000000\n")),
        ValueError,
        "m.txt cut short",
    ),
    ("another ending", lambda: ms.load_model(written("m.h5")), ValueError, ".onnx .skops m.h5"),
]
MANY_ROWS: Sequence[Row] = [
    ("a file in the way", lambda: streamed(written("s.zarr")), FileExistsError, "s.zarr"),
    ("no explanation", lambda: streamed(estimator=lambda game, x: x), TypeError, "Explanation"),
    ("NaN in the last block", lambda: streamed(x=X / X[:, 2:]), ValueError, "finite row"),
    (
        "largest outputs by block",
        lambda: streamed(estimator=partial(ms.permutation_shapley, permutations=2, outputs=1)),
        ValueError,
        "outputs block",
    ),
    (
        "a store that is not finished",
        lambda: ms.Explanation.load(half_stored()),
        ValueError,
        "s.zarr 1 of its 2 blocks resume=True",
    ),
    (
        "other settings on resume",
        lambda: streamed(half_stored(), seed=1, resume=True),
        ValueError,
        "s.zarr differ seed overwrite=True",
    ),
    (
        "other data on resume",
        lambda: streamed(half_stored(), x=torch.cat((X[:1], -X[1:])), resume=True),
        ValueError,
        "s.zarr differ x overwrite=True",
    ),
]
COMMANDS: Sequence[Row] = [
    (
        "no file of a table",
        lambda: typed("train", "data=table", "data.path=no.csv", "data.target=y"),
        SystemExit,
        "no.csv",
    ),
    (
        "a model and a classifier",
        lambda: typed("train", "model=file", "model.path=m.onnx", "classifier=mlp"),
        SystemExit,
        "model classifier",
    ),
    ("half a record", lambda: tampered(recorded(data=3)), SystemExit, "config.yaml damaged"),
    ("other rows", lambda: tampered(recorded(rows="0" * 64)), SystemExit, "rows differ"),
    ("no surrogate", lambda: tampered(no_surrogate), SystemExit, "train.py"),
]
TABLE = {
    "rows": ROWS,
    "coalitions": COALITIONS,
    "settings": SETTINGS,
    "models": MODELS,
    "players": PLAYERS,
    "frames": FRAMES,
    "files": FILES,
    "many rows": MANY_ROWS,
    "commands": COMMANDS,
}


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("any_type")
@pytest.mark.parametrize(
    ("do", "error", "says"),
    [
        pytest.param(do, error, says, id=f"{kind}: {name}")
        for kind, rows in TABLE.items()
        for name, do, error, says in rows
    ],
)
def test_a_hostile_input_is_told_what_is_wrong(
    do: Callable[[], Any],
    error: type[BaseException],
    says: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(error) as raised:
        do()
    said = f"{raised.value}\n{capsys.readouterr().err}"
    assert "Traceback" not in said
    missing = [word for word in says.split() if word not in said]
    assert not missing, said


# -- odd and sound -----------------------------------------------------------------------------

ARRAY, WHOLE = X.numpy(), np.array([[1, 0, 3], [2, 5, 4]])
SOME = torch.tensor([[True, False, True]]).expand(4, 2, 3)


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


def in_a_file() -> np.ndarray:
    np.save("rows.npy", ARRAY)
    return np.load("rows.npy", mmap_mode="r")


ODD: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "an array in Fortran's order": (
        lambda: explained(np.asfortranarray(ARRAY)),
        lambda: explained(X),
    ),
    "an array in a file": (lambda: explained(in_a_file()), lambda: explained(X)),
    "a tensor with a gradient": (lambda: explained(nn.Parameter(X)), lambda: explained(X)),
    "a frame of polars": (lambda: explained(polars.DataFrame(ARRAY)), lambda: explained(X)),
    "nullable numbers": (
        lambda: explained(pd.DataFrame(WHOLE, index=[1, 1]).astype("Int64")),
        lambda: explained(WHOLE),
    ),
    "a read-only mask": (lambda: masked(read_only(SOME.numpy())), lambda: masked(SOME.clone())),
    "columns in another order": (
        lambda: codebook().rows(frame()[["town", "age", "price"]]),
        lambda: codebook().rows(frame()),
    ),
    "numpy's numbers": (
        lambda: outputs(outputs=[np.int64(1)], seed=np.int64(3)),
        lambda: outputs(outputs=["1"], seed=3),
    ),
}


@pytest.mark.usefixtures("any_type")
@pytest.mark.parametrize("name", ODD)
def test_what_is_odd_and_sound_gives_the_numbers_of_the_plain(name: str) -> None:
    found, plain = (do() for do in ODD[name])
    if isinstance(found, ms.Explanation):
        found, plain = found.phi, plain.phi
    torch.testing.assert_close(found, plain, rtol=1e-6, atol=1e-6)
