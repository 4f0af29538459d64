"""Draws data sets from a law that is known: see `manifold_shap.oracles`."""

from typing import Unpack

from manifold_shap import oracles
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
        self.rows, self.elements, self.components = rows, elements, components
        self.law = oracles.GaussianMixture.random(elements, components, law)

    def read(self) -> Table:
        x, y = self.law.sample(self.rows, self.seed)
        return Table(x, y, self.law.classes, players=self.law.players)
