"""Surrogates are briefly trained, of the network that is named, with an explainer of another one.
Explainer and permutations are compared with a long run, or with exact values where players are few.
The explainer's time is for all values of a row, in batches, v(N) of the model included.
"""

from collections.abc import Sequence
from typing import Any

import torch

import manifold_shap as ms
from benchmarks.report import Found, Table, parts, records
from benchmarks.support.measures import reference, relative, seconds
from benchmarks.support.trained import brief_surrogate

TITLE = "The amortised explainer"
CAPTION = "relative error"
QUICK = {"data": ["digits"], "surrogate_epochs": 1, "epochs": 1, "rows": 4, "coalitions": 256}
PAIRS = (8, 32, 128, 256)


def run(
    data: Sequence[str] = (  # and the networks of the surrogate and of the explainer
        "mnist", "mnist mlp transformer", "mnist conv transformer", "digits", "census",
    ),
    surrogate_epochs: int = 3,
    epochs: int = 12,  # of the training of the explainer
    rows: int = 24,  # test rows to compare on
    coalitions: int = 2048,  # of the reference
    precision: str = "bf16-mixed",  # of the explainer's training
    device: str = "cpu",  # of both
) -> dict[str, Any]:  # fmt: skip
    """Relative errors, and milliseconds per row."""
    how = {"surrogate_epochs": surrogate_epochs, "epochs": epochs, "rows": rows}
    how |= {"coalitions": coalitions}
    return parts(data, measure, **how, precision=precision, device=device)


def measure(
    name: str,
    surrogate_epochs: int,
    epochs: int,
    rows: int,
    coalitions: int,
    precision: str,
    device: str,
) -> dict[str, Any]:
    source, *networks = name.split()
    network, by = networks[0] if networks else "mlp", networks[-1] if networks else "mlp"
    value, loaded = brief_surrogate(source, surrogate_epochs, device, network)
    # Convolutions in half precision take several times as long on a CPU.
    trainer = {"accelerator": "gpu" if device == "cuda" else "cpu", "devices": 1}
    trainer["precision"] = precision if by == "mlp" else "32-true"
    how: Any = {"x_validation": loaded.x_validation[:512], "trainer": trainer}
    amortized = ms.fit_amortized(value, loaded.x_train, network=by, max_epochs=epochs, **how)
    x, many = loaded.x_test[:rows], loaded.x_test[:2048]
    phi, error = reference(value, x, coalitions * len(value.players))

    def away(found: torch.Tensor) -> float:
        return relative(found.cpu() - phi, phi).mean().item()

    errors = {"reference": relative(error, phi).mean().item(), "amortized": away(amortized(x))}
    for pairs in PAIRS:
        sampled = ms.permutation_shapley(value, x, permutations=2 * pairs)
        errors[f"{pairs} pairs"] = away(sampled.phi)
    times = {}
    for kind in ("32-true", "bf16-mixed"):
        amortized.value = value.in_precision(kind)
        times[kind] = 1e3 * seconds({0: lambda: amortized(many)}, 5, device)[0] / len(many)
    return {
        "players": len(value.players),
        "outputs": len(value.outputs),
        "relative_error": {**errors, "amortized, bf16": away(amortized(x))},
        "milliseconds_per_row": times,
    }


def tables(found: Found) -> list[Table]:
    shown = ("relative_error", "milliseconds_per_row")
    return [records("data", {name: {k: one[k] for k in shown} for name, one in found.items()})]


def summary(found: Found) -> dict[str, Any]:
    return {name: one["relative_error"]["amortized"] for name, one in found.items()}
