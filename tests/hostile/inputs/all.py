"""All tables, by what is hostile in them."""

from collections.abc import Sequence

from tests.hostile.inputs import (
    commands,
    engines,
    files,
    frames,
    masks,
    rows,
    settings,
    sources,
    values,
)
from tests.hostile.inputs.table import Input

KINDS: dict[str, Sequence[Input]] = {
    "rows": rows.INPUTS,
    "masks and laws of coalitions": masks.INPUTS,
    "seeds, budgets and options": settings.INPUTS,
    "models, callables, players, groups and orderings": values.INPUTS,
    "data frames": frames.INPUTS,
    "stores, checkpoints, folders and model files": files.INPUTS,
    "tables, pictures, texts, series and networks on disk": sources.INPUTS,
    "paths, labels, executors and interrupted work of many rows": engines.INPUTS,
    "words on the command line and tampered run directories": commands.INPUTS,
}
