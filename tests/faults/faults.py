"""Faults: changes of what a public function or method does, each of which tests must find.

They name public doors, not lines of the source, so that a refactoring breaks none of them. Each is
a wrong number or a broken promise of a docstring, some gross and some subtle.
"""

import copy
import functools
import importlib
import inspect
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any, NamedTuple

import torch
from omegaconf import OmegaConf
from torch import Tensor

Function = Callable[..., Any]


class Fault(NamedTuple):
    """What is wrong.

    Attributes:
        room: the directory or the module that it is in.
        target: module and name of a function, or of a method of a class: "module:Class.method".
        change: from the original to what takes its place.
    """

    room: str
    target: str
    change: Callable[[Function], Function]


def given(**changes: Any) -> Callable[[Function], Function]:
    """Other arguments: a function of what the caller gives, or the same whatever that is."""

    def change(original: Function) -> Function:
        signature = inspect.signature(original)
        unknown = changes.keys() - signature.parameters
        assert not unknown, f"{original} has no {unknown}"

        @functools.wraps(original)
        def wrong(*args: Any, **kwargs: Any) -> Any:
            call = signature.bind(*args, **kwargs)
            call.apply_defaults()
            for name, each in changes.items():
                call.arguments[name] = each(call.arguments[name]) if callable(each) else each
            return original(*call.args, **call.kwargs)

        return wrong

    return change


def result(alter: Callable[..., Any]) -> Callable[[Function], Function]:
    """Another result: a function of what it should be and, by their names, of the arguments."""

    def change(original: Function) -> Function:
        @functools.wraps(original)
        def wrong(*args: Any, **kwargs: Any) -> Any:
            call = inspect.signature(original).bind(*args, **kwargs).arguments
            return alter(original(*args, **kwargs), call)

        return wrong

    return change


def attributes(**changes: Callable[[Any], Any]) -> Callable[[Function], Function]:
    """Other attributes of a result."""

    def alter(found: Any, call: dict[str, Any]) -> Any:
        found = copy.copy(found)
        for name, each in changes.items():
            object.__setattr__(found, name, each(getattr(found, name)))
        return found

    return result(alter)


def values(alter: Callable[[Tensor], Tensor]) -> Callable[[Function], Function]:
    """Other values of a value function."""
    return result(lambda found, call: found.map(alter, lambda variance: variance))


def too_small(errors: Tensor) -> Tensor:
    return 0.7 * errors


def towards_equal_shares(phi: Tensor) -> Tensor:
    return 0.98 * phi + 0.02 * phi.nanmean(1, keepdim=True)


def last_exchanged(these: Any) -> Any:
    """The last two of three or more outputs, one in the place of the other."""
    if isinstance(these, Tensor):
        order = last_exchanged(tuple(range(these.shape[-1])))
        return these[..., list(order)]
    return these if len(these) < 3 else (*these[:-2], these[-1], these[-2])


def weights_off(thing: Any) -> Any:
    thing = copy.deepcopy(thing)
    for name in ("surrogate", "network"):
        for each in getattr(getattr(thing, name, None), "parameters", list)():
            each.data.mul_(1.01)
    return thing


def one_too_frequent(orders: Tensor, call: dict[str, Any]) -> Tensor:
    """Pairs of orders, every eighth of which is the first one again."""
    orders = orders.clone()
    orders[::8] = orders[:1]
    return orders


def last_is_first(rows: Any) -> Tensor:
    rows = torch.as_tensor(rows).clone()
    rows[-1] = rows[0]
    return rows


def last_present(mask: Tensor) -> Tensor:
    return torch.cat((mask[..., :-1], torch.ones_like(mask[..., -1:])), -1)


def numbered(pieces: Any, call: dict[str, Any]) -> Any:
    """Draws depend on how coalitions are cut into pieces."""
    for k, piece in enumerate(pieces):
        yield piece._replace(coalitions=piece.coalitions.folded(k))


def equally_frequent(found: Tensor, call: dict[str, Any]) -> Tensor:
    odds = found / call["self"].weights
    return odds / odds.sum(-1, keepdim=True)


def filled(frame: Any) -> Any:
    return frame.fillna(frame.mode().iloc[0]) if hasattr(frame, "fillna") else frame


