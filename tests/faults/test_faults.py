"""The faults are possible; `make faults` says whether the tests of their rooms find them."""

import sys
from collections import Counter
from types import ModuleType

import pytest

from tests.faults.faults import FAULTS, Fault, changed, original_of, put_in
from tests.faults.runner import ROOT, paths_of

# Modules that have files of tests, not directories.
FLAT = {
    *("audit", "saving"),
    *("coalitions", "corrected", "explainer", "explanation", "global_values", "interactions"),
    *("laws", "learning_error", "metrics", "naive_bayes", "nn", "ordering", "players"),
    *("quality", "segmentation", "spaces"),
}
# Directories of the package.
ROOMS = {
    *("amortized", "cli", "data", "estimators", "exports", "imputers", "interop", "io"),
    *("models", "oracles", "plots", "report", "simplex", "surrogate", "tables", "text"),
    *("training", "vae", "values"),
}


def called(attribute: object) -> object:
    """What is called: of a property or a class method, the function behind it."""
    behind = getattr(attribute, "fget", None) or getattr(attribute, "__func__", None)
    return behind or attribute


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_the_target_of_a_fault_can_be_changed(fault: Fault) -> None:
    original, wrong = (called(each) for each in (original_of(fault.target), changed(fault)))
    assert callable(original)
    assert callable(wrong)
    assert wrong is not original


def test_there_are_sixty_and_some_in_every_room() -> None:
    count = Counter(fault.room for fault in FAULTS.values())
    assert sum(count.values()) >= 60
    assert set(count) == FLAT | ROOMS
    assert all(count[room] >= 2 for room in ROOMS)
    assert all((ROOT / path).exists() for room in count for path in paths_of(room))


def test_a_function_is_replaced_wherever_it_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    defines, imports = (ModuleType(name) for name in ("manifold_shap.defines", "tests.imports"))
    for module, name in ((defines, "double"), (imports, "twice")):
        setattr(module, name, abs)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    put_in(Fault("players", "manifold_shap.defines:double", lambda original: max))
    assert vars(defines)["double"] is vars(imports)["twice"] is max
