"""Seven ways to explain one model (Carballo, Section 5.3, on the data of Heskes et al. 2020).

The thesis explains a model of Alzheimer's disease by marginal values, by three kinds of conditional
ones, and by asymmetric, causal and asymmetric causal ones. Its data are not public. Here the model
is one of bicycles rented per day, and the order of causes is that of Heskes et al.: the trend,
then the season, then the weather.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import manifold_shap as ms
from benchmarks.papers import bike, seven_ways_figures
from benchmarks.papers.report import Line, Report, Table
from benchmarks.papers.seven_ways_claims import OF_MARGINAL, claims, fig_5_5, fig_5_6
from benchmarks.papers.seven_ways_measures import (
    apart,
    between_days,
    earlier_share,
    largest_share,
    mean,
    noise,
    share_apart,
)

TITLE = "Seven ways to explain one model"
SOURCE = "Carballo, Section 5.3, Figs. 5.5-5.9; Heskes et al. (2020), Section 6"
BY_AICC = "empirical, bandwidth by AICc"
REMARKS = """
The thesis' data (ADNI) are not public, and it shows plots without numbers; what Heskes et al.
(2020) find is read from the figures of their published code. Both are asked here of the table of
the latter, with boosted trees of scikit-learn. Conditional values behind the asymmetric and the
causal ones are Gaussian, as theirs are.

*Our readings.* Of numerical features the thesis says, by sina plots, that ways are very similar or
that they hardly differ. All of ours are numerical, and we take it to mean that of what any two of
these ways share out less than a tenth is at other features. What is said to be larger has to be so
by three standard errors. Both numbers are ours.

*Similar.* Neither statement holds here, and the data are the likely reason. The thesis' features go
together only loosely (its Fig. 5.3): what is known of some of them tells little about the others,
so that conditional and causal values are nearly marginal ones, and orders have little to move. Here
season and temperature go together closely, and the trees look at the temperature: conditional and
causal values give a part of that to `cosyear`, most where the season goes first. Besides, a sina
plot shows how values are spread, and not whether a day has the same ones in two panels.

*Gaussian, copula, empirical.* The season is a circle: its two coordinates are uncorrelated, though
one nearly gives the other. A normal distribution and its copula cannot see that, and leave the
circle; days near by keep close to it. With the default bandwidth of 0.1 empirical values rest on a
few days each, and are as far from the Gaussian ones as these are from the marginal ones; with that
of the AICc they are not. Nor can a normal distribution tell whether the season is confounded: see
"nothing confounded".

*Orders.* Two definitions of asymmetric values are about. Frye, Rowat & Feige (2020) and Heskes et
al. restrict the orders of the *conditional* game; that is the way shown. The thesis restricts those
of the *marginal* one ("causal, all variables confounded"), and is asked about these. There, what
the season does to the weather is not seen, and an order only says who gets the interactions.

*Season and temperature.* Heskes et al. have the apparent temperature as one more feature beside the
temperature, and the two share what is one value here. Tried by hand with both, the causal values of
each were smaller than that of `cosyear`, and their sum was larger.
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
        repeats: with other draws, two or more.
        days: to explain, two or more; by default all that the model has not seen.
        seed: of the split and the model.

    Raises:
        ValueError: fewer repeats or days.
    """
    if repeats < 2:
        raise ValueError(
            f"Expected `repeats` to be 2 or more, by which errors are known, but got {repeats}."
        )
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


def _report(bench: bike.Bench, found: Explanations, others: Explanations) -> Report:
    all_of_them = {**found, **others}
    dates = {"october": bike.OCTOBER, "december": bike.DECEMBER}
    return Report(
        TITLE,
        SOURCE,
        [*_of_model(bench, found), *_of_distances(found, others)],
        claims(found, others, bench.ordering),
        [
            _sizes(all_of_them, bench.ordering),
            _distances(all_of_them, found),
            _two_days(all_of_them),
        ],
        REMARKS,
        seven_ways_figures.of_all_days(found),
        more={name: _plain(one) for name, one in all_of_them.items()},
        errors="standard errors, of means over days, or of two days from repeats",
        figures={
            name: seven_ways_figures.of_a_day(found, row, date)
            for row, (name, date) in enumerate(dates.items())
        },
    )


def _of_model(bench: bike.Bench, found: Explanations) -> list[Line]:
    data, predicted = bench.data, found["marginal"].prediction[:, 0]
    score = bench.regressor.score(data.x_test.numpy(), data.y_test.numpy())
    lines = [Line("R² of the model on the days explained", score)]
    for k, date in enumerate((bike.OCTOBER, bike.DECEMBER)):
        lines.append(Line(f"bicycles predicted for {date}", predicted[k].item()))
        lines.append(Line(f"bicycles rented on {date}", data.y_test[k].item()))
    return lines


def _of_distances(found: Explanations, others: Explanations) -> list[Line]:
    of_dependence, of_causes = fig_5_5(found), fig_5_6(found, others)
    lines = [
        Line(f"largest share of Σ|φ| at other features, of any two of: {'; '.join(ways)}",
             largest_share(ways.values()))
        for ways in (of_dependence, of_causes)
    ]  # fmt: skip
    bandwidths = {"0.1": found["empirical"], "by AICc": others[BY_AICC]}
    for how, empirical in bandwidths.items():
        three = [found["Gaussian"], found["copula"], empirical]
        least = min(share_apart(one, found["marginal"]) for one in three)
        said = f"Gaussian, copula and empirical values (bandwidth {how})"
        lines += [
            Line(f"largest share of Σ|φ| at other features, of any two of {said}",
                 largest_share(three)),
            Line(f"smallest share of Σ|φ| at other features, of marginal and {said}", least),
        ]  # fmt: skip
    twins = found["asymmetric"], found["asymmetric causal"]
    both = "asymmetric and asymmetric causal values"
    return [
        *lines,
        Line(f"bicycles a day that {both} give to other features", *mean(apart(*twins))),
        Line(f"bicycles a day that {both} would give to other features by their draws alone",
             noise(*twins)),
    ]  # fmt: skip


def _sizes(found: Explanations, ordering: Sequence[Sequence[str]]) -> Table:
    rows = [
        [name, *one.phi[..., 0].abs().mean(0).tolist(), mean(earlier_share(one, ordering))]
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


def _plain(explanation: ms.Explanation) -> dict[str, Any]:
    """Values of every day."""
    return {"days": list(explanation.instances), "phi": explanation.phi[..., 0].tolist()}
