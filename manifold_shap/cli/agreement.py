"""Compares the settings of a call with those that a run has recorded."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from manifold_shap.cli import registry
from manifold_shap.cli.directory import damaged, differences
from manifold_shap.cli.registry import Source

Settings = Mapping[str, Any]


def classifier_part(config: Settings) -> dict[str, Any]:
    """The part of a configuration that decides the classifier."""
    return {key: config.get(key) for key in ("seed", "data", "rows", "classifier")}


def agreed(
    settings: Settings, config: Settings | None, given: Sequence[str], place: Path
) -> dict[str, Any]:
    """The recorded settings of a value function, with those that the user gave where possible."""
    if config is None:
        return dict(settings)
    recorded = config["value_function"]
    if unknown := set(recorded) - set(settings):
        raise damaged(place, f"unknown settings {sorted(unknown)}")
    if registry.is_trained(settings):
        fixed = set(settings) - Source(dict(settings)).free
        there, here = ({key: some.get(key) for key in fixed} for some in (recorded, settings))
        named = [*given, "value_function._target_"]
        check_given({"value_function": there}, {"value_function": here}, named, place)
    # What a file says is never imported.
    chosen = [key for key in settings if f"value_function.{key}" in given or key.startswith("_")]
    return {**settings, **recorded, **{key: settings[key] for key in chosen}}


def check_given(
    there: Settings,
    here: Settings,
    given: Sequence[str],
    place: Path,
    groups: Sequence[str] = ("value_function",),
) -> None:
    """Raise ValueError if a setting that the user gave is another one than that of the run."""
    changes = [
        change
        for group in groups
        for change in differences(there[group], here[group], group)
        if change.split(":")[0] in given
    ]
    if changes:
        raise ValueError(
            f"Expected the settings that {place} was trained with, but this call says otherwise "
            f"({'; '.join(changes)}); leave them out, or train with them (runs_dir=... keeps both)."
        )


def check_same_model(there: Settings, here: Settings, serves_any_model: bool, place: Path) -> None:
    """Raise ValueError unless a run was for the same model of the user's own, or for none."""
    recorded, own = there["classifier"], here["classifier"]
    if serves_any_model or "checksum" not in {**recorded, **own} or recorded == own:
        return
    of = {key: entry for key, entry in recorded.items() if key in ("path", "call")}
    raise ValueError(
        f"Expected the model that {place} was made for ({of or 'one that was trained there'}) but "
        f"got {own.get('path') or own.get('call') or 'no `model`'}, or its file has changed; give "
        "model=file model.path=... of the same one, or another runs_dir or data.name."
    )
