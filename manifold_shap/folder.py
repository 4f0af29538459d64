"""Writes a value function of a table to a folder, and reads it: plain configuration and tensors.

`explainer.json` has the configuration, the codebook and the quality; `tensors.safetensors` the
weights of a network, the rows that an imputer draws from, and rows to recognise the model by.
The model is there only where a file of it was given. No code and nothing pickled is in it.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from torch import Tensor

from manifold_shap._messages import check_text
from manifold_shap._version import __version__
from manifold_shap.imputers import (
    CopulaImputer,
    EmpiricalImputer,
    GaussianImputer,
    Imputer,
    MarginalImputer,
    MixtureImputer,
    TableImputer,
    table_imputer,
)
from manifold_shap.io.files import digest, local_path, write_whole
from manifold_shap.models import Model
from manifold_shap.models.files import SUFFIXES, load_model
from manifold_shap.spaces import as_space
from manifold_shap.surrogate import SurrogateValue
from manifold_shap.surrogate.fit import SurrogateTask, surrogate_value
from manifold_shap.surrogate.targets import disagreement
from manifold_shap.tables.codebook import Codebook
from manifold_shap.vae import VAEImputer
from manifold_shap.vae.fit import VAETask
from manifold_shap.values import ImputedValue, StackedValue, ValueFunction

_FORMAT = "manifold_shap explainer"
_CONFIGURATION, _TENSORS = "explainer.json", "tensors.safetensors"
_ALWAYS = (_CONFIGURATION, _TENSORS)
# What a folder may be made of: a file of the model has a suffix that `load_model` reads.
FILES = (*_ALWAYS, *(f"model{suffix}" for suffix in SUFFIXES))
_CLASSICAL = {
    kind.name: kind
    for kind in (
        MarginalImputer,
        GaussianImputer,
        CopulaImputer,
        EmpiricalImputer,
        MixtureImputer,
    )
}


def save(
    folder: str | Path,
    value: ValueFunction,
    probe: Tensor,
    about: Mapping[str, Any],
    files: Mapping[str, bytes],
) -> None:
    """Write a value function whole, or nothing at all.

    Args:
        folder: to be made; one that `save` wrote is replaced, unless other files lie there now. A
            link to a folder stays, and the folder is replaced.
        value: by a surrogate or an imputer, or a mean of such, with a codebook.
        probe: codes of rows to recognise the model by.
        about: plain data to be kept beside it.
        files: further ones, by name.

    Raises:
        FileExistsError: something else stands at `folder`.
        ValueError: `folder` is a URL.
        OSError: no space or no permission; what stood there is left as it was.
    """
    from safetensors.torch import save_file

    folder = local_path("folder", folder)
    _check_replaceable(folder)
    described, tensors = _described(value)
    tensors |= {"probe": probe, "probe_outputs": value.prediction(probe)}
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    plain = {
        "format": _FORMAT,
        "version": __version__,
        "space": value.space.settings,
        "value": described,
        "codebook": cast(Any, value.schema).to_dict(),
        **about,
    }
    plain["digest"] = _digest(plain, tensors)

    def write(beside: Path) -> None:
        beside.mkdir()
        for name, content in files.items():
            (beside / name).write_bytes(content)
        save_file(tensors, beside / _TENSORS)
        text = json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False)
        (beside / _CONFIGURATION).write_text(text, encoding="utf-8")

    write_whole(Path(os.path.realpath(folder)), write)


def read(folder: str | Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The configuration and the tensors of a folder that `save` wrote.

    Raises:
        FileNotFoundError: no such folder.
        ValueError: it is damaged, of something else, or of a version that writes other parts.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    folder = Path(check_text("folder", folder))
    expected = f"Expected a folder that an explainer was saved to at {folder} but"
    if not folder.is_dir():
        raise FileNotFoundError(f"{expected} there is no folder; correct the path.")
    if not (folder / _CONFIGURATION).is_file():
        raise FileNotFoundError(f"{expected} there is no {_CONFIGURATION}; name the folder.")
    try:
        plain = json.loads((folder / _CONFIGURATION).read_text("utf-8"))
        tensors = load_file(folder / _TENSORS)
    except (OSError, ValueError, RecursionError, SafetensorError) as error:
        raise ValueError(
            f"{expected} its {_CONFIGURATION} or {_TENSORS} is damaged; save the explainer again."
        ) from error
    if plain.get("format") != _FORMAT:
        raise ValueError(f"{expected} it holds something of another program; name another.")
    if plain.pop("digest", None) != _digest(plain, tensors):
        raise ValueError(
            f"{expected} its files are not as they were saved together; save the explainer again."
        )
    return plain, tensors


def read_model(folder: str | Path, described: Mapping[str, str] | None) -> Any:
    """The model whose file a folder has, as `load_model` reads it.

    Args:
        folder: where an explainer was saved.
        described: name and checksum of the file, from the configuration; None where it has none.

    Raises:
        ValueError: there is no model, or it is damaged.
    """
    if described is None:
        raise ValueError(
            f"Expected a model but got none, and the explainer in {folder} was saved without one; "
            'pass the model, or save the explainer with `model_file="model.skops"`.'
        )
    name = described["name"]
    file = Path(folder) / name
    inside = Path(name).name == name and file.is_file()
    if not inside or digest(file.read_bytes()) != described["digest"]:
        raise ValueError(
            f"Expected the model's file {name!r} in {folder} as it was saved but it is missing or "
            "damaged; save the explainer again, or pass the model."
        )
    return load_model(file)


def value_from(
    plain: Mapping[str, Any], tensors: Mapping[str, Tensor], model: Model, codebook: Codebook
) -> ValueFunction:
    """The value function that a folder holds, of the model that it was made for.

    Raises:
        ValueError: the folder was made for another model.
    """
    value = _value(plain["value"], plain["space"], tensors, model, codebook)
    if gap := disagreement(value.prediction(tensors["probe"]), tensors["probe_outputs"]):
        raise ValueError(
            "Expected the model for which the explainer was made, but this one predicts otherwise "
            f"(by up to {gap:.3g} on the rows kept for that check); pass the original model, or "
            "make an explainer for this one."
        )
    return value


def _check_replaceable(folder: Path) -> None:
    """Raise FileExistsError unless a folder holds nothing but what an explainer wrote."""
    if not folder.exists():
        return
    own: set[str] = set()
    try:
        plain = json.loads((folder / _CONFIGURATION).read_text("utf-8"))
        if plain["format"] == _FORMAT:
            own = {*_ALWAYS, plain["model"].get("file", {}).get("name")} & set(FILES)
    except (OSError, ValueError, LookupError):
        pass
    if not own or not {each.name for each in folder.iterdir()} <= own:
        raise FileExistsError(
            f"Expected no file or folder at {folder}, or one with nothing in it but an explainer "
            "that was saved there, which would be replaced; name another folder."
        )


def _digest(plain: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    """A checksum of all that a folder holds."""
    return digest(json.dumps(plain), *sorted(tensors), *(tensors[name] for name in sorted(tensors)))


def _described(value: ValueFunction) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What a value function is, as plain data and tensors."""
    if isinstance(value, SurrogateValue):
        settings = {**value.checkpoint["hyper_parameters"], "schema": None}
        state = {f"network.{name}": own for name, own in value.checkpoint["state_dict"].items()}
        return {"kind": SurrogateTask.kind, "name": value.name, "settings": settings}, state
    if isinstance(value, StackedValue):
        parts = [_described(part) for part in value.parts]
        tensors = {
            f"{number}/{name}": tensor.clone()  # The parts may share some.
            for number, (_, own) in enumerate(parts)
            for name, tensor in own.items()
        }
        of_parts = [
            {**plain, "weight": w} for (plain, _), w in zip(parts, value.weights, strict=True)
        ]
        return {"kind": "stacked", "parts": of_parts}, tensors
    if not isinstance(value, ImputedValue):
        raise TypeError(
            "Expected a value function by a surrogate or an imputer but got "
            f"{type(value).__name__}, which cannot be saved."
        )
    imputer = value.imputer
    tensors = {"reference": imputer.reference, "base": value.expectation}
    plain: dict[str, Any] = {"kind": "imputed", "name": value.name, "imputer": imputer.name}
    plain |= {"draws": value.draws_requested, "seed": value.seed}
    if isinstance(imputer, TableImputer) and isinstance(imputer.inner, VAEImputer):
        plain["drawn"] = imputer.inner.settings
        plain["settings"] = {**imputer.checkpoint["hyper_parameters"], "schema": None}
        state = imputer.checkpoint["state_dict"]
        tensors |= {f"network.{name}": own for name, own in state.items()}
    return plain, tensors


