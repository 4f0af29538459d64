"""Makes the games that `explain.py` explains: value functions, changed as its settings say."""

from collections.abc import Mapping
from typing import Any, cast

import torch

from manifold_shap import simplex
from manifold_shap._messages import check_choice
from manifold_shap.cli import registry
from manifold_shap.cli.run import Run
from manifold_shap.imputers import CausalImputer
from manifold_shap.plots.simplex import balance_positions
from manifold_shap.simplex.dendrogram import cluster_classes
from manifold_shap.simplex.partition import Partition
from manifold_shap.spaces import ILR
from manifold_shap.values import ImputedValue, LogRatioOfMean, ValueFunction, reference_space

Settings = Mapping[str, Any]
Games = dict[str, ValueFunction]

_ROWS_AT_A_TIME = 8192


def make_games(run: Run) -> tuple[Games, Games]:
    """The value functions to explain, by name, in the order to draw them.

    Returns:
        The value functions themselves, and with the interventions or the log-ratios that the
        settings ask for.

    Raises:
        TypeError, ValueError: they cannot be what the settings ask for, or not side by side.
    """
    settings, compare = run.settings, run.settings["compare"]
    names = [compare] if isinstance(compare, str) else list(compare or [])
    names = list(dict.fromkeys(names if run.name in names else [run.name, *names]))
    main, device = run.value(run.source), settings["device"]
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    values: Games = {}
    for name in names:
        source = run.source
        if name != run.name:
            source = run.find(registry.defaults("value_function", name))
        run.drawn[name] = source
        values[name] = main if name == run.name else run.value(source, main.space)
        values[name].to(device)
    if len({type(value.space) for value in values.values()}) > 1:
        spaces = {name: value.space.name for name, value in values.items()}
        raise ValueError(
            f"Expected value functions in one output space to draw side by side but got {spaces}; "
            "train them with the same `space`, or leave one out of `compare`."
        )
    values = in_precision(values, settings["precision"])
    games = {name: causal(value, settings) for name, value in values.items()}
    return values, {name: on_simplex(value, settings) for name, value in games.items()}


def in_precision(values: Games, precision: str) -> Games:
    """The value functions, with products of surrogates in this precision.

    Raises:
        ValueError: it is not known, the device does not have it, or there is no surrogate.
    """
    if precision == "32-true":
        return values
    changed = {name: value.in_precision(precision) for name, value in values.items()}
    if precision != "auto" and all(changed[name] is values[name] for name in values):
        raise ValueError(
            f"Expected a surrogate for precision={precision} but got {list(values)}; leave "
            "`precision` out."
        )
    return changed


def in_groups(values: Games, run: Run) -> Games:
    """The value functions, with the players of each row in groups that its source knows by name.

    Raises:
        ValueError: it knows no such groups.
    """
    known = run.data.groupings
    if not known:
        raise ValueError(
            f"Expected `groups` of pictures or texts but {run.data.name} has none; put columns "
            "together by players={size: [length, width]}."
        )
    labels, count = known[check_choice("groups", run.settings["groups"], list(known))]()
    return {name: value.grouped(labels, count) for name, value in values.items()}


def causal(value: ValueFunction, settings: Settings) -> ValueFunction:
    """The value function with interventions, where `confounding` is given.

    Raises:
        TypeError, ValueError: the ordering is none of these players, or there is no imputer whose
            draws could obey it.
    """
    if settings["confounding"] is None:
        return value
    imputer = getattr(value, "imputer", None)
    if imputer is None:
        raise ValueError(
            "Expected value functions with an imputer for causal values (`confounding`), such as "
            f"vae, gaussian or empirical, but {value.name!r} has none."
        )
    causal = CausalImputer(imputer, ordering_of(settings), settings["confounding"])
    return cast(ImputedValue, value).replaced(imputer=causal, name=None)


def on_simplex(value: ValueFunction, settings: Settings) -> ValueFunction:
    """The value function, or the log-ratios of its mean, where the settings ask for these.

    Raises:
        ValueError: it is in another output space than the settings are for.
    """
    if settings["log_ratio_of_mean"]:
        return LogRatioOfMean(value, settings["value_function"]["zero_replacement"])
    asked = settings["basis"] is not None or settings["balances"] is not None
    if asked and value.space.partition(value.classes) is None:
        raise ValueError(
            "Expected a value function with space='ilr' together with `basis` or `balances` but "
            f"{value.name!r} has space={value.space.name!r}; train it with "
            "value_function.space=ilr, or give log_ratio_of_mean=true."
        )
    return value


def ordering_of(settings: Settings) -> Any:
    """The components of players, or their causes; a number stands for the name that reads so."""

    def named(entry: Any) -> Any:
        if isinstance(entry, dict):
            return {str(effect): named(causes) for effect, causes in entry.items()}
        return [named(each) for each in entry] if isinstance(entry, list) else str(entry)

    return None if settings["ordering"] is None else named(settings["ordering"])


def basis_of(run: Run, value: ValueFunction) -> Partition | None:
    """The partition of the classes that `basis` means; None for the value function's own.

    Raises:
        ValueError: it is no binary tree of the classes, or `balances` are not of it.
    """
    basis, balances, tree = run.settings["basis"], run.settings["balances"], None
    if basis == "dendrogram":
        own = ILR(run.settings["value_function"]["zero_replacement"])
        log_ratios = reference_space(run.model, own, run.data.x_train)
        parts = run.data.x_train.split(_ROWS_AT_A_TIME)
        compositions = torch.cat([simplex.ilr_inv(log_ratios(run.model(rows))) for rows in parts])
        tree = cluster_classes(compositions, run.data.y_train, value.classes)
    elif basis is not None:
        tree = Partition.of_tree(basis, value.classes)
    if balances is not None:
        if not isinstance(balances, list) or len(balances) not in (2, 3):
            raise ValueError(
                "Expected `balances` to list two or three, for a plane or a space, but got "
                f"{balances!r}."
            )
        chosen = tree or value.space.partition(value.classes)
        balance_positions(chosen.names if chosen else (), balances)
    return tree
