"""Colours of figures survive colour blindness, grey prints and white paper: by simulation."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from manifold_shap.plots.colours import LIGHT, Colours, dark

# Severe deficiencies in linear RGB (Machado, Oliveira & Fernandes 2009, Table 1).
DEFICIENCIES = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                   [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                     [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                   [0.004733, 0.691367, 0.303900]],
}  # fmt: skip
# CIE L*a*b* units: 2.3 is just noticeable side by side; lines and bars stand apart.
APART = 10.0
# Of the style "dark_background", of pages of the documentation, of reports, of editors.
GROUNDS = ("#000000", "#131416", "#15171a", "#1e1e1e")

kinds = pytest.mark.parametrize(
    "kind", [LIGHT, *map(dark, GROUNDS)], ids=lambda kind: f"on {kind.ground}"
)
deficiencies = pytest.mark.parametrize("deficiency", ["none", *DEFICIENCIES])


def linear(colour: object) -> np.ndarray:
    rgb = np.array(to_rgb(colour))  # type: ignore[arg-type]
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of linear RGB, under D65."""
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    xyz = to_xyz @ rgb.clip(0, 1) / to_xyz.sum(1)
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def seen(deficiency: str) -> Callable[[object], np.ndarray]:
    matrix = np.array(DEFICIENCIES.get(deficiency, np.eye(3)))
    return lambda colour: lab(matrix @ linear(colour))


def distance(one: object, other: object, deficiency: str) -> float:
    see = seen(deficiency)
    return float(np.linalg.norm(see(one) - see(other)))


def contrast(one: object, other: object) -> float:
    """Of WCAG 2, from 1 to 21."""
    darker, lighter = sorted(float(linear(c) @ [0.2126, 0.7152, 0.0722]) for c in (one, other))
    return (lighter + 0.05) / (darker + 0.05)


@kinds
@deficiencies
def test_series_are_told_apart(kind: Colours, deficiency: str) -> None:
    for one, other in itertools.combinations(kind.series, 2):
        assert distance(one, other, deficiency) > APART, (one, other)


@kinds
@deficiencies
def test_raising_and_lowering_are_told_apart(kind: Colours, deficiency: str) -> None:
    assert distance(kind.raises, kind.lowers, deficiency) > 2 * APART
    for colour in (kind.raises, kind.lowers):
        assert distance(colour, kind.ground, deficiency) > 4 * APART


@kinds
def test_the_first_series_are_told_apart_in_grey(kind: Colours) -> None:
    lightness = [float(lab(linear(colour))[0]) for colour in kind.series[:2]]
    assert abs(lightness[0] - lightness[1]) > 2 * APART


@kinds
def test_neighbouring_series_are_told_apart_in_grey(kind: Colours) -> None:
    lightness = [float(lab(linear(colour))[0]) for colour in kind.series]
    for k, (one, other) in enumerate(itertools.pairwise([*lightness, lightness[0]])):
        assert abs(one - other) > APART, kind.series[k]


@kinds
@deficiencies
def test_the_sequential_map_gets_lighter_all_along(kind: Colours, deficiency: str) -> None:
    count = kind.sequential.N
    lightness = [seen(deficiency)(kind.sequential(k)[:3])[0] for k in range(0, count, 5)]
    assert (np.diff(lightness) > 0).all()


@kinds
@deficiencies
def test_the_diverging_map_leaves_the_ground_on_both_sides(kind: Colours, deficiency: str) -> None:
    below, above = np.linspace(0.5, 0, 20), np.linspace(0.5, 1, 20)
    for half in (below, above):
        lightness = np.array([seen(deficiency)(kind.diverging(k)[:3])[0] for k in half])
        away = np.abs(lightness - seen(deficiency)(kind.ground)[0])
        assert (np.diff(away) > 0).all()
        assert away[-1] > 4 * APART
    for low, high in zip(below[5:], above[5:], strict=True):
        ends = kind.diverging(low)[:3], kind.diverging(high)[:3]
        assert distance(*ends, deficiency) > APART


@kinds
def test_everything_stands_out_from_the_ground(kind: Colours) -> None:
    # 1.8 to 1 on white is that of the faintest, light blue, which has markers of its own in lines.
    least = 1.8 if kind is LIGHT else 3.0
    for colour in (*kind.series, kind.raises, kind.lowers, kind.neutral):
        assert contrast(colour, kind.ground) > least, colour
    for k in range(0, kind.sequential.N, 5):
        assert contrast(kind.sequential(k)[:3], kind.ground) > 1.8


@kinds
def test_text_can_be_read(kind: Colours) -> None:
    assert contrast(kind.ink, kind.ground) > 7  # WCAG 2, level AAA.
    assert contrast(kind.soft, kind.ground) > 4.5


def test_a_simulation_knows_what_looks_alike() -> None:
    # Red and green of equal lightness, which deuteranopes confuse.
    assert distance("#b05a00", "#6e7a00", "none") > 2 * distance(
        "#b05a00", "#6e7a00", "deuteranopia"
    )
