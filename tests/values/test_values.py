"""Value functions: exact anchors, the contract, and every error at their door."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.coalitions import Coalitions, Listed, all_coalitions
from manifold_shap.imputers import Completions
from manifold_shap.imputers.empirical import ExactMatchImputer
from manifold_shap.spaces import SPACES
from manifold_shap.values import imputed
from manifold_shap.values.base import Estimate
from tests.examples import known, normal

MASKS = all_coalitions(4)
MakeValue = Callable[..., ms.ValueFunction]

every_space = pytest.mark.parametrize("space", SPACES)


def rows(count: int = 3) -> Tensor:
    return torch.randn(count, 4, generator=torch.Generator().manual_seed(1))


def masks(count: int = 3) -> Tensor:
    return MASKS.expand(count, -1, -1)


@every_space
def test_imputed_value_is_the_mean_over_spliced_rows(make_value: MakeValue, space: str) -> None:
    value, x = make_value("marginal", space), rows()
    assert isinstance(value, ms.ImputedValue)
    values = value(x, masks())
    for b, k in ((0, 1), (1, 6), (2, 14)):
        spliced = value.imputer.reference.clone()
        spliced[:, MASKS[k]] = x[b, MASKS[k]]
        expected = value.space(value.model(spliced, scale=value.space.takes)).mean(0)
        torch.testing.assert_close(values[b, k], expected)


class Weighted(ms.imputers.Imputer):
    """Draw number k is a row of k's that counts k + 1 times."""

    def impute(self, x: Tensor, coalitions: Coalitions, draws: range) -> Completions:
        mask = coalitions.masks()
        numbers = torch.arange(draws.start, draws.stop, dtype=torch.float32)
        drawn = numbers[:, None].expand(*mask.shape[:2], -1, 4)
        log_weights = (numbers + 1).log().expand(*mask.shape[:2], -1)
        return Completions(self.splice(x, mask, drawn), log_weights)


def test_estimate_of_weighted_draws() -> None:
    value = ms.imputed_value(lambda x: x, Weighted(rows(9)), "identity", draws=4)
    mask = torch.zeros(3, 1, 4, dtype=torch.bool)
    mask[..., 0] = True
    values, variance, effective = known(value, value.estimate(rows(), mask))
    weights, outputs = torch.tensor([0.1, 0.2, 0.3, 0.4]), torch.arange(4.0)
    torch.testing.assert_close(values[:, 0, 0], rows()[:, 0])
    torch.testing.assert_close(values[:, 0, 1], torch.full((3,), 2.0))
    # The mean without each of the draws, three times the variance of these.
    without = (2 - weights * outputs) / (1 - weights)
    left = (without - 2).square().sum() * 3 / 4
    torch.testing.assert_close(variance[:, 0, 0], torch.zeros(3))
    torch.testing.assert_close(variance[:, 0, 1], left.expand(3))
    torch.testing.assert_close(effective, torch.full((3, 1), 1 / 0.3))


class Codes(ms.imputers.MarginalImputer):
    """Equally weighted draws, behind which stand so many codes where k players are present."""

    def __init__(self, reference: Tensor, effective: Sequence[float]) -> None:
        super().__init__(reference)
        self.effective = torch.tensor(effective, dtype=torch.float32)

    def impute(self, x: Tensor, coalitions: Coalitions, draws: range) -> Completions:
        mask, keys = coalitions.masks(), coalitions.each_key()
        completed = super().impute(x, Listed(mask, keys), draws)
        return completed._replace(effective_draws=self.effective[mask.sum(-1)])


def test_estimate_tells_the_effective_codes() -> None:
    imputer = Codes(rows(30), [900, 12, 5, 1.5, 1])
    value = ms.imputed_value(lambda x: x, imputer, "identity", draws=7)
    # Those of the anchors, which are known, count in full.
    expected = torch.tensor([7, 7, 5, 1.5, 7])[masks().sum(-1)]
    torch.testing.assert_close(value.estimate(rows(), masks()).effective_draws, expected)
    assert ms.metrics.mean_squared_error(value, rows(), masks()).effective_draws == pytest.approx(
        expected.mean().item()
    )


