"""Builds the examples of Noé et al. (2024), Section 6: an iris and two digits, with an SVM each."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from torch import Tensor

import manifold_shap as ms
from manifold_shap.tables.rows import EncodedRows, encoded

# Test rows in the authors' published code.
IRIS_ROW, DIGIT_ROW = 13, 10


@dataclass(frozen=True)
class Example:
    """Rows of a data set, of which one is explained.

    Attributes:
        x_train: of the SVM, and donors.
        y_train: classes by number.
        x: the row.
        row: its position among the test rows.
        features, classes: names.
        table: whose codes the rows are, where the features have units of their own.
    """

    x_train: Float[Tensor, "rows features"]
    y_train: Any
    x: Float[Tensor, "1 features"]
    row: int
    features: Sequence[str]
    classes: Sequence[str]
    table: ms.Table | None = None

    def value(self, seed: int) -> ms.ImputedValue:
        """Off the manifold, of an SVM with this seed of its calibration."""
        players = ms.Players.of_elements((len(self.features),), self.features)
        imputer = ms.imputers.MarginalImputer(self.x_train, players)
        imputer.table, seen = self.table, encoded(self.x_train, self.table)
        with warnings.catch_warnings():
            # scikit-learn has announced the end of probabilities by pairwise coupling.
            warnings.filterwarnings("ignore", "The `probability` parameter", FutureWarning)
            svm = SVC(probability=True, random_state=seed).fit(seen.numpy(), self.y_train)
        takes = None if self.table is None else EncodedRows(self.table)
        model = ms.as_model(svm, self.x_train[:8], self.classes, table=takes)
        return ms.imputed_value(model, imputer, "ilr", draws=len(self.x_train))

    def explain(self, seed: int) -> ms.Explanation:
        """Exactly."""
        return ms.exact_shapley(self.value(seed), self.x).with_labels([self.row])

    def sample(self, seed: int, samples: int) -> ms.Explanation:
        """By the paper's estimator (Algorithm 2): a feature, an order and a donor at a time."""
        value = self.value(seed)
        one = ms.imputed_value(value.model, value.imputer, "ilr", draws=1, seed=seed)
        return ms.adaptive_shapley(one, self.x, samples=samples, seed=seed)


def iris(scaled_by: str) -> Example:
    """A versicolor; features are scaled by `all` irises, as in the paper, or by `training` rows."""
    table = load_iris(as_frame=True)
    fit_rows, test_rows, y_train, _ = train_test_split(
        table.data, table.target.to_numpy(), test_size=0.2, random_state=0
    )
    # By it, plots tell features in centimetres.
    columns = ms.Table.fit(table.data if scaled_by == "all" else fit_rows)
    x = columns.rows(test_rows.iloc[[IRIS_ROW]])
    classes = [str(name) for name in table.target_names]
    return Example(columns.rows(fit_rows), y_train, x, IRIS_ROW, columns.names, classes, columns)


def digits(classes: int) -> Example:
    """Six principal components of a digit, of so many classes from 0 on."""
    images = load_digits(n_class=classes)
    scaled = StandardScaler().fit_transform(images.data)
    components = PCA(6, svd_solver="full").fit_transform(scaled)
    x_train, x, y_train, _ = train_test_split(
        torch.from_numpy(components).float(), images.target, test_size=0.2, random_state=0
    )
    names = [f"PC{k + 1}" for k in range(6)]
    return Example(
        x_train, y_train, x[DIGIT_ROW, None], DIGIT_ROW, names, [str(k) for k in range(classes)]
    )
