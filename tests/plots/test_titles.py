"""What stands over and below a figure: cautions, and how good the value function is."""

from dataclasses import replace

import matplotlib.pyplot as plt

from manifold_shap.plots import bar, titles
from tests.plots.helpers import assert_nothing_is_cut, table

QUALITY = {
    "chosen": "surrogate",
    "rows": 500,
    "mse": {"surrogate": 0.01234, "marginal": 0.0341, "gaussian": 0.02},
}
NOTE = "value function: surrogate; error 0.0123 (0.0341 off the manifold), measured on 500 rows"
WARNING = "the value function is no better than values off the manifold"


def test_the_quality_of_a_value_function_is_one_line_and_a_bad_one_is_warned_of() -> None:
    good = replace(table(), made_by={"quality": QUALITY})
    long = f"{WARNING}: the error is 0.03, there 0.02"
    bad = replace(good, made_by={"quality": {**QUALITY, "warning": long}})
    assert titles.notes({"": good}) == [NOTE]
    assert titles.notes({"": table()}) == []
    assert titles.cautions({"": bad}) == [f"Caution: {WARNING}"]
    assert titles.cautions({"": good}) == []
    assert titles.notes({"a": good, "b": table()}) == [NOTE.replace("value function", "a")]
    squares = {"chosen": "vae", "mse": {"vae": 3e9, "marginal": 4e9}}
    assert titles.notes({"": replace(good, made_by={"quality": squares})}) == [
        "value function: vae; error 0.75 times that off the manifold"
    ]
    assert titles.notes({"": replace(good, made_by={"quality": {"chosen": "VAE"}})}) == [
        "value function: VAE"
    ]


def test_given_axes_have_them_too() -> None:
    figure, ax = plt.subplots(layout="constrained", figsize=(5, 4))
    bar(replace(table(), made_by={"quality": {**QUALITY, "warning": WARNING}}), ax=ax)
    assert WARNING in " ".join(ax.get_title("left").split())
    assert NOTE in " ".join(ax.get_xlabel().split())
    assert_nothing_is_cut(figure)
    plt.close(figure)
