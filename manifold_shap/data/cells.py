"""Tells what a column of text holds: numbers, dates or categories, and what does not fit."""

import pandas as pd

from manifold_shap._messages import shown
from manifold_shap.data.findings import Findings

# Texts that stand for a missing value among numbers or dates, where no one could mean another.
_MISSING_WORDS = {"#n/a", "<na>", "n/a", "na", "nan", "nat", "none", "null", "missing"}
_MISSING_WORDS |= {"?", "-", "--", "."}
_MOST = 0.5
# So few distinct texts may be categories such as "0", "1", "2", "3+".
_FEW, _FEW_WORDS = 20, 5
_COMMA = r"[+-]?(?:\d{1,3}(?:\.\d{3})+|\d+),\d+(?:[eE][+-]?\d+)?"
_THOUSANDS = r"[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?"
# The other way round; with a decimal point; with a sign of which there can be but one.
_POINTS, _POINTED, _TWICE = r"[+-]?[1-9]\d{0,2}(?:\.\d{3})+", r"[+-]?\d*\.\d+", r",.*[,.]"
# Three parts, so that neither a range ("10-14") nor a month ("May") is taken for a date.
_DATE = r"\w+(?:[-/. ]|, )\w+(?:[-/. ]|, )\w+.*"
_BY_NUMBERS = r"(\d{1,2})[-/. ](\d{1,2})[-/. ](\d{4}|\d{2})(\D.*)?"
_ISO = r"\d{4}-\d{1,2}-\d{1,2}(\D.*)?"
_NAMED = r"(?i).*(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec).*\d.*"
_ZONE = r".*\d\d?:\d\d.*(?:Z|[+-]\d\d:?\d\d)"


def read_text(
    series: pd.Series, decimal: str | None, day_first: bool | None, found: Findings
) -> pd.Series:
    """A column of text as numbers or dates where nearly all of it is, or else as it is.

    Args:
        series: texts, or missing.
        decimal: the sign in numbers; None for the one that is found.
        day_first: whether "3/4/2021" is in April; None where the column must tell.
        found: collects what does not fit.
    """
    counts = series.value_counts()
    words = counts.index.to_series().astype(str)
    lists = words.str.fullmatch(r"(?s)\s*[\[{].*[\]}]\s*")
    if _share(lists, counts) > _MOST:
        found.problem(
            f"column {series.name!r} holds lists, such as {words[lists].iloc[0][:60]!r}",
            "drop",
            [str(series.name)],
            "leaves it out",
        )
        return series
    numbers, problem = _numbers(words, decimal)
    if _share(numbers.notna(), counts) > _MOST:
        if problem:
            found.problem(f"column {series.name!r} {problem[0]}", *problem[1:])
            return series
        if len(words) <= _FEW and not _odd(words, numbers).empty:
            found.remark(
                f"column {series.name!r} is read as {len(words)} categories, of which "
                f"{_odd(words, numbers).iloc[0]!r} is no number"
            )
            return series
        return _filled(series, words, counts, numbers, "numbers", found)
    dated = words.str.fullmatch(_DATE)
    if _share(dated, counts) > _MOST:
        dates = read_dates(words, day_first)
        if _share(dates.notna(), counts) > _MOST:
            return _dated(series, words, counts, dates, day_first, found)
    return series


def read_named_dates(series: pd.Series, day_first: bool | None, found: Findings) -> pd.Series:
    """A column that the caller says holds dates, each cell read by its own form.

    Of cells without a time zone among others with one, the zone is taken to be UTC.
    """
    counts = series.value_counts()
    words = counts.index.to_series().astype(str)
    if day_first is None and _order(words) is None and words.str.fullmatch(_BY_NUMBERS).any():
        _say_order(series, words, found)
        return series
    return _filled(series, words, counts, read_dates(words, day_first), "dates", found)


def read_dates(words: pd.Series, day_first: bool | None) -> pd.Series:
    """Texts as dates, NaT where they are none; in UTC if one names a time zone."""
    by_numbers = words.str.fullmatch(_BY_NUMBERS)
    parts = words[by_numbers].str.extract(_BY_NUMBERS)
    order = _order(words) if day_first is None else day_first
    # A cell that tells by itself is right, whatever the others are.
    first, second = (parts[k].astype(int) > 12 for k in (0, 1))
    day_is_first = first | ~second & bool(order)
    day, month = parts[0].where(day_is_first, parts[1]), parts[1].where(day_is_first, parts[0])
    # Of two digits, as POSIX has them: 69 to 99 are of the last century.
    year = parts[2].where(
        parts[2].str.len() == 4,
        parts[2].map(lambda two: f"{19 if two >= '69' else 20}{two}"),
    )
    text = words.copy()
    text[by_numbers] = (
        year + "-" + month.str.zfill(2) + "-" + day.str.zfill(2) + parts[3].fillna("")
    )
    utc = bool(words.str.fullmatch(_ZONE).any())
    dates = pd.Series(pd.NaT, words.index, dtype="datetime64[ns, UTC]" if utc else "datetime64[ns]")
    dated = text.str.fullmatch(_ISO) | text.str.fullmatch(_NAMED)
    for form in ("ISO8601", "mixed"):
        some = text[dated & dates.isna()]
        dates[some.index] = pd.to_datetime(some, errors="coerce", format=form, utc=utc)
    return dates


