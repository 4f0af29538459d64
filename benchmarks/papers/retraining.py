"""Values on the manifold explain the data, as a model retrained on each coalition does.

Frye et al. (2021), Section 3.1, Figs. 2(b) and 5: ten drugs that a person took tell whether they
took an eleventh. One random forest is explained on the manifold (by the table itself, by the
surrogate and by the VAE), off the manifold, and by Tree SHAP; beside them are 2^10 forests, one for
every coalition, whose accuracies are a game of their own (Eq. 10).
"""

from collections.abc import Mapping
from typing import Any

import torch
from matplotlib.figure import Figure
from sklearn.ensemble import RandomForestClassifier
from torch import Tensor

import manifold_shap as ms
from benchmarks.papers.global_figures import by_player, grouped
from benchmarks.papers.report import Claim, Line, Report
from benchmarks.papers.trained import Trained
from manifold_shap.plots import style

TITLE = "On the manifold, a model is explained as retrained models are"
SOURCE = "Frye et al. (2021), Sections 3.1 and 4.2, Figs. 2(b) and 5"
RETRAINED, TABLE = "model retraining", "on manifold, by the table"
REMARKS = """
The paper shows its values as bars and no numbers. Its claims are put here into Pearson correlations
with the values of the retrained forests, which differ little since all methods see that one drug
tells most, and into distances from them, relative to their length. The accuracy is on 377 test
rows, so its standard error is 0.02. "By the table" is the paper's empirical estimate, the mean over
all test rows that agree with x on S instead of one of them. Tree SHAP has `model_output` left at
its only choice for scikit-learn's forests, which is their probability.
"""


def run(samples: int, draws: int, trees: int, epochs: int | None, seed: int) -> Report:
    """Global values of one forest by five methods, and of the retrained ones.

    Args:
        samples: labelled rows, each with one pair of orders.
        draws: completions of a coalition.
        trees: of each retrained forest.
        epochs: of the trainings; by default those of the commands.
        seed: of everything.
    """
    shorter = {} if epochs is None else {"max_epochs": epochs}
    trained = Trained("drug", seed, fit=lambda x, y: forest(100, seed).fit(x.numpy(), y.numpy()))
    # First, since it needs a package that may not be there.
    tree = tree_shap(trained)
    trained.tabulate()
    table = ms.ExactMatchImputer(trained.data.x_test, trained.data.players)
    values = {
        TABLE: trained.imputed(table, len(trained.data.x_test)),
        "on manifold, surrogate": trained.surrogate(**shorter),
        "on manifold, VAE": trained.vae(draws, **shorter),
        "off manifold": trained.off_manifold(draws),
    }
    found = {name: trained.global_values(value, samples) for name, value in values.items()}
    found["Tree SHAP"] = tree
    found[RETRAINED] = retrained(trained, trees, seed)
    return _report(found, trained)


def forest(trees: int, seed: int) -> RandomForestClassifier:
    """Of the paper: default settings and all features at every split."""
    return RandomForestClassifier(trees, max_features=None, random_state=seed)


def retrained(trained: Trained, trees: int, seed: int) -> ms.GlobalValues:
    """Eq. (10), over all coalitions."""
    data = trained.data
    fit = forest(trees, seed)
    value = ms.retrained_value(fit, data.x_train, data.y_train, players=data.players, progress=True)
    every = len(data.x_test) * 2 ** len(data.players)
    explained = ms.exact_shapley(value, data.x_test, batch_size=every)
    return ms.global_values(explained, data.y_test)


def tree_shap(trained: Trained) -> ms.GlobalValues:
    """Path-dependent Tree SHAP of the same forest, for the true class."""
    import shap

    data = trained.data
    explainer = shap.TreeExplainer(trained.fitted, feature_perturbation="tree_path_dependent")
    x, rows = data.x_test, torch.arange(len(data.x_test))
    phi = torch.as_tensor(explainer.shap_values(x.numpy()))[rows, :, data.y_test]
    p = torch.from_numpy(trained.fitted.predict_proba(x.numpy()))[rows, data.y_test]
    base = torch.as_tensor(explainer.expected_value)[data.y_test]
    return ms.GlobalValues(
        phi=phi.mean(0),
        standard_error=phi.std(0) / len(x) ** 0.5,
        accuracy=p.mean().item(),
        offset=base.mean().item(),
        players=data.players.names,
        rows=len(x),
    )


def correlation(one: Tensor, other: Tensor) -> float:
    """Pearson's."""
    return torch.corrcoef(torch.stack((one, other)))[0, 1].item()


def _report(found: Mapping[str, ms.GlobalValues], trained: Trained) -> Report:
    target = found[RETRAINED].phi
    tracks = {
        name: correlation(values.phi, target) for name, values in found.items() if name != RETRAINED
    }
    apart = {
        name: ((values.phi - target).norm() / target.norm()).item()
        for name, values in found.items()
        if name != RETRAINED
    }
    gap = max(values.efficiency_gap for values in found.values())
    lines = [Line("accuracy of the forest", trained.accuracy, paper=0.822)]
    lines += [Line(f"correlation with retraining: {name}", r) for name, r in tracks.items()]
    lines += [Line(f"distance from retraining: {name}", d) for name, d in apart.items()]
    lines.append(Line("largest gap in the sum rule (Eq. 5), relative", gap))
    on = [name for name in tracks if name.startswith("on manifold")]
    others = ["off manifold", "Tree SHAP"]
    claims = [
        Claim(
            "values on the manifold correlate with those of retrained models beyond 0.95",
            all(tracks[name] > 0.95 for name in on),
        ),
        Claim(
            "values off the manifold and of Tree SHAP correlate less than any of them",
            max(tracks[name] for name in others) < min(tracks[name] for name in on),
        ),
        Claim(
            "and are more than twice as far from them",
            min(apart[name] for name in others) > 2 * max(apart[name] for name in on),
        ),
        Claim(
            "Tree SHAP gives the drug that tells most more than values off the manifold do, and "
            "most others less",
            _leans(found["Tree SHAP"].phi, found["off manifold"].phi),
        ),
    ]
    return Report(TITLE, SOURCE, lines, claims, [by_player(found)], REMARKS, _draw(found))


def _leans(tree: Tensor, off: Tensor) -> bool:
    """Whether the largest value is larger than the other method's, and most others smaller."""
    most, smaller = int(off.argmax()), tree < off
    return not smaller[most] and int(smaller.sum()) > (len(off) - 1) / 2


def _draw(found: Mapping[str, ms.GlobalValues]) -> Figure:
    figure = style.laid_out(4.2, 7.0)
    left, right = figure.subplots(1, 2)
    for axes, title, shown in (
        (left, "Fig. 2(b)", (TABLE, RETRAINED, "off manifold", "Tree SHAP")),
        (right, "Fig. 5", (TABLE, "on manifold, surrogate", "on manifold, VAE")),
    ):
        some: dict[str, Any] = {name: found[name] for name in shown}
        grouped(axes, some)
        axes.set_title(title, loc="left", fontsize=style.TEXT, color=style.INK)
    right.set_yticklabels([])
    return figure
