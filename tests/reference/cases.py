"""All parts of the reference: functions that give results by their names."""

from collections.abc import Callable, Mapping
from typing import Any

from tests.reference import commands, figures, games, imputed, learned, tables

PARTS: Mapping[str, Callable[[], dict[str, Any]]] = {
    part.__name__: part
    for part in (
        *(games.estimated_games, games.interactions, games.orders, games.laws, games.audits),
        *(imputed.imputed, imputed.gaussian, imputed.many_players, imputed.discrete),
        *(imputed.padded, imputed.pictures),
        *(learned.trainings, learned.other_trainings, learned.surrogates),
        *(learned.vaes, learned.amortised),
        *(tables.explainers, tables.fitted, tables.stores),
        *(figures.scores, figures.global_figures, commands.commands),
    )
}
