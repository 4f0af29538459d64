"""Data sources, one class each, and batches of in-memory tensors."""

from manifold_shap.data.base import Table, TensorDataModule
from manifold_shap.data.csv import CSV
from manifold_shap.data.images import MNIST, DigitComponents, Digits, FashionMNIST
from manifold_shap.data.mixture import Mixture, MixtureLaw
from manifold_shap.data.tables import Abalone, Bike, Census, Diabetes, Drug, Iris
from manifold_shap.training.batches import loader

__all__ = [
    "CSV",
    "MNIST",
    "Abalone",
    "Bike",
    "Census",
    "Diabetes",
    "DigitComponents",
    "Digits",
    "Drug",
    "FashionMNIST",
    "Iris",
    "Mixture",
    "MixtureLaw",
    "Table",
    "TensorDataModule",
    "loader",
]
