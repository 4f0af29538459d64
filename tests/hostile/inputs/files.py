"""Stores, checkpoints, folders and models on disk that were damaged, or are of something else."""

import json
import os
import shutil
import warnings
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import torch

import manifold_shap as ms
from tests.hostile.inputs.table import Input
from tests.hostile.inputs.things import ROWS, explanation, frame, model, of_frame

Change = Callable[[Path], object]


@cache
def stored() -> Path:
    path = Path(mkdtemp()) / "rows.zarr"
    explanation().save(path)
    return path


@cache
def trained() -> ms.SurrogateValue:
    settings: Any = {"hidden": [4], "max_epochs": 1, "progress": False}
    return ms.fit_surrogate(model, ROWS.repeat(10, 1), **settings)


@cache
def checkpoint() -> Path:
    path = Path(mkdtemp()) / "surrogate.ckpt"
    trained().save(path)
    return path


@cache
def folder() -> Path:
    path = Path(mkdtemp()) / "explainer"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Forty rows tell no value functions apart.
        ms.Explainer(of_frame, frame(), candidates=["gaussian"], progress=False).save(path)
    return path


def store(here: Path, change: Change) -> object:
    """Load a store after a change."""
    shutil.copytree(stored(), here / "rows.zarr")
    change(here / "rows.zarr")
    return ms.Explanation.load(here / "rows.zarr")


def surrogate(here: Path, change: Callable[[dict[str, Any]], object]) -> object:
    """Load a checkpoint after a change."""
    content = torch.load(checkpoint(), weights_only=True)
    change(content)
    torch.save(content, here / "s.ckpt")
    return ms.load_surrogate(here / "s.ckpt", ms.as_model(model, ROWS))


def explainer(here: Path, change: Change, seal: bool = False) -> object:
    """Load an explainer after a change; `seal` gives it the right checksum again."""
    from manifold_shap import folder as folders

    shutil.copytree(folder(), here / "explainer")
    change(here / "explainer")
    if seal:
        from safetensors.torch import load_file

        path = here / "explainer" / "explainer.json"
        plain = json.loads(path.read_text())
        plain.pop("digest", None)
        plain["digest"] = folders._digest(
            plain, load_file(here / "explainer" / "tensors.safetensors")
        )
        path.write_text(json.dumps(plain))
    return ms.Explainer.load(here / "explainer", of_frame)


def edited(name: str, **changes: Any) -> Change:
    """Change keys of a JSON file."""

    def change(place: Path) -> None:
        path = place / name
        content = json.loads(path.read_text())
        path.write_text(json.dumps({**content, **changes}))

    return change


def written(name: str, content: str | bytes) -> Change:
    def change(place: Path) -> None:
        data = content.encode() if isinstance(content, str) else content
        (place / name).write_bytes(data)

    return change


def model_file(name: str, content: bytes = b"", **_: Any) -> Callable[[Path], object]:
    def do(here: Path) -> object:
        (here / name).write_bytes(content)
        return ms.load_model(here / name)

    return do


def loop(here: Path, name: str) -> Path:
    """A link to itself."""
    os.symlink(here / name, here / name)
    return here / name


def attributes(**changes: Any) -> Change:
    """Change attributes of a store, in both files that have them."""

    def change(place: Path) -> None:
        for name in (".zattrs", ".zmetadata"):
            content = json.loads((place / name).read_text())
            where = content if name == ".zattrs" else content["metadata"][".zattrs"]
            where.update(changes)
            (place / name).write_text(json.dumps(content))

    return change


def dataset(**changes: Any) -> Callable[[Path], object]:
    """An explanation of a dataset with changed attributes; None takes one away."""

    def do(_: Path) -> object:
        changed = explanation().to_xarray()
        changed.attrs = {k: v for k, v in {**changed.attrs, **changes}.items() if v is not None}
        return ms.Explanation.from_xarray(changed)

    return do


def grown(place: Path) -> None:
    """Claim an array of 10^15 rows."""
    for name in ("phi/.zarray", ".zmetadata"):
        content = json.loads((place / name).read_text())
        where = content if name.startswith("phi") else content["metadata"]["phi/.zarray"]
        where["shape"][0] = 10**15
        (place / name).write_text(json.dumps(content))


