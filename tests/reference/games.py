"""Every estimator, interactions, orders, laws and audits, of games that are formulas of numbers."""

from typing import Any

import torch

import manifold_shap as ms
from tests.reference.examples import game_of

# Of each size of game, how many evaluations are few.
SIZES = {"small": 40, "large": 400}


def estimated_games() -> dict[str, Any]:
    """Every estimator in each of its ways."""
    found: dict[str, Any] = {}
    for size, few in SIZES.items():
        game, x = game_of(size)
        players = x.shape[1]
        names = [f"x{i}" for i in range(players)]
        order = [names[: players // 2], names[players // 2 :]]
        largest = int(ms.as_value_function(game, x).prediction(x).mean(0).argmax())
        alone = game(x, torch.eye(players)[None].expand(3, -1, -1))
        permutation, adaptive = ms.permutation_shapley, ms.adaptive_shapley
        kernel, auto, least = ms.kernel_shapley, ms.auto_shapley, min(few, 120)
        calls: dict[str, tuple[Any, dict[str, Any]]] = {
            "permutation": (permutation, {"permutations": 32}),
            "permutation, evaluations": (permutation, {"evaluations": few, "seed": 4}),
            "permutation, target": (permutation, {"target_error": 0.02}),
            "permutation, ordering": (permutation, {"permutations": 16, "ordering": order}),
            "permutation, outputs": (permutation, {"permutations": 8, "outputs": [1]}),
            "adaptive": (adaptive, {"samples": 40 * players}),
            "adaptive, target": (adaptive, {"target_error": 0.05}),
            "adaptive, ordering": (adaptive, {"samples": 20 * players, "ordering": order}),
            "kernel": (kernel, {"evaluations": few}),
            "kernel, law": (kernel, {"evaluations": few, "law": "kernel"}),
            "kernel, start": (kernel, {"evaluations": few, "start": alone}),
            "odd": (ms.odd_shapley, {"evaluations": min(few, 140)}),
            "auto": (auto, {"evaluations": least}),
            "auto, few": (auto, {"evaluations": 3 * players}),
            "auto, ordering": (auto, {"evaluations": 500, "ordering": order}),
            "auto, target": (auto, {"evaluations": 120, "target_error": 0.05}),
        }
        if size == "small":
            calls |= {
                "permutation, all": (permutation, {"permutations": 720}),
                "kernel, all": (kernel, {"evaluations": 62}),
                "odd, all": (ms.odd_shapley, {"evaluations": 62}),
                "exact": (ms.exact_shapley, {}),
                "exact, ordering": (ms.exact_shapley, {"ordering": order}),
                "exact, largest output": (ms.exact_shapley, {"outputs": largest}),
            }
        found |= {
            f"{size} game, {name}": estimator(game, x, **{"seed": 3, **settings})
            for name, (estimator, settings) in calls.items()
        }
    return found


def interactions() -> dict[str, Any]:
    """Of pairs of players, by all coalitions and by drawn ones."""
    runs: dict[str, tuple[str, dict[str, int]]] = {
        "small game, exact": ("small", {}),
        "large game, sampled": ("large", {"evaluations": 1200}),
    }
    found: dict[str, Any] = {}
    for name, (size, settings) in runs.items():
        game, x = game_of(size)
        for index in ("SII", "k-SII"):
            found[f"{name} {index}"] = ms.shapley_interactions(
                game, x[:2], index=index, seed=2, **settings
            )
    return found


def orders() -> dict[str, Any]:
    """Asymmetric values: components, graphs, and orders with weights."""
    found: dict[str, Any] = {}
    for size in SIZES:
        game, x = game_of(size)
        names = [f"x{i}" for i in range(x.shape[1])]
        players = ms.Players.of_elements((len(names),), names)
        graphs = {
            "chain": [[name] for name in names],
            "components": [names[1:4], names[:1], names[4:]],
            "forest": {"x1": ["x0"], "x2": ["x0"], "x4": ["x3"]},
            "graph": {"x2": ["x0", "x1"], "x3": ["x1"], "x5": ["x4"]},
        }
        for name, graph in graphs.items():
            allowed = ms.Ordering.of(graph, players).allowed
            settings: dict[str, Any] = {"ordering": graph, "seed": 2}
            found |= {
                f"{size} game, {name}, orders drawn": allowed.draw(
                    5, torch.Generator().manual_seed(0)
                ),
                f"{size} game, {name}, permutation": ms.permutation_shapley(
                    game, x, permutations=8, **settings
                ),
                f"{size} game, {name}, auto": ms.auto_shapley(game, x, evaluations=200, **settings),
            }
            if size == "small":
                found[f"{size} game, {name}, exact"] = ms.exact_shapley(game, x, ordering=graph)
        found[f"{size} game, table of orders, permutation"] = ms.permutation_shapley(
            game, x, orders=[(names, 0.75), (names[::-1], 0.25)]
        )
    return found


def laws() -> dict[str, Any]:
    """Coalitions that laws draw, and their probabilities."""
    generator = torch.Generator().manual_seed(0)
    pictures = ms.Players.patches((1, 8, 8), 2)
    made: dict[str, ms.laws.CoalitionLaw] = {
        "size": ms.laws.SizeUniform(7),
        "kernel": ms.laws.ShapleyKernel(7),
        "leverage": ms.laws.LeverageScores(7),
        "blocks": ms.laws.Blocks.of(pictures),
        "mixture": ms.laws.laws_for(pictures),
        "stretches": ms.laws.laws_for(ms.Players.tokens(9, padding=0)),
        "weighted mixture": ms.laws.Mixture(
            [ms.laws.SizeUniform(7), ms.laws.ShapleyKernel(7)], [1, 3]
        ),
    }
    found: dict[str, Any] = {}
    for name, law in made.items():
        found[f"{name}, coalitions"] = mask = law.sample((40,), generator)
        found[f"{name}, antithetic"] = law.sample_antithetic((10,), generator)
        if name in ("size", "kernel", "leverage", "weighted mixture"):
            found[f"{name}, log-probabilities"] = law.log_prob(mask)
    counts = torch.tensor([3, 9, 5])
    found["pairs of rows"] = ms.metrics.shapley_pairs(3, 9, least=40, seed=3, counts=counts)
    return found


def audits() -> dict[str, Any]:
    """The measured error of a regression of few evaluations."""
    game, x = game_of("ten")
    x = x.repeat(4, 1) * torch.linspace(0.5, 1.5, 12)[:, None]
    found = ms.kernel_shapley(game, x, evaluations=60, seed=2)
    return {
        "audit, permutations": ms.audit(found, game, rows=8, seed=1),
        "audit, exact": ms.audit(found, game, rows=12, reference=ms.exact_shapley, seed=1),
    }
