"""What tests of exports share: a small explainer, and a file of its model."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.ensemble import HistGradientBoostingClassifier

import manifold_shap as ms

GENERATOR = np.random.default_rng(0)
SIZE = GENERATOR.normal(size=120)
FRAME = pd.DataFrame(
    {
        "size": SIZE,
        "rooms|count": (2 * SIZE + GENERATOR.normal(size=120)).round(),
        "age": GENERATOR.integers(0, 9, 120),
    }
)
MODEL = HistGradientBoostingClassifier(max_iter=5, random_state=0).fit(FRAME, SIZE > 0)


@pytest.fixture(scope="session")
def explainer() -> ms.Explainer:
    return ms.Explainer(MODEL, FRAME, candidates=["gaussian", "empirical"])


@pytest.fixture(scope="session")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "trees.skops"
    skops.io.dump(MODEL, path)
    return path
