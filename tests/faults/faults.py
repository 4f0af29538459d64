"""Sixty faults: changes of what a public function or method does, each of which tests must find.

They name public doors, not lines of the source, so that a refactoring breaks none of them. Each is
a wrong number or a broken promise of a docstring, some gross and some subtle.
"""

import copy
import functools
import importlib
import inspect
import json
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import torch

Function = Callable[..., Any]
Call = dict[str, Any]


@dataclass(frozen=True)
class Fault:
    """What is wrong.

    Attributes:
        room: the directory or the module that it is in.
        target: module and name of a function, or of a method of a class: "package:Class.method".
        change: from the original to what takes its place.
    """

    room: str
    target: str
    change: Callable[[Function], Function]


# Ways to change a function ---------------------------------------------------------------------


def arguments(alter: Callable[[Call], None]) -> Callable[[Function], Function]:
    """The original, called with other arguments: `alter` changes those given, by name, in place."""

    def change(original: Function) -> Function:
        @functools.wraps(original)
        def changed(*args: Any, **kwargs: Any) -> Any:
            call = _call(original, args, kwargs)
            alter(call)
            return original(**call)

        return changed

    return change


def given(**settings: Any) -> Callable[[Function], Function]:
    """The original with these settings, whatever the caller asks for."""
    return arguments(lambda call: call.update(settings))


def result(alter: Callable[[Any, Call], Any]) -> Callable[[Function], Function]:
    """The original, of whose result `alter` makes another one; it gets the arguments as well."""

    def change(original: Function) -> Function:
        @functools.wraps(original)
        def changed(*args: Any, **kwargs: Any) -> Any:
            return alter(original(*args, **kwargs), _call(original, args, kwargs))

        return changed

    return change


def _call(original: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call:
    """The arguments by name; those of a `**options` among them."""
    signature = inspect.signature(original)
    call: Call = {}
    for name, value in signature.bind(*args, **kwargs).arguments.items():
        many = signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
        call |= value if many else {name: value}
    return call


# Wrong results ---------------------------------------------------------------------------------


def scaled(name: str, factor: float) -> Callable[[Any, Call], Any]:
    """A dataclass with one of its numbers, or tensors, too large or too small."""
    return lambda found, call: replace(found, **{name: factor * getattr(found, name)})


def shifted(found: Any, call: Call) -> Any:
    """Of the last output, the first player gets a twentieth of all from the second one."""
    if found.phi.shape[1] < 2:
        return found
    phi, amount = found.phi.clone(), (found.prediction - found.base)[:, -1] / 20
    phi[:, 0, -1] += amount
    phi[:, 1, -1] -= amount
    return replace(found, phi=phi)


def evened(found: Any, call: Call) -> Any:
    """Shapley values a fiftieth of the way towards equal shares, which sum to the same."""
    return replace(found, phi=0.98 * found.phi + 0.02 * found.phi.nanmean(1, keepdim=True))


def narrow(found: Any, call: Call) -> Any:
    """Standard errors 30 % too small."""
    covariance = None if found.covariance is None else 0.49 * found.covariance
    return replace(found, standard_error=0.7 * found.standard_error, covariance=covariance)


def of_values(alter: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Any, Call], Any]:
    """Other values of a value function, which are a tensor or the first part of an `Estimate`."""

    def altered(found: Any, call: Call) -> Any:
        if isinstance(found, torch.Tensor):
            return alter(found)
        return found._replace(values=alter(found.values))

    return altered


def last_two_exchanged(values: torch.Tensor) -> torch.Tensor:
    """The last two of three or more outputs, one in the place of the other."""
    if values.shape[-1] < 3:
        return values
    return torch.cat((values[..., :-2], values[..., -2:].flip(-1)), dim=-1)


def last_raised(values: torch.Tensor) -> torch.Tensor:
    values = values.clone()
    values[..., -1] += 0.05
    return values


