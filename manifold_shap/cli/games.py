"""Changes value functions as the settings of `explain.py` say: groups, causes, log-ratios."""

from typing import Any, cast

import torch

import manifold_shap as ms
from manifold_shap._messages import check_choice
from manifold_shap.cli.run import plain
from manifold_shap.data import Data
from manifold_shap.imputers import CausalImputer
from manifold_shap.simplex.dendrogram import cluster_classes
from manifold_shap.simplex.partition import Partition
from manifold_shap.spaces import ILR
from manifold_shap.values import reference_space

_ROWS_AT_A_TIME = 8192
# Superpixels of a picture, at most.
_SEGMENTS = 50


def in_groups(value: ms.ValueFunction, data: Data, groups: str | None) -> ms.ValueFunction:
    """The value function, with players of each row in groups: superpixels, words or sentences.

    Raises:
        ValueError: rows of these data have no such groups.
    """
    if groups is None:
        return value
    own, known = data.vocabulary, dict[str, Any]()
    if data.kind == "pictures":
        known = {"superpixels": ms.superpixels(_SEGMENTS)}
    if own is not None:
        known = {"words": own.words, "sentences": own.sentences}
    labels, count = known[check_choice("groups", groups, list(known))], _SEGMENTS
    if own is not None:
        count = int(labels(torch.cat((data.x_train, data.x_validation, data.x_test))).max()) + 1
    return value.grouped(labels, count)


def causal(value: ms.ValueFunction, ordering: Any, confounding: Any) -> ms.ValueFunction:
    """The value function with interventions, where `confounding` is given.

    Raises:
        TypeError, ValueError: the ordering is none of these players, or there is no imputer whose
            draws could obey it.
    """
    if confounding is None:
        return value
    imputer = getattr(value, "imputer", None)
    if imputer is None:
        raise ValueError(
            "Expected value functions with an imputer for causal values (`confounding`), such as "
            f"vae, gaussian or empirical, but {value.name!r} has none."
        )
    imputer = CausalImputer(imputer, ordering, confounding)
    return cast(ms.ImputedValue, value).replaced(imputer=imputer, name=None)


def ordering_of(ordering: Any) -> Any:
    """The components of players, or their causes; a number stands for the name that reads so."""

    def named(entry: Any) -> Any:
        if isinstance(entry, dict):
            return {str(effect): named(causes) for effect, causes in entry.items()}
        return [named(each) for each in entry] if isinstance(entry, list) else str(entry)

    return None if ordering is None else named(plain(ordering))


def basis_of(basis: Any, data: Data, model: ms.Model, value: ms.ValueFunction) -> Partition | None:
    """The partition of the classes that `basis` means; None for the value function's own.

    Raises:
        ValueError: it is no binary tree of the classes, or the value function is not on log-ratios.
    """
    if basis is None:
        return None
    if value.space.partition(value.classes) is None:
        raise ValueError(
            f"Expected a value function with space='ilr' together with `basis` but {value.name!r} "
            f"has space={value.space.name!r}; train it with space=ilr."
        )
    if basis != "dendrogram":
        return Partition.of_tree(plain(basis), value.classes)
    log_ratios = reference_space(model, ILR(), data.x_train)
    parts = data.x_train.split(_ROWS_AT_A_TIME)
    compositions = torch.cat([ms.simplex.ilr_inv(log_ratios(model(rows))) for rows in parts])
    return cluster_classes(compositions, data.y_train, value.classes)
