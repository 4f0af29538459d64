"""A value function that a network regresses: v(S) = g(x_S)."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap._messages import check_choice
from manifold_shap._saved import saved
from manifold_shap.coalitions import Coalitions, Toggled
from manifold_shap.models import Model
from manifold_shap.nn import evaluated
from manifold_shap.players import Players
from manifold_shap.spaces import OutputSpace
from manifold_shap.surrogate.network import SurrogateNetwork
from manifold_shap.surrogate.perceptron import Perceptron
from manifold_shap.tables.rows import encoded
from manifold_shap.training.task import Task, trained
from manifold_shap.values.base import Estimate, Linearized, OneNetwork
from manifold_shap.values.model import ModelValue
from manifold_shap.values.spec import Work

# Rows in one call, where the network needs no fewer.
_MANY_ROWS = 8192
# As Lightning names them, and what products are computed in.
PRECISIONS = {"32-true": torch.float32, "bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}


@saved
class SurrogateValue(ModelValue):
    """v(S) = g(x_S), one network call per coalition (Frye et al. Eq. 17).

    >>> import manifold_shap as ms
    >>> x, players = torch.zeros(5, 3), ms.Players.of_elements((3,))
    >>> model = ms.as_model(lambda x: x[:, :2].softmax(-1), x)
    >>> from manifold_shap.surrogate.game import GameShape
    >>> from manifold_shap.surrogate.perceptron import Perceptron
    >>> g = Perceptron(GameShape.of(players, outputs=2, on_simplex=True), hidden=[8])
    >>> value = SurrogateValue(g, model, players, ms.spaces.Probability(), torch.tensor([0.5, 0.5]))
    >>> ms.exact_shapley(value, x).phi.shape
    torch.Size([5, 3, 2])

    Attributes:
        precision: of the network's products, one of `PRECISIONS`; see `in_precision`.
        surrogate: the network g.
        task: what it was trained as; None where it was put together by hand.

    Args:
        surrogate, model, players, space, expectation, task: see above and `ModelValue`.
        name, cost, more: entries of its `GameSpec`; with a `Table` as `table`, rows are its
            codes, and the network sees them encoded.
    """

    precision = "32-true"
    surrogate: SurrogateNetwork

    def __init__(
        self,
        surrogate: Any,
        model: Model,
        players: Players,
        space: OutputSpace,
        expectation: Tensor,
        *,
        task: Task | None = None,
        name: str = "surrogate",
        cost: str = "network",
        **more: Any,
    ) -> None:
        work = Work(batch_size=surrogate.batch_size, cost=cost)
        super().__init__(
            model, players, space, expectation, name=name, work=work, learned=True, **more
        )
        self.surrogate = surrogate.eval()
        self.task = task

    @property
    def training_record(self) -> dict[str, Any]:
        """Epochs, seconds and validation error: squared, off the simplex in mean variances of T."""
        return {} if self.task is None else self.task.record

    kind = "surrogate value"

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What it was trained as; how its model is wrapped.

        Raises:
            ValueError: it was put together by hand.
        """
        plain = {
            "task": trained(self.task),
            "model": self.model,
            "table": self.spec.table,
            "name": self.name,
            "quality": self.spec.quality,
        }
        return plain, {}

    @classmethod
    def restored(
        cls, settings: dict[str, Any], _: dict[str, Tensor], passed: Any
    ) -> "SurrogateValue":
        task: Any = settings["task"]
        value: SurrogateValue = task.value(settings["model"], settings["table"])
        value.update(name=settings["name"], quality=settings["quality"])
        outputs = task.probe_outputs
        value.check_model(task.probe, outputs if task.center is None else outputs + task.center)
        return value

    def to(self, device: torch.device | str) -> "SurrogateValue":
        super().to(device)
        self.surrogate.to(device)
        self.update(work=replace(self.spec.work, batch_size=self.surrogate.batch_size))
        return self

    def in_precision(self, precision: str) -> "SurrogateValue":
        """The same value function with products in another precision.

        Half precision is faster where the hardware has it: `bf16-mixed` on processors with AMX or
        AVX-512 and on accelerators, `16-mixed` on CUDA. It moves single values by far less
        than what tens of permutations leave open; sums over players are exact all the same: the
        anchors stay in single precision. Explanations say in which one they were made
        (`made_by["precision"]`), unless it is single precision.

        Args:
            precision: one of `PRECISIONS`, or `auto`: `bf16-mixed` where the hardware multiplies in
                it, else `32-true`.

        Raises:
            ValueError: `precision` is not known.
        """
        if precision == "auto":
            precision = "bf16-mixed" if _multiplies_in_bfloat16(self.device) else "32-true"
        if precision == self.precision:
            return self
        other = copy.copy(self)
        other.precision = check_choice("precision", precision, tuple(PRECISIONS), "or 'auto'")
        return other

    @property
    def provenance(self) -> dict[str, Any]:
        half = {"precision": self.precision} if self.precision != "32-true" else {}
        return {**super().provenance, **half}

    @torch.no_grad()
    def base(self, x: Tensor) -> Float[Tensor, "batch outputs"]:
        """v(empty coalition): the expectation or, of padded rows, the network's value by length."""
        if self.players.padding is None:
            return super().base(x)
        parts = encoded(x.to(self.device), self.spec.table).split(
            self.spec.work.batch_size or _MANY_ROWS
        )
        none = torch.zeros(1, 1, len(self.players), dtype=torch.bool, device=self.device)
        with evaluated(self.surrogate):
            found = [self.surrogate(some, none.expand(len(some), -1, -1))[:, 0] for some in parts]
        return self.placed(torch.cat(found))

    def one_network(self, chosen: Tensor | None = None) -> OneNetwork | None:
        return OneNetwork(self, chosen)

    def values(self, x: Tensor, coalitions: Coalitions) -> Estimate:
        with self.products():
            return Estimate(
                self.placed(self.surrogate.values(encoded(x, self.spec.table), coalitions))
            )

    @contextmanager
    def products(self) -> Iterator[None]:
        """The network in evaluation mode, and its products in the chosen precision."""
        dtype = PRECISIONS[self.precision]
        single = dtype == torch.float32
        products = torch.autocast(self.device.type, None if single else dtype, enabled=not single)
        with evaluated(self.surrogate), products:
            yield

    def linearized(self, chosen: Int64[Tensor, " chosen"] | None = None) -> Linearized | None:
        """Part of a fully connected network replaced by its derivative: `Perceptron.linearized`."""
        network = self.surrogate
        if not isinstance(network, Perceptron):
            return None

        def values(x: Tensor, coalitions: Toggled) -> Estimate:
            with self.products():
                found = network.linearized(encoded(x, self.spec.table), coalitions.items, chosen)
                return Estimate(self.placed(found.flatten(1, 2), ... if chosen is None else chosen))

        cost = network.linearized_cost(len(self.outputs if chosen is None else chosen))
        return Linearized(cost, values)


def _multiplies_in_bfloat16(device: torch.device) -> bool:
    """Whether the hardware has instructions for it: others emulate them, more slowly."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type != "cpu":
        return False
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