def _value(
    described: Mapping[str, Any],
    space: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    model: Model,
    codebook: Codebook,
) -> ValueFunction:
    """What `_described` described."""
    if described["kind"] == "stacked":
        parts = [
            _value(part, space, _below(tensors, f"{number}/"), model, codebook)
            for number, part in enumerate(described["parts"])
        ]
        return StackedValue(parts, [part["weight"] for part in described["parts"]])
    if described["kind"] == "imputed":
        imputer = _imputer(described, tensors, codebook)
        draws, seed, name = (described[word] for word in ("draws", "seed", "name"))
        base = tensors["base"]
        return ImputedValue(imputer, model, as_space(**space), base, draws, seed, name)
    task = SurrogateTask(described["settings"])
    task.load_state_dict(_below(tensors, "network."))
    value = surrogate_value(task, model, codebook)
    value.update(name=described["name"])
    return value


def _imputer(
    described: Mapping[str, Any], tensors: Mapping[str, Tensor], codebook: Codebook
) -> Imputer:
    reference = tensors["reference"]
    if described["imputer"] != VAEImputer.name:
        return table_imputer(_CLASSICAL[described["imputer"]], codebook, reference)
    task = VAETask(described["settings"])
    task.load_state_dict(_below(tensors, "network."))
    seen = codebook.encode(reference)
    vae = VAEImputer(task.network, seen, codebook.elements, **described["drawn"])
    imputer = TableImputer(codebook, vae, reference)
    imputer.checkpoint = {**task.checkpoint(), "imputer": vae.settings}
    return imputer


def _below(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Those whose names begin so, by the rest of their names."""
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