# The room of each, its door, and what is wrong there: two in every directory, one in a module.
FAULTS: dict[str, Fault] = {
    "amortized-towards-equal-shares": Fault(
        "amortized", ":amortized_shapley", attributes(phi=towards_equal_shares)
    ),
    "half-the-error-of-the-network": Fault(
        "amortized", ":AmortizedExplainer.measure", result(lambda found, call: found / 2)
    ),
    "half-of-the-bias": Fault(
        "audit", ":audit", attributes(sums=lambda sums: {**sums, "error": sums["error"] / 2})
    ),
    "runs-overwritten-unasked": Fault(
        "cli",
        "cli.train:train",
        given(cfg=lambda cfg: OmegaConf.merge(cfg, {"overwrite": True})),
    ),
    "orderings-of-commands-ignored": Fault(
        "cli", "cli.games:ordering_of", result(lambda found, call: None)
    ),
    "random-numbers-by-piece": Fault("coalitions", "coalitions:Coalitions.split", result(numbered)),
    "corrected-errors-too-small": Fault(
        "corrected", ":corrected_global_values", attributes(standard_error=too_small)
    ),
    "two-classes-exchanged": Fault(
        "data", "data.registry:load", attributes(classes=last_exchanged)
    ),
    "labels-of-the-row-before": Fault(
        "data",
        "data.registry:load",
        attributes(y_train=lambda y: y.roll(1), y_test=lambda y: y.roll(1)),
    ),
    "kernel-errors-too-small": Fault(
        "estimators",
        ":kernel_shapley",
        attributes(
            standard_error=too_small,
            covariance=lambda whole: None if whole is None else 0.49 * whole,
        ),
    ),
    "orderings-ignored": Fault("estimators", "estimators.runner:explain", given(ordering=None)),
    "groups-of-columns-ignored": Fault("explainer", ":Explainer.__init__", given(players=None)),
    "normal-quantiles-for-few-samples": Fault(
        "explanation",
        ":Explanation.interval",
        given(self=lambda found: replace(found, degrees_of_freedom=None)),
    ),
    "exported-weights-off": Fault("exports", ":SurrogateValue.export", given(self=weights_off)),
    "exported-explainer-off": Fault(
        "exports", ":AmortizedExplainer.export", given(self=weights_off)
    ),
    "global-errors-too-small": Fault(
        "global_values", ":global_values", attributes(standard_error=too_small)
    ),
    "gaussian-draws-too-narrow": Fault(
        "imputers",
        "imputers:GaussianImputer.__init__",
        given(reference=lambda rows: 0.9 * torch.as_tensor(rows)),
    ),
    "one-component": Fault("imputers", "imputers:MixtureImputer.__init__", given(components=1)),
    "another-index": Fault("interactions", ":shapley_interactions", given(index="SII")),
    "bases-of-other-outputs-for-shap": Fault(
        "interop", ":Explanation.to_shap", attributes(base_values=lambda base: 1 - base)
    ),
    "target-of-the-first-row-for-all": Fault(
        "interop",
        "interop:CaptumAttribution.attribute",
        given(target=lambda each: each[0] if isinstance(each, list) else each),
    ),
    "stored-labels-forgotten": Fault("io", ":explain_rows", given(labels=None)),
    "interrupted-rows-again": Fault("io", ":explain_rows", given(resume=False)),
    "share-of-blocks-ignored": Fault("laws", "laws:laws_for", given(blocks=0.5)),
    "error-of-learning-too-small": Fault(
        "learning_error", ":with_learning_error", attributes(model_error=too_small)
    ),
    "variance-of-draws-kept": Fault(
        "metrics",
        "metrics:mean_squared_error",
        result(lambda found, call: replace(found, debiased=found.mse)),
    ),
    "batch-size-of-the-model-ignored": Fault("models", ":as_model", given(batch_size=None)),
    "names-of-classes-ignored": Fault("models", ":as_model", given(classes=None)),
    "naive-bayes-towards-equal-shares": Fault(
        "naive_bayes",
        "naive_bayes:naive_bayes_shapley",
        attributes(phi=towards_equal_shares),
    ),
    "last-player-always-seen": Fault("nn", "nn:MaskedLinear.forward", given(mask=last_present)),
    "components-equally-frequent": Fault(
        "oracles", "oracles:GaussianMixture.posterior", result(equally_frequent)
    ),
    "distance-with-the-error-of-the-truth": Fault(
        "oracles",
        "oracles:distance_to_true_shapley",
        result(lambda far, call: replace(far, error=math.hypot(far.error, far.truth_error))),
    ),
    "one-order-too-frequent": Fault("ordering", "posets:Components.draw", result(one_too_frequent)),
    "patches-of-exchanged-sides": Fault(
        "players",
        ":Players.patches",
        given(size=lambda size: size if isinstance(size, int) else size[::-1]),
    ),
    "row-of-a-label-is-the-first": Fault("plots", "plots:waterfall", given(label=None)),
    "swarm-of-another-output": Fault("plots", "plots:beeswarm", given(output=None)),
    "variance-of-the-model-doubled": Fault(
        "quality", "quality:report", attributes(variance=lambda variance: 2 * variance)
    ),
    "report-without-global-values": Fault(
        "report", ":Explanation.report", given(global_values=None)
    ),
    "report-without-interactions": Fault("report", ":Explanation.report", given(interactions=None)),
    "loaded-weights-off": Fault("saving", ":load", result(lambda found, call: weights_off(found))),
    "segments-of-another-row": Fault("segmentation", ":label_maps", given(labels=last_is_first)),
    "replaced-zeros-take-no-room": Fault(
        "simplex",
        "simplex:replace_zeros",
        result(lambda found, call: call["p"].where(call["p"] != 0, call["amount"])),
    ),
    "errors-of-the-former-basis": Fault(
        "simplex",
        ":Explanation.in_basis",
        result(lambda found, call: replace(found, standard_error=call["self"].standard_error)),
    ),
    "last-balance-too-small": Fault(
        "spaces",
        "spaces:ILR.__call__",
        result(lambda found, call: torch.cat((found[..., :-1], 0.9 * found[..., -1:]), -1)),
    ),
    "surrogate-of-exchanged-classes": Fault(
        "surrogate", ":SurrogateValue.values", values(last_exchanged)
    ),
    "guided-values-too-large": Fault(
        "surrogate", ":GuidedValue.values", values(lambda found: found + 0.05)
    ),
    "missing-cells-filled": Fault("tables", ":Table.rows", given(frame=filled)),
    "cells-rounded": Fault(
        "tables",
        ":Table.rows",
        given(frame=lambda frame: frame.round(2) if hasattr(frame, "round") else frame),
    ),
    "unknown-tokens-as-padding": Fault(
        "text",
        "text:Vocabulary.encode",
        result(lambda found, call: found.masked_fill(found == 1, 0)),
    ),
    "special-tokens-in-the-first-word": Fault(
        "text",
        "text:word_maps",
        given(words=lambda rows: [[0 if w is None else w for w in own] for own in rows]),
    ),
    "patience-ignored": Fault(
        "training",
        "training.task:learn",
        given(options=lambda options: replace(options, patience=None)),
    ),
    "other-data-continued": Fault(
        "training", "training.task:Task.data_fingerprint", result(lambda found, call: "")
    ),
    "importance-weights-dropped": Fault(
        "vae",
        ":VAEImputer.impute",
        result(lambda found, call: found._replace(log_weights=None)),
    ),
    "temper-ignored": Fault("vae", ":VAEImputer.__init__", given(temper=1.0)),
    "half-the-variance-of-draws": Fault(
        "values",
        ":ValueFunction.estimate",
        result(lambda found, call: found.map(lambda v: v, lambda variance: variance / 2)),
    ),
    "nobody-is-absent-from-the-base": Fault(
        "values",
        "values:GroupedValue.base",
        result(lambda found, call: call["self"].value.base(call["x"])),
    ),
}


