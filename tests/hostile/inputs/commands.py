"""Words on the command line, and run directories that were tampered with."""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from unittest.mock import patch

from manifold_shap import cli
from tests.cli.commands import FOREST, ORDERS, TINY
from tests.cli.commands import train as trained
from tests.hostile.inputs.table import Input

Do = Callable[[Path], object]
IRIS = ["data=iris", *FOREST]


def typed(name: str, *words: str) -> Do:
    """A command as it is typed; it exits with its message."""

    def do(here: Path) -> object:
        before = signal.getsignal(signal.SIGTERM)
        (here / "file").touch()
        usual = (
            [] if any(word.startswith("runs_dir=") for word in words) else ["runs_dir={here}/runs"]
        )
        argv = [f"{name}.py", *(word.format(here=here) for word in (*usual, *words))]
        try:
            with patch.object(sys, "argv", argv), patch.dict(os.environ, HYDRA_FULL_ERROR="1"):
                return {"train": cli.main_train, "explain": cli.main_explain}[name]()
        finally:
            signal.signal(signal.SIGTERM, before)

    return do


def train(*words: str) -> Do:
    return typed("train", *words)


def explain(*words: str) -> Do:
    return typed("explain", *words)


@cache
def runs() -> Path:
    """A forest and a surrogate of irises."""
    place = Path(mkdtemp())
    trained(place, *IRIS, *TINY)
    return place


def tampered(change: Callable[[Path], object], *words: str) -> Do:
    """Explain irises after a change of the run's directory."""

    def do(here: Path) -> object:
        shutil.copytree(runs() / "iris", here / "runs" / "iris")
        change(here / "runs" / "iris")
        return explain("data=iris", "instances=2", *ORDERS, "compare=[]", "progress=false", *words)(
            here
        )

    return do


def recorded(**changes: Any) -> Callable[[Path], object]:
    """Change groups of settings in the record of the surrogate."""

    def change(place: Path) -> None:
        path = place / "surrogate" / "config.json"
        config = json.loads(path.read_text())
        for name, entry in changes.items():
            config[name] = {**config[name], **entry} if isinstance(entry, dict) else entry
        path.write_text(json.dumps(config))

    return change


