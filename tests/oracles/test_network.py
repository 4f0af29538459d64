"""Bayesian networks: posteriors and draws against sums over all joint states."""

import pytest
import torch
from scipy import stats
from torch import Tensor

import manifold_shap as ms
from manifold_shap.coalitions import all_coalitions
from manifold_shap.oracles import BayesianNetwork, Variable
from tests.oracles.networks import (
    FOLDER,
    TARGETS,
    garden,
    given,
    joint,
    needs_files,
    random_network,
    shared,
)

# Of each comparison of frequencies with a law; there are about 40 in this file.
FALSE_ALARM = 1e-4

networks = pytest.mark.parametrize(
    "law", [garden(), *map(random_network, range(6))], ids=lambda law: law.target
)
of_files = pytest.mark.parametrize("name", TARGETS)


def every_coalition(law: BayesianNetwork, rows: int) -> Tensor:
    return all_coalitions(len(law.names)).expand(rows, -1, -1)


@networks
def test_posteriors_are_sums_over_the_joint_states(law: BayesianNetwork) -> None:
    whole, x = joint(law), law.sample(3, seed=1).x
    mask = every_coalition(law, len(x))
    posterior, evidence = law.posterior(x, mask), law.evidence(x, mask)
    for row in range(len(x)):
        for k, present in enumerate(mask[row]):
            both = given(whole, x[row], present).flatten(0, -2).sum(0)
            assert evidence[row, k] == pytest.approx(both.sum().item(), abs=1e-12)
            torch.testing.assert_close(posterior[row, k], both / both.sum(), rtol=0, atol=1e-12)


@networks
def test_probabilities_of_rows_are_those_of_the_joint(law: BayesianNetwork) -> None:
    whole = joint(law).sum(-1)
    states = torch.cartesian_prod(*(torch.arange(n) for n in law.sizes))
    p = law.probability(states.float())
    torch.testing.assert_close(p, whole.flatten(), rtol=0, atol=1e-15)
    assert p.sum() == pytest.approx(1, abs=1e-12)


@networks
def test_draws_are_distributed_like_the_joint(law: BayesianNetwork) -> None:
    whole, x = joint(law), law.sample(2, seed=2).x
    mask = torch.rand(2, 3, len(law.names), generator=torch.Generator().manual_seed(1)) < 0.5
    mask[0, 0] = False
    draws = 20_000
    drawn = law.draw(x, mask, range(draws), torch.arange(6).view(2, 3))
    strides = torch.tensor(whole.stride())
    for row in range(2):
        for k in range(3):
            expected = given(whole, x[row], mask[row, k]).flatten()
            states = torch.cat((drawn.x[row, k].long(), drawn.y[row, k][:, None]), 1)
            counts = torch.bincount((states * strides).sum(1), minlength=whole.numel())
            assert (counts[expected == 0] == 0).all()
            pvalue = chi_squared(counts, expected / expected.sum() * draws)
            assert pvalue > FALSE_ALARM


def chi_squared(counts: Tensor, expected: Tensor) -> float:
    """Of the states that are expected five times, and of all others together."""
    often = expected >= 5
    observed = torch.cat((counts[often], counts[~often].sum()[None])).double()
    wanted = torch.cat((expected[often], expected[~often].sum()[None]))
    kept = wanted > 5
    if int(kept.sum()) < 2:
        return 1.0
    rest = observed[kept].sum() / wanted[kept].sum()
    return float(stats.chisquare(observed[kept], wanted[kept] * rest).pvalue)


def test_draws_do_not_depend_on_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    law = garden()
    x, keys = law.sample(6).x, torch.arange(30).view(6, 5)
    mask = torch.rand(6, 5, 5, generator=torch.Generator().manual_seed(0)) < 0.5
    every, posterior = law.draw(x, mask, range(8), keys), law.posterior(x, mask)
    part = law.draw(x[2:4], mask[2:4, 1:3], range(3, 6), keys[2:4, 1:3])
    assert torch.equal(every.x[2:4, 1:3, 3:6], part.x)
    assert torch.equal(every.y[2:4, 1:3, 3:6], part.y)
    monkeypatch.setattr("manifold_shap.oracles.network._MOST_NUMBERS", 1)
    assert torch.equal(law.draw(x, mask, range(8), keys).x, every.x)
    assert torch.equal(law.posterior(x, mask), posterior)


