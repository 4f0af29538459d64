"""Explanations of outliers off and on the manifold (Frye et al. 2021, Section 3.2, Fig. 3).

Twenty noisy readings of one hidden bit; outliers read its opposite in the first five (Eqs. 11-12).
An isolation forest finds them. The reason why a row is an outlier is known, so an explanation is
wrong unless these five features have the five largest Shapley values.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.papers.mixture import ROWS, SHARE
from benchmarks.papers.outliers_coalitions import (
    EVEN,
    INLIER,
    KINDS,
    LAWS,
    OUTLIER,
    Scores,
    deciles,
    distance,
    mistaken,
    scores,
)
from benchmarks.papers.outliers_figures import Rates, draw
from benchmarks.papers.outliers_forests import GAMES, OFF, ON, Effort, Found, Judged, judge
from benchmarks.papers.report import Claim, Line, Report, Table

TITLE = "Outliers are explained wrongly off the manifold"
SOURCE = "Frye et al. (2021), Section 3.2, Fig. 3"
MISJUDGED = "rows that the forest takes for the wrong kind"
# The noise of Figs. 3(e) and (f).
SHOWN = 0.05
# Told of Fig. 3(d) in the text, of the least noise and of the most.
LEAST, MOST = 0.25, 2 / 3
PAPER = {0.01: LEAST, 0.15: MOST}
# Bounds of our own for what the paper says without a number. Wrong explanations on the manifold, as
# a share of those off it, are "dramatically" fewer;
FEWER = 1 / 3
# so many inlier coalitions with the score of outliers are "fabricated" outliers, and so many agree
# with the data;
FABRICATED, AGREED = 0.1, 0.01
# and scores that are so many times as far from the data's "differ dramatically".
FARTHER = 2.0
# Forests by their number of trees, and by the scale of the noise.
Sizes = Mapping[int, Mapping[float, Judged]]
REMARKS = """
The paper does not say how its forests were set, and the share of explanations that are wrong off
the manifold depends on that more than on the noise. With scikit-learn's default, 100 trees of 256
rows each, forests differ widely from one to the next, for by chance a forest splits some features
more often than others; errors here are over forests, each with a data set of its own. With larger
forests that evens out: the quarter that the paper has at the least noise vanishes, and at the most
noise the share falls below the paper's two thirds. So no size of the forest that is tried here has
both of the paper's shares and its accuracy of 100 %.

Bounds in the claims other than "a quarter" and "two thirds" are our own, for the paper has none: a
third as many wrong explanations, a tenth and a hundredth of the coalitions, and twice the
distance.

What Fig. 3(f) says, that scores of outlier coalitions "differ dramatically" off the manifold,
depends on the law of the coalitions, which the paper does not give. In the plot here they have a
uniform share of the fifteen other features, and the claim does not hold: one coalition in sixteen
has none of the others, and the first five alone agree with each other, as in an inlier. On the
manifold they are completed to one, rightly. All outlier coalitions that have the score of an inlier
on the manifold are of this kind, and they put the scores there at a distance from the data's, too.
Coalitions that hold the first five as random orders of all twenty features meet them hardly ever
have these alone (less than two in 100,000), and there the claim holds. But most of the others are
with them then, and little is left to be spliced: distances are small, and no score is that of an
inlier, off the manifold or on it. So what is dramatic here is Fig. 3(e), which holds by both laws.

