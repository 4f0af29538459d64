"""Results are those of version 0.1.0, from stored weights and rows."""

import pytest

from tests.reference.cases import INPUTS, OUTPUTS, PARTS, TOLERANCE, gaps_of, load


@pytest.mark.filterwarnings("ignore:The covariance of `reference`:UserWarning")
@pytest.mark.parametrize("part", PARTS)
def test_results_are_as_stored(part: str) -> None:
    gaps = gaps_of(part, load(INPUTS), load(OUTPUTS))
    assert len(gaps) > 5
    assert not {name: far for name, far in gaps.items() if not far <= TOLERANCE}
