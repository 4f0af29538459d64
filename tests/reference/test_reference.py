"""Results are the stored ones, from stored weights and rows; see `compare` for how closely."""

import pytest
import torch

from tests.reference.cases import PARTS
from tests.reference.compare import apart, stored
from tests.reference.results import results_of


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", PARTS)
def test_results_are_as_stored(part: str, many_calls: None) -> None:
    assert torch.get_num_threads() == 1
    wanted = stored(part)
    assert len(wanted) > 3
    assert not apart(results_of(PARTS[part]), wanted)