def file(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda place: (place / name).write_bytes(content)


def gone(name: str) -> Callable[[Path], object]:
    return lambda place: (place / name).unlink()


def swapped(place: Path) -> None:
    """The surrogate where the forest should be."""
    shutil.copy(place / "surrogate" / "surrogate.ckpt", place / "classifier" / "model.skops")


INPUTS = [
    Input(
        "train: an unknown group",
        train("dta=digits"),
        SystemExit,
        "Expected settings among those that --help lists but got 'dta'; did you mean 'data'?",
        mark="gone",
    ),
    Input(
        "train: an unknown option",
        train("data=digit"),
        SystemExit,
        "Expected data to be one of [...] but got 'digit'; did you mean 'digits'?",
        slow=True,
        mark="gone",
    ),
    Input(
        "train: an unknown setting",
        train("data.tst=0.3"),
        SystemExit,
        "Expected settings among those that --help lists but got 'data.tst'; did you mean 'data.test'?",
        slow=True,
        mark="gone",
    ),
    Input(
        "train: an added setting",
        train("+nosuch=1"),
        SystemExit,
        "ValueError: Expected settings among those that --help lists but got 'nosuch'.",
        slow=True,
        mark="gone",
    ),
    Input(
        "train: a setting taken away",
        train("~seed"),
        SystemExit,
        "ValueError: Expected a setting as seed=value but got 'seed' with + or ~; leave that out.",
        slow=True,
        mark="gone",
    ),
    Input(
        "train: a setting without a value",
        train("seed"),
        SystemExit,
        "Expected settings as key=value but: Error parsing override 'seed' missing EQUAL at '<EOF>' See https://hydra.cc/docs/1.2/advanced/override_grammar/basic for details",
        slow=True,
        mark="gone",
    ),
    Input(
        "train: a setting with dashes",
        train("--seed", "3"),
        SystemExit,
        "Expected settings as key=value but got '--seed'; type seed=3 instead.",
        slow=True,
        mark="gone",
    ),
    Input(
        "train: a list that does not end",
        train("value_function.hidden=[3"),
        SystemExit,
        "Expected settings as key=value but: no viable alternative at input '[3' See https://hydra.cc/docs/1.2/advanced/override_grammar/basic for details",
        slow=True,
        mark="gone",
    ),
    Input(
        "train: a seed of text",
        train("seed=abc"),
        SystemExit,
        "TypeError: Expected `seed` to be a whole number from 0 to 9223372036854775807 but got 'abc' (str); 0 is as good as any other.",
        mark="library",
    ),
    Input(
        "train: a seed of 1.5",
        train("seed=1.5"),
        SystemExit,
        "TypeError: Expected `seed` to be a whole number from 0 to 9223372036854775807 but got 1.5 (float); 0 is as good as any other.",
        slow=True,
        mark="library",
    ),
    Input(
        "train: a seed of null",
        train("seed=null"),
        SystemExit,
        "TypeError: Expected `seed` to be a whole number from 0 to 9223372036854775807 but got None (NoneType); 0 is as good as any other.",
        slow=True,
        mark="library",
    ),
    Input(
        "train: a seed of 2^63",
        train("seed=9223372036854775808"),
        SystemExit,
        "ValueError: Expected `seed` to be a whole number from 0 to 9223372036854775807 but got 9223372036854775808; 0 is as good as any other.",
        slow=True,
        mark="library",
    ),
    Input(
        "train: a validation share of nan",
        train("data=iris", "data.validation=nan"),
        SystemExit,
        "ValueError: Expected `validation` to be a finite number above 0 and below 1 but got nan.",
        mark="twin",
    ),
    Input(
        "train: runs in a number",
        train("runs_dir=5"),
        SystemExit,
        "TypeError: Expected `runs_dir` to be text but got 5 (int).",
        slow=True,
        mark="library",
    ),
    Input(
        "train: runs in a file",
        train("runs_dir={here}/file", "data=iris", *FOREST, *TINY),
        SystemExit,
        "NotADirectoryError: [Errno 20] Expected to be able to write runs to ... but cannot (Not a directory); choose another place with runs_dir=...",
        slow=True,
        mark="library",
    ),
    Input(
        "train: a name that leads out",
        train("data.name=../../x"),
        SystemExit,
        "ValueError: Expected `data.name` to be the name of one directory, without slashes and with no dot in front, but got '../../x'; runs_dir=... says where runs lie.",
        mark="kept",
    ),
    Input(
        "train: a name that is absolute",
        train("data.name=/x"),
        SystemExit,
        "ValueError: Expected `data.name` to be the name of one directory, without slashes and with no dot in front, but got '/x'; runs_dir=... says where runs lie.",
        slow=True,
        mark="twin",
    ),
    Input(
        "train: a name that is empty",
        train("data.name=''"),
        SystemExit,
        "ValueError: Expected `data.name` to be the name of one directory, without slashes and with no dot in front, but got ''; runs_dir=... says where runs lie.",
        slow=True,
        mark="twin",
    ),
    Input(
        "train: a name from the environment",
        train("data.name=${{oc.env:HOME}}"),
        SystemExit,
        "ValueError: Expected `data.name` to be the name of one directory, without slashes and with no dot in front, but got '...'; runs_dir=... says where runs lie.",
        slow=True,
        mark="twin",
    ),
    Input(
        "train: a name of an unknown variable",
        train("data.name=${{oc.env:NO_SUCH_VARIABLE}}"),
        SystemExit,
        "Expected settings that can be read but: KeyError raised while resolving interpolation: \"Environment variable 'NO_SUCH_VARIABLE' not found\"; correct them.",
        slow=True,
        mark="library",
    ),
    Input(
        "train: a setting that refers to itself",
        train("data.name=${{data.name}}"),
        SystemExit,
        "Expected settings that can be read but: Recursive interpolation detected; correct them.",
        mark="library",
    ),
    Input(
        "train: a table without a path",
        train("data=table"),
        SystemExit,
        "ValueError: Expected settings that have no default but got none: give data.path=...",
        slow=True,
        mark="library",
    ),
    Input(
        "train: a table that is not there",
        train("data=table", "data.path={here}/no.csv", "data.target=y"),
        SystemExit,
        "FileNotFoundError: Expected the file '...' but there is none; correct `path`.",
        mark="kept",
    ),
    Input(
        "train: a table at a URL",
        train("data=table", "data.path=https://localhost:1/t.csv", "data.target=y"),
        SystemExit,
        "FileNotFoundError: Expected the path of a file but got the address 'https://localhost:1/t.csv'; download it first.",
        slow=True,
        mark="gone",
    ),
    Input(
        "train: a table without a target",
        train("data=table", "data.path={here}/no.csv"),
        SystemExit,
        "ValueError: Expected data.target=..., the column that a model is to be trained to predict, or model=file model.path=... with a model of your own, but got neither.",
        slow=True,
        mark="kept",
    ),
    Input(
        "train: a table whose path is a number",
        train("data=table", "data.path=5", "data.target=y"),
        SystemExit,
        "TypeError: Expected `path` to be text but got 5 (int).",
        slow=True,
        mark="library",
    ),
    Input(
        "train: a folder of pictures that is not there",
        train("data=image_folder", "data.path={here}/no"),
        SystemExit,
        "FileNotFoundError: Expected the folder '...' but there is none; correct `path`.",
        slow=True,
        mark="twin",
    ),
    Input(
        "train: texts that are not there",
        train("data=text", "data.path={here}/no.csv"),
        SystemExit,
        "FileNotFoundError: Expected the file '...' but there is none; correct `path`.",
        slow=True,
        mark="twin",
    ),
    Input(
        "train: series that are not there",
        train("data=series", "data.path={here}/no.npz"),
        SystemExit,
        "FileNotFoundError: Expected the file '...' but there is none; correct `path`.",
        slow=True,
        mark="twin",
    ),
    Input(
        "train: code that is not there",
        train("classifier._target_=no.Such"),
        SystemExit,
        "ValueError: Expected the name of a class or a function that can be imported, such as manifold_shap.exact_shapley, but got 'no.Such' (No module named 'no').",
        mark="library",
    ),
    Input(
        "train: a classifier that is no classifier",
        train("data=iris", "classifier._target_=pathlib.Path"),
        SystemExit,
        "TypeError: Expected `classifier` to be the recipe of a network or a scikit-learn classifier with `fit` and `predict_proba`, but got PosixPath; set `probability=True` where the class has that option.",
        slow=True,
        mark="library",
    ),
    Input(
        "train: an unknown argument of a classifier",
        train("+classifier.nosuch=1"),
        SystemExit,
        "ValueError: Expected settings that MLPClassifier takes as `classifier` but: Expected options of `MLPClassifier` among ... but got ['nosuch'].",
        mark="library",
    ),
    Input(
        "train: an unknown device",
        train("data=iris", *FOREST, *TINY, "trainer.accelerator=warp"),
        SystemExit,
        "ValueError: Expected `trainer` settings that Lightning and this machine can run but got {'accelerator': 'warp', ... You selected an invalid accelerator name: `accelerator='warp'`. Available names are...",
        slow=True,
        mark="library",
    ),
    Input(
        "train: a model and a classifier",
        train("model=file", "model.path=m.onnx", "classifier=mlp"),
        SystemExit,
        "ValueError: Expected settings of a `model` of your own, or of a `classifier` that is trained, but got both; leave one out.",
        slow=True,
        mark="kept",
    ),
    Input(
        "train: a model that is a pickle",
        train("data=iris", "model=file", "model.path=m.pkl"),
        SystemExit,
        "ValueError: Refused to load m.pkl: reading it can run code that is in it. Save the model as ONNX (.onnx; ... .txt, .cbm); or load the file in your own code, if you trust it, and pass the model.",
        mark="kept",
    ),
    Input(
        "train: a model that is not there",
        train("data=iris", "model=file", "model.path={here}/m.onnx"),
        SystemExit,
        "FileNotFoundError: Expected a model at ... but no file is there; correct `path`.",
        slow=True,
        mark="twin",
    ),
    Input(
        "train: a model in no module",
        train("data=iris", "model=python", "model.call=no.such:thing"),
        SystemExit,
        "ValueError: Expected the name of a class or a function that can be imported, such as manifold_shap.exact_shapley, but got 'no.such:thing' (No module named 'no').",
        slow=True,
        mark="library",
    ),
    Input(
        "train: a model without a name",
        train("data=iris", "model=python", "model.call=json"),
        SystemExit,
        "TypeError: Expected `model` to be a torch module, ... but got <module 'json' from '...'>.",
        slow=True,
        mark="library",
    ),
    Input(
        "train: a model that is no model",
        train("data=iris", "model=python", "model.call=math:pi"),
        SystemExit,
        "TypeError: Expected `model` to be a torch module, ... but got ...",
        slow=True,
        mark="library",
    ),
    Input(
        "train: players of unknown columns",
        train("data=iris", *FOREST, "players={{a: [nosuch]}}"),
        SystemExit,
        "ValueError: Expected players in `groups` among ['sepal length (cm)', 'sepal width (cm)', 'petal length (cm)', 'petal width (cm)'] but got ['nosuch'].",
        slow=True,
        mark="twin",
    ),
    Input(
        "train: players as text",
        train("data=iris", *FOREST, "players=abc"),
        SystemExit,
        "TypeError: Expected groups of players by name, as in {size: [length, width]}, but got 'abc'.",
        slow=True,
        mark="library",
    ),
    Input(
        "train: an unknown output space",
        train("data=iris", *FOREST, "value_function.output=logits"),
        SystemExit,
        "ValueError: Expected `output` to be one of ['probability', 'identity', 'log_odds', 'ilr'] but got 'logits'.",
        slow=True,
        mark="twin",
    ),
    Input(
        "train: plain values of a classifier",
        train("data=iris", *FOREST, "value_function.output=identity"),
        SystemExit,
        "ValueError: Expected a regression model for output='identity' but this one returns probabilities of 3 classes; use ... whose plain values are to be shared out: `ms.as_model(function, x, returns='values')`.",
        slow=True,
        mark="kept",
    ),
    Input(
        "train: a teacher that is itself",
        train("data=iris", *FOREST, "value_function.teacher=surrogate"),
        SystemExit,
        "ValueError: Expected `teacher` to name another value function than 'surrogate', which would learn from itself; choose one of ...",
        slow=True,
        mark="kept",
    ),
    Input(
        "train: an unknown teacher",
        train("data=iris", *FOREST, "value_function.teacher=nosuch"),
        SystemExit,
        "ValueError: Expected `value_function` to be one of [...] but got 'nosuch'.",
        slow=True,
        mark="twin",
    ),
    Input(
        "train: an explainer of a value function without a network",
        train("data=iris", *FOREST, "value_function=marginal", "amortized=default"),
        SystemExit,
        "ValueError: Expected a surrogate together with `amortized`, which learns to explain one, but got value_function=marginal; leave `amortized` out, or choose value_function=surrogate.",
        slow=True,
        mark="kept",
    ),
    Input(
        "train: epochs as text",
        train("data=iris", *FOREST, "value_function.max_epochs=many"),
        SystemExit,
        "TypeError: Expected `max_epochs` to be a whole number of at least 1 but got 'many' (str).",
        slow=True,
        mark="library",
    ),
    Input(
        "train: progress as text",
        train("progress=maybe"),
        SystemExit,
        "TypeError: Expected `progress` to be true or false but got 'maybe' (str).",
        slow=True,
        mark="library",
    ),
    Input(
        "train: overwrite as text",
        train("overwrite=perhaps"),
        SystemExit,
        "TypeError: Expected `overwrite` to be true or false but got 'perhaps' (str).",
        slow=True,
        mark="library",
    ),
    Input(
        "explain: nothing trained",
        explain(),
        SystemExit,
        "FileNotFoundError: Expected a trained classifier in ... but there is none; run `python train.py data=digits value_function=surrogate runs_dir=...` first, with the other settings of this call.",
        mark="kept",
    ),
    Input(
        "explain: an unknown setting",
        explain("estimator.evaluation=5"),
        SystemExit,
        "Expected settings among those that --help lists but got 'estimator.evaluation'; did you mean 'estimator.evaluations'?",
        slow=True,
        mark="gone",
    ),
    Input(
        "explain: instances=true",
        explain("instances=true"),
        SystemExit,
        "TypeError: Expected `instances` to be a whole number of at least 1 but got True (bool); the first test rows, a list of rows, or all.",
        mark="library",
    ),
    Input(
        "explain: instances=1.5",
        explain("instances=1.5"),
        SystemExit,
        "TypeError: Expected `instances` to be a whole number of at least 1 but got 1.5 (float); the first test rows, a list of rows, or all.",
        slow=True,
        mark="library",
    ),
    Input(
        "explain: instances=0",
        explain("instances=0"),
        SystemExit,
        "ValueError: Expected `instances` to be a whole number of at least 1 but got 0; the first test rows, a list of rows, or all.",
        slow=True,
        mark="kept",
    ),
    Input(
        "explain: compare=5",
        explain("compare=5"),
        SystemExit,
        "TypeError: Expected `compare` to list value functions, as in [marginal], but got 5.",
        mark="library",
    ),
    Input(
        "explain: block=0",
        explain("block=0"),
        SystemExit,
        "ValueError: Expected `block` to be a whole number of at least 1 but got 0.",
        slow=True,
        mark="library",
    ),
    Input(
        "explain: engine.workers=-1",
        explain("engine.workers=-1"),
        SystemExit,
        "ValueError: Expected `engine.workers` to be a whole number of at least 1 but got -1.",
        slow=True,
        mark="library",
    ),
    Input(
        "explain: resume as text",
        explain("resume=later"),
        SystemExit,
        "TypeError: Expected `resume` to be true or false but got 'later' (str).",
        slow=True,
        mark="library",
    ),
    Input(
        "explain: a checkpoint that is a number",
        explain("checkpoint=5"),
        SystemExit,
        "TypeError: Expected `checkpoint` to be text but got 5 (int).",
        slow=True,
        mark="library",
    ),
    Input(
        "explain: an ordering without its use",
        explain("ordering=[[a]]", "asymmetric=false"),
        SystemExit,
        "ValueError: Expected asymmetric=true or `confounding` together with `ordering`, which does nothing otherwise; asymmetric=true restricts the permutations to it, and confounding=[...] makes values causal.",
        slow=True,
        mark="kept",
    ),
    Input(
        "explain: confounding without an ordering",
        explain("confounding=[true]"),
        SystemExit,
        "ValueError: Expected `ordering` together with `confounding`, whose flags are for its components, but got none; give ordering=[[...],[...]].",
        slow=True,
        mark="kept",
    ),
    Input(
        "explain: permutations as text",
        explain("estimator=permutation", "estimator.permutations=many"),
        SystemExit,
        "TypeError: Expected `permutations` to be a whole number of at least 1 but got 'many' (str).",
        slow=True,
        mark="library",
    ),
    Input(
        "explain: an estimator that is not trained",
        explain("estimator=amortized"),
        SystemExit,
        "FileNotFoundError: Expected a trained amortised explainer in ... but there is none; run `python train.py data=digits value_function=surrogate amortized=default runs_dir=...` first, with the other settings of this call.",
        slow=True,
        mark="kept",
    ),
    Input(
        "explain: code of an estimator that is not there",
        explain("estimator._target_=os.nosuch"),
        SystemExit,
        "ValueError: Expected the name of a class or a function that can be imported, such as manifold_shap.exact_shapley, but got 'os.nosuch' (module 'os' has no attribute 'nosuch').",
        slow=True,
        mark="library",
    ),
    Input(
        "run: instances that there are not",
        tampered(lambda p: None, "instances=[99999]"),
        SystemExit,
        "ValueError: Expected `instances` to list test rows from 0 to 29 but got [99999].",
        mark="kept",
    ),
    Input(
        "run: negative instances",
        tampered(lambda p: None, "instances=[-1]"),
        SystemExit,
        "ValueError: Expected `instances` to list test rows from 0 to 29 but got [-1].",
        mark="kept",
    ),
    Input(
        "run: outputs that there are not",
        tampered(lambda p: None, "outputs=[cat]"),
        SystemExit,
        "ValueError: Expected `outputs` to be one of ['setosa', 'versicolor', 'virginica'] but got 'cat'.",
        mark="twin",
    ),
    Input(
        "run: an ordering of unknown players",
        tampered(lambda p: None, "ordering=[[cat]]"),
        SystemExit,
        "ValueError: Expected players in `ordering` among ['sepal length (cm)', 'sepal width (cm)', 'petal length (cm)', 'petal width (cm)'] but got ['cat'].",
        mark="twin",
    ),
    Input(
        "run: an unknown value function to compare",
        tampered(lambda p: None, "compare=[nosuch]"),
        SystemExit,
        "ValueError: Expected `value_function` to be one of [...] but got 'nosuch'.",
        mark="twin",
    ),
    Input(
        "run: a checkpoint that is not there",
        tampered(lambda p: None, "checkpoint={here}/no.ckpt"),
        SystemExit,
        "FileNotFoundError: Expected a checkpoint at ... but no file is there.",
        mark="kept",
    ),
    Input(
        "run: an unknown device",
        tampered(lambda p: None, "device=warp"),
        SystemExit,
        "ValueError: Expected `device` to be cpu, auto, or cuda where torch finds one (False), but got 'warp'.",
        mark="library",
    ),
    Input(
        "run: an unknown precision",
        tampered(lambda p: None, "precision=3-bit"),
        SystemExit,
        "ValueError: Expected `precision` to be one of ('32-true', 'bf16-mixed', '16-mixed', 'auto') but got '3-bit'.",
        mark="library",
    ),
    Input(
        "run: a record that is cut",
        tampered(file("surrogate/config.json", b"{")),
        SystemExit,
        "ValueError: Expected the record of a run in ... but it is damaged (it lacks settings of data, classifier, value_function); remove that directory and train again.",
        mark="kept",
    ),
    Input(
        "run: a record that is empty",
        tampered(file("surrogate/config.json", b"")),
        SystemExit,
        "ValueError: Expected the record of a run in ... but it is damaged (it lacks settings of data, classifier, value_function); remove that directory and train again.",
        mark="twin",
    ),
    Input(
        "run: a record that is no text",
        tampered(file("surrogate/config.json", b"\xff\xfe\x00")),
        SystemExit,
        "ValueError: Expected the record of a run in ... but it is damaged (it lacks settings of data, classifier, value_function); remove that directory and train again.",
        mark="twin",
    ),
    Input(
        "run: a record that is a list",
        tampered(file("surrogate/config.json", b"[1]")),
        SystemExit,
        "ValueError: Expected the record of a run in ... but it is damaged (it lacks settings of data, classifier, value_function); remove that directory and train again.",
        mark="twin",
    ),
    Input(
        "run: a record that nests without end",
        tampered(file("surrogate/config.json", b"[" * 100_000)),
        SystemExit,
        "ValueError: Expected the record of a run in ... but it is damaged (it lacks settings of data, classifier, value_function); remove that directory and train again.",
        mark="twin",
    ),
    Input(
        "run: a record that is a folder",
        tampered(
            lambda p: (
                (p / "surrogate/config.json").unlink() or (p / "surrogate/config.json").mkdir()
            )
        ),
        SystemExit,
        "ValueError: Expected the record of a run in ... but it is damaged (it lacks settings of data, classifier, value_function); remove that directory and train again.",
        mark="twin",
    ),
    Input(
        "run: a record with code for the data",
        tampered(recorded(data={"_target_": "os.system"})),
        SystemExit,
        "ValueError: Expected the settings that ... was trained with, but this call says otherwise (data._target_: 'os.system' -> 'manifold_shap.data.Iris'); leave them out, or train with them (runs_dir=... keeps both).",
        mark="kept",
    ),
    Input(
        "run: a record with code for the value function",
        tampered(recorded(value_function={"_target_": "os.system"})),
        SystemExit,
        "ValueError: Expected the settings that ... was trained with, but this call says otherwise (value_function._target_: 'os.system' -> 'manifold_shap.fit_surrogate'); leave them out, or train with them (runs_dir=... keeps both).",
        mark="twin",
    ),
    Input(
        "run: a record with an unknown setting",
        tampered(recorded(data={"nosuch": 1})),
        SystemExit,
        "ValueError: Expected the record of a run in ... but it is damaged (unknown settings ['nosuch'] of the data); remove that directory and train again.",
        mark="library",
    ),
    Input(
        "run: a record with a number for settings",
        tampered(recorded(data=3)),
        SystemExit,
        "ValueError: Expected the record of a run in ... but it is damaged (it lacks settings of data); remove that directory and train again.",
        mark="twin",
    ),
    Input(
        "run: a record with other rows",
        tampered(recorded(rows="0" * 64)),
        SystemExit,
        "ValueError: Expected the data on which ... was trained, but the training rows are others now; run train.py again, or bring the old file back.",
        mark="kept",
    ),
    Input(
        "run: a record with another seed of text",
        tampered(recorded(data={"seed": "abc"})),
        SystemExit,
        "TypeError: Expected `seed` to be a whole number from 0 to 9223372036854775807 but got 'abc' (str); 0 is as good as any other.",
        mark="twin",
    ),
    Input(
        "run: a record with players of text",
        tampered(recorded(players="abc")),
        SystemExit,
        "TypeError: Expected groups of players by name, as in {size: [length, width]}, but got 'abc'.",
        mark="twin",
    ),
    Input(
        "run: no checkpoint",
        tampered(gone("surrogate/surrogate.ckpt")),
        SystemExit,
        "FileNotFoundError: Expected a trained value function in ... but there is none; run `python train.py data=iris value_function=surrogate runs_dir=...` first, with the other settings of this call.",
        mark="kept",
    ),
    Input(
        "run: a checkpoint that is cut",
        tampered(file("surrogate/surrogate.ckpt", b"PK\x03\x04")),
        SystemExit,
        "ValueError: Expected a surrogate checkpoint at ... but the file is damaged or of another format; train again, or name another.",
        mark="twin",
    ),
    Input(
        "run: no classifier",
        tampered(lambda p: shutil.rmtree(p / "classifier")),
        SystemExit,
        "FileNotFoundError: Expected a classifier checkpoint at ... but no file is there; `train.py` writes one.",
        mark="kept",
    ),
    Input(
        "run: a classifier that is cut",
        tampered(file("classifier/model.skops", b"PK\x03\x04")),
        SystemExit,
        "ValueError: Expected a model that skops.io can read at ... but the file is damaged or of another format (File is not a zip file).",
        mark="twin",
    ),
    Input(
        "run: a classifier of another format",
        tampered(swapped),
        SystemExit,
        "ValueError: Expected a model that skops.io can read at ... but the file is damaged or of another format (\"There is no item named 'schema.json' in the archive\").",
        mark="twin",
    ),
    Input(
        "run: a store of something else in the way",
        tampered(lambda p: (p / "surrogate/explanations.zarr").mkdir()),
        SystemExit,
        "FileExistsError: Expected ... to be free or to hold an earlier explanation, but something else stands there; move it away or choose another path.",
        mark="kept",
    ),
]
