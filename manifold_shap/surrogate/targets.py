"""Computes the targets of a surrogate in one pass over its rows, and keeps them in files."""

from collections.abc import Callable
from pathlib import Path
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap._stored import StoredRows
from manifold_shap.io.files import digest, load_checkpoint, save_checkpoint
from manifold_shap.models import Model
from manifold_shap.spaces import OutputSpace
from manifold_shap.surrogate.distillation import disagreement
from manifold_shap.training.rows import TrainingRows
from manifold_shap.values import reference_outputs

# Rows by which targets in a file are recognised as those of the same rows and the same model.
_PROBES = 64


def training_targets(
    model: Model, space: OutputSpace, rows: TrainingRows, directory: str | Path | None
) -> tuple[Tensor, Tensor]:
    """T(f(x)) of the rows to train and to validate on.

    Where these do not lie in memory, files in the directory keep them for a training resumed. They
    are recognised by the number of rows, by 64 rows spread over them, and by the outputs of these
    64: a change of other rows, or of outputs of other rows alone, goes unnoticed.

    Raises:
        ValueError: the files are of other rows, another model or another output space; and see
            `reference_outputs`.
    """

    def held_out(x: Tensor | StoredRows) -> Tensor:
        parts = x.split(len(x))
        return torch.cat([space(model(part, scale=space.takes)) for part in parts])

    def trained(x: Tensor | StoredRows) -> Tensor:
        return reference_outputs(model, space, x)

    place = None if directory is None else Path(directory)
    return (
        _read_or_compute(rows.train, trained, space, place and place / "targets.ckpt"),
        _read_or_compute(
            rows.validation, held_out, space, place and place / "targets_validation.ckpt"
        ),
    )


def _read_or_compute(
    rows: Tensor | StoredRows,
    compute: Callable[[Tensor | StoredRows], Tensor],
    space: OutputSpace,
    path: Path | None,
) -> Float[Tensor, "rows outputs"]:
    """What is computed of rows, read from a file where it was computed before."""
    if path is None or isinstance(rows, Tensor):
        return compute(rows)
    probes = torch.arange(_PROBES) * len(rows) // _PROBES
    few = rows[probes]
    about = {"rows": len(rows), "probes": digest(few), "space": space.settings}
    if not path.exists():
        target = compute(rows)
        state = {"hyper_parameters": about, "state_dict": {}}
        save_checkpoint(path, {"kind": "targets", "target": target, "extent": rows.extent, **state})
        return target
    found = load_checkpoint(path, "targets")
    known, again = found["target"][probes], compute(few)
    same = found["hyper_parameters"] == about and known.shape == again.shape
    if not same or disagreement(again, known):
        raise ValueError(
            f"Expected {path} to hold the model's outputs on these rows in {space.name!r} but it "
            "is of other rows, another model or another output space; name another `directory`, "
            "or remove that file."
        )
    rows.known = found["extent"]
    return cast(Tensor, found["target"])
