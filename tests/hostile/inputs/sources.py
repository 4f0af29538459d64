"""Tables, pictures, texts, series and networks of one's own on disk."""

import gzip
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

import manifold_shap as ms
from manifold_shap.data import ImageFolder, SeriesFile, TableFile, TextFile
from tests.hostile.inputs.table import Input
from tests.hostile.inputs.things import frame

LINES = "a,b,y\n" + "".join(f"{k},{k * k % 7},{'no' if k % 2 else 'yes'}\n" for k in range(40))
Do = Callable[[Path], object]


def csv(content: str | bytes, name: str = "t.csv", target: Any = "y", **settings: Any) -> Do:
    """Read a table with this content."""

    def do(here: Path) -> object:
        data = content.encode() if isinstance(content, str) else content
        (here / name).write_bytes(data)
        return table(here / name, target=target, **settings)

    return do


def table(path: Any, **settings: Any) -> object:
    data = TableFile(path=str(path), **{"target": "y", **settings})
    data.setup()
    return data.x_train


def parquet(rows: pd.DataFrame, **settings: Any) -> Do:
    def do(here: Path) -> object:
        rows.to_parquet(here / "t.parquet")
        return table(here / "t.parquet", **settings)

    return do


def zipped(*names: str) -> Do:
    def do(here: Path) -> object:
        with zipfile.ZipFile(here / "t.csv.zip", "w") as archive:
            for name in names:
                archive.writestr(name, LINES)
        return table(here / "t.csv.zip")

    return do


def drawn(here: Path, count: int = 6, size: tuple[int, int] = (8, 8)) -> Path:
    for k in range(count):
        for name in ("cat", "dog"):
            path = here / "shapes" / name / f"{k}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", size, (40 * k, 0, 255 if name == "cat" else 0)).save(path)
    return here / "shapes"


def pictures(change: Callable[[Path], object], **settings: Any) -> Do:
    """Read pictures after a change of their folder."""

    def do(here: Path) -> object:
        change(drawn(here))
        return folder(here / "shapes", **settings)

    return do


def folder(path: Path, **settings: Any) -> object:
    data = ImageFolder(path=str(path), **settings)
    data.setup()
    return data.x_train[:1]


def texts(rows: pd.DataFrame, **settings: Any) -> Do:
    def do(here: Path) -> object:
        rows.to_csv(here / "t.csv", index=False)
        data = TextFile(path=str(here / "t.csv"), **settings)
        data.setup()
        return data.x_train

    return do


