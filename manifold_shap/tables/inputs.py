"""Joins several tensors of a row, for models that take a tuple or a dictionary of tensors."""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap._arrays import is_frame
from manifold_shap._checks import to_tensor
from manifold_shap._messages import check_choice, shown
from manifold_shap._saved import saved
from manifold_shap.models.rows import whole
from manifold_shap.players import Players
from manifold_shap.tables.base import RowAdapter


@saved
class Inputs(RowAdapter):
    """Several tensors of each row as one row, for a model that takes a tuple or a dictionary.

        >>> x = {"picture": torch.rand(5, 1, 4, 4), "columns": torch.rand(5, 2)}
        >>> patches, columns = Players.patches((1, 4, 4), 2), Players(["age", "size"], [0, 1])
        >>> inputs = Inputs.fit(x, {"picture": patches, "columns": columns})
        >>> inputs.players.names
        ('patch 0,0', 'patch 0,1', 'patch 1,0', 'patch 1,1', 'age', 'size')
        >>> rows = inputs.rows(x)
        >>> rows.shape, inputs.frame(rows)["picture"].shape
        (torch.Size([5, 18]), torch.Size([5, 1, 4, 4]))

    The model is called as `model(*tensors)` for a tuple and as `model(**tensors)` for a dictionary.

    Attributes:
        shapes: of one row of each tensor, by name; those of a tuple are called "0", "1", ...
        dtypes: of each tensor, by name.

    Args:
        shapes, dtypes: as the attributes.
        keywords: whether the model takes a dictionary.
        players: of all elements.
    """

    def __init__(
        self,
        shapes: Mapping[str, tuple[int, ...]],
        dtypes: Mapping[str, torch.dtype],
        keywords: bool,
        players: Players,
    ) -> None:
        self.shapes, self.dtypes, self.keywords = dict(shapes), dict(dtypes), keywords
        self._sizes = [torch.Size(shape).numel() for shape in shapes.values()]
        self.players = players
        self.names = tuple(
            f"{name} {k}"
            for name, size in zip(shapes, self._sizes, strict=True)
            for k in range(size)
        )

    @property
    def provenance(self) -> dict[str, Any]:
        return {"inputs": {name: list(shape) for name, shape in self.shapes.items()}}

    @classmethod
    def fit(cls, inputs: Any, players: Mapping[Any, Any] | None = None) -> "Inputs":
        """Read shapes and types of some rows.

        Args:
            inputs: a tuple of tensors or a dictionary of them, each `[rows, ...]`.
            players: of each tensor, by its name: `Players`; names of its elements, in a list; or
                another tensor's name where both have the same players, such as ids of tokens and
                their mask: `{"mask": "ids"}`. By default pixels of pictures, or each element. Every
                row has all of them: rows are not padded.

        Raises:
            ValueError: tensors of different numbers of rows; players of another name or shape, or
                that some rows lack.
        """
        named = _named(inputs)
        shapes = {name: tuple(each.shape[1:]) for name, each in named.items()}
        # Those of a tuple are called by numbers.
        given = (players or {}).items()
        wanted = {str(name): str(own) if isinstance(own, int) else own for name, own in given}
        for name in wanted:
            check_choice("players", name, tuple(shapes))
        owned = dict[str, Tensor]()
        names: list[str] = []
        for name in sorted(shapes, key=lambda name: isinstance(wanted.get(name), str)):
            own = wanted.get(name)
            if isinstance(own, str):
                owned[name] = owned[own]
                continue
            if own is None:
                usual = Players.of_columns(None, shapes[name])
                called = [f"{name} {each.removeprefix('x')}" for each in usual.names]
                own = Players(called, usual.index)
            elif not isinstance(own, Players):
                own = Players.of_elements(shapes[name], own)
            elif own.by_row:
                raise ValueError(
                    f"Expected players that every row has for {name!r}, one of several tensors, "
                    "but padded rows lack some; explain this tensor alone, by a model that "
                    "computes the others, such as `mask = ids != 0` (docs/text.md), or give "
                    "padding=None where no row is padded."
                )
            owned[name] = own.index + len(names)
            names += own.names
        for name, index in owned.items():
            if tuple(index.shape) != shapes[name]:
                raise ValueError(
                    f"Expected players of {name!r} that own rows of shape {shapes[name]} but got "
                    f"those of shape {tuple(index.shape)}."
                )
        index = torch.cat([owned[name].flatten() for name in shapes])
        dtypes = {name: each.dtype for name, each in named.items()}
        return cls(shapes, dtypes, isinstance(inputs, Mapping), Players(names, index))

    def grouped(self, groups: Mapping[str, Any]) -> Players:
        """Other players of the same tensors, see `fit`."""
        return self.fit(self.frame(torch.zeros(1, len(self.names))), groups).players

    def rows(self, frame: Any) -> Float[Tensor, "rows elements"]:
        """All tensors of a row, one after the other, as floats.

        Raises:
            ValueError: other tensors than those of training.
        """
        named = _named(frame)
        shapes = {name: tuple(each.shape[1:]) for name, each in named.items()}
        if shapes != self.shapes:
            raise ValueError(f"Expected tensors with rows of {self.shapes} but got {shapes}.")
        return torch.cat([named[name].flatten(1).float() for name in self.shapes], 1)

    def frame(self, x: Float[Tensor, "rows elements"]) -> Any:
        """The tuple or the dictionary that the model takes."""
        tensors = dict[str, Tensor]()
        for (name, shape), part in zip(self.shapes.items(), x.split(self._sizes, 1), strict=True):
            dtype, own = self.dtypes[name], part.reshape(len(x), *shape)
            # An imputer may draw fractions of whole numbers.
            tensors[name] = own.to(dtype) if dtype.is_floating_point else whole(own, dtype)
        return tensors if self.keywords else tuple(tensors.values())

    kind = "inputs"

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        dtypes = {name: str(own).removeprefix("torch.") for name, own in self.dtypes.items()}
        own = {"shapes": self.shapes, "dtypes": dtypes, "keywords": self.keywords}
        return {**own, "players": self.players}, {}

    @classmethod
    def restored(cls, settings: dict[str, Any], _: dict[str, Tensor], __: Any) -> "Inputs":
        shapes = {name: tuple(shape) for name, shape in settings["shapes"].items()}
        dtypes = {name: getattr(torch, own) for name, own in settings["dtypes"].items()}
        return cls(shapes, dtypes, settings["keywords"], settings["players"])


def _named(inputs: Any) -> dict[str, Tensor]:
    """Tensors by name."""
    if not isinstance(inputs, Mapping):
        inputs = {str(k): each for k, each in enumerate(inputs)}
    if nested := [name for name, each in inputs.items() if isinstance(each, Mapping)]:
        raise TypeError(
            f"Expected a tensor for each name but got a dictionary for {shown(nested)}; "
            "`pandas.DataFrame(columns)` makes a frame of it."
        )
    tensors = {
        name: to_tensor(each, str(name)) if is_frame(each) else torch.as_tensor(each)
        for name, each in inputs.items()
    }
    shapes = {name: tuple(each.shape) for name, each in tensors.items()}
    flat = any(len(shape) < 2 for shape in shapes.values())
    if flat or len({rows for rows, *_ in shapes.values()}) != 1:
        raise ValueError(
            f"Expected tensors [rows, ...] of the same number of rows but got shapes {shapes}; "
            "leave labels out, which are not needed; a column is `column[:, None]`."
        )
    return tensors
