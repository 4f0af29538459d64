"""The work on many rows, block by block: what is done stays done.

A block is always explained by the same call, with a seed that is a function of the caller's seed
and the number of the block; its chunks of the store are written by nobody else. So the result
depends neither on how many processes share the work nor on interruptions.
"""

import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from manifold_shap.explanation import Explanation
from manifold_shap.io import zarr as storage
from manifold_shap.io.blocks import Rows, block_seed, check_seed, with_seed
from manifold_shap.io.ledger import Ledger

# Beyond what another number of threads moves a value by.
_SAME = 1e-3


@dataclass(frozen=True)
class Work:
    """What is to be explained, how, and what of it is done.

    Attributes:
        ledger: of the rows, and the path that they are explained into.
        value: the value function.
        estimator: from value function and rows to an explanation.
        seed: of all blocks.
    """

    ledger: Ledger
    value: Callable[[Tensor, Tensor], Tensor]
    estimator: Callable[..., Explanation]
    seed: int

    def __post_init__(self) -> None:
        check_seed(self.seed)

    @property
    def rows(self) -> Rows:
        """To explain."""
        return self.ledger.rows

    def begin(self, resume: bool) -> None:
        """Make the store, unless there is one to go on with.

        Raises:
            FileExistsError, OSError, TypeError, ValueError: see `explain_rows`.
        """
        ledger = self.ledger
        storage.check_replaceable(ledger.target)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # The first block repeats them.
            first = self._explained(slice(0, 1), 0)
        about = {
            "rows": len(self.rows),
            "block": self.rows.block,
            "seed": self.seed,
            "fingerprint": self.rows.fingerprint(first.players),
        }
        there = ledger.record()
        if resume and there is not None:
            self._check_same(there, about, first)
            if lost := ledger.take_over(there):
                warnings.warn(
                    f"{lost} rows that an interrupted call had left in {ledger.path} are not what "
                    "was written, or cannot be read; they are explained again.",
                    stacklevel=3,
                )
            return
        if there:
            warnings.warn(
                f"Removed what an interrupted call had left in {ledger.path}: "
                f"{ledger.rows_left_by(there)} rows. With resume=True it would have been "
                "continued.",
                stacklevel=3,
            )
        elif resume and ledger.target.exists():
            warnings.warn(
                f"Nothing is left to resume beside the explanation in {ledger.target}: all rows "
                "are explained anew, and take its place at the end.",
                stacklevel=3,
            )
        ledger.open(first, about)

    def explain(self, number: int) -> None:
        """Explain a block, and enter it into the ledger.

        Raises:
            FileExistsError: another call has begun on the same path.
        """
        explanation = self._explained(self.rows.where(number), number)
        self.ledger.enter(number, _with_covariance(explanation).to_xarray())

    def finish(self) -> None:
        """Put the store in its place, if it is not there already.

        Raises:
            FileExistsError: another call has begun on the same path.
            ValueError: some of the store is not what was written.
        """
        self.ledger.check()
        made_by = _merged(self.ledger.made_by())
        made_by |= {"block": self.rows.block, **({"seed": self.seed} if "seed" in made_by else {})}
        self.ledger.close(made_by)

    def _explained(self, part: slice, number: int) -> Explanation:
        estimator = with_seed(self.estimator, block_seed(self.seed, number))
        explanation = estimator(self.value, self.rows.x[part])
        return explanation.with_labels(self.rows.labels[part], self.rows.schema)

    def _check_same(
        self, there: Mapping[str, Any], about: Mapping[str, Any], first: Explanation
    ) -> None:
        """Raise ValueError if it was another call that was interrupted, or is not to be known."""
        if not there:
            raise self.ledger.damaged("rows.json")
        changed = [name for name in about if about[name] != there.get(name)]
        if "fingerprint" in changed:
            changed[changed.index("fingerprint")] = "the rows, their labels or their schema"
        changed += _differences(self.ledger.first(), first)
        if changed:
            raise ValueError(
                "Expected the rows and settings of the interrupted call, which has left "
                f"{self.ledger.rows_left_by(there)} rows in {self.ledger.path}, but these differ: "
                f"{', '.join(changed)}. Give the same ones again, or begin anew with resume=False."
            )


def _with_covariance(explanation: Explanation) -> Explanation:
    """With one where others may have it: an estimator may take all orders in some blocks only."""
    if explanation.covariance is not None or explanation.partition is None:
        return explanation
    error = explanation.standard_error
    covariance = torch.where(error == 0, 0.0, torch.nan)[..., None].repeat(1, 1, 1, error.shape[-1])
    return replace(explanation, covariance=covariance)


def _merged(records: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """How the whole was made: evaluations add up, and of other numbers the largest counts."""
    whole: dict[str, Any] = {}
    for record in records:
        for name, entry in record.items():
            known = whole.setdefault(name, entry if name != "evaluations" else 0)
            if name == "evaluations":
                whole[name] = known + entry
            elif isinstance(entry, (int, float)) and isinstance(known, (int, float)):
                whole[name] = max(known, entry)
    return whole


def _differences(there: Explanation, here: Explanation) -> list[str]:
    """Names of what two explanations of the same row do not agree on."""
    made, makes = dict(there.made_by), json.loads(json.dumps(here.made_by))
    names = [name for name in dict.fromkeys([*made, *makes]) if name != "evaluations"]
    changed = [name for name in names if made.get(name) != makes.get(name)]
    same = there.players.names == here.players.names and there.outputs == here.outputs
    if not same or there.space != here.space:
        return [*changed, "players, outputs or output space"]
    values = (
        ("values", there.phi, here.phi),
        ("base", there.base, here.base),
        ("prediction", there.prediction, here.prediction),
    )
    return changed + [name for name, old, new in values if not _close(old, new)]


def _close(old: Tensor, new: Tensor) -> bool:
    scale = float(old.abs().max())
    return torch.allclose(old, new, rtol=_SAME, atol=_SAME * scale)
