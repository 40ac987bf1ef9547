"""The windows of states and outcomes, and the features that are computed from the rows in them."""

from typing import cast

import polars as pl

from surefoot.linking.plan import NEXT, PREVIOUS, FeatureSection
from surefoot.linking.times import DAY, MINUTE, find_clock

SHORTEST_BUCKET = 10 * MINUTE


def find_windows(points: pl.DataFrame, feature: FeatureSection) -> pl.DataFrame:
    """`begin` and `end` of the window of every decision point (`point`, `participant`, `time`); null where it has none.

    `points` are sorted by participant and time, with `wall` and `zone`: clock times are those of the participant. A state's
    window never ends after the decision, and an outcome's never begins before it.
    """
    zones = points["zone"].unique().drop_nulls().to_list()
    decision = pl.col("time")
    if feature.clock is not None:
        begin, end = _find_clock_window(feature, zones)
    elif feature.is_state:
        begin, end = _find_edge(feature, zones), decision
    else:
        begin, end = decision, _find_edge(feature, zones)
    # A state looks back, an outcome ahead.
    edges = {"begin": begin, "end": pl.min_horizontal(end, decision)}
    if not feature.is_state:
        edges = {"begin": pl.max_horizontal(begin, decision), "end": end}
    windows = points.select("point", "participant", "time", **edges)
    is_whole = pl.col("begin").is_not_null() & pl.col("end").is_not_null()
    return windows.with_columns(pl.when(is_whole).then(pl.col(name)).alias(name) for name in ("begin", "end"))


def _find_edge(feature: FeatureSection, zones: list[str]) -> pl.Expr:
    """The end of the window that is not the decision."""
    decision = pl.col("time")
    step = -1 if feature.is_state else 1
    if feature.minutes is not None:
        return decision + step * round(feature.minutes * MINUTE)
    if feature.edge in (PREVIOUS, NEXT):
        return decision.shift(-step).over("participant")
    today = pl.col("wall").dt.date()
    clock = str(feature.edge)
    candidate = find_clock(today, clock, pl.col("zone"), zones)
    on_the_other_day = find_clock(today.dt.offset_by(f"{step}d"), clock, pl.col("zone"), zones)
    is_today = candidate <= decision if feature.is_state else candidate > decision
    return pl.when(is_today).then(candidate).otherwise(on_the_other_day)


def _find_clock_window(feature: FeatureSection, zones: list[str]) -> tuple[pl.Expr, pl.Expr]:
    """The last window between two clock times that ended by the decision (state), or the next one (outcome)."""
    opens, closes = cast("tuple[str, str]", feature.clock)
    zone = pl.col("zone")
    today = pl.col("wall").dt.date()
    if feature.is_state:
        ended_today = find_clock(today, closes, zone, zones) <= pl.col("time")
        last_day = pl.when(ended_today).then(today).otherwise(today.dt.offset_by("-1d"))
        first_day = last_day if opens < closes else last_day.dt.offset_by("-1d")
    else:
        opens_today = find_clock(today, opens, zone, zones) >= pl.col("time")
        first_day = pl.when(opens_today).then(today).otherwise(today.dt.offset_by("1d"))
        last_day = first_day if opens < closes else first_day.dt.offset_by("1d")
    return find_clock(first_day, opens, zone, zones), find_clock(last_day, closes, zone, zones)


def join_windows(rows: pl.DataFrame, windows: pl.DataFrame, length: int, *, in_order: bool) -> pl.LazyFrame:
    """Every row with every window that holds it whole: begin ≤ time, time < end, and the row's end ≤ end.

    Both are joined by participant and bucket of time, so that the engine compares neighbours only.
    """
    spans = windows.filter(pl.col("begin") < pl.col("end"))
    mean = (spans["end"] - spans["begin"]).mean()
    bucket = int(min(max(float(mean or 0), SHORTEST_BUCKET), DAY))  # type: ignore[arg-type]
    buckets = pl.int_ranges(pl.col("begin") // bucket, (pl.col("end") - 1) // bucket + 1)
    spans = spans.select("point", "participant", "begin", "end", decision="time", bucket=buckets)
    time = pl.col("time")
    row_end = time + length if length else pl.col("ends")
    return (
        rows.lazy()
        .with_columns(bucket=time // bucket)
        .join(spans.lazy().explode("bucket"), on=["participant", "bucket"], maintain_order="left" if in_order else "none")
        .filter(time >= pl.col("begin"), time < pl.col("end"), row_end <= pl.col("end"))
    )


def compute_feature(
    rows: pl.DataFrame, windows: pl.DataFrame, feature: FeatureSection, row_minutes: int | None
) -> pl.DataFrame:
    """For every decision point `value`, `minutes` with data, `worn_minutes`, `share` of the window, and `late` rows.

    Events have `rows` instead of minutes. A row that arrived after the decision is late: no state uses it.
    """
    length = (row_minutes or 0) * MINUTE
    is_known = pl.col("time").is_not_null()
    if feature.is_state:
        is_known = pl.col("received").is_null() | (pl.col("received") <= pl.col("decision"))
    used_value = pl.col("value").filter("is_used")
    measure = {
        "last": used_value.last(),
        "minutes since": pl.col("ends").filter("is_used").max() + length,
    }.get(feature.feature, pl.col("used_value").sum())
    is_used = pl.col("is_known") & pl.col("worn")
    measured = (
        join_windows(rows, windows, length, in_order=feature.feature == "last")
        .with_columns(is_known=is_known)
        .with_columns(is_used=is_used, used_value=pl.when(is_used).then("value"))
        .group_by("point")
        .agg(total=pl.len(), rows=pl.col("is_known").sum(), used=pl.col("is_used").sum(), measure=measure)
        .with_columns(late=pl.col("total") - pl.col("rows"))
        .collect()
    )
    has_window = pl.col("begin").is_not_null()
    counts = [pl.when(has_window).then(pl.col(name).fill_null(0)).alias(name) for name in ("rows", "used")]
    table = windows.join(measured, on="point", how="left").with_columns(*counts, pl.col("late").fill_null(0))
    if length:
        fits = ((pl.col("end") // length) + (-pl.col("begin") // length)).clip(0) * (row_minutes or 0)
        share = (pl.col("used") * (row_minutes or 0) / pl.when(fits > 0).then(fits)).clip(0, 1)
        table = table.with_columns(fits=fits, share=share)
    else:
        table = table.with_columns(fits=pl.lit(None, pl.Int64), share=pl.lit(None, pl.Float64))
    is_enough = pl.col("share") >= feature.at_least if length else has_window
    return table.select(
        "point",
        "rows",
        "late",
        "share",
        pl.when(is_enough).then(_finish(feature, row_minutes)).alias("value"),
        minutes=pl.col("rows") * (row_minutes or 1),
        worn_minutes=pl.col("used") * (row_minutes or 1),
        has_window=has_window,
        has_rows=pl.col("used") > 0,
    )


def _finish(feature: FeatureSection, row_minutes: int | None) -> pl.Expr:
    """The feature from what was measured; missing where no row was used, but for counts and shares."""
    used = pl.col("used")
    if feature.feature == "count":
        return used.cast(pl.Float64)
    if feature.feature == "share covered":
        return pl.col("share")
    if feature.feature == "minutes since":
        return (pl.col("time") - pl.col("measure")) / MINUTE
    value = pl.col("measure")
    if feature.feature == "mean":
        value = value / used
    if feature.partial == "scaled":
        value = value * pl.col("fits") / (used * (row_minutes or 1))
    return pl.when(used > 0).then(value)
