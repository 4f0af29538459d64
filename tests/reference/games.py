"""Every estimator, interactions and orders, of games that are formulas of stored numbers."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import manifold_shap as ms
from tests.reference.compare import Inputs, Results
from tests.reference.doors import alike


def game_of(weights: Inputs) -> Callable[[Tensor, Tensor], Tensor]:
    """v(S) of a small network on rows whose absent players are 0."""

    def game(x: Tensor, mask: Tensor) -> Tensor:
        return torch.tanh((x[:, None] * mask) @ weights["first"] + 0.3) @ weights["second"]

    return game


def names_of(players: int) -> list[str]:
    return [f"x{i}" for i in range(players)]


def estimated_games(inputs: Inputs) -> Results:
    """Every estimator on games of 6, 10 and 20 players."""
    for size, weights in inputs["games"].items():
        game, x = game_of(weights), weights["x"]
        for name, explanation in _explanations(game, x).items():
            yield f"{size} game, {name}", explanation
        yield from _invariances(size, game, x)


def _explanations(game: Any, x: Tensor) -> dict[str, ms.Explanation]:
    players = x.shape[1]
    half = players // 2
    order = [names_of(players)[:half], names_of(players)[half:]]
    largest = int(ms.as_value_function(game, x).prediction(x).mean(0).argmax())
    few = {6: 40, 10: 90, 20: 400}[players]
    found = {
        "permutation": ms.permutation_shapley(game, x, permutations=32, seed=3),
        "permutation, evaluations": ms.permutation_shapley(game, x, evaluations=few, seed=4),
        "permutation, target": ms.permutation_shapley(game, x, target_error=0.02, seed=3),
        "permutation, ordering": ms.permutation_shapley(
            game, x, permutations=16, ordering=order, seed=3
        ),
        "permutation, outputs": ms.permutation_shapley(
            game, x, permutations=8, outputs=[1], seed=3
        ),
        "adaptive": ms.adaptive_shapley(game, x, samples=40 * players, seed=3),
        "adaptive, target": ms.adaptive_shapley(game, x, target_error=0.05, seed=3),
        "adaptive, ordering": ms.adaptive_shapley(
            game, x, samples=20 * players, ordering=order, seed=3
        ),
        "kernel": ms.kernel_shapley(game, x, evaluations=few, seed=3),
        "kernel, law": ms.kernel_shapley(game, x, evaluations=few, law="kernel", seed=3),
        "kernel, start": ms.kernel_shapley(
            game,
            x,
            evaluations=few,
            start=game(x, torch.eye(players)[None].expand(3, -1, -1)),
            seed=3,
        ),
        "odd": ms.odd_shapley(game, x, evaluations=min(few, 140), seed=3),
        "auto": ms.auto_shapley(game, x, evaluations=min(few, 120), seed=3),
        "auto, few": ms.auto_shapley(game, x, evaluations=3 * players, seed=3),
        "auto, ordering": ms.auto_shapley(game, x, evaluations=500, ordering=order, seed=3),
        "auto, target": ms.auto_shapley(game, x, evaluations=120, target_error=0.05, seed=3),
    }
    if players == 6:
        found |= {
            "permutation, all": ms.permutation_shapley(game, x, permutations=720),
            "kernel, all": ms.kernel_shapley(game, x, evaluations=62),
            "odd, all": ms.odd_shapley(game, x, evaluations=62),
        }
    if players <= 10:
        found |= {
            "auto, alone": ms.auto_shapley(game, x, seed=3),
            "exact": ms.exact_shapley(game, x),
            "exact, ordering": ms.exact_shapley(game, x, ordering=order),
            "exact, largest output": ms.exact_shapley(game, x, outputs=largest),
        }
    return found


def _invariances(size: str, game: Any, x: Tensor) -> Results:
    """The size of a batch, and what other rows are explained, change no coalition."""
    for name, explain in {
        "permutation": lambda x, **given: ms.permutation_shapley(game, x, permutations=8, **given),
        "kernel": lambda x, **given: ms.kernel_shapley(game, x, evaluations=300, **given),
    }.items():
        whole, parts = explain(x, seed=5), explain(x, seed=5, batch_size=7)
        yield f"{size} game, {name}, batches of 7, phi", parts.phi
        yield f"{size} game, {name}, again", alike(whole, explain(x, seed=5))
        yield f"{size} game, {name}, another seed", explain(x, seed=6).phi


def audits(inputs: Inputs) -> Results:
    """The measured error of a regression of few evaluations."""
    weights = inputs["games"]["ten"]
    game, x = game_of(weights), inputs["games"]["ten"]["x"].repeat(4, 1)
    x = x * torch.linspace(0.5, 1.5, len(x))[:, None]
    found = ms.kernel_shapley(game, x, evaluations=60, seed=2)
    yield "audit, permutations", ms.audit(found, game, rows=8, seed=1)
    yield "audit, exact", ms.audit(found, game, rows=12, reference=ms.exact_shapley, seed=1)


def interactions(inputs: Inputs) -> Results:
    """Of pairs of players, by all coalitions and by drawn ones."""
    for size in ("small", "ten", "large"):
        weights = inputs["games"][size]
        game, x = game_of(weights), weights["x"][:2]
        players = x.shape[1]
        runs: dict[str, Any] = {"sampled": {"evaluations": 3 * players**2}} if players > 6 else {}
        if players <= 10:
            runs["exact"] = {}
        for name, settings in runs.items():
            for index in ("SII", "k-SII"):
                found = ms.shapley_interactions(game, x, index=index, seed=2, **settings)
                yield f"{size} game, {name} {index}", found
    found = ms.shapley_interactions(
        game_of(inputs["games"]["small"]), inputs["games"]["small"]["x"]
    )
    frame = found.to_frame()
    yield "interactions, frame", torch.from_numpy(frame.select_dtypes("number").to_numpy(copy=True))


def orders(inputs: Inputs) -> Results:
    """Asymmetric values: components, graphs, and orders with weights."""
    for size in ("small", "large"):
        weights = inputs["games"][size]
        game, x = game_of(weights), weights["x"]
        names = names_of(x.shape[1])
        players = ms.Players.of_elements((len(names),), names)
        graphs = {
            "chain": [[name] for name in names],
            "components": [names[1:4], names[:1], names[4:]],
            "forest": {"x1": ["x0"], "x2": ["x0"], "x4": ["x3"]},
            "graph": {"x2": ["x0", "x1"], "x3": ["x1"], "x5": ["x4"]},
        }
        for name, graph in graphs.items():
            ordering = ms.Ordering.of(graph, players)
            pairs = ordering.allowed.draw(5, torch.Generator().manual_seed(0))
            yield f"{size} game, {name}, orders drawn", pairs
            yield (
                f"{size} game, {name}, counts",
                torch.tensor(
                    [float(ordering.allowed.count), float(ordering.allowed.coalitions)]
                ).log(),
            )
            found = ms.permutation_shapley(game, x, permutations=8, ordering=graph, seed=2)
            yield f"{size} game, {name}, permutation", found
            found = ms.auto_shapley(game, x, evaluations=200, ordering=graph, seed=2)
            yield f"{size} game, {name}, auto", found
            if size == "small":
                yield f"{size} game, {name}, coalitions", ordering.allowed.weighted_coalitions()[0]
                yield f"{size} game, {name}, exact", ms.exact_shapley(game, x, ordering=graph)
        edges = ms.Ordering({"x2": ["x0", "x1"]}, players)
        found = ms.permutation_shapley(game, x, permutations=8, ordering=edges, seed=2)
        yield f"{size} game, edges, permutation", found
        yield from _weighted(size, game, x, players)


def _weighted(size: str, game: Any, x: Tensor, players: ms.Players) -> Results:
    """Orders of unequal weights, w(π)."""
    names = players.names
    found = ms.permutation_shapley(game, x, orders=[(names, 0.75), (names[::-1], 0.25)])
    yield f"{size} game, table of orders, permutation", found


def laws(inputs: Inputs) -> Results:
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
    for name, law in made.items():
        mask = law.sample((40,), generator)
        yield f"{name}, coalitions", mask
        yield f"{name}, antithetic", law.sample_antithetic((10,), generator)
        if name in ("size", "kernel", "leverage", "weighted mixture"):
            yield f"{name}, log-probabilities", law.log_prob(mask)
    yield "pairs", ms.metrics.shapley_pairs(5, 9, least=40, seed=3)
    yield (
        "pairs of rows",
        ms.metrics.shapley_pairs(3, 9, least=40, seed=3, counts=torch.tensor([3, 9, 5])),
    )
