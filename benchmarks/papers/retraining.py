"""Ten drugs that a person took predict whether they took an eleventh. One random forest is
explained on the manifold, off it, and by TreeSHAP; beside them are 2^10 forests, one for each
coalition, whose accuracies are a game too (Eq. 10). The paper shows bars without numbers; measures
and bounds are ours. "Table" is the mean over all test rows that agree with x on S.
"""

from collections.abc import Callable
from typing import Any

import torch
from scipy.stats import spearmanr
from sklearn.ensemble import RandomForestClassifier
from torch import Tensor

import manifold_shap as ms
from benchmarks import draw
from benchmarks.papers.tree_shap import by_trees
from benchmarks.report import Claim, Figures, Found, Table, number, records
from benchmarks.support.measures import pearson
from benchmarks.support.of_paper import of_paper
from benchmarks.support.trained import by_player, shorter

TITLE = "On the manifold, a model is explained as retrained models are"
SOURCE = "Frye et al. (2021), Sections 3.1 and 4.2, Figs. 2(b) and 5"
QUICK = {"samples": 2000, "draws": 16, "trees": 20, "epochs": 5}
RETRAINED, TABLE, TREE, OFF = "model retraining", "on manifold, table", "TreeSHAP", "off manifold"
SURROGATE, VAE = "on manifold, surrogate", "on manifold, VAE"
ON = (TABLE, SURROGATE, VAE)
FARTHER = 2  # Ours: so many times as far from retraining is not agreeing with it.


def of_ranks(one: Tensor, other: Tensor) -> float:
    return float(spearmanr(one, other).statistic)


def of_the_rest(one: Tensor, other: Tensor) -> float:
    """Without the player of the largest value to retrained models."""
    rest = torch.arange(len(other)) != other.argmax()
    return pearson(one[rest], other[rest])


def distance(one: Tensor, other: Tensor) -> float:
    """Relative to the other's length."""
    return ((one - other).norm() / other.norm()).item()


MEASURES: dict[str, Callable[[Tensor, Tensor], float]] = {
    "correlation with retraining": pearson,
    "rank correlation with retraining": of_ranks,
    "correlation with retraining, without the drug of the largest value": of_the_rest,
    "distance from retraining": distance,
}
*CORRELATIONS, DISTANCE = MEASURES


def run(
    samples: int = 20_000,  # pairs of orders, in all of the test rows
    draws: int = 64,  # completions of a coalition
    trees: int = 100,  # of each retrained forest
    epochs: int | None = None,  # of the trainings; None: those of the commands
) -> dict[str, Any]:
    """Global values of one forest by five methods, and of the retrained ones."""
    trained = of_paper("drug")
    data, y = trained.data, trained.data.y_test[:samples]
    x, each, players = data.x_test[: len(y)], torch.arange(len(y)), data.players
    rows = {TREE: by_trees(trained.fitted, x)[1][each, :, y]}
    games = {
        TABLE: trained.imputed(
            ms.imputers.ExactMatchImputer(data.x_test, players), len(data.x_test)
        ),
        SURROGATE: trained.surrogate(**shorter(epochs)),
        VAE: trained.vae(draws, **shorter(epochs)),
        OFF: trained.off_manifold(draws),
    }
    explained = {name: trained.explained(game, samples) for name, game in games.items()}
    forest = RandomForestClassifier(trees, max_features=None, random_state=0)
    retrained = ms.retrained_value(forest, data.x_train, data.y_train, players=players)
    batch_size = len(y) * 2 ** len(players)
    explained[RETRAINED] = ms.exact_shapley(retrained, x, batch_size=batch_size)
    rows |= {name: one.phi.double()[each, :, y] for name, one in explained.items()}
    values = {
        name: {
            "players": list(players.names),
            "phi": phi.mean(0),
            "standard_error": phi.std(0) / len(phi) ** 0.5,
        }
        for name, phi in rows.items()
    }
    means = {name: phi.mean(0) for name, phi in rows.items()}
    target = means.pop(RETRAINED)
    tracks = {
        what: {name: measure(phi, target) for name, phi in means.items()}
        for what, measure in MEASURES.items()
    }
    return {"accuracy": trained.accuracy, "values": values, "tracking": tracks}


def tracking(found: Found, what: str) -> dict[str, float]:
    """A measure by method; stored ones may have errors beside."""
    return {
        n: one[0] if isinstance(one, list) else one for n, one in found["tracking"][what].items()
    }


def claims(found: Found) -> list[Claim]:
    made = []
    for what in CORRELATIONS:
        of = tracking(found, what)
        least, most = min(of[name] for name in ON), max(of[OFF], of[TREE])
        text = f"{what}: higher for all values on the manifold than off it and for TreeSHAP"
        made.append(Claim(text, "Fig. 2(b)", f"{least:.3g} against {most:.3g}", least > most))
    far = tracking(found, DISTANCE)
    nearest, farthest = min(far[OFF], far[TREE]), max(far[name] for name in ON)
    tree, off = (torch.tensor(found["values"][name]["phi"]) for name in (TREE, OFF))
    top, smaller = int(off.argmax()), tree < off
    leans = not smaller[top] and int(smaller.sum()) > (len(off) - 1) / 2
    return [
        *made,
        Claim(f"values off the manifold and of TreeSHAP are more than {FARTHER} times as far from "
              "those of retrained models as any on the manifold", "Fig. 2(b)",
              f"{number(nearest)} against {number(farthest)}", nearest > FARTHER * farthest),
        Claim("TreeSHAP gives the drug of the largest value more than off the manifold, and most "
              "others less", "Section 3.1", f"{number(tree[top].item())} against "
              f"{number(off[top].item())}; {int(smaller.sum())} less", leans),
    ]  # fmt: skip


def tables(found: Found) -> list[Table]:
    accuracy = Table(["accuracy of the forest (paper: 0.822)"], [[found["accuracy"]]])
    return [accuracy, records("", {what: tracking(found, what) for what in MEASURES})]


def figures(found: Found) -> Figures:
    shown = {"Fig. 2(b)": (TABLE, RETRAINED, OFF, TREE), "Fig. 5": ON}
    values = found["values"]
    panels = {t: by_player({n: values[n] for n in names}) for t, names in shown.items()}
    return {"": draw.dots(panels, "global Shapley value (probability)")}
