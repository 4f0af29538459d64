"""Shapley compositions of an iris and of two digits (Noé et al. 2024, Section 6).

Three classifiers of the same kind, an SVM whose probabilities come from pairwise coupling, on 3, 4
and 10 classes. All values are exact: over all coalitions, and all training rows as donors.
"""

from collections.abc import Callable, Sequence
from statistics import mean, stdev
from typing import Any

import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

import manifold_shap as ms
from benchmarks.papers.composition_examples import Example, digits, iris
from benchmarks.papers.report import Claim, Line, Report, Table

TITLE = "Shapley compositions of an iris and of two digits"
SOURCE = "Noé et al. (2024), Section 6"
# Section 6.3, of the iris of Fig. 2: sepal length and width, petal length and width.
SEPAL_LENGTH, SEPAL_WIDTH, PETAL_LENGTH, PETAL_WIDTH = range(4)
VERSICOLOR, VIRGINICA = 1, 2
PAPER = {
    "norm of petal width": 1.27,
    "norm of petal length": 1.02,
    "norm of sepal width": 0.36,
    "norm of sepal length": 0.28,
    "cosine of petal length and petal width": 0.99,
    "cosine of sepal width and petal width": 0.45,
    "projection of petal length on virginica": 0.01,
}
# Any tree that has the two balances of Fig. 7 gives its plane: 0 against 6, and 1 against 7 and 8.
FIGURE_7: Any = [[["0", "6"], ["1", ["7", "8"]]], [["2", "3"], ["4", ["5", "9"]]]]
# Of these calibrations sampling is compared with exact values.
SAMPLED = 5
# Ours: the part of seeds at which what the paper has once should be so; the largest cosine of what
# it calls almost orthogonal; and the largest change of a probability that looks level in Fig. 10.
MOST_SEEDS, ORTHOGONAL, LEVEL = 0.9, 0.1, 0.02
REMARKS = """
The authors' published code scales features by all irises, and so do we. It draws samples, the paper
gives neither their number nor the seed of the calibration; exact values are the limit of many. By
1,000 samples, of one donor each, figures stray as the table shows, by more than all of the paper's
differ from the exact means: of 0.55 for the cosine of the sepal and petal widths, where the paper
has 0.45, the deviation is 0.2. Whether features are scaled by all irises or by training rows hardly
matters. At one seed of thirty the base is in the region of versicolor before any feature is known.

The paper has one seed and no thresholds. That a claim has to hold at every seed, or at nine of ten,
that almost orthogonal is a cosine below 0.1, and level a change below 0.02, is our reading.

Fig. 7 has two balances, 0 against 6, and 1 against 7 and 8. Ours are these two as well; the rest of
the tree of Fig. 6 does not show in that plane.
"""


def run(seeds: int, samples: int) -> Report:
    """Norms, angles and projections of the iris beside the paper's, and the figures.

    Args:
        seeds: of the SVM's calibration, two or more.
        samples: of the paper's estimator, beside exact values.

    Raises:
        ValueError: fewer than two seeds.
    """
    if seeds < 2:
        raise ValueError(
            f"Expected `seeds` to be 2 or more, by which deviations are known, but got {seeds}."
        )
    flower, by_training = iris("all"), iris("training")
    flowers = [flower.explain(seed) for seed in range(seeds)]
    four, ten = digits(4).explain(0), digits(10).explain(0)
    told = {
        "exact": _spreads(flowers),
        f"by {samples:,} samples": _spreads(
            [flower.sample(seed, samples) for seed in range(seeds)]
        ),
        "exact, scaled by training rows": _spreads([by_training.explain(k) for k in range(seeds)]),
    }
    lines = [Line(what, *told["exact"][what], paper) for what, paper in PAPER.items()]
    lines += [
        Line(f"largest gap of {name} to exact values of the iris, in standard errors", gap)
        for name, gap in sampling_gaps(flower, range(min(seeds, SAMPLED))).items()
    ]
    rows = [[what, paper, *(way[what] for way in told.values())] for what, paper in PAPER.items()]
    return Report(
        TITLE,
        SOURCE,
        lines,
        claims(flowers, four, ten),
        [Table(["of the iris", "paper", *told], rows)],
        REMARKS,
        ms.plots.ilr_plane(flowers[0]),
        errors=f"standard deviations over {seeds} seeds of the SVM's calibration",
        figures=_figures(flowers[0], four, ten),
    )


def summary(explanation: ms.Explanation) -> dict[str, float]:
    """What the paper tells of its iris."""
    norms, cosines = explanation.norms()[0].tolist(), explanation.cosines()[0]
    on_virginica = explanation.projections()[0, PETAL_LENGTH, VIRGINICA].item()
    figures = (
        *(norms[k] for k in (PETAL_WIDTH, PETAL_LENGTH, SEPAL_WIDTH, SEPAL_LENGTH)),
        cosines[PETAL_LENGTH, PETAL_WIDTH].item(),
        cosines[SEPAL_WIDTH, PETAL_WIDTH].item(),
        on_virginica,
    )
    return dict(zip(PAPER, figures, strict=True))


