"""Adds the columns that hold one value to explanations, as players of no contribution."""

from dataclasses import replace
from typing import Any

import torch

from manifold_shap.explanation import Explanation
from manifold_shap.players import Players
from manifold_shap.tables.rows import codebook_of, constant_players


def with_constants(explanation: Explanation) -> Explanation:
    """The explanation of rows of codes, with the constant columns of their table as players.

    A constant in a group with columns that vary belongs to their player.

    >>> import pandas as pd
    >>> from manifold_shap import Codebook, as_model, exact_shapley, imputed_value, table_imputer
    >>> from manifold_shap import MarginalImputer
    >>> frame = pd.DataFrame({"size": [1, 2, 3], "year": 2024})
    >>> codebook = Codebook.fit(frame)
    >>> model = as_model(lambda frame: frame["size"], codebook, returns="values")
    >>> imputer = table_imputer(MarginalImputer, codebook, frame)
    >>> explanation = exact_shapley(imputed_value(model, imputer, "identity", 3), frame)
    >>> explanation.players.names, explanation.phi[0].flatten()
    (('size', 'year'), tensor([-1.,  0.], dtype=torch.float64))
    """
    codebook, players = codebook_of(explanation.schema), explanation.players
    if codebook is None or not codebook.constants or players.by_row:
        return explanation
    alone = constant_players(players, codebook)
    whole, many = codebook.with_constants(), len(codebook.players)
    # Each column's player of the codebook; a constant in a group with others is their player's.
    index = whole.players.index.tolist()
    owners = [
        players.index[index.index(player)] if player < many else len(players) + player - many
        for player in index[len(codebook.names) :]
    ]
    made: dict[str, Any] = {}
    for name in ("phi", "standard_error", "covariance", "x"):
        known = vars(explanation)[name]
        if known is not None:
            more = len(owners) if name == "x" else len(alone)
            made[name] = torch.cat((known, known.new_zeros(len(known), more, *known.shape[2:])), 1)
    every = Players([*players.names, *alone], torch.cat((players.index, torch.tensor(owners))))
    return replace(explanation, **made, players=every, schema=whole)