def _dated(
    series: pd.Series,
    words: pd.Series,
    counts: pd.Series,
    dates: pd.Series,
    day_first: bool | None,
    found: Findings,
) -> pd.Series:
    """A column that looks like dates, unless it does not say which."""
    name, text = series.name, words[dates.notna()]
    by_numbers = text.str.fullmatch(_BY_NUMBERS)
    if day_first is None and by_numbers.any() and _order(words) is None:
        _say_order(series, words, found)
        return series
    zoned = text.str.fullmatch(_ZONE)
    forms = {
        "year first": text[text.str.fullmatch(_ISO)],
        "by numbers": text[by_numbers],
        "others": text[~by_numbers & ~text.str.fullmatch(_ISO)],
    }
    examples = [some.iloc[0] for some in forms.values() if len(some)]
    mixed = len(examples) > 1
    if not mixed and zoned.any() and not zoned.all():
        mixed, examples = True, [text[zoned].iloc[0], text[~zoned].iloc[0]]
    if mixed:
        found.problem(
            f"column {name!r} holds dates of several forms: {shown(examples)}",
            "dates",
            [str(name)],
            "reads each by its own form, in UTC where no time zone is named",
        )
        return series
    if text[zoned].str.extract(r"(Z|[+-]\d\d:?\d\d)$")[0].nunique() > 1:
        found.remark(f"column {name!r} holds dates of several time zones, read as UTC")
    return _filled(series, words, counts, dates, "dates", found)


def _say_order(series: pd.Series, words: pd.Series, found: Findings) -> None:
    texts = words[words.str.fullmatch(_BY_NUMBERS)]
    found.problem(
        f"column {series.name!r} holds dates of which none or both orders show whether day or "
        f"month comes first, such as {texts.iloc[0]!r}",
        "day_first",
        True,
        "reads the day first, false the month",
    )


def _order(words: pd.Series) -> bool | None:
    """Whether the day comes first in dates by numbers; None if that does not show."""
    parts = words[words.str.fullmatch(_BY_NUMBERS)].str.extract(_BY_NUMBERS)
    day, month = (bool((parts[k].astype(int) > 12).any()) for k in (0, 1))
    return None if day == month else day


def _numbers(words: pd.Series, decimal: str | None) -> tuple[pd.Series, tuple]:
    """Texts as numbers, NaN where they are none; and what cannot be decided, with its repair."""
    commas, thousands = words.str.fullmatch(_COMMA), words.str.fullmatch(_THOUSANDS)
    if not (commas | thousands).any() and decimal != ",":
        return pd.to_numeric(words, errors="coerce"), ()
    by_comma = words.where(
        ~(commas | words.str.fullmatch(_POINTS)),
        words.str.replace(".", "", regex=False).str.replace(",", ".", regex=False),
    )
    by_point = words.where(~thousands, words.str.replace(",", "", regex=False))
    pointed = words[words.str.fullmatch(_POINTED)]
    sure = words[commas & ~thousands]
    problem: tuple = ()
    if decimal is None and len(sure) and len(pointed):
        problem = (
            f"holds numbers with a decimal comma and with a point: {sure.iloc[0]!r} and "
            f"{pointed.iloc[0]!r}",
            "decimal",
            ",",
            "takes commas for the decimal sign, too",
        )
    elif decimal is None and not len(sure) and not words[thousands].str.contains(_TWICE).any():
        problem = (
            f"holds numbers such as {words[thousands].iloc[0]!r}, with a decimal comma or a "
            "separator of thousands",
            "decimal",
            ",",
            "takes it for the decimal comma, data.decimal=. for a separator of thousands",
        )
    takes_commas = decimal == "," or (decimal is None and len(sure))
    return pd.to_numeric(by_comma if takes_commas else by_point, errors="coerce"), problem


def _filled(
    series: pd.Series,
    words: pd.Series,
    counts: pd.Series,
    values: pd.Series,
    kind: str,
    found: Findings,
) -> pd.Series:
    """The column by what its texts mean, where those that mean nothing stand for missing ones."""
    odd = _odd(words, values)
    absent = [word for word in words[values.isna()] if word not in set(odd)]
    if absent:
        found.remark(f"column {series.name!r} holds {kind}, and {shown(absent)} for missing ones")
    if len(odd):
        message = f"column {series.name!r} holds {kind}, but other text in "
        message += f"{counts[odd.index].sum()} of {counts.sum()} rows: {shown(odd, _FEW_WORDS)}"
        if len(odd) <= _FEW_WORDS:
            found.problem(message, "na_values", list(odd), "takes them for missing")
        else:
            found.problem(message, "categorical", [str(series.name)], "reads it as categories")
        return series
    return series.map(values.set_axis(words.index)).astype(values.dtype)


def _odd(words: pd.Series, values: pd.Series) -> pd.Series:
    """Texts that are neither a value nor a word for a missing one."""
    return words[values.isna() & ~_is_missing_word(words)]


def _is_missing_word(words: pd.Series) -> pd.Series:
    return words.str.strip().str.lower().isin(_MISSING_WORDS)


def _share(chosen: pd.Series, counts: pd.Series) -> float:
    """Of the cells that say something, those whose text is chosen."""
    weights = counts.to_numpy() * ~_is_missing_word(chosen.index.to_series()).to_numpy(dtype=bool)
    return float(weights[chosen.to_numpy(dtype=bool)].sum() / max(weights.sum(), 1))
