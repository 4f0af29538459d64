"""Explanations of outliers off and on the manifold (Frye et al. 2021, Section 3.2, Fig. 3).

Twenty noisy readings of one hidden bit; outliers read its opposite in the first five (Eqs. 11-12).
An isolation forest finds them. The reason why a row is an outlier is known, so an explanation is
wrong unless these five features have the five largest Shapley values.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from sklearn.ensemble import IsolationForest
from torch import Tensor

import manifold_shap as ms
from benchmarks.papers.mixture import BROKEN, FEATURES, SHARE, Mixture, TrueConditional
from benchmarks.papers.report import Claim, Line, Report, Table
from manifold_shap.plots import style

MISJUDGED = "rows that the forest takes for the wrong kind"
KINDS = ("inlier", "outlier")
DATA = "#222222"
GAMES = ("off manifold", "on manifold")
# Noise to the share of wrong explanations of each forest.
Rates = dict[float, list[float]]
# The noise of Figs. 3(e) and (f).
SHOWN = 0.05
TITLE = "Outliers are explained wrongly off the manifold"
SOURCE = "Frye et al. (2021), Section 3.2, Fig. 3"
# Told of Fig. 3(d) in the text.
PAPER = {0.01: 0.25, 0.15: 2 / 3}
REMARKS = """
The paper does not say how its forests were set, and the share of explanations that are wrong off
the manifold depends on that as much as on the noise. With scikit-learn's default, 100 trees of 256
rows each, forests differ from one to the next: at σ = 0.01 three of them had 0.24, 0.38 and 0.88
(50 outliers each), for by chance a forest splits some features more often than others. The paper's
0.25 lies within that range; the errors here are over forests, each with a data set of its own. At
σ = 0.15 the same three had 0.84 to 0.90 and misjudged 2 to 14 of the 10,000 rows. With 200 trees
instead (seed 0) it was 0.60 off and 0.12 on the manifold, with no row misjudged: closer to the
paper's two thirds at an accuracy of 100 %, but at σ = 0.01 it was 0.08. The second table has larger
forests.

Tried at seed 0 for comparison, off and on the manifold, σ = 0.01 and 0.15: the default 0.38 and 0,
0.90 and 0.24; trees of 1,024 rows 0.08 and 0, 0.60 and 0.04; trees of 64 rows 0.98 and 0.10, 0.86
and 0.52; a forest fitted to inliers alone 0.94 and 0.24, 0.96 and 0.60, which misses the outliers;
the decision explained instead of the score 0.38 and 0, 0.80 and 0.08. `contamination` moves the
threshold alone, and so no explanation of the score. More samples change little at σ = 0.15 (256 and
1,024 orders with 8 draws: 0.93 and 0.23 both, of 30 outliers), but few of them make explanations
on the manifold wrong that are not: 64 orders with 4 draws had 0.17, 0.27 and 0.53 at σ = 0.01, 0.05
and 0.15.