def last_shrunk(values: torch.Tensor) -> torch.Tensor:
    return torch.cat((values[..., :-1], 0.9 * values[..., -1:]), dim=-1)


def too_rare_when_single(found: torch.Tensor, call: Call) -> torch.Tensor:
    return found + math.log(0.8) * (call["mask"].sum(-1) == 1)


def an_eighth_alike(orders: torch.Tensor, call: Call) -> torch.Tensor:
    """Pairs of orders, every eighth of which is the first one again."""
    pairs = orders.flatten(0, -3).clone()
    pairs[::8] = pairs[:1]
    return pairs.reshape(orders.shape)


def whole_diagonal(found: Any, call: Call) -> Any:
    """k-SII without its subtraction: the first-order terms are Shapley values."""
    if found.index != "k-SII":
        return found
    values = found.values.clone()
    values.diagonal(dim1=1, dim2=2).copy_(found.shapley.phi.movedim(1, -1))
    return replace(found, values=values)


def first_labels(found: Any, call: Call) -> Any:
    return replace(found, instances=call["self"].instances[: len(found.phi)])


def half_error(found: float, call: Call) -> float:
    call["self"].relative_error = found / 2
    return found / 2


def uniform_base(found: Any, call: Call) -> Any:
    found.expectation = found.expectation.mean().expand_as(found.expectation).clone()
    return found


def untempered(found: Any, call: Call) -> Any:
    if hasattr(found, "temper"):
        found.temper = 1.0
    return found


def names_reversed(found: Any, call: Call) -> Any:
    """A model whose classes have each other's names; one that was wrapped before is left alone."""
    if found is not call["model"]:
        found.classes = found.classes[::-1]
    return found


def without_weights(found: torch.Tensor, call: Call) -> torch.Tensor:
    """Posterior probabilities by densities alone, as if all components were equally frequent."""
    odds = found / call["self"].weights
    return odds / odds.sum(-1, keepdim=True)


def error_of_truth_kept(found: Any, call: Call) -> Any:
    return replace(found, error=math.hypot(found.error, found.truth_error))


def bases_reversed(found: Any, call: Call) -> Any:
    found.base_values = found.base_values[..., ::-1]
    return found


def labels_reversed(axes: Any, call: Call) -> Any:
    """The labels of bars from the bottom to the top."""
    axes.set_yticklabels([label.get_text() for label in axes.get_yticklabels()][::-1])
    return axes


def zeros_alone_replaced(found: torch.Tensor, call: Call) -> torch.Tensor:
    """The other parts do not make room."""
    return call["p"].where(call["p"] != 0, call["amount"])


def old_errors(found: Any, call: Call) -> Any:
    return replace(found, standard_error=call["self"].standard_error)


def unknown_as_padding(found: torch.Tensor, call: Call) -> torch.Tensor:
    return found.masked_fill(found == 1, 0)


def half_variance(found: Any, call: Call) -> Any:
    return found if found.variance is None else found._replace(variance=found.variance / 2)


def classes_renamed(table: Any, call: Call) -> Any:
    first, second, third = table.classes
    return replace(table, classes=(first, third, second))


def labels_of_the_row_before(table: Any, call: Call) -> Any:
    return replace(table, labels=table.labels.roll(1))


def graph_rounded(found: None, call: Call) -> None:
    """A graph in a file gives two decimals."""
    if not str(call["path"]).endswith(".onnx"):
        return
    import onnx
    from onnx import helper

    model = onnx.load(str(call["path"]))
    graph, name = model.graph, model.graph.output[0].name
    for node in graph.node:
        node.output[:] = ["exact" if each == name else each for each in node.output]
        node.input[:] = ["exact" if each == name else each for each in node.input]
    graph.initializer.append(helper.make_tensor("hundred", onnx.TensorProto.FLOAT, (), [100.0]))
    graph.node.append(helper.make_node("Mul", ["exact", "hundred"], ["large"]))
    graph.node.append(helper.make_node("Round", ["large"], ["whole"]))
    graph.node.append(helper.make_node("Div", ["whole", "hundred"], [name]))
    onnx.save(model, str(call["path"]))


