"""Seventy faults: changes of what a public function or method does, each of which tests must find.

They name public doors, not lines of the source, so that a refactoring breaks none of them. Each is
a wrong number or a broken promise of a docstring, some gross and some subtle.
"""

import copy
import functools
import importlib
import inspect
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
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


FAULTS: dict[str, Fault] = {}


def fault(room: str, target: str, name: str = "") -> Callable[[Function], Function]:
    """Makes a function a fault of its own name, of what stands at `target` of the package.

    Of a call it changes the arguments, by name and in place; of a result and a call it returns
    another result.
    """

    def put(alter: Function) -> Function:
        of_result = len(inspect.signature(alter).parameters) == 2

        def change(original: Function) -> Function:
            unknown = (
                vars(alter).get("settings", {}).keys() - inspect.signature(original).parameters
            )
            assert not unknown, f"{target} has no {unknown}"

            @functools.wraps(original)
            def changed(*args: Any, **kwargs: Any) -> Any:
                call = _call(original, args, kwargs)
                if of_result:
                    return alter(original(*args, **kwargs), call)
                alter(call)
                return original(**call)

            return changed

        module, _, path = target.rpartition(":")
        whole = f"manifold_shap.{module}".rstrip(".") + f":{path}"
        FAULTS[(name or alter.__name__).replace("_", "-")] = Fault(room, whole, change)
        return alter

    return put


def _call(original: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call:
    """The arguments by name; those of a `**options` among them."""
    signature = inspect.signature(original)
    call: Call = {}
    for name, value in signature.bind(*args, **kwargs).arguments.items():
        many = signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
        call |= value if many else {name: value}
    return call


def always(**settings: Any) -> Callable[[Call], None]:
    """These settings, whatever the caller asks for."""

    def alter(call: Call) -> None:
        call.update(settings)

    alter.settings = settings  # type: ignore[attr-defined]
    return alter


def scaled(name: str, factor: float) -> Callable[[Any, Call], Any]:
    """A dataclass with one of its numbers, or tensors, too large or too small."""
    return lambda found, call: replace(found, **{name: factor * getattr(found, name)})


def of_values(alter: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Any, Call], Any]:
    """Other values of a value function."""
    return lambda found, call: found.map(alter, lambda variance: variance)


# Players, coalitions, orders and laws ------------------------------------------------------------


@fault("players", ":Players.patches")
def patches_of_exchanged_sides(call: Call) -> None:
    if isinstance(call["size"], Sequence):
        call["size"] = call["size"][::-1]


@fault("coalitions", "laws:ShapleyKernel.log_prob")
def single_players_too_improbable(found: torch.Tensor, call: Call) -> torch.Tensor:
    return found + math.log(0.8) * (call["mask"].sum(-1) == 1)


@fault("coalitions", "coalitions:Nested.among_items", "orders-without-their-last-step")
@fault("coalitions", "coalitions:Toggled.among_items", "last-player-never-toggled")
def last_as_the_first(found: torch.Tensor, call: Call) -> torch.Tensor:
    """The last coalition of each run is its first."""
    run = call["self"].run
    runs = found.unflatten(1, (-1, run)).clone()
    runs[:, :, -1] = runs[:, :, 0]
    return runs.flatten(1, 2)


@fault("laws", "laws:SizeUniform.sample_antithetic")
def single_players_with_the_first_one(found: torch.Tensor, call: Call) -> torch.Tensor:
    found = found.clone()
    found[..., 0] |= found.sum(-1) == 1
    return found


@fault("ordering", "posets:Components.draw")
def one_order_too_frequent(orders: torch.Tensor, call: Call) -> torch.Tensor:
    """Pairs of orders, every eighth of which is the first one again."""
    pairs = orders.clone()
    pairs[::8] = pairs[:1]
    return pairs


fault("laws", "laws:laws_for", "share-of-blocks-ignored")(always(blocks=0.5))


@fault("spaces", "spaces:ILR.__call__")
def last_balance_too_small(found: torch.Tensor, call: Call) -> torch.Tensor:
    return torch.cat((found[..., :-1], 0.9 * found[..., -1:]), dim=-1)