def _spreads(found: Sequence[ms.Explanation]) -> dict[str, tuple[float, float]]:
    """Means and standard deviations."""
    told = [summary(one) for one in found]
    columns = {what: [one[what] for one in told] for what in PAPER}
    return {what: (mean(column), stdev(column)) for what, column in columns.items()}


def sampling_gaps(example: Example, seeds: Sequence[int]) -> dict[str, float]:
    """Largest |phi - exact| in standard errors: all donors count, only orders are drawn."""
    samplers: dict[str, Callable[[Any, int], ms.Explanation]] = {
        "permutations": lambda value, seed: ms.permutation_shapley(
            value, example.x, permutations=22, seed=seed
        ),
        "adaptive sampling": lambda value, seed: ms.adaptive_shapley(
            value, example.x, samples=200, seed=seed
        ),
    }
    gaps = dict.fromkeys(samplers, 0.0)
    for seed in seeds:
        value, exact = example.value(seed), example.explain(seed)
        for name, sample in samplers.items():
            found = sample(value, seed)
            gap = ((found.phi - exact.phi).abs() / found.standard_error).max().item()
            gaps[name] = max(gaps[name], gap)
    return gaps


def path(explanation: ms.Explanation) -> Float[Tensor, "states classes"]:
    """Probabilities at the base and after each feature, the largest norm first."""
    phi = explanation.phi[0].double()
    start = explanation.base.double()[None]
    order = phi.norm(dim=1).argsort(descending=True)
    states = torch.cat((start, start + phi[order].cumsum(0)))
    return ms.simplex.ilr_inv(states, explanation.basis).exp()


def claims(
    flowers: Sequence[ms.Explanation], four: ms.Explanation, ten: ms.Explanation
) -> list[Claim]:
    """Of the text, and of what Figs. 9 and 10 show.

    Args:
        flowers: the iris, at several seeds.
        four: the digit of four classes.
        ten: the digit of ten.
    """
    return [*_of_flowers(flowers), *_of_digits(four, ten)]


def _of_flowers(flowers: Sequence[ms.Explanation]) -> list[Claim]:
    norms = [list(summary(one).values())[:4] for one in flowers]
    regions = [path(one).argmax(1).tolist() for one in flowers]
    crossed = mean(went[0] != VERSICOLOR and went[2] == VERSICOLOR for went in regions)
    return [
        Claim(
            "the norms of the iris' features are ranked as in the paper (Section 6.3), at every "
            "seed",
            all(found == sorted(found, reverse=True) for found in norms),
        ),
        Claim(
            "petals move the base of the iris into the region of versicolor (Fig. 2), at "
            f"{MOST_SEEDS:.0%} of the seeds or more",
            crossed >= MOST_SEEDS,
        ),
        Claim(
            "petal length of the iris is almost orthogonal to virginica (Section 6.1): the cosine "
            f"is below {ORTHOGONAL} in size, at every seed",
            all(abs(_cosine_on_virginica(one)) < ORTHOGONAL for one in flowers),
        ),
    ]


def _of_digits(four: ms.Explanation, ten: ms.Explanation) -> list[Claim]:
    parts, strongest = ten.compositions()[0], int(ten.norms()[0].argmax())
    steps = path(ten).diff(dim=0)
    of_ten = "of ten digits,"
    return [
        Claim(
            "the digit of four classes is told to be a 0 (Fig. 4)",
            int(path(four)[-1].argmax()) == 0,
        ),
        Claim(
            f"{of_ten} the first component has its largest part at the 2 (Fig. 9)",
            int(parts[0].argmax()) == 2,
        ),
        Claim(
            f"{of_ten} the first component has the largest norm, and raises the probability of the "
            "2 the most (Fig. 10)",
            strongest == 0 and int(steps[:, 2].argmax()) == 0,
        ),
        Claim(
            f"{of_ten} the component of the largest norm moves the probability of the 3 by less "
            f"than {LEVEL} (Fig. 10)",
            abs(steps[0, 3].item()) < LEVEL,
        ),
        Claim(
            f"{of_ten} the component of the second largest norm raises the probability of the 2, "
            "and lowers all others (Fig. 10)",
            (steps[1] > 0).nonzero().flatten().tolist() == [2],
        ),
    ]


def _cosine_on_virginica(explanation: ms.Explanation) -> float:
    """Of petal length: class-compositions have norm one."""
    along = explanation.projections()[0, PETAL_LENGTH, VIRGINICA]
    return (along / explanation.norms()[0, PETAL_LENGTH]).item()


def _figures(
    flower: ms.Explanation, four: ms.Explanation, ten: ms.Explanation
) -> dict[str, Figure]:
    """By their numbers in the paper; the report's own is Fig. 2."""
    balances = ["0 : 6", "1 : 7+8"]
    return {
        "figure_4": ms.plots.ilr_space(four),
        "figure_7": ms.plots.ilr_plane(ten.in_basis(FIGURE_7), balances=balances),
        "figure_8": ms.plots.compositions(flower),
        "figure_9": ms.plots.compositions(ten),
        "figure_10": ms.plots.parallel_coordinates(ten),
    }
