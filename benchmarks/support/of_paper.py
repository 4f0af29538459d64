"""The classifiers of App. B of Frye et al. (2021), each with its data set."""

from typing import Any

from sklearn.ensemble import RandomForestClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.support.trained import Trained


def of_paper(name: str) -> Trained:
    """A data set with its classifier.

    Args:
        name: abalone, census, drug or mnist.
    """
    hidden = {"abalone": 100, "census": 50, "mnist": 512}
    recipe: Any = RandomForestClassifier(max_features=None, random_state=0)
    if name in hidden:
        recipe = MLPClassifier((hidden[name],), early_stopping=True, random_state=0)
    if name in ("abalone", "census"):
        # Columns of tables have the units of their files.
        recipe = make_pipeline(StandardScaler(), recipe)
    trained = Trained(name, 0, lambda x, y: recipe.fit(x.flatten(1).numpy(), y.numpy()))
    if name == "drug":
        trained.tabulate()
    return trained
