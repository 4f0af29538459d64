"""Sends folders to the Hugging Face hub, and brings them from there."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from manifold_shap._messages import check_text
from manifold_shap.folder import FILES, written_with

_OFFLINE = "check the connection, or the variable HF_ENDPOINT"


def fetched(
    name: str,
    revision: str | None,
    token: str | bool | None,
    cache_dir: str | Path | None,
    local_files_only: bool,
) -> Path:
    """A folder with the files of a repository that an explainer is made of.

    Raises:
        ImportError, FileNotFoundError, ConnectionError, OSError, ValueError: see
            `SavedExplainer.from_pretrained`.
    """
    hub = _hub(f"a folder {name!r}, but there is none, or ", "correct the path, or ")
    with _worded(name):
        folder = Path(
            hub.snapshot_download(
                _checked(name),
                revision=revision,
                token=token,
                cache_dir=cache_dir,
                local_files_only=local_files_only,
                # No other file: what is not read need not come.
                allow_patterns=list(FILES),
            )
        )
    if not (folder / FILES[0]).is_file():
        raise FileNotFoundError(
            f"Expected an explainer in the repository {name!r} but there is no {FILES[0]}; name "
            "one that `push_to_hub` wrote."
        )
    return folder


def push(
    write: Callable[[Path], None],
    repo_id: str,
    private: bool,
    token: str | bool | None,
    message: str,
) -> str:
    """Upload what `write` makes of an empty folder; see `SavedExplainer.push_to_hub`."""
    hub = _hub()
    name = _checked(repo_id)
    api = hub.HfApi(token=token)
    with TemporaryDirectory() as place:
        folder = Path(place) / "explainer"
        write(folder)
        with _worded(name):
            repo = api.create_repo(name, private=private, exist_ok=True).repo_id
            # One that was there keeps its visibility.
            found = api.model_info(repo)
        public = private and not found.private
        if public:
            raise ValueError(
                f"Expected a private repository but {name!r} is public, and what an explainer "
                "holds is as confidential as its frame; make it private, name another, or pass "
                "private=False to publish it."
            )
        with _worded(name):
            stale = _written_before(api, found, Path(place) / "before")
            done = api.upload_folder(
                repo_id=repo, folder_path=folder, commit_message=message, delete_patterns=stale
            )
    return str(done.commit_url)


def _written_before(api: Any, repo: Any, place: Path) -> list[str]:
    """Names of the files that an earlier upload has sent to a repository."""
    if not any(each.rfilename == FILES[0] for each in repo.siblings or ()):
        return []
    return list(written_with(Path(api.hf_hub_download(repo.id, FILES[0], local_dir=place))))


def _hub(instead: str = "", fix: str = "") -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise ImportError(
            f"Expected {instead}huggingface_hub to be installed; {fix}`pip install "
            "'manifold_shap[hub]'`."
        ) from error
    return huggingface_hub


def _checked(name: Any) -> str:
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(check_text("repo_id", name))
    except ValueError as error:
        raise ValueError(
            "Expected a folder that is there, or the name of a repository on the Hugging Face hub, "
            f"`user/name`, but got {name!r:.200}, which the hub refuses ({error})."
        ) from error
    return name


@contextmanager
def _worded(name: str) -> Iterator[None]:
    """What goes wrong at the hub, as errors that say what to do."""
    from huggingface_hub import errors

    try:
        yield
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError) as error:
        raise FileNotFoundError(
            f"Expected a repository {name!r} on the Hugging Face hub, and the revision asked for, "
            f"but there is none that this token may see ({_first(error)}); correct the name, or "
            "log in by `hf auth login`."
        ) from error
    except errors.LocalEntryNotFoundError as error:
        raise ConnectionError(
            f"Expected to reach the repository {name!r} on the Hugging Face hub, or to find it in "
            f"the cache, since there is no folder of that name here, but could not "
            f"({_first(error)}); correct the name, or {_OFFLINE}."
        ) from error
    except (OSError, errors.HTTPError) as error:
        told = isinstance(error, ConnectionError | TimeoutError | errors.HTTPError)
        if isinstance(error, OSError) and not told and error.errno is not None:
            # Of this machine's own system.
            raise type(error)(
                error.errno,
                f"Could not keep {name!r} of the Hugging Face hub on this machine "
                f"({error.strerror}); free some space, or choose another place (`cache_dir`, or "
                "the variable HF_HOME).",
            ) from error
        raise ConnectionError(
            f"Expected the Hugging Face hub to serve {name!r} but it failed ({_first(error)}); log "
            f"in by `hf auth login`, or {_OFFLINE}."
        ) from error


def _first(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
