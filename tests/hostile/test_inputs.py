"""Every hostile input ends with an error of this package that says what to do, and soon."""

import re
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from manifold_shap import __file__ as package
from tests.hostile.inputs import odd
from tests.hostile.inputs.all import KINDS
from tests.hostile.inputs.table import Input, Odd

# Seconds on a machine that does other things, too; what hangs takes for ever.
_LONGEST = 120
_SHORTEST_SENTENCE = 30

ALL = [(kind, each) for kind, inputs in KINDS.items() for each in inputs]


def _parameters() -> Iterator[Any]:
    for kind, each in ALL:
        marks = [pytest.mark.slow] if each.slow else []
        yield pytest.param(each, marks=marks, id=f"{kind.partition(',')[0]}: {each.name}")


@pytest.fixture(autouse=True)
def _own_checks(any_type: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arguments reach the package as they do outside of tests, and figures are not drawn."""
    monkeypatch.setattr("manifold_shap.cli.report.save_figures", lambda figures, place: None)


@pytest.mark.parametrize("case", list(_parameters()))
def test_the_error_is_ours_and_says_what_to_do(
    case: Input, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    began = time.perf_counter()
    with pytest.raises(case.error) as raised:
        case.do(tmp_path)
    assert time.perf_counter() - began < _LONGEST
    said = str(raised.value)
    assert re.fullmatch(case.pattern, said, re.DOTALL), said
    innermost = traceback.extract_tb(raised.value.__traceback__)[-1].filename
    assert Path(innermost).is_relative_to(Path(package).parent), innermost
    assert "Traceback" not in said + capsys.readouterr().err


@pytest.mark.parametrize("case", odd.INPUTS, ids=lambda case: case.name)
def test_what_is_odd_and_sound_gives_the_numbers_of_the_plain_one(case: Odd) -> None:
    torch.testing.assert_close(case.do(), case.plain(), rtol=1e-6, atol=1e-6)


def test_the_tables_are_many_and_have_no_line_twice() -> None:
    names = [(kind, each.name) for kind, each in ALL]
    assert len(names) == len(set(names)) >= 150


def test_every_sentence_says_what_was_expected_and_received() -> None:
    for kind, each in ALL:
        plain = each.says.replace("...", "")
        assert len(plain) > _SHORTEST_SENTENCE, (kind, each.name)
        if not issubclass(each.error, Warning):
            assert re.search("Expected|Refused|Could not|problem", plain), (kind, each.name)
