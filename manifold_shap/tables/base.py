"""Defines what turns rows of a user's kind into tensors and back: frames, texts, inputs."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap.players import Players

if TYPE_CHECKING:
    from manifold_shap.tables.encoding import Encoding


class RowAdapter(ABC):
    """Turns rows of the kind that a model takes into tensors `[rows, columns]`, and back.

    Value functions and estimators compute with the tensors, and the model is given `frame(x)`.

        >>> from manifold_shap.tables import Texts
        >>> texts: RowAdapter = Texts.fit(["a good film", "a bad film"])
        >>> texts
        Texts(3 players: word 1, word 2, word 3)
        >>> texts.frame(texts.rows(["a bad film"]))
        ['a bad film']

    Attributes:
        players: that own the columns.
        names: of the columns that are in the tensors.
        constants: the cell of each column that has but one, which is not in the tensors.
        constant_players: names of the players that explanations add for these columns.
        elements: the players as owners of what networks see.
        encodings: how columns are encoded, where they are.
        width: how many numbers networks see of a row.
    """

    players: Players
    names: tuple[str, ...]
    encodings: "tuple[Encoding, ...]" = ()

    # -- must be defined --------------------------------------------------------------------

    @abstractmethod
    def rows(self, frame: Any) -> Float[Tensor, "rows columns"]:
        """Rows of the user's kind as a tensor.

        Raises:
            TypeError, ValueError: rows of another kind, or that do not fit those of training.
        """

    @abstractmethod
    def frame(self, x: Float[Tensor, "rows columns"]) -> Any:
        """What the model is given for these rows."""

    @abstractmethod
    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """See `ms.save`."""

    # -- may be overridden ------------------------------------------------------------------

    def __repr__(self) -> str:
        names = self.players.names
        more = ", ..." if len(names) > 5 else ""
        return f"{type(self).__name__}({len(names)} players: {', '.join(names[:5])}{more})"

    @property
    def elements(self) -> Players:
        return self.owners(self.players)

    @property
    def width(self) -> int:
        return len(self.names)

    @property
    def constants(self) -> Mapping[str, Any]:
        return {}

    @property
    def provenance(self) -> dict[str, Any]:
        """What explanations record of these rows, as plain data."""
        return {}

    @property
    def constant_players(self) -> tuple[str, ...]:
        return ()

    def check(self, x: Float[Tensor, "rows columns"], name: str = "x") -> None:  # noqa: B027
        """Raise ValueError unless `rows` can have made these; errors call them `name`."""

    def encode(self, x: Float[Tensor, "*batch columns"]) -> Float[Tensor, "*batch elements"]:
        """Rows as networks see them."""
        return x

    def nearest(
        self, elements: Float[Tensor, "*batch elements"], u: Float[Tensor, "*batch columns"]
    ) -> Float[Tensor, "*batch columns"]:
        """The row that is nearest to what networks see; `u` are uniform numbers for ties."""
        return elements

    def owners(self, players: Players) -> Players:
        """Players of the columns as owners of the elements that networks see."""
        return players

    def grouped(self, groups: Mapping[str, Any]) -> Players:
        """Groups of columns by name, and each other column, as players."""
        raise TypeError(
            f"Expected `players` that are a `Players` for {type(self).__name__} but got groups of "
            "columns; a value function has coarser players by `value.grouped(groups)`."
        )

    def warn_of_columns(self, x: Float[Tensor, "rows columns"]) -> None:  # noqa: B027
        """Warn of what a game of these rows takes otherwise than people may expect."""

    def explained(
        self,
        x: Float[Tensor, "rows columns"],
        players: Players,
        owners: Int64[Tensor, "rows columns"] | None,
    ) -> tuple[Any, Players, Tensor | None]:
        """Rows as an explanation shows them, and who owns their columns."""
        return x, players, owners
