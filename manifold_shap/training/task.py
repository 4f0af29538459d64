"""Learns a task: a network and its loss, with options that all trainings share."""

import json
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim import lr_scheduler

from manifold_shap._checks import check_seed, check_whole
from manifold_shap._messages import check_choice
from manifold_shap._saved import Passed
from manifold_shap._stored import StoredRows
from manifold_shap.io.files import digest
from manifold_shap.players import Players
from manifold_shap.spaces import OutputSpace
from manifold_shap.training.batches import Parts

# Learning rate schedules over all steps, by name.
SCHEDULES: Mapping[str, Callable[[torch.optim.Optimizer, float, int], lr_scheduler.LRScheduler]] = {
    "one_cycle": lambda optimizer, rate, steps: lr_scheduler.OneCycleLR(optimizer, rate, steps),
    "cosine": lambda optimizer, _, steps: lr_scheduler.CosineAnnealingLR(optimizer, steps),
    "constant": lambda optimizer, *_: lr_scheduler.ConstantLR(optimizer, factor=1.0),
}


@dataclass(kw_only=True)
class TrainingOptions:
    """Options that every training takes, and their usual values.

    Functions that train list them among their arguments; one that departs from a usual value has
    another default there.

    Attributes:
        learning_rate: the largest that the schedule reaches, for AdamW.
        weight_decay: of AdamW.
        schedule: of the learning rate: `one_cycle`, `cosine` or `constant`.
        batch_size: rows per step.
        max_epochs: passes over the training rows, at most.
        least_batches: of an epoch. Of a small table rows come several times in one, so that it is
            trained for more than a few steps and not validated after every few; with 1 an epoch is
            one pass.
        patience: epochs without a smaller validation loss after which training stops; the weights
            of the best epoch are kept. None trains all epochs and keeps the last weights.
        weight_averaging: decay of the exponential moving average of the weights, which is what is
            validated and kept; None for the plain weights.
        seed: of the initial weights, the batches, and what the loss draws.
        directory: keeps checkpoints, and an interrupted training found there is continued: one of
            the same rows and settings, but for those of the `trainer`, so that it may go on with
            another device or precision; clipping then holds from there on.
        trainer: arguments of `lightning.Trainer`, such as `{"accelerator": "gpu"}`; with
            `"devices": 2` a step is on `batch_size` rows of both together, and a script has its
            calls under `if __name__ == "__main__":`, since Lightning starts processes that import
            it (`ddp_spawn`; `"strategy"` chooses another way). Each of them draws coalitions by the
            step and its own number: of the same law as one process alone, but other ones.
        progress: whether a training of more than two seconds shows a progress bar; by default
            where a person looks, see `progress_bar`.

    Raises:
        TypeError: a number was expected but something else came.
        ValueError: a word is not known, or a value is out of range.

    >>> TrainingOptions(max_epochs=5).learning_rate
    0.002
    """

    learning_rate: float = 2e-3
    weight_decay: float = 0.01
    schedule: str = "one_cycle"
    batch_size: int = 256
    max_epochs: int = 30
    least_batches: int = 100
    patience: int | None = 20
    weight_averaging: float | None = 0.99
    seed: int = 0
    directory: str | Path | None = None
    trainer: Mapping[str, Any] | None = None
    progress: bool | None = None

    def __post_init__(self) -> None:
        # What AdamW, Lightning and pathlib refuse themselves is left to them.
        for name in ("batch_size", "max_epochs", "least_batches"):
            setattr(self, name, check_whole(name, getattr(self, name)))
        self.schedule = check_choice("schedule", self.schedule, tuple(SCHEDULES))
        self.seed = check_seed(self.seed)

    @classmethod
    def among(cls, arguments: Mapping[str, Any]) -> "TrainingOptions":
        """Those among the arguments of a function, its `locals()` when it begins.

        >>> TrainingOptions.among({"hidden": [8], "patience": 3}).patience
        3
        """
        names = [each.name for each in fields(cls)]
        return cls(**{name: arguments[name] for name in names if name in arguments})

    @property
    def settings(self) -> dict[str, Any]:
        """Those that decide what is learned, by name."""
        names = [each.name for each in fields(TrainingOptions)]
        return {name: getattr(self, name) for name in names if name not in _UNRECORDED}


# Options that do not decide what is learned, and are not recorded with it.
_UNRECORDED = ("directory", "trainer", "progress")
# Rows by which those that do not lie in memory are recognised.
_PROBES = 64

