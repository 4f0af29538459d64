"""The list of what became of the tests of version 0.1.0 names tests of today."""

import re
from pathlib import Path

FOLDER = Path(__file__).parent


def test_every_test_on_the_right_of_the_list_is_there() -> None:
    texts = {path.as_posix(): path.read_text() for path in FOLDER.rglob("*.py")}
    lines = (FOLDER / "FROM_0.1.0.md").read_text().splitlines()
    sides = [line.partition("->")[::2] for line in lines]
    kept = [re.sub(r"\S+\.py(::)?", "", left) for left, right in sides if "same name" in right]
    targets = " ".join(kept + [right for _, right in sides])
    # `path::name`, `path::Class.name`, or a name alone, which may be in any file.
    named = re.findall(r"(?:([\w/]+\.py)::)?(?:\w+\.)?\b(test_\w+)(?![\w*.])", targets)
    assert len(named) > 150
    for path, name in named:
        there = [file for file in texts if file.endswith(f"/{path}") or not path]
        assert any(f"def {name}(" in texts[file] for file in there), (path, name)