def test_labels_are_of_their_rows() -> None:
    """Posteriors of whole rows are calibrated: χ² over groups of rows of equal posterior."""
    law = garden()
    x, y = law.sample(20_000, seed=3)
    p = law.posterior(x, torch.ones(len(x), 1, 5, dtype=torch.bool))[:, 0, 0]
    kinds, group = p.unique(return_inverse=True)
    count, yes = torch.bincount(group), torch.bincount(group, weights=(y == 0).double())
    known = (kinds > 1e-9) & (kinds < 1 - 1e-9) & (count * kinds * (1 - kinds) > 5)
    z = (yes - count * kinds)[known].square() / (count * kinds * (1 - kinds))[known]
    assert int(known.sum()) > 5
    assert stats.chi2.sf(float(z.sum()), int(known.sum())) > FALSE_ALARM


def test_frames_hold_names_of_states() -> None:
    law = garden()
    x = law.sample(50).x
    frame = law.frame(x)
    assert frame.columns.tolist() == ["slippery", "season", "sprinkler", "wet", "gnome"]
    assert frame["season"].cat.categories.tolist() == ["dry", "mild", "wet"]
    assert torch.equal(law.rows(frame), x)
    assert torch.equal(law.rows(frame.astype(str).iloc[:, ::-1]), x)
    frame = frame.astype(object)
    frame.loc[3, "season"] = "hot"
    with pytest.raises(ValueError, match=r"states of 'season' among .*'mild'.* but got \['hot'\]"):
        law.rows(frame)
    with pytest.raises(ValueError, match="columns of the network among"):
        law.rows(frame.drop(columns="wet"))


def test_a_model_of_frames_is_one_of_rows() -> None:
    law = garden()
    model = law.model(lambda frame: (frame["season"] == "dry").to_numpy(float), returns="values")
    x = law.sample(20).x
    assert torch.equal(model(x, scale="values")[:, 0], (x[:, 1] == 0).double())


def test_wrong_networks_raise_errors() -> None:
    coin = Variable("coin", ("heads", "tails"))
    with pytest.raises(
        ValueError, match=r"`target` to be one of \['coin'\] but got 'con'; did you"
    ):
        BayesianNetwork([coin], "con")
    with pytest.raises(ValueError, match="variables besides the target 'coin' but got none"):
        BayesianNetwork([coin], "coin")
    with pytest.raises(ValueError, match=r"names of variables.*'coin'"):
        BayesianNetwork([coin, coin], "coin")
    with pytest.raises(ValueError, match="parents of 'dice' among the variables but 'con'"):
        BayesianNetwork([coin, Variable("dice", ("1",), ("con",))], "coin")
    with pytest.raises(ValueError, match=r"table of shape \(2, 1\) for 'dice'.* but got \(0,\)"):
        BayesianNetwork([coin, Variable("dice", ("1",), ("coin",))], "coin")
    with pytest.raises(ValueError, match="'dice' to have at least one state"):
        BayesianNetwork([coin, Variable("dice", ())], "coin")


def test_rows_that_cannot_be_raise_errors() -> None:
    law = garden()
    x = law.sample(2).x
    everybody = torch.ones(2, 1, 5, dtype=torch.bool)
    other = x.clone()
    other[1, 0] = 1 - other[1, 0]  # `slippery` is a copy of `wet`.
    for refused in (law.posterior, law.evidence):
        with pytest.raises(ValueError, match="rows that the law can give but 1 of 2"):
            refused(other, everybody)
    with pytest.raises(ValueError, match="rows that the law can give but 1 of 2"):
        law.complete(other, everybody, draws=2)
    for state in (3.0, 0.5, -1.0):
        other = x.clone()
        other[1, 1] = state
        with pytest.raises(ValueError, match=rf"'season' as .* to 2 but got {state:g} in row 1"):
            law.posterior(other, everybody)
        assert law.posterior(other, ~everybody).isfinite().all()
        with pytest.raises(ValueError, match="'season'"):
            law.rows(other)