AnyTask = TypeVar("AnyTask", bound="Task")


class Task(nn.Module, ABC):
    """What a training learns: a network, its loss, and the settings that it is made from again.

    Attributes:
        kind: what is trained, as errors and saved files call it.
        settings: plain numbers, strings, lists and dicts; `type(task)(task.settings)` is the same
            task with other weights.

    Args:
        settings: those; among them the options of the training.
    """

    kind: str

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__()
        # By way of JSON: what numpy calls a string or a number, a safe loader would refuse.
        self.settings: dict[str, Any] = json.loads(json.dumps(dict(settings), default=_plain))

    @abstractmethod
    def loss(
        self, batch: tuple[Tensor, ...], generator: torch.Generator
    ) -> Float[Tensor, " batch"]:
        """The loss of each row of a batch.

        Args:
            batch: one tensor for each of those that the training was given.
            generator: the one source of random numbers, on the device of the task.
        """

    @property
    def players(self) -> Players:
        """The players, from the names, the index and the padding in the settings."""
        own = self.settings
        index = torch.tensor(own["index"]).reshape(own["event"])
        return Players(tuple(own["players"]), index, own["padding"])

    @property
    def inputs(self) -> tuple[list[int], list[int]]:
        """The shape of a row as the network sees it, and the player that owns each element."""
        own, elements = self.settings, self.settings.get("elements")
        return (own["event"], own["index"]) if elements is None else ([len(elements)], elements)

    @property
    def record(self) -> dict[str, Any]:
        """Of the training; nothing before it.

        `epochs` and `train_seconds`, those before an interruption included, and `validation`, the
        loss of the weights that were kept.
        """
        return self.settings.get("record", {})

    @property
    def center(self) -> Tensor | None:
        """What was subtracted from targets in double precision, see `center_of`."""
        own = self.settings.get("center")
        return None if own is None else torch.tensor(own, dtype=torch.float64)

    @classmethod
    def initial(cls: type[AnyTask], settings: Mapping[str, Any], *more: Any) -> AnyTask:
        """A task with initial weights by the seed in its settings; `more` are further arguments."""
        with seeded(settings["seed"]):
            return cls(settings, *more)

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Settings and weights, as `ms.save` writes them."""
        return self.settings, self.state_dict()

    @classmethod
    def restored(
        cls: type[AnyTask], settings: dict[str, Any], tensors: dict[str, Tensor], passed: Passed
    ) -> AnyTask:
        """A task of these; a network of the user's, and the model, are `passed`."""
        task = cls(settings, *cls.made_of(settings, passed))
        task.load_state_dict(tensors)
        return task.eval()

    @classmethod
    def made_of(cls, settings: Mapping[str, Any], passed: Passed) -> tuple[Any, ...]:
        """Further arguments, what the network is made of."""
        return ()

    def data_fingerprint(self, *parts: Tensor | StoredRows) -> str:
        """A checksum of what is learned from, by which an interrupted training is told from others.

        That are the parts, and all that the training begins with: weights, scales, a surrogate. Of
        rows that do not lie in memory it is their number, and 64 of them.
        """
        spread = torch.arange(_PROBES)
        seen = [
            part if isinstance(part, Tensor) else part[spread * len(part) // _PROBES]
            for part in parts
        ]
        begins = (weight for _, weight in sorted(self.state_dict().items()))
        return digest([len(part) for part in parts], *seen, *begins)

    def interrupted(self, path: Path) -> dict[str, Any] | None:
        """What an interrupted training of this task left in a file; None where there is no file.

        Raises:
            ValueError: it cannot be read, or was a training with other settings or other data.
        """
        if not path.exists():
            return None
        try:
            checkpoint = read_checkpoint(path)
        except Exception:  # torch advises to load the file unsafely, which is not repeated.
            raise ValueError(
                f"Expected {path} to be of an interrupted training but it is damaged, or names "
                "code, which is never run; remove it."
            ) from None
        changed = _changed(self.settings, checkpoint.get("hyper_parameters", {}))
        if changed:
            of_data = [
                "the training rows, what is learned of them, or the weights that it begins with"
            ]
            differs = ", ".join([name for name in changed if name != "data"] or of_data)
            raise ValueError(
                f"Expected {path.parent} to be empty or to hold an interrupted training of this "
                f"{self.kind}, but it is one that differs in: {differs}. Name another `directory`, "
                "or remove that one; a network of yours begins alike if a function makes it."
            )
        return checkpoint


def read_checkpoint(path: Path) -> dict[str, Any]:
    """A checkpoint of Lightning's; no code in it is run."""
    return torch.load(path, map_location="cpu", weights_only=True)


def _changed(here: Mapping[str, Any], there: Mapping[str, Any], group: str = "") -> list[str]:
    """Names of settings that differ, those in groups as `group.name`."""
    found = []
    for name, value in here.items():
        other = there.get(name)
        if isinstance(value, dict) and isinstance(other, dict):
            found += _changed(value, other, f"{group}{name}.")
        elif value != other:
            found.append(f"{group}{name}")
    return found


def _plain(value: Any) -> Any:
    """A list or a dict of another package, or a number of numpy, as JSON represents it."""
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, Sequence) else value.item()


