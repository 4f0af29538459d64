"""The one result: Shapley values with labelled axes (instances, players, outputs)."""

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap import simplex
from manifold_shap.checkpoints import swap_in
from manifold_shap.coalitions import Players
from manifold_shap.schema import Schema

if TYPE_CHECKING:
    import pandas as pd
    import shap
    import xarray as xr

_FORMAT = "manifold_shap explanation"


@dataclass(frozen=True, eq=False)
class Explanation:
    """Shapley values of a model's outputs for some rows, and how they were made.

    `phi` sums over players to `prediction - base`, for every row and output.

    Attributes:
        phi: Shapley values `[instances, players, outputs]`, in units of the output space.
        standard_error: of `phi`, same shape, from the sampling of orders, and of the draws that
            each takes afresh, not from other errors of the value function; zero where every order
            was taken, NaN where not known.
        base: v(∅), the mean output over the reference data, `[outputs]`.
        prediction: v(N), the model's output for each row, `[instances, outputs]`.
        x: the rows explained, as the model sees them, `[instances, *event]`.
        players: names, and the player that owns each element of a row.
        outputs: names of the outputs.
        space: the output space (`outputs.SPACES`).
        instances: labels of the rows; by default 0, 1, ...
        made_by: version of this package, estimator, value function and their settings: plain
            numbers and strings.
        schema: columns of the table that the rows come from, if they come from one.
    """

    phi: Float[Tensor, "instances players outputs"]
    standard_error: Float[Tensor, "instances players outputs"]
    base: Float[Tensor, " outputs"]
    prediction: Float[Tensor, "instances outputs"]
    x: Float[Tensor, "instances *event"]
    players: Players
    outputs: tuple[str, ...]
    space: str = "probability"
    instances: tuple[int, ...] = ()
    made_by: Mapping[str, Any] = field(default_factory=dict)
    schema: Schema | None = None

    def __post_init__(self) -> None:
        if not self.instances:
            object.__setattr__(self, "instances", tuple(range(len(self.phi))))
        instances, players, outputs = (
            len(self.instances),
            len(self.players),
            len(self.outputs),
        )
        expected = {
            "phi": (instances, players, outputs),
            "standard_error": (instances, players, outputs),
            "base": (outputs,),
            "prediction": (instances, outputs),
            "x": (instances, *self.players.event),
        }
        for name, shape in expected.items():
            got = tuple(getattr(self, name).shape)
            if got != shape:
                raise ValueError(
                    f"Expected `{name}` of shape {shape} for {instances} instances, {players} "
                    f"players and {outputs} outputs but got {got}."
                )

    @property
    def efficiency_gap(self) -> float:
        """Largest |Σ phi - (prediction - base)|, relative to the largest |prediction - base|."""
        change = (self.prediction - self.base).double()
        gap = (self.phi.double().sum(1) - change).abs().max()
        return (gap / change.abs().max().clamp(min=torch.finfo(torch.float32).tiny)).item()

    def __getitem__(self, index: int | np.integer | slice | Sequence[int]) -> "Explanation":
        """Some of the instances."""
        where: Any = [index] if isinstance(index, (int, np.integer)) else index
        chosen = np.asarray(self.instances)[where]
        return replace(
            self,
            phi=self.phi[where],
            standard_error=self.standard_error[where],
            prediction=self.prediction[where],
            x=self.x[where],
            instances=tuple(chosen.tolist()),
        )

    def with_labels(
        self, instances: Sequence[int] | None = None, schema: Schema | None = None
    ) -> "Explanation":
        """The same explanation with row labels, or with the columns of its table."""
        return replace(
            self,
            instances=tuple(instances) if instances is not None else self.instances,
            schema=schema or self.schema,
        )

    def features(self) -> "pd.DataFrame | None":
        """What each player was, in original units `[instances, players]`.

        None where a player owns several elements that no schema describes (superpixels).
        """
        import pandas as pd

        if self.schema is not None:
            return self.schema.decode(self.x).set_axis(list(self.instances))
        if self.x[0].numel() != len(self.players):
            return None
        by_player = self.players.index.flatten().argsort()
        values = self.x.flatten(1)[:, by_player].numpy()
        return pd.DataFrame(values, index=list(self.instances), columns=list(self.players.names))

    def compositions(self) -> Float[Tensor, "instances players classes"]:
        """Shapley compositions on the simplex (Noé et al. 2024): `ilr_inv` of `phi`.

        Raises:
            ValueError: the output space is not `ilr`.
        """
        if self.space != "ilr":
            raise ValueError(
                f"Expected an explanation with output='ilr' but this one is in {self.space!r}; "
                "make the value function with output='ilr'."
            )
        return simplex.ilr_inv(self.phi)

    def to_xarray(self) -> "xr.Dataset":
        """A labelled `xarray.Dataset`, made without loss; it shares no memory with this."""
        import xarray as xr

        event = [f"axis_{k}" for k in range(self.x.ndim - 1)]
        by_player = ("instances", "players", "outputs")
        attributes = {"format": _FORMAT, "space": self.space, "made_by": json.dumps(self.made_by)}
        if self.schema is not None:
            attributes["schema"] = json.dumps(self.schema.to_dict())
        return xr.Dataset(
            {
                "phi": (by_player, _copied(self.phi)),
                "standard_error": (by_player, _copied(self.standard_error)),
                "base": ("outputs", _copied(self.base)),
                "prediction": (("instances", "outputs"), _copied(self.prediction)),
                "x": (("instances", *event), _copied(self.x)),
                "player_of_element": (event, _copied(self.players.index)),
            },
            coords={
                "instances": list(self.instances),
                "players": np.array(self.players.names),
                "outputs": np.array(self.outputs),
            },
            attrs=attributes,
        )

    @classmethod
    def from_xarray(cls, dataset: "xr.Dataset") -> "Explanation":
        """The explanation that `to_xarray` made a dataset of.

        Raises:
            ValueError: the dataset is not one.
        """
        if dataset.attrs.get("format") != _FORMAT:
            raise ValueError(
                f"Expected a dataset written by Explanation.save (format {_FORMAT!r}) but got one "
                f"with variables {sorted(map(str, dataset.variables))[:10]} and format "
                f"{dataset.attrs.get('format')!r}."
            )
        tensors = {
            name: torch.from_numpy(np.array(dataset[name].values))
            for name in ("phi", "standard_error", "base", "prediction", "x", "player_of_element")
        }
        schema = dataset.attrs.get("schema")
        return cls(
            players=Players(
                tuple(map(str, dataset["players"].values)), tensors.pop("player_of_element")
            ),
            outputs=tuple(map(str, dataset["outputs"].values)),
            space=dataset.attrs["space"],
            instances=tuple(int(k) for k in dataset["instances"].values),
            made_by=json.loads(dataset.attrs["made_by"]),
            schema=Schema.from_dict(json.loads(schema)) if schema else None,
            **tensors,
        )

    def save(self, path: str | Path) -> None:
        """Write one zarr store, beside first and then renamed: never a partial one at `path`.

        Raises:
            FileExistsError: something that is not an explanation stands at `path`.
            OSError: no space or no permission; what stood at `path` is left as it was.
        """
        path = Path(path)
        if path.exists():
            _check_replaceable(path)
        beside = path.with_name(f".{path.name}.{uuid4().hex}")
        old = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            dataset = self.to_xarray()
            dataset.attrs["sha256"] = _hash(dataset)
            # Version 2 of the format is the one that specifies text.
            dataset.to_zarr(beside, mode="w", zarr_format=2, consolidated=True)
            old = swap_in(beside, path)
        except OSError as error:
            raise type(error)(
                error.errno,
                f"Could not write the explanation to {path} ({error.strerror}); free some space "
                "or choose another place. Nothing there was changed.",
            ) from error
        finally:
            shutil.rmtree(beside, ignore_errors=True)
            if old is not None:
                shutil.rmtree(old, ignore_errors=True)

    @classmethod
    def load(cls, path: str | Path) -> "Explanation":
        """Read what `save` wrote.

        Raises:
            FileNotFoundError: nothing stands at `path`.
            ValueError: it is no zarr store, or not one of an explanation, or damaged.
        """
        import xarray as xr

        path = Path(path)
        if not path.exists():
            raise FileNotFoundError(
                f"Expected an explanation at {path} but nothing is there; `explain.py` and "
                "`Explanation.save` write one."
            )
        try:
            with xr.open_zarr(path, consolidated=True) as store:
                dataset = store.load()
        except (OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ValueError(
                f"Expected a complete explanation store at {path} but it cannot be read ({error}); "
                "make it again with `explain.py` or `Explanation.save`."
            ) from error
        if dataset.attrs.get("format") == _FORMAT and dataset.attrs.get("sha256") != _hash(dataset):
            raise ValueError(
                f"Expected a complete explanation store at {path} but some of its numbers or names "
                "are not those that were saved; make it again with `explain.py` or "
                "`Explanation.save`."
            )
        return cls.from_xarray(dataset)

    def to_dataframe(self) -> "pd.DataFrame":
        """One line per (instance, player, output): `phi`, `standard_error`."""
        dataset = self.to_xarray()[["phi", "standard_error"]]
        return dataset.to_dataframe(dim_order=["instances", "players", "outputs"]).reset_index()

    def to_shap(self) -> "shap.Explanation":
        """A `shap.Explanation`, for the plots of shap (install `manifold_shap[shap]`).

        Raises:
            ImportError: shap is not installed.
        """
        try:
            import shap
        except ImportError as error:
            raise ImportError(
                "Explanation.to_shap needs the package shap: pip install 'manifold_shap[shap]'."
            ) from error
        features = self.features()
        base = np.broadcast_to(self.base.numpy(), self.prediction.shape).copy()
        return shap.Explanation(
            values=_copied(self.phi),
            base_values=base,
            data=None if features is None else features.to_numpy(),
            feature_names=list(self.players.names),
            output_names=list(self.outputs),
            error_std=_copied(self.standard_error),
        )


def _copied(tensor: Tensor) -> np.ndarray:
    return tensor.numpy().copy()


def _hash(dataset: "xr.Dataset") -> str:
    """Of every number and name: zarr itself reads a lost chunk as if it held zeros."""
    digest = hashlib.sha256()
    for name in sorted(map(str, dataset.variables)):
        values = dataset[name].values
        numeric = values.dtype.kind in "fi"
        digest.update(values.tobytes() if numeric else "\0".join(map(str, values)).encode())
    return digest.hexdigest()


def _check_replaceable(path: Path) -> None:
    import zarr

    try:
        ours = zarr.open_group(path, mode="r").attrs.get("format") == _FORMAT
    except (OSError, ValueError):
        ours = False
    if not ours:
        raise FileExistsError(
            f"Expected {path} to be free or to hold an earlier explanation, but something else "
            "stands there; move it away or choose another path."
        )
