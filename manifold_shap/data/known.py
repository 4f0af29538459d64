"""Draws data sets from laws that are known: see `manifold_shap.oracles`."""

from pathlib import Path
from typing import Unpack

import torch

from manifold_shap import _random, oracles
from manifold_shap._checks import check_seed, check_whole
from manifold_shap._messages import check_choice, check_text
from manifold_shap.data import sources
from manifold_shap.data.base import Settings, Table, TensorDataModule


class GaussianMixture(TensorDataModule):
    """Rows of a random Gaussian mixture; the class of a row is its component.

        >>> data = GaussianMixture(rows=100, elements=4)
        >>> data.setup()
        >>> data.x_train.shape, data.classes
        (torch.Size([70, 4]), ('0', '1', '2'))

    Attributes:
        law: of the rows, which are as the law has them: `oracles.true_value(model, data.law)`.

    Args:
        rows: how many.
        elements: of a row.
        components: of the mixture.
        law: seed of the law, see `oracles.GaussianMixture.random`.
        **settings: see `TensorDataModule`; its `seed` draws the rows, too.

    Raises:
        TypeError, ValueError: a setting that cannot be.
    """

    name = "gaussian_mixture"

    def __init__(
        self,
        *,
        rows: int = 3000,
        elements: int = 10,
        components: int = 3,
        law: int = 0,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(**settings)
        self.rows = check_whole("rows", rows)
        self.elements = check_whole("elements", elements)
        self.components = check_whole("components", components, 2)
        self.law = oracles.GaussianMixture.random(elements, components, check_seed(law, "law"))

    def read(self) -> Table:
        x, y = self.law.sample(self.rows, self.seed)
        return Table(x, y, self.law.classes, players=self.law.players)


class BayesianNetwork(TensorDataModule):
    """Rows of a discrete Bayesian network; the class of a row is the state of one variable.

    The table has the names of states. `law.rows(schema.decode(x))` makes rows of the law of encoded
    ones, and value functions take `schema.decode(x)` as they take `x`.

    Attributes:
        law: of the rows, after `setup`.

    Args:
        path: a `.bif` file, see `oracles.read_bif`. Its name is the default of `name`.
        target: the variable to predict; all others are players.
        rows: how many.
        **settings: see `TensorDataModule`; its `seed` draws the rows, too.

    Raises:
        TypeError, ValueError: a setting that cannot be.
    """

    name = "bayesian_network"
    law: oracles.BayesianNetwork

    def __init__(
        self, *, path: str, target: str, rows: int = 10_000, **settings: Unpack[Settings]
    ) -> None:
        self.path, self.target = check_text("path", path), str(target)
        self.rows = check_whole("rows", rows)
        self.name = Path(self.path.removesuffix(".gz")).stem
        super().__init__(**settings)

    def read(self) -> Table:
        """Rows of the network.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: the file is no network, or `target` is none of its variables.
        """
        file = sources.located(self.root, self.path)
        self.law = oracles.BayesianNetwork.read(file, self.target)
        x, y = self.law.sample(self.rows, self.seed)
        return Table(self.law.frame(x), y, self.law.classes, target=self.target)


class Mixture(TensorDataModule):
    """A messy table drawn from a known law: numbers, a date, text, missing cells; see
    `oracles.LatentClasses`.

        >>> Mixture(rows=100).read().features["grade"].dtype.ordered
        True

    Args:
        rows: how many.
        law: seed of the law.
        task: "classification": whether a row buys, with log-odds of `LatentClasses.score`;
            or "regression": what it spends, that score with normal noise of standard deviation 1/2.
        **settings: see `TensorDataModule`; its `seed` draws the rows, too.
    """

    name = "mixture"

    def __init__(
        self,
        *,
        rows: int = 3000,
        law: int = 0,
        task: str = "classification",
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(**settings)
        self.task = check_choice("task", task, ("classification", "regression"))
        self.rows = check_whole("rows", rows)
        self.law = oracles.LatentClasses(law)

    def read(self) -> Table:
        x = self.law.sample(self.rows, self.seed).x
        frame, score = self.law.frame(x), self.law.score(x).float()
        keys = _random.fold(torch.full((self.rows,), self.seed), torch.arange(self.rows))
        noise = _random.uniform(keys, ())
        if self.task == "regression":
            return Table(frame, score + _random.to_normal(noise) / 2, target="spending")
        return Table(frame, (noise < score.sigmoid()).long(), ("leaves", "buys"))
