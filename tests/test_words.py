"""Words for errors, and checks of plain settings."""

import numpy as np
import pytest

from manifold_shap._words import check_choice, check_flag, check_text, closest, shown


def test_long_lists_are_shortened() -> None:
    assert shown(iter("abc"), most=2) == "['a', 'b'] and 1 more"
    assert shown(["a"]) == "['a']"
    assert closest("x0", [f"x{i}" for i in range(10**6)]) == "; did you mean 'x0'?"


@pytest.mark.parametrize("value", ["no", "false", 0, None])
def test_flags_are_true_or_false(value: object) -> None:
    assert check_flag("resume", False) is False
    with pytest.raises(TypeError, match=r"`resume` to be true or false but got .*\("):
        check_flag("resume", value)


def test_text_is_text() -> None:
    with pytest.raises(TypeError, match=r"`runs_dir` to be text but got 5 \(int\)"):
        check_text("runs_dir", 5)


def test_choices_offer_the_closest() -> None:
    assert type(check_choice("kind", np.str_("ilr"), ("ilr", "identity"))) is str
    with pytest.raises(
        ValueError, match=r"`kind` to be one of \['ilr', 'identity'\] but got 'ILR'; did"
    ):
        check_choice("kind", "ILR", ("ilr", "identity"))
    with pytest.raises(ValueError, match=r"but got 3; name one\.$"):
        check_choice("kind", 3, ("ilr",), fix="name one")
    with pytest.raises(ValueError, match=r"but got 'zzz'\.$"):
        check_choice("kind", "zzz", ("ilr",))