Tried by hand, with fewer outliers: settings of the forest decide more than the noise. Off the
manifold, trees of 64 rows had more than four fifths wrong at the least noise and at the most, trees
of 1,024 rows less than a tenth and three fifths. The surrogate at σ = 0.15 gets better with longer
training: after 60 epochs it had two wrong of 20, after eight nine.
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
        learned: those of `sigmas` at which a surrogate and a VAE are learned, too.
        epochs: of their trainings.
        seed: of the first forest and its data; the others have the next ones.

    Raises:
        ValueError: settings that cannot be run as they are.
    """
    _check_noise(sigmas, learned)
    _check_counts(forests=forests, orders=orders, draws=draws, epochs=epochs)
    _check_forests(trees, more_trees, outliers)
    efforts = [Effort(outliers, orders, draws, seed + number) for number in range(forests)]
    sizes: dict[int, dict[float, Judged]] = {trees: {}}
    for sigma in sigmas:
        sizes[trees][sigma] = judge(sigma, trees, efforts, epochs if sigma in learned else None)
    for count in more_trees:
        ends = sorted({min(sigmas), max(sigmas)})
        sizes[count] = {sigma: judge(sigma, count, efforts) for sigma in ends}
    shown = min(sigmas, key=lambda sigma: abs(sigma - SHOWN))
    found = Found(shown, trees, efforts[0])
    return _report(sizes, {law: scores(found, law) for law in LAWS}, shown)


def _check_noise(sigmas: Sequence[float], learned: Sequence[float]) -> None:
    if not sigmas or min(sigmas) <= 0:
        raise ValueError(
            f"Expected `sigmas` to be scales of the noise, at least one and all above 0, but got "
            f"{list(sigmas)}."
        )
    unknown = [sigma for sigma in learned if sigma not in sigmas]
    if unknown:
        raise ValueError(
            f"Expected `learned` to be some of `sigmas`, {list(sigmas)}, but got {unknown}; add "
            f"them to `sigmas`, or leave them out of `learned`."
        )


def _check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"Expected `{name}` to be 1 or more but got {count}.")


def _check_forests(trees: int, more_trees: Sequence[int], outliers: int) -> None:
    _check_counts(trees=trees, outliers=outliers, more_trees=min(more_trees, default=1))
    if len({trees, *more_trees}) <= len(more_trees):
        raise ValueError(
            f"Expected `more_trees` to be different numbers, and others than `trees`, {trees}, but "
            f"got {list(more_trees)}."
        )
    every = round(SHARE * ROWS)
    if outliers > every:
        raise ValueError(
            f"Expected `outliers` to be at most {every}, as many as a data set has, but got "
            f"{outliers}; for more of them, set more `forests`."
        )


def _report(sizes: Sizes, outputs: Mapping[str, Scores], shown: float) -> Report:
    """Of forests of several sizes, the first of them in detail, and of scores by law."""
    rates = _rates(next(iter(sizes.values())))
    return Report(
        TITLE,
        SOURCE,
        [*_lines_of_noise(sizes), *_lines_of_coalitions(outputs, shown)],
        claims(sizes, outputs),
        [_table_of_noise(sizes), _table_of_coalitions(outputs, shown)],
        REMARKS,
        draw(rates, outputs[EVEN], shown),
        more={
            "share of wrong explanations of each forest": _plain(sizes),
            "deciles of the scores of coalitions": {
                law: deciles(found) for law, found in outputs.items()
            },
        },
        errors="standard errors over forests",
    )


def claims(sizes: Sizes, outputs: Mapping[str, Scores]) -> list[Claim]:
    """Of the paper: by the shares that are wrong off and on the manifold, and by scores."""
    trees, by_noise = next(iter(sizes.items()))
    rates = _rates(by_noise)
    off, on = ({sigma: statistics.mean(w) for sigma, w in rates[game].items()} for game in GAMES)
    return [
        Claim(
            f"every forest of {trees} trees tells all outliers from all inliers",
            not any(judged.misjudged for judged in by_noise.values()),
        ),
        *(claim for count, found in sizes.items() for claim in _of_size(count, found)),
        Claim(
            f"with {trees} trees, at most a third as many explanations are wrong on the manifold "
            f"as off the manifold, at every noise",
            all(on[sigma] <= FEWER * off[sigma] for sigma in off),
        ),
        *(claim for law, found in outputs.items() for claim in _of_law(law, found)),
    ]


def _of_size(trees: int, found: Mapping[float, Judged]) -> list[Claim]:
    off = {sigma: statistics.mean(judged.wrong[OFF]) for sigma, judged in found.items()}
    least, most = min(off), max(off)
    return [
        Claim(
            f"with {trees} trees, at least a quarter of the explanations off the manifold are "
            f"wrong at the least noise, σ = {least}",
            off[least] >= LEAST,
        ),
        Claim(
            f"with {trees} trees, at least two thirds of the explanations off the manifold are "
            f"wrong at the most noise, σ = {most}",
            off[most] >= MOST,
        ),
    ]


def _of_law(law: str, found: Scores) -> list[Claim]:
    made = {game: mistaken(found, INLIER, game) for game in GAMES}
    apart = {game: distance(found, OUTLIER, game) for game in GAMES}
    return [
        Claim(
            f"off the manifold, the model takes a tenth or more of the inlier coalitions for "
            f"outliers, {law}",
            made[OFF] >= FABRICATED,
        ),
        Claim(
            f"on the manifold, the model takes less than a hundredth of the inlier coalitions for "
            f"outliers, {law}",
            made[ON] < AGREED,
        ),
        Claim(
            f"scores of outlier coalitions are more than twice as far from those of actual "
            f"outliers off the manifold as on the manifold, {law}",
            apart[OFF] > FARTHER * apart[ON],
        ),
    ]


def _lines_of_noise(sizes: Sizes) -> list[Line]:
    lines = []
    for trees, found in sizes.items():
        misjudged = max(judged.misjudged for judged in found.values())
        lines.append(Line(f"{MISJUDGED}, {trees} trees, at most", misjudged, paper=0))
        for sigma, paper in PAPER.items():
            if sigma in found:
                what = f"share of wrong explanations off the manifold, {trees} trees, σ = {sigma}"
                share, error = _mean(found[sigma].wrong[OFF])
                lines.append(Line(what, share, error, paper))
    return lines


def _lines_of_coalitions(outputs: Mapping[str, Scores], shown: float) -> list[Line]:
    return [
        Line(
            f"Wasserstein distance of the scores of outlier coalitions from those of actual "
            f"outliers, {game}, {law}, σ = {shown}",
            distance(found, OUTLIER, game),
        )
        for law, found in outputs.items()
        for game in GAMES
    ]


def _table_of_noise(sizes: Sizes) -> Table:
    names = list(_rates(next(iter(sizes.values()))))
    rows = [
        [trees, sigma, judged.misjudged, *(_mean(judged.wrong.get(name)) for name in names)]
        for trees, found in sizes.items()
        for sigma, judged in found.items()
    ]
    columns = ["share of wrong explanations: trees of the forest", "σ", MISJUDGED, *names]
    return Table(columns, rows)


def _table_of_coalitions(outputs: Mapping[str, Scores], shown: float) -> Table:
    rows = [
        [f"{kind} coalitions, {law}", *(mistaken(found, kind, game) for game in GAMES)]
        for law, found in outputs.items()
        for kind in KINDS
    ]
    return Table([f"share with the score of the other kind, σ = {shown}", *GAMES], rows)


def _rates(found: Mapping[float, Judged]) -> Rates:
    """By method, of forests of one size; some methods are not there at every noise."""
    rates: dict[str, dict[float, Sequence[float]]] = {}
    for sigma, judged in found.items():
        for name, wrong in judged.wrong.items():
            rates.setdefault(name, {})[sigma] = wrong
    return rates


def _mean(wrong: Sequence[float] | None) -> Any:
    """Over the forests, with its standard error."""
    if wrong is None:
        return None
    error = statistics.stdev(wrong) / len(wrong) ** 0.5 if len(wrong) > 1 else None
    return statistics.mean(wrong), error


def _plain(sizes: Sizes) -> dict[str, Any]:
    """Keys of a JSON file are words."""
    return {
        f"{trees} trees": {f"σ = {sigma}": judged.wrong for sigma, judged in found.items()}
        for trees, found in sizes.items()
    }