@fault("segmentation", ":label_maps")
def segments_of_another_row(call: Call) -> None:
    call["labels"] = torch.as_tensor(call["labels"]).clone()
    call["labels"][-1] = call["labels"][0]


@fault("nn", "nn:MaskedLinear.forward")
def last_player_always_seen(call: Call) -> None:
    call["mask"] = call["mask"].clone()
    call["mask"][..., -1] = True


# What is measured --------------------------------------------------------------------------------


@fault("naive_bayes", "naive_bayes:naive_bayes_shapley", "naive-bayes-of-another-player")
@fault("amortized", ":amortized_shapley", "amortized-of-another-player")
def shifted(found: Any, call: Call) -> Any:
    """Of the last output, the first player gets a twentieth of all from the second one."""
    if found.phi.shape[1] < 2:
        return found
    phi, amount = found.phi.clone(), (found.prediction - found.base)[:, -1] / 20
    phi[:, 0, -1] += amount
    phi[:, 1, -1] -= amount
    return replace(found, phi=phi)


fault("corrected", ":corrected_global_values", "corrected-errors-too-small")(
    scaled("standard_error", 0.7)
)
fault("learning_error", ":with_learning_error", "error-of-learning-too-small")(
    scaled("model_error", 0.7)
)


@fault("metrics", "metrics:mean_squared_error")
def variance_of_draws_kept(found: Any, call: Call) -> Any:
    return replace(found, debiased=found.mse)


@fault("learning_error", ":with_learning_error")
def two_halves_alone(call: Call) -> None:
    call["halves"] = list(call["halves"])[:2]


fault("quality", "quality:best", "slow-ones-as-the-others")(always(slow=()))


@fault("quality", "quality:report")
def variance_of_the_model_doubled(found: Any, call: Call) -> Any:
    return replace(found, variance=2 * found.variance)


@fault("audit", ":audit")
def half_of_the_bias(found: Any, call: Call) -> Any:
    return replace(found, sums={**found.sums, "error": found.sums["error"] / 2})


@fault("audit", "estimators.audit:Audit.mean_squared_error")
def intervals_of_errors_too_narrow(found: Any, call: Call) -> Any:
    low, high = ((end + found.estimate) / 2 for end in (found.low, found.high))
    return found._replace(low=low, high=high)


@fault("global_values", ":global_values")
def global_values_without_last_row(call: Call) -> None:
    if len(call["explanation"].phi) > 2:
        call["explanation"], call["y"] = call["explanation"][:-1], call["y"][:-1]


@fault("interactions", ":shapley_interactions")
def first_order_terms_of_another_index(found: Any, call: Call) -> Any:
    """k-SII without its subtraction: the first-order terms are Shapley values."""
    if found.index != "k-SII":
        return found
    values = found.values.clone()
    values.diagonal(dim1=1, dim2=2).copy_(found.shapley.phi.movedim(1, -1))
    return replace(found, values=values)


# Explainers and explanations ---------------------------------------------------------------------

fault("explainer", ":Explainer.__init__", "groups-of-columns-ignored")(always(players=None))


@fault("explanation", ":Explanation.interval")
def normal_quantiles_for_few_samples(call: Call) -> None:
    call["self"] = replace(call["self"], degrees_of_freedom=None)


@fault("explanation", ":Explanation.__getitem__")
def labels_of_the_first_rows(found: Any, call: Call) -> Any:
    return replace(found, instances=call["self"].instances[: len(found.phi)])


@fault("saving", ":load")
def loaded_weights_off(found: Any, call: Call) -> Any:
    value = getattr(found, "value", found)
    for each in getattr(getattr(value, "surrogate", None), "parameters", list)():
        each.data.mul_(1.01)
    return found


@fault("saving", ":save")
def other_files_of_the_folder_removed(found: None, call: Call) -> None:
    for path in Path(call["folder"]).expanduser().iterdir():
        if path.suffix == ".txt":
            path.unlink()


@fault("amortized", ":AmortizedExplainer.measure")
def half_the_error_of_the_network(found: float, call: Call) -> float:
    call["self"].relative_error = found / 2
    return found / 2


