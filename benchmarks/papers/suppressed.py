"""A hidden dependence on sex shows on the manifold only (Frye et al. 2021, Sec. 3.1, Fig. 2a).

A census classifier is fine-tuned with a penalty on how much its output moves when the sex of a
person is replaced (Eq. 23). Its predictions stay, so it still tells the sexes apart by all else
that is correlated with sex. Off the manifold that cannot be seen.
"""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from benchmarks.plots import global_bars
from benchmarks.report import Claim, Found, Table, number
from benchmarks.support.suppression import (
    LEFT,
    PLAYER,
    classifier,
    compared,
    most_faithful,
    suppress,
)
from benchmarks.support.trained import Trained, shorter

TITLE = "A model that hides its dependence on sex"
SOURCE = "Frye et al. (2021), Section 3.1 and App. B.2, Fig. 2(a)"
QUICK = {"samples": 1000, "draws": 8, "rates": [1e-4, 1e-5], "tuning_epochs": 20, "epochs": 2}
OFF, ORIGINAL, SUPPRESSED = "off manifold", "original model", "suppressed model"
# What is left of a dependence that stays, ours.
STAYS = 0.5


def run(
    samples: int = 8000,  # pairs of orders, in all of the labelled rows
    draws: int = 32,  # completions of a coalition
    alpha: float = 3.0,  # weight of the penalty, Eq. (23)
    rates: Sequence[float] = (1e-3, 3e-4, 1e-4, 3e-5, 1e-5),  # of the fine-tuning, one is chosen
    tuning_epochs: int = 200,  # of the fine-tuning
    epochs: int | None = None,  # of surrogates and the VAE; None: those of the commands
    seed: int = 0,  # of everything
) -> dict[str, Any]:
    """Global values of the original and of the suppressed model, off and on the manifold."""
    trained = Trained("census", seed, fit=lambda x, y: classifier(x, y, seed))
    tried, networks = [], {}
    for rate in rates:
        pair = [suppress(trained, weight, rate, tuning_epochs, seed) for weight in (alpha, 0.0)]
        tried.append({"rate": rate, **compared(trained, *pair)})
        networks[rate] = pair[0]
    chosen = most_faithful(tried)
    # Of the rows alone, but for its tempering, which suits the original: one serves both.
    vae = trained.vae(draws, **shorter(epochs)).imputer
    values: dict[str, dict[str, Any]] = {}
    models = {}
    for name, model in ((ORIGINAL, trained.model), (SUPPRESSED, networks[chosen["rate"]])):
        trained.explain(model)
        above = trained.attributable(samples)
        models[name] = {"accuracy": trained.accuracy, "above chance": above}
        games = {
            OFF: trained.off_manifold(draws),
            "on manifold, VAE": trained.imputed(vae, draws),
            "on manifold, surrogate": trained.surrogate(**shorter(epochs)),
        }
        for method, game in games.items():
            values.setdefault(method, {})[name] = trained.global_values(game, samples)
    return {"models": models, "values": values, "tried": tried, "chosen": chosen}


def ratios(found: Found) -> dict[str, float]:
    """The value of the player in the suppressed model over that in the original, by method."""
    of = {
        method: [one["phi"][one["players"].index(PLAYER)] for one in models.values()]
        for method, models in found["values"].items()
    }
    return {method: after / before for method, (before, after) in of.items()}


def claims(found: Found) -> list[Claim]:
    agree, ratio = found["chosen"]["agree"], ratios(found)
    one, other = (model["accuracy"] for model in found["models"].values())
    on = {method: share for method, share in ratio.items() if method != OFF}
    stays = "; ".join(f"{method} {number(share)}" for method, share in on.items())
    near = f"off the manifold, the value of {PLAYER} is near zero: below {LEFT} of the original's"
    return [
        Claim("the models agree on at least 98 % of the test rows", "98.5 % of all rows",
              f"{100 * agree:.1f} %", agree >= 0.98),
        Claim("the models are as accurate, within one point", "the same, 0.85",
              f"{number(one)}, {number(other)}", abs(one - other) < 0.01),
        Claim(near, "Fig. 2(a)", number(ratio[OFF]), abs(ratio[OFF]) < LEFT),
        Claim(f"on the manifold, the value of {PLAYER} stays: above {STAYS} of the original's",
              "Fig. 2(a)", stays, all(share > STAYS for share in on.values())),
    ]  # fmt: skip


def tables(found: Found) -> list[Table]:
    models, chosen = found["models"], found["chosen"]
    lines: list[list[Any]] = [[f"accuracy of the {ORIGINAL}", 0.85, models[ORIGINAL]["accuracy"]]]
    lines += [
        [f"accuracy of the {SUPPRESSED}", "the same", models[SUPPRESSED]["accuracy"]],
        ["share of all rows on which they agree", 0.985, chosen["agree_all"]],
        ["learning rate of the fine-tuning", None, chosen["rate"]],
        *([f"{PLAYER}, {m}: suppressed / original", None, r] for m, r in ratios(found).items()),
    ]
    for name, model in models.items():
        lines.append([f"accuracy above chance, from the {name} alone", None, model["above chance"]])
        for method, one in found["values"].items():
            lines.append([f"sum of its values, {method}", None, sum(one[name]["phi"])])
    columns = ["learning rate of the fine-tuning", "dependence left, validation rows"]
    columns += ["agreement, validation rows", "agreement, test rows"]
    keys = ("rate", "dependence", "faithful", "agree", "agree_without")
    return [
        Table(["", "paper", "ours"], lines),
        Table([*columns, "without the penalty"], [[t[k] for k in keys] for t in found["tried"]]),
    ]


def figures(found: Found) -> dict[str, Figure]:
    return {"": global_bars(found["values"], 8.0)}
