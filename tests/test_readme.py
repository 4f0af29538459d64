"""What the README says can be typed, can be typed."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


def test_the_python_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    examples = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    # One after the other: the later ones go on with the data and the model of the first.
    exec(compile("\n".join(examples), str(README), "exec"), {})
    assert "standard_error" in capsys.readouterr().out
    assert (tmp_path / "explanations.zarr").exists()


def test_the_figures_are_there() -> None:
    figures = re.findall(r'src="([^"]+\.png)"', README.read_text())
    assert figures
    assert all((README.parent / figure).exists() for figure in figures)
