"""Builds small explanations for the tests of figures, and reads what is drawn."""

from dataclasses import replace

import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

import manifold_shap as ms
from manifold_shap.metrics import Score, SizeCurve


def explained(
    x: torch.Tensor,
    players: ms.Players,
    outputs: tuple[str, ...],
    space: ms.spaces.OutputSpace | None = None,
    seed: int = 0,
    **fields,
) -> ms.Explanation:
    """Small random values of any rows, efficient, with errors of 0.01."""
    generator = torch.Generator().manual_seed(seed)
    phi = 0.1 * torch.randn(len(x), len(players), len(outputs), generator=generator)
    base = torch.full((len(x), len(outputs)), 1 / len(outputs))
    return ms.Explanation(
        phi, torch.full_like(phi, 0.01), base, base + phi.sum(1), x, players, outputs,
        space or ms.spaces.Probability(), **fields,
    )  # fmt: skip


def digits() -> ms.Explanation:
    """Five grey images of 4 x 6 pixels."""
    x = (torch.rand(5, 1, 4, 6, generator=torch.Generator().manual_seed(1)) > 0.5).float()
    return explained(x, ms.Players.of_elements((1, 4, 6)), tuple("012"))


def patches() -> ms.Explanation:
    """Two colour images of 4 x 4 pixels and four superpixels of 2 x 2."""
    index = (torch.arange(4)[:, None] // 2 * 2 + torch.arange(4) // 2).expand(3, 4, 4)
    return explained(torch.rand(2, 3, 4, 4), ms.Players(range(4), index), ("cat", "dog"))


def picture_and_columns() -> ms.Explanation:
    """Two rows of a model of two tensors: two columns, and a colour picture in patches."""
    x = {"columns": torch.rand(2, 2), "picture": torch.rand(2, 3, 4, 4)}
    inputs = ms.tables.Inputs.fit(x, {"picture": ms.Players.patches((3, 4, 4), 2)})
    made_by = {"inputs": {"columns": [2], "picture": [3, 4, 4]}}
    return explained(inputs.rows(x), inputs.players, ("a", "b"), made_by=made_by)


def ragged(event: tuple[int, ...] = (1, 2, 3)) -> ms.Explanation:
    """A row with three players, and one with two and an element of padding."""
    x = torch.arange(12.0).reshape(2, *event)
    owners = torch.tensor([[0, 0, 1, 1, 2, 2], [1, 0, 0, 1, 1, -1]]).reshape(2, *event)
    return _by_row(x, ms.Players.of_rows(event, 3), owners)


def texts() -> ms.Explanation:
    """Two texts, as an `Explainer` takes them: of three words and of two."""
    frame = pd.DataFrame([["Good ", "is, ", "good."], ["Is ", "bad!", None]])
    names = [f"word {k}" for k in (1, 2, 3)]
    players = ms.Players.of_rows((3,), 3, names)
    return _by_row(frame.set_axis(names, axis=1), players, torch.tensor([[0, 1, 2], [0, 1, -1]]))


def _by_row(x: object, players: ms.Players, owners: torch.Tensor) -> ms.Explanation:
    phi = torch.tensor([[0.1, -0.3, 0.25], [0.4, 0.15, torch.nan]])[..., None]
    base = torch.tensor([[0.5], [0.25]])
    return ms.Explanation(
        phi, 0 * phi, base, base + phi.nansum(1), x, players, ("a",), ms.spaces.Identity(),
        owners=owners,
    )  # fmt: skip


def composed_texts() -> ms.Explanation:
    """The same two texts, in log-ratios of three classes."""
    found, partition = texts(), ms.simplex.Partition.of_tree([["a", "b"], "c"])
    phi = found.phi * torch.tensor([1.0, -2.0])
    base = torch.zeros(2, 2)
    return replace(
        found, phi=phi, standard_error=0 * phi, base=base, prediction=base + phi.nansum(1),
        outputs=partition.names, space=ms.spaces.ILR(), partition=partition,
    )  # fmt: skip


def table(groups: dict[str, list[str]] | None = None) -> ms.Explanation:
    """Six rows of a table, its columns alone or in groups."""
    frame = pd.DataFrame(
        {
            "age": [39.0, 25.0, 61.5, 40.0, 33.0, 58.0],
            "gain ($)": [0.0, 7688.0, 0.0, 0.0, 120.0, 0.0],
            "sex": ["f", "m", "m", "f", "m", "f"],
            "city": ["Rome", "Oslo", "Rome", "Bern", "Oslo", "Bern"],
            "owner": [0, 1, 0, 1, 1, 0],
        }
    )
    groups = groups or {name: [name] for name in frame}
    group_of = {name: k for k, members in enumerate(groups.values()) for name in members}
    players = ms.Players(list(groups), [group_of[name] for name in frame])
    return explained(frame, players, ("poor", "rich"))


def composed(players: int = 4, classes: int | tuple[str, ...] = 3) -> ms.Explanation:
    """Exact values of two rows in log-ratios, of players whose norms differ widely."""
    generator = torch.Generator().manual_seed(players)
    names = classes if isinstance(classes, tuple) else tuple(f"class {k}" for k in range(classes))
    partition = ms.simplex.Partition.sequential(names)
    size = torch.linspace(0.2, 1.5, players)[torch.randperm(players, generator=generator)]
    phi = torch.randn(2, players, len(names) - 1, generator=generator, dtype=torch.float64)
    phi = size[:, None] * phi
    base = 0.3 * torch.randn(2, len(names) - 1, generator=generator, dtype=torch.float64)
    return ms.Explanation(
        phi, torch.zeros_like(phi), base, base + phi.sum(1),
        torch.randn(2, players, generator=generator), ms.Players.of_elements((players,)),
        partition.names, ms.spaces.ILR(), partition=partition,
    )  # fmt: skip


def score(mse: float, draws: int = 1, error: float = 0.0011) -> Score:
    values = [2 * mse, 1.5 * mse, mse]
    curve = SizeCurve([0.0, 1.0, 2.0], values, [0.1 * v for v in values], [10] * 3, values)
    return Score(mse, error, mse, draws, float(draws), curve, torch.tensor([mse]))


def written(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text)]


def tick_labels(axes: Axes) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]