@needs_files
@of_files
def test_public_networks_are_read(name: str) -> None:
    law = BayesianNetwork.read(shared(name), TARGETS[name])
    assert len(law.variables) == {"asia": 8, "sachs": 11, "child": 20, "insurance": 27}[name]
    x, y = law.sample(6000)
    base = law.posterior(x[:1], torch.zeros(1, 1, x.shape[1], dtype=torch.bool))[0, 0]
    counts = torch.bincount(y, minlength=len(base))
    assert stats.chisquare(counts, base * len(x)).pvalue > FALSE_ALARM
    p = law.posterior(x, torch.ones(len(x), 1, x.shape[1], dtype=torch.bool))[:, 0]
    hits = (p.argmax(1) == y).double()
    error = (hits - p.amax(1)).std() / len(x) ** 0.5
    assert abs((hits - p.amax(1)).mean()) < 4.5 * error


@needs_files
@pytest.mark.parametrize("name", ["asia", "sachs"])
def test_small_public_networks_against_all_states(name: str) -> None:
    law = BayesianNetwork.read(shared(name), TARGETS[name])
    x = law.sample(4).x
    mask = ms.shapley_pairs(4, len(law.names), least=40)
    grid = torch.cartesian_prod(*(torch.arange(n) for n in law.sizes)).float()
    posterior = law.posterior(x, mask)
    p = law.probability(grid)
    full = law.posterior(grid[p > 0], torch.ones(int((p > 0).sum()), 1, x.shape[1]) > 0)[:, 0]
    for row in range(4):
        for k, present in enumerate(mask[row]):
            alike = (grid[p > 0][:, present] == x[row, present]).all(1)
            weight = (p[p > 0] * alike)[:, None]
            expected = (weight * full).sum(0) / weight.sum()
            torch.testing.assert_close(posterior[row, k], expected, rtol=0, atol=1e-10)


@needs_files
@pytest.mark.parametrize("name", ["child", "insurance"])
def test_large_public_networks_against_marginals_of_draws(name: str) -> None:
    """Draws given x_S have the pairwise frequencies of rows of the network that agree with x_S."""
    law = BayesianNetwork.read(shared(name), TARGETS[name])
    many = law.sample(200_000, seed=5)
    x = many.x[:1]
    mask = torch.zeros(1, 1, x.shape[1], dtype=torch.bool)
    mask[..., [1, 4, 9]] = True
    alike = (many.x[:, mask[0, 0]] == x[:, mask[0, 0]]).all(1)
    assert int(alike.sum()) > 1000
    drawn = law.draw(x, mask, range(20_000), torch.zeros(1, 1, dtype=torch.int64))
    rows = torch.cat((many.x[alike], many.y[alike][:, None].float()), 1)
    others = torch.cat((drawn.x[0, 0], drawn.y[0, 0][:, None].float()), 1)
    sizes = [*law.sizes, len(law.classes)]
    alarms = FALSE_ALARM / len(sizes) ** 2
    for i in range(len(sizes)):
        j = (i + 1) % len(sizes)
        both = [
            torch.bincount(
                (each[:, i] * sizes[j] + each[:, j]).long(), minlength=sizes[i] * sizes[j]
            )
            for each in (rows, others)
        ]
        often = (both[0] + both[1]) > 20
        if int(often.sum()) > 1:
            table = torch.stack(both)[:, often].numpy()
            assert stats.chi2_contingency(table).pvalue > alarms
    assert FOLDER is not None
