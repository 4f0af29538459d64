"""All parts of the reference: functions from the stored inputs to named results."""

from collections.abc import Callable, Mapping

from tests.reference import commands, figures, games, imputed, learned, rows, stores, tables
from tests.reference.compare import Inputs, Results

PARTS: Mapping[str, Callable[[Inputs], Results]] = {
    "games": games.estimated_games,
    "interactions": games.interactions,
    "orders": games.orders,
    "laws": games.laws,
    "audits": games.audits,
    "imputers": imputed.imputed,
    "imputers of many players": imputed.many_players,
    "exact match": imputed.exact_match,
    "retrained": imputed.retrained,
    "models": imputed.own_games,
    "trainings": learned.trainings,
    "surrogates": learned.surrogates,
    "vaes": learned.vaes,
    "amortised": learned.amortised,
    "rows in files": learned.rows_in_files,
    "padded rows": rows.padded,
    "players by row": rows.by_row,
    "frames": tables.frames,
    "fitted to frames": tables.fitted,
    "front door": tables.front_door,
    "compositions": figures.compositions,
    "geometry": figures.geometry,
    "naive Bayes": figures.naive_bayes,
    "scores": figures.scores,
    "global values": figures.global_figures,
    "oracles": figures.oracles,
    "explanations": stores.explanations,
    "learned things in files": stores.learned,
    "explainers in folders": stores.explainers,
    "commands": commands.commands,
}
