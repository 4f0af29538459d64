"""The wheel and the archive of sources: what is in them, and that an empty environment runs them.

`pytest -m slow -s tests/package` installs torch, which takes minutes and 5 GB of disk.
"""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

import manifold_shap as ms

ROOT = Path(__file__).parents[2]
QUICK = ["data=digits", "classifier.max_epochs=1", "progress=false"]
MEGABYTE = 1_000_000


class Built(NamedTuple):
    """What `make dist` makes."""

    wheel: Path
    sources: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    pytest.importorskip("build")
    pytest.importorskip("hatchling")
    place = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(place)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,), (sources,) = place.glob("*.whl"), place.glob("*.tar.gz")
    return Built(wheel, sources)


def test_the_wheel_is_small_and_holds_the_package_and_its_settings(built: Built) -> None:
    assert built.wheel.stat().st_size < MEGABYTE
    names = set(zipfile.ZipFile(built.wheel).namelist())
    own = {name for name in names if not re.match(r"manifold_shap-[^/]+\.dist-info/", name)}
    code = {str(path.relative_to(ROOT)) for path in ROOT.glob("manifold_shap/**/*.py*")}
    expected = {name for name in code if not name.endswith(".pyc")} | {"manifold_shap/py.typed"}
    settings = {f"manifold_shap/{p.relative_to(ROOT)}" for p in ROOT.glob("conf/**/*.yaml")}
    assert len(settings) > 50
    beside = [
        *ROOT.glob("manifold_shap/report/templates/*"),
        *ROOT.glob("manifold_shap/plots/*.mplstyle"),
    ]
    assert len(beside) > 4
    assert own == expected | settings | {str(path.relative_to(ROOT)) for path in beside}
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_the_sources_are_what_the_wheel_is_built_from(built: Built) -> None:
    assert built.sources.stat().st_size < MEGABYTE
    with tarfile.open(built.sources) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    tops = {name.partition("/")[0] for name in names}
    papers = {"README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff"}
    assert tops == {"manifold_shap", "conf", "pyproject.toml", "PKG-INFO", ".gitignore", *papers}


class Place(NamedTuple):
    """An environment with nothing in it but the wheel and what it requires, and a folder."""

    commands: Path
    folder: Path

    def run(self, command: str, *words: str) -> str:
        own = {name: of for name, of in os.environ.items() if not name.startswith("PYTHON")}
        typed = [str(self.commands / command), *words]
        done = subprocess.run(
            typed, cwd=self.folder, capture_output=True, text=True, env=own, timeout=1200
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def install(self, what: str) -> None:
        self.run("python", "-m", "pip", "install", "--quiet", what)


@pytest.fixture(scope="module")
def place(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Place:
    home = tmp_path_factory.mktemp("installed")
    folder = home / "empty"
    folder.mkdir()
    # Another version of Python can be named.
    python = os.environ.get("PACKAGE_PYTHON", sys.executable)
    subprocess.run([python, "-m", "venv", home / "environment"], check=True)
    made = Place(home / "environment" / "bin", folder)
    before = made.run("python", "-m", "pip", "list", "--format=freeze")
    assert "torch" not in before
    made.install(str(built.wheel))
    return made


@pytest.mark.slow
def test_an_empty_environment_runs_both_commands(place: Place) -> None:
    print(place.run("python", "--version"), place.run("python", "-m", "pip", "freeze"))
    place.run("manifold-shap-train", *QUICK, "value_function.max_epochs=1")
    place.run("manifold-shap-explain", *QUICK[:1], "instances=2", "compare=[]", "progress=false")
    results = place.folder / "runs" / "digits" / "surrogate"
    assert (results / "summary.json").exists()
    assert list((results / "plots").glob("*.png"))
    explanation = ms.Explanation.load(results / "explanations.zarr")
    assert explanation.phi.shape[0] == 2
    assert explanation.efficiency_gap < 1e-3


@pytest.mark.slow
def test_an_empty_environment_runs_the_example_of_the_readme(place: Place) -> None:
    example = "\n".join(
        re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    )
    said = place.run("python", "-c", f"{example}\nprint(ms.__file__, ms.__version__)")
    module, version = said.split()[-2:]
    assert str(place.commands.parent) in module
    assert version == ms.__version__
    assert (place.folder / "explanations.zarr").exists()


@pytest.mark.slow
def test_what_is_not_installed_is_named(place: Place) -> None:
    code = """
import torch, manifold_shap as ms
found = ms.exact_shapley(lambda x, mask: x[:, None] * mask, torch.ones(1, 1), progress=False)
for use in (found.to_shap, lambda: found.to_shapiq(0, 0)):
    try:
        use()
    except ImportError as error:
        print(error)
"""
    said = place.run("python", "-c", code)
    assert "pip install 'manifold_shap[shap]'" in said
    assert "pip install 'manifold_shap[shapiq]'" in said


EXPORT = """
import torch, manifold_shap as ms
torch.manual_seed(0)
x, model = torch.randn(64, 3), torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Softmax(-1))
few = {"hidden": [8], "max_epochs": 1, "progress": False}
value = ms.fit_surrogate(model, x, **few)
explainer = ms.fit_amortized(value, x, **few)
"""
ARCHIVE = """
try:
    value.export("v.onnx")
except ImportError as error:
    print(error)
"""
ONNX = """
import onnxruntime
value.export("v.onnx")
explainer.export("phi.onnx")
mask = torch.rand(64, 5, 3) < 0.5
cases = {"v": ({"x": x, "mask": mask}, value(x, mask)), "phi": ({"x": x}, explainer(x))}
for name, (given, expected) in cases.items():
    session = onnxruntime.InferenceSession(f"{name}.onnx")
    (found,) = session.run([name], {key: each.numpy() for key, each in given.items()})
    assert (torch.from_numpy(found) - expected).abs().max() < 1e-5
    print(name, found.shape)
"""


@pytest.mark.slow
def test_an_empty_environment_exports(place: Place, built: Built) -> None:
    assert "pip install 'manifold_shap[export]'" in place.run("python", "-c", EXPORT + ARCHIVE)
    # Last in this file: this environment is then no longer one without extras.
    place.install(f"{built.wheel}[export]")
    said = place.run("python", "-c", EXPORT + ONNX)
    assert said.splitlines()[-2:] == ["v (64, 5, 2)", "phi (64, 3, 2)"]
