"""Hostile inputs: what would otherwise be silently wrong, or fail with an error of no help.

One table: what is done in an empty folder, the type of the error, and words that must occur in it.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
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


class Broken(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        raise KeyError("weights")


Row = tuple[str, Callable[[], Any], type[BaseException], str]

ROWS: Sequence[Row] = [
    ("complex rows", lambda: explained(X + 1j), TypeError, "real"),
    ("too large for float32", lambda: explained(np.full((2, 3), 1e300)), ValueError, "float32"),
    ("NaN", lambda: explained(X.masked_fill(X == 3, NAN)), ValueError, "finite row 1, element 1"),
    ("17 players", lambda: explained(torch.zeros(1, 17)), ValueError, "at most 16 players 17"),
    (
        "NaN in a reference",
        lambda: ms.imputers.GaussianImputer(X * NAN),
        ValueError,
        "reference finite",
    ),
    ("NaN to train on", lambda: ms.fit_surrogate(model, X * NAN), ValueError, "x_train finite"),
]
COALITIONS: Sequence[Row] = [
    ("numbers for truth", lambda: masked(MASK.float()), TypeError, "bool float32"),
    ("too few players", lambda: masked(MASK[..., :2]), ValueError, "3 players (4, 2, 2)"),
    ("too few keys", lambda: imputed()(X, MASK, torch.arange(2)), ValueError, "keys (4, 2) (2,)"),
]
SETTINGS: Sequence[Row] = [
    ("a seed of -1", lambda: few(seed=-1), ValueError, "seed from 0 -1"),
    (
        "two budgets",
        lambda: few(evaluations=100),
        ValueError,
        "one budget evaluations permutations",
    ),
    ("unknown output", lambda: outputs(outputs=["cat"]), ValueError, "outputs '0', '1' 'cat'"),
    ("misspelled option", lambda: fit(patiense=3), TypeError, "patiense"),
    (
        "training that diverges",
        lambda: ms.fit_surrogate(model, X.repeat(20, 1), **{**FEW, "learning_rate": 1e30}),
        ValueError,
        "diverged learning_rate",
    ),
    ("unknown label", lambda: ms.global_values(explanation(), [0, 1, 7, 0]), ValueError, "'7'"),
]
MODELS: Sequence[Row] = [
    ("a class", lambda: asked(Broken), TypeError, "model class Broken"),
    ("a model that fails", lambda: asked(Broken()), RuntimeError, "Broken KeyError weights"),
    ("answers a tuple", lambda: answers(lambda y: (y, None)), TypeError, "tuple [0]"),
    ("answers NaN", lambda: answers(lambda y: y * NAN), ValueError, "finite model nan"),
    ("answers one row", lambda: answers(lambda y: y[:1]), ValueError, "each of 4 rows (1, 2)"),
    ("random answers", lambda: asked(random_model()), UserWarning, "other outputs same rows"),
    (
        "negative probabilities",
        lambda: ms.as_model(lambda x: -model(x), X, returns="probabilities"),
        ValueError,
        "distribution negative",
    ),
    (
        "log-odds of three classes",
        lambda: asked(lambda x: x.softmax(-1), space="log_odds"),
        ValueError,
        "two classes 3 ilr",
    ),
    ("values of NaN", lambda: plays(lambda v: v * NAN), ValueError, "finite row 0"),
    ("a model as a game", lambda: ms.exact_shapley(nn.Linear(3, 2), X), TypeError, "imputed_value"),
    ("swapped", lambda: ms.imputed_value(MARGINAL, model), TypeError, "imputer model first"),
]
PLAYERS: Sequence[Row] = [
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
    ("unknown", lambda: ordered(ordering=[["x0", "x9"]]), ValueError, "ordering x0 x9"),
    ("left out", lambda: ordered(ordering=[["x0"]]), ValueError, "every player x1 x2"),
    ("a circle", lambda: ordered(ordering={"x0": ["x1"], "x1": ["x0"]}), ValueError, "x0 -> x1"),
]
FRAMES: Sequence[Row] = [
    ("one row", lambda: front(frame()[:1]), ValueError, "varies every one"),
    ("lists in cells", lambda: front(frame(bag=[[1, 2]] * 40)), TypeError, "bag list"),
    ("infinity", lambda: front(frame(price=np.r_[np.inf, np.ones(39)])), ValueError, "price inf"),
    ("swapped", lambda: ms.Explainer(frame(), of_frame), TypeError, "frame function"),
    ("a column less", lambda: codebook().rows(frame()[["age", "price"]]), ValueError, "town"),
    ("a new category", lambda: codebook().rows(frame(town="Bonn")), UserWarning, "town Bonn"),
    ("text as a number", lambda: codebook().rows(frame(price="dear")), ValueError, "price float64"),
    ("unknown codes", lambda: codebook().check(torch.full((1, 3), 1e6)), ValueError, "age row 0"),
    ("text", lambda: explained(frame()), TypeError, "town Explainer"),
]
FILES: Sequence[Row] = [
    (
        "a user's folder in the way",
        lambda: explanation().save(Path(written("mine/file")).parent),
        FileExistsError,
        "mine",
    ),
    (
        "a checkpoint of another kind",
        lambda: trained().save("s.ckpt") or load_imputer("s.ckpt", X),
        ValueError,
        "vae surrogate",
    ),
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
]
MANY_ROWS: Sequence[Row] = [
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
