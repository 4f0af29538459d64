"""Data sources, one LightningDataModule each, and batches of in-memory tensors."""

from manifold_shap.data.base import TensorDataModule
from manifold_shap.data.components import DigitComponents
from manifold_shap.data.images import MNIST, Digits, FashionMNIST
from manifold_shap.data.tables import CSV, Abalone, Census, Drug, Iris
from manifold_shap.training.batches import loader

__all__ = [
    "CSV",
    "MNIST",
    "Abalone",
    "Census",
    "DigitComponents",
    "Digits",
    "Drug",
    "FashionMNIST",
    "Iris",
    "TensorDataModule",
    "loader",
]