# The two commands, and data ----------------------------------------------------------------------


@fault("cli", "cli.explain:explain")
def listed_rows_ignored(call: Call) -> None:
    """As many of the first rows as were listed."""
    call["cfg"] = copy.deepcopy(call["cfg"])
    if not isinstance(call["cfg"].instances, int | str):
        call["cfg"].instances = len(call["cfg"].instances)
        # A run is composed again from what was typed.
        call["job"].overrides.task.append(f"instances={call['cfg'].instances}")


@fault("cli", "cli.train:train")
def runs_overwritten_unasked(call: Call) -> None:
    call["cfg"] = copy.deepcopy(call["cfg"])
    call["cfg"].overwrite = True


@fault("data", "data.registry:load")
def two_species_exchanged(found: Any, call: Call) -> Any:
    if call["source"] == "iris":
        first, second, third = found.classes
        found.classes = (first, third, second)
    return found


@fault("data", "data.registry:load")
def labels_of_the_row_before(found: Any, call: Call) -> Any:
    found.y_train, found.y_test = found.y_train.roll(1), found.y_test.roll(1)
    return found


# Estimators --------------------------------------------------------------------------------------


@fault("estimators", ":exact_shapley")
def exact_values_towards_equal_shares(found: Any, call: Call) -> Any:
    return replace(found, phi=0.98 * found.phi + 0.02 * found.phi.nanmean(1, keepdim=True))


@fault("estimators", ":kernel_shapley")
def kernel_errors_too_small(found: Any, call: Call) -> Any:
    covariance = None if found.covariance is None else 0.49 * found.covariance
    return replace(found, standard_error=0.7 * found.standard_error, covariance=covariance)


@fault("estimators", ":permutation_shapley")
def seed_depends_on_batch_size(call: Call) -> None:
    call["seed"] = call.get("seed", 0) + (call.get("batch_size") or 0)


@fault("estimators", "estimators.runner:explain")
def orderings_ignored(call: Call) -> None:
    call["ordering"] = None


@fault("estimators", "estimators.runner:explain")
def rows_of_other_numbers_of_players(found: Any, call: Call) -> Any:
    """Values of the row before, where rows have players of their own."""
    return replace(found, phi=found.phi.roll(1, 0)) if found.players.by_row else found


# Exports -----------------------------------------------------------------------------------------


@fault("exports", ":SurrogateValue.export")
def exported_weights_off(call: Call) -> None:
    call["self"] = copy.deepcopy(call["self"])
    for each in call["self"].surrogate.parameters():
        each.data.mul_(1.01)


@fault("exports", ":AmortizedExplainer.export")
def exported_names_reversed(call: Call) -> None:
    call["self"] = copy.copy(call["self"])
    value = call["self"].value = copy.copy(call["self"].value)
    players = copy.copy(value.players)
    players.names = players.names[::-1]
    value.update(players=players)


# Surrogates, guided ones among them --------------------------------------------------------------


def last_raised(values: torch.Tensor) -> torch.Tensor:
    return torch.cat((values[..., :-1], values[..., -1:] + 0.05), dim=-1)


def last_two_exchanged(values: torch.Tensor) -> torch.Tensor:
    """The last two of three or more outputs, one in the place of the other."""
    if values.shape[-1] < 3:
        return values
    return torch.cat((values[..., :-2], values[..., -2:].flip(-1)), dim=-1)


fault("surrogate", ":GuidedValue.values", "guided-values-of-one-class-too-large")(
    of_values(last_raised)
)
fault("surrogate", ":SurrogateValue.values", "surrogate-of-exchanged-classes")(
    of_values(last_two_exchanged)
)


@fault("surrogate", ":GuidedValue.hints")
def hints_of_one_class_too_large(found: Any, call: Call) -> Any:
    return (*found[:2], last_raised(found[2]))


@fault("surrogate", ":load")
def loaded_base_uniform(found: Any, call: Call) -> Any:
    if isinstance(found, manifold_shap.SurrogateValue):
        found.expectation = found.expectation.mean().expand_as(found.expectation).clone()
    return found


# Imputers ----------------------------------------------------------------------------------------


