"""Modules import downwards only: read from the source, not run."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "manifold_shap"

# From the ground up. A module may import what stands in its own line or above it; a folder's name
# stands for all of its modules that have no line of their own.
LAYERS = (
    ("_messages", "_progress", "_arrays", "_checks", "_memory", "_stored", "_random", "_saved"),
    ("_version", "io", "nn", "convolutions"),
    ("players",),
    ("coalitions",),
    ("ordering", "posets", "laws", "segmentation", "text"),
    ("simplex",),
    ("spaces",),
    ("models", "tables"),
    ("values", "imputers"),
    ("quality",),
    ("io.zarr", "shown", "learning_error"),
    ("explanation",),
    ("interactions", "global_values", "metrics", "naive_bayes"),
    ("estimators",),
    ("interop",),
    ("oracles",),
    ("training",),
    ("surrogate", "vae", "amortized"),
    ("corrected",),
    ("candidates",),
    ("explainer",),
    ("saving", "streaming"),
    ("data", "plots", "report", "exports", "training.classifier"),
    ("cli",),
)

# Packages that only some modules import, anywhere in them.
RESERVED = {
    "lightning": ("training.runner",),
    "narwhals": ("_arrays", "tables", "models"),
    "hydra": ("cli",),
    "omegaconf": ("cli",),
    "matplotlib": ("plots", "report"),
    "jinja2": ("report",),
    "skimage": ("segmentation",),
    "torchvision": ("data",),
    "xarray": ("io", "explanation"),
    "zarr": ("io",),
    "fsspec": ("io",),
    "onnxscript": ("exports.graphs",),
}

# Of these, functions import where they need them: they are slow to import, or need not be there.
DEFERRED_PACKAGES = {
    *("pandas", "narwhals", "numcodecs", "scipy", "sklearn", "skops", "safetensors", "torchvision"),
    *("tqdm", "xarray", "zarr", "fsspec"),
    *("catboost", "lightgbm", "xgboost", "onnxruntime", "onnxscript", "polars", "distributed"),
    *("jinja2", "shap", "shapiq", "skimage"),
}
# What `import manifold_shap` leaves for those who need it.
LEFT_OUT = DEFERRED_PACKAGES - {"tqdm"} | {"lightning", "matplotlib", "hydra", "onnx"}

# Imports of our own modules inside functions: what only some calls need, and conveniences, which
# would otherwise run up.
DEFERRED = {
    ("cli", "cli.explain"),
    ("cli", "cli.train"),
    ("explanation", "estimators.audit"),
    ("explanation", "interop.shap_explanation"),
    ("explanation", "interop.shapiq_values"),
    ("explanation", "plots"),
    ("explanation", "report"),
    ("explanation", "tables.features"),
    ("interactions", "interop.shapiq_values"),
    ("io.zarr", "tables.cells"),
    ("training.rows", "tables.fitted"),
    ("training.task", "training.runner"),
    ("values.base", "values.grouped"),
    ("values.base", "values.selected"),
    ("values.exportable", "exports.graphs"),
}


class Import(NamedTuple):
    """One imported name of a module.

    Attributes:
        target: the module that is imported, of this package without its name.
        inside: whether it stands inside a function.
    """

    target: str
    inside: bool


@cache
def modules() -> dict[str, Path]:
    """Source files by name, without the package's own; a folder's `__init__` has its name."""
    paths = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    paths.pop("")
    return paths


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports(module: str) -> tuple[Import, ...]:
    """Of a module, but for those that only type checkers see."""
    return tuple(_imports(tree_of(modules()[module]), inside=False))


def _imports(node: ast.AST, inside: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(_own(alias.name), inside)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "imports name the whole path"
            for alias in child.names:
                whole = _own(f"{child.module}.{alias.name}")
                yield Import(whole if whole in modules() else _own(child.module or ""), inside)
        deeper = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        yield from _imports(child, inside or deeper)


def _own(name: str) -> str:
    return name.removeprefix("manifold_shap.")


def own_imports(module: str) -> set[str]:
    """Modules of this package that a module imports when it is imported itself.

    A module inside a folder comes with the folder's `__init__`, except for its neighbours.
    """
    found = {each.target for each in imports(module) if not each.inside} & set(modules())
    folders = {target.rpartition(".")[0] for target in found} - {"", module.rpartition(".")[0]}
    return (found | folders) - {module}


def layer(module: str) -> int:
    """The line of the longest name in `LAYERS` that a module is, or is inside of."""
    places = {name: place for place, names in enumerate(LAYERS) for name in names}
    while module not in places:
        module = module.rpartition(".")[0]
        assert module, "every module has its place in LAYERS"
    return places[module]


def test_every_module_has_a_layer_and_every_layer_a_module() -> None:
    for module in modules():
        assert layer(module) >= 0
    for name in (name for names in LAYERS for name in names):
        assert any(f"{module}.".startswith(f"{name}.") for module in modules()), name


def test_no_import_runs_up() -> None:
    up = [
        f"{module} imports {target}"
        for module in modules()
        for target in own_imports(module)
        if layer(target) > layer(module)
    ]
    assert not up


def test_no_circle_of_imports() -> None:
    graph = {module: own_imports(module) for module in modules()}
    assert sum(map(len, graph.values())) > 100
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_imports_inside_functions_are_listed() -> None:
    inside = {
        (module, each.target) for module in modules() for each in imports(module) if each.inside
    }
    others = {(m, t) for m, t in inside if t.partition(".")[0] not in DEFERRED_PACKAGES}
    assert others == DEFERRED


@pytest.mark.parametrize("package", RESERVED)
def test_few_modules_import(package: str) -> None:
    allowed = RESERVED[package]
    users = {
        module
        for module in modules()
        for each in imports(module)
        if each.target.partition(".")[0] == package
    }
    assert users
    others = {u for u in users if not any(f"{u}.".startswith(f"{name}.") for name in allowed)}
    assert not others


def test_public_names_are_imported_when_they_are_asked_for() -> None:
    code = f"""
import sys
import manifold_shap as ms
print(*{{"torch", "numpy"}} & set(sys.modules))
assert set(ms.__all__) <= set(dir(ms))
slow = ("plots", "explain_rows", "Table", "Explainer", "load", "save")
found = [getattr(ms, name) for name in ms.__all__ if not name.startswith(("fit_", "load_", *slow))]
print(*set({LEFT_OUT!r}) & set(sys.modules))
found += [getattr(ms, name) for name in ms.__all__]
assert callable(ms.global_values) and len(set(map(id, found))) == len(ms.__all__) < 60
assert not hasattr(ms, "nosuch")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.split() == []


def test_warnings_are_given_by_one_function() -> None:
    """It names the line of the caller, which a `stacklevel` cannot count."""
    others = [
        f"{module}:{node.lineno}"
        for module, path in modules().items()
        if module != "_messages"
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "warnings.warn"
    ]
    assert not others


def test_output_spaces_are_not_told_apart_by_name() -> None:
    """What differs between output spaces is a method or an attribute of theirs."""
    names = {"probability", "log_odds", "ilr", "identity"}
    compared = [
        f"{module}:{node.lineno}"
        for module, path in modules().items()
        if module != "spaces"
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Compare)
        for side in ast.walk(node)
        if isinstance(side, ast.Constant) and side.value in names
    ]
    assert not compared