def names_in_file_reversed(found: None, call: Call) -> None:
    """A graph in a file says that its players stand in the opposite order."""
    if not str(call["path"]).endswith(".onnx"):
        return
    import onnx

    model = onnx.load(str(call["path"]))
    for entry in model.metadata_props:
        if entry.key == "players":
            entry.value = json.dumps(json.loads(entry.value)[::-1])
    onnx.save(model, str(call["path"]))


# Wrong arguments -------------------------------------------------------------------------------


def sides_exchanged(call: Call) -> None:
    if isinstance(call["size"], Sequence):
        call["size"] = call["size"][::-1]


def raw_errors(call: Call) -> None:
    """Scores whose Monte-Carlo variance was not taken off."""
    call["scores"] = {
        name: replace(each, debiased=each.mse) for name, each in call["scores"].items()
    }


def last_row_forgotten(call: Call) -> None:
    if len(call["explanation"].phi) > 2:
        call["explanation"], call["y"] = call["explanation"][:-1], call["y"][:-1]


def last_player_shown(call: Call) -> None:
    call["mask"] = call["mask"].clone()
    call["mask"][..., -1] = True


def last_row_as_first(call: Call) -> None:
    call["labels"] = torch.as_tensor(call["labels"]).clone()
    call["labels"][-1] = call["labels"][0]


def normal_quantiles(call: Call) -> None:
    call["self"] = replace(call["self"], degrees_of_freedom=None)


def listed_rows_counted(call: Call) -> None:
    """As many of the first rows as were listed."""
    call["cfg"] = copy.deepcopy(call["cfg"])
    if not isinstance(call["cfg"].instances, int | str):
        call["cfg"].instances = len(call["cfg"].instances)


def overwriting(call: Call) -> None:
    call["cfg"] = copy.deepcopy(call["cfg"])
    call["cfg"].overwrite = True


def seed_by_batch(call: Call) -> None:
    call["seed"] = call.get("seed", 0) + (call.get("batch_size") or 0)


def seed_by_clock(call: Call) -> None:
    call["seed"] = time.time_ns() % 2**31


def rows_nearer_to_their_mean(call: Call) -> None:
    rows = call["reference"]
    rows = torch.tensor(rows) if isinstance(rows, list) else rows
    call["reference"] = rows.mean(0) + 0.9 * (rows - rows.mean(0))


def any_neighbour(call: Call) -> None:
    """A kernel so wide that all rows are alike: the draws do not depend on what is known."""
    if call.get("bandwidth") != "aicc":
        call["bandwidth"] = 1e6


def effects_first(call: Call) -> None:
    for name in ("ordering", "confounding"):
        if isinstance(call.get(name), list | tuple):
            call[name] = call[name][::-1]


def first_target_for_all(call: Call) -> None:
    target = call.get("target")
    if isinstance(target, list) or (isinstance(target, torch.Tensor) and target.ndim):
        call["target"] = target[0] if isinstance(target[0], tuple) else int(target[0])


def half_whiskers(call: Call) -> None:
    if hasattr(call["explanations"], "standard_error"):
        call["explanations"] = scaled("standard_error", 0.5)(call["explanations"], call)


def report_cut(call: Call) -> None:
    """All rows but the last, where nothing else belongs to the rows."""
    others = [call.get(name) for name in ("tokens", "images", "series")]
    if len(call["self"].phi) > 1 and others == [None] * 3:
        if call.get("interactions") is not None:
            call["interactions"] = call["interactions"][:-1]
        call["self"] = call["self"][:-1]


def missing_cells_filled(call: Call) -> None:
    """By the most frequent value of their column."""
    if hasattr(call["frame"], "fillna"):
        call["frame"] = call["frame"].fillna(call["frame"].mode().iloc[0])


