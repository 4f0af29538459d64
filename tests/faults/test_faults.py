"""The faults are possible; `make faults` says whether the tests of their rooms find them."""

import sys
from collections import Counter
from types import ModuleType

import pytest

from tests.faults.__main__ import ROOT, paths_of
from tests.faults.faults import FAULTS, Fault, changed, door, put_in


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_the_target_of_a_fault_can_be_changed(fault: Fault) -> None:
    original, wrong = door(fault.target)[2], changed(fault)
    assert callable(getattr(wrong, "__func__", wrong))
    assert wrong is not original


def test_there_are_two_in_every_directory_of_the_package() -> None:
    count = Counter(name.partition("/")[0] for name in FAULTS)
    rooms = {path.parent.name for path in ROOT.glob("manifold_shap/*/__init__.py")}
    assert all(count[room] == 2 for room in rooms)
    assert len(count) > len(rooms) + 15
    assert all((ROOT / path).exists() for name in FAULTS for path in paths_of(name))


def test_a_function_is_replaced_wherever_it_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    defines, imports = (ModuleType(name) for name in ("manifold_shap.defines", "tests.imports"))
    for module, name in ((defines, "double"), (imports, "twice")):
        setattr(module, name, abs)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    put_in(Fault("defines:double", lambda original: max))
    assert vars(defines)["double"] is vars(imports)["twice"] is max
