"""Colours of figures survive colour blindness and grey prints: by simulation."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from manifold_shap.plots import style

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
WHITE = "#ffffff"

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


@deficiencies
def test_colours_of_names_and_of_signs_are_told_apart(deficiency: str) -> None:
    for one, other in itertools.combinations(style.SERIES, 2):
        assert distance(one, other, deficiency) > APART, (one, other)
    assert distance(style.RAISES, style.LOWERS, deficiency) > 2 * APART
    for colour in (style.RAISES, style.LOWERS):
        assert distance(colour, WHITE, deficiency) > 4 * APART


def test_neighbouring_series_are_told_apart_in_grey() -> None:
    lightness = [float(lab(linear(colour))[0]) for colour in style.SERIES]
    for k, (one, other) in enumerate(itertools.pairwise([*lightness, lightness[0]])):
        assert abs(one - other) > APART, style.SERIES[k]


@deficiencies
def test_maps_of_colours_are_in_order(deficiency: str) -> None:
    see = seen(deficiency)
    lightness = [see(style.SEQUENTIAL(k)[:3])[0] for k in range(0, style.SEQUENTIAL.N, 10)]
    assert (np.diff(lightness) > 0).all()
    below, above = np.linspace(0.5, 0, 10), np.linspace(0.5, 1, 10)
    for half in (below, above):
        away = 100 - np.array([see(style.DIVERGING(k)[:3])[0] for k in half])
        assert (np.diff(away) > 0).all()
        assert away[-1] > 4 * APART
    for low, high in zip(below[3:], above[3:], strict=True):
        assert distance(style.DIVERGING(low)[:3], style.DIVERGING(high)[:3], deficiency) > APART


@pytest.mark.parametrize("ground", [WHITE, "#000000"])
def test_signs_marks_and_small_print_stand_out_from_light_and_dark_grounds(ground: str) -> None:
    for colour in (style.RAISES, style.LOWERS, style.NEUTRAL):
        assert contrast(colour, ground) > 3
    assert contrast(style.SOFT, ground) > 4.5


def test_a_simulation_knows_what_looks_alike() -> None:
    # Red and green of equal lightness, which deuteranopes confuse.
    assert distance("#b05a00", "#6e7a00", "none") > 2 * distance(
        "#b05a00", "#6e7a00", "deuteranopia"
    )
