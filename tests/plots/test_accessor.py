"""`explanation.plot`: the functions of `manifold_shap.plots` for one explanation."""

import inspect

import manifold_shap as ms
from tests.plots.helpers import tick_labels


def test_each_plot_of_an_explanation_is_the_function_of_its_name(people: ms.Explanation) -> None:
    plot = people.plot
    named = vars(plot)
    assert set(named) == {
        "waterfall",
        "bar",
        "beeswarm",
        "scatter",
        "heatmap",
        "pixel_maps",
        "text",
        "series",
    }
    for name, bound in named.items():
        function = getattr(ms.plots, name)
        assert bound.func is function
        # Text is shown in a page, and not in axes.
        assert (list(inspect.signature(bound).parameters)[-1] == "ax") == (name != "text")
    assert "waterfall" in repr(plot)
    assert tick_labels(plot.waterfall(1)) == tick_labels(ms.plots.waterfall(people, 1))
