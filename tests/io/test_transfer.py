"""Objects come out of a file and a pickle as they went in, and the file is read once."""

import pickle
import pickletools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier

import manifold_shap as ms
from manifold_shap.io.transfer import Reference, load, refer

GENERATOR = torch.Generator().manual_seed(0)
ROWS = torch.randn(60, 4, generator=GENERATOR)


def sent(thing: Any, path: Path) -> Any:
    """What another process makes of an object; a task carries little of it."""
    reference = Reference(*pickle.loads(pickle.dumps(tuple(refer(thing, path)))))
    assert len(reference.pickled) < 20_000
    found = load(reference)
    assert load(reference) is found
    return found


def test_numbers_and_texts_of_every_size_come_back(tmp_path: Path) -> None:
    whole = torch.randn(2000, generator=GENERATOR)
    leaf = torch.ones(3, requires_grad=True)
    things = {
        "twice": [whole, whole],
        "view": whole[5:10],
        "half": whole.bfloat16(),
        "leaf": leaf,
        "array": np.asfortranarray(np.arange(6000.0).reshape(3, 2000)),
        "small": np.arange(3),
        "records": np.zeros(2000, dtype=[("a", "i4"), ("b", "f8")]),
        "objects": np.array(["a", None], dtype=object),
        "bytes": b"ab" * 5000,
        "bytearray": bytearray(5000),
        "text": "né" * 5000,
        "short": "né",
    }
    found = sent(things, tmp_path / "things.ckpt")
    assert found["twice"][0] is found["twice"][1]
    found["twice"][0][5] = 7.0
    assert found["view"][0] == 7.0
    assert torch.equal(found["half"], things["half"])
    assert found["leaf"].requires_grad
    assert found["array"].flags.f_contiguous
    assert found["array"].flags.writeable
    for name in ("array", "small", "records", "objects"):
        assert found[name].dtype == things[name].dtype
        assert np.array_equal(found[name], things[name])
    for name in ("bytes", "bytearray", "text", "short"):
        assert type(found[name]) is type(things[name])
        assert found[name] == things[name]


def test_modules_come_back_with_tied_weights(tmp_path: Path) -> None:
    network = torch.nn.Sequential(torch.nn.Linear(100, 100), torch.nn.Linear(100, 100))
    network[1].weight = network[0].weight
    found = sent(network, tmp_path / "network.ckpt")
    assert found[1].weight is found[0].weight
    assert isinstance(found[0].weight, torch.nn.Parameter)
    x = torch.randn(3, 100, generator=GENERATOR)
    assert torch.equal(found(x), network(x))


def test_value_functions_give_the_same_values(
    tmp_path: Path, make_value: Callable[..., ms.ValueFunction]
) -> None:
    labels = (ROWS[:, 0] > 0).long().numpy()
    forest = RandomForestClassifier(10, random_state=0).fit(ROWS.numpy(), labels)
    mask = torch.rand(5, 6, 4, generator=GENERATOR) < 0.5
    value = ms.imputed_value(ms.as_model(forest, ROWS), ms.MarginalImputer(ROWS), draws=3)
    assert torch.equal(sent(value, tmp_path / "value.ckpt")(ROWS[:5], mask), value(ROWS[:5], mask))


def test_no_code_is_in_the_file(tmp_path: Path) -> None:
    refer({"function": sent, "numbers": torch.ones(3)}, tmp_path / "things.ckpt")
    assert torch.load(tmp_path / "things.ckpt", weights_only=True)["kind"] == "task"


def test_numbers_of_another_object_are_never_taken_for_those_of_this_one(tmp_path: Path) -> None:
    path = tmp_path / "things.ckpt"
    zeros = refer(torch.zeros(3), path)
    assert torch.equal(load(zeros), torch.zeros(3))
    ones = refer(torch.ones(3), path)
    assert ones.pickled == zeros.pickled
    assert torch.equal(load(ones), torch.ones(3))
    with pytest.raises(ValueError, match=r"has written to .*things.ckpt but others are there"):
        load(zeros)


def test_what_another_process_cannot_find_is_told(tmp_path: Path) -> None:
    reference = refer(sent, tmp_path / "things.ckpt")
    names = [
        entry for _, entry, _ in pickletools.genops(reference.pickled) if isinstance(entry, str)
    ]
    assert "sent" in names
    for lost in (b"sent", b"test_transfer"):
        pickled = reference.pickled.replace(lost, b"x" * len(lost))
        with pytest.raises(ValueError, match=r"to import .* cannot: .*x.*in a module.*Thread"):
            load(reference._replace(pickled=pickled))
    with pytest.raises(FileNotFoundError, match="file system that all share"):
        load(reference._replace(path=tmp_path / "elsewhere.ckpt"))
    with pytest.raises(TypeError, match="pickle refuses"):
        refer(lambda: None, tmp_path / "a.ckpt")
