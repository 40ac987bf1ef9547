"""Times of files: as text, numbers or timestamps, with an offset or as a wall clock showed them; inside they are UTC.

Moments are whole numbers, microseconds since 1970 in UTC. A wall clock that changes twice a year skips an hour in spring,
whose times do not exist, and repeats one in autumn, whose times are ambiguous without an offset.
"""

from collections.abc import Iterable

import polars as pl

from surefoot.errors import InputError
from surefoot.linking.plan import TimesSection

SECOND = 1_000_000
MINUTE = 60 * SECOND
DAY = 24 * 60 * MINUTE
OFFSET = r"(?:[zZ]|([+-])(\d{2}):?(\d{2})?)$"
ISO_TIME = r"\d[T ]\d{2}:\d{2}"


def split_times(column: str, dtype: pl.DataType, section: TimesSection) -> tuple[pl.Expr, pl.Expr]:
    """The wall clock's time (without a zone), and its offset from UTC in microseconds, null where it is not written."""
    times = pl.col(column)
    utc = pl.lit(0, pl.Int64)
    if isinstance(dtype, pl.Datetime):
        wall = times if dtype.time_zone is None else times.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return wall.dt.cast_time_unit("us"), utc if dtype.time_zone else pl.lit(None, pl.Int64)
    if section.time_unit is not None:
        factor = {"s": SECOND, "ms": 1_000, "us": 1}[section.time_unit]
        count = (times.cast(pl.Float64, strict=False) * factor).round().cast(pl.Int64, strict=False)
        return count.cast(pl.Datetime("us")), utc
    if dtype != pl.String:
        remedy = "write time_unit = 's' or 'ms' if they count from 1970, or name another column as time"
        raise InputError(f"column '{column}' holds {dtype}, not times; {remedy}", column=column)
    text = times.str.strip_chars()
    has_offset = text.str.contains(ISO_TIME) & text.str.contains(OFFSET)
    bare = pl.when(has_offset).then(text.str.replace(OFFSET, "")).otherwise(text)
    if section.time_format is not None:
        wall = bare.str.to_datetime(section.time_format, time_unit="us", strict=False)
    else:
        spelled = bare.str.strip_chars().str.replace(" ", "T", literal=True)
        formats = ("%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M")
        wall = pl.coalesce(spelled.str.to_datetime(pattern, time_unit="us", strict=False) for pattern in formats)
    sign = pl.when(text.str.extract(OFFSET, 1) == "-").then(-1).otherwise(1)
    hours = text.str.extract(OFFSET, 2).cast(pl.Int64, strict=False).fill_null(0)
    minutes = text.str.extract(OFFSET, 3).cast(pl.Int64, strict=False).fill_null(0)
    offset = pl.when(has_offset).then(sign * (60 * hours + minutes) * MINUTE)
    return wall, offset


def localise(wall: pl.Expr, zone: pl.Expr, zones: Iterable[str]) -> tuple[pl.Expr, pl.Expr]:
    """The first and the second moment at which a wall clock showed a time: the same but for ambiguous times, and null for
    times that do not exist."""
    moments = []
    for ambiguous in ("earliest", "latest"):
        moment = pl.lit(None, pl.Int64)
        for name in zones:
            local = wall.dt.replace_time_zone(name, ambiguous=ambiguous, non_existent="null")
            moment = pl.when(zone == name).then(local.dt.epoch("us")).otherwise(moment)
        moments.append(moment)
    return moments[0], moments[1]


def show_wall(moment: pl.Expr, zone: pl.Expr, zones: Iterable[str]) -> pl.Expr:
    """What a wall clock shows at a moment."""
    wall = pl.lit(None, pl.Datetime("us"))
    for name in zones:
        local = moment.cast(pl.Datetime("us", "UTC")).dt.convert_time_zone(name).dt.replace_time_zone(None)
        wall = pl.when(zone == name).then(local).otherwise(wall)
    return wall


def find_clock(day: pl.Expr, clock: str, zone: pl.Expr, zones: Iterable[str]) -> pl.Expr:
    """The moment of a clock time on a day (a date): the first of two, and a time that does not exist counts from the hour
    before the change, as if the clock had not been set."""
    zones = list(zones)
    hours, minutes = map(int, clock.split(":"))
    wall = day.cast(pl.Datetime("us")) + pl.duration(hours=hours, minutes=minutes)
    first, _ = localise(wall, zone, zones)
    # A day earlier the clock had not been set yet.
    before, _ = localise(wall - pl.duration(days=1), zone, zones)
    return pl.coalesce(first, before + DAY)
