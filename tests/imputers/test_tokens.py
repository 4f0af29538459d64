"""Removing tokens: by a mask token, by padding, by deletion, against rows made by hand."""

import pytest
import torch
from torch import Tensor, nn

import manifold_shap as ms
from manifold_shap.coalitions import Listed

PADDED = ms.Players.tokens(4, padding=0)
TEXTS = torch.tensor([[5.0, 6, 7, 0], [8.0, 2, 9, 4], [3.0, 0, 0, 0]])
MASK = torch.tensor(
    [
        [[True, True, True, True], [True, False, True, False], [False] * 4],
        [[False, True, True, True], [True, False, False, True], [False] * 4],
        [[True, False, False, False], [False, True, True, True], [False] * 4],
    ]
)
EXPECTED = {
    "mask_token": [
        [[5, 6, 7, 0], [5, 99, 7, 0], [99, 99, 99, 0]],
        [[99, 2, 9, 4], [8, 99, 99, 4], [99, 99, 99, 99]],
        [[3, 0, 0, 0], [99, 0, 0, 0], [99, 0, 0, 0]],
    ],
    "padding": [
        [[5, 6, 7, 0], [5, 0, 7, 0], [0, 0, 0, 0]],
        [[0, 2, 9, 4], [8, 0, 0, 4], [0, 0, 0, 0]],
        [[3, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]],
    ],
    "deletion": [
        [[5, 6, 7, 0], [5, 7, 0, 0], [0, 0, 0, 0]],
        [[2, 9, 4, 0], [8, 4, 0, 0], [0, 0, 0, 0]],
        [[3, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]],
    ],
}


IMPUTERS = {
    "mask_token": ms.imputers.MaskTokenImputer(99, PADDED),
    "padding": ms.imputers.PaddingImputer(PADDED),
    "deletion": ms.imputers.DeletionImputer(PADDED),
}
every = pytest.mark.parametrize("kind", EXPECTED)


@every
def test_rows_are_those_made_by_hand(kind: str) -> None:
    imputer, keys = IMPUTERS[kind], torch.zeros(3, 3, dtype=torch.int64)
    assert imputer.name == kind
    assert imputer.distinct_draws == 1
    completed = imputer.impute(TEXTS, Listed(MASK, keys), range(2))
    expected = torch.tensor(EXPECTED[kind]).float()[:, :, None].expand(3, 3, 2, 4)
    assert torch.equal(completed.rows, expected)
    assert torch.equal(imputer.sample(TEXTS, Listed(MASK, keys), range(2)), expected)
    # Estimators ask of rows that have equally many players.
    first = imputer.impute(TEXTS[:1], Listed(MASK[:1, :, :3], keys[:1], lacking=1), range(2))
    assert torch.equal(first.rows, expected[:1])


class Words(nn.Module):
    """Mean of embeddings of the tokens that are no padding; order counts a little."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.last = nn.Embedding(100, 5, padding_idx=0), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        assert x.dtype == torch.int64
        weight = (x != 0) / torch.arange(1, x.shape[1] + 1)
        mean = (self.embedding(x) * weight[..., None]).sum(1) / weight.sum(1).clamp(min=1)[:, None]
        return self.last(mean).softmax(-1)


@every
def test_a_model_of_token_ids_is_explained(kind: str) -> None:
    model = Words()
    value = ms.imputed_value(model, IMPUTERS[kind], draws=5)
    assert value.spec.work.draws == 1
    values = value(TEXTS, MASK)
    for b, expected in enumerate(EXPECTED[kind]):
        torch.testing.assert_close(values[b], model(torch.tensor(expected)))
    assert torch.equal(value.base(TEXTS)[0], values[0, 2])
    lengths = torch.tensor([3, 4, 1])
    for explanation in (
        ms.exact_shapley(value, TEXTS),
        ms.permutation_shapley(value, TEXTS, permutations=4),
        ms.exact_shapley(value, TEXTS.long()),
    ):
        assert explanation.efficiency_gap < 1e-6
        assert torch.equal(explanation.phi.isnan().any(2), torch.arange(4) >= lengths[:, None])
        torch.testing.assert_close(explanation.base, values[:, 2])


def test_the_base_of_texts_does_not_depend_on_the_draws_of_coalitions() -> None:
    texts = torch.randint(2, 100, (200, 4), generator=torch.Generator().manual_seed(0)).float()
    marginal = ms.imputers.MarginalImputer(texts, ms.Players.tokens(4))
    values = [ms.imputed_value(Words(), marginal, draws=1, seed=seed) for seed in range(6)]
    gaps = torch.cat([value.base(texts[:1]) for value in values]) - Words()(texts.long()).mean(0)
    assert (gaps.abs() < 0.2 * Words()(texts.long()).std(0)).all()


def test_the_base_is_asked_only_of_rows_with_an_empty_coalition() -> None:
    asked, texts = [], torch.full((50, 4), 2.0)

    def model(x: Tensor) -> Tensor:
        asked.append(len(x))
        return x[:, :1]

    marginal = ms.imputers.MarginalImputer(texts, ms.Players.tokens(4))
    value = ms.imputed_value(model, marginal, "identity", draws=2)
    mask = torch.eye(4, dtype=torch.bool).expand(10, -1, -1).clone()
    mask[0, 0] = False
    asked.clear()
    value(texts[:10], mask)
    assert sum(asked) < 2 * 40 + 2 * 256
