"""Trains a VAE imputer, and chooses the power of its weights: from unlabelled rows to p(x'|x_S)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap._checks import check_number
from manifold_shap._messages import check_flag
from manifold_shap._saved import Passed, saved
from manifold_shap._stored import StoredRows, sample_of, with_extremes
from manifold_shap.coalitions import Coalitions, Listed
from manifold_shap.imputers import TableImputer
from manifold_shap.imputers.base import Keys, Mask, Rows
from manifold_shap.laws import SizeUniform
from manifold_shap.nn import Network, kind_of, passed_again, units
from manifold_shap.players import Players
from manifold_shap.spaces import OutputSpace, as_space
from manifold_shap.tables.rows import elements_of, encoded
from manifold_shap.training.rows import (
    seen_rows,
    training_rows,
    without_padding,
)
from manifold_shap.training.task import (
    Task,
    TrainingOptions,
    learn,
)
from manifold_shap.vae.families import choose_families
from manifold_shap.vae.imputer import VAEImputer, check_posterior
from manifold_shap.vae.network import MaskedVAE
from manifold_shap.vae.networks import NAMED, network_options
from manifold_shap.values import imputed_value, model_for, table_behind
from manifold_shap.values.batches import Batches

if TYPE_CHECKING:
    from manifold_shap.tables.base import RowAdapter

# Powers of the weights to choose from, and pairs of a row and a coalition to choose by; draws for
# each of them where a model's outputs decide.
TEMPERS = (0.2, 0.35, 0.6, 1.0)

_PAIRS = 512
_DRAWS = 32


# The settings that are arguments of `MaskedVAE`.
_OF_NETWORK = ("families", "network", "latent", "hidden", "components", "fill", "activation")


@saved
class VAETask(Task):
    """A masked-encoder VAE, by the bound of Frye et al. (2021), Eq. (14), with β and r.

    Batches are `(x,)`, with x as the network sees it. Every row meets an antithetic pair of
    coalitions of the Shapley sum per step.

    Settings: `event`, the shape of one input row; `index`, the player that owns each of its
    flattened elements; `elements`, that of each element of a row of codes once it is encoded, or
    None; the names of `players`; the `families`
    of the elements, see `choose_families`; other arguments of `fit_imputer`; and the `posterior`
    that the training is for: with `bank` there is no masked encoder.

    Args:
        settings: those.
        network: of the user's, where it is one.
    """

    kind = "vae"
    moments: Tensor

    def __init__(self, settings: Mapping[str, Any], network: Any = None) -> None:
        super().__init__(settings)
        own = self.settings
        event, index = self.inputs
        made = {name: own[name] for name in _OF_NETWORK}
        if own["network"] == "own":
            made["network"] = network
        if own.get("posterior") == "bank":
            made["components"] = None
        self.network = MaskedVAE(index=index, event=event, padding=own["padding"], **made)
        self.register_buffer("moments", torch.zeros(2, *event))
        self.law = SizeUniform(len(own["players"]))

    @classmethod
    def made_of(cls, settings: Mapping[str, Any], passed: Passed) -> tuple[Any, ...]:
        return (passed_again(settings["network"], passed.network),)

    def imputer(
        self, rows: Any, table: "RowAdapter | None", **drawn: Any
    ) -> VAEImputer | TableImputer:
        """The imputer that draws codes of these rows.

        Args:
            rows: those of the training, or ones like them; codes where there is a table.
            table: of the codes.
            drawn: how codes are drawn, see `VAEImputer`.

        Raises:
            ValueError: rows of other units, or encoded otherwise, than those of the training.
        """
        seen = seen_rows(rows, table)
        mean, spread = self.moments
        gap = (sample_of(seen).mean(0) - mean).abs()
        unlike = gap > 3 * spread + 1e-3 * mean.abs() + 1e-6
        if bool(unlike.any()):
            raise ValueError(
                "Expected rows like those that the imputer was trained on but the means of "
                f"{int(unlike.sum())} of {unlike.numel()} elements are more than three standard "
                "deviations away; pass the training rows, encoded by the same table."
            )
        vae = VAEImputer(self.network, seen, elements_of(self.players, table), **drawn)
        vae.task = self
        return vae if table is None else TableImputer(table, vae, sample_of(rows))

    @torch.no_grad()
    def fit_statistics(self, rows: Tensor | StoredRows) -> None:
        """Take units from training rows, and the moments by which to recognise them."""
        used = without_padding(with_extremes(rows), self.network.players)
        self.network.likelihood.describe(used.flatten(1))
        self.moments.copy_(torch.stack(torch.std_mean(sample_of(rows), 0, correction=0)[::-1]))

    def loss(
        self, batch: tuple[Tensor, ...], generator: torch.Generator
    ) -> Float[Tensor, " batch"]:
        (x,) = batch
        mask = self.law.sample_antithetic((len(x),), generator)
        shape = (len(x), self.settings["latent"])
        noise = torch.randn(shape, generator=generator, device=x.device)
        beta, detach = self.settings["beta"], self.settings["detach"]
        return self.network.loss(x.flatten(1), mask, noise, beta, detach)


@torch.inference_mode(False)
def fit_imputer(
    x_train: Any,
    *,
    x_validation: Any = None,
    players: Players | Mapping[str, Any] | None = None,
    table: "RowAdapter | None" = None,
    posterior: str = "bank",
    temper: float | None = None,
    importance: bool = False,
    bank_size: int | None = None,
    model: Any = None,
    space: str | OutputSpace = "probability",
    continuous: str = "auto",
    bins: int = 32,
    least_scale: float = 0.05,
    network: Network = "mlp",
    latent: int | None = None,
    hidden: Sequence[int] | None = None,
    components: int = 4,
    fill: float | None = None,
    activation: str | None = None,
    beta: float = 1.0,
    detach: bool = True,
    learning_rate: float = 2e-3,
    weight_decay: float = 0.01,
    schedule: str = "one_cycle",
    batch_size: int = 256,
    max_epochs: int = 20,
    least_batches: int = 100,
    patience: int | None = None,
    weight_averaging: float | None = 0.99,
    seed: int = 0,
    directory: str | Path | None = None,
    trainer: Mapping[str, Any] | None = None,
    progress: bool | None = None,
) -> VAEImputer | TableImputer:
    """Learn p(x'|x_S) of the data by a masked-encoder VAE; no model and no labels are needed.

    The method is that of Frye et al. (2021), Section 4.1 and Appendix A. Of a cell of a table it
    learns whether it is missing and, if not, its value: a date is a number of days, and a category
    is drawn as one of those that there are.

    Args:
        x_train: rows of the data distribution, `[rows, *event]`, or a frame. Of what else
            `fit_surrogate` gathers batch by batch, the imputer keeps the codes of all rows that the
            bank has room for, and of the rows themselves 16 MB that stand for all.
        x_validation: rows for early stopping and the choice of `temper`; by default a tenth of
            `x_train`, held out.
        players: see `Players`; by default columns of the table, pixels or elements of a row. Of
            a frame also groups of columns, `{"size": ["length", "width"]}`.
        table: columns of the table behind `x_train`, or the table whose codes its rows are:
            they decide the decoder's distributions. By default a table for a frame; without any,
            elements that are always 0 or 1 are Bernoulli and the others continuous.
        posterior: how codes are drawn given x_S: `bank` weighs the codes of training rows,
            `encoder` draws from the masked encoder, which is faster and less accurate. Its training
            takes as long again, and is left out where nothing reads it: with `bank`, unless
            `detach` is False. What was trained with `encoder` serves for either:
            `imputer.task.imputer(x_train, None, posterior="bank", temper=0.5)`.
        temper: power τ of the weights; by default chosen on validation rows, see `choose_temper`.
        importance: weigh the draws of the encoder posterior by p(x_S|z) p(z) / r(z|x_S).
        bank_size: most codes in the bank; see `VAEImputer`.
        model, space: a model whose outputs, in this space, decide on `temper`; it is not kept, and
            any other model can be explained as well.
        continuous: the distribution of continuous elements: `normal` (of a table that of their
            normal scores, so that draws stay between the values that were observed), `quantile`
            (bins between quantiles, which fits peaks), or `auto`: `quantile` for columns of a table
            that have a peak.
        bins: most quantile bins of a column; frequent values have bins of their own besides.
        least_scale: smallest scale of a normal element, in standard deviations of the scores.
        network: what is trained:
            - "mlp": fully connected networks;
            - "conv": convolutional ones, for pictures `(channels, height, width)` and series
              `(channels, time)`;
            - a function of the shapes of a row in and out, `network((12,), (32,))`, that makes a
              torch module of vectors: it is asked for an encoder of the features of a row, a
              decoder and, where there is one, a masked encoder of present features and the mask.
        latent, hidden: see `MaskedVAE`. Where rows have a hundred elements or more, None is 32, and
            widths of (512, 512) or, of convolutions, (32, 64, 64) channels; for shorter rows 16,
            and (256, 256) or (32, 64).
        components, fill: of the masked encoder, see `MaskedVAE`; of no effect where there is none.
        activation: see `MaskedVAE`; by default `relu`.
        beta: see `MaskedVAE.loss`.
        detach: see `MaskedVAE.loss`. There is a masked encoder with `posterior="encoder"`, whose
            training it is, or with False.
        max_epochs, patience: see `TrainingOptions`. On small tables the bound begins to rise while
            imputation still improves, so that the training does not stop early.
        learning_rate, weight_decay, schedule, batch_size: see `TrainingOptions`.
        least_batches, weight_averaging: see `TrainingOptions`.
        seed, directory, trainer, progress: see `TrainingOptions`.

    Returns:
        An imputer on the CPU; `imputed_value(model, imputer)` makes it a value function. For a
        frame it is a `TableImputer` around the VAE.

    Raises:
        TypeError, ValueError: rows that are not finite or of another shape, an argument that is
            unknown or out of range, a training that diverges, a `directory` with another training.
        KeyboardInterrupt: on Ctrl-C; the best checkpoint so far stays in `directory`.

    >>> x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    >>> few = {"max_epochs": 1, "trainer": {"accelerator": "cpu", "limit_train_batches": 5}}
    >>> imputer = fit_imputer(x, latent=2, hidden=[8], temper=1.0, bank_size=64, **few)
    >>> mask, keys = torch.tensor([[[True, False, False]]]), torch.tensor([[0]])
    >>> from manifold_shap.coalitions import Listed
    >>> imputer.impute(x[:1], Listed(mask, keys), range(5)).rows.shape
    torch.Size([1, 1, 5, 3])
    """
    options = TrainingOptions.among(locals())
    drawn: dict[str, Any] = {
        "posterior": posterior,
        "importance": importance,
        "bank_size": bank_size,
    }
    check_posterior(temper=1.0 if temper is None else temper, **drawn)
    check_number("beta", beta, low=0)
    trained_for = posterior if check_flag("detach", detach) else "encoder"
    table = table or table_behind(model)
    rows = training_rows(x_train, x_validation, seed, players, table)
    seen, seen_validation = rows.encoded
    if model is not None:
        model = model_for(model, rows.train[:64], as_space(space), rows.table)
    inputs = elements_of(rows.players, rows.table)
    index = inputs.index.flatten().tolist()
    known = without_padding(with_extremes(seen), inputs)
    kind = kind_of(network, NAMED)
    settings = {
        **rows.settings,
        **options.settings,
        **network_options(kind, len(index), latent, hidden, activation),
        "families": choose_families(known, index, continuous, bins, least_scale),
        "continuous": continuous,
        "bins": bins,
        "least_scale": least_scale,
        "components": components,
        "fill": fill,
        "beta": beta,
        "detach": detach,
        "posterior": trained_for,
    }
    task = VAETask.initial(settings, network)
    task.fit_statistics(seen)
    learn(task, ((seen,), (seen_validation,)), options)
    imputer = task.imputer(rows.train, rows.table, seed=seed, **drawn)
    vae = _vae_of(imputer)
    if temper is not None:
        vae.temper = float(temper)
    elif vae.is_weighted:
        vae.temper = choose_temper(imputer, rows.validation, model, space, seed)
    return imputer


def choose_temper(
    imputer: VAEImputer | TableImputer,
    x: Tensor | StoredRows,
    model: Any = None,
    space: str | OutputSpace = "probability",
    seed: int = 0,
) -> float:
    """The largest power τ whose error on these rows is within one standard error of the least.

    p(x_S|z) is a product over elements and, with hundreds of them, over-confident; τ < 1 tempers
    it. With a model, the error is that of its imputed outputs (Frye et al. 2021, Eq. 16). Without,
    it is the same for a model that returns its input: that of the mean of the absent elements, in
    units of their spread. The standard error is that of the difference, over rows. The largest
    power is the closest to the posterior itself, τ = 1, and a few rows do not decide by chance.
    """
    rows = x[:_PAIRS].to(imputer.device)
    coalitions = -(-_PAIRS // len(rows))
    generator = torch.Generator().manual_seed(seed)
    mask = SizeUniform(len(imputer.players)).sample((len(rows), coalitions), generator)
    keys = torch.arange(mask[..., 0].numel()).view(mask.shape[:2])
    mask, keys = mask.to(rows.device), keys.to(rows.device)
    vae = _vae_of(imputer)
    if model is None:
        return largest_good(_errors_of_means(vae, encoded(rows, imputer.table), mask, keys))
    value = imputed_value(model, imputer, space, _DRAWS, seed)

    def gap(x: Rows, some: Coalitions) -> Tensor:
        return value(x, some.masks(), some.each_key()) - value.prediction(x)[:, None]

    errors = []
    for temper in TEMPERS:
        vae.temper = temper
        gaps = Batches(value)(gap, rows, Listed(mask, keys))
        errors.append(gaps.square().mean((1, 2)).cpu())
    return largest_good(torch.stack(errors))


def largest_good(errors: Float[Tensor, "tempers rows"]) -> float:
    """The largest of `TEMPERS` within one standard error of the one with the least mean error."""
    worse = errors - errors[errors.mean(1).argmin()]
    uncertain = worse.std(1) / worse.shape[1] ** 0.5 if worse.shape[1] > 1 else worse.new_zeros(1)
    good = (worse.mean(1) <= uncertain).nonzero()
    return TEMPERS[int(good.max())]


def _errors_of_means(
    vae: VAEImputer, x: Rows, mask: Mask, keys: Keys
) -> Float[Tensor, "tempers batch"]:
    """Errors of a model that returns its input, whose outputs need no draws."""
    gap = (vae.means(x, mask, keys, TEMPERS) - x[:, None]) / units(vae.reference)[1]
    return (gap.square() * ~vae.present(x, mask)).flatten(2).mean(2).cpu()


def _vae_of(imputer: VAEImputer | TableImputer) -> VAEImputer:
    return cast(VAEImputer, imputer.inner) if isinstance(imputer, TableImputer) else imputer
