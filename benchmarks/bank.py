"""A bank of codes along one order of MNIST's size: as a running sum, and coalition by coalition.

    python benchmarks/bank.py

784 players and a decoder of random weights, in front of a classifier 784-512-10, so nothing is
trained and no data are needed. One row and one order: its 783 coalitions are valued by
`values_along`, where log p(x_S|z) grows by one term per player, and by a call for the same masks,
where it is a matrix product. The sides alternate, and figures are medians. `--around` adds the
785 coalitions around one. `bank_*` are the parts of the seconds in which codes are chosen; the rest
decodes them and asks the classifier, which both sides do alike.
"""

import argparse
import json
from pathlib import Path

import torch
from torch import Tensor

import manifold_shap as ms
from benchmarks.timing import seconds
from manifold_shap.nn import MLP
from manifold_shap.vae.imputer import VAEImputer
from manifold_shap.vae.network import MaskedVAE

PLAYERS, CLASSES = 784, 10


def bank(codes: int) -> VAEImputer:
    """An imputer of binary pixels with as many rows as codes."""
    generator = torch.Generator().manual_seed(0)
    x = (torch.rand(codes, PLAYERS, generator=generator) < 0.2).float()
    torch.manual_seed(0)
    network = MaskedVAE([["Bernoulli", [*range(PLAYERS)]]], range(PLAYERS), latent=32)
    return VAEImputer(network, x, bank_size=codes)


def grown(order: Tensor) -> Tensor:
    """The coalitions of an order but the full one, `[players - 1, players]`."""
    return order.argsort() <= torch.arange(len(order) - 1)[:, None]


def toggled(mask: Tensor) -> Tensor:
    """A coalition, and those with one player toggled, `[players + 1, players]`."""
    return mask ^ torch.eye(len(mask) + 1, len(mask), dtype=torch.bool).roll(1, 0)


def measure(codes: int, draws: int, repeats: int, around: bool = False) -> dict[str, float]:
    """Seconds of one order, or around one coalition, both ways; and how far values differ."""
    imputer, generator = bank(codes), torch.Generator().manual_seed(1)
    value = ms.imputed_value(MLP(PLAYERS, [512], CLASSES).eval(), imputer, draws=draws)
    x, keys = imputer.reference[:1], torch.zeros(1, 1, dtype=torch.int64)
    order = torch.randperm(PLAYERS, generator=generator)
    start = torch.rand(PLAYERS, generator=generator) < 0.5
    masks = (toggled(start) if around else grown(order))[None]
    shared = keys.expand(1, masks.shape[1])

    def by_runs() -> Tensor:
        if around:
            return value.values_around(x, start[None, None], keys)
        return value.values_along(x, order[None, None], keys)

    def by_masks() -> Tensor:
        return value.values(x, masks, shared)

    def choose(run: int) -> None:
        u = torch.rand(*masks.shape[:2], draws, generator=generator)
        imputer._chosen(imputer._weights(x, masks, run), u)

    works = {
        "plain": by_masks,
        "running": by_runs,
        "bank_plain": lambda: choose(1),
        "bank_running": lambda: choose(masks.shape[1]),
    }
    gap = (by_runs() - by_masks()).abs()
    found = seconds(works, repeats)
    return {
        **found,
        "ratio": found["plain"] / found["running"],
        "bank_ratio": found["bank_plain"] / found["bank_running"],
        "mean_difference": gap.mean().item(),
        "largest_difference": gap.max().item(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--codes", type=int, nargs="+", default=[54_000, 5_000])
    parser.add_argument("--draws", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--around", action="store_true")
    parser.add_argument("--out", type=Path, help="also write the figures to this JSON file")
    arguments = parser.parse_args()
    sizes = {
        str(codes): measure(codes, arguments.draws, arguments.repeats, arguments.around)
        for codes in arguments.codes
    }
    figures = {
        "codes": sizes,
        "path": "around" if arguments.around else "along",
        "players": PLAYERS,
        "draws": arguments.draws,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    print(json.dumps(figures, indent=2))
    if arguments.out:
        arguments.out.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
