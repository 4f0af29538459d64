"""Colours of figures survive colour blindness, grey prints and white paper: by simulation."""

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


@pytest.mark.parametrize("deficiency", ["none", *DEFICIENCIES])
def test_series_are_told_apart(deficiency: str) -> None:
    for one, other in itertools.combinations(style.SERIES, 2):
        assert distance(one, other, deficiency) > APART, (one, other)


@pytest.mark.parametrize("deficiency", ["none", *DEFICIENCIES])
def test_raising_and_lowering_are_told_apart(deficiency: str) -> None:
    assert distance(style.RAISES, style.LOWERS, deficiency) > 2 * APART
    for colour in (style.RAISES, style.LOWERS):
        assert distance(colour, "white", deficiency) > 4 * APART


def test_the_first_series_are_told_apart_in_grey() -> None:
    lightness = [float(lab(linear(colour))[0]) for colour in style.SERIES[:2]]
    assert abs(lightness[0] - lightness[1]) > 2 * APART


@pytest.mark.parametrize("deficiency", ["none", *DEFICIENCIES])
def test_the_sequential_map_gets_lighter_all_along(deficiency: str) -> None:
    lightness = [seen(deficiency)(style.SEQUENTIAL(k)[:3])[0] for k in range(0, 206, 5)]
    assert (np.diff(lightness) > 0).all()


@pytest.mark.parametrize("colour", [*style.SERIES, style.RAISES, style.LOWERS, style.NEUTRAL])
def test_everything_stands_out_from_white(colour: str) -> None:
    # 1.8 to 1 is that of the faintest, light blue, which has markers of its own in lines.
    luminance = float(linear(colour) @ [0.2126, 0.7152, 0.0722])
    assert 1.05 / (luminance + 0.05) > 1.8


def test_text_can_be_read() -> None:
    luminance = float(linear(style.INK) @ [0.2126, 0.7152, 0.0722])
    assert 1.05 / (luminance + 0.05) > 7  # WCAG 2, level AAA.


def test_a_simulation_knows_what_looks_alike() -> None:
    # Red and green of equal lightness, which deuteranopes confuse.
    assert distance("#b05a00", "#6e7a00", "none") > 2 * distance(
        "#b05a00", "#6e7a00", "deuteranopia"
    )
