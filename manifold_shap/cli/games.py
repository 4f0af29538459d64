"""Changes value functions as the settings of `explain.py` say: causes, log-ratios, groups."""

from collections.abc import Mapping
from typing import Any, cast

import torch

from manifold_shap import simplex
from manifold_shap._messages import check_choice
from manifold_shap.cli.run import Run, plain
from manifold_shap.imputers import CausalImputer
from manifold_shap.plots.simplex import balance_positions
from manifold_shap.segmentation import superpixels
from manifold_shap.simplex.dendrogram import cluster_classes
from manifold_shap.simplex.partition import Partition
from manifold_shap.spaces import ILR
from manifold_shap.values import ImputedValue, LogRatioOfMean, ValueFunction, reference_space

Settings = Mapping[str, Any]
Games = dict[str, ValueFunction]

_ROWS_AT_A_TIME = 8192
# Superpixels of a picture, at most.
_SEGMENTS = 50


def in_groups(values: Games, run: Run) -> Games:
    """The value functions, with players of each row in groups: superpixels, words or sentences.

    Raises:
        ValueError: rows of these data have no such groups.
    """
    data, own = run.data, run.data.vocabulary
    known: dict[str, Any] = {}
    if data.kind == "pictures":
        known = {"superpixels": superpixels(_SEGMENTS)}
    if own is not None:
        known = {"words": own.words, "sentences": own.sentences}
    if not known:
        raise ValueError(
            f"Expected `groups` of pictures or texts but {data.name} has none; put columns "
            "together by players={size: [length, width]}."
        )
    labels, count = known[check_choice("groups", run.cfg.groups, list(known))], _SEGMENTS
    if own is not None:
        count = int(labels(torch.cat((data.x_train, data.x_validation, data.x_test))).max()) + 1
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
        return LogRatioOfMean(value, settings["zero_replacement"])
    asked = settings["basis"] is not None or settings["balances"] is not None
    if asked and value.space.partition(value.classes) is None:
        raise ValueError(
            "Expected a value function with space='ilr' together with `basis` or `balances` but "
            f"{value.name!r} has space={value.space.name!r}; train it with space=ilr, or give "
            "log_ratio_of_mean=true."
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
    basis, balances, tree = plain(run.cfg.basis), plain(run.cfg.balances), None
    if basis == "dendrogram":
        x = run.data.x_train
        log_ratios = reference_space(run.model, ILR(run.cfg.zero_replacement), x)
        parts = x.split(_ROWS_AT_A_TIME)
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
