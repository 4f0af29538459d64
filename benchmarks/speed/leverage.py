"""The benchmark of LeverageSHAP (Musco & Witter 2025): error for as many evaluations per player.

Needs `.[peers]` and xgboost. Every seed explains another row, from as many values of the game on
all sides. A figure is |phi - exact| / |exact|, a mean over seeds. Iris, diabetes, census,
independent and correlated have the model of that paper, 100 boosted trees of depth 4, and the mean
of a column for players that are absent; more games are a random forest on census, and one on
diabetes whose value function draws completions given x_S. LeverageSHAP and RegressionMSR are
written here, by the papers. `auto` is worse than the best of ours where it is so by more than a
tenth and two standard errors of the difference over seeds. Parts that are measured are kept in a
folder, and not run again.
"""

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

import manifold_shap as ms
from benchmarks.plots import Panel, curves
from benchmarks.report import Claim, Found, Table, kept, records, spread
from benchmarks.support import coalition_games
from benchmarks.support.coalition_games import Explain, Games, Values
from benchmarks.support.packages import require

TITLE = "LeverageSHAP's benchmark"
SOURCE = "Musco & Witter (2025); Witter, Liu & Musco (2025)"
ERRORS = "standard errors over seeds"
QUICK = {
    "data": ["diabetes"],
    "seeds": [3, 3, 3],
    "budgets": [5, 20],
    "parts": "runs/leverage_quick",
}
PAPER = ("iris", "diabetes", "census", "independent", "correlated")
MORE = ("forest", "drawn")
LEVERAGE = "LeverageSHAP"
OURS: dict[str, Callable[..., ms.Explanation]] = {
    "ours, permutation": ms.permutation_shapley,
    "ours, kernel": ms.kernel_shapley,
    "ours, odd": ms.odd_shapley,
}


def _kernel_of_shap(values: Values, players: int, budget: int, seed: int) -> np.ndarray:
    import shap

    np.random.seed(seed)
    kernel = shap.KernelExplainer(lambda mask: values(mask > 0.5), np.zeros((1, players)))
    return kernel.shap_values(np.ones(players), nsamples=budget, l1_reg=0, silent=True)


def _of_shapiq(name: str, **settings: Any) -> Explain:
    def explain(values: Values, players: int, budget: int, seed: int) -> np.ndarray:
        import shapiq

        made = getattr(shapiq, name)(n=players, random_state=seed, **settings)
        return made.approximate(budget, values).get_n_order_values(1)

    return explain


PEERS: dict[str, Explain] = {
    LEVERAGE: coalition_games.leverage_shap,
    "RegressionMSR": coalition_games.regression_msr,
    "shap, kernel": _kernel_of_shap,
    "shapiq, kernel": _of_shapiq("KernelSHAP", pairing_trick=True),
    "shapiq, permutation": _of_shapiq("PermutationSamplingSV"),
    "shapiq, kADD": _of_shapiq("kADDSHAP", max_order=2),
}
# This takes seconds for a row of more players.
FEW_PLAYERS = {"shapiq, kADD": 20}


def run(
    data: Sequence[str] = (*PAPER, *MORE),  # some of these
    seeds: Sequence[int] = (100, 40, 20),  # rows and seeds for up to 10, up to 20, more players
    budgets: Sequence[int] = (5, 10, 20, 40, 80, 160),  # evaluations per player
    parts: str = "runs/leverage",  # folder of what is measured for each data set
) -> dict[str, Any]:
    """Errors of all sides on all data sets."""
    require("peers", "shap", "shapiq", "xgboost")
    found: dict[str, Any] = {}
    for name in data:
        settings = {"seeds": list(seeds), "budgets": list(budgets)}
        path, make = Path(parts, f"{name}.json"), partial(measure, name, **settings)
        found[name] = kept(path, settings, make)
    return found


def games(name: str, rows: int) -> Games:
    """Of a data set; see above."""
    if name == "drawn":
        return coalition_games.drawn_games(rows)
    if name == "forest":
        from sklearn.ensemble import RandomForestRegressor

        forest = RandomForestRegressor(20, max_depth=12, random_state=0)
        return coalition_games.tree_games("census", forest, rows)
    import xgboost

    model = xgboost.XGBRegressor(n_estimators=100, max_depth=4, n_jobs=1)
    return coalition_games.tree_games(name, model, rows)


