"""The masked-encoder VAE and its imputer: the bound, the posteriors, and what is kept."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import Normal, kl_divergence

from manifold_shap.coalitions import Listed, all_coalitions
from manifold_shap.vae.bank import RunningLikelihood
from manifold_shap.vae.families import choose_families
from manifold_shap.vae.fit import fit_imputer
from manifold_shap.vae.imputer import VAEImputer
from manifold_shap.vae.likelihood import Product
from manifold_shap.vae.network import MaskedVAE


def rows(count: int = 40, seed: int = 0) -> Tensor:
    """Four columns that follow one hidden number; the last is binary."""
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(count, 1, generator=generator)
    numbers = hidden + 0.5 * torch.randn(count, 3, generator=generator)
    return torch.cat((numbers, (hidden > 0).float()), dim=1)


def network(components: int | None = 3, fill: float | None = None, seed: int = 0) -> MaskedVAE:
    torch.manual_seed(seed)
    made = MaskedVAE(choose_families(rows()), range(4), 2, (16, 16), components, fill)
    made.likelihood.describe(rows())
    return made


def masks(count: int) -> Tensor:
    return all_coalitions(4).expand(count, -1, -1)


@pytest.mark.parametrize("components", [None, 1, 3])
def test_every_parameter_is_trained(components: int | None) -> None:
    made = network(components)
    made.loss(rows(8), masks(8), torch.randn(8, 2)).mean().backward()
    still = [name for name, p in made.named_parameters() if p.grad is None or not p.grad.any()]
    # Of a single component nothing chooses, but its weight is part of the last layer.
    assert not still


def test_the_loss_is_the_bound() -> None:
    made, x = network(1), rows(3)
    q = made.encode(x)
    z = q.base_dist.loc + q.base_dist.scale * 0.3
    r = made.encode_masked(x, masks(3)).component_distribution.base_dist
    own = Normal(q.base_dist.loc[:, None], q.base_dist.scale[:, None])
    to_r = kl_divergence(own, Normal(r.loc[:, :, 0], r.scale[:, :, 0])).sum(2)
    prior = Normal(torch.zeros(3, 2), torch.ones(3, 2))
    to_prior = kl_divergence(q.base_dist, prior).sum(1)
    log_p = made.decode(z).log_prob(made.likelihood.statistics(x))
    expected = to_r.mean(1) + 0.5 * to_prior - log_p
    loss = made.loss(x, masks(3), torch.full((3, 2), 0.3), beta=0.5)
    torch.testing.assert_close(loss, expected)


def test_detached_the_masked_encoder_does_not_move_the_encoder() -> None:
    made = network()
    gradients = []
    for beta, detach, mask in ((0.0, True, masks(8)), (0.0, True, masks(8)[:, :1])):
        made.zero_grad()
        made.loss(rows(8), mask, torch.zeros(8, 2), beta, detach).sum().backward()
        gradients.append([p.grad.clone() for p in made.encoder.parameters() if p.grad is not None])
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))
    made.zero_grad()
    made.loss(rows(8), masks(8), torch.zeros(8, 2), 0.0, False).sum().backward()
    moved = [p.grad for p in made.encoder.parameters()]
    assert any(not torch.equal(a, b) for a, b in zip(gradients[0], moved, strict=True))


def check_unseen(made: MaskedVAE, x: Tensor, mask: Tensor) -> None:
    """Of one flat row, the absent elements of every coalition, and no others."""
    x.requires_grad_()
    for own in mask.unbind(1):
        r = made.encode_masked(x, own[:, None])
        total = r.component_distribution.base_dist.loc.sum() + r.mixture_distribution.logits.sum()
        (gradient,) = torch.autograd.grad(total, x)
        present = made.players.expand(own).flatten(1)
        assert not gradient[~present].any()
        assert bool(present.any()) == bool(gradient[present].any())


@pytest.mark.parametrize("fill", [None, -1.0])
def test_the_masked_encoder_never_sees_what_is_absent(fill: float | None) -> None:
    check_unseen(network(fill=fill), rows(1), masks(1))


def test_with_a_fill_value_the_mask_is_not_shown() -> None:
    x, mask = rows(1), torch.tensor([[[True] * 4, [True, True, True, False]]])
    x[:, 3] = 0.0
    for fill, same in ((0.0, True), (None, False)):
        whole, part = network(fill=fill).encode_masked(x, mask).mean[0]
        assert torch.allclose(whole, part) == same


def imputer(posterior: str = "bank", **settings: object) -> VAEImputer:
    return VAEImputer(network(), rows(), posterior=posterior, **settings)  # type: ignore[arg-type]


def test_samples_follow_the_weights() -> None:
    made, x = imputer("encoder", importance=True), rows(1, seed=1)
    mask = masks(1)[:, 5:6].expand(1, 4000, -1)
    keys = torch.arange(4000)[None]
    one_each = made.sample(x, Listed(mask, keys), range(1))[0, :, 0]
    expected = made.means(x, mask[:, :1], keys[:, :1], (made.temper,), 20_000)[0, 0, 0]
    absent = ~mask[0, 0]
    error = one_each.std(0) / 4000**0.5
    gap = (one_each.mean(0) - expected).abs() - 4 * error
    assert (gap[absent] < 0.03).all()
    few = Listed(mask[:, :3], keys[:, :3])
    several, alone = made.sample(x, few, range(70)), made.sample(x, few, range(66, 68))
    assert torch.equal(several[:, :, 66:68], alone)


def test_bank_weights_are_the_posterior_over_codes() -> None:
    made, x = imputer(temper=0.7, bank_size=40), rows(2, seed=1)
    likelihood = made.network.likelihood
    means = made.means(x, masks(2), torch.zeros(2, 16, dtype=torch.int64), (0.7, 0.1))
    statistics, decoded = likelihood.statistics(x), Product(likelihood, made.bank.table).mean
    for b, k in ((0, 5), (1, 12), (0, 0)):
        present = all_coalitions(4)[k][likelihood.statistic_of]
        log_p = (made.bank.table * statistics[b] * present).sum(1)
        for mean, power in zip(means, (0.7, 0.1), strict=True):
            torch.testing.assert_close(mean[b, k], (power * log_p).softmax(0) @ decoded)


@given(st.integers(0, 2**31), st.integers(1, 70), st.integers(1, 90), st.floats(0, 1))
@settings(deadline=None, max_examples=30)
def test_running_likelihoods_are_matrix_products(
    seed: int, block: int, part: int, moving: float
) -> None:
    # Any walk over coalitions will do, also one that jumps from time to time.
    generator = torch.Generator().manual_seed(seed)
    eta = torch.randn(20, 60, generator=generator)
    changes = torch.rand(80, 60, generator=generator) < 0.05
    changes[10] |= torch.rand(60, generator=generator) < moving
    present = (changes.cumsum(0) % 2).bool()
    statistics = present * torch.randn(60, generator=generator)
    running = RunningLikelihood(eta)
    running.block = block
    found = torch.cat([running(some) for some in statistics.split(part)])
    torch.testing.assert_close(found, statistics @ eta.T, rtol=1e-5, atol=1e-4)


def test_importance_weights_correct_the_masked_encoder() -> None:
    # Whatever r proposes, many weighted draws estimate the mean under p(z|x_S) ∝ p(x_S|z) p(z).
    made, x, mask = imputer("encoder", importance=True), rows(1, seed=1), masks(1)[:, 5:6]
    keys = torch.zeros(1, 1, dtype=torch.int64)
    mean = made.means(x, mask, keys, (made.temper,), 20_000)[0]
    grid = torch.cartesian_prod(*[torch.linspace(-6, 6, 121)] * 2)
    decoded = made.network.decode(grid)
    present = mask[0, 0][made.network.owner_of_statistic]
    log_p = decoded.log_prob(made.network.likelihood.statistics(x) * present)
    weights = (log_p - grid.square().sum(1) / 2).softmax(0)
    torch.testing.assert_close(mean[0, 0], weights @ decoded.mean, rtol=0.05, atol=0.05)
    completed = made.impute(x, Listed(mask, keys), range(20_000))
    assert completed.log_weights is not None
    drawn, absent = completed.log_weights[0, 0].softmax(0) @ completed.rows[0, 0], ~mask[0, 0]
    torch.testing.assert_close(drawn[absent], mean[0, 0, absent], rtol=0.1, atol=0.1)


def test_the_bank_knows_how_many_codes_are_behind_its_draws() -> None:
    x, keys = rows(3, seed=1), torch.zeros(3, 16, dtype=torch.int64)
    wide, sharp = (
        imputer(bank_size=40, temper=temper)
        .impute(x, Listed(masks(3), keys), range(2))
        .effective_draws
        for temper in (1.0, 50.0)
    )
    torch.testing.assert_close(wide[:, 0], torch.full((3,), 40.0))
    assert (sharp[:, 1:] < wide[:, 1:]).all()
    assert sharp[:, -1].mean() < 2


@pytest.mark.parametrize("components", [None, 1, 3])
@pytest.mark.parametrize("steepness", [1, 100])
def test_rows_far_from_all_others_leave_the_loss_finite(
    components: int | None, steepness: int
) -> None:
    made, far = network(components), rows(8) * torch.tensor([1e4, 1e4, 1e4, 1])
    for weight in made.parameters():
        weight.data *= steepness
    loss = made.loss(far, masks(8), torch.randn(8, 2), detach=False)
    assert loss.isfinite().all()


FEW: dict[str, Any] = {"latent": 2, "hidden": (8,), "max_epochs": 1, "batch_size": 8}


def test_what_is_trained_draws_from_rows_like_those_of_the_training_alone() -> None:
    task = fit_imputer(rows(), temper=np.float64(0.6), **FEW).task
    with pytest.raises(ValueError, match=r"the means of [1-4] of 4 elements are more than three"):
        task.imputer(1000 * rows(), None)
    with pytest.raises(ValueError, match=r"trained for the bank .*train .*posterior='encoder'"):
        task.imputer(rows(), None, posterior="encoder")


@pytest.mark.parametrize("network", ["mlp", "conv"])
def test_only_what_is_read_is_trained_and_what_is_drawn_stays(network: str) -> None:
    few = {**FEW, "network": network}
    x = rows().unflatten(1, (1, 4)) if network == "conv" else rows()
    alone = fit_imputer(x, temper=0.5, **few)
    both = fit_imputer(x, posterior="encoder", **few)
    beside = both.task.imputer(alone.reference, None, posterior="bank", temper=0.5)
    weights, more = (dict(each.named_parameters()) for each in (alone.network, beside.network))
    assert {name.partition(".")[0] for name in more.keys() - weights} == {"masked"}
    assert all(torch.equal(weight, more[name]) for name, weight in weights.items())
    mask, keys = masks(3), torch.arange(48).reshape(3, 16)
    drawn = [each.impute(x[:3], Listed(mask, keys), range(6)).rows for each in (alone, beside)]
    assert torch.equal(*drawn)


@pytest.mark.usefixtures("any_type")
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"posterior": "bnak"}, "`posterior` to be one of .* but got 'bnak'"),
        ({"temper": -1.0}, "`temper` to be a finite number of at least 0"),
        ({"importance": True}, "Expected `importance` with posterior='encoder'"),
        ({"detach": "no"}, "`detach` to be true or false but got 'no'"),
        ({"components": 0, "posterior": "encoder"}, "`components` to be a whole number"),
        ({"bank_size": 0}, "`bank_size` to be a whole number"),
        ({"latent": 0}, "`latent` to be a whole number of at least 1 but got 0"),
        ({"beta": -1.0}, "`beta` to be a finite number of at least 0"),
        ({"network": "conv"}, r"rows \(channels, height, width\) .* of shape \(4,\)"),
    ],
)
def test_settings_that_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        fit_imputer(rows(), **settings)


def test_default_numbers_may_be_of_double_precision() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        imputer = fit_imputer(rows().float(), latent=2, hidden=[8], max_epochs=1, bank_size=50)
    finally:
        torch.set_default_dtype(torch.float32)
    assert imputer.temper > 0
