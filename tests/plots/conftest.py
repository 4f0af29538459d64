"""Explanations that several tests of figures draw."""

import pytest

import manifold_shap as ms
from tests.plots import helpers


@pytest.fixture
def digits() -> ms.Explanation:
    return helpers.digits()


@pytest.fixture
def patches() -> ms.Explanation:
    return helpers.patches()


@pytest.fixture
def people() -> ms.Explanation:
    return helpers.table()
