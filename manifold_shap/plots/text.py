"""Colours the words of a text by their Shapley values: in a notebook or a page."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from manifold_shap.explanation import Explanation
from manifold_shap.io.files import write_whole
from manifold_shap.plots import markup, selection, style
from manifold_shap.plots.passages import Coloured, passages


def text(
    explanations: Explanation | Mapping[str, Explanation],
    tokens: Sequence[Sequence[str]],
    rows: Sequence[int] | None = None,
    output: str | int | None = None,
    separator: str | None = None,
) -> "ColouredText":
    """Colours the words of a text by their Shapley values, red where they raise the output.

    Blue ones lower it; one scale, up to the largest value, serves all rows and explanations. All
    words of a player have its colour, such as those of a sentence. Words of no player, and of
    players that a row lacks, have none.

        >>> import torch
        >>> import manifold_shap as ms
        >>> x = torch.tensor([[1.0, -2.0, 3.0]])
        >>> explanation = ms.exact_shapley(lambda x, mask: (x[:, None] * mask).sum(-1, True), x)
        >>> coloured = ms.plots.text(explanation, [["it", "is", "good"]])
        >>> coloured
        ColouredText(1 row; show it in a notebook, or save it as a page)
        >>> 'title="+1.00">it<' in coloured.html
        True

    Args:
        explanations: of the same rows, by names if there are several, which then stand side by
            side.
        tokens: for every row of the explanations a list of its tokens or words: one for each
            position of the row, where padding at its end may be left out, or one for each player.
        rows: positions of the rows to show; by default all, up to the first 8.
        output: name or position of the output to explain; by default as of `waterfall`.
        separator: what stands between tokens, "" for nothing. By default as tokenizers mark it: "▁"
            or "Ġ" is a space and "##" at the start of a token is none; where no token has a space
            or the mark of one, there is a space between them.

    Raises:
        TypeError: `explanations` are something else, or tokens no text.
        ValueError: not as many tokens as positions or players; nothing to plot; the explanations
            differ in rows, players or outputs, or `rows` or `output` name something that is not
            there.
    """
    by_name = selection.named(explanations)
    return ColouredText(Coloured(by_name, passages(by_name, tokens, rows, output, separator)))


class ColouredText:
    """Text whose words are coloured by their values, as `text` makes it.

    A notebook shows it as HTML.

        >>> import torch
        >>> import manifold_shap as ms
        >>> x = torch.tensor([[1.0, -2.0]])
        >>> explanation = ms.exact_shapley(lambda x, mask: (x[:, None] * mask).sum(-1, True), x)
        >>> "good" in ms.plots.text(explanation, [["good", "grief"]]).html
        True

    Attributes:
        html: a part of a page, complete in itself. Its words have the colour of the page around
            it, light or dark; a pointer over a word shows its value.
    """

    def __init__(self, shown: Coloured) -> None:
        self._shown = shown
        self.html = markup.part(shown)

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        rows = style.count(len(self._shown.passages), "row")
        return f"ColouredText({rows}; show it in a notebook, or save it as a page)"

    def save(self, path: str | Path) -> None:
        """Write a page of HTML, which is light or dark as the reader's browser.

        Raises:
            ValueError: `path` does not end in ".html".
            OSError: no space or no permission; what stood at `path` is left as it was.
        """
        if Path(path).suffix.lower() not in (".html", ".htm"):
            raise ValueError(
                f"Expected `path` to end in '.html' but got {str(path)!r}; a browser prints a page "
                "as a PDF."
            )
        page = markup.page(self.html)
        write_whole(path, lambda beside: beside.write_text(page, encoding="utf-8"))
