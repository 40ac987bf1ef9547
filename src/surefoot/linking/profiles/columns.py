"""Columns of an export: texts become numbers, times or text; blank cells are missing, never zero."""

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from surefoot.data.log_columns import (
    MISSING,
    PLAIN,
    FileSettings,
    LogColumn,
    Place,
    Problems,
    find_true,
    first_failure,
    frame_row,
    settle_missing,
    whole_array,
)
from surefoot.linking.profiles.files import AGAIN

UTC = pa.timestamp("us", "UTC")
LOCAL = pa.timestamp("us")
WHOLE_NUMBER = r"^-?(0|[1-9]\d{0,14})$"
NUMBER = r"^[-+]?(\d{1,15}(\.\d*)?|\.\d+)([eE][-+]?\d{1,3})?$"
"""Longer numbers are ids, of which a floating-point number would lose digits."""
LEADING_ZERO = r"^[-+]?0\d"
"""As in 007: an id too."""
CLOCK = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?"
DATE_AND_TIME = rf"^{CLOCK}$"
ZONED_TIME = rf"^{CLOCK} ?(Z|[+-]\d\d(:?\d\d)?)$"
DAY = r"^\d{4}-\d\d-\d\d$"
EARLIEST = 631_152_000
LATEST = 4_102_444_800
"""1990 and 2100 in seconds since 1970: numbers outside are not times, or in another unit."""


def type_cells(cells: pa.Array, settings: FileSettings = PLAIN) -> pa.Array:
    """Texts as whole numbers, decimals or times if all of them are; else as text.

    >>> type_cells(pa.array(["4", "", "12"])).to_pylist(), type_cells(pa.array(["007", "8"])).to_pylist()
    ([4, None, 12], ['007', '8'])
    """
    cells = settle_missing(whole_array(cells), MISSING)
    if cells.null_count == len(cells):
        return pa.nulls(len(cells))
    numbers = LogColumn("", cells, settings=settings).plain_numbers()
    if _all_match(numbers, WHOLE_NUMBER):
        return numbers.cast(pa.int64())
    if _all_match(numbers, NUMBER) and not pc.any(pc.match_substring_regex(numbers, LEADING_ZERO)).as_py():
        return numbers.cast(pa.float64())
    for pattern, kind in ((DATE_AND_TIME, LOCAL), (ZONED_TIME, UTC)):
        if _all_match(cells, pattern) and first_failure(_close_zones(cells), kind) is None:
            return _close_zones(cells).cast(kind)
    return cells.cast(pa.string())


def is_filled(cells: pa.Array) -> bool:
    """Whether a cell holds something."""
    return bool(settle_missing(whole_array(cells), MISSING).null_count < len(cells))


def join_types(kinds: Iterable[pa.DataType]) -> pa.DataType:
    """The type of a column of several files: whole numbers and decimals are decimals, other mixtures are text."""
    distinct = {kind for kind in kinds if not pa.types.is_null(kind)}
    if len(distinct) == 1:
        return distinct.pop()
    return pa.float64() if distinct == {pa.int64(), pa.float64()} else pa.string()


def parse_epoch(name: str, cells: pa.Array, name_row: Place = frame_row, *, per_second: int = 1) -> pa.Array:
    """Numbers since 1970 as times in UTC; `per_second` is 1,000 for milliseconds."""
    problems = Problems(name_row)
    texts = settle_missing(whole_array(cells), MISSING)
    seconds = LogColumn(name, texts, problems).numbers() / per_second
    wrong = np.flatnonzero((seconds < EARLIEST) | (seconds > LATEST))
    unit = {1: "seconds", 1_000: "milliseconds"}[per_second]
    if wrong.size:
        reason = f"'{texts[int(wrong[0])]}' is not a time in {unit} since 1970"
        problems.report(name, wrong, reason, AGAIN)
    problems.raise_any()
    missing = np.isnan(seconds)
    microseconds = np.round(np.where(missing, 0, seconds) * 1e6).astype(np.int64)
    return pa.array(microseconds, pa.int64(), mask=missing).cast(UTC)


def parse_times(name: str, cells: pa.Array, name_row: Place = frame_row, formats: Sequence[str] = ()) -> pa.Array:
    """Times in one of the formats, or in ISO 8601: in UTC if all have a zone, local if none has."""
    problems = Problems(name_row)
    texts = settle_missing(whole_array(cells), MISSING)
    best = None
    for layout in formats:
        times = pc.strptime(texts, format=layout, unit="us", error_is_null=True)
        if best is None or times.null_count < best.null_count:
            best = times
        if best.null_count == texts.null_count:
            break
    if best is not None and best.null_count < len(best):
        wrong = find_true(pc.and_(best.is_null(), texts.is_valid()))
        if wrong.size:
            problems.report(name, wrong, f"'{texts[int(wrong[0])]}' is not a time", AGAIN)
        problems.raise_any()
        return best
    is_zoned = pc.match_substring_regex(texts, ZONED_TIME)
    is_local = pc.match_substring_regex(texts, f"{DATE_AND_TIME}|{DAY}")
    wrong = find_true(pc.invert(pc.or_(is_zoned, is_local)))
    if wrong.size:
        problems.report(name, wrong, f"'{texts[int(wrong[0])]}' is not a time", AGAIN)
    elif pc.any(is_zoned).as_py() and pc.any(is_local).as_py():
        row = find_true(is_local)
        problems.report(name, row, f"'{texts[int(row[0])]}' has no zone, unlike other rows", "export all times with a zone")
    problems.raise_any()
    kind = UTC if pc.any(is_zoned).as_py() else LOCAL
    row_number = first_failure(_close_zones(texts), kind)
    if row_number is not None:
        problems.report(name, [row_number], f"'{texts[row_number]}' is not a time", AGAIN)
        problems.raise_any()
    return _close_zones(texts).cast(kind)


def _close_zones(texts: pa.Array) -> pa.Array:
    """Without the blank before an offset (10:30:00 -0700)."""
    return pc.replace_substring_regex(texts, r" ([+-]\d\d(:?\d\d)?)$", r"\1")


def _all_match(cells: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(cells, pattern)).as_py())
