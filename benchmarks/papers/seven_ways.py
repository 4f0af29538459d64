"""Seven ways to explain one model (Carballo, Section 5.3, on the data of Heskes et al. 2020).

The thesis explains a model of Alzheimer's disease by marginal values, by three kinds of conditional
ones, and by asymmetric, causal and asymmetric causal ones. Its data are not public. Here the model
is one of bicycles rented per day, and the order of causes is that of Heskes et al.: the trend,
then the season, then the weather.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

import manifold_shap as ms
from benchmarks.papers import bike
from benchmarks.papers.report import Claim, Line, Report, Table

TITLE = "Seven ways to explain one model"
SOURCE = "Carballo, Section 5.3, Figs. 5.5-5.9; Heskes et al. (2020), Section 6"
CONDITIONAL = ("Gaussian", "copula", "empirical")
OF_MARGINAL = "asymmetric, of the marginal game"
BY_AICC = "empirical, bandwidth by AICc"
# Standard errors by which figures must differ to count as different.
SURELY = 3.0
REMARKS = """
The thesis' data (ADNI) are not public, and it shows plots without numbers; what Heskes et al.
(2020) find is read from the figures of their published code. Both are asked here of the table of
the latter, with boosted trees of scikit-learn. Conditional values behind the asymmetric and the
causal ones are Gaussian, as theirs are.

*Alike.* The season is a circle: its two coordinates are uncorrelated, though one nearly gives the
other. A normal distribution and its copula cannot see that, and leave the circle; days near by keep
close to it. With the default bandwidth of 0.1 empirical values rest on a few days each, and are as
far from the Gaussian ones as these are from the marginal ones; with that of the AICc they are not.
Nor can a normal distribution tell whether the season is confounded: see "nothing confounded".

*Orders.* Two definitions of asymmetric values are about. Frye, Rowat & Feige (2020) and Heskes et
al. restrict the orders of the *conditional* game; that is the way shown. The thesis restricts those
of the *marginal* one ("causal, all variables confounded"), and is asked about these. There, what
the season does to the weather is not seen, and an order only says who gets the interactions.