@fault("imputers", "imputers:GaussianImputer.__init__")
def gaussian_draws_too_narrow(call: Call) -> None:
    rows = call["reference"]
    rows = torch.tensor(rows) if isinstance(rows, list) else rows
    call["reference"] = rows.mean(0) + 0.9 * (rows - rows.mean(0))


@fault("imputers", "imputers:EmpiricalImputer.__init__")
def empirical_draws_unconditional(call: Call) -> None:
    """A kernel so wide that all rows are alike: the draws do not depend on what is known."""
    if call.get("bandwidth") != "aicc":
        call["bandwidth"] = 1e6


@fault("imputers", "imputers:MixtureImputer.__init__")
def one_component(call: Call) -> None:
    call["components"] = 1


@fault("imputers", "imputers:MixtureImputer.log_prob")
def densities_of_all_elements(call: Call) -> None:
    call["mask"] = None


@fault("imputers", "imputers:CausalImputer.__init__")
def effects_before_causes(call: Call) -> None:
    for name in ("ordering", "confounding"):
        if isinstance(call.get(name), list | tuple):
            call[name] = call[name][::-1]


@fault("vae", ":VAEImputer.impute")
def importance_weights_dropped(found: Any, call: Call) -> Any:
    return found._replace(log_weights=None)


@fault("vae", ":load")
def loaded_temper_forgotten(found: Any, call: Call) -> Any:
    imputer = getattr(found, "imputer", found)
    if hasattr(imputer, "temper"):
        imputer.temper = 1.0
    return found


# Other packages, many rows, models ---------------------------------------------------------------


@fault("interop", ":Explanation.to_shap")
def bases_of_other_outputs_for_shap(found: Any, call: Call) -> Any:
    """Of two classes, those of the other one."""
    found.base_values = 1 - found.base_values
    return found


@fault("interop", "interop:CaptumAttribution.attribute")
def target_of_the_first_row_for_all(call: Call) -> None:
    target = call.get("target")
    if isinstance(target, list) or (isinstance(target, torch.Tensor) and target.ndim):
        call["target"] = target[0] if isinstance(target[0], tuple) else int(target[0])


fault("io", ":explain_rows", "stored-labels-forgotten")(always(labels=None))
fault("io", ":explain_rows", "interrupted-rows-again")(always(resume=False))
fault("models", ":as_model", "batch-size-of-the-model-ignored")(always(batch_size=None))


@fault("models", ":as_model")
def names_of_classes_reversed(found: Any, call: Call) -> Any:
    """One that was wrapped before is left alone."""
    if found is not call["model"]:
        found.classes = found.classes[::-1]
    return found


# Oracles and the simplex -------------------------------------------------------------------------


@fault("oracles", "oracles:GaussianMixture.posterior")
def components_equally_frequent(found: torch.Tensor, call: Call) -> torch.Tensor:
    odds = found / call["self"].weights
    return odds / odds.sum(-1, keepdim=True)


@fault("oracles", "oracles:distance_to_true_shapley")
def distance_with_the_error_of_the_truth(found: Any, call: Call) -> Any:
    return replace(found, error=math.hypot(found.error, found.truth_error))


@fault("simplex", "simplex:replace_zeros")
def replaced_zeros_take_no_room(found: torch.Tensor, call: Call) -> torch.Tensor:
    return call["p"].where(call["p"] != 0, call["amount"])


@fault("simplex", ":Explanation.in_basis")
def errors_of_the_former_basis(found: Any, call: Call) -> Any:
    return replace(found, standard_error=call["self"].standard_error)


# Figures and reports -----------------------------------------------------------------------------


@fault("plots", "plots:waterfall")
def waterfall_of_wrong_players(axes: Any, call: Call) -> Any:
    axes.set_yticklabels([label.get_text() for label in axes.get_yticklabels()][::-1])
    return axes


@fault("plots", "plots:bar")
def whiskers_of_one_standard_error(call: Call) -> None:
    if hasattr(call["explanations"], "standard_error"):
        call["explanations"] = scaled("standard_error", 0.5)(call["explanations"], call)


