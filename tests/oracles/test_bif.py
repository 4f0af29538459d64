"""Files of networks: what is read, and what is wrong with a file."""

import gzip
from pathlib import Path

import pytest

from manifold_shap.oracles import read_bif

TEXT = """
// A comment, and a property that nothing needs.
network weather {
  property author = "nobody";
}
variable season {
  type discrete [ 3 ] { <5, 5-12, Asy/Patch };
  property position = (1, 2);
}
variable "the rain" {
  type discrete[2]{yes,no};
}
variable wet { type discrete [ 2 ] { yes, no }; }
/* Tables
   over two lines. */
probability ( season ) { table 0.25, 0.5,
                               0.25; }
probability ( "the rain" | season ) {
  default 0.5, 0.5;
  (5-12) 1e-1, 0.9;
}
probability ( wet | "the rain", season ) {
  (yes, <5) 1.0, 0.0;
  (no, <5) 0.1, 0.9;
  (yes, 5-12) 0.8, 0.2;
  (no, 5-12) 0.3, 0.7;
  (yes, Asy/Patch) 0.25, 0.75;
  (no, Asy/Patch) 0.0, 1.0;
}
"""


def written(tmp_path: Path, text: str | bytes, name: str = "network.bif") -> Path:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_is_read(tmp_path: Path, packed: bool) -> None:
    content = gzip.compress(TEXT.encode()) if packed else TEXT
    season, rain, wet = read_bif(written(tmp_path, content))
    assert (season.name, rain.name, wet.name) == ("season", "the rain", "wet")
    assert season.states == ("<5", "5-12", "Asy/Patch")
    assert wet.parents == ("the rain", "season")
    assert season.table is not None
    assert season.table.tolist() == [0.25, 0.5, 0.25]
    assert rain.table is not None
    assert rain.table.tolist() == [[0.5, 0.5], [0.1, 0.9], [0.5, 0.5]]
    assert wet.table is not None
    assert wet.table[0].tolist() == [[1.0, 0.0], [0.8, 0.2], [0.25, 0.75]]
    assert wet.table[1].tolist() == [[0.1, 0.9], [0.3, 0.7], [0.0, 1.0]]


def test_sums_that_are_off_by_rounding_become_one(tmp_path: Path) -> None:
    text = TEXT.replace("0.25, 0.5,", "0.24999, 0.5,")
    table = read_bif(written(tmp_path, text))[0].table
    assert table is not None
    assert table.sum().item() == pytest.approx(1, abs=1e-15)
    assert table[0].item() == pytest.approx(0.24999 / 0.99999, abs=1e-15)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("variable season", "varable season", r"a block of .*'variable'.* but got 'varable'"),
        (
            "0.25, 0.5,",
            "0.25, 0.3,",
            r"of 'season' that .* sum to one but got .*, which sum to 0.8\.",
        ),
        (
            "0.8, 0.2",
            "0.8, 0.3",
            r"sum to 1.1, for the states \(0, 1\) of its parents \['the rain'",
        ),
        ("0.8, 0.2", "1.8, -0.8", "of 'wet' that are not negative and sum to one"),
        ("0.8, 0.2", "0.8", "2 numbers in a line of the table of 'wet' but got 1"),
        ("0.8, 0.2", "0.8, x", "numbers in the table of 'wet': could not convert"),
        ("(yes, 5-12)", "(maybe, 5-12)", r"'the rain' among \['yes', 'no'\] in .*'wet' .*'maybe'"),
        ("(yes, 5-12)", "(yes)", r"state of each of the parents \['the rain', 'season'\] .*'yes'"),
        (
            "  (yes, 5-12) 0.8, 0.2;\n",
            "",
            r"of 'wet' for every state of its parents .* \(0, 1\) of \['the rain'",
        ),
        (
            "(yes, 5-12)",
            "(no, 5-12)",
            r"one row for the states \(1, 1\) of its parents in the table of 'wet' but .* already",
        ),
        ("0.25; }", "0.25; table 1, 0, 0; }", "one `table` line in the table of 'season' but"),
        ("(5-12) 1e-1", "default 1e-1", "one `default` line in the table of 'the rain' but"),
        (
            "  default 0.5, 0.5;",
            "  table 0.5, 0.5, 0.5, 0.5, 0.5, 0.5;",
            r"one row for the states \(1,\) of its parents in the table of 'the rain'",
        ),
        (
            "| season ) {\n  default 0.5, 0.5;\n  (5-12) 1e-1",
            "| season, season ) {\n  default 0.5, 0.5;\n  (5-12, 5-12) 1e-1",
            r"distinct parents of 'the rain' but got \['season'\] more than once",
        ),
        ("wet | ", "wett | ", "declared before their tables but 'wett' is not; did you mean 'wet'"),
        ("[ 3 ]", "[ 4 ]", "4 states of 'season', as declared, but got 3"),
        ("{ <5, 5-12,", "{ <5, <5,", "states of 'season'"),
        ("variable wet", "variable season", "each variable once but 'season' is declared twice"),
        ("type discrete [ 2 ]", "type continuous [ 2 ]", "'discrete' but got 'continuous'"),
        (
            "  type discrete[2]{yes,no};\n",
            "",
            "`type discrete` line for 'the rain' but it has none",
        ),
        ("probability ( season )", "probability ( season | wet )", "6 numbers .* but got 3"),
        ("table 0.25", "tables 0.25", "'season' for every state of its parents but there are none"),
        ("network weather {", "{", r"a block of .* but got '\{'; the file is damaged"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in TEXT
    path = written(tmp_path, TEXT.replace(old, new))
    with pytest.raises(ValueError, match=message) as caught:
        read_bif(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_a_cycle_is_named(tmp_path: Path) -> None:
    table = "probability ( season | wet ) { default 0.25, 0.5, 0.25; }\n"
    start, end = TEXT.split("probability ( season ) { table 0.25, 0.5,\n")
    text = start + table + end.split("0.25; }", 1)[1]
    with pytest.raises(ValueError, match=r"without cycles but \[.*'wet'.*'season'.*\] depend"):
        read_bif(written(tmp_path, text))


def test_a_table_that_is_missing_or_there_twice(tmp_path: Path) -> None:
    cut = TEXT[: TEXT.index("probability ( wet")]
    with pytest.raises(ValueError, match=r"for every variable but \['wet'\] have none.* cut off"):
        read_bif(written(tmp_path, cut))
    with pytest.raises(ValueError, match="one table for each variable but 'wet' has two"):
        read_bif(written(tmp_path, TEXT + TEXT[TEXT.index("probability ( wet") :]))


def test_damaged_files_raise_errors(tmp_path: Path) -> None:
    for end in (len(TEXT) // 3, len(TEXT) // 2, len(TEXT) - 4):
        with pytest.raises(ValueError, match=r"the file is damaged|may be cut off"):
            read_bif(written(tmp_path, TEXT[:end]))
    packed = gzip.compress(TEXT.encode())
    broken = [packed[:-20], packed[:40] + b"\x00" * 20 + packed[60:], b"\xff\xfe\x00\x01"]
    for content in broken:
        with pytest.raises(ValueError, match=r"to be a text file, or one compressed .* damaged"):
            read_bif(written(tmp_path, content))
    with pytest.raises(ValueError, match="at least one variable"):
        read_bif(written(tmp_path, ""))
    with pytest.raises(FileNotFoundError):
        read_bif(tmp_path / "nowhere.bif")


@pytest.mark.usefixtures("any_type")
def test_a_path_is_text() -> None:
    with pytest.raises(TypeError, match="Expected `path` to be text"):
        read_bif(3)  # type: ignore[arg-type]
