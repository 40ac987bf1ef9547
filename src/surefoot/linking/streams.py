"""Streams: rows of sensors and surveys of some people at a time, cleaned, with counts of everything that was left out."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from surefoot.data.log_columns import MISSING, YES
from surefoot.errors import InputError, did_you_mean
from surefoot.linking.exports import read_export
from surefoot.linking.linked import StreamCounts
from surefoot.linking.plan import StreamSection
from surefoot.linking.profiles import PROFILES, ExportFile
from surefoot.linking.times import MINUTE, localise, split_times

TEXT_FILES = (".csv", ".tsv", ".txt")
STRANGER = "participant has no decision point"
UNREADABLE_TIME = "time is missing or cannot be read"
UNREADABLE_END = "end is missing, cannot be read, or lies before the time"
SKIPPED_HOUR = "local time does not exist: the clocks skipped it"
REPEATED_HOUR = "local time is ambiguous: the clocks showed it twice"
REPEATED = "repeats a row"
CONTRADICTED = "contradicts another row about the same minutes"
OVERLAPPING = "begins before the end of the row before it"


@dataclass(frozen=True)
class Stream:
    """One stream of the plan, not read yet; `left_out` counts as it is read."""

    name: str
    section: StreamSection
    columns: Sequence[str]
    """With values of features."""
    source: pl.LazyFrame
    files: Sequence[Path] = ()
    """Of Parquet."""
    is_text: bool = False
    rows: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    """Reason → rows."""
    unreadable: Counter[str] = field(default_factory=Counter)
    """Column → cells that are not numbers, which count as missing."""

    def count_rows(self) -> StreamCounts:
        """What became of the rows that were read."""
        left_out = +self.left_out
        return StreamCounts(self.name, self.rows, self.rows - left_out.total(), left_out, +self.unreadable)

    def scan_all(self) -> pl.LazyFrame:
        """The columns that the plan names."""
        return self.source.select(list_columns(self.section, self.columns))

    def scan(self, people: Sequence[str]) -> pl.LazyFrame:
        """The rows of some people, as they are in the file."""
        section = self.section
        kind = self.source.collect_schema()[section.participant]
        wanted = pl.Series(people, dtype=pl.String)
        if kind.is_integer():
            wanted = wanted.cast(kind, strict=False).drop_nulls()
        rows = self.scan_all()
        if not kind.is_integer() and kind != pl.String:
            rows = rows.with_columns(pl.col(section.participant).cast(pl.String))
        ids = pl.col(section.participant)
        # The range lets a reader of Parquet skip row groups.
        return rows.filter(ids >= pl.lit(wanted.min()), ids <= pl.lit(wanted.max()), ids.is_in(wanted.implode()))

    def read(self, people: Sequence[str], homes: pl.DataFrame) -> pl.DataFrame:
        """Rows of some people: `participant`, `time` (UTC), `worn`, `ends`, `received`, values; sorted, without repeats.

        `homes` has the zone of every participant since a wall time, for local times without a zone.
        """
        raw = self.scan(people).collect()
        self.left_out[STRANGER] -= len(raw)
        section = self.section
        schema = raw.schema
        wall, offset = split_times(section.time, schema[section.time], section)
        columns = {
            "participant": pl.col(section.participant).cast(pl.String).cast(pl.Enum(people)),
            "wall": wall,
            "offset": offset,
            "worn": pl.lit(True) if section.worn is None else _read_worn(section.worn, schema[section.worn]),
            **{f"value:{name}": _read_number(name, schema[name]) for name in self.columns},
        }
        for name, column in (("ends", section.ends), ("received", section.received)):
            if column is not None:
                columns[name], columns[f"{name}:offset"] = split_times(column, schema[column], section)
        zone = pl.lit(section.zone, pl.String) if section.zone_column is None else pl.col(section.zone_column)
        for name in (name for name in self.columns if schema[name] == pl.String):
            self.unreadable[name] += raw[name].count() - raw.select(_read_number(name, schema[name])).to_series().count()
        rows = self._find_moments(raw.select(zone.alias("zone"), **columns), homes)
        return self._settle(self._find_other_moments(rows))

    def _find_moments(self, rows: pl.DataFrame, homes: pl.DataFrame) -> pl.DataFrame:
        """Wall times become moments in UTC; rows without one are left out."""
        before = len(rows)
        rows = rows.filter(pl.col("wall").is_not_null())
        self.left_out[UNREADABLE_TIME] += before - len(rows)
        is_local = pl.col("offset").is_null()
        moment = pl.col("wall").dt.epoch("us") - pl.col("offset")
        if not rows.select(is_local.any()).item():
            return rows.select(pl.exclude("offset", "zone"), time=moment)
        if self.section.zone is None and self.section.zone_column is None:
            rows = _add_home_zones(rows, homes)
        zones = rows.filter(is_local)["zone"].unique()
        check_zones(zones, self.name)
        first, second = localise(pl.col("wall"), pl.col("zone"), zones.drop_nulls())
        rows = rows.with_columns(time=pl.when(is_local).then(first).otherwise(moment), second=second)
        is_ambiguous = is_local & (pl.col("time") != pl.col("second"))
        exists = pl.col("time").is_not_null()
        self.left_out[SKIPPED_HOUR] += len(rows) - rows["time"].count()
        if self.section.fold == "missing":
            self.left_out[REPEATED_HOUR] += rows.filter(exists & is_ambiguous).height
            rows = rows.filter(exists & ~is_ambiguous.fill_null(False))
        else:
            chosen = pl.col("second" if self.section.fold == "second" else "time")
            rows = rows.filter(exists).with_columns(time=pl.when(is_local).then(chosen).otherwise(pl.col("time")))
        return rows.select(pl.exclude("offset", "zone", "second"))

    def _find_other_moments(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Ends and arrivals in UTC; local ones are in the zone of the row's time."""
        offset = pl.col("wall").dt.epoch("us") - pl.col("time")
        for name in ("ends", "received"):
            if name in rows.columns:
                moment = pl.col(name).dt.epoch("us") - pl.coalesce(f"{name}:offset", offset)
                rows = rows.with_columns(moment.alias(name)).drop(f"{name}:offset")
        if "ends" in rows.columns:
            before = len(rows)
            rows = rows.filter(pl.col("ends") >= pl.col("time"))
            self.left_out[UNREADABLE_END] += before - len(rows)
        return rows.drop("wall")

    def _settle(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows in order, without repeats, contradictions and overlaps."""
        key = ["participant", "time"]
        values = [name for name in rows.columns if name not in (*key, "received")]
        is_timed = "received" in rows.columns
        length = (self.section.row_minutes or 0) * MINUTE
        if _is_orderly(rows, length):
            return rows
        rows = rows.sort(*key, *values, *(["received"] if is_timed else []), nulls_last=True)
        same = rows.select(pl.all_horizontal(pl.col(name).eq_missing(pl.col(name).shift(1)) for name in (*key, *values)))
        is_repeat = same.to_series() & (pl.int_range(len(rows), eager=True) > 0)
        self.left_out[REPEATED] += int(is_repeat.sum())
        rows = rows.filter(~is_repeat)
        if not length:
            return rows
        if rows.select(pl.all_horizontal(pl.col(name) == pl.col(name).shift(1) for name in key).any()).item():
            is_double = rows.select(pl.struct(key).is_duplicated()).to_series()
            settled = self._settle_contradictions(rows.filter(is_double), key, values, is_timed=is_timed)
            self.left_out[CONTRADICTED] += int(is_double.sum()) - len(settled)
            rows = pl.concat([rows.filter(~is_double), settled]).sort(*key)
        return leave_out_overlaps(rows, length, self.left_out)

    def _settle_contradictions(
        self, rows: pl.DataFrame, key: list[str], values: list[str], *, is_timed: bool
    ) -> pl.DataFrame:
        """One row for several that differ: the first to arrive where that is known, else as the plan says."""
        if is_timed:
            return rows.sort(*key, "received", *values, nulls_last=True).unique(key, keep="first", maintain_order=True)
        measure = {"largest": pl.Expr.max, "smallest": pl.Expr.min, "mean": pl.Expr.mean}.get(self.section.repeats)
        if measure is None:
            return rows.clear()
        numbers = [measure(pl.col(name)) for name in values if name != "worn"]
        return rows.group_by(key, maintain_order=True).agg(pl.col("worn").any(), *numbers).select(rows.columns)


def _is_orderly(rows: pl.DataFrame, length: int) -> bool:
    """Whether rows are sorted, and none begins before the row before it ends: files of devices usually are."""
    person = pl.col("participant").to_physical()
    gap = pl.col("time") - pl.col("time").shift(1)
    follows = (person > person.shift(1)) | ((person == person.shift(1)) & (gap >= max(length, 1)))
    return bool(rows.select(follows.all()).item())


def leave_out_overlaps(rows: pl.DataFrame, length: int, left_out: Counter[str]) -> pl.DataFrame:
    """Sorted rows without those that begin before the row before them ends."""
    gap = pl.col("time") - pl.col("time").shift(1)
    overlaps = (gap < length) & (pl.col("participant") == pl.col("participant").shift(1))
    settled = rows.filter(~overlaps.fill_null(False))
    left_out[OVERLAPPING] += len(rows) - len(settled)
    return settled


def complete(streams: Sequence[Stream], frames: Sequence[pl.DataFrame], column: str | None) -> pl.DataFrame:
    """Rows of streams that complete each other: `value` of a column, where several have a minute that of the first stream in
    which it was worn and has a value."""
    value = pl.lit(1.0) if column is None else pl.col(f"value:{column}").alias("value")
    pieces = []
    for rank, rows in enumerate(frames):
        others = {"ends": pl.col("time"), "received": pl.lit(None, pl.Int64)}
        others |= {name: pl.col(name) for name in others if name in rows.columns}
        picked = rows.select("participant", "time", "worn", value.alias("value"), **others)
        pieces.append(picked.filter(pl.col("value").is_not_null()).with_columns(rank=pl.lit(rank)))
    if len(pieces) == 1:
        return pieces[0]
    rows = pl.concat(pieces).sort("participant", "time", pl.col("worn").not_(), "rank", "value")
    length = (streams[0].section.row_minutes or 0) * MINUTE
    if not length:
        return rows
    first = rows.unique(["participant", "time"], keep="first", maintain_order=True)
    return leave_out_overlaps(first, length, Counter())


def check_zones(zones: pl.Series, name: str) -> None:
    """Refuse local times without a zone, and zones that nobody knows."""
    from zoneinfo import available_timezones

    if zones.null_count():
        remedy = "write zone or zone_column in its section, or times with an offset such as 2026-03-02T08:30:00+01:00"
        raise InputError(f"{name}: local times without a time zone; {remedy}")
    known = available_timezones()
    for zone in zones.to_list():
        if zone not in known:
            raise InputError(f"{name}: '{zone}' is not a time zone{did_you_mean(zone, known)}; write IANA names")


def _add_home_zones(rows: pl.DataFrame, homes: pl.DataFrame) -> pl.DataFrame:
    """The zone of the participant's last decision point by the wall clock; before the first one, that of the first."""
    kind = rows.schema["participant"]
    homes = homes.with_columns(pl.col("participant").cast(pl.String).cast(kind, strict=False)).drop_nulls("participant")
    first = homes.unique("participant", keep="first", maintain_order=True).select("participant", first="zone")
    rows = rows.drop("zone").sort("wall")
    if len(homes) > len(first):
        since = homes.select("participant", "zone", wall="wall").sort("wall")
        rows = rows.join_asof(since, on="wall", by="participant", strategy="backward", check_sortedness=False)
    else:
        rows = rows.with_columns(zone=pl.lit(None, pl.String))
    return rows.join(first, on="participant", how="left").with_columns(zone=pl.coalesce("zone", "first")).drop("first")


def _read_number(column: str, kind: pl.DataType) -> pl.Expr:
    cells = pl.col(column).str.strip_chars() if kind == pl.String else pl.col(column)
    number = cells.cast(pl.Float64, strict=False)
    return pl.when(number.is_finite()).then(number)


def _read_worn(column: str, kind: pl.DataType) -> pl.Expr:
    """True, yes, or a number above 0; a cell without anything says that it was not worn."""
    cells = pl.col(column)
    if kind == pl.Boolean:
        return cells.fill_null(False)
    if kind == pl.String:
        words = cells.str.strip_chars().str.to_lowercase()
        return (words.is_in(YES) | (words.cast(pl.Float64, strict=False) > 0)).fill_null(False)
    return (cells.cast(pl.Float64, strict=False) > 0).fill_null(False)


def open_stream(name: str, section: StreamSection, columns: Sequence[str], source: Any) -> Stream:
    """A stream from a path or a frame; its columns are checked."""
    files: Sequence[Path] = ()
    is_text = False
    unread: dict[str, int] = {}
    if isinstance(source, str | Path) and section.profile is not None and Path(source).exists():
        frame, unread = _read_export(Path(source), section)
    elif isinstance(source, str | Path):
        frame, files, is_text = scan_file(Path(source), section)
    else:
        import narwhals as nw

        frame = pl.from_arrow(nw.from_native(source, eager_only=True).to_arrow()).lazy()  # type: ignore[union-attr]
    label = str(source) if isinstance(source, str | Path) else f"stream '{name}'"
    given = frame.collect_schema().names()
    if section.profile is not None and section.row_minutes is None and section.ends is None:
        ends = PROFILES.find(section.profile).ends
        section = section.model_copy(update={"ends": ends if ends in given else None})
    for column in list_columns(section, columns):
        if column not in given:
            raise InputError(
                f"{label}: there is no column '{column}'{did_you_mean(column, given)}; it has {given}", column=column
            )
    if section.profile is not None and section.zone is None and section.zone_column is None and "zone" in given:
        section = section.model_copy(update={"zone_column": "zone"})
    rows = int(frame.select(pl.len()).collect().item())
    left_out = Counter({STRANGER: rows, **unread})
    return Stream(name, section, columns, frame, files, is_text, left_out.total(), left_out)


def list_columns(section: StreamSection, columns: Sequence[str]) -> list[str]:
    """Everything that the plan names in a file: who, when, and values."""
    names = (section.participant, section.time, section.zone_column, section.worn, section.ends, section.received, *columns)
    return list(dict.fromkeys(name for name in names if name is not None))


def scan_file(path: Path, section: StreamSection) -> tuple[pl.LazyFrame, Sequence[Path], bool]:
    """A file as it is, its Parquet files, and whether it is text."""
    if not path.exists():
        raise InputError(f"{path}: there is no such file; name it with --stream, or in the plan from the plan's folder")
    if section.profile is not None:
        return _read_export(path, section)[0], (), False
    suffix = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    try:
        if path.is_dir() or suffix.lower() == ".parquet":
            files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
            frame = pl.scan_parquet(files)
            frame.collect_schema()
            return frame, files, False
        if suffix.lower() in TEXT_FILES:
            options: dict[str, Any] = {"infer_schema": False, "null_values": list(MISSING), "encoding": "utf8-lossy"}
            frame = pl.scan_csv(path, separator=ExportFile(path).head.separator, **options)
            frame.collect_schema()
            return frame, (), True
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path}: cannot be read ({reason}); check that it is a whole file of this kind") from error
    raise InputError(f"{path}: streams are .csv, .tsv, .parquet or a folder of .parquet; convert the file or write profile")


def _read_export(path: Path, section: StreamSection) -> tuple[pl.LazyFrame, dict[str, int]]:
    """A table of a platform's export, and the numbers of rows of the export that are in none of its tables."""
    export = read_export(path, profile=section.profile)
    names = list(export.streams)
    table = section.table if section.table is not None else names[0]
    if table not in export.streams or (section.table is None and len(names) > 1):
        raise InputError(f"{path}: this export of {export.profile} has the tables {names}; write table = … in the plan")
    unread = {f"in the export: {reason}": count for reason, count in export.left_out.items()}
    return pl.from_arrow(export.streams[table]).lazy(), unread  # type: ignore[union-attr]