*Season and temperature.* Heskes et al. have the apparent temperature as one more feature beside the
temperature, and the two share what is one value here. With both, in a run apart, the causal values
of each were smaller than that of `cosyear`, and their sum was larger.
"""

Explanations = Mapping[str, ms.Explanation]


def run(
    ordering: Sequence[Sequence[str]],
    confounding: Sequence[bool],
    draws: int,
    repeats: int,
    days: int | None,
    seed: int,
) -> Report:
    """Explain the same days in every way.

    Args:
        ordering: names of the features, component after component in causal order; the last one is
            the weather.
        confounding: for each component, whether its features share a hidden cause.
        draws: completions of a coalition in one repeat, where they are random.
        repeats: with other draws.
        days: to explain; by default all that the model has not seen.
        seed: of the split and the model.
    """
    bench = bike.Bench(bike.split(seed, days), ordering, draws, repeats, seed)
    found = ways(bench, confounding)
    others = variants(bench, confounding)
    return _report(bench, found, others)


def ways(bench: bike.Bench, confounding: Sequence[bool]) -> dict[str, ms.Explanation]:
    """The seven of the thesis."""
    x, players = bench.data.x_train, bike.PLAYERS
    gaussian = ms.GaussianImputer(x, players)
    causal = ms.CausalImputer(gaussian, bench.ordering, list(confounding))
    found = {
        "marginal": bench.explain(ms.MarginalImputer(x, players)),
        "Gaussian": bench.explain(gaussian),
        "copula": bench.explain(ms.CopulaImputer(x, players)),
        "empirical": bench.explain(ms.EmpiricalImputer(x, players)),
        "asymmetric": bench.explain(gaussian, asymmetric=True),
        "causal": bench.explain(causal),
        "asymmetric causal": bench.explain(causal, asymmetric=True),
    }
    print(f"{len(bench.data.x_test)} days explained in seven ways", flush=True)
    return found


def variants(bench: bike.Bench, confounding: Sequence[bool]) -> dict[str, ms.Explanation]:
    """What becomes of some of them by other choices."""
    x, players, order = bench.data.x_train, bike.PLAYERS, bench.ordering
    gaussian, empirical = ms.GaussianImputer(x, players), ms.EmpiricalImputer(x, players)
    aicc = ms.EmpiricalImputer(x, players, bandwidth="aicc", targets=bench.model(x))
    by_rows = ms.CausalImputer(empirical, order, list(confounding))
    found = {
        OF_MARGINAL: bench.explain(ms.MarginalImputer(x, players), asymmetric=True),
        BY_AICC: bench.explain(aicc),
        "causal, nothing confounded": bench.explain(ms.CausalImputer(gaussian, order)),
        # A draw of a row's own takes the weights of all rows of the data.
        "causal, empirical": bench.explain(by_rows, draws=max(2, bench.draws // 4)),
    }
    print(f"and in {len(found)} more", flush=True)
    return found


def apart(one: ms.Explanation, other: ms.Explanation) -> Float[Tensor, " days"]:
    """How many bicycles two explanations of a day give to other features."""
    return (one.phi - other.phi)[..., 0].abs().sum(1) / 2


def noise(one: ms.Explanation, other: ms.Explanation) -> float:
    """What `apart` is on average for the same values, of as many draws."""
    error = (one.standard_error.square() + other.standard_error.square()).sqrt()
    return ((2 / torch.pi) ** 0.5 * error[..., 0].sum(1) / 2).mean().item()


def earlier_share(
    explanation: ms.Explanation, ordering: Sequence[Sequence[str]]
) -> Float[Tensor, " days"]:
    """Part of Σ|φ| that all components but the last have."""
    size = explanation.phi[..., 0].abs()
    last = torch.tensor([name in ordering[-1] for name in explanation.players.names])
    return size[:, ~last].sum(1) / size.sum(1)


def surely_larger(one: Float[Tensor, " days"], other: Float[Tensor, " days"]) -> bool:
    """Whether the mean is, judged by the differences of each day."""
    gap = one - other
    return bool(gap.mean() > SURELY * gap.std() / len(gap) ** 0.5)


def between_days(explanation: ms.Explanation, player: str) -> tuple[float, float]:
    """By how much a value is larger in October than in December, and its error."""
    k = explanation.players.names.index(player)
    gap = explanation.phi[0, k, 0] - explanation.phi[1, k, 0]
    return gap.item(), explanation.standard_error[:2, k, 0].norm().item()


def _of_thesis(found: Explanations, others: Explanations) -> list[Claim]:
    by_aicc = {**found, "empirical": others[BY_AICC]}
    symmetric = found["marginal"], found["causal"]
    asymmetric = others[OF_MARGINAL], found["asymmetric causal"]
    orders = [apart(a, b) for a, b in zip(symmetric, asymmetric, strict=True)]
    games = [apart(*symmetric), apart(*asymmetric)]
    return [
        Claim(
            "Gaussian, copula and empirical values are alike (Fig. 5.5): nearer to each other than "
            "any of them is to the marginal ones",
            _alike(found),
        ),
        Claim("they are if the bandwidth of the empirical ones is by AICc", _alike(by_aicc)),
        Claim(
            "orders matter most (Chapter 6): marginal and causal values change more where orders "
            "are restricted than they differ from each other",
            _all_larger(orders, games),
        ),
    ]


def _alike(found: Explanations) -> bool:
    kin = [apart(found[a], found[b]) for a, b in itertools.combinations(CONDITIONAL, 2)]
    return _all_larger([apart(found[name], found["marginal"]) for name in CONDITIONAL], kin)


def _all_larger(ones: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    return all(surely_larger(one, other) for one in ones for other in others)


def _of_heskes(found: Explanations, ordering: Sequence[Sequence[str]]) -> list[Claim]:
    share = {name: earlier_share(one, ordering) for name, one in found.items()}
    size = {name: one.phi[..., 0].abs() for name, one in found.items()}
    season, warmth = (bike.PLAYERS.names.index(name) for name in ("cosyear", "temp"))
    likest = apart(found["asymmetric"], found["asymmetric causal"])
    rest = [
        apart(found[a], found[b])
        for a, b in itertools.combinations(found, 2)
        if {a, b} != {"asymmetric", "asymmetric causal"}
    ]
    claims = [
        Claim(f"{name} values give more to trend and season than marginal ones",
              surely_larger(share[name], share["marginal"]))
        for name in ("causal", "asymmetric", "asymmetric causal")
    ]  # fmt: skip
    claims += [
        Claim("marginal values are larger for temp than for cosyear (Fig. 3)",
              surely_larger(size["marginal"][:, warmth], size["marginal"][:, season])),
        Claim("causal ones are larger for cosyear than for temp (Fig. 3)",
              surely_larger(size["causal"][:, season], size["causal"][:, warmth])),
        Claim("asymmetric and asymmetric causal values are the most alike",
              _all_larger(rest, [likest])),
    ]  # fmt: skip
    return claims + _of_two_days(found)


def _of_two_days(found: Explanations) -> list[Claim]:
    """Equally warm ones: it was cold for October, and warm for December."""
    season = {name: between_days(found[name], "cosyear") for name in ("marginal", "causal")}
    warmth = {name: between_days(found[name], "temp") for name in ("marginal", "causal")}

    def beyond(one: tuple[float, float], other: tuple[float, float]) -> bool:
        return one[0] - other[0] > SURELY * (one[1] ** 2 + other[1] ** 2) ** 0.5

    return [
        Claim("causal values tell October from December by cosyear more than marginal ones do "
              "(Fig. 4)",
              beyond(season["causal"], season["marginal"])),
        Claim("and let temp speak for December rather than October more than marginal ones do",
              beyond(warmth["marginal"], warmth["causal"])),
    ]  # fmt: skip


def _report(bench: bike.Bench, found: Explanations, others: Explanations) -> Report:
    data, twins = bench.data, (found["asymmetric"], found["asymmetric causal"])
    score = bench.regressor.score(data.x_test.numpy(), data.y_test.numpy())
    lines = [Line("R² of the model on the days explained", score)]
    for k, date in enumerate((bike.OCTOBER, bike.DECEMBER)):
        lines.append(Line(f"bicycles predicted for {date}", twins[0].prediction[k, 0].item()))
        lines.append(Line(f"bicycles rented on {date}", data.y_test[k].item()))
    lines += [
        Line("bicycles given to other features by asymmetric and asymmetric causal values",
             *_mean(apart(*twins))),
        Line("of which the draws alone would explain", noise(*twins)),
    ]  # fmt: skip
    all_of_them = {**found, **others}
    tables = [
        _sizes(all_of_them, bench.ordering),
        _distances(all_of_them, found),
        _two_days(all_of_them),
    ]
    two = {"october": 0, "december": 1}
    return Report(
        TITLE,
        SOURCE,
        lines,
        [*_of_thesis(found, others), *_of_heskes(found, bench.ordering)],
        tables,
        REMARKS,
        ms.plots.sina(found),
        more={name: _plain(one) for name, one in all_of_them.items()},
        errors="standard errors, of means over days, or of two days from repeats",
        figures={name: ms.plots.bars(found, instance=row) for name, row in two.items()},
    )


def _sizes(found: Explanations, ordering: Sequence[Sequence[str]]) -> Table:
    rows = [
        [name, *one.phi[..., 0].abs().mean(0).tolist(), _mean(earlier_share(one, ordering))]
        for name, one in found.items()
    ]
    return Table(["mean |φ|, bicycles", *bike.PLAYERS.names, "share of trend and season"], rows)


def _distances(found: Explanations, others: Explanations) -> Table:
    rows = [
        [name, *(None if one is other else apart(one, other).mean().item()
                 for other in others.values())]
        for name, one in found.items()
    ]  # fmt: skip
    return Table(["bicycles given to other features", *others], rows)


def _two_days(found: Explanations) -> Table:
    rows = [
        [name, *(between_days(one, player) for player in bike.PLAYERS.names)]
        for name, one in found.items()
    ]
    return Table([f"φ of {bike.OCTOBER} less that of {bike.DECEMBER}", *bike.PLAYERS.names], rows)


def _mean(numbers: Float[Tensor, " days"]) -> tuple[float, float]:
    return numbers.mean().item(), (numbers.std() / len(numbers) ** 0.5).item()


def _plain(explanation: ms.Explanation) -> dict[str, Any]:
    """Values of every day."""
    return {"days": list(explanation.instances), "phi": explanation.phi[..., 0].tolist()}