def frame_rounded(call: Call) -> None:
    if hasattr(call["frame"], "round"):
        call["frame"] = call["frame"].round(2)


def specials_in_the_first_word(call: Call) -> None:
    """Tokens of no word belong to word 0, not to the word before them."""
    call["words"] = [[0 if word is None else word for word in own] for own in call["words"]]


def without_directory(call: Call) -> None:
    call.pop("directory", None)


def first_outputs(call: Call) -> None:
    """The first outputs where those with the largest predictions are asked for."""
    if isinstance(call["outputs"], int) and 0 < call["outputs"] <= len(call["self"].outputs):
        call["outputs"] = list(range(call["outputs"]))


# The faults ------------------------------------------------------------------------------------

FAULTS: dict[str, Fault] = {
    # Players, coalitions, orders and laws.
    "patches-of-exchanged-sides": Fault(
        "players", "manifold_shap:Players.patches", arguments(sides_exchanged)
    ),
    "single-players-too-improbable": Fault(
        "coalitions", "manifold_shap.laws:ShapleyKernel.log_prob", result(too_rare_when_single)
    ),
    "one-order-too-frequent": Fault(
        "ordering", "manifold_shap:Ordering.sample_pairs", result(an_eighth_alike)
    ),
    "share-of-blocks-ignored": Fault("laws", "manifold_shap.laws:laws_for", given(blocks=0.5)),
    "last-balance-too-small": Fault(
        "spaces",
        "manifold_shap.spaces:ILR.__call__",
        result(lambda found, call: last_shrunk(found)),
    ),
    "segments-of-another-row": Fault(
        "segmentation", "manifold_shap:label_maps", arguments(last_row_as_first)
    ),
    "last-player-always-seen": Fault(
        "nn", "manifold_shap.nn:MaskedLinear.forward", arguments(last_player_shown)
    ),
    # What is measured.
    "naive-bayes-of-another-player": Fault(
        "naive_bayes", "manifold_shap.naive_bayes:naive_bayes_shapley", result(shifted)
    ),
    "corrected-errors-too-small": Fault(
        "corrected",
        "manifold_shap:corrected_global_values",
        result(scaled("standard_error", 0.7)),
    ),
    "variance-of-draws-kept": Fault(
        "metrics",
        "manifold_shap.metrics:mean_squared_error",
        result(lambda found, call: replace(found, debiased=found.mse)),
    ),
    "best-by-raw-error": Fault("quality", "manifold_shap.quality:best", arguments(raw_errors)),
    "global-values-without-last-row": Fault(
        "global_values", "manifold_shap:global_values", arguments(last_row_forgotten)
    ),
    "error-of-learning-too-small": Fault(
        "learning_error", "manifold_shap:with_learning_error", result(scaled("model_error", 0.7))
    ),
    "first-order-terms-of-another-index": Fault(
        "interactions", "manifold_shap:shapley_interactions", result(whole_diagonal)
    ),
    # Explainer and explanation.
    "groups-of-columns-ignored": Fault(
        "explainer", "manifold_shap:Explainer.__init__", given(players=None)
    ),
    "normal-quantiles-for-few-samples": Fault(
        "explanation", "manifold_shap:Explanation.interval", arguments(normal_quantiles)
    ),
    "labels-of-the-first-rows": Fault(
        "explanation", "manifold_shap:Explanation.__getitem__", result(first_labels)
    ),
    # Amortised explainers.
    "amortized-of-another-player": Fault(
        "amortized", "manifold_shap:AmortizedExplainer.explain", result(shifted)
    ),
    "half-the-error-of-the-network": Fault(
        "amortized", "manifold_shap:AmortizedExplainer.measure", result(half_error)
    ),
    # The two commands.
    "listed-rows-ignored": Fault(
        "cli", "manifold_shap.cli.explain:explain", arguments(listed_rows_counted)
    ),
    "runs-overwritten-unasked": Fault(
        "cli", "manifold_shap.cli.train:train", arguments(overwriting)
    ),
    # Data.
    "two-species-exchanged": Fault("data", "manifold_shap.data:Iris.read", result(classes_renamed)),
    "labels-of-the-row-before": Fault(
        "data", "manifold_shap.data:TableFile.read", result(labels_of_the_row_before)
    ),
    # Estimators.
    "exact-values-towards-equal-shares": Fault(
        "estimators", "manifold_shap:exact_shapley", result(evened)
    ),
    "kernel-errors-too-small": Fault("estimators", "manifold_shap:kernel_shapley", result(narrow)),
    "seed-depends-on-batch-size": Fault(
        "estimators", "manifold_shap:permutation_shapley", arguments(seed_by_batch)
    ),
    # Exports.
    "exported-values-rounded": Fault(
        "exports", "manifold_shap:SurrogateValue.export", result(graph_rounded)
    ),
    "exported-names-reversed": Fault(
        "exports", "manifold_shap:AmortizedExplainer.export", result(names_in_file_reversed)
    ),
    # Guided surrogates.
    "guided-values-of-one-class-too-large": Fault(
        "surrogate", "manifold_shap:GuidedValue.values", result(of_values(last_raised))
    ),
    "hints-of-one-class-too-large": Fault(
        "surrogate",
        "manifold_shap:GuidedValue.hints",
        result(lambda found, call: (*found[:2], last_raised(found[2]))),
    ),
    # Imputers.
    "gaussian-draws-too-narrow": Fault(
        "imputers",
        "manifold_shap.imputers:GaussianImputer.__init__",
        arguments(rows_nearer_to_their_mean),
    ),
    "empirical-draws-unconditional": Fault(
        "imputers", "manifold_shap.imputers:EmpiricalImputer.__init__", arguments(any_neighbour)
    ),
    "effects-before-causes": Fault(
        "imputers", "manifold_shap.imputers:CausalImputer.__init__", arguments(effects_first)
    ),
    # Other packages.
    "bases-of-other-outputs-for-shap": Fault(
        "interop", "manifold_shap:Explanation.to_shap", result(bases_reversed)
    ),
    "target-of-the-first-row-for-all": Fault(
        "interop",
        "manifold_shap.interop:CaptumAttribution.attribute",
        arguments(first_target_for_all),
    ),
    # Many rows.
    "stored-labels-forgotten": Fault("io", "manifold_shap:explain_rows", given(instances=None)),
    "interrupted-rows-again": Fault("io", "manifold_shap:explain_rows", given(resume=False)),
    # Models.
    "names-of-classes-reversed": Fault("models", "manifold_shap:as_model", result(names_reversed)),
    "batch-size-of-the-model-ignored": Fault(
        "models", "manifold_shap:as_model", given(batch_size=None)
    ),
    # Oracles.
    "components-equally-frequent": Fault(
        "oracles", "manifold_shap.oracles:GaussianMixture.posterior", result(without_weights)
    ),
    "distance-with-the-error-of-the-truth": Fault(
        "oracles",
        "manifold_shap.oracles:distance_to_true_shapley",
        result(error_of_truth_kept),
    ),
    # Plots.
    "waterfall-of-wrong-players": Fault(
        "plots", "manifold_shap.plots:waterfall", result(labels_reversed)
    ),
    "whiskers-of-one-standard-error": Fault(
        "plots", "manifold_shap.plots:bar", arguments(half_whiskers)
    ),
    "swarm-of-another-output": Fault("plots", "manifold_shap.plots:beeswarm", given(output=None)),
    "row-of-a-label-is-the-first": Fault(
        "plots", "manifold_shap.plots:waterfall", given(label=None)
    ),
    # Reports.
    "report-without-the-last-row": Fault(
        "report", "manifold_shap:Explanation.report", arguments(report_cut)
    ),
    "report-without-global-values": Fault(
        "report", "manifold_shap:Explanation.report", given(global_values=None)
    ),
    # The simplex.
    "replaced-zeros-take-no-room": Fault(
        "simplex", "manifold_shap.simplex:replace_zeros", result(zeros_alone_replaced)
    ),
    "errors-of-the-former-basis": Fault(
        "simplex", "manifold_shap:Explanation.in_basis", result(old_errors)
    ),
    # Surrogates.
    "surrogate-of-exchanged-classes": Fault(
        "surrogate",
        "manifold_shap:SurrogateValue.values",
        result(of_values(last_two_exchanged)),
    ),
    "loaded-base-uniform": Fault("surrogate", "manifold_shap:load_surrogate", result(uniform_base)),
    # Tables, through the door that takes them.
    "missing-cells-filled": Fault(
        "tables", "manifold_shap:Explainer.__call__", arguments(missing_cells_filled)
    ),
    "cells-rounded": Fault("tables", "manifold_shap:Explainer.__call__", arguments(frame_rounded)),
    # Texts.
    "unknown-tokens-as-padding": Fault(
        "text", "manifold_shap.text:Vocabulary.encode", result(unknown_as_padding)
    ),
    "special-tokens-in-the-first-word": Fault(
        "text", "manifold_shap.text:word_maps", arguments(specials_in_the_first_word)
    ),
    # Training.
    "training-seeded-by-the-clock": Fault(
        "training", "manifold_shap:fit_surrogate", arguments(seed_by_clock)
    ),
    "directory-of-a-training-ignored": Fault(
        "training", "manifold_shap:fit_surrogate", arguments(without_directory)
    ),
    # Variational autoencoders.
    "importance-weights-dropped": Fault(
        "vae",
        "manifold_shap:VAEImputer.impute",
        result(lambda found, call: found._replace(log_weights=None)),
    ),
    "loaded-temper-forgotten": Fault("vae", "manifold_shap:load_imputer", result(untempered)),
    # Value functions.
    "half-the-variance-of-draws": Fault(
        "values", "manifold_shap:ValueFunction.estimate", result(half_variance)
    ),
    "first-outputs-for-the-largest": Fault(
        "values", "manifold_shap:ValueFunction.select", arguments(first_outputs)
    ),
}


