"""Saves explainers to folders and to the Hugging Face hub, and loads them."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from torch import Tensor

from manifold_shap._messages import check_text
from manifold_shap.folder import read, read_model, save, value_from
from manifold_shap.io.files import digest
from manifold_shap.model_card import model_card
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
        confidential as the frame. Its `README.md` is a model card of the measured quality.

        Args:
            folder: to be made, on this machine; one that an explainer was saved to is replaced, its
                `README.md` included, unless other files lie there now. A link is followed.
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
        name = None
        if model_file is not None:
            name = f"model{Path(model_file).suffix.lower()}"
            files[name] = self._checked_model(model_file)
            about["model"]["file"] = {"name": name, "digest": digest(files[name])}
        files["README.md"] = model_card(self.value, self.quality, name).encode()
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

    def save_pretrained(self, folder: str | Path, *, model_file: str | Path | None = None) -> None:
        """`save`, by the name that libraries of the Hugging Face hub have for it."""
        self.save(folder, model_file=model_file)

    @classmethod
    def from_pretrained(
        cls: type[AnyExplainer],
        name: str | Path,
        model: Any = None,
        *,
        revision: str | None = None,
        token: str | bool | None = None,
        cache_dir: str | Path | None = None,
        local_files_only: bool = False,
        model_batch_size: int | None = None,
    ) -> AnyExplainer:
        """The explainer in a folder, or in a repository of the Hugging Face hub.

        Args:
            name: a folder that is there, else a repository, `user/name`.
            model, model_batch_size: see `load`.
            revision: branch, tag or commit of the repository; by default its main branch.
            token: of the hub; by default that of `hf auth login`.
            cache_dir: where the hub's files are kept; by default where its own library keeps them.
            local_files_only: whether to take only what is kept there, without a connection.

        Raises:
            ImportError: for a repository, huggingface_hub is not there.
            FileNotFoundError: no such folder or repository, or it holds no explainer.
            ConnectionError: the hub cannot be reached.
            OSError: no space or no permission for what it sends.
            ValueError: no name of a repository; see `load` besides.
        """
        from manifold_shap.exports.hub import fetched

        found = Path(check_text("name", name))
        if found.is_file():
            raise ValueError(
                f"Expected a folder, or the name of a repository on the Hugging Face hub, but "
                f"{name} is a file; name the folder that the explainer was saved to."
            )
        if not found.is_dir():
            found = fetched(str(name), revision, token, cache_dir, local_files_only)
        return cls.load(found, model, model_batch_size=model_batch_size)

    def push_to_hub(
        self,
        repo_id: str,
        *,
        model_file: str | Path | None = None,
        private: bool = True,
        token: str | bool | None = None,
        commit_message: str = "Upload an explainer",
    ) -> str:
        """Save to a repository of the Hugging Face hub, which is made where there is none.

        Args:
            repo_id: its name, `user/name`.
            model_file: see `save`.
            private: whether the repository has to be private, as what it holds is: the values of
                the frame's cells, and rows of it. With `False` a repository that is made is public,
                and one that is there stays as it is.
            token: of the hub; by default that of `hf auth login`.
            commit_message: of the upload.

        Returns:
            The address of the upload.

        Raises:
            ImportError: huggingface_hub is not there.
            ValueError: a name that the hub refuses, or a public repository that there is already
                while `private`; nothing was uploaded.
            ConnectionError: the hub cannot be reached, or refuses the token.
            OSError: no space or no permission on this machine.
        """
        from manifold_shap.exports.hub import push

        def write(folder: Path) -> None:
            self.save(folder, model_file=model_file)

        return push(write, repo_id, private, token, commit_message)

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
