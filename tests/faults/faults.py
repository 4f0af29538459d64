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
        target: module and name of a function, or of a method of a class: "module:Class.method".
        change: from the original to what takes its place.
    """

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


def numbered(pieces: Any, call: dict[str, Any]) -> Any:
    """Draws depend on how coalitions are cut into pieces."""
    for k, piece in enumerate(pieces):
        yield piece._replace(coalitions=piece.coalitions.folded(k))


def filled(frame: Any) -> Any:
    return frame.fillna(frame.mode().iloc[0]) if hasattr(frame, "fillna") else frame


# By room and what is wrong: two in every directory, one in a module.
FAULTS: dict[str, Fault] = {
    "amortized/towards-equal-shares": Fault(
        ":amortized_shapley", attributes(phi=towards_equal_shares)
    ),
    "amortized/half-the-error-of-the-network": Fault(
        ":AmortizedExplainer.measure", result(lambda found, call: found / 2)
    ),
    "audit/half-of-the-bias": Fault(
        ":audit", attributes(sums=lambda sums: {**sums, "error": sums["error"] / 2})
    ),
    "cli/runs-overwritten-unasked": Fault(
        "cli.train:train", given(cfg=lambda cfg: OmegaConf.merge(cfg, {"overwrite": True}))
    ),
    "cli/orderings-of-commands-ignored": Fault(
        "cli.games:ordering_of", result(lambda found, call: None)
    ),
    "coalitions/random-numbers-by-piece": Fault("coalitions:Coalitions.split", result(numbered)),
    "corrected/errors-too-small": Fault(
        ":corrected_global_values", attributes(standard_error=too_small)
    ),
    "data/two-classes-exchanged": Fault("data.registry:load", attributes(classes=last_exchanged)),
    "data/labels-of-the-row-before": Fault(
        "data.registry:load", attributes(y_train=lambda y: y.roll(1), y_test=lambda y: y.roll(1))
    ),
    "estimators/kernel-errors-too-small": Fault(
        ":kernel_shapley",
        attributes(
            standard_error=too_small,
            covariance=lambda whole: None if whole is None else 0.49 * whole,
        ),
    ),
    "estimators/orderings-ignored": Fault("estimators.runner:explain", given(ordering=None)),
    "explainer/groups-of-columns-ignored": Fault(":Explainer.__init__", given(players=None)),
    "explanation/normal-quantiles-for-few-samples": Fault(
        ":Explanation.interval", given(self=lambda found: replace(found, degrees_of_freedom=None))
    ),
    "exports/weights-off": Fault(":SurrogateValue.export", given(self=weights_off)),
    "exports/explainer-off": Fault(":AmortizedExplainer.export", given(self=weights_off)),
    "global_values/errors-too-small": Fault(":global_values", attributes(standard_error=too_small)),
    "imputers/gaussian-draws-too-narrow": Fault(
        "imputers:GaussianImputer.__init__",
        given(reference=lambda rows: 0.9 * torch.as_tensor(rows)),
    ),
    "imputers/one-component": Fault("imputers:MixtureImputer.__init__", given(components=1)),
    "interactions/another-index": Fault(":shapley_interactions", given(index="SII")),
    "interop/bases-of-other-outputs-for-shap": Fault(
        ":Explanation.to_shap", attributes(base_values=lambda base: 1 - base)
    ),
    "interop/target-of-the-first-row-for-all": Fault(
        "interop:CaptumAttribution.attribute",
        given(target=lambda each: each[0] if isinstance(each, list) else each),
    ),
    "io/stored-labels-forgotten": Fault(":explain_rows", given(labels=None)),
    "io/interrupted-rows-again": Fault(":explain_rows", given(resume=False)),
    "laws/share-of-blocks-ignored": Fault("laws:laws_for", given(blocks=0.5)),
    "learning_error/error-of-learning-too-small": Fault(
        ":with_learning_error", attributes(model_error=too_small)
    ),
    "metrics/variance-of-draws-kept": Fault(
        "metrics:mean_squared_error", result(lambda found, call: replace(found, debiased=found.mse))
    ),
    "models/batch-size-of-the-model-ignored": Fault(":as_model", given(batch_size=None)),
    "models/names-of-classes-ignored": Fault(":as_model", given(classes=None)),
    "naive_bayes/towards-equal-shares": Fault(
        "naive_bayes:naive_bayes_shapley", attributes(phi=towards_equal_shares)
    ),
    "nn/all-players-seen": Fault("nn:MaskedLinear.forward", given(mask=torch.ones_like)),
    "oracles/posterior-of-exchanged-classes": Fault(
        "oracles:GaussianMixture.posterior", result(lambda found, call: found.flip(-1))
    ),
    "oracles/distance-with-the-error-of-the-truth": Fault(
        "oracles:distance_to_true_shapley",
        result(lambda far, call: replace(far, error=math.hypot(far.error, far.truth_error))),
    ),
    "ordering/one-order-too-frequent": Fault("posets:Components.draw", result(one_too_frequent)),
    "players/patches-of-exchanged-sides": Fault(
        ":Players.patches", given(size=lambda size: size if isinstance(size, int) else size[::-1])
    ),
    "plots/row-of-a-label-is-the-first": Fault("plots:waterfall", given(label=None)),
    "plots/swarm-of-another-output": Fault("plots:beeswarm", given(output=None)),
    "quality/variance-of-the-model-doubled": Fault(
        "quality:report", attributes(variance=lambda variance: 2 * variance)
    ),
    "report/without-global-values": Fault(":Explanation.report", given(global_values=None)),
    "report/without-interactions": Fault(":Explanation.report", given(interactions=None)),
    "saving/loaded-weights-off": Fault(":load", result(lambda found, call: weights_off(found))),
    "segmentation/segments-of-another-row": Fault(
        ":label_maps", given(labels=lambda rows: torch.as_tensor(rows).roll(1, 0))
    ),
    "simplex/replaced-zeros-take-no-room": Fault(
        "simplex:replace_zeros",
        result(lambda found, call: call["p"].where(call["p"] != 0, call["amount"])),
    ),
    "simplex/errors-of-the-former-basis": Fault(
        ":Explanation.in_basis",
        result(lambda found, call: replace(found, standard_error=call["self"].standard_error)),
    ),
    "spaces/last-balance-too-small": Fault(
        "spaces:ILR.__call__",
        result(lambda found, call: torch.cat((found[..., :-1], 0.9 * found[..., -1:]), -1)),
    ),
    "surrogate/exchanged-classes": Fault(":SurrogateValue.values", values(last_exchanged)),
    "surrogate/guided-values-too-large": Fault(
        ":GuidedValue.values", values(lambda found: found + 0.05)
    ),
    "tables/missing-cells-filled": Fault(":Table.rows", given(frame=filled)),
    "tables/cells-rounded": Fault(
        ":Table.rows",
        given(frame=lambda frame: frame.round(2) if hasattr(frame, "round") else frame),
    ),
    "text/unknown-tokens-as-padding": Fault(
        "text:Vocabulary.encode", result(lambda found, call: found.masked_fill(found == 1, 0))
    ),
    "text/special-tokens-in-the-first-word": Fault(
        "text:word_maps",
        given(words=lambda rows: [[0 if w is None else w for w in own] for own in rows]),
    ),
    "training/patience-ignored": Fault(
        "training.task:learn", given(options=lambda options: replace(options, patience=None))
    ),
    "training/other-data-continued": Fault(
        "training.task:Task.data_fingerprint", result(lambda found, call: "")
    ),
    "vae/importance-weights-dropped": Fault(
        ":VAEImputer.impute", result(lambda found, call: found._replace(log_weights=None))
    ),
    "vae/temper-ignored": Fault(":VAEImputer.__init__", given(temper=1.0)),
    "values/half-the-variance-of-draws": Fault(
        ":ValueFunction.estimate",
        result(lambda found, call: found.map(lambda v: v, lambda variance: variance / 2)),
    ),
    "values/nobody-is-absent-from-the-base": Fault(
        "values:GroupedValue.base", result(lambda found, call: call["self"].value.base(call["x"]))
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
