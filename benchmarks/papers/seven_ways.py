"""Seven ways to explain one model (Carballo, Section 5.3, on the data of Heskes et al. 2020).

The thesis explains a model of Alzheimer's disease by marginal values, by three kinds of conditional
ones, and by asymmetric, causal and asymmetric causal ones. Its data are not public. Here the model
is one of bicycles rented per day, and the order of causes is that of Heskes et al.: the trend, then
the season, then the weather.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from benchmarks.report import Claim, Found, Table, cell, number
from benchmarks.support import bike
from benchmarks.support.bike import AICC, DECEMBER, OCTOBER, OF_MARGINAL, WAYS
from benchmarks.support.differences import HARDLY, apart, gap, share_apart, shares_apart, sure

TITLE = "Seven ways to explain one model"
SOURCE = "Carballo, Section 5.3, Figs. 5.5-5.9; Heskes et al. (2020), Section 6"
ERRORS = "standard errors, of means over days, or of two days from repeats"
QUICK = {"draws": 32, "repeats": 3, "days": 40}
ORDERING = (("trend",), ("cosyear", "sinyear"), ("temp", "hum", "windspeed"))
SIMILAR = {
    "marginal, Gaussian, copula and empirical values are very similar": ("5.5", WAYS[:4]),
    "marginal, causal, asymmetric (marginal game) and asymmetric causal values hardly differ":
        ("5.6", ("marginal", "causal", "asymmetric causal", OF_MARGINAL)),
}  # fmt: skip


def run(
    ordering: Sequence[Sequence[str]] = ORDERING,  # components in causal order, weather last
    confounding: Sequence[bool] = (False, True, False),  # of a component, by hidden causes
    draws: int = 64,  # completions of a coalition in one repeat, where they are random
    repeats: int = 8,  # with other draws, two or more, for the errors
    days: int | None = None,  # to explain, two or more; None: all that the model has not seen
    seed: int = 0,  # of the split and the model
) -> dict[str, Any]:
    """Explain the same days in every way."""
    if repeats < 2 or (days or 2) < 2:
        raise ValueError(f"Expected 2 or more `repeats` and `days` but got {repeats} and {days}.")
    bench = bike.Bench(bike.split(seed, days), ordering, draws, repeats, seed)
    found, data = bench.ways(confounding), bench.data
    return {
        "r2": bench.regressor.score(data.x_test.numpy(), data.y_test.numpy()),
        "rented": data.y_test[:2],
        "days": list(data.dates),
        "x": data.x_test,
        "base": found["marginal"].base.flatten()[0],
        "prediction": found["marginal"].prediction[:, 0],
        "earlier": [sum(name in part for part in ordering[:-1]) for name in bike.PLAYERS.names],
        "phi": {name: one.phi[..., 0] for name, one in found.items()},
        "standard_error": {name: one.standard_error[..., 0] for name, one in found.items()},
    }


def earlier_share(found: Found, phi: Tensor) -> Float[Tensor, " days"]:
    """Part of Σ|φ| that all components but the last have."""
    return phi[:, torch.tensor(found["earlier"], dtype=torch.bool)].abs().sum(1) / phi.abs().sum(1)


def between_days(found: Found, way: str, player: str) -> tuple[float, float]:
    """By how much a value is larger in October than in December, and its error."""
    k = bike.PLAYERS.names.index(player)
    (one, other), (a, b) = (
        [row[k] for row in found[key][way][:2]] for key in ("phi", "standard_error")
    )
    return one - other, (a**2 + b**2) ** 0.5


def claims(found: Found) -> list[Claim]:
    phi = {name: torch.tensor(one) for name, one in found["phi"].items()}
    made = []
    why = "season and temperature are strongly correlated here, the thesis' features only loosely"
    for text, (figure, ways) in SIMILAR.items():
        share = max(shares_apart([phi[way] for way in ways]))
        text += f": any two have less than {HARDLY:.0%} of Σ|φ| at other features"
        made.append(Claim(text, f"thesis, Fig. {figure}", f"{share:.0%}", share < HARDLY, why))
    pairs = ("marginal", OF_MARGINAL), ("causal", "asymmetric causal")
    orders = [apart(phi[a], phi[b]) for a, b in pairs]
    games = [apart(phi[a], phi[b]) for a, b in zip(*pairs, strict=True)]
    ours = " against ".join(
        ", ".join(number(o.mean().item()) for o in each) for each in (orders, games)
    )
    text = "restricting the orders moves marginal and causal values more than the two games differ"
    why = "in the marginal game the order matters only for interactions"
    made.append(Claim(text, "thesis, Chapter 6", f"{ours} bicycles",
                      all(sure(gap(a, b)) for a in orders for b in games), why))  # fmt: skip
    for way in ("causal", "asymmetric", "asymmetric causal"):
        one, other = (earlier_share(found, phi[name]) for name in (way, "marginal"))
        text = f"{way} values give more to trend and season than marginal ones"
        ours = f"{one.mean():.0%} against {other.mean():.0%}"
        made.append(Claim(text, "Heskes et al., Fig. 3", ours, sure(gap(one, other))))
    for way, player, rival in (("marginal", "temp", "cosyear"), ("causal", "cosyear", "temp")):
        one, other = (phi[way][:, bike.PLAYERS.names.index(name)].abs() for name in (player, rival))
        ours = f"{number(one.mean().item())} against {number(other.mean().item())} bicycles"
        why = "in their data two temperatures share the value that one has here"
        text = f"{way} values are larger for {player} than for {rival}"
        made.append(Claim(text, "Heskes et al., Fig. 3", ours, sure(gap(one, other)), why))
    for player, month, sign in (("cosyear", "October", 1), ("temp", "December", -1)):
        (a, e), (b, f) = (between_days(found, way, player) for way in ("causal", "marginal"))
        text = f"causal values of {player} favour {month} of the two days more than marginal ones"
        ours = f"by {cell((sign * a, e))} against {cell((sign * b, f or None))} bicycles"
        holds = sure((sign * (a - b), (e**2 + f**2) ** 0.5))
        made.append(Claim(text, "Heskes et al., Fig. 4", ours, holds))
    return made


def tables(found: Found) -> list[Table]:
    phi = {name: torch.tensor(one) for name, one in found["phi"].items()}
    lines: list[list[Any]] = [["R² of the model on the days explained", found["r2"]]]
    for k, day in enumerate((OCTOBER, DECEMBER)):
        lines += [[f"bicycles predicted for {day}", found["prediction"][k]]]
        lines += [[f"bicycles rented on {day}", found["rented"][k]]]
    for how, empirical in (("0.1", "empirical"), ("by AICc", AICC)):
        three = [phi[way] for way in ("Gaussian", "copula", empirical)]
        least = min(share_apart(phi["marginal"], one) for one in three)
        said = f"Gaussian, copula and empirical values (bandwidth {how})"
        lines += [
            [f"largest share of Σ|φ| at other features, of two {said}", max(shares_apart(three))]
        ]
        lines += [[f"smallest share of Σ|φ| at other features, of marginal and {said}", least]]
    twins = [torch.tensor(found["standard_error"][way]) for way in (WAYS[4], WAYS[6])]
    noise = (2 / torch.pi) ** 0.5 * twins[0].hypot(twins[1]).sum(1).mean().item() / 2
    lines += [
        ["bicycles at other features by draws alone, asymmetric and asymmetric causal", noise]
    ]
    return [Table(["", "ours"], lines)]


figures = bike.figures
