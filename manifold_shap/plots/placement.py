"""Where labels stand so that they cover neither what is drawn nor each other."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

# Points.
_GAP = 1.0
_MARK = 2.0
_RADII = (2.5, 6.0, 11.0, 18.0, 28.0, 42.0)
_ANGLES = np.linspace(0, 2 * np.pi, 16, endpoint=False)
_SPACING = 2.0
# So close, a label may be taken for that of something else.
_NEAR = 4.0
_ON_THE_WAY = np.array([0.4, 0.6, 0.8])
# A longer way from the thing to its label is shown by a line.
_LEADER = 6.0


@dataclass(frozen=True)
class Place:
    """Where a label stands, in points.

    Attributes:
        anchor: number of the anchor that it belongs to.
        offset: of its middle from that anchor.
        leader: whether a line has to lead there.
    """

    anchor: int
    offset: Float[np.ndarray, "2"]
    leader: bool


def place(
    anchors: Sequence[Float[np.ndarray, "_ 2"]],
    sizes: Float[np.ndarray, "labels 2"],
    segments: Float[np.ndarray, "segments 2 2"],
    marks: Float[np.ndarray, "marks 2"],
    frame: Float[np.ndarray, "2 2"],
) -> list[Place]:
    """A place for each label, the first ones choosing first; all lengths are in points.

    Args:
        anchors: for each label, points that it may stand beside, the preferred ones first.
        sizes: widths and heights of the labels.
        segments: lines that no label should cover.
        marks: points that stand out, which a label should cover even less.
        frame: lower left and upper right corner of where labels may stand.
    """
    obstacles = sample(segments)
    obstacles = obstacles[((obstacles > frame[0]) & (obstacles < frame[1])).all(1)]
    boxes = np.stack((marks - _MARK, marks + _MARK), 1)
    places = []
    for points, size in zip(anchors, sizes, strict=True):
        half = size / 2 + _GAP
        number, middles, gaps = _candidates(points, half)
        cost = (
            gaps
            + 3.0 * number
            + 8.0 * _covered(middles, half, obstacles)
            + 0.5 * _covered(middles, half + _NEAR, obstacles)
            + 1.0 * _crossed(points[number], middles, obstacles)
            + 1e3 * _overlap(middles, half, boxes)
            + 1e4 * _outside(middles, half, frame)
        )
        best = int(cost.argmin())
        anchor, middle = points[number[best]], middles[best]
        leader = bool(gaps[best] > _LEADER)
        places.append(Place(int(number[best]), middle - anchor, leader))
        boxes = np.concatenate((boxes, np.stack((middle - half, middle + half))[None]))
        if leader:
            obstacles = np.concatenate((obstacles, sample(np.stack((anchor, middle))[None])))
    return places


def sample(segments: Float[np.ndarray, "segments 2 2"]) -> Float[np.ndarray, "points 2"]:
    """Points along the segments, so dense that no label slips between two."""
    points = [np.zeros((0, 2))]
    for start, end in segments:
        count = 2 + int(np.linalg.norm(end - start) / _SPACING)
        points.append(np.linspace(start, end, count))
    return np.concatenate(points)


def _candidates(
    points: Float[np.ndarray, "anchors 2"], half: Float[np.ndarray, "2"]
) -> tuple[np.ndarray, Float[np.ndarray, "candidates 2"], Float[np.ndarray, " candidates"]]:
    """Anchors, middles of boxes around them in all directions, and the gaps between the two."""
    directions = np.stack((np.cos(_ANGLES), np.sin(_ANGLES)), 1)
    # As far as the box reaches in that direction, so that it touches the anchor at gap zero.
    touching = (half / np.maximum(np.abs(directions), 1e-9)).min(1)
    gap, angle = (grid.ravel() for grid in np.meshgrid(_RADII, range(len(_ANGLES)), indexing="ij"))
    offsets = directions[angle] * (touching[angle] + gap)[:, None]
    middles = (points[:, None] + offsets).reshape(-1, 2)
    return np.arange(len(points)).repeat(len(gap)), middles, np.tile(gap, len(points))


def _covered(
    middles: Float[np.ndarray, "candidates 2"],
    half: Float[np.ndarray, "2"],
    obstacles: Float[np.ndarray, "points 2"],
) -> np.ndarray:
    return (np.abs(obstacles - middles[:, None]) < half).all(-1).sum(1)


def _crossed(
    anchors: Float[np.ndarray, "candidates 2"],
    middles: Float[np.ndarray, "candidates 2"],
    obstacles: Float[np.ndarray, "points 2"],
) -> np.ndarray:
    """How much lies between an anchor and its label."""
    way = anchors[:, None] + _ON_THE_WAY[:, None] * (middles - anchors)[:, None]
    near = (np.abs(obstacles - way[:, :, None]) < _SPACING).all(-1)
    return near.sum((1, 2))


def _overlap(
    middles: Float[np.ndarray, "candidates 2"],
    half: Float[np.ndarray, "2"],
    boxes: Float[np.ndarray, "boxes 2 2"],
) -> np.ndarray:
    low = np.maximum(middles[:, None] - half, boxes[:, 0])
    high = np.minimum(middles[:, None] + half, boxes[:, 1])
    return (high > low).all(-1).sum(1)


def _outside(
    middles: Float[np.ndarray, "candidates 2"],
    half: Float[np.ndarray, "2"],
    frame: Float[np.ndarray, "2 2"],
) -> np.ndarray:
    return ((middles - half < frame[0]) | (middles + half > frame[1])).any(-1)
