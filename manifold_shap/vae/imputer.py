"""Imputes by a masked-encoder VAE: p(x'|x_S) = ∫ p(x'|z) p(z|x_S) dz (Frye et al. 2021, Eq. 13).

There are two ways to p(z|x_S). The *encoder* posterior draws from the masked encoder r(z|x_S), and
may correct it by importance weights w ∝ [p(x_S|z) p(z) / r(z|x_S)]^τ. The *bank* does without r:
the codes of the training rows represent the prior, and are drawn in proportion to p(x_S|z)^τ. A
product over hundreds of elements is over-confident as a likelihood; τ < 1 tempers it.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from manifold_shap import _random
from manifold_shap._checks import check_number, check_seed, check_whole
from manifold_shap._messages import check_choice, check_flag
from manifold_shap._saved import saved
from manifold_shap._stored import StoredRows, sample_of
from manifold_shap.coalitions import Coalitions, Nested
from manifold_shap.imputers.base import (
    CompletedRows,
    Completions,
    Imputer,
    Keys,
    Mask,
    Rows,
)
from manifold_shap.players import Players
from manifold_shap.training.task import Task, trained
from manifold_shap.vae.bank import Bank, RunningLikelihood, bank_of
from manifold_shap.vae.likelihood import Product
from manifold_shap.vae.network import MaskedVAE, prior_log_prob, sample_mixture

POSTERIORS = ("bank", "encoder")

# Weights held at a time: while codes are chosen, no more than the cache of a CPU holds, which is
# twice as fast.
_CHOICE_ELEMENTS_CPU = 2**18
# Of an efficient matrix product.
_PRODUCT_ELEMENTS_CPU = 2**21
_WEIGHT_ELEMENTS_ACCELERATOR = 2**26

# Fewest players for running sums: with fewer, blocks of a run differ in most of the statistics.
_LEAST_PLAYERS = 32

# Weighted draws among which each equally weighted one is chosen.
_PROPOSALS = 64

# The streams of random numbers of one key.
_COMPONENT, _LATENT, _ELEMENT = 1, 2, 3


@saved
class VAEImputer(Imputer):
    """x'_{S̄} from the decoder, at codes drawn given x_S.

    >>> x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    >>> network = MaskedVAE([["Normal", [0, 1, 2]]], index=[0, 1, 2], latent=2, hidden=[8])
    >>> imputer = VAEImputer(network, x, bank_size=100)
    >>> mask, keys = torch.tensor([[[True, False, True]]]), torch.tensor([[0]])
    >>> from manifold_shap.coalitions import Listed
    >>> completed = imputer.impute(x[:1], Listed(mask, keys), range(5)).rows
    >>> bool((completed[..., 0] == x[0, 0]).all()), completed.shape
    (True, torch.Size([1, 1, 5, 3]))

    Args:
        network: a trained `MaskedVAE`.
        reference: training rows; their codes are the bank. Of `StoredRows` some that stand for all
            are kept, and v(∅) is the mean over these.
        players: see `Players`.
        posterior: `bank` or, of a network that has a masked encoder, `encoder`.
        temper: τ, the power of the weights.
        importance: whether draws of the encoder posterior carry importance weights.
        bank_size: most codes in the bank; see `bank_of`.
        seed: of the codes.

    Attributes:
        bank: see `Bank`; empty for the encoder posterior.
        lengths: of the rows that are behind the codes of the bank, `[codes]`.
        task: what it was trained as; None where it was put together by hand.
    """

    name, takes_padding = "vae", True
    bank: Bank
    lengths: Tensor

    def __init__(
        self,
        network: MaskedVAE,
        reference: Any,
        players: Players | None = None,
        *,
        posterior: str = "bank",
        temper: float = 1.0,
        importance: bool = False,
        bank_size: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(sample_of(reference), players)
        check_posterior(posterior, temper, importance, bank_size)
        if posterior == "encoder" and not network.components:
            raise ValueError(
                "Expected a VAE with a masked encoder for posterior='encoder' but this one was "
                "trained for the bank of codes, which needs none; train another with "
                "posterior='encoder', which serves for both (by the command line also with "
                "overwrite=true)."
            )
        if self.players.padding != network.players.padding:
            raise ValueError(
                f"Expected `players` padded by {network.players.padding}, as those of the network "
                f"are, but got {self.players.padding}; give both the same."
            )
        self.network = network.eval().to(self.device)
        self.task: Task | None = None
        # Plain numbers and strings: a safe loader refuses numpy's.
        self.posterior, self.temper, self.importance = str(posterior), float(temper), importance
        self.bank_size = None if bank_size is None else int(bank_size)
        self.seed = check_seed(seed)
        self.proposals = _PROPOSALS if importance else 1
        nothing = torch.zeros(0, len(network.owner_of_statistic))
        self.bank, lengths = Bank(network.likelihood, nothing), torch.zeros(0)
        if posterior == "bank":
            rows = reference if isinstance(reference, StoredRows) else self.reference
            self.bank, lengths = bank_of(network, rows, bank_size, seed)
        self.register_buffer("lengths", lengths, persistent=False)

    @property
    def training_record(self) -> dict[str, Any]:
        """Epochs, seconds and validation loss."""
        return {} if self.task is None else self.task.record

    kind = "vae imputer"

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What it was trained as, how codes are drawn, and the rows.

        Raises:
            ValueError: it was put together by hand.
        """
        plain = {"task": trained(self.task), "players": self.players, "drawn": self.settings}
        return plain, {"reference": self.reference}

    @classmethod
    def restored(
        cls, settings: dict[str, Any], tensors: dict[str, Tensor], passed: Any
    ) -> "VAEImputer":
        task: Any = settings["task"]
        vae = cls(task.network, tensors["reference"], settings["players"], **settings["drawn"])
        vae.task = task
        return vae

    @property
    def provenance(self) -> dict[str, Any]:
        mine: dict[str, Any] = {"posterior": self.posterior}
        if self.posterior == "bank":
            mine |= {"codes": len(self.bank), "codes_seed": self.seed}
        else:
            mine |= {"importance": self.importance}
        return {**mine, "temper": self.temper} if self.is_weighted else mine

    @property
    def settings(self) -> dict[str, Any]:
        """How codes are drawn: keywords that make this imputer from its network and rows."""
        names = ("posterior", "temper", "importance", "bank_size", "seed")
        return {name: vars(self)[name] for name in names}

    @property
    def is_weighted(self) -> bool:
        """Whether draws depend on weights, and so on `temper`."""
        return self.posterior == "bank" or self.importance

    @torch.no_grad()
    def impute(self, x: Rows, coalitions: Coalitions, draws: range) -> Completions:
        """Decode codes drawn given x_S; see `Imputer.impute`.

        Along a run of coalitions log p(x_S|z) is updated, not computed from the start.
        """
        keys = coalitions.each_key()
        mask = coalitions.masks()
        u = _random.uniform(_random.fold(keys, _COMPONENT), (), draws)
        if self.posterior == "bank":
            nested = isinstance(coalitions, Nested) and len(self.players) >= _LEAST_PLAYERS
            run = coalitions.run if nested else 1
            chosen, effective = self._chosen(self._log_prob(x, mask, run, self.temper), u)
            rows = self._complete(x, mask, draws, keys, *self._decoded(chosen))
            return Completions(rows, None, effective)
        decoded, log_ratio = self._from_encoder(x.flatten(1), mask, u, keys, draws)
        log_weights = None if log_ratio is None else self.temper * log_ratio
        return Completions(self._complete(x, mask, draws, keys, decoded), log_weights)

    @torch.no_grad()
    def means(
        self, x: Rows, mask: Mask, keys: Keys, tempers: Sequence[float], draws: int = 64
    ) -> Float[Tensor, "tempers batch m *event"]:
        """E[x' | x_S], what absent elements are expected to be; of one-hot blocks the shares.

        Several powers of the weights share their likelihoods.
        """
        # With a power of 0 the logarithm of 0, of codes that are left out, would be no number.
        powers = torch.tensor(tempers, device=x.device).clamp(min=1e-9)[:, None, None]
        if self.posterior == "bank":
            parts = ((powers * own).softmax(-1) for own in self._log_prob(x, mask, 1, 1.0))
            mean = self.bank.mean(parts).unflatten(1, mask.shape[:2])
        else:
            u = _random.uniform(_random.fold(keys, _COMPONENT), (), range(draws))
            product, log_ratio = self._from_encoder(x.flatten(1), mask, u, keys, range(draws))
            known = torch.zeros_like(u) if log_ratio is None else log_ratio
            weights = (powers[..., None] * known).softmax(-1)
            mean = torch.einsum("tbmk,bmke->tbme", weights, product.mean)
        return mean.unflatten(-1, self.players.event)

    def _log_prob(
        self, x: Tensor, mask: Tensor, run: int, temper: float
    ) -> Iterator[Float[Tensor, "some codes"]]:
        """τ log p(x_S|z) of all coalitions in turn, a part at a time.

        Each part takes the memory of the one before it.
        """
        if run == 1:
            most = min(self._coalitions_of(_PRODUCT_ELEMENTS_CPU), mask[..., 0].numel())
            held = self.bank.table.new_empty(most, len(self.bank))
            for own, coalitions in self._pairs(x, mask):
                tempered = self._tempered(own, coalitions, temper)
                log_prob = torch.mm(tempered, self.bank.table.T, out=held[: len(own)])
                yield self._as_long(own, log_prob)
            return
        for own, coalitions in zip(x.split(1), mask.split(1), strict=True):
            for similar in coalitions.split(run, 1):
                running = RunningLikelihood(self.bank.table)
                for pairs in self._pairs(own, similar):
                    yield self._as_long(pairs[0], running(self._tempered(*pairs, temper)))

    def _as_long(self, x: Float[Tensor, "some elements"], log_prob: Tensor) -> Tensor:
        """log p without the codes of rows that are shorter, which know nothing of what is behind.

        For a row that is longer than all of these, the codes of the longest ones remain.
        """
        if self.players.padding is not None:
            wanted = self.players.lengths(x.unflatten(1, self.players.event))
            wanted = wanted.clamp(max=self.lengths.max())
            log_prob.masked_fill_(self.lengths < wanted[:, None], -torch.inf)
        return log_prob

    def _pairs(self, x: Tensor, mask: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Rows `[some, elements]` with one coalition each, as many as may be weighted at a time."""
        flat, coalitions = x.flatten(1), mask.flatten(0, 1)
        numbers = torch.arange(len(coalitions), device=x.device)
        for some in numbers.split(self._coalitions_of(_PRODUCT_ELEMENTS_CPU)):
            yield flat[some // mask.shape[1]], coalitions[some]

    def _coalitions_of(self, elements_on_cpu: int) -> int:
        """Coalitions that have so many weights; on an accelerator, as many as it may hold."""
        on_cpu = self.device.type == "cpu"
        elements = elements_on_cpu if on_cpu else _WEIGHT_ELEMENTS_ACCELERATOR
        return max(1, elements // len(self.bank))

    def _chosen(
        self, parts: Iterator[Float[Tensor, "some codes"]], u: Float[Tensor, "batch m draws"]
    ) -> tuple[Int64[Tensor, "batch m draws"], Float[Tensor, "batch m"]]:
        """Codes at `u` of the distributions over the bank, and the effective number behind them.

        Args:
            parts: τ log p(x_S|z), which is overwritten.
            u: uniform numbers.
        """
        codes, most = len(self.bank), self._coalitions_of(_CHOICE_ELEMENTS_CPU)
        wanted = u.flatten(0, 1)
        held = u.new_empty(min(most, len(wanted)), codes)
        chosen, squares, first = [], [], 0
        for part in parts:
            for log_prob in part.split(most):
                weights = torch.softmax(log_prob, -1, out=log_prob)
                upper = torch.cumsum(weights, -1, out=held[: len(weights)])
                here = wanted[first : first + len(weights)] * upper[:, -1:]
                chosen.append(torch.searchsorted(upper, here))
                squares.append(weights.square_().sum(-1))
                first += len(weights)
        index = torch.cat(chosen).clamp_(max=codes - 1)
        return index.view(u.shape), torch.cat(squares).reciprocal_().view(u.shape[:2])

    def _decoded(
        self, chosen: Int64[Tensor, "batch m draws"]
    ) -> tuple[Product, Int64[Tensor, "batch m draws"]]:
        """The distributions of these codes, each once, and the number of each draw's own."""
        codes, place = chosen.unique(return_inverse=True)
        return self.bank[codes], place

    def _complete(
        self,
        x: Tensor,
        mask: Tensor,
        draws: range,
        keys: Tensor,
        decoded: Product,
        place: Tensor | None = None,
    ) -> CompletedRows:
        """Rows whose absent elements are drawn from these distributions; see `Product.quantile`."""
        elements = (self.players.index.numel(),)
        u = _random.uniform(_random.fold(keys, _ELEMENT), elements, draws)
        drawn = decoded.quantile(u, place)
        return self.splice(x, mask, drawn.unflatten(-1, self.players.event))

    def _from_encoder(
        self, x: Tensor, mask: Tensor, u: Tensor, keys: Tensor, draws: range
    ) -> tuple[Product, Tensor | None]:
        """p(x'|z) at draws of r(z|x_S), and log p(x_S|z) p(z) / r(z|x_S) where that weighs them."""
        r = self.network.encode_masked(x, mask)
        latent = _random.normal(_random.fold(keys, _LATENT), (self.network.latent,), draws)
        z = sample_mixture(r, u, latent)
        decoded = self.network.decode(z)
        if not self.importance:
            return decoded, None
        numbers = torch.arange(len(x), device=x.device).repeat_interleave(mask.shape[1])
        statistics = self._present(x[numbers], mask.flatten(0, 1)).unflatten(0, mask.shape[:2])
        likelihood = decoded.log_prob(statistics[:, :, None])
        proposed = r.log_prob(z.movedim(2, 0)).movedim(0, 2)
        return decoded, likelihood + prior_log_prob(z) - proposed

    def _tempered(self, x: Tensor, mask: Tensor, temper: float) -> Float[Tensor, "pairs f"]:
        # The temper goes to the statistics: they are far smaller than their product.
        return temper * self._present(x, mask)

    def _present(
        self, x: Float[Tensor, "pairs elements"], mask: Bool[Tensor, "pairs players"]
    ) -> Float[Tensor, "pairs f"]:
        """Statistics of the present elements, zero elsewhere."""
        present = mask[..., self.network.owner_of_statistic]
        return self.network.statistics(x) * present


def check_posterior(posterior: str, temper: float, importance: bool, bank_size: int | None) -> None:
    """Raise TypeError or ValueError unless a `VAEImputer` can draw codes with these settings."""
    check_choice("posterior", posterior, POSTERIORS)
    check_number("temper", temper, low=0)
    if check_flag("importance", importance) and posterior == "bank":
        raise ValueError(
            "Expected `importance` with posterior='encoder' but got it with posterior='bank', "
            "whose codes are weighted in any case; leave one of the two out."
        )
    if bank_size is not None:
        check_whole("bank_size", bank_size)
