"""What the thesis and Heskes et al. (2020) find, asked of the seven ways."""

import itertools
from collections.abc import Mapping, Sequence

import manifold_shap as ms
from benchmarks.papers import bike
from benchmarks.papers.report import Claim
from benchmarks.papers.seven_ways_measures import (
    all_surely_larger,
    apart,
    between_days,
    earlier_share,
    largest_share,
    surely_beyond,
    surely_larger,
)

OF_MARGINAL = "asymmetric, of the marginal game"
# Ours: ways hardly differ if less than this part of what they share out is at other features.
HARDLY = 0.1
Explanations = Mapping[str, ms.Explanation]


def claims(
    found: Explanations, others: Explanations, ordering: Sequence[Sequence[str]]
) -> list[Claim]:
    """Of the thesis, and of Heskes et al.

    Args:
        found: the seven ways.
        others: `variants`.
        ordering: names of the features in causal order.
    """
    return [
        *_of_thesis(found, others),
        *_of_shares(found, ordering),
        *_of_sizes(found),
        *_of_two_days(found),
    ]


def fig_5_5(found: Explanations) -> dict[str, ms.Explanation]:
    """The ways that the thesis finds similar in its Section 5.3.1."""
    return {name: found[name] for name in ("marginal", "Gaussian", "copula", "empirical")}


def fig_5_6(found: Explanations, others: Explanations) -> dict[str, ms.Explanation]:
    """Those of its Section 5.3.2; its asymmetric values are of the marginal game."""
    three = {name: found[name] for name in ("marginal", "causal", "asymmetric causal")}
    return three | {OF_MARGINAL: others[OF_MARGINAL]}


def _of_thesis(found: Explanations, others: Explanations) -> list[Claim]:
    of_dependence, of_causes = fig_5_5(found).values(), fig_5_6(found, others).values()
    symmetric = found["marginal"], found["causal"]
    asymmetric = others[OF_MARGINAL], found["asymmetric causal"]
    orders = [apart(a, b) for a, b in zip(symmetric, asymmetric, strict=True)]
    games = [apart(*symmetric), apart(*asymmetric)]
    return [
        Claim(
            "marginal, Gaussian, copula and empirical values of numerical features are very "
            f"similar (thesis, Section 5.3.1, Fig. 5.5): any two have less than {HARDLY:.0%} of "
            "what they share out at other features",
            largest_share(of_dependence) < HARDLY,
        ),
        Claim(
            "marginal, causal, asymmetric (of the marginal game) and asymmetric causal values of "
            "continuous features hardly differ (thesis, Section 5.3.2, Fig. 5.6): any two have "
            f"less than {HARDLY:.0%} of what they share out at other features",
            largest_share(of_causes) < HARDLY,
        ),
        Claim(
            "orders matter most (thesis, Chapter 6): marginal and causal values change more where "
            "orders are restricted than they differ from each other",
            all_surely_larger(orders, games),
        ),
    ]


def _of_shares(found: Explanations, ordering: Sequence[Sequence[str]]) -> list[Claim]:
    share = {name: earlier_share(one, ordering) for name, one in found.items()}
    return [
        Claim(
            f"{name} values give more to trend and season than marginal ones (Heskes et al.)",
            surely_larger(share[name], share["marginal"]),
        )
        for name in ("causal", "asymmetric", "asymmetric causal")
    ]


def _of_sizes(found: Explanations) -> list[Claim]:
    size = {name: one.phi[..., 0].abs() for name, one in found.items()}
    season, warmth = (bike.PLAYERS.names.index(name) for name in ("cosyear", "temp"))
    twins = "asymmetric", "asymmetric causal"
    rest = [
        apart(found[a], found[b]) for a, b in itertools.combinations(found, 2) if (a, b) != twins
    ]
    return [
        Claim("marginal values are larger for temp than for cosyear (Heskes et al., Fig. 3)",
              surely_larger(size["marginal"][:, warmth], size["marginal"][:, season])),
        Claim("causal values are larger for cosyear than for temp (Heskes et al., Fig. 3)",
              surely_larger(size["causal"][:, season], size["causal"][:, warmth])),
        Claim("of the seven ways, asymmetric and asymmetric causal values are the most alike "
              "(Heskes et al.)",
              all_surely_larger(rest, [apart(*(found[name] for name in twins))])),
    ]  # fmt: skip


def _of_two_days(found: Explanations) -> list[Claim]:
    """Equally warm ones: it was cold for October, and warm for December."""
    season = {name: between_days(found[name], "cosyear") for name in ("marginal", "causal")}
    warmth = {name: between_days(found[name], "temp") for name in ("marginal", "causal")}
    return [
        Claim("causal values of cosyear speak more for October, against December, than marginal "
              "ones do (Heskes et al., Fig. 4)",
              surely_beyond(season["causal"], season["marginal"])),
        Claim("causal values of temp speak more for December, against October, than marginal ones "
              "do (Heskes et al., Fig. 4)",
              surely_beyond(warmth["marginal"], warmth["causal"])),
    ]  # fmt: skip
