"""Saves things to folders, and loads them: plain settings and tensors, no code and no pickle.

`manifold_shap.json` has the settings, `tensors.safetensors` the weights, the rows that an imputer
draws from, and rows to recognise the model by. The model is there only where a file of it was
passed.
"""

import hashlib
import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from manifold_shap import explainer  # noqa: F401  These say what can be loaded.
from manifold_shap._messages import check_text
from manifold_shap._saved import KINDS, Passed, pack, unpack
from manifold_shap._version import __version__
from manifold_shap.amortized import fit  # noqa: F401
from manifold_shap.io.files import local_path
from manifold_shap.models.files import SUFFIXES, load_model

_FORMAT = "manifold_shap 3"
SETTINGS, _TENSORS = "manifold_shap.json", "tensors.safetensors"
_MODELS = tuple(f"model{suffix}" for suffix in SUFFIXES)


def save(thing: Any, folder: str | Path, *, model_file: str | Path | None = None) -> None:
    """Write a surrogate, an imputer, a value function of these or an explainer to a folder.

    It holds settings, weights, the rows that an imputer draws from, the distinct cells of a table's
    columns, and a few rows to recognise the model by: it is as confidential as the data. Other
    files in the folder are left alone. An imputer of your own is saved, too; import its class
    before `ms.load`.

    Of rows that lie in a file or a data set, 16 MB are kept. A VAE that was trained on more draws
    from codes of all of them; once it is loaded, from codes of the kept rows: its values then
    differ a little from those before.

        >>> import tempfile, torch
        >>> import manifold_shap as ms
        >>> x = torch.randn(100, 3, generator=torch.Generator().manual_seed(0))
        >>> model, folder = lambda x: x[:, :1] * x[:, 1:2], tempfile.mkdtemp()
        >>> value = ms.imputed_value(model, ms.imputers.GaussianImputer(x), "identity")
        >>> ms.save(value, folder)
        >>> again = ms.load(folder, model)
        >>> torch.equal(again.prediction(x), value.prediction(x))
        True

    Args:
        thing: of `fit_surrogate`, `fit_imputer`, `fit_amortized` or `imputed_value`, an imputer, or
            an `Explainer`.
        folder: on this machine; what was saved there before is replaced.
        model_file: a file of the model that `load_model` reads, such as `model.skops`, to be copied
            into the folder: then nobody has to pass the model.

    Raises:
        TypeError: something that cannot be saved.
        ValueError: a network or an imputer that was put together by hand; a model's file that may
            run code, is damaged, needs files beside it or holds another model; a URL.
        FileExistsError: files of something else have the names of these.
        OSError: no space or no permission; what was saved there before is left as it was.
    """
    from safetensors.torch import save as to_bytes

    folder = local_path("folder", folder)
    things, tensors = pack(thing)
    content = {_TENSORS: to_bytes(tensors)}
    plain: dict[str, Any] = {"format": _FORMAT, "version": __version__, "things": things}
    plain["checksum"] = hashlib.sha256(content[_TENSORS]).hexdigest()
    if model_file is not None:
        file = local_path("model_file", model_file)
        plain["model"] = f"model{file.suffix.lower()}"
        content[plain["model"]] = file.read_bytes()
    content[SETTINGS] = json.dumps(plain, ensure_ascii=False).encode()
    earlier = _settings(folder)
    taken = [name for name in content if (folder / name).exists()]
    if taken and earlier is None:
        raise FileExistsError(
            f"Expected no file {taken[0]} in {folder}, or one that `ms.save` wrote, but it is of "
            "something else; name another folder."
        )
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder) as beside:
        for name, own in content.items():
            Path(beside, name).write_bytes(own)
        if model_file is not None:
            # Where it lies alone: ONNX may keep weights in another file.
            unpack(things, tensors, Passed(load_model(Path(beside, plain["model"]))))
        for name in content:
            os.replace(Path(beside, name), folder / name)
    stale = (earlier or {}).get("model")
    if stale in _MODELS and stale not in content:
        (folder / stale).unlink(missing_ok=True)


def load(folder: str | Path, model: Any = None, *, network: Any = None) -> Any:
    """What `save` wrote.

        >>> import tempfile, torch
        >>> import manifold_shap as ms
        >>> folder = tempfile.mkdtemp()
        >>> ms.save(ms.imputers.BaselineImputer(torch.zeros(3)), folder)
        >>> ms.load(folder).name
        'baseline'

    Args:
        folder: where.
        model: the model that is explained, where the folder has no file of it. Names of outputs
            are those that `ms.as_model` gave it, else those that were saved.
        network: the torch module of the user's that was trained, or the function that made it,
            where there is one; its weights are those in the folder. Of an amortised explainer whose
            surrogate is of the user's as well, a function that makes either by its shapes:
            `outputs` is `(outputs,)` or `(players, outputs)`.

    Raises:
        TypeError: `network` is missing.
        ValueError: nothing was saved there; it is damaged, of something else or of another version;
            the model is missing, or another one.
    """
    from safetensors.torch import load as from_bytes

    folder = Path(check_text("folder", folder)).expanduser()
    expected = f"Expected a folder that `ms.save` wrote ({_FORMAT}) at {folder} but"
    plain = _settings(folder)
    if plain is None and (folder.suffix == ".zip" or (folder / "zarr.json").exists()):
        raise ValueError(f"{expected} there is an explanation; `ms.Explanation.load` reads it.")
    if plain is None or plain["format"] != _FORMAT:
        raise ValueError(f"{expected} there is none; correct the path, or save it again.")
    content, things = (folder / _TENSORS).read_bytes(), plain["things"]
    if hashlib.sha256(content).hexdigest() != plain["checksum"]:
        raise ValueError(f"{expected} it is damaged; save it again.")
    kinds = {thing["kind"] for thing in things}
    if model is None and "model" in kinds:
        if plain.get("model") not in _MODELS:
            raise ValueError(
                f"Expected a model but got none, and what was saved in {folder} is without one; "
                'pass the model, or save it with `model_file="model.skops"`.'
            )
        model = load_model(folder / plain["model"])
    if missing := kinds - {*KINDS}:
        raise ValueError(
            f"{expected} it holds {', '.join(sorted(missing))}, which is not there; import the "
            "module that defines it first."
        )
    return unpack(things, from_bytes(content), Passed(model, network))


def _settings(folder: Path) -> dict[str, Any] | None:
    """What was saved in a folder before; None where nothing is, or something else."""
    try:
        plain = json.loads((folder / SETTINGS).read_bytes())
        return plain if plain["format"].startswith("manifold_shap") else None
    except (OSError, LookupError, TypeError, ValueError, AttributeError, RecursionError):
        return None
