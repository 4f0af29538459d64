"""Training an imputer: from unlabelled rows to p(x'|x_S), for any model."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torchmetrics import MeanMetric

from manifold_shap._checks import check_rows, to_tensor
from manifold_shap.coalitions import SizeUniform
from manifold_shap.players import Players
from manifold_shap.spaces import OutputSpace, as_space
from manifold_shap.tables.schema import Schema
from manifold_shap.training.loop import (
    Task,
    Training,
    check_continues,
    load_task,
    seeded,
    train_on,
    training_rows,
)
from manifold_shap.vae.families import choose_families
from manifold_shap.vae.imputer import VAEImputer, check_posterior
from manifold_shap.vae.network import MaskedVAE
from manifold_shap.vae.tempering import choose_temper
from manifold_shap.values import model_for

# From so many elements on a row is an image, or as rich as one, and needs wider networks.
_MANY_ELEMENTS = 100
_NARROW: dict[str, Any] = {"latent": 16, "hidden": (256, 256)}
_WIDE: dict[str, Any] = {"latent": 32, "hidden": (512, 512)}


class VAETask(Task):
    """A masked-encoder VAE, by the bound of Frye et al. (2021), Eq. (14), with β and r.

    Batches are `(x,)`. Every row meets an antithetic pair of coalitions of the Shapley sum per
    step. The draws are a function of seed and step, so that a resumed training repeats them.

    Args:
        event: shape of one input row.
        index: player that owns each of the flattened input elements.
        players: names.
        families: distributions of the elements; see `choose_families`.
        latent, hidden, components, fill, activation: see `MaskedVAE`.
        beta: weight β of KL(q || p(z)).
        detach: whether KL(q || r) trains the masked encoder r alone.
        learning_rate, weight_decay, schedule: see `ClassifierTask`.
        seed: of the coalitions and the codes.
        schema: columns of the table, as plain data, where the rows come from one.
        loop: settings of the training loop, for the record.
    """

    kind = "vae"
    moments: Tensor

    def __init__(
        self,
        event: Sequence[int],
        index: Sequence[int],
        players: Sequence[str],
        families: Sequence[Sequence[Any]],
        latent: int,
        hidden: Sequence[int],
        components: int,
        fill: float | None = None,
        activation: str = "relu",
        beta: float = 1.0,
        detach: bool = True,
        learning_rate: float = 2e-3,
        weight_decay: float = 0.01,
        schedule: str = "one_cycle",
        seed: int = 0,
        schema: Mapping[str, Any] | None = None,
        loop: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.save_hyperparameters()
        if not beta >= 0:
            raise ValueError(f"Expected `beta` to be at least 0 but got {beta}.")
        self.network = MaskedVAE(families, index, latent, hidden, components, fill, activation)
        self.register_buffer("moments", torch.zeros(2, *event))
        self.law = SizeUniform(len(players))
        self.validation = MeanMetric()

    @torch.no_grad()
    def describe(self, x: Float[Tensor, "rows *event"]) -> None:
        """Take from training rows what the file must know of them: units, means and spreads."""
        self.network.likelihood.describe(x.flatten(1))
        self.moments.copy_(torch.stack((x.mean(0), x.std(0, correction=0))))

    def training_step(self, batch: tuple[Tensor, ...], batch_idx: int) -> Tensor:
        return self._loss(batch[0], self.global_step).mean()

    def validation_step(self, batch: tuple[Tensor, ...], batch_idx: int) -> None:
        # Negative numbers are never a training step: the same fixed draws every epoch.
        self.validation.update(self._loss(batch[0], -1 - batch_idx))

    def on_validation_epoch_end(self) -> None:
        self.log("validation", self.validation.compute())
        self.validation.reset()

    def _loss(self, x: Tensor, step: int) -> Float[Tensor, " batch"]:
        seed = (self.hparams["seed"] * 1_000_003 + step) % 2**63
        generator = torch.Generator(self.device).manual_seed(seed)
        mask = self.law.sample_antithetic((len(x),), generator)
        shape = (len(x), self.hparams["latent"])
        noise = torch.randn(shape, generator=generator, device=self.device)
        beta, detach = self.hparams["beta"], self.hparams["detach"]
        return self.network.loss(x.flatten(1), mask, noise, beta, detach)


def fit_imputer(
    x_train: Any,
    *,
    x_validation: Any = None,
    players: Players | None = None,
    schema: Schema | None = None,
    posterior: str = "bank",
    temper: float | None = None,
    model: Any = None,
    output: str | OutputSpace = "probability",
    importance: bool = False,
    bank_size: int | None = None,
    continuous: str = "auto",
    bins: int = 32,
    least_scale: float = 0.05,
    latent: int | None = None,
    hidden: Sequence[int] | None = None,
    components: int = 4,
    fill: float | None = None,
    activation: str = "relu",
    beta: float = 1.0,
    detach: bool = True,
    learning_rate: float = 2e-3,
    weight_decay: float = 0.01,
    schedule: str = "one_cycle",
    batch_size: int = 256,
    max_epochs: int = 20,
    patience: int | None = None,
    weight_averaging: float | None = 0.99,
    seed: int = 0,
    directory: str | Path | None = None,
    trainer: Mapping[str, Any] | None = None,
    progress: bool = False,
) -> VAEImputer:
    """Learn p(x'|x_S) of the data by a masked-encoder VAE; no model and no labels are needed.

    Args:
        x_train: rows of the data distribution, `[rows, *event]`.
        x_validation: rows for early stopping and the choice of `temper`; by default a tenth of
            `x_train`, held out.
        players: who plays; by default every element of a row on its own.
        schema: columns of the table behind `x_train`: they decide the decoder's distributions.
            Without one, elements that are always 0 or 1 are Bernoulli and the others continuous.
        posterior: how codes are drawn given x_S: `bank` weighs the codes of training rows,
            `encoder` asks the masked encoder, which is faster and less accurate.
        temper: power τ of the weights; by default chosen on validation rows, see `choose_temper`.
        model, output: a model whose outputs, in this space, decide on `temper`; it is not kept, and
            any other model can be explained as well.
        importance: weigh the draws of the encoder posterior by p(x_S|z) p(z) / r(z|x_S).
        bank_size: most codes in the bank; see `VAEImputer`.
        continuous: `normal`, `quantile` (bins between quantiles, which fits peaks and skew), or
            `auto`: `quantile` for columns of a table that have a peak.
        bins: quantile bins per column, at most; frequent values have bins of their own besides.
        least_scale: smallest scale of a normal element, in standard deviations of the data.
        latent, hidden: see `MaskedVAE`; by default 16 and (256, 256), or 32 and (512, 512) for rows
            of a hundred elements or more.
        components, fill, activation: see `MaskedVAE`.
        beta, detach: see `MaskedVAE.loss`.
        learning_rate, weight_decay, schedule: AdamW; `one_cycle`, `cosine` or `constant`.
        batch_size: rows per step; each meets two coalitions.
        max_epochs: epochs, at most; on small data one is 100 batches long.
        patience: epochs without a smaller validation loss before training stops. By default it goes
            on to the end: on small tables the bound begins to rise while imputation still improves.
        weight_averaging: decay of the averaged weights that are kept; None for plain ones.
        seed: of the initial weights, batches, coalitions and codes.
        directory: keeps checkpoints, and continues an interrupted training found there.
        trainer: arguments of `lightning.Trainer`, such as `{"accelerator": "gpu"}`.
        progress: show a bar on work of more than two seconds.

    Returns:
        An imputer on the CPU; `imputed_value(model, imputer)` makes it a value function.

    Raises:
        TypeError, ValueError: rows that are not finite or of another shape, an argument out of
            range, a `directory` with another training.
        KeyboardInterrupt: on Ctrl-C; the best checkpoint so far stays in `directory`.
    """
    chosen: dict[str, Any] = {
        "posterior": posterior,
        "importance": importance,
        "bank_size": bank_size,
    }
    check_posterior(temper=1.0 if temper is None else temper, **chosen)
    players = players or Players.of_elements(to_tensor(x_train, "x_train").shape[1:])
    x_train, x_validation = training_rows(x_train, x_validation, players, seed)
    if model is not None:
        model = model_for(model, x_train, as_space(output))
    index = players.index.flatten().tolist()
    families = choose_families(x_train, schema, continuous, bins, least_scale, index)
    usual = _WIDE if len(index) >= _MANY_ELEMENTS else _NARROW
    loop: dict[str, Any] = {
        "batch_size": batch_size,
        "max_epochs": max_epochs,
        "patience": patience,
        "weight_averaging": weight_averaging,
    }
    with seeded(seed):
        task = VAETask(
            event=list(players.event),
            index=index,
            players=list(players.names),
            families=families,
            latent=usual["latent"] if latent is None else latent,
            hidden=list(usual["hidden"] if hidden is None else hidden),
            components=components,
            fill=fill,
            activation=activation,
            beta=beta,
            detach=detach,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            schedule=schedule,
            seed=seed,
            schema=schema.to_dict() if schema else None,
            loop=loop,
        )
    task.describe(x_train)
    if directory is not None:
        check_continues(Path(directory) / "last.ckpt", task.kind, task, ("moments",))
    training = train_on(
        task,
        (x_train,),
        (x_validation,),
        directory,
        seed=seed,
        trainer=trainer,
        progress=progress,
        **loop,
    )
    imputer = VAEImputer(task.network, x_train, players, seed=seed, **chosen)
    if temper is not None:
        imputer.temper = temper
    elif imputer.is_weighted:
        imputer.temper = choose_temper(imputer, x_validation, model, output, seed)
    _remember(imputer, training)
    return imputer


def _remember(imputer: VAEImputer, training: Training) -> None:
    """Give an imputer what `save` writes, and the record of its training."""
    task = training.task
    imputer.checkpoint = {
        "kind": task.kind,
        "hyper_parameters": dict(task.hparams),
        "state_dict": task.state_dict(),
        "imputer": imputer.settings,
    }
    imputer.training_record = training.record


def load_imputer(path: str | Path, reference: Any, **settings: Any) -> VAEImputer:
    """The imputer that `VAEImputer.save` or a training wrote.

    Args:
        path: the checkpoint; no code in it is run.
        reference: the training rows: they are not in the file. Their codes are the bank, and v(∅)
            is the mean over them.
        settings: `posterior`, `temper`, `importance`, `bank_size` or `seed`, where others than
            those of the training are wanted.

    Raises:
        FileNotFoundError: no file is there.
        ValueError: it is damaged or foreign, or was trained on rows of another shape.
    """
    task, checkpoint = load_task(path, VAETask, "imputer")
    made = task.hparams
    players = Players(tuple(made["players"]), torch.tensor(made["index"]).reshape(made["event"]))
    rows = check_rows(reference, players, "reference")
    _check_alike(rows, task.moments, path)
    # The checkpoint of an interrupted training has no such settings yet.
    recorded = dict(checkpoint.get("imputer", {}))
    if {"posterior", "importance"} & set(settings):
        recorded.pop("temper", None)  # It was chosen for other weights.
    imputer = VAEImputer(task.network, rows, players, **{**recorded, **settings})
    imputer.checkpoint = {**checkpoint, "imputer": imputer.settings}
    return imputer


def _check_alike(rows: Tensor, moments: Tensor, path: str | Path) -> None:
    """Raise if reference rows are plainly not encoded as the training rows were."""
    mean, spread = moments
    gap = (rows.mean(0) - mean).abs()
    unlike = gap > 3 * spread + 1e-3 * mean.abs() + 1e-6
    if bool(unlike.any()):
        raise ValueError(
            f"Expected `reference` rows like those that the imputer in {path} was trained on, but "
            f"the means of {int(unlike.sum())} of {unlike.numel()} elements are more than three "
            "standard deviations away; pass the training rows, encoded by the same schema."
        )