def said(*words: str) -> pd.DataFrame:
    return pd.DataFrame({"text": [*words] * (40 // len(words)), "label": ["a", "b"] * 20})


def series(name: str, content: str | bytes, **settings: Any) -> Do:
    def do(here: Path) -> object:
        data = content.encode() if isinstance(content, str) else content
        (here / name).write_bytes(data)
        source = SeriesFile(path=str(here / name), **settings)
        source.setup()
        return source.x_train

    return do


def arrays(**given: Any) -> Do:
    def do(here: Path) -> object:
        np.savez(here / "s.npz", **given)
        source = SeriesFile(path=str(here / "s.npz"))
        source.setup()
        return source.x_train

    return do


def network(content: str | bytes) -> Do:
    def do(here: Path) -> object:
        (here / "n.bif").write_bytes(content.encode() if isinstance(content, str) else content)
        return ms.oracles.read_bif(here / "n.bif")

    return do


def vocabulary(content: str | bytes) -> Do:
    def do(here: Path) -> object:
        (here / "v.json").write_bytes(content.encode() if isinstance(content, str) else content)
        return ms.Vocabulary.load(here / "v.json")

    return do


def bomb(path: Path, side: int) -> None:
    """A picture of many pixels in few bytes."""
    Image.new("1", (side, side)).save(path)


def disguised(path: Path) -> None:
    """PostScript that is named as a picture: Pillow would give it to Ghostscript."""
    path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n")


def link(place: Path, name: str) -> None:
    os.symlink(place / name, place / name)


BIF = "network n {}\nvariable a { type discrete [ 2 ] { y, n }; }\n"

INPUTS = [
    Input(
        "no such table",
        lambda here: table(here / "no.csv"),
        FileNotFoundError,
        "Expected the file '...' but there is none; correct `path`.",
        mark="kept",
    ),
    Input(
        "a table that is a folder",
        lambda here: table(here),
        FileNotFoundError,
        "Expected the file '...' but there is none; correct `path`.",
        mark="library",
    ),
    Input(
        "a table at a URL",
        lambda here: table("https://localhost:1/t.csv"),
        FileNotFoundError,
        "Expected the path of a file but got the address 'https://localhost:1/t.csv'; download it first.",
        mark="gone",
    ),
    Input(
        "a table with a null byte in its name",
        lambda here: table("a\0b.csv"),
        ValueError,
        "Expected `path` to be text without null bytes but got 'a\\x00b.csv'; leave them out.",
        mark="library",
    ),
    Input(
        "a table that is a link to itself",
        lambda here: link(here, "t.csv") or table(here / "t.csv"),
        FileNotFoundError,
        "Expected the file '...' but there is none; correct `path`.",
        mark="library",
    ),
    Input(
        "a table in a home that there is not",
        lambda here: table("~nobody-at-all/t.csv"),
        FileNotFoundError,
        "Expected the file '~nobody-at-all/t.csv' but found none at .../~nobody-at-all/t.csv; nor is there one at .../~nobody-at-all/t.csv: correct `path`.",
        mark="gone",
    ),
    Input(
        "an empty table",
        csv(""),
        ValueError,
        "1 problem with t.csv.\n1. It is empty; name another file; set data.path.",
        mark="gone",
    ),
    Input(
        "a table of one line",
        csv("a,b,y\n"),
        ValueError,
        "2 problems with t.csv.\n1. The target 'y' holds nothing; set data.target to another column.\n2. It has 0 rows, which are too few: 10 are the least...",
        mark="gone",
    ),
    Input(
        "a table of null bytes",
        csv(b"\0" * 500),
        ValueError,
        "1 problem with t.csv.\n1. It is no text, or in an encoding of more bytes a character; set data.encoding.",
        mark="gone",
    ),
    Input(
        "a table of noise",
        csv(bytes(range(256)) * 8),
        ValueError,
        "1 problem with t.csv.\n1. It is no text, or in an encoding of more bytes a character; set data.encoding.",
        mark="gone",
    ),
    Input(
        "a picture that is named as a table",
        csv(b"\x89PNG\r\n\x1a\n" + bytes(200)),
        ValueError,
        "1 problem with t.csv.\n1. It is no text, or in an encoding of more bytes a character; set data.encoding.",
        mark="gone",
    ),
    Input(
        "a spreadsheet that is named as a table",
        csv(b"PK\x03\x04" + bytes(200)),
        ValueError,
        "1 problem with t.csv.\n1. It is no text, or in an encoding of more bytes a character; set data.encoding.",
        mark="gone",
    ),
    Input(
        "a table of lines of many lengths",
        csv("a,b,y\n" + "1,2,3,4,yes\n1,no\n" * 20),
        ValueError,
        "2 problems with t.csv.\n1. 21 lines have another number of cells than 5: [1, 3, 5, 7, 9] and 16 more; ... called 'y', as data.target says, among ['1', '2', '3', '4', 'yes']; set data.target...",
        mark="gone",
    ),
    Input(
        "a table without its target",
        csv(LINES, target="label"),
        ValueError,
        "1 problem with t.csv.\n1. No column is called 'label', as data.target says, among ['a', 'b', 'y']; set data.target...",
        mark="kept",
    ),
    Input(
        "a table whose target is a number",
        csv(LINES, target=3),
        ValueError,
        "1 problem with t.csv.\n1. No column is called '3', as data.target says, among ['a', 'b', 'y']; set data.target...",
        mark="library",
    ),
    Input(
        "a table whose target is missing everywhere",
        csv("a,b,y\n" + "1,2,\n2,3,\n" * 20),
        ValueError,
        "1 problem with t.csv.\n1. The target 'y' holds nothing; set data.target to another column.",
        mark="kept",
    ),
    Input(
        "a table with a target of one class",
        csv("a,b,y\n" + "1,2,x\n2,3,x\n" * 20),
        ValueError,
        "1 problem with t.csv.\n1. The target 'y' holds 'x' in every row; set data.target to another column.",
        mark="kept",
    ),
    Input(
        "a table with a target of as many classes as rows",
        csv("a,b,y\n" + "".join(f"{k % 3},{k % 2},c{k}\n" for k in range(40))),
        ValueError,
        "Expected training rows of every class in 't' but none of the 28 is of ['c12', 'c13', 'c22', 'c23', 'c3', 'c30', 'c31', ... or drop rare classes, or choose another `seed` or smaller shares `validation` and `test`.",
        mark="kept",
    ),
    Input(
        "a regression on words",
        csv(LINES, task="regression"),
        ValueError,
        "1 problem with t.csv.\n1. The target 'y' holds no numbers, but 'yes'; data.task=classification takes it for classes...",
        mark="kept",
    ),
    Input(
        "a regression on numbers that are infinite",
        csv(LINES.replace("yes", "inf").replace("no", "1"), task="regression"),
        ValueError,
        "1 problem with t.csv.\n1. Column 'y' holds infinite numbers in 20 rows; 'data.na_values=[\"inf\"]' takes them for missing...",
        mark="twin",
    ),
    Input(
        "a regression on 1e300",
        csv(LINES.replace("yes", "1e300").replace("no", "1"), task="regression"),
        ValueError,
        "Expected numbers in `y` that fit float32 (at most 3.4e38) but 1e+300 does not fit float32, the first of 20 at [0]; correct it, or change the unit.",
        mark="twin",
    ),
    Input(
        "a table of an unknown task",
        csv(LINES, task="ranking"),
        ValueError,
        "Expected `task` to be one of ['classification', 'regression'] but got 'ranking'.",
        mark="kept",
    ),
    Input(
        "a table of an unknown encoding",
        csv(LINES, encoding="klingon"),
        ValueError,
        "1 problem with t.csv.\n1. Python knows no encoding 'klingon'; set data.encoding.",
        mark="gone",
    ),
    Input(
        "a table that is not in its encoding",
        csv("a,b,y\n" + "é,2,x\n1,3,z\n" * 20, encoding="ascii"),
        ValueError,
        "1 problem with t.csv.\n1. It is not in the encoding ascii ('ascii' codec can't decode byte 0x... in position 6: ordinal not in range(128)); set data.encoding.",
        mark="gone",
    ),
    Input(
        "a separator of two characters",
        csv(LINES, separator="||"),
        ValueError,
        "Expected `separator` to be one character but got '||'.",
        mark="gone",
    ),
    Input(
        "a separator that is a new line",
        csv(LINES, separator="\n"),
        ValueError,
        "Expected `separator` to be a character between cells but got '\\n', which stands for something else in such files.",
        mark="gone",
    ),
    Input(
        "a column to drop that there is not",
        csv(LINES, drop=["nosuch"]),
        ValueError,
        "1 problem with t.csv.\n1. No column is called 'nosuch', as data.drop says, among ['a', 'b', 'y']; set data.drop...",
        mark="kept",
    ),
    Input(
        "all columns to drop",
        csv(LINES, drop=["a", "b"]),
        ValueError,
        "1 problem with t.csv.\n1. It has no column that describes the rows; set data.keep.",
        mark="kept",
    ),
    Input(
        "the target to drop",
        csv(LINES, drop=["y"]),
        ValueError,
        "Expected `target` to be a column that is kept but `drop` lists 'y'; take it out of there.",
        mark="kept",
    ),
    Input(
        "shares beyond one",
        csv(LINES, validation=0.6, test=0.6),
        ValueError,
        "Expected shares that leave every split some rows but got {'validation': 0.6, 'test': 0.6} of 40 rows, which makes {'train': -8, 'validation': 24, 'test': 24}; change `validation` or `test`.",
        mark="kept",
    ),
    Input(
        "a share of NaN",
        csv(LINES, validation=float("nan")),
        ValueError,
        "Expected `validation` to be a finite number above 0 and below 1 but got nan.",
        mark="twin",
    ),
    Input(
        "a share of text",
        csv(LINES, test="half"),
        TypeError,
        "Expected `test` to be a finite number above 0 and below 1 but got 'half' (str).",
        mark="library",
    ),
    Input(
        "a batch size of text",
        csv(LINES, batch_size="many"),
        TypeError,
        "Expected `batch_size` to be a whole number of at least 1 but got 'many' (str).",
        mark="library",
    ),
    Input(
        "a column of infinite numbers",
        csv("a,b,y\n" + "inf,2,x\n1,3,z\n" * 20),
        ValueError,
        "1 problem with t.csv.\n1. Column 'a' holds infinite numbers in 20 rows; 'data.na_values=[\"inf\"]' takes them for missing.",
        mark="kept",
    ),
    Input(
        "a column of numbers and words",
        csv("a,b,y\n" + "".join(f"{k},{k}.5,{'xz'[k % 2]}\n" for k in range(40)) + "oops,3,z\n"),
        ValueError,
        "1 problem with t.csv.\n1. Column 'a' holds numbers, but other text in 1 of 41 rows: ['oops']; data.na_values=[oops] takes them for missing.",
        mark="gone",
    ),
    Input(
        "a gzip file of text",
        csv(LINES, name="t.csv.gz"),
        ValueError,
        "1 problem with t.csv.gz.\n1. It is no sound .gz file (Not a gzipped file (b'a,')); set data.path.",
        mark="gone",
    ),
    Input(
        "a gzip file that is cut",
        csv(gzip.compress(LINES.encode())[:40], name="t.csv.gz"),
        ValueError,
        "1 problem with t.csv.gz.\n1. It is no sound .gz file (Compressed file ended before the end-of-stream marker was reached); set data.path.",
        mark="gone",
    ),
    Input(
        "a zip file of text",
        csv(LINES, name="t.csv.zip"),
        ValueError,
        "1 problem with t.csv.zip.\n1. It is no sound .zip file (File is not a zip file); set data.path.",
        mark="gone",
    ),
    Input(
        "a zip file without a file",
        zipped(),
        ValueError,
        "1 problem with t.csv.zip.\n1. It holds 0 files, [], not one table; set data.path.",
        mark="gone",
    ),
    Input(
        "a zip file of two tables",
        zipped("a.csv", "b.csv"),
        ValueError,
        "1 problem with t.csv.zip.\n1. It holds 2 files, ['a.csv', 'b.csv'], not one table; set data.path.",
        mark="gone",
    ),
    Input(
        "a Parquet file that is cut",
        csv(b"PAR1" + b"\xff" * 50, name="t.parquet"),
        ValueError,
        "1 problem with t.parquet.\n1. It begins as a Parquet file but cannot be read (Could not open Parquet input source ... in footer. Either the file is corrupted or this is not a parquet file.); set data.path.",
        mark="gone",
    ),
    Input(
        "a Feather file that is cut",
        csv(b"ARROW1\0\0" + b"\xff" * 50, name="t.feather"),
        ValueError,
        "1 problem with t.feather.\n1. It begins as a Feather file but cannot be read (Not an Arrow file); set data.path.",
        mark="gone",
    ),
    Input(
        "a Parquet file of lists",
        parquet(frame(bag=[[1, 2]] * 40), target="town"),
        ValueError,
        "1 problem with t.parquet.\n1. Column 'bag' holds ['ndarray'], not numbers, text or dates; data.drop=[bag] leaves it out.",
        mark="twin",
    ),
    Input(
        "a Parquet file of bytes",
        parquet(frame(bag=[b"a", b"b"] * 20), target="town"),
        ValueError,
        "1 problem with t.parquet.\n1. Column 'bag' holds ['bytes'], not numbers, text or dates; data.drop=[bag] leaves it out.",
        mark="twin",
    ),
    Input(
        "a Parquet file of structs",
        parquet(frame(bag=[{"a": 1}] * 40), target="town"),
        ValueError,
        "1 problem with t.parquet.\n1. Column 'bag' holds ['dict'], not numbers, text or dates; data.drop=[bag] leaves it out.",
        mark="twin",
    ),
    Input(
        "a Parquet file without rows",
        parquet(frame()[:0], target="town"),
        ValueError,
        "2 problems with t.parquet.\n1. The target 'town' holds nothing; set data.target to another column.\n2. It has 0 rows, which are too few: 10 are the least...",
        mark="library",
    ),
    Input(
        "no such folder of pictures",
        lambda here: folder(here / "no"),
        FileNotFoundError,
        "Expected the folder '...' but there is none; correct `path`.",
        mark="kept",
    ),
    Input(
        "a folder of pictures that is a file",
        lambda here: (here / "f").touch() or folder(here / "f"),
        FileNotFoundError,
        "Expected the folder '...' but there is none; correct `path`.",
        mark="twin",
    ),
    Input(
        "a folder without classes",
        lambda here: folder(here),
        ValueError,
        "Expected ... to have a subfolder for each of two or more classes, with the pictures of that class in it, but found none.",
        mark="library",
    ),
    Input(
        "a class without pictures",
        pictures(lambda p: (p / "fish").mkdir()),
        FileNotFoundError,
        "Expected pictures in every subfolder of ... but found none in ['fish']; their names end in one of .jpg, .jpeg, .png, .ppm, .bmp, .pgm, .tif, .tiff, .webp.",
        mark="library",
    ),
    Input(
        "a picture that is text",
        pictures(lambda p: (p / "cat/0.png").write_text("no picture")),
        ValueError,
        "Expected pictures, with names that end in one of .jpg, .jpeg, .png, .ppm, .bmp, .pgm, .tif, .tiff, .webp, but could not ... convert, replace or remove these files, or set data.skip_broken=true to leave them out.",
        mark="library",
    ),
    Input(
        "a picture that is cut",
        pictures(lambda p: (p / "cat/0.png").write_bytes((p / "cat/0.png").read_bytes()[:45])),
        ValueError,
        "Expected pictures, with names that end in one of .jpg, .jpeg, .png, .ppm, .bmp, .pgm, .tif, .tiff, .webp, but could not ... convert, replace or remove these files, or set data.skip_broken=true to leave them out.",
        mark="library",
    ),
    Input(
        "a picture of another size",
        pictures(lambda p: Image.new("RGB", (9, 8)).save(p / "cat/0.png")),
        ValueError,
        "Expected pictures of one size but ... is 9 x 8 pixels and ... is 8 x 8; set data.size=64, or another side, to bring all to squares.",
        mark="kept",
    ),
    Input(
        "a picture that is a link to itself",
        pictures(lambda p: link(p / "cat", "9.png")),
        ValueError,
        "Expected pictures, with names that end in one of .jpg, .jpeg, .png, .ppm, .bmp, .pgm, .tif, .tiff, .webp, but could not ... convert, replace or remove these files, or set data.skip_broken=true to leave them out.",
        mark="library",
    ),
    Input(
        "a picture of 200 million pixels",
        pictures(lambda p: bomb(p / "cat/0.png", 14_200)),
        ValueError,
        "Expected pictures, with names that end in one of .jpg, .jpeg, .png, .ppm, .bmp, .pgm, .tif, .tiff, .webp, but could not ... convert, replace or remove these files, or set data.skip_broken=true to leave them out.",
        slow=True,
        mark="library",
    ),
    Input(
        "PostScript that is named as a picture",
        pictures(lambda p: disguised(p / "cat/0.png")),
        ValueError,
        "Expected pictures, with names that end in one of .jpg, .jpeg, .png, .ppm, .bmp, .pgm, .tif, .tiff, .webp, but could not ... convert, replace or remove these files, or set data.skip_broken=true to leave them out.",
        mark="twin",
    ),
    Input(
        "a picture of 32 bits",
        pictures(lambda p: Image.new("I", (8, 8)).save(p / "cat/0.tif")),
        ValueError,
        "Expected pictures, with names that end in one of .jpg, .jpeg, .png, .ppm, .bmp, .pgm, .tif, .tiff, .webp, but could not ... convert, replace or remove these files, or set data.skip_broken=true to leave them out.",
        mark="gone",
    ),
    Input(
        "notes among the pictures",
        pictures(lambda p: (p / "cat/notes.txt").write_text("x")),
        ValueError,
        "Expected pictures, with names that end in one of .jpg, .jpeg, .png, .ppm, .bmp, .pgm, .tif, .tiff, .webp, but could not ... convert, replace or remove these files, or set data.skip_broken=true to leave them out.",
        mark="library",
    ),
    Input(
        "pictures of size 0",
        pictures(lambda p: None, size=0),
        ValueError,
        "Expected `size` to be a whole number of at least 1 but got 0.",
        mark="library",
    ),
    Input(
        "pictures of size 1.5",
        pictures(lambda p: None, size=1.5),
        TypeError,
        "Expected `size` to be a whole number of at least 1 but got 1.5 (float).",
        mark="library",
    ),
    Input(
        "colour that is text",
        pictures(lambda p: None, color="yes"),
        TypeError,
        "Expected `color` to be true or false but got 'yes' (str).",
        mark="library",
    ),
    Input(
        "texts without their column",
        texts(said("a b").rename(columns={"text": "body"})),
        ValueError,
        "Expected a column 'text' in ..., as data.column says, but got ['body', 'label']; set data.column to one of them.",
        mark="kept",
    ),
    Input(
        "texts without their labels",
        texts(said("a b").drop(columns="label")),
        ValueError,
        "Expected a column 'label' in ..., as data.target says, but got ['text']; set data.target to one of them.",
        mark="twin",
    ),
    Input(
        "texts that are empty",
        texts(said("", "")),
        ValueError,
        "Expected a text in every row of column 'text' but 40 of 40 have none: rows [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] and 30 more, the first row of data being row 0; fill them, or remove these rows.",
        mark="kept",
    ),
    Input(
        "texts of length 0",
        texts(said("a b"), length=0),
        ValueError,
        "Expected `length` to be a whole number of at least 1 but got 0.",
        mark="library",
    ),
    Input(
        "a vocabulary of -1",
        texts(said("a b"), vocabulary=-1),
        ValueError,
        "Expected `vocabulary` to be a whole number of at least 3 but got -1.",
        mark="library",
    ),
    Input(
        "a vocabulary in no file",
        texts(said("a b"), vocabulary="no.json"),
        FileNotFoundError,
        "Expected the file 'no.json' but found none at ...; nor is there one at ...: correct `path`.",
        mark="library",
    ),
    Input(
        "a vocabulary of another program",
        vocabulary('{"format": "other"}'),
        ValueError,
        "Expected a vocabulary in ... but it is damaged, or something else (ValueError: its format is 'other'); write it again by `vocabulary.save(path)`.",
        mark="kept",
    ),
    Input(
        "a vocabulary that is a list",
        vocabulary("[]"),
        ValueError,
        "Expected a vocabulary in ... but it is damaged, or something else (TypeError: list indices must be integers or slices, not str); write it again by `vocabulary.save(path)`.",
        mark="twin",
    ),
    Input(
        "a vocabulary that is cut",
        vocabulary('{"format"'),
        ValueError,
        "Expected a vocabulary in ... but it is damaged, or something else (JSONDecodeError: Expecting ':' delimiter: line 1 column 10 (char 9)); write it again by `vocabulary.save(path)`.",
        mark="twin",
    ),
    Input(
        "a vocabulary that nests without end",
        vocabulary("[" * 100_000),
        ValueError,
        "Expected a vocabulary in ... but it is damaged, or something else (RecursionError: maximum recursion depth exceeded while decoding a JSON array from a unicode string); write it again by `vocabulary.save(path)`.",
        mark="twin",
    ),
    Input(
        "a vocabulary of numbers",
        lambda _: ms.Vocabulary([1, 2]),
        ValueError,
        "2 problems.\n1. Expected `tokens[0]` to be text but got 1 (int); leave out what is missing, or give ''.\n2. Expected `tokens[1]` to be text but got 2 (int); leave out what is missing, or give ''.",
        mark="library",
    ),
    Input(
        "a vocabulary with a word twice",
        lambda _: ms.Vocabulary(["a", "a"]),
        ValueError,
        "Expected distinct tokens but got ['a'] more than once.",
        mark="kept",
    ),
    Input(
        "a vocabulary that is one text",
        lambda _: ms.Vocabulary("words"),
        TypeError,
        "Expected `tokens` to be a list of texts but got str; one text is `[text]`.",
        mark="kept",
    ),
    Input(
        "rows of tokens beyond the vocabulary",
        lambda _: ms.Vocabulary(["a"]).decode([[99.0]]),
        ValueError,
        "Expected whole numbers from 0 to 2, those of this vocabulary, in `rows` but row 0 has 99 in place 0; give what its `encode` returned.",
        mark="kept",
    ),
    Input(
        "series that are text",
        series("s.ts", "no series"),
        ValueError,
        "Expected the header of s.ts, up to a line @data, but line 1 is 'no series'; is it a .ts file?",
        mark="kept",
    ),
    Input(
        "series without data",
        series("s.ts", "@problemName x\n@classLabel true a b\n@data\n"),
        ValueError,
        "Expected series in ... but it holds none.",
        mark="library",
    ),
    Input(
        "series of another ending",
        series("s.csv", "1,2"),
        ValueError,
        "Expected a file of series that ends in one of ['.ts', '.npz'] but got 's.csv'; np.savez('series.npz', x=x, y=y) writes arrays as one.",
        mark="library",
    ),
    Input(
        "series that are cut",
        series("s.npz", b"PK\x03\x04" + bytes(50)),
        ValueError,
        "Expected arrays `x` and `y` of numbers or text in ..., as np.savez writes them, but could not read them (File is not a zip file); pickled objects are refused, since reading them can run code.",
        mark="library",
    ),
    Input(
        "arrays of objects",
        arrays(x=np.array([[1], [2]], dtype=object), y=np.arange(2)),
        ValueError,
        "Expected arrays `x` and `y` of numbers or text in ..., as np.savez writes them, but could not read them (Object arrays cannot be loaded when allow_pickle=False); pickled objects are refused, since reading them can run code.",
        mark="twin",
    ),
    Input(
        "arrays without series",
        arrays(y=np.arange(3)),
        ValueError,
        "Expected arrays `x` and `y` of numbers or text in ..., as np.savez writes them, but could not read them (it has ['y'], but no array 'x'); pickled objects are refused, since reading them can run code.",
        mark="kept",
    ),
    Input(
        "series without time points",
        arrays(x=np.zeros((4, 1, 0)), y=np.arange(4)),
        ValueError,
        "Expected `x` in ... to hold numbers [rows, channels, time] but got float64 of shape (4, 1, 0).",
        mark="library",
    ),
    Input(
        "series of complex numbers",
        arrays(x=np.ones((40, 1, 3)) * 1j, y=np.arange(40) % 2),
        ValueError,
        "Expected `x` in ... to hold numbers [rows, channels, time] but got complex128 of shape (40, 1, 3).",
        mark="library",
    ),
    Input(
        "series of 1e300",
        arrays(x=np.full((40, 1, 3), 1e300), y=np.arange(40) % 2),
        ValueError,
        "Expected numbers in `x` of ... that fit float32 (at most 3.4e38) but 120 do not; correct them, or change the unit.",
        mark="twin",
    ),
    Input(
        "a network that is empty",
        network(""),
        ValueError,
        "...: Expected at least one variable but the file has none.",
        mark="gone",
    ),
    Input(
        "a network of noise",
        network(bytes(range(256))),
        ValueError,
        "Expected ... to be a text file, or one compressed by gzip, but it is damaged ('utf-8' codec can't decode byte 0x... in position 128: invalid start byte); fetch it again.",
        mark="gone",
    ),
    Input(
        "a network that is cut",
        network(BIF + "probability ( a ) { table 0.5"),
        ValueError,
        "...: Expected more but got 'the end of the file'; the file is damaged.",
        mark="gone",
    ),
    Input(
        "a network of more than one",
        network(BIF + "probability ( a ) { table 0.9, 0.9; }"),
        ValueError,
        "...: Expected probabilities of 'a' that are not negative and sum to one but got [0.9, 0.9], which sum to 1.8.",
        mark="gone",
    ),
    Input(
        "a network of negative numbers",
        network(BIF + "probability ( a ) { table -1, 2; }"),
        ValueError,
        "...: Expected probabilities of 'a' that are not negative and sum to one but got [-1.0, 2.0], which sum to 1.",
        mark="gone",
    ),
    Input(
        "a network of words for numbers",
        network(BIF + "probability ( a ) { table x, y; }"),
        ValueError,
        "...: Expected numbers in the table of 'a': could not convert string to float: 'x'.",
        mark="gone",
    ),
    Input(
        "a network with a circle",
        network(
            BIF
            + "variable b { type discrete [ 2 ] { y, n }; }\nprobability ( a | b ) { (y) 0.5, 0.5; (n) 0.5, 0.5; }\nprobability ( b | a ) { (y) 0.5, 0.5; (n) 0.5, 0.5; }"
        ),
        ValueError,
        "...: Expected a network without cycles but ['a', 'b', 'a'] depend on one another; take one of these arrows out.",
        mark="gone",
    ),
    Input(
        "a network with an unknown parent",
        network(BIF + "probability ( a | z ) { (y) 0.5, 0.5; }"),
        ValueError,
        "...: Expected variables that are declared before their tables but 'z' is not",
        mark="gone",
    ),
    Input(
        "a network of 10^12 states",
        network(
            "network n {}\nvariable a { type discrete [ 1000000000000 ] { y, n }; }\nprobability ( a ) { table 0.5, 0.5; }"
        ),
        ValueError,
        "...: Expected 1000000000000 states of 'a', as declared, but got 2: ['y', 'n'].",
        mark="gone",
    ),
    Input(
        "no network",
        lambda here: ms.oracles.read_bif(here / "no.bif"),
        FileNotFoundError,
        "Expected a network at ... but no file is there; correct `path`.",
        mark="gone",
    ),
]
