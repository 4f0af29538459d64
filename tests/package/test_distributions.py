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
    files = [path for path in ROOT.glob("manifold_shap/**/*") if path.is_file()]
    code = {str(path.relative_to(ROOT)) for path in files if path.suffix != ".pyc"}
    settings = {f"manifold_shap/{p.relative_to(ROOT)}" for p in ROOT.glob("conf/**/*.yaml")}
    assert settings
    assert own == code | settings
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
    made.run("python", "-m", "pip", "install", "--quiet", str(built.wheel))
    return made


@pytest.mark.slow
def test_an_empty_environment_runs_both_commands(place: Place) -> None:
    print(place.run("python", "--version"), place.run("python", "-m", "pip", "freeze"))
    place.run("manifold-shap-train", *QUICK, "value_function.max_epochs=1")
    place.run("manifold-shap-explain", *QUICK[:1], "instances=2", "compare=[]", "progress=false")
    results = place.folder / "runs" / "digits" / "surrogate"
    assert (results / "summary.json").exists()
    assert list((results / "plots").glob("*.png"))
    explanation = ms.Explanation.load(results / "explanations.zarr.zip")
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
    assert (place.folder / "waterfall.png").exists()
