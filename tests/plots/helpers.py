"""Builds small explanations for the tests of figures, and reads what is drawn."""

import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

import manifold_shap as ms
from manifold_shap.metrics import Score, SizeCurve

LONG = "a name that anyone would call long, of the systolic blood pressure "


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
    names = [f"pixel ({row}, {column})" for row in range(4) for column in range(6)]
    return explained(x, ms.Players.of_elements((1, 4, 6), names), tuple("012"))


def patches() -> ms.Explanation:
    """Two colour images of 4 x 4 pixels and four superpixels of 2 x 2."""
    index = (torch.arange(4)[:, None] // 2 * 2 + torch.arange(4) // 2).expand(3, 4, 4)
    players = ms.Players(["top left", "top right", "bottom left", "bottom right"], index)
    return explained(torch.rand(2, 3, 4, 4), players, ("cat", "dog"))


def ragged(event: tuple[int, ...] = (1, 2, 3)) -> ms.Explanation:
    """A row with three players, and one with two and an element of padding."""
    x = torch.arange(12.0).reshape(2, *event)
    owners = torch.tensor([[0, 0, 1, 1, 2, 2], [1, 0, 0, 1, 1, -1]]).reshape(2, *event)
    phi = torch.tensor([[0.1, -0.3, 0.25], [0.4, 0.15, torch.nan]])[..., None]
    base = torch.tensor([[0.5], [0.25]])
    return ms.Explanation(
        phi, 0 * phi, base, base + phi.nansum(1), x, ms.Players.of_rows(event, 3), ("a",),
        ms.spaces.Identity(), owners=owners,
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


def composed(
    players: int = 4,
    classes: int | tuple[str, ...] = 3,
    rows: int = 2,
    names: tuple[str, ...] | None = None,
    scale: float = 1.0,
) -> ms.Explanation:
    """Exact values in log-ratios, of players whose norms differ widely."""
    generator = torch.Generator().manual_seed(players)
    outputs = classes if isinstance(classes, tuple) else tuple(f"class {k}" for k in range(classes))
    partition = ms.simplex.Partition.sequential(outputs)
    balances = len(outputs) - 1
    size = torch.linspace(0.2, 1.5, players)[torch.randperm(players, generator=generator)]
    phi = torch.randn(rows, players, balances, generator=generator, dtype=torch.float64)
    phi = scale * size[:, None] * phi
    base = 0.3 * torch.randn(rows, balances, generator=generator, dtype=torch.float64)
    return ms.Explanation(
        phi, torch.zeros_like(phi), base, base + phi.sum(1),
        torch.randn(rows, players, generator=generator), ms.Players.of_elements((players,), names),
        partition.names, ms.spaces.ILR(), partition=partition,
    )  # fmt: skip


def score(mse: float, sizes: list[float], draws: int = 1, error: float = 0.0011) -> Score:
    values = [mse * (2 - k / len(sizes)) for k in range(len(sizes))]
    curve = SizeCurve(sizes, values, [0.1 * v for v in values], [10] * len(sizes), values)
    return Score(mse, error, mse, draws, float(draws), curve, torch.tensor([mse]))


def written(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text)]


def tick_labels(axes: Axes) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


def assert_nothing_is_cut(figure: Figure) -> None:
    """Whatever is drawn lies inside of the figure, up to a fiftieth of an inch."""
    figure.draw_without_rendering()
    drawn, size = figure.get_tightbbox(), figure.get_size_inches()
    assert (drawn.min >= -0.02).all()
    assert (drawn.max <= size + 0.02).all()