def measure(name: str, seeds: Sequence[int], budgets: Sequence[int]) -> dict[str, Any]:
    """Errors of all sides on one data set."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        played = games(name, max(seeds))
        players = played.phi.shape[1]
        several = seeds[(players > 10) + (players > 20)]
        sides: dict[str, list[dict[str, Any]]] = {}
        judged = []
        for each in budgets:
            budget = each * players // 2 * 2
            found = _ours(played, budget, several)
            choice = found.pop("choice")
            if name != "drawn":  # Peers know no value functions that draw.
                for side, explain in PEERS.items():
                    if players <= FEW_PLAYERS.get(side, players):
                        found[side] = _by_peer(explain, played, budget, several)
            for side, (errors, seconds) in found.items():
                if errors:
                    error, standard = spread(errors, of_mean=True)
                    one = {"budget": each, "error": error, "standard_error": standard}
                    square = mean(e * e for e in errors)
                    one |= {"square": square, "seconds": seconds, "seeds": len(errors)}
                    sides.setdefault(side, []).append(one)
            judged.append({"budget": each, "choice": choice, **excess(found)})
    return {"players": players, "sides": sides, "auto": judged}


def _ours(played: Games, budget: int, seeds: int) -> dict[str, Any]:
    """Errors and seconds of each estimator; and what `auto` chose."""
    found: dict[str, Any] = {"ours, auto": _by_estimator(ms.auto_shapley, played, budget, seeds)}
    *_, made_by = found["ours, auto"]
    for side, estimator in OURS.items():
        if side == f"ours, {made_by['estimator']}":  # The same run.
            found[side] = found["ours, auto"]
        else:
            found[side] = _by_estimator(estimator, played, budget, seeds)
    return {side: one[:2] for side, one in found.items()} | {"choice": made_by["auto"]}


def _by_estimator(
    estimator: Callable[..., ms.Explanation], played: Games, budget: int, seeds: int
) -> tuple[list[float], float, dict[str, Any]]:
    errors: list[float] = []
    made_by: dict[str, Any] = {}
    start = time.perf_counter()
    for seed in range(seeds):
        try:
            one = estimator(played.value, played.x[[seed]], evaluations=budget, seed=seed)
        except ValueError:  # Too few evaluations for this one.
            break
        made_by = dict(one.made_by)
        errors.append(relative(one.phi[0, :, 0].double(), played.phi[seed]))
    return errors, (time.perf_counter() - start) / seeds, made_by


def _by_peer(explain: Explain, played: Games, budget: int, seeds: int) -> tuple[list[float], float]:
    players, errors, start = played.phi.shape[1], [], time.perf_counter()
    for seed in range(seeds):
        try:
            phi = explain(played.row(seed), players, budget, seed)
        except (ValueError, IndexError):  # Too few values, or more than there are coalitions.
            break
        errors.append(relative(torch.as_tensor(np.asarray(phi)).double(), played.phi[seed]))
    return errors, (time.perf_counter() - start) / seeds


def relative(phi: torch.Tensor, exact: torch.Tensor) -> float:
    return float((phi - exact).norm() / exact.norm())


def excess(found: Mapping[str, tuple[list[float], float]]) -> dict[str, Any]:
    """How much worse `auto` is than the best of ours, and whether beyond a tenth and errors."""
    auto = np.array(found["ours, auto"][0])
    compared: list[dict[str, Any]] = []
    for side in OURS:
        if errors := found[side][0]:
            beyond, standard = spread((auto - 1.1 * np.array(errors)).tolist(), of_mean=True)
            ratio = float(auto.mean()) / max(mean(errors), 1e-30)
            worse = beyond > 2 * (standard or 0.0)
            compared.append({"ratio": ratio, "best": side, "worse": worse})
    best = max(compared, key=lambda one: one["ratio"])
    return best | {"worse": any(one["worse"] for one in compared)}


def against(entry: Mapping[str, Any], side: str, other: str, what: str) -> dict[int, float]:
    """Error over that of another side, by budget, where coalitions are sampled."""
    by = {one["budget"]: one[what] for one in entry["sides"].get(other, [])}
    return {
        one["budget"]: one[what] / by[one["budget"]]
        for one in entry["sides"].get(side, [])
        if one["budget"] in by and not whole(entry, one["budget"])
    }


def whole(entry: Mapping[str, Any], budget: int) -> bool:
    """Whether so many evaluations are those of all coalitions: errors are of rounding."""
    return budget * entry["players"] >= 2 ** entry["players"] - 2


def claims(found: Found) -> list[Claim]:
    told = []
    for name in (one for one in PAPER if one in found):
        ratios = against(found[name], "ours, auto", LEVERAGE, "error")
        average = math.exp(mean(map(math.log, ratios.values()))) if ratios else None
        ours = "both exact" if average is None else f"{average:.3f}"
        text = f"{name}: error of `auto` over LeverageSHAP's, mean over budgets, at most 1/2.6"
        told.append(
            Claim(text, "RegressionMSR: 1/2.6", ours, average is None or average <= 1 / 2.6)
        )
    worse = [
        f"{name}, {one['budget']}: {one['ratio']:.2f} times {one['best']}"
        for name, entry in found.items()
        for one in entry["auto"]
        if one["worse"] and not whole(entry, one["budget"])
    ]
    text = "`auto` is nowhere a tenth worse than the best of ours, beyond two standard errors"
    return [*told, Claim(text, "", "; ".join(worse) or "nowhere", not worse)]


def tables(found: Found) -> list[Table]:
    ratios = {
        name: {str(k): one for k, one in against(entry, "ours, auto", LEVERAGE, "error").items()}
        for name, entry in found.items()
        if LEVERAGE in entry["sides"]
    }
    return [records("error of auto over LeverageSHAP's; evaluations per player", ratios)]


def figures(found: Found) -> dict[str, Figure]:
    """Error of `auto` and of the peers against budget; exact values are left out."""
    panels = []
    for name, entry in found.items():
        drawn = {
            side: [
                (one["budget"], one["error"]) for one in points if not whole(entry, one["budget"])
            ]
            for side, points in entry["sides"].items()
            if side not in OURS
        }
        drawn = {side: points for side, points in drawn.items() if points}
        if len(drawn) > 1:
            title = f"{name}, {entry['players']} players"
            panels.append(Panel(title, "evaluations per player", "relative error", drawn))
    return {"": curves(panels)} if panels else {}
