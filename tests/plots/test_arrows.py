"""Places of labels."""

import numpy as np

from manifold_shap.plots.arrows import place


def test_a_label_stands_beside_what_is_drawn() -> None:
    frame = np.array([[0.0, 0], [100, 100]])
    line = np.array([[[0.0, 50], [100, 50]]])
    nothing = np.zeros((0, 2))
    ((where),) = place([np.array([[50.0, 50]])], np.array([[20.0, 8]]), line, nothing, frame)
    assert abs(where.offset[1]) > 4
    assert not where.leader
    (corner,) = place([np.zeros((1, 2))], np.array([[20.0, 8]]), line, nothing, frame)
    assert (corner.offset >= (10, 4)).all()


def test_many_labels_of_one_point_stand_around_it_with_lines_to_it() -> None:
    frame = np.array([[0.0, 0], [200, 200]])
    anchors = [np.full((1, 2), 100.0)] * 12
    places = place(
        anchors, np.array([[12.0, 8]] * 12), np.zeros((0, 2, 2)), np.full((1, 2), 100.0), frame
    )
    middles = np.stack([where.offset for where in places])
    apart = np.abs(middles[:, None] - middles) / (12, 8)
    assert (apart.max(-1) + np.eye(12) >= 1).all()
    assert any(where.leader for where in places)