# Putting one in ---------------------------------------------------------------------------------


def door(target: str) -> tuple[Any, str, Any]:
    """The module or the class that a target is in, its name there, and what stands there."""
    module, _, path = target.partition(":")
    *classes, name = path.split(".")
    owner: Any = importlib.import_module(f"manifold_shap.{module}".rstrip("."))
    for each in classes:
        owner = getattr(owner, each)
    if not isinstance(owner, ModuleType):
        return owner, name, inspect.getattr_static(owner, name)
    found = getattr(owner, name)
    # A module of the same name, where something has imported that before.
    return owner, name, getattr(found, name) if isinstance(found, ModuleType) else found


def changed(fault: Fault) -> Any:
    """What takes the place of the original."""
    original = door(fault.target)[2]
    if isinstance(original, classmethod | staticmethod):
        return type(original)(fault.change(original.__func__))
    return fault.change(original)


def put_in(fault: Fault) -> None:
    """Make the package wrong, for the rest of this process.

    A function is replaced in all modules of the package and of the tests that hold it by now; those
    that are imported later get it from where it is defined.
    """
    (owner, name, original), wrong = door(fault.target), changed(fault)
    setattr(owner, name, wrong)
    if not isinstance(owner, ModuleType):
        return
    ours = ("manifold_shap", "tests", "conftest")
    for module in [sys.modules[key] for key in sys.modules if key.partition(".")[0] in ours]:
        for held in [key for key, each in vars(module).items() if each is original]:
            setattr(module, held, wrong)
