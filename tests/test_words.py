"""Words for errors."""

from manifold_shap._words import closest, shown


def test_long_lists_are_shortened() -> None:
    assert shown(iter("abc"), most=2) == "['a', 'b'] and 1 more"
    assert shown(["a"]) == "['a']"
    assert closest("x0", [f"x{i}" for i in range(10**6)]) == "; did you mean 'x0'?"