fault("plots", "plots:waterfall", "row-of-a-label-is-the-first")(always(label=None))
fault("plots", "plots:beeswarm", "swarm-of-another-output")(always(output=None))
fault("report", ":Explanation.report", "report-without-global-values")(always(global_values=None))


@fault("report", ":Explanation.report")
def report_without_the_last_row(call: Call) -> None:
    """Where nothing else belongs to the rows."""
    others = [call.get(name) for name in ("tokens", "images", "series")]
    if len(call["self"].phi) > 1 and others == [None] * 3:
        if call.get("interactions") is not None:
            call["interactions"] = call["interactions"][:-1]
        call["self"] = call["self"][:-1]


# Tables and texts --------------------------------------------------------------------------------


@fault("tables", ":Table.rows")
def missing_cells_filled(call: Call) -> None:
    """By the most frequent value of their column."""
    if hasattr(call["frame"], "fillna"):
        call["frame"] = call["frame"].fillna(call["frame"].mode().iloc[0])


@fault("tables", ":Table.rows")
def cells_rounded(call: Call) -> None:
    if hasattr(call["frame"], "round"):
        call["frame"] = call["frame"].round(2)


@fault("text", "text:Vocabulary.encode")
def unknown_tokens_as_padding(found: torch.Tensor, call: Call) -> torch.Tensor:
    return found.masked_fill(found == 1, 0)


@fault("text", "text:word_maps")
def special_tokens_in_the_first_word(call: Call) -> None:
    """Tokens of no word belong to word 0, not to the word before them."""
    call["words"] = [[0 if word is None else word for word in own] for own in call["words"]]


# Training and value functions --------------------------------------------------------------------


@fault("training", ":fit_surrogate")
def training_seeded_by_the_clock(call: Call) -> None:
    call["seed"] = time.time_ns() % 2**31


@fault("training", ":fit_surrogate")
def directory_of_a_training_ignored(call: Call) -> None:
    call.pop("directory", None)


@fault("training", "training.task:learn")
def patience_ignored(call: Call) -> None:
    call["options"] = replace(call["options"], patience=None)


@fault("training", "training.task:Task.data_fingerprint")
def other_data_continued(found: str, call: Call) -> str:
    return ""


@fault("training", "nn:own_network")
def networks_of_users_themselves_trained(found: torch.nn.Module, call: Call) -> torch.nn.Module:
    """Not a copy."""
    network = call["network"]
    return network.cpu().float() if isinstance(network, torch.nn.Module) else found


@fault("surrogate", "surrogate.targets:TeacherTargets.sample")
def teacher_of_another_pair(found: Any, call: Call) -> Any:
    inputs, target = found
    return inputs, target.flip(1)


@fault("values", ":ValueFunction.estimate")
def half_the_variance_of_draws(found: Any, call: Call) -> Any:
    return found.map(lambda values: values, lambda variance: variance / 2)


@fault("values", ":ValueFunction.owned")
def no_player_is_lacked(found: torch.Tensor, call: Call) -> torch.Tensor:
    return torch.ones_like(found)


@fault("values", "values:StackedValue.values")
def variance_of_a_mean_of_values_of_one(found: Any, call: Call) -> Any:
    return found.map(lambda values: values, lambda variance: 2 * variance)


@fault("values", "values:GroupedValue.base")
def nobody_is_absent_from_the_base(found: torch.Tensor, call: Call) -> torch.Tensor:
    return call["self"].value.base(call["x"])


@fault("values", "values:Work.__add__")
def draws_of_the_second_value_function_forgotten(found: Any, call: Call) -> Any:
    return replace(found, sampled=call["self"].sampled)


@fault("coalitions", "coalitions:Coalitions.split")
def random_numbers_by_piece(found: Any, call: Call) -> Any:
    """Draws depend on how coalitions are cut into pieces."""
    numbered = enumerate(found)
    return (piece._replace(coalitions=piece.coalitions.folded(k)) for k, piece in numbered)


@fault("values", ":ValueFunction.select")
def another_output(call: Call) -> None:
    """The output before the one whose position is asked for."""
    if isinstance(call["outputs"], int):
        call["outputs"] -= 1


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
