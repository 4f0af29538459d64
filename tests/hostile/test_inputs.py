"""Hostile inputs: what would otherwise be silently wrong, or fail with an error of no help.

One table: what is done in an empty folder, the type of the error, and words that must occur in it.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import manifold_shap as ms
from tests.hostile.things import (
    FEW,
    MARGINAL,
    X,
    asked,
    explained,
    explanation,
    frame,
    imputed,
    model,
    of_frame,
    table,
    tampered,
    trained,
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


class Broken(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        raise KeyError("weights")


# What is done, by words that the error must have, by the type of the error.
TABLE: dict[type[BaseException], dict[str, Callable[[], Any]]] = {
    TypeError: {
        "list rows: numpy.array(model(rows))": lambda: asked(lambda x: x.tolist()),
        "patiense": lambda: fit(patiense=3),
        "complex": lambda: explained(X + 1j),
        "bool float32": lambda: masked(MASK.float()),
        "evaluations nan": lambda: few(evaluations=NAN),
        "progress true or false 'no'": lambda: few(progress="no"),
        "model class Broken": lambda: asked(Broken),
        "imputed_value": lambda: ms.exact_shapley(nn.Linear(3, 2), X),
        "imputer model first": lambda: ms.imputed_value(MARGINAL, model),
        "picture (8,)": lambda: ms.Players.pixels((8,)),
        "explanation Tensor": lambda: ms.global_values(X, [0, 1, 0, 1]),
        "explanation ImputedValue": lambda: ms.wide_frame(imputed()),
        "amortised SurrogateValue": lambda: ms.amortized_shapley(trained(), X, explainer=trained()),
        "dictionary 'age' pandas.DataFrame": lambda: ms.Explainer(of_frame, frame().to_dict()),
        "frame function": lambda: ms.Explainer(frame(), of_frame),
        "group 'a' ['x0']": lambda: grouped({"a": "x0"}),
        "causes 'x2' list": lambda: ordered(ordering={"x2": "x0"}),
        "without a mask": lambda: explained(np.ma.masked_array(X, X > 1)),
    },
    ValueError: {
        "finite row 1, element 1": lambda: explained(X.masked_fill(X == 3, NAN)),
        "(3,) x[None]": lambda: ms.exact_shapley(imputed(), X[0]),
        "at most 16 players 17": lambda: explained(torch.zeros(1, 17)),
        "reference finite": lambda: ms.imputers.GaussianImputer(X * NAN),
        "at least two rows": lambda: ms.imputers.GaussianImputer(X[:1]),
        "2 training rows": lambda: ms.fit_surrogate(model, X[:1]),
        "3 players (4, 2, 2)": lambda: masked(MASK[..., :2]),
        "(4, 3) mask[:, None]": lambda: masked(MASK[:, 0]),
        "keys (4, 2) (2,)": lambda: imputed()(X, MASK, torch.arange(2)),
        "one budget evaluations permutations": lambda: few(evaluations=100),
        "above 0": lambda: ms.auto_shapley(value, X, target_error=0),
        "outputs '0', '1' 'cat'": lambda: outputs(outputs=["cat"]),
        "diverged learning_rate": lambda: ms.fit_surrogate(
            model, X.repeat(20, 1), **{**FEW, "learning_rate": 1e30}
        ),
        "label 4 rows 1": lambda: explanation().with_labels(["a"]),
        "4 (2,)": lambda: ms.global_values(explanation(), [0, 1]),
        "'7'": lambda: ms.global_values(explanation(), [0, 1, 7, 0]),
        "columns classes": lambda: asked(lambda x: x @ x.T),
        "distribution sum to one": lambda: ms.as_model(
            lambda x: 100 * model(x), X, returns="probabilities"
        ),
        "finite row 0": lambda: plays(lambda v: v * NAN),
        "outputs) 3 coalitions 1, 1)": lambda: plays(lambda v: v[:, :1]),
        "at least one player": lambda: ms.Players([], []),
        "0 to 1 [0, 2]": lambda: ms.Players("ab", [0, 2]),
        "`targets` reference": lambda: ms.imputers.EmpiricalImputer(
            X, bandwidth="aicc", targets=torch.zeros(len(X) + 1, 2)
        ),
        "groups x0 'z'": lambda: grouped({"all": ["z"]}),
        "distinct x0": lambda: grouped({"a": ["x0"], "b": ["x0"]}),
        "every group 'a'": lambda: grouped({"a": []}),
        "aicc targets": lambda: ms.imputers.EmpiricalImputer(X, targets=X),
        "each of 1 laws": lambda: ms.laws.Mixture([ms.laws.SizeUniform(3)], [1, 1]),
        "counts each of 4 rows": lambda: ms.metrics.shapley_pairs(4, 3, 8, counts=[1]),
        "y differ": lambda: ms.global_values(plays(lambda v: v), np.ones(4)),
        "orders of the explanation": lambda: ms.audit(
            explained(X, ordering=[["x0"], ["x1", "x2"]]),
            value,
            rows=4,
            reference=lambda game, x, seed: ms.exact_shapley(game, x, seed=seed),
        ),
        "known standard errors": lambda: ms.audit(
            explanation(),
            imputed(),
            rows=4,
            reference=partial(ms.permutation_shapley, permutations=2),
        ),
        "`standard_error` (4, 3, 2)": lambda: replace(
            explanation(), standard_error=explanation().standard_error[..., :1]
        ),
        "(4, 3) (2, 2)": lambda: grouped(lambda x: x[:2, :2].long(), 3),
        "every player x1 x2": lambda: ordered(ordering=[["x0"]]),
        "cycle x0 x1": lambda: ordered(ordering={"x0": ["x1"], "x1": ["x0"]}),
        "signs (2, 3)": lambda: ms.simplex.Partition([[1, -1]], "abc"),
        "age row 0": lambda: table().check(torch.full((1, 3), 1e6)),
        "town Explainer": lambda: explained(frame()),
        "m.txt cut short": lambda: ms.load_model(
            written("m.txt", "tree\nversion=v4\nnum_class=10000000000\n")
        ),
        "Explanation 'x'": lambda: ms.Explanation.from_xarray(
            explanation().to_xarray().assign_attrs(format="x")
        ),
        "model predicts otherwise": lambda: (
            ms.save(trained(), "s") or ms.load("s", lambda x: model(-x))
        ),
        "something else stands there ms.load": lambda: ms.Explanation.load("."),
        "s.zarr 1 of its 2 blocks resume=True": lambda: ms.Explanation.load(half_stored()),
    },
    AttributeError: {
        "explanation.phi": lambda: explanation().values,
        "explanation.players.names": lambda: explanation().feature_names,
        "ms.auto_shapley(value, x)": lambda: trained().shap_values(X),
        "ms.save(value, folder)": lambda: imputed().save("s"),
        "ms.save(explainer, folder)": lambda: ms.Explainer.__new__(ms.Explainer).save("s"),
        "ms.plots.bar(values)": lambda: ms.global_values(explanation(), [0, 1, 0, 1]).plot,
        "no attribute 'nothing'": lambda: explanation().nothing,
    },
    FileNotFoundError: {
        "no.zarr": lambda: ms.Explanation.load("no.zarr"),
    },
    SystemExit: {
        "config.yaml damaged": lambda: tampered(data=3),
        "rows differ": lambda: tampered(rows="0" * 64),
    },
}


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("any_type")
@pytest.mark.parametrize(
    ("error", "says"), [(error, says) for error, rows in TABLE.items() for says in rows]
)
def test_a_hostile_input_is_told_what_is_wrong(
    error: type[BaseException], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(error) as raised:
        TABLE[error][says]()
    said = f"{raised.value}\n{capsys.readouterr().err}"
    assert "Traceback" not in said
    missing = [word for word in says.split() if word not in said]
    assert not missing, said


# -- odd and sound -----------------------------------------------------------------------------

ARRAY, WHOLE = X.numpy(), np.array([[1, 0, 3], [2, 5, 4]])


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
    "nullable numbers": (
        lambda: explained(pd.DataFrame(WHOLE, index=[1, 1]).astype("Int64")),
        lambda: explained(WHOLE),
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
