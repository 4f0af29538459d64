"""Results are the stored ones, from stored weights and rows; see `compare` for how closely."""

import pytest
import torch

from tests.reference.cases import PARTS
from tests.reference.compare import INPUTS, apart, gaps_of, load, stored_results
from tests.reference.doors import results_of


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", PARTS)
def test_results_are_as_stored(part: str, many_calls: None) -> None:
    assert torch.get_num_threads() == 1
    gaps = gaps_of(results_of(PARTS[part], load(INPUTS)), stored_results()[part])
    assert len(gaps) > 3
    assert not apart(gaps)
