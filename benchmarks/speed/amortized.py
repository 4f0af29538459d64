"""Surrogates are briefly trained, of the network that is named, with an explainer of another one.
Explainer and permutations are compared with a long run, or with exact values where players are few.
The explainer's time is for all values of a row, in batches, v(N) of the model included.
"""

from collections.abc import Sequence
from typing import Any

import torch

import manifold_shap as ms
from benchmarks.report import Found, Table, records
from benchmarks.support.measures import reference, relative, seconds
from benchmarks.support.trained import brief_surrogate

TITLE = "The amortised explainer"
QUICK = {"data": ["digits"], "surrogate_epochs": 1, "epochs": 1, "rows": 4, "coalitions": 256}
PAIRS = (8, 32, 128, 256)


def run(
    data: Sequence[str] = (
        "mnist",
        "mnist mlp transformer",
        "mnist conv transformer",
        "digits",
        "census",
    ),
    surrogate_epochs: int = 3,  # of the trainings of the surrogate and of the explainer
    epochs: int = 12,  # of the trainings of the surrogate and of the explainer
    rows: int = 24,  # test rows to compare on
    coalitions: int = 2048,  # of the reference
    precision: str = "bf16-mixed",  # of the explainer's training
    device: str = "cpu",  # of both
) -> dict[str, Any]:
    """Relative errors, and milliseconds per row."""
    found: dict[str, Any] = {}
    for name in data:
        source, *networks = name.split()
        network, by = networks[0] if networks else "mlp", networks[-1] if networks else "mlp"
        value, loaded = brief_surrogate(source, surrogate_epochs, device, network)
        on = torch.device(device)
        where = (
            {"accelerator": "gpu", "devices": [on.index or 0]}
            if on.type == "cuda"
            else {"accelerator": "cpu"}
        )
        # Convolutions in half precision take several times as long on a CPU.
        trainer = {**where, "precision": precision if by == "mlp" else "32-true"}
        x_validation = loaded.x_validation[:512]
        amortized = ms.fit_amortized(
            value,
            loaded.x_train,
            x_validation=x_validation,
            network=by,
            max_epochs=epochs,
            trainer=trainer,
        )
        x, many = loaded.x_test[:rows], loaded.x_test[:2048]
        phi, error = reference(value, x, coalitions * len(value.players))

        def away(found: torch.Tensor) -> float:
            return relative(found.cpu() - phi, phi).mean().item()  # noqa: B023

        errors = {"reference": relative(error, phi).mean().item(), "amortized": away(amortized(x))}
        for pairs in PAIRS:
            sampled = ms.permutation_shapley(value, x, permutations=2 * pairs)
            errors[f"{pairs} pairs"] = away(sampled.phi)
        times = {"32-true": seconds({0: lambda: amortized(many)}, 5, on)[0]}  # noqa: B023
        amortized.value = value.in_precision("bf16-mixed")
        times["bf16-mixed"] = seconds({0: lambda: amortized(many)}, 5, on)[0]  # noqa: B023
        errors["amortized, bf16"] = away(amortized(x))
        found[name] = {
            "players": len(value.players),
            "outputs": len(value.outputs),
            "training": amortized.training_record,
            "relative_error": errors,
            "milliseconds_per_row": {p: 1e3 * took / len(many) for p, took in times.items()},
        }
        print(name, found[name], flush=True)
    return found


def tables(found: Found) -> list[Table]:
    shown = ("relative_error", "milliseconds_per_row")
    return [records("data", {name: {k: one[k] for k in shown} for name, one in found.items()})]


def summary(found: Found) -> dict[str, Any]:
    return {
        f"{name}: relative error": o["relative_error"]["amortized"] for name, o in found.items()
    }
