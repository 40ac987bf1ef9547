"""From raw files to decision points: people go through in blocks, so that memory does not grow with the files."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from surefoot.data.log_columns import MISSING, first_failure, settle_missing, whole_array
from surefoot.errors import InputError, did_you_mean
from surefoot.linking.linked import Day, FeatureCounts, Linked
from surefoot.linking.plan import DecisionsSection, FeatureSection, LinkPlan
from surefoot.linking.streams import REPEATED_HOUR, SKIPPED_HOUR, Stream, check_zones, complete, open_stream
from surefoot.linking.times import MINUTE, find_clock, localise, show_wall, split_times
from surefoot.linking.windows import compute_feature, find_windows

BLOCK_ROWS = 4_000_000
"""Rows, or rows in windows, that are in memory at a time."""
REREAD = 2
"""A file of which the blocks would read more than this many times its rows is sorted by block first."""
Progress = Callable[[int, int], None]


def link(
    decisions: Any,
    streams: Mapping[str, Any] | None = None,
    *,
    plan: "LinkPlan | str | Path",
    progress: Progress | None = None,
    block_rows: int = BLOCK_ROWS,
) -> Linked:
    """Compute the states and outcomes of every decision point from streams of raw rows.

    Parameters
    ----------
    decisions
        The log of decision points: a path, or a pandas, polars or Arrow table. Its columns are kept.
    streams
        Name in the plan → path or table. A stream that is not here is read from the file that the plan names.
    plan
        What the columns mean, and the windows: a `LinkPlan`, or the path of `link.toml`.
    progress
        Called with the number of people done, and of all.
    block_rows
        Rows in memory at a time. The result does not depend on it.

    Returns
    -------
    Linked
        One row per decision point, and counts of everything that was left out.

    Examples
    --------
    >>> import pyarrow as pa
    >>> times = [f"2026-03-02T08:{minute}:00Z" for minute in (28, 29, 30)]
    >>> steps = pa.table({"participant": ["a", "a", "a"], "time": times, "steps": [5, 7, 90]})
    >>> decisions = pa.table({"participant": ["a"], "time": ["2026-03-02T08:30:00Z"], "sent": [1]})
    >>> plan = LinkPlan.parse('''
    ... [streams.watch]
    ... row_minutes = 1
    ... [states.before]
    ... stream = "watch"
    ... column = "steps"
    ... feature = "sum"
    ... minutes = 60
    ... ''')
    >>> link(decisions, {"watch": steps}, plan=plan).table.select(["before", "before_minutes"]).to_pylist()
    [{'before': 12.0, 'before_minutes': 2}]
    """
    folder = Path()
    if not isinstance(plan, LinkPlan):
        folder = Path(plan).parent
        plan = LinkPlan.load(plan)
    table, points = read_decisions(decisions, plan)
    opened = _open_streams(plan, dict(streams or {}), folder)
    windows = {name: find_windows(points, feature) for name, feature in plan.features.items()}
    people = points["participant"].unique().to_list()
    # In the order that files have: numbers as numbers.
    people.sort(key=lambda name: (0, int(name), "") if name.isdecimal() else (1, 0, name))
    blocks = _make_blocks(people, points, plan, opened, windows, block_rows)
    homes = points.sort("time").select("participant", "zone", "wall")
    homes = homes.filter(pl.col("zone").ne_missing(pl.col("zone").shift(1).over("participant")))
    pieces: dict[str, list[pl.DataFrame]] = {name: [] for name in plan.features}
    day = _choose_day(points)
    with tempfile.TemporaryDirectory(prefix="surefoot-link-") as scratch:
        opened_blocks = _sort_by_block(opened, blocks, Path(scratch))
        done = 0
        for block, readers in zip(blocks, opened_blocks, strict=True):
            for name, rows, measures in _join_block(plan, readers, block, homes, windows):
                pieces[name].append(measures)
                if day is not None and day.participant in block:
                    day = _keep_day(day, name, rows, windows[name])
            done += len(block)
            if progress is not None:
                progress(done, len(people))
    measured = {name: pl.concat(frames).sort("point") for name, frames in pieces.items()}
    return Linked(
        table=_add_columns(table, plan, measured),
        plan=plan,
        streams=tuple(stream.count_rows() for stream in opened.values()),
        features=tuple(_count_feature(name, plan.features[name], measured[name], windows[name]) for name in measured),
        unrecorded=find_unrecorded(points, plan.decisions),
        participants=len(people),
        day=day,
    )


def compute_context(
    plan: "LinkPlan | str | Path",
    streams: Mapping[str, Any],
    *,
    participant: str,
    time: datetime,
    zone: str | None = None,
    earlier: Sequence[datetime] = (),
) -> dict[str, float | None]:
    """The states of the plan at one moment, by the code of `link`: the context that a client sends to the service.

    Parameters
    ----------
    plan
        The plan by which the logs were linked.
    streams
        Name in the plan → path or table with the rows so far.
    participant
        Whose decision point it is.
    time
        Of the decision, with a time zone.
    zone
        IANA name of the participant's zone; that of the plan unless given.
    earlier
        Times of earlier decisions, for windows since the previous one.

    Returns
    -------
    dict
        State → value, None where it is missing.

    Examples
    --------
    >>> from datetime import UTC
    >>> text = '[streams.s]\\n[states.answers]\\nstream = "s"\\nfeature = "count"\\nminutes = 60'
    >>> rows = pa.table({"participant": ["a"], "time": ["2026-03-02T08:00:00Z"]})
    >>> compute_context(LinkPlan.parse(text), {"s": rows}, participant="a", time=datetime(2026, 3, 2, 8, 30, tzinfo=UTC))
    {'answers': 1.0}
    """
    plan = plan if isinstance(plan, LinkPlan) else LinkPlan.load(plan)
    times = [moment.isoformat() for moment in (*earlier, time)]
    update: dict[str, Any] = {
        "participant": "participant",
        "time": "time",
        "time_format": None,
        "time_unit": None,
        "expected": (),
    }
    if zone is not None or plan.decisions.zone_column is not None:
        update |= {"zone": zone, "zone_column": None}
    decisions = plan.decisions.model_copy(update=update)
    table = pa.table({"participant": [str(participant)] * len(times), "time": times})
    linked = link(table, streams, plan=plan.model_copy(update={"decisions": decisions, "outcomes": {}}))
    values = linked.table.slice(len(earlier)).to_pylist()[0]
    return {name: values[name] for name in plan.states}


def read_decisions(source: Any, plan: LinkPlan) -> tuple[pa.Table, pl.DataFrame]:
    """The table as it is, and its decision points: `point` (row), `participant`, `time` (UTC), `wall` and `zone`."""
    section = plan.decisions
    table, name_row = _read_table(source, (section.participant, section.time, section.zone_column))
    label = str(source) if isinstance(source, str | Path) else "decisions"
    for column in (section.participant, section.time, section.zone_column):
        if column is not None and column not in table.column_names:
            near = did_you_mean(column, table.column_names)
            raise InputError(f"{label}: there is no column '{column}'{near}; it has {table.column_names}", column=column)
    frame = pl.DataFrame(table)
    wall, offset = split_times(section.time, frame.schema[section.time], section)
    zone = pl.lit(section.zone, pl.String) if section.zone_column is None else pl.col(section.zone_column)
    points = frame.select(
        participant=pl.col(section.participant).cast(pl.String), wall=wall, offset=offset, zone=zone
    ).with_row_index("point")

    def refuse(mask: pl.Expr, column: str, problem: str) -> None:
        rows = points.filter(mask)["point"]
        if len(rows):
            others = f" (and {len(rows) - 1} more)" if len(rows) > 1 else ""
            raise InputError(
                f"{label}: {name_row(rows[0])}, column '{column}': {problem}{others}", row=rows[0], column=column
            )

    refuse(pl.col("participant").is_null(), section.participant, "no participant; every decision point needs one")
    refuse(pl.col("wall").is_null(), section.time, "not a time; write ISO 8601, or time_format or time_unit in [decisions]")
    is_local = pl.col("offset").is_null()
    if points.select(is_local.any()).item() or section.zone or section.zone_column:
        check_zones(points["zone"].unique(), f"{label}, [decisions]")
    zones = points["zone"].unique().drop_nulls().to_list()
    first, second = localise(pl.col("wall"), pl.col("zone"), zones)
    points = points.with_columns(first=first, second=second)
    refuse(is_local & pl.col("first").is_null(), section.time, f"{SKIPPED_HOUR}; write its offset from UTC")
    if section.fold is None:
        is_ambiguous = is_local & (pl.col("first") != pl.col("second"))
        refuse(is_ambiguous, section.time, f"{REPEATED_HOUR}; write fold = 'first' or 'second' in [decisions]")
    moment = (
        pl.when(is_local).then(pl.col(section.fold or "first")).otherwise(pl.col("wall").dt.epoch("us") - pl.col("offset"))
    )
    points = points.with_columns(time=moment).with_columns(wall=show_wall(pl.col("time"), pl.col("zone"), zones))
    same = "the participant has another decision point at this time; keep one of them"
    refuse(pl.struct("participant", "time").is_duplicated(), section.time, same)
    if not zones and any(feature.clock or ":" in (feature.edge or "") for feature in plan.features.values()):
        raise InputError(f"{label}: windows by the clock need a time zone; write zone or zone_column in [decisions]")
    return table, points.select("point", "participant", "time", "wall", "zone").sort("participant", "time")


def _read_table(source: Any, as_text: Sequence[str | None]) -> tuple[pa.Table, Callable[[int], str]]:
    """A frame, or a file as it is, with numbers where all cells of a column are; ids and times stay text."""
    from surefoot.data.file_detection import detect_settings
    from surefoot.data.log_table import LogFile, list_files, name_file

    if not isinstance(source, str | Path):
        import narwhals as nw

        return nw.from_native(source, eager_only=True).to_arrow(), "row {}".format
    file = LogFile(list_files(source)[0])
    with name_file(source):
        settings, _ = detect_settings(file)
        table, name_row = file.read_cells(settings)
    if file.is_parquet:
        return table, name_row
    columns = {}
    for name in table.column_names:
        cells = settle_missing(whole_array(table[name]), MISSING)
        kinds = (pa.int64(), pa.float64())
        is_plain = name not in as_text and not pc.any(pc.match_substring_regex(cells, r"^[-+]?0\d")).as_py()
        kind = next((kind for kind in kinds if first_failure(cells, kind) is None), None) if is_plain else None
        columns[name] = cells if kind is None or cells.null_count == len(cells) else cells.cast(kind)
    return pa.table(columns), name_row


def _open_streams(plan: LinkPlan, given: dict[str, Any], folder: Path) -> dict[str, Stream]:
    """The streams of the plan that a feature uses."""
    for name in given:
        if name not in plan.streams:
            near = did_you_mean(name, plan.streams)
            raise InputError(f"the plan has no [streams.{name}]{near}; it has {list(plan.streams)}")
    used = {stream for feature in plan.features.values() for stream in feature.stream}
    streams = {}
    for name, section in plan.streams.items():
        if name not in used:
            continue
        source = given.get(name, None if section.file is None else folder / section.file)
        if source is None:
            raise InputError(f"[streams.{name}] names no file; write file = … there, or --stream {name}=FILE")
        streams[name] = open_stream(name, section, plan.columns_of(name), source)
    return streams


def _make_blocks(
    people: list[str],
    points: pl.DataFrame,
    plan: LinkPlan,
    streams: Mapping[str, Stream],
    windows: Mapping[str, pl.DataFrame],
    block_rows: int,
) -> list[list[str]]:
    """People whose rows fit into memory together: as many as files have on average, or as their windows hold."""
    average = max((stream.rows for stream in streams.values()), default=0) / len(people)
    cost = dict.fromkeys(people, average)
    for name, feature in plan.features.items():
        minutes = (pl.col("end") - pl.col("begin")).sum() / MINUTE / (plan.row_minutes_of(feature) or 60)
        for participant, rows in windows[name].group_by("participant").agg(minutes.alias("rows")).iter_rows():
            cost[participant] = max(cost[participant], rows or 0)
    blocks: list[list[str]] = [[]]
    filled = 0.0
    for participant in people:
        if blocks[-1] and filled + cost[participant] > block_rows:
            blocks.append([])
            filled = 0.0
        blocks[-1].append(participant)
        filled += cost[participant]
    return blocks


def _sort_by_block(streams: Mapping[str, Stream], blocks: list[list[str]], scratch: Path) -> Iterator[dict[str, Stream]]:
    """The streams for every block; files that each block would have to search from end to end are split first."""
    split: dict[str, list[Path]] = {}
    for name, stream in streams.items():
        if len(blocks) > 1 and (stream.is_text or not _is_sorted(stream, len(blocks))):
            split[name] = _split(stream, blocks, scratch / f"{len(split)}")
    for number in range(len(blocks)):
        readers = dict(streams)
        for name, files in split.items():
            source = pl.scan_parquet(files[number]) if files[number].exists() else streams[name].source.clear()
            readers[name] = replace(streams[name], source=source)
        yield readers


def _is_sorted(stream: Stream, blocks: int) -> bool:
    """Whether row groups hold few people each, so that blocks skip most of a file."""
    if not stream.files:
        return True
    column = stream.section.participant
    ranges = []
    for file in stream.files:
        metadata = parquet.read_metadata(file)
        position = metadata.schema.names.index(column)
        for group in range(metadata.num_row_groups):
            statistics = metadata.row_group(group).column(position).statistics
            if statistics is None or not statistics.has_min_max:
                return False
            ranges.append((statistics.min, statistics.max))
    ranges.sort()
    overlaps = sum(later[0] < earlier[1] for earlier, later in pairwise(ranges))
    return bool(overlaps * blocks <= REREAD * len(ranges))


def _split(stream: Stream, blocks: list[list[str]], folder: Path) -> list[Path]:
    """Write one Parquet file per block."""
    folder.mkdir()
    numbers = pl.DataFrame(
        {"person": [person for block in blocks for person in block],
         "block": [number for number, block in enumerate(blocks) for _ in block]},
        schema={"person": pl.String, "block": pl.Int32},
    ).lazy()  # fmt: skip
    files = [folder / f"{number}.parquet" for number in range(len(blocks))]
    writers: dict[int, parquet.ParquetWriter] = {}
    person = pl.col(stream.section.participant).cast(pl.String)
    rows = stream.scan_all().with_columns(person=person).join(numbers, on="person", maintain_order="left").drop("person")
    try:
        for batch in rows.collect_batches(chunk_size=1_000_000):
            for (number,), part in batch.partition_by("block", as_dict=True, include_key=False).items():
                table = part.to_arrow()
                if number not in writers:
                    writers[number] = parquet.ParquetWriter(files[number], table.schema)
                writers[number].write_table(table)
    finally:
        for writer in writers.values():
            writer.close()
    return files


def _join_block(
    plan: LinkPlan,
    streams: Mapping[str, Stream],
    people: list[str],
    homes: pl.DataFrame,
    windows: Mapping[str, pl.DataFrame],
) -> Iterator[tuple[str, pl.DataFrame, pl.DataFrame]]:
    """Name, rows and measures of every feature, for some people."""
    frames = {name: stream.read(people, homes) for name, stream in streams.items()}
    completed: dict[tuple[tuple[str, ...], str | None], pl.DataFrame] = {}
    kind = pl.Enum(people)
    for name, feature in plan.features.items():
        key = (feature.stream, feature.column)
        if key not in completed:
            chosen = [streams[stream] for stream in feature.stream]
            completed[key] = complete(chosen, [frames[stream] for stream in feature.stream], feature.column)
        own_windows = windows[name].filter(pl.col("participant").is_in(people))
        own_windows = own_windows.with_columns(pl.col("participant").cast(kind))
        measured = compute_feature(completed[key], own_windows, feature, plan.row_minutes_of(feature))
        yield name, completed[key], measured


def _add_columns(table: pa.Table, plan: LinkPlan, measured: Mapping[str, pl.DataFrame]) -> pa.Table:
    """The decisions with the columns of every feature."""
    for name, frame in measured.items():
        feature = plan.features[name]
        columns = {name: "value", f"{name}_rows": "rows"}
        if plan.row_minutes_of(feature) is not None:
            columns = {name: "value", f"{name}_minutes": "minutes", f"{name}_share": "share"}
            if any(plan.streams[stream].worn for stream in feature.stream):
                columns[f"{name}_worn_minutes"] = "worn_minutes"
        for column, source in columns.items():
            if column in table.column_names:
                raise InputError(
                    f"the decisions have a column '{column}' already; name the feature differently", column=column
                )
            table = table.append_column(column, frame[source].to_arrow())
    return table


def _count_feature(name: str, feature: FeatureSection, measured: pl.DataFrame, windows: pl.DataFrame) -> FeatureCounts:
    is_missing = pl.col("value").is_null()
    has_window = pl.col("has_window")
    counts = measured.select(
        values=pl.col("value").count(),
        no_window=(is_missing & ~has_window).sum(),
        no_rows=(is_missing & has_window & ~pl.col("has_rows")).sum(),
        too_little=(is_missing & has_window & pl.col("has_rows")).sum(),
        late_rows=pl.col("late").sum(),
        share=pl.col("share").mean(),
    ).row(0, named=True)
    following = pl.col("time").shift(-1).over("participant")
    reaching = 0 if feature.is_state else windows.select((pl.col("end") > following).sum()).item()
    return FeatureCounts(name, feature, reaching=reaching, **counts)


def find_unrecorded(points: pl.DataFrame, section: DecisionsSection) -> pa.Table:
    """Expected decision points without a record, from a participant's first day to the last: participant and local time."""
    zones = points["zone"].unique().drop_nulls().to_list()
    days = points.group_by("participant").agg(first=pl.col("wall").dt.date().min(), last=pl.col("wall").dt.date().max())
    days = days.select("participant", day=pl.date_ranges("first", "last")).explode("day").sort("participant", "day")
    last_zone = points.select("participant", "zone", day=pl.col("wall").dt.date()).unique(
        ["participant", "day"], keep="last"
    )
    days = days.join(last_zone, on=["participant", "day"], how="left")
    days = days.with_columns(pl.col("zone").forward_fill().over("participant"))
    expected = [
        days.select(
            "participant",
            clock=pl.col("day").cast(pl.String) + f" {clock}",
            time=find_clock(pl.col("day"), clock, pl.col("zone"), zones),
        )
        for clock in section.expected
    ]
    if not expected:
        return pa.table({"participant": pa.array([], pa.string()), "time": pa.array([], pa.string())})
    table = pl.concat(expected).sort("time")
    nearest = points.sort("time").select("participant", "time", recorded="time")
    tolerance = round(section.tolerance_minutes * MINUTE)
    joined = table.join_asof(
        nearest, on="time", by="participant", strategy="nearest", tolerance=tolerance, check_sortedness=False
    )
    missing = joined.filter(pl.col("recorded").is_null()).sort("participant", "clock")
    return missing.select("participant", time="clock").to_arrow()


def _choose_day(points: pl.DataFrame) -> Day | None:
    """The day to draw: of the participant with most decision points the middle one of the days with most."""
    if not len(points):
        return None
    local = points.with_columns(day=pl.coalesce("wall", pl.col("time").cast(pl.Datetime("us"))).dt.date())
    participant = local["participant"].mode().sort()[0]
    days = local.filter(pl.col("participant") == participant).group_by("day").agg(pl.len(), pl.col("time", "zone"))
    fullest = days.filter(pl.col("len") == pl.col("len").max()).sort("day")
    row = fullest.row(len(fullest) // 2, named=True)
    return Day(participant, row["day"], row["zone"][0] or "UTC", tuple(sorted(row["time"])))


def _keep_day(day: Day, name: str, rows: pl.DataFrame, windows: pl.DataFrame) -> Day:
    """The day with a feature's rows and windows."""
    mine = windows.filter(pl.col("participant") == day.participant, pl.col("time").is_in(day.decisions))
    begin, end = day.limits
    near = rows.filter(pl.col("participant") == day.participant, pl.col("time") >= begin, pl.col("time") < end)
    features = {**day.features, name: (near.select("time", "value", "worn").rows(), mine.select("begin", "end").rows())}
    return replace(day, features=features)
