"""Saves explainers to folders, and loads them."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from torch import Tensor

from manifold_shap.folder import read, read_model, save, value_from
from manifold_shap.io.files import digest
from manifold_shap.models import Model, as_model
from manifold_shap.models.files import load_model
from manifold_shap.quality import Quality
from manifold_shap.surrogate.distillation import disagreement
from manifold_shap.tables.codebook import Codebook
from manifold_shap.values import ValueFunction

AnyExplainer = TypeVar("AnyExplainer", bound="SavedExplainer")


class SavedExplainer:
    """What of an explainer a folder holds, and how it gets there and back."""

    seed: int
    quality: Quality
    codebook: Codebook
    model: Model
    value: Any
    candidates: Any
    _probe: Tensor

    def save(self, folder: str | Path, *, model_file: str | Path | None = None) -> None:
        """Write all but the model to a folder, whole or not at all; `load` reads it.

        It holds the configuration, the values of the frame's cells, a few rows to recognise the
        model by and, where an imputer was chosen, all rows that it draws from: it is as
        confidential as the frame.

        Args:
            folder: to be made, on this machine; one that an explainer was saved to is replaced,
                unless other files lie there now. A link is followed.
            model_file: a file of the model that `load_model` reads, such as `model.skops`, to be
                copied into the folder: then nobody has to pass the model.

        Raises:
            FileExistsError: something else stands at `folder`.
            FileNotFoundError: no `model_file` is there.
            ValueError: it is of a kind that may run code, damaged, another model, or needs files
                beside it; `folder` is a URL.
            OSError: no space or no permission; what stood there is left as it was.
        """
        about: dict[str, Any] = {
            "seed": self.seed,
            "quality": self.quality.to_dict(),
            "model": {"classes": list(self.model.classes), "returns": self.model.returns},
        }
        files: dict[str, bytes] = {}
        if model_file is not None:
            name = f"model{Path(model_file).suffix.lower()}"
            files[name] = self._checked_model(model_file)
            about["model"]["file"] = {"name": name, "digest": digest(files[name])}
        save(folder, self.value, self._probe, about, files)

    @classmethod
    def load(
        cls: type[AnyExplainer],
        folder: str | Path,
        model: Any = None,
        *,
        model_batch_size: int | None = None,
    ) -> AnyExplainer:
        """The explainer that `save` wrote.

        Args:
            folder: where it was saved; no code in it is run.
            model: the model that it was made for; by default the one in the folder, where it was
                saved with a `model_file`.
            model_batch_size: most rows in one call of the model.

        Raises:
            FileNotFoundError: no such folder.
            ValueError: it is damaged, was made for another model or table, or has no model.
        """
        plain, tensors = read(folder)
        model = read_model(folder, plain["model"].get("file")) if model is None else model
        self = cls.__new__(cls)
        self.seed, self.quality = plain["seed"], Quality(**plain["quality"])
        self.codebook = Codebook.from_dict(plain["codebook"])
        names, returns = plain["model"]["classes"], plain["model"]["returns"]
        self._probe = tensors["probe"]
        self.model = as_model(model, self._probe, names, returns, model_batch_size, self.codebook)
        self.value = value_from(plain, tensors, self.model, self.codebook)
        self.value.quality = self.quality.to_dict()
        self.candidates = {self.quality.chosen: self.value}
        return self

    def _checked_model(self, path: str | Path) -> bytes:
        """What is in a file, which by itself holds the model that is explained.

        Raises:
            ValueError: it does not.
        """
        load_model(path)  # What is wrong with the file itself is told of its own path.
        content = Path(path).read_bytes()
        own, size = self.model, self.model.batch_size
        loaded = _alone(path, content)
        model = as_model(loaded, self._probe, own.classes, own.returns, size, self.codebook)
        game: ValueFunction = self.value
        scale = game.space.takes
        found = model(self._probe, scale=scale)
        if gap := disagreement(found, own(self._probe, scale=scale)):
            raise ValueError(
                f"Expected `model_file` to hold the model that is explained but {path} predicts "
                f"otherwise (by up to {gap:.3g} on the rows kept for that check); write that model "
                "to the file."
            )
        return content


def _alone(path: str | Path, content: bytes) -> Any:
    """The model that a file holds without those beside it, in which ONNX may keep weights.

    Raises:
        ValueError: it needs them.
    """
    with TemporaryDirectory() as empty:
        copy = Path(empty) / Path(path).name
        copy.write_bytes(content)
        try:
            return load_model(copy)
        except ValueError as error:
            raise ValueError(
                f"Expected `model_file` to hold all of the model but {path} needs files beside it, "
                "as ONNX with external data does; write one file of it by "
                "`onnx.save(onnx.load(path), path, save_as_external_data=False)`."
            ) from error