INPUTS = [
    Input(
        "no store",
        lambda here: ms.Explanation.load(here / "nosuch.zarr"),
        FileNotFoundError,
        "Expected an explanation at ... but nothing is there; `Explanation.save` or `explain_rows` writes one.",
        mark="kept",
    ),
    Input(
        "a store that is a file",
        lambda here: (here / "f.zarr").write_text("x") and ms.Explanation.load(here / "f.zarr"),
        ValueError,
        "Expected a complete explanation store at ... but it cannot be read (GroupNotFoundError: No group found in store '...' at path ''); write it again.",
        mark="library",
    ),
    Input(
        "a store that is an empty folder",
        lambda here: ms.Explanation.load(here),
        ValueError,
        "Expected a complete explanation store at ... but it cannot be read (GroupNotFoundError: No group found in store '...' at path ''); write it again.",
        mark="kept",
    ),
    Input(
        "a store with a null byte in its name",
        lambda here: ms.Explanation.load("a\0b"),
        ValueError,
        "Expected `path` to be text without null bytes but got 'a\\x00b'; leave them out.",
        mark="library",
    ),
    Input(
        "a store whose name is a number",
        lambda here: ms.Explanation.load(3),
        TypeError,
        "Expected `path` to be text but got 3 (int).",
        mark="library",
    ),
    Input(
        "a store whose name is empty",
        lambda here: ms.Explanation.load(""),
        ValueError,
        "Expected a complete explanation store at ... but it cannot be read (GroupNotFoundError: No group found in store '...' at path ''); write it again.",
        mark="library",
    ),
    Input(
        "a store that is a link to itself",
        lambda here: ms.Explanation.load(loop(here, "s.zarr")),
        FileNotFoundError,
        "Expected an explanation at ... but nothing is there; `Explanation.save` or `explain_rows` writes one.",
        mark="library",
    ),
    Input(
        "a store at a URL",
        lambda here: ms.Explanation.load("https://localhost:1/s.zarr"),
        OSError,
        "[Errno 5] Could not read https://localhost:1/s.zarr/_manifest.json (...); see whether the store can be reached and whether its address and credentials, which fsspec takes from the environment or from its own configuration, are right.",
        mark="gone",
    ),
    Input(
        "a store without one chunk",
        lambda here: store(here, lambda p: (p / "phi/0.0.0").unlink()),
        ValueError,
        "Expected a complete explanation store at ... but some of its numbers, names or attributes are not those that were saved; make it again with `explain.py` or `Explanation.save`.",
        mark="gone",
    ),
    Input(
        "a store with an empty chunk",
        lambda here: store(here, written("phi/0.0.0", b"")),
        ValueError,
        "Expected a complete explanation store at ... but it cannot be read (RuntimeError: error during blosc decompression: 0); write it again.",
        mark="library",
    ),
    Input(
        "a store with a foreign chunk",
        lambda here: store(here, written("phi/0.0.0", b"no chunk at all")),
        ValueError,
        "Expected a complete explanation store at ... but it cannot be read (RuntimeError: error during blosc decompression: -1); write it again.",
        mark="library",
    ),
    Input(
        "a store without an array",
        lambda here: store(here, lambda p: shutil.rmtree(p / "phi")),
        ValueError,
        "Expected a complete explanation store at ... but some of its numbers, names or attributes are not those that were saved; make it again with `explain.py` or `Explanation.save`.",
        mark="library",
    ),
    Input(
        "a store without its index",
        lambda here: store(here, lambda p: (p / ".zmetadata").unlink()),
        ValueError,
        "Expected a complete explanation store at ... but it cannot be read (ValueError: .zmetadata); write it again.",
        mark="gone",
    ),
    Input(
        "a store whose index is empty",
        lambda here: store(here, written(".zmetadata", "")),
        ValueError,
        "Expected a complete explanation store at ... but it cannot be read (JSONDecodeError: Expecting value: line 1 column 1 (char 0)); write it again.",
        mark="gone",
    ),
    Input(
        "a store whose index is a list",
        lambda here: store(here, written(".zmetadata", "[]")),
        ValueError,
        "Expected a complete explanation store at ... but it cannot be read (TypeError: list indices must be integers or slices, not str); write it again.",
        mark="gone",
    ),
    Input(
        "a store whose index nests without end",
        lambda here: store(here, written(".zmetadata", "[" * 100_000)),
        ValueError,
        "Expected a complete explanation store at ... but it cannot be read (RecursionError: maximum recursion depth exceeded while decoding a JSON array from a unicode string); write it again.",
        mark="gone",
    ),
    Input(
        "a store of another program",
        lambda here: store(here, attributes(format="other")),
        ValueError,
        "Expected a dataset written by Explanation.save but got one of variables ['base', 'instances', 'outputs', 'phi', 'player_of_element', 'players', 'prediction', 'standard_error', 'x'] and format 'other'.",
        mark="kept",
    ),
    Input(
        "a store with changed attributes",
        lambda here: store(here, attributes(made_by='{"estimator": "oracle"}')),
        ValueError,
        "Expected a complete explanation store at ... but some of its numbers, names or attributes are not those that were saved; make it again with `explain.py` or `Explanation.save`.",
        mark="gone",
    ),
    Input(
        "a store with an unknown output space",
        lambda here: store(here, attributes(space='{"output": "nosuch"}', sha256=None)),
        ValueError,
        "Expected a complete explanation store at ... but some of its numbers, names or attributes are not those that were saved; make it again with `explain.py` or `Explanation.save`.",
        mark="gone",
    ),
    Input(
        "a store that claims 10^15 rows",
        lambda here: store(here, grown),
        ValueError,
        "Expected a complete explanation store at ... but it cannot be read (ValueError: conflicting sizes for dimension ... on 'phi' and length 4 on {'instances': 'base', 'outputs': 'base'}); write it again.",
        mark="library",
    ),
    Input(
        "a dataset of another program",
        lambda here: ms.Explanation.from_xarray(
            explanation().to_xarray().assign_attrs(format="other")
        ),
        ValueError,
        "Expected a dataset written by Explanation.save but got one of variables ['base', 'instances', 'outputs', 'phi', 'player_of_element', 'players', 'prediction', 'standard_error', 'x'] and format 'other'.",
        mark="twin",
    ),
    Input(
        "a dataset without phi",
        lambda here: ms.Explanation.from_xarray(explanation().to_xarray().drop_vars("phi")),
        ValueError,
        "Expected a dataset as Explanation.save wrote it but it is damaged (KeyError: \"No variable named 'phi'. Variables on the ... 'x', 'player_of_element', 'instances', 'players', 'outputs']\"); make it again.",
        mark="library",
    ),
    Input(
        "a dataset of an unknown output space",
        dataset(space='{"output": "nosuch"}'),
        ValueError,
        "Expected a dataset as Explanation.save wrote it but it is damaged (ValueError: Expected `output` to be one of ['probability', 'identity', 'log_odds', 'ilr'] but got 'nosuch'.); make it again.",
        mark="library",
    ),
    Input(
        "a dataset whose output space is a list",
        dataset(space="[]"),
        ValueError,
        "Expected a dataset as Explanation.save wrote it but it is damaged (TypeError: manifold_shap.spaces.as_space() argument after ** must be a mapping, not list); make it again.",
        mark="library",
    ),
    Input(
        "a dataset without an output space",
        dataset(space=None),
        ValueError,
        "Expected a dataset as Explanation.save wrote it but it is damaged (KeyError: 'space'); make it again.",
        mark="library",
    ),
    Input(
        "a dataset whose record is cut",
        dataset(made_by="{"),
        ValueError,
        "Expected a dataset as Explanation.save wrote it but it is damaged (JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)); make it again.",
        mark="library",
    ),
    Input(
        "a dataset whose record is a number",
        dataset(made_by=3),
        ValueError,
        "Expected a dataset as Explanation.save wrote it but it is damaged (TypeError: the JSON object must be str, bytes or bytearray, not int); make it again.",
        mark="library",
    ),
    Input(
        "a dataset whose schema is empty",
        dataset(schema="{}"),
        ValueError,
        "Expected a dataset as Explanation.save wrote it but it is damaged (ValueError: Expected a schema written by `Schema.to_dict` but got {}: KeyError('columns').); make it again.",
        mark="library",
    ),
    Input(
        "a dataset whose partition is empty",
        dataset(partition="{}"),
        ValueError,
        "Expected a dataset as Explanation.save wrote it but it is damaged (TypeError: Partition.__init__() missing 2 required positional arguments: 'signs' and 'classes'); make it again.",
        mark="library",
    ),
    Input(
        "a dataset whose padding is text",
        dataset(padding='"x"'),
        ValueError,
        "Expected a dataset as Explanation.save wrote it but it is damaged (TypeError: Expected `padding` to be a finite number but got 'x' (str).); make it again.",
        mark="library",
    ),
    Input(
        "a dataset whose players are others",
        lambda _: ms.Explanation.from_xarray(
            explanation().to_xarray().assign_coords(players=["a", "a", "b"])
        ),
        ValueError,
        "Expected a dataset as Explanation.save wrote it but it is damaged (ValueError: Expected distinct names of players but got ['a'] more than once; number them, or let one player own their elements.); make it again.",
        mark="library",
    ),
    Input(
        "a dataset with other shapes",
        lambda _: ms.Explanation.from_xarray(explanation().to_xarray().isel(players=[0, 1])),
        ValueError,
        "Expected a dataset as Explanation.save wrote it but it is damaged (ValueError: Expected `index` to hold every integer from 0 to 1, one per name in `names`, but got [0, 1, 2] for 2 names.); make it again.",
        mark="library",
    ),
    Input(
        "no dataset",
        lambda here: ms.Explanation.from_xarray(None),
        TypeError,
        "Expected a dataset of xarray but got NoneType; `explanation.to_xarray()` makes one, and `Explanation.load` reads a store.",
        mark="library",
    ),
    Input(
        "saving where a file is",
        lambda here: (here / "s.zarr").touch() or explanation().save(here / "s.zarr"),
        FileExistsError,
        "Expected ... to be free or to hold an earlier explanation, but something else stands there; move it away or choose another path.",
        mark="kept",
    ),
    Input(
        "saving where a folder of the user's is",
        lambda here: (here / "mine").mkdir() or explanation().save(here / "mine"),
        FileExistsError,
        "Expected ... to be free or to hold an earlier explanation, but something else stands there; move it away or choose another path.",
        mark="kept",
    ),
    Input(
        "saving into a file",
        lambda here: (here / "f").touch() or explanation().save(here / "f" / "s.zarr"),
        NotADirectoryError,
        "[Errno 20] Expected a folder at ..., to write s.zarr to, but it is a file; choose another path.",
        mark="library",
    ),
    Input(
        "saving under a null byte",
        lambda here: explanation().save(f"{here}/a\0b"),
        ValueError,
        "Expected `path` to be text without null bytes but got '...\\x00b'; leave them out.",
        mark="library",
    ),
    Input(
        "saving to a link to itself",
        lambda here: explanation().save(loop(here, "s.zarr")),
        NotADirectoryError,
        "[Errno 20] Could not write ... (Not a directory); free some space or choose another place. Nothing there was changed.",
        mark="library",
    ),
    Input(
        "saving under a name of 300 letters",
        lambda here: explanation().save(here / ("n" * 300)),
        OSError,
        "[Errno 36] Expected a path to write to but got one of ... letters (File name too long); choose another one.",
        mark="library",
    ),
    Input(
        "saving to a number",
        lambda here: explanation().save(3),
        TypeError,
        "Expected `path` to be text but got 3 (int).",
        mark="library",
    ),
    Input(
        "no checkpoint",
        lambda here: ms.load_surrogate(here / "no.ckpt", model),
        FileNotFoundError,
        "Expected a surrogate checkpoint at ... but no file is there; `train.py` writes one.",
        mark="kept",
    ),
    Input(
        "a checkpoint that is a folder",
        lambda here: ms.load_surrogate(here, model),
        FileNotFoundError,
        "Expected a surrogate checkpoint at ... but no file is there; `train.py` writes one.",
        mark="twin",
    ),
    Input(
        "a checkpoint that is empty",
        lambda here: (here / "s.ckpt").touch() or ms.load_surrogate(here / "s.ckpt", model),
        ValueError,
        "Expected a surrogate checkpoint at ... but the file is damaged or of another format; train again, or name another.",
        mark="kept",
    ),
    Input(
        "a checkpoint with a null byte in its name",
        lambda here: ms.load_surrogate("a\0b", model),
        ValueError,
        "Expected `path` to be text without null bytes but got 'a\\x00b'; leave them out.",
        mark="library",
    ),
    Input(
        "a checkpoint that is a link to itself",
        lambda here: ms.load_surrogate(loop(here, "s.ckpt"), model),
        FileNotFoundError,
        "Expected a surrogate checkpoint at ... but no file is there; `train.py` writes one.",
        mark="library",
    ),
    Input(
        "a checkpoint whose name is a number",
        lambda here: ms.load_surrogate(3, model),
        TypeError,
        "Expected `path` to be text but got 3 (int).",
        mark="library",
    ),
    Input(
        "a checkpoint of another kind",
        lambda here: ms.load_imputer(checkpoint(), ROWS),
        ValueError,
        "Expected a manifold_shap vae checkpoint at ... but it holds surrogate; name the file that `train.py` wrote.",
        mark="kept",
    ),
    Input(
        "a checkpoint of an explainer",
        lambda here: ms.load_amortized(checkpoint(), trained()),
        ValueError,
        "Expected a manifold_shap explainer checkpoint at ... but it holds surrogate; name the file that `train.py` wrote.",
        mark="twin",
    ),
    Input(
        "a checkpoint without weights",
        lambda here: surrogate(here, lambda c: c["state_dict"].clear()),
        ValueError,
        "Expected the surrogate in ... to be complete but it does not fit together (its settings ask for a layer of shape (4, 6), its weights do not); train it again.",
        mark="kept",
    ),
    Input(
        "a checkpoint with other weights",
        lambda here: surrogate(
            here,
            lambda c: c["state_dict"].update({k: t[..., :1] for k, t in c["state_dict"].items()}),
        ),
        ValueError,
        "Expected the surrogate in ... to be complete but it does not fit together (Error(s) in loading state_dict for SurrogateTask:); train it again.",
        mark="library",
    ),
    Input(
        "a checkpoint whose weights are text",
        lambda here: surrogate(
            here, lambda c: c["state_dict"].update(dict.fromkeys(c["state_dict"], "w"))
        ),
        ValueError,
        "Expected the surrogate in ... to be complete but it does not fit together ('str' object has no attribute 'numel'); train it again.",
        mark="library",
    ),
    Input(
        "a checkpoint whose weights are NaN",
        lambda here: surrogate(
            here,
            lambda c: c["state_dict"].update(
                {k: t * torch.nan for k, t in c["state_dict"].items() if t.is_floating_point()}
            ),
        ),
        ValueError,
        "Expected finite numbers but 64 of 64 entries of `model(x)` are NaN or infinite, the first in row 0, element 0 (nan); look for an overflow or a logarithm of zero in the model.",
        mark="twin",
    ),
    Input(
        "a checkpoint without settings",
        lambda here: surrogate(here, lambda c: c["hyper_parameters"].clear()),
        ValueError,
        "Expected the surrogate in ... to be complete but it does not fit together ('outputs'); train it again.",
        mark="library",
    ),
    Input(
        "a checkpoint with other settings",
        lambda here: surrogate(
            here, lambda c: c["hyper_parameters"]["network"].update(hidden="wide")
        ),
        ValueError,
        "Expected the surrogate in ... to be complete but it does not fit together (Expected `hidden` to list layer widths, at least 1 of them, such as [512, 512], but got wide.); train it again.",
        mark="library",
    ),
    Input(
        "a checkpoint with an unknown network",
        lambda here: surrogate(
            here, lambda c: c["hyper_parameters"]["network"].update(network="os.system")
        ),
        ValueError,
        "Expected the surrogate in ... to be complete but it does not fit together (Perceptron.__init__() got an unexpected keyword argument 'network'); train it again.",
        mark="library",
    ),
    Input(
        "a checkpoint with an unknown setting",
        lambda here: surrogate(here, lambda c: c["hyper_parameters"]["network"].update(nosuch=1)),
        ValueError,
        "Expected the surrogate in ... to be complete but it does not fit together (Perceptron.__init__() got an unexpected keyword argument 'nosuch'); train it again.",
        mark="library",
    ),
    Input(
        "a checkpoint that claims 10^9 layers' width",
        lambda here: surrogate(
            here, lambda c: c["hyper_parameters"]["network"].update(hidden=[10**9, 10**9])
        ),
        ValueError,
        "Expected the surrogate in ... to be complete but it does not fit together (its settings ask for a layer of shape (1000000000, 6), its weights do not); train it again.",
        mark="kept",
    ),
    Input(
        "a checkpoint for another model",
        lambda here: (
            surrogate(here, lambda c: None) and ms.load_surrogate(checkpoint(), lambda x: model(-x))
        ),
        ValueError,
        "Expected the model for which the surrogate in ... was trained, but this one predicts otherwise (by up to ... on the rows kept for that check); pass the original model, or train a surrogate for this one.",
        mark="kept",
    ),
    Input(
        "a zip of something else",
        lambda here: (
            zipfile.ZipFile(here / "z.ckpt", "w").writestr("a", "b")
            or ms.load_surrogate(here / "z.ckpt", model)
        ),
        ValueError,
        "Expected a surrogate checkpoint at ... but the file is damaged or of another format; train again, or name another.",
        mark="twin",
    ),
    Input(
        "no folder of an explainer",
        lambda here: ms.Explainer.load(here / "nosuch", of_frame),
        FileNotFoundError,
        "Expected a folder that an explainer was saved to at ... but there is no folder; correct the path.",
        mark="kept",
    ),
    Input(
        "an explainer whose folder is a number",
        lambda here: ms.Explainer.load(3, of_frame),
        TypeError,
        "Expected `folder` to be text but got 3 (int).",
        mark="library",
    ),
    Input(
        "an explainer without weights",
        lambda here: explainer(here, lambda p: (p / "tensors.safetensors").unlink()),
        ValueError,
        "Expected a folder that an explainer was saved to at ... but its tensors.safetensors is missing; save the explainer again.",
        mark="kept",
    ),
    Input(
        "an explainer with weights of another program",
        lambda here: explainer(here, written("tensors.safetensors", b"\xff" * 64)),
        ValueError,
        "Expected a folder that an explainer was saved to at ... but its tensors.safetensors is damaged; save the explainer again.",
        mark="twin",
    ),
    Input(
        "an explainer with a header of 10^18 bytes",
        lambda here: explainer(
            here, written("tensors.safetensors", (10**18).to_bytes(8, "little") + b"{}")
        ),
        ValueError,
        "Expected a folder that an explainer was saved to at ... but its tensors.safetensors is damaged; save the explainer again.",
        mark="twin",
    ),
    Input(
        "an explainer whose record is a list",
        lambda here: explainer(here, written("explainer.json", "[]")),
        ValueError,
        "Expected a folder that an explainer was saved to at ... but it holds something of another program; name another.",
        mark="twin",
    ),
    Input(
        "an explainer whose record is cut",
        lambda here: explainer(here, written("explainer.json", '{"format": ')),
        ValueError,
        "Expected a folder that an explainer was saved to at ... but its explainer.json is damaged; save the explainer again.",
        mark="kept",
    ),
    Input(
        "an explainer whose record is not text",
        lambda here: explainer(here, written("explainer.json", b"\xff\xfe\x00")),
        ValueError,
        "Expected a folder that an explainer was saved to at ... but its explainer.json is damaged; save the explainer again.",
        mark="twin",
    ),
    Input(
        "an explainer with a changed record",
        lambda here: explainer(here, edited("explainer.json", version="9")),
        ValueError,
        "Expected a folder that an explainer was saved to at ... but its files are not as they were saved together; save the explainer again.",
        mark="kept",
    ),
    Input(
        "an explainer with another value function",
        lambda here: explainer(
            here, edited("explainer.json", value={"kind": "os.system"}), seal=True
        ),
        ValueError,
        "Expected a complete value function in the folder but it does not fit together (KeyError: 'os.system'; written by version ..., this is ...); save the explainer again.",
        mark="library",
    ),
    Input(
        "an explainer without a value function",
        lambda here: explainer(here, edited("explainer.json", value=None), seal=True),
        ValueError,
        "Expected a complete value function in the folder but it does not fit together (TypeError: 'NoneType' object is not subscriptable; written by version ..., this is ...); save the explainer again.",
        mark="library",
    ),
    Input(
        "an explainer with another codebook",
        lambda here: explainer(here, edited("explainer.json", codebook={}), seal=True),
        ValueError,
        "Expected a codebook written by `Codebook.to_dict` but it is damaged, or something else wrote it (KeyError: 'form'); write it again.",
        mark="library",
    ),
    Input(
        "an explainer with another output space",
        lambda here: explainer(
            here, edited("explainer.json", space={"output": "nosuch"}), seal=True
        ),
        ValueError,
        "Expected `output` to be one of ['probability', 'identity', 'log_odds', 'ilr'] but got 'nosuch'.",
        mark="library",
    ),
    Input(
        "an explainer for another model",
        lambda here: ms.Explainer.load(folder(), lambda rows: of_frame(rows)[:, ::-1]),
        ValueError,
        "Expected the model for which the explainer was made, but this one predicts otherwise (by up to ... on the rows kept for that check); pass the original model, or make an explainer for this one.",
        mark="kept",
    ),
    Input(
        "saving an explainer where a folder of the user's is",
        lambda here: ms.Explainer.load(folder(), of_frame).save(here),
        FileExistsError,
        "Expected no file or folder at ..., or one with nothing in it but an explainer that was saved there, which would be replaced, but there is no explainer.json; name another folder.",
        mark="kept",
    ),
    Input(
        "an ONNX file that is empty",
        model_file("m.onnx"),
        ValueError,
        "Expected a model that onnxruntime can read at ... but the file is damaged or of another format ([ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Load model from ... failed:No graph was found in the protobuf.).",
        mark="twin",
    ),
    Input(
        "a skops file that is text",
        model_file("m.skops", b"hello"),
        ValueError,
        "Expected a model that skops.io can read at ... but the file is damaged or of another format (File is not a zip file).",
        mark="twin",
    ),
    Input(
        "an xgboost file that is another JSON",
        model_file("m.json", b"[1, 2]"),
        ValueError,
        "Expected a model that xgboost can read at ... but the file is damaged or of another format (... Check failed: str[0] == '{' ([ vs. {) : Invalid model format in: `...`.).",
        mark="twin",
    ),
    Input(
        "an xgboost file that nests without end",
        model_file("m.json", b"[" * 100_000),
        ValueError,
        "Expected a model that xgboost can read at ... but the file is damaged or of another format (it nests without end).",
        mark="kept",
    ),
    Input(
        "a UBJSON file of noise",
        model_file("m.ubj", bytes(range(256))),
        ValueError,
        "Expected a model that xgboost can read at ... but the file is damaged or of another format (it is cut short).",
        mark="twin",
    ),
    Input(
        "a lightgbm file of text",
        model_file("m.txt", b"tree\nversion=v4\nnum_class=10000000000\n"),
        ValueError,
        "Expected a model that lightgbm can read at ... but the file is damaged or of another format (it is cut short).",
        mark="kept",
    ),
    Input(
        "a model of another ending",
        model_file("m.h5"),
        ValueError,
        "Expected a model file that ends in one of ['.onnx', '.skops', '.ubj', '.json', '.txt', '.cbm'] but got '...'.",
        mark="kept",
    ),
    Input(
        "a model without an ending",
        model_file("model"),
        ValueError,
        "Expected a model file that ends in one of ['.onnx', '.skops', '.ubj', '.json', '.txt', '.cbm'] but got '...'.",
        mark="twin",
    ),
    Input(
        "a model that is a folder",
        lambda here: (here / "m.onnx").mkdir() or ms.load_model(here / "m.onnx"),
        FileNotFoundError,
        "Expected a model at ... but no file is there; correct `path`.",
        mark="library",
    ),
    Input(
        "a model with a null byte in its name",
        lambda here: ms.load_model("a\0b.onnx"),
        ValueError,
        "Expected `path` to be text without null bytes but got 'a\\x00b.onnx'; leave them out.",
        mark="library",
    ),
    Input(
        "a model that is a link to itself",
        lambda here: ms.load_model(loop(here, "m.onnx")),
        FileNotFoundError,
        "Expected a model at ... but no file is there; correct `path`.",
        mark="library",
    ),
    Input(
        "a model at a URL",
        lambda here: ms.load_model("https://localhost:1/m.onnx"),
        FileNotFoundError,
        "Expected a model at https:/localhost:1/m.onnx but no file is there; correct `path`.",
        mark="library",
    ),
    Input(
        "a model whose path is a number",
        lambda here: ms.load_model(7),
        TypeError,
        "Expected `path` to be text but got 7 (int).",
        mark="library",
    ),
    Input(
        "a model whose path is None",
        lambda here: ms.load_model(None),
        TypeError,
        "Expected `path` to be text but got None (NoneType).",
        mark="library",
    ),
]
