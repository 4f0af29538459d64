"""Modules import downwards only: read from the source, not run."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

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
    ("io.zarr", "shown", "quality", "learning_error"),
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

# Packages that few modules import, anywhere in them.
RESERVED = {
    "lightning": ("training.runner",),
    "hydra": ("cli",),
    "omegaconf": ("cli",),
    "matplotlib": ("plots", "report"),
}

# Slow to import, or not always there: `import manifold_shap` leaves them for those who need them.
NOT_AT_ONCE = {
    *("pandas", "narwhals", "numcodecs", "scipy", "sklearn", "skops", "safetensors", "torchvision"),
    *("lightning", "matplotlib", "hydra", "xarray", "zarr", "fsspec", "jinja2", "skimage"),
    *("catboost", "lightgbm", "xgboost", "onnx", "onnxruntime", "onnxscript", "polars"),
    *("distributed", "shap", "shapiq"),
}


@cache
def modules() -> dict[str, ast.Module]:
    """Sources by name, without the package's own; a folder's `__init__` has its name."""
    trees = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        trees[name] = ast.parse(path.read_text(encoding="utf-8"))
    trees.pop("")
    return trees


def imports(node: ast.AST, deferred: bool) -> Iterator[str]:
    """What a module imports, of this package without its name; also in functions if deferred."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "imports name the whole path"
            source = str(child.module).removeprefix("manifold_shap.")
            for alias in child.names:
                whole = f"{source}.{alias.name}".removeprefix("manifold_shap.")
                yield whole if whole in modules() else source
        elif isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        elif deferred or not isinstance(child, ast.FunctionDef):
            yield from imports(child, deferred)


def layer(module: str) -> int:
    """The line of the longest name in `LAYERS` that a module is, or is inside of."""
    places = {name: place for place, names in enumerate(LAYERS) for name in names}
    while module not in places:
        module = module.rpartition(".")[0]
        assert module, "every module has its place in LAYERS"
    return places[module]


def test_no_import_runs_up() -> None:
    """A module inside a folder comes with the folder's `__init__`, except for its neighbours."""
    up = []
    for module, tree in modules().items():
        found = set(imports(tree, deferred=False)) & set(modules())
        folders = {target.rpartition(".")[0] for target in found}
        found |= folders - {"", module.rpartition(".")[0]}
        up += [(module, target) for target in found if layer(target) > layer(module)]
    assert not up
    for name in (name for names in LAYERS for name in names):
        assert name in modules(), "every name in LAYERS is a module"


@pytest.mark.parametrize("package", RESERVED)
def test_few_modules_import(package: str) -> None:
    users = {
        module
        for module, tree in modules().items()
        if any(name.partition(".")[0] == package for name in imports(tree, deferred=True))
    }
    assert users
    assert all(
        f"{user}.".startswith(tuple(f"{own}." for own in RESERVED[package])) for user in users
    )


def test_public_names_are_imported_when_they_are_asked_for() -> None:
    code = f"""
import sys
import manifold_shap as ms
print(*{{"torch", "numpy"}} & set(sys.modules))
assert set(ms.__all__) <= set(dir(ms))
slow = ("plots", "explain_rows", "Table", "Explainer", "load", "save")
found = [getattr(ms, name) for name in ms.__all__ if not name.startswith(("fit_", "load_", *slow))]
print(*set({NOT_AT_ONCE!r}) & set(sys.modules))
found += [getattr(ms, name) for name in ms.__all__]
assert callable(ms.global_values) and len(set(map(id, found))) == len(ms.__all__) < 60
assert not hasattr(ms, "nosuch")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.split() == []
