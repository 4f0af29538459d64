"""Surrogates are briefly trained, of the network that is named, with an explainer of another one.
Explainer and permutations are compared with a long run, or with exact values where players are few.
The explainer's time is for all values of a row, in batches, v(N) of the model included.
"""

from typing import Any

import torch

import manifold_shap as ms
from benchmarks.report import Found, Table, records
from benchmarks.support.measures import reference, relative, seconds
from benchmarks.support.trained import brief_surrogate

TITLE = "The amortised explainer"
CAPTION = "relative error"
QUICK = {"data": ["digits"], "surrogate_epochs": 1, "epochs": 1, "rows": 4, "coalitions": 256}
# Of data, with the networks of the surrogate and of the explainer.
OVER = {"data": ("mnist", "digits", "digits mlp transformer", "census")}
PAIRS = (8, 32, 128, 256)


def measure(
    name: str,
    surrogate_epochs: int = 3,
    epochs: int = 12,  # of the training of the explainer
    rows: int = 16,  # test rows to compare on
    coalitions: int = 2048,  # of the reference
    device: str = "cpu",  # of both
) -> dict[str, Any]:
    """Relative errors, and milliseconds per row."""
    source, *networks = name.split()
    network, by = networks[0] if networks else "mlp", networks[-1] if networks else "mlp"
    value, loaded = brief_surrogate(source, surrogate_epochs, device, network)
    # Convolutions in half precision take several times as long on a CPU.
    trainer = {"accelerator": "gpu" if device == "cuda" else "cpu", "devices": 1}
    trainer["precision"] = "bf16-mixed" if by == "mlp" else "32-true"
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
    errors["amortized, bf16"] = away(amortized(x))
    return {"relative_error": errors, "milliseconds_per_row": times}


def tables(found: Found) -> list[Table]:
    shown = ("relative_error", "milliseconds_per_row")
    return [records("data", {name: {k: one[k] for k in shown} for name, one in found.items()})]


def summary(found: Found) -> dict[str, Any]:
    return {name: one["relative_error"]["amortized"] for name, one in found.items()}
