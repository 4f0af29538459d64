"""After `to(device)` nothing that an object computes with is left behind."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from torch import Tensor

from manifold_shap.players import Players
from manifold_shap.tables.codebook import Codebook
from tests.examples import IMPUTERS, REMOVERS, VALUES

# Descriptions, which are moved where they are used.
DESCRIPTIONS = (Players, Codebook)
# Attributes that stay on the CPU, why, and an example with one.
LEFT = {
    "checkpoint": ("what `save` writes", "guided"),
    "seen": ("rows to explain are compared with it on the CPU", "guided"),
    "_x": ("scikit-learn is trained on it", "retrained"),
    "variables": ("the description of an oracle", "posterior"),
    "_elimination": ("tables of an oracle, moved where they are used", "posterior"),
    "_tables": ("tables of an oracle, moved where they are used", "truth of latent classes"),
    "_effects": ("tables of an oracle, moved where they are used", "truth of latent classes"),
    "_slopes": ("tables of an oracle, moved where they are used", "truth of latent classes"),
    "_scale": ("tables of an oracle, moved where they are used", "truth of latent classes"),
    "function": ("a callable stays where its rows are", "callable"),
    "_member": ("so do its groups", "words of padded rows"),
    "ordering": ("orders are drawn on the CPU", "causal"),
}


def left_behind(of: Any, seen: set[int], path: str = "") -> Iterator[str]:
    """Paths of tensors on the CPU that can be reached from an object."""
    if id(of) in seen or isinstance(of, DESCRIPTIONS):
        return
    seen.add(id(of))
    if isinstance(of, Tensor):
        if of.device.type == "cpu":
            yield path
        return
    if isinstance(of, dict):
        parts = list(of.items())
    elif isinstance(of, (list, tuple)):
        parts = list(enumerate(of))
    elif type(of).__module__.startswith(("manifold_shap", "tests", "torch.nn")):
        parts = list(vars(of).items()) if hasattr(of, "__dict__") else []
    else:
        return
    for name, part in parts:
        yield from left_behind(part, seen, f"{path}.{name}")


@pytest.mark.parametrize("name", [*VALUES, *IMPUTERS, *REMOVERS])
def test_all_moves_but_what_is_listed(name: str) -> None:
    made: Any = {**VALUES, **IMPUTERS, **REMOVERS}[name]()
    of = copy.deepcopy(made.value if name in VALUES else made)
    of.to("meta")
    paths = [path.split(".") for path in left_behind(of, set())]
    assert all(set(path) & set(LEFT) for path in paths)
    for attribute, (_, known) in LEFT.items():
        assert known != name or any(attribute in path for path in paths)
