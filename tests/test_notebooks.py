"""The notebooks run from top to bottom, and are stored as they ran."""

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ipykernel", reason="needs manifold_shap[notebooks]")
nbclient = pytest.importorskip("nbclient", reason="needs manifold_shap[notebooks]")
nbformat = pytest.importorskip("nbformat", reason="needs manifold_shap[notebooks]")
traitlets = pytest.importorskip("traitlets.config", reason="needs manifold_shap[notebooks]")

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))
EACH = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
PICTURE = "image/png"
# Of a table, a name of a column or a row.
HEADER = re.compile(r"<th[^>]*>([^<]+)</th>")
# No address of a page, no closing tag; backslashes are doubled in a notebook's text.
ABSOLUTE = re.compile(r"(?<![\w.:/<])/\w[\w.-]*/|\b[A-Z]:\\\\")


def code_cells(path: Path) -> list[Any]:
    notebook = nbformat.read(path, as_version=4)
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def kinds(cells: list[Any]) -> list[list[tuple[str, list[str], list[str]]]]:
    """What each cell shows, but for numbers: pictures, lines, and tables with their headers."""
    return [
        [
            (each.output_type, sorted(data), sorted(HEADER.findall(data.get("text/html", ""))))
            for each in cell.outputs
            for data in [each.get("data", {})]
        ]
        for cell in cells
    ]


@pytest.mark.notebook
@EACH
def test_the_notebook_runs_and_shows_what_is_stored(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No start-up files of the user's, and no second thread to wait for on a busy machine.
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.chdir(tmp_path)
    notebook = nbformat.read(path, as_version=4)
    # Of two kernels that start at once, both may choose the same free port.
    sockets = traitlets.Config({"KernelManager": {"transport": "ipc"}})
    nbclient.NotebookClient(notebook, timeout=120, config=sockets).execute()
    executed = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert kinds(executed) == kinds(code_cells(path))


@EACH
def test_the_notebook_is_stored_after_one_run_from_top_to_bottom(path: Path) -> None:
    cells = code_cells(path)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    shown = [output for cell in cells for output in cell.outputs]
    drawn = [output.get("data", {}) for output in shown]
    assert any(PICTURE in each or "Shapley value" in each.get("text/html", "") for each in drawn)
    # Neither errors nor warnings.
    assert {output.output_type for output in shown} <= {"execute_result", "display_data"}


@EACH
def test_the_notebook_holds_nothing_of_the_machine_and_nothing_large(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        assert not cell.metadata
        for output in cell.get("outputs", ()):
            output.data.pop(PICTURE, None)
    assert not ABSOLUTE.search(nbformat.writes(notebook))
    # An interactive figure has 4 MB.
    assert path.stat().st_size < 2**20