class Collapsed(Weighted):
    """Draw number 0 counts for nearly all, or as the rest where few players are present."""

    def impute(self, x: Tensor, coalitions: Coalitions, draws: range) -> Completions:
        mask, keys = coalitions.masks(), coalitions.each_key()
        rest = torch.where(mask.sum(-1, keepdim=True) < 2, 0.0, -20.0)
        log_weights = torch.where(torch.arange(draws.start, draws.stop) == 0, 0.0, rest)
        return super().impute(x, Listed(mask, keys), draws)._replace(log_weights=log_weights)


def test_collapsed_samples_are_warned_of_once() -> None:
    value = ms.imputed_value(lambda x: x, Collapsed(rows(9)), "identity", draws=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Coalitions of one player have four effective draws each.
        value(rows(), masks()[:, [1, 2]])
    # Twelve pairs of one player, and thirty of more with a single draw.
    mean = (12 * 4 + 30) / 42
    with pytest.warns(UserWarning, match=rf"'Weighted' collapse: {mean:.2f} are .* 42 .* than 2,"):
        value(rows(), masks()[:, [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value(rows(), masks())


def test_one_matching_donor_is_no_collapse() -> None:
    table = torch.cartesian_prod(*[torch.arange(3.0)] * 4)
    value = ms.imputed_value(lambda x: x, ExactMatchImputer(table), "identity")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimate = value.estimate(table[:5], masks(5)[:, 14:15])
    torch.testing.assert_close(estimate.effective_draws, torch.full((5, 1), 3.0))


@pytest.mark.parametrize(
    "make", [Weighted, ms.imputers.MarginalImputer, ms.imputers.GaussianImputer]
)
def test_more_draws_than_memory_holds_are_made_in_parts(
    make: Callable[..., ms.imputers.Imputer], monkeypatch: pytest.MonkeyPatch
) -> None:
    imputer, asked = make(rows(30)), []
    value = ms.imputed_value(lambda x: asked.append(len(x)) or x.exp(), imputer, "identity", 23)
    whole = known(value, value.estimate(rows(), masks()))
    asked.clear()
    monkeypatch.setattr(imputed, "_MOST_ELEMENTS", 5 * 4 + 1)
    for part, expected in zip(known(value, value.estimate(rows(), masks())), whole, strict=True):
        torch.testing.assert_close(part, expected)
    assert max(asked) == 5


WORDS = torch.tensor([[0, 1], [2, 3], [1, 1], [3, 0]])
READER = torch.nn.Sequential(torch.nn.Embedding(4, 1), torch.nn.Flatten())
# Logits, as negative ones tell, whatever was drawn before.
torch.nn.init.constant_(READER[0].weight, -1.0)
READER[0].weight.data += torch.arange(4)[:, None]


def test_a_model_that_is_wrapped_with_whole_numbers_gets_these_of_any_imputer() -> None:
    x, imputer = WORDS[:1], ms.imputers.GaussianImputer(WORDS)
    with pytest.raises(RuntimeError, match="Sequential failed"):
        ms.imputed_value(READER, imputer)
    value = ms.imputed_value(ms.as_model(READER, WORDS), imputer, draws=4)
    assert value(x, torch.tensor([[[True, False]]])).isfinite().all()
    torch.testing.assert_close(value.prediction(x.float()), READER(x).softmax(-1))


def test_imputers_that_draw_cells_give_a_model_of_tokens_the_whole_numbers_they_had() -> None:
    x, marginal = WORDS[:1], ms.imputers.MarginalImputer(WORDS)
    causal = ms.imputers.CausalImputer(marginal, [["x1"], ["x0"]])
    for imputer in (marginal, ms.imputers.ContrastiveImputer(WORDS), causal):
        value = ms.imputed_value(READER, imputer, draws=4)
        torch.testing.assert_close(value.prediction(x.float()), READER(x).softmax(-1))
        torch.testing.assert_close(value.base(x)[0], READER(WORDS).softmax(-1).mean(0))
    # A model that takes floats still gets them, and one that takes neither fails as before.
    linear = torch.nn.Linear(2, 2)
    value = ms.imputed_value(linear, marginal)
    torch.testing.assert_close(value.prediction(x.float()), linear(x.float()).softmax(-1))
    with pytest.raises(RuntimeError, match="Linear failed"):
        ms.imputed_value(torch.nn.Linear(3, 2), marginal)


@pytest.mark.parametrize(
    ("output", "names", "outputs"),
    [
        ("identity", ["a", "b"], ("a", "b")),
        ("probability", ["a", "b"], ("a", "b")),
        ("log_odds", ["a", "b"], ("log-odds of b",)),
        ("ilr", None, ("0 : 1", "0+1 : 2")),
    ],
)
def test_a_callable_says_which_output_space_its_values_are_in(
    output: str, names: list[str] | None, outputs: tuple[str, ...]
) -> None:
    def game(x: Tensor, mask: Tensor) -> Tensor:
        share = (x[:, None] * mask).mean(-1, keepdim=True)
        return torch.cat((share, 1 - share), -1)[..., : len(outputs)]

    x = rows().sigmoid()
    value = ms.as_value_function(game, x, outputs=names, space=output)
    assert value.outputs == outputs
    assert value.space.name == output
    assert ms.exact_shapley(value, x).space == value.space


def test_a_callable_of_another_space_is_named() -> None:
    def plain(x: Tensor, mask: Tensor) -> Tensor:
        return (x[:, None] * mask)[..., :2] + 7

    with pytest.raises(ValueError, match="distribution over the classes"):
        ms.as_value_function(plain, rows(), space="probability")
    with pytest.raises(ValueError, match=r"`outputs` to name the 3 outputs, .* \('a', 'b'\)"):
        ms.as_value_function(plain, rows(), outputs=["a", "b"], space="ilr")


class Returning(ms.ValueFunction):
    """A value function of a user's that returns something else."""

    def __init__(self, change: Any) -> None:
        super().__init__(ms.values.GameSpec(ms.Players.of_elements((3,)), ("a", "b")))
        self.change = change

    def values(self, x: Tensor, coalitions: Coalitions) -> Estimate:
        return self.change(
            (x[:, None] * coalitions.masks()).sum(-1, keepdim=True).expand(-1, -1, 2)
        )

    def prediction(self, x: Tensor) -> Tensor:
        return x.sum(1, keepdim=True).expand(-1, 2)

    def base(self, x: Tensor) -> Tensor:
        return torch.zeros(len(x), 2)


@pytest.mark.usefixtures("any_type")
@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (lambda v: Estimate(v[:, 1:]), ValueError, r"floats of shape .* but got .* of shape"),
        (lambda v: Estimate(v[..., :1]), ValueError, r"by outputs, .* of shape \(2, \d, 1\)"),
        (lambda v: Estimate(v.long()), ValueError, "return floats .* but got torch.int64"),
        (lambda v: Estimate(v.to("meta")), ValueError, "on cpu, where the rows are, .* on meta"),
        (lambda v: Estimate(v / 0), ValueError, "Expected finite"),
        (lambda v: v, TypeError, r"an `Estimate` but got Tensor; return `Estimate\("),
        (lambda v: Estimate(v, v * 0), ValueError, r"nothing is drawn .*Work\(sampled=True"),
    ],
)
def test_what_a_value_function_returns_is_checked(change: Any, error: Any, said: str) -> None:
    value, x = Returning(change), torch.randn(2, 3)
    for call in (
        lambda: ms.exact_shapley(value, x),
        lambda: value(x, torch.eye(3).bool().expand(2, -1, -1)),
    ):
        with pytest.raises(error, match=said):
            call()


class Sparing(ms.imputers.MarginalImputer):
    """An imputer of a user's that makes fewer draws than it is asked for."""

    def impute(self, x: Tensor, coalitions: Coalitions, draws: range) -> ms.imputers.Completions:
        return super().impute(x, coalitions, draws[:-1])


def test_an_imputer_that_makes_fewer_draws_is_named() -> None:
    value = ms.imputed_value(lambda x: x[:, :1], Sparing(normal(9, 3)), "identity", draws=4)
    with pytest.raises(ValueError, match="Sparing to complete rows"):
        ms.exact_shapley(value, normal(2, 3))
