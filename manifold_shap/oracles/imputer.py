"""Imputes by exact draws from a law: what every other imputer estimates."""

from typing import Any

from manifold_shap.imputers.base import Completions, Imputer, Keys, Mask, Rows
from manifold_shap.oracles.base import ConditionalLaw


class OracleImputer(Imputer):
    """x'_{S̄} ~ p(x' | x_S) of a law that is known, by its exact draws.

    Its reference rows are drawn from the law; v(∅) is the mean over them.

    Attributes:
        law: see `ConditionalLaw`.

    Args:
        law: see `ConditionalLaw`.
        rows: how many reference rows.
        seed: of these.

    >>> import torch
    >>> from manifold_shap.oracles import GaussianMixture
    >>> imputer = OracleImputer(GaussianMixture.random(3), rows=100)
    >>> x, mask = torch.zeros(1, 3), torch.tensor([[[True, False, True]]])
    >>> imputer.impute(x, mask, range(5), keys=torch.tensor([[0]])).rows.shape
    torch.Size([1, 1, 5, 3])

    Raises:
        TypeError: `law` is no law.
        TypeError, ValueError: `rows` is no whole number of at least 1, or `seed` no seed.
    """

    name = "oracle"

    def __init__(self, law: ConditionalLaw, rows: int = 2**14, seed: int = 0) -> None:
        super().__init__(check_law(law).sample(rows, seed).x, law.players)
        self.law = law

    @property
    def provenance(self) -> dict[str, Any]:
        return {"law": self.law.name}

    def impute(self, x: Rows, mask: Mask, draws: range, keys: Keys) -> Completions:
        """Complete each coalition by exact draws; see `Imputer.impute`."""
        return Completions(self.law.draw(x, mask, draws, keys).x)


def check_law(law: Any) -> ConditionalLaw:
    """A law of data; TypeError for anything else."""
    if not isinstance(law, ConditionalLaw):
        raise TypeError(
            f"Expected `law` to be a law of `ms.oracles` but got {law!r:.100}; take, for example, "
            "`ms.oracles.GaussianMixture.random(10)`."
        )
    return law
