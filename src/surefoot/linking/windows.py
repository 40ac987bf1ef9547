"""The windows of states and outcomes: two moments per decision point, in the participant's own time zone."""

from typing import cast

import polars as pl

from surefoot.linking.plan import NEXT, PREVIOUS, FeatureSection
from surefoot.linking.times import MINUTE, find_clock


def find_windows(points: pl.DataFrame, feature: FeatureSection) -> pl.DataFrame:
    """`begin` and `end` of the window of every decision point (`point`, `participant`, `time`); null where it has none.

    `points` are sorted by participant and time, with `wall` and `zone`. A state's window never ends after the decision, and
    an outcome's never begins before it.
    """
    zones = points["zone"].unique().drop_nulls().to_list()
    decision = pl.col("time")
    if feature.is_state:
        begin, end = _look_back(feature, zones)
        edges = {"begin": begin, "end": pl.min_horizontal(end, decision)}
    else:
        begin, end = _look_ahead(feature, zones)
        edges = {"begin": pl.max_horizontal(begin, decision), "end": end}
    windows = points.select("point", "participant", "time", **edges)
    is_whole = pl.col("begin").is_not_null() & pl.col("end").is_not_null()
    return windows.with_columns(pl.when(is_whole).then(pl.col(name)).alias(name) for name in ("begin", "end"))


def _look_back(feature: FeatureSection, zones: list[str]) -> tuple[pl.Expr, pl.Expr]:
    decision = pl.col("time")
    zone = pl.col("zone")
    today = pl.col("wall").dt.date()
    if feature.minutes is not None:
        return decision - round(feature.minutes * MINUTE), decision
    if feature.edge == PREVIOUS:
        return decision.shift(1).over("participant"), decision
    if feature.edge is not None:
        return _last_clock(today, feature.edge, zones), decision
    opens, closes = cast("tuple[str, str]", feature.clock)
    ended_today = find_clock(today, closes, zone, zones) <= decision
    last_day = pl.when(ended_today).then(today).otherwise(today.dt.offset_by("-1d"))
    first_day = last_day if opens < closes else last_day.dt.offset_by("-1d")
    return find_clock(first_day, opens, zone, zones), find_clock(last_day, closes, zone, zones)


def _last_clock(today: pl.Expr, clock: str, zones: list[str]) -> pl.Expr:
    """The last moment at which a clock showed a time, not after the decision."""
    zone = pl.col("zone")
    candidate = find_clock(today, clock, zone, zones)
    yesterday = find_clock(today.dt.offset_by("-1d"), clock, zone, zones)
    return pl.when(candidate <= pl.col("time")).then(candidate).otherwise(yesterday)


def _look_ahead(feature: FeatureSection, zones: list[str]) -> tuple[pl.Expr, pl.Expr]:
    decision = pl.col("time")
    zone = pl.col("zone")
    today = pl.col("wall").dt.date()
    tomorrow = today.dt.offset_by("1d")
    if feature.minutes is not None:
        return decision, decision + round(feature.minutes * MINUTE)
    if feature.edge == NEXT:
        return decision, decision.shift(-1).over("participant")
    if feature.edge is not None:
        candidate = find_clock(today, feature.edge, zone, zones)
        following = find_clock(tomorrow, feature.edge, zone, zones)
        return decision, pl.when(candidate > decision).then(candidate).otherwise(following)
    opens, closes = cast("tuple[str, str]", feature.clock)
    opens_today = find_clock(today, opens, zone, zones) >= decision
    first_day = pl.when(opens_today).then(today).otherwise(tomorrow)
    last_day = first_day if opens < closes else first_day.dt.offset_by("1d")
    return find_clock(first_day, opens, zone, zones), find_clock(last_day, closes, zone, zones)