The surrogate and the VAE are learned from the 10,000 rows alone, of which 100 are outliers, in 8
epochs. That is too short for the surrogate at σ = 0.15: of 20 outliers of the first forest it
explained 9 wrongly then, 5 after 30 epochs and 2 after 60.
"""


def run(
    sigmas: Sequence[float],
    trees: int,
    more_trees: Sequence[int],
    forests: int,
    outliers: int,
    orders: int,
    draws: int,
    learned: Sequence[float],
    epochs: int,
    seed: int,
) -> Report:
    """Error rates of explanations for each scale of the noise.

    Args:
        sigmas: scales of the noise.
        trees: of each forest.
        more_trees: of further forests, at the least and at the largest noise.
        forests: how many of each kind, each with a data set of its own.
        outliers: how many to explain with each.
        orders: of the players, with their reverses, for each explanation.
        draws: completions of a coalition.
        learned: scales at which a surrogate and a VAE are learned, too.
        epochs: of their trainings.
        seed: of the first forest and its data; the others have the next ones.
    """
    efforts = [Effort(outliers, orders, draws, seed + number) for number in range(forests)]
    judged: dict[float, int] = {}
    rates: dict[str, Rates] = {}
    for sigma in sigmas:
        found = [Found(sigma, trees, effort) for effort in efforts]
        judged[sigma] = max(forest.misjudged for forest in found)
        every = [
            {**forest.values, **(_learned(forest, epochs) if sigma in learned else {})}
            for forest in found
        ]
        for name in every[0]:
            wrong = [f.wrong(values[name]) for f, values in zip(found, every, strict=True)]
            rates.setdefault(name, {})[sigma] = wrong
            print(f"sigma {sigma}: {name} {wrong}", flush=True)
    shown = min(sigmas, key=lambda sigma: abs(sigma - SHOWN))
    coalitions = _histograms(Found(shown, trees, efforts[0]))
    sizes = _by_trees((min(sigmas), max(sigmas)), more_trees, efforts)
    return _report(judged, rates, sizes, coalitions)


@dataclass(frozen=True)
class Effort:
    """What goes into explanations: see `run`."""

    outliers: int
    orders: int
    draws: int
    seed: int


class Found:
    """A data set, its forest, and the two games of the paper.

    Attributes:
        sigma: scale of the noise.
        x: rows of the data set.
        is_outlier: which of them are outliers.
        forest: fitted to them.
        misjudged: rows that it takes for the wrong kind.
        values: games of its score, off and on the manifold.
    """

    def __init__(self, sigma: float, trees: int, effort: Effort) -> None:
        mixture = Mixture(sigma)
        self.sigma, self.effort = sigma, effort
        self.x, self.is_outlier = mixture.draw(effort.seed)
        self.forest = IsolationForest(
            n_estimators=trees, contamination=SHARE, random_state=effort.seed
        )
        said = torch.from_numpy(self.forest.fit_predict(self.x.numpy()) == -1)
        self.misjudged = int((said != self.is_outlier).sum())
        self.values = {
            "off manifold": self.imputed(ms.MarginalImputer(self.x)),
            "on manifold": self.imputed(TrueConditional(mixture, self.x)),
        }

    def imputed(self, imputer: ms.Imputer) -> ms.ImputedValue:
        model, draws = _score(self.forest), self.effort.draws
        return ms.imputed_value(model, imputer, output="identity", draws=draws)

    def wrong(self, value: ms.ValueFunction) -> float:
        """Share of outliers of which this game gives a wrong explanation."""
        x, effort = self.x[self.is_outlier][: self.effort.outliers], self.effort
        found = ms.permutation_shapley(value, x, permutations=effort.orders, seed=effort.seed)
        return error_rate(found.phi[..., 0])


def _by_trees(sigmas: Sequence[float], trees: Sequence[int], efforts: Sequence[Effort]) -> Table:
    """Error rates of forests of other sizes."""
    rows = []
    for count, sigma in product(trees, sigmas):
        found = [Found(sigma, count, effort) for effort in efforts]
        judged = max(forest.misjudged for forest in found)
        wrong = {name: [f.wrong(f.values[name]) for f in found] for name in found[0].values}
        rows.append([count, sigma, judged, *map(_mean, wrong.values())])
        print(f"{count} trees, sigma {sigma}: {wrong}", flush=True)
    return Table(["trees of the forest", "σ", MISJUDGED, *GAMES], rows)


def error_rate(phi: Float[Tensor, "rows features"]) -> float:
    """Share of rows in which the first five features do not have the five largest values."""
    right = phi[:, :BROKEN].amin(1) > phi[:, BROKEN:].amax(1)
    return 1 - right.double().mean().item()


def _score(forest: IsolationForest) -> ms.Model:
    """Positive where the forest says outlier."""

    def score(x: Tensor) -> Tensor:
        return -torch.from_numpy(forest.decision_function(x.numpy())).float()[:, None]

    return ms.Model(score, ("outlier score",), "values")


def _learned(found: Found, epochs: int) -> dict[str, ms.ValueFunction]:
    trainer = {"accelerator": "cpu"}
    settings: dict[str, Any] = {"max_epochs": epochs, "seed": found.effort.seed, "trainer": trainer}
    surrogate = ms.fit_surrogate(_score(found.forest), found.x, output="identity", **settings)
    vae = ms.fit_imputer(found.x, posterior="encoder", least_scale=0.01, **settings)
    return {"surrogate": surrogate, "VAE": found.imputed(vae)}


def _histograms(found: Found) -> dict[str, Any]:
    """Outputs of the model on coalitions that leave out the first five features, or hold them."""
    x = found.x[found.is_outlier]
    generator = torch.Generator().manual_seed(0)
    rest = torch.rand(len(x), 16, FEATURES, generator=generator)
    rest = rest < torch.rand(len(x), 16, 1, generator=generator)
    first = torch.arange(FEATURES) < BROKEN
    score, keys = _score(found.forest), torch.arange(len(x))[:, None].expand(-1, 16)
    outputs: dict[str, Any] = {"sigma": found.sigma}
    for kind, mask in {"inlier": rest & ~first, "outlier": rest | first}.items():
        actual = found.x[~found.is_outlier][:1000] if kind == "inlier" else x
        outputs[kind] = {"data": score(actual)[:, 0].tolist()}
        for name in GAMES:
            completed = found.values[name].imputer.impute(x, mask, range(1), keys).rows
            outputs[kind][name] = score(completed.flatten(0, 2))[:, 0].tolist()
    return outputs


def _report(
    judged: Mapping[float, int],
    rates: Mapping[str, Rates],
    sizes: Table,
    coalitions: Mapping[str, Any],
) -> Report:
    off, on = ({sigma: _mean(wrong)[0] for sigma, wrong in rates[name].items()} for name in GAMES)
    lines = [Line(f"{MISJUDGED}, at most", max(judged.values()), paper=0)]
    for sigma, paper in PAPER.items():
        if sigma in off:
            what = f"share of wrong explanations off the manifold, σ = {sigma}"
            share, error = _mean(rates["off manifold"][sigma])
            lines.append(Line(what, share, error, paper))
    cells = [
        [sigma, judged[sigma], *(_mean(rate.get(sigma)) for rate in rates.values())]
        for sigma in off
    ]
    lines += [
        Line(
            f"{kind} coalitions with the score of {other}s, {game}",
            _mistaken(coalitions, kind, game),
        )
        for kind, other in (KINDS, KINDS[::-1])
        for game in GAMES
    ]
    table = Table(["share of wrong explanations, σ", MISJUDGED, *rates], cells)
    claims = _claims(judged, off, on, coalitions)
    return Report(
        TITLE,
        SOURCE,
        lines,
        claims,
        [table, sizes],
        REMARKS,
        _draw(rates, coalitions),
        more={
            "share of wrong explanations of each forest": _plain(rates),
            "deciles of the outputs on coalitions": _deciles(coalitions),
        },
        errors="standard errors over forests",
    )


def _claims(
    judged: Mapping[float, int],
    off: Mapping[float, float],
    on: Mapping[float, float],
    coalitions: Mapping[str, Any],
) -> list[Claim]:
    """Of the paper, by the shares that are wrong off and on the manifold."""
    least, most = min(off), max(off)
    made = {game: _mistaken(coalitions, "inlier", game) for game in GAMES}
    return [
        Claim("every forest tells outliers from inliers", not any(judged.values())),
        Claim(
            "off the manifold, at least a quarter is wrong at the least noise", off[least] >= 0.25
        ),
        Claim(
            "off the manifold, at least two thirds are wrong at the most noise", off[most] >= 2 / 3
        ),
        Claim(
            "on the manifold, at most a third as many are wrong, at every noise",
            all(on[sigma] <= off[sigma] / 3 for sigma in off),
        ),
        Claim(
            "off the manifold, the model takes a tenth or more of inlier coalitions for outliers",
            made["off manifold"] >= 0.1,
        ),
        Claim("on the manifold, less than a hundredth", made["on manifold"] < 0.01),
    ]


def _mistaken(coalitions: Mapping[str, Any], kind: str, game: str) -> float:
    """Share of the completed coalitions that the model takes for the other kind."""
    positive = np.mean(np.array(coalitions[kind][game]) > 0).item()
    return positive if kind == "inlier" else 1 - positive


def _mean(wrong: Sequence[float] | None) -> Any:
    """Over the forests, with its standard error."""
    if wrong is None:
        return None
    error = statistics.stdev(wrong) / len(wrong) ** 0.5 if len(wrong) > 1 else None
    return statistics.mean(wrong), error


def _plain(rates: Mapping[str, Rates]) -> dict[str, Any]:
    return {
        name: {str(sigma): wrong for sigma, wrong in rate.items()} for name, rate in rates.items()
    }


def _deciles(coalitions: Mapping[str, Any]) -> dict[str, Any]:
    tenths = torch.linspace(0, 1, 11)
    return {
        kind: {
            name: torch.tensor(s).quantile(tenths).tolist() for name, s in coalitions[kind].items()
        }
        for kind in KINDS
    }


def _draw(rates: Mapping[str, Rates], coalitions: Mapping[str, Any]) -> Figure:
    """Error rates against the noise, with their range, and what the model says about coalitions."""
    figure = style.laid_out(2.8, 7.5)
    left, *right = figure.subplots(1, 3)
    scores = [s for kind in KINDS for s in coalitions[kind].values()]
    bins = np.histogram_bin_edges(np.concatenate(scores), 50)
    words: dict[str, Any] = {"fontsize": style.TEXT, "color": style.INK}
    for colour, (name, rate) in zip(style.SERIES, rates.items(), strict=False):
        mean = [statistics.mean(wrong) for wrong in rate.values()]
        left.plot(list(rate), mean, "o-", color=colour, label=name, markersize=3.5)
        for sigma, wrong in rate.items():
            left.vlines(sigma, min(wrong), max(wrong), color=colour, linewidth=0.8)
    left.set_ylim(-0.02, 1.02)
    left.set_xlabel("noise σ", **words)
    left.set_title("Share of wrong explanations", loc="left", **words)
    for axes, kind in zip(right, KINDS, strict=True):
        for colour, found in zip((DATA, *style.SERIES), coalitions[kind].values(), strict=False):
            axes.hist(found, bins, histtype="step", density=True, color=colour)
        axes.set_yticks([])
        axes.set_xlabel(f"outlier score, σ = {coalitions['sigma']}", **words)
        axes.set_title(f"Model on {kind} coalitions", loc="left", **words)
    for axes in (left, *right):
        style.strip(axes, grid="y")
    left.plot([], [], color=DATA, label="data")
    figure.legend(
        *left.get_legend_handles_labels(),
        loc="outside lower center",
        ncols=len(rates) + 1,
        frameon=False,
        fontsize=style.TEXT,
        labelcolor=style.INK,
    )
    return figure
