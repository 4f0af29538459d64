"""Puts the fault in that the environment names: `FAULT=<name> pytest -p tests.faults.plugin`."""

import os

import pytest

from tests.faults.faults import FAULTS, put_in


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart() -> None:
    """After `tests/conftest.py`, whose checks of shapes have to come before the package itself."""
    if name := os.environ.get("FAULT"):
        put_in(FAULTS[name])