# Putting one in --------------------------------------------------------------------------------


def owner_of(target: str) -> tuple[Any, str]:
    """The module or the class that a target is an attribute of, and its name there."""
    module, _, path = target.partition(":")
    *classes, name = path.split(".")
    owner: Any = importlib.import_module(module)
    for each in classes:
        owner = getattr(owner, each)
    return owner, name


def original_of(target: str) -> Any:
    """The function, or of a class what stands there: a class method, a property."""
    owner, name = owner_of(target)
    if not isinstance(owner, ModuleType):
        return inspect.getattr_static(owner, name)
    found = getattr(owner, name)
    # A module of the same name, where something has imported that before.
    return getattr(found, name) if isinstance(found, ModuleType) else found


def changed(fault: Fault) -> Any:
    """What takes the place of the original."""
    original = original_of(fault.target)
    if isinstance(original, classmethod | staticmethod):
        return type(original)(fault.change(original.__func__))
    if isinstance(original, property):
        return property(fault.change(original.fget))
    return fault.change(original)


def put_in(fault: Fault) -> None:
    """Make the package wrong, for the rest of this process.

    A function is replaced in all modules of the package and of the tests that hold it by now; those
    that are imported later get it from where it is defined.
    """
    original, wrong = original_of(fault.target), changed(fault)
    owner, name = owner_of(fault.target)
    setattr(owner, name, wrong)
    if not isinstance(owner, ModuleType):
        return
    for module in [sys.modules[key] for key in sys.modules if _is_ours(key)]:
        for held in [key for key, each in vars(module).items() if each is original]:
            setattr(module, held, wrong)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in ("manifold_shap", "tests", "conftest")
