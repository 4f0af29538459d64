"""Files beside the package that repeat what it says: recipe and citation."""

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BUILD = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
RECIPE = yaml.safe_load((ROOT / ".conda" / "meta.yaml").read_text())
# Packages whose names differ there.
ON_CONDA = {"torch": "pytorch", "matplotlib": "matplotlib-base", "lazy_loader": "lazy-loader"}


def bounds(requirements: list[str]) -> dict[str, str]:
    found = {}
    for each in map(Requirement, requirements):
        found[ON_CONDA.get(each.name, each.name)] = str(each.specifier)
    return found


def test_the_recipe_requires_what_the_package_requires() -> None:
    python = [f"python{PROJECT['requires-python']}"]
    run = bounds(RECIPE["requirements"]["run"])
    assert run == bounds([*PROJECT["dependencies"], *python])
    assert bounds(RECIPE["requirements"]["host"]) == bounds([*BUILD, *python, "pip"])


def test_the_version_of_the_recipe_is_that_of_the_package() -> None:
    called = RECIPE["package"]["version"]
    place, pattern = re.findall(r'="([^"]+)"', called)
    found = re.search(pattern, (ROOT / ".conda" / place).read_text())
    assert found is not None
    version: dict[str, str] = {}
    exec((ROOT / "manifold_shap" / "_version.py").read_text(), version)
    assert found[1] == version["__version__"]


def test_the_citation_is_of_this_package() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["title"] == PROJECT["name"]
    assert cited["abstract"] == PROJECT["description"]
    assert cited["license"] == PROJECT["license"]
    assert cited["keywords"] == PROJECT["keywords"]
    # Of a release alone is a version cited: the releaser adds it with its date.
    assert ("version" in cited) == ("date-released" in cited)
