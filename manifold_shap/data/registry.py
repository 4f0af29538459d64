"""Names the data sets, and loads one by its name."""

from inspect import signature
from pathlib import Path
from typing import Any

from manifold_shap._messages import check_choice
from manifold_shap.data import pictures, tables, texts, time_series
from manifold_shap.data.base import Data

# Functions that make data sets, by name: one may be added.
SOURCES = {
    name: getattr(module, name)
    for module, names in {
        tables: "iris drug abalone census diabetes bike digit_components gaussian_mixture table",
        pictures: "digits mnist fashion_mnist image_folder",
        time_series: "series",
        texts: "text",
    }.items()
    for name in names.split()
}


def load(source: str, *, name: str | None = None, **settings: Any) -> Data:
    """A data set by its name, split and encoded.

    Args:
        source: a name in `SOURCES`.
        name: of the data; by default that of the file, or else the source's.
        settings: arguments of the source, such as the `path` of a table, and of `Data`, such as
            `seed`.

    Raises:
        FileNotFoundError: the data are in none of the places and could not be fetched.
        TypeError, ValueError: a setting that the source does not have, or that cannot be; see
            `Data`.

    >>> data = load("iris", test=0.4)
    >>> data.x_train.shape, data.classes
    (torch.Size([75, 4]), ('setosa', 'versicolor', 'virginica'))
    """
    of_data = {k: settings.pop(k) for k in signature(Data).parameters if k in settings}
    found = SOURCES[check_choice("source", source, list(SOURCES))](**settings)
    return Data(found, name=name or Path(settings.get("path", source)).stem, **of_data)