def center_of(target: Float[Tensor, "rows outputs"], space: OutputSpace) -> list[float] | None:
    """What to subtract from targets of double precision; None for others, and for probabilities.

    Of numbers far from zero, such as times, single precision would hold little of how they differ.
    It is one of the targets: differences between numbers that are close to each other are exact.

    >>> from manifold_shap.spaces import Identity
    >>> center_of(torch.tensor([[1e9 + 1], [1e9 + 2]], dtype=torch.float64), Identity())
    [1000000001.0]
    """
    is_centred = target.dtype == torch.float64 and not space.on_simplex
    return target[0].tolist() if is_centred else None


def centred(target: Tensor, center: Tensor | None) -> Tensor:
    """Targets in single precision, around their center."""
    return target.float() if center is None else (target - center.to(target.device)).float()


def trained(task: AnyTask | None) -> AnyTask:
    """What something was trained as, to be saved.

    Raises:
        ValueError: it was put together by hand.
    """
    if task is None:
        raise ValueError(
            "Expected what was trained, or loaded, but this was put together by hand; save its "
            "network by `torch.save(network.state_dict(), path)`."
        )
    return task


def learn(task: Task, data: tuple[Parts, Parts], options: TrainingOptions) -> None:
    """Train a task until the last epoch, or until the validation loss no longer falls.

    After every epoch `best.ckpt` and `last.ckpt` are written. Where there is a `last.ckpt` of the
    same training, it is continued, with the same result as without the interruption.

    On several devices a step is on `batch_size` rows of all of them together, the same rows as on
    one; what the loss draws differs between them. Lightning starts the processes (`ddp_spawn`), or
    `torchrun` and the like do; then each of them has to call this, and ends with the same weights.

    Args:
        task: what to train; it ends on the CPU, with the weights that were kept and its `record`.
        data: rows to train on, and the same of held-out rows: tensors with one common first axis,
            or `StoredRows`; a batch is a tuple with a part of each.
        options: those of the training.

    Raises:
        ValueError: the loss is not finite; settings that Lightning or this machine refuses; the
            directory holds another training.
        OSError: no space for the checkpoints; the earlier ones stay.
        KeyboardInterrupt: on Ctrl-C; the best checkpoint so far stays in the directory.
    """
    from manifold_shap.training.runner import run

    if options.directory is not None:
        task.settings["data"] = task.data_fingerprint(*data[0], *data[1])
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(options.directory or scratch).expanduser()
        kept, epochs, seconds = run(task, data, directory, options)
    weights = kept["state_dict"].items()
    task.load_state_dict({name.removeprefix("task."): weight for name, weight in weights})
    task.eval().cpu()
    record = {"epochs": epochs, "train_seconds": seconds, "validation": kept["validation"]}
    task.settings["record"] = record


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's global generators, and restore their state afterwards.

    >>> with seeded(0):
    ...     first = torch.rand(2)
    >>> with seeded(0):
    ...     assert torch.equal(torch.rand(2), first)
    """
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        yield


def squared_error(found: Tensor, target: Tensor, scale: Tensor | None) -> Tensor:
    """Squares of what a network has missed.

    Args:
        found, target: outputs on their last axis.
        scale: of each output, to divide by the root mean square of: then steps are the same for any
            unit of a regression, and squares of large numbers no overflow.

    >>> y = torch.tensor([[1e-6, 1e-6], [1e25, 1e25]])
    >>> [round(squared_error(0.9 * own, own, scale=own).sum().item(), 4) for own in y]
    [0.02, 0.02]
    """
    missed = found - target
    if scale is None:
        return missed.square()
    largest = scale.max()
    return (missed / largest / (scale / largest).square().mean().sqrt()).square()
