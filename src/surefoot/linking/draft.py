"""A first `link.toml` from a look at the files: guesses about their columns, with comments on what to check."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import polars as pl

from surefoot.data.column_kinds import quote
from surefoot.errors import InputError
from surefoot.linking.exports import find_profile, read_export
from surefoot.linking.plan import LinkPlan, StreamSection, TimesSection
from surefoot.linking.streams import scan_file
from surefoot.linking.times import MINUTE, split_times
from surefoot.study.column_guesses import PLATFORMS, ROLES
from surefoot.study.draft import Draft

EXAMINED_ROWS = 20_000
LONGEST_ROW = 60
"""Minutes between rows up to which a row is about a stretch of time; rarer rows are events."""
PATTERNS = {
    "participant": ROLES["participant"],
    "time": r"^(time|date|.*time[._ -]?stamp.*|.*date[._ -]?time.*|.*[._ -]time|utime|when|start.*|activityminute)$",
    "zone": r"^(tz|.*time[._ -]?zone|zone)$",
    "worn": r"^(is[._ -]?)?(worn|wear(ing)?|on[._ -]?(wrist|body))$",
    "ends": r"^(ends?|until|end[._ -]?(time|date|at))$",
    "received": r"^(received|uploaded|arrived|synced|ingested)([._ -](at|time|on))?$",
}
AVERAGED = r"(?i)heart|hr$|bpm|temp|rate|mood|stress|level|score"
"""Values of which a mean says more than a sum."""
HEAD = """# How raw files become decision points: `surefoot link {decisions} --plan {plan} --out logs.parquet`.
# Written by `surefoot link init` after a look at the files. Read it and correct the guesses.
"""


def draft_plan(decisions: Path, streams: Sequence[Path], *, plan: str = "link.toml") -> Draft:
    """A plan for these files."""
    warnings: list[str] = []
    lines = [HEAD.format(decisions=decisions, plan=plan)]
    lines += _describe_decisions(decisions, warnings)
    sections: list[str] = []
    features: list[str] = []
    for path in streams:
        for name, table, columns in _look_at_stream(path, warnings):
            sections += ["", f"[streams.{_spell_key(name)}]", f"file = {quote(str(path))}", *table]
            features += _propose_features(name, table, columns)
    if not features:
        raise InputError("no stream has a column of numbers; name the files of streams with --stream FILE")
    words = ["", "# States: windows that end at the decision. A minute without data is missing, never zero.", ""]
    text = "\n".join([*lines, *sections, *words, *features, ""])
    LinkPlan.parse(text)  # Whatever was guessed, the text must be a plan.
    return Draft(text, tuple(warnings))


def _spell_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else quote(name)


def _guess(role: str, columns: Sequence[str]) -> str | None:
    return next((name for name in columns if re.match(PATTERNS[role], name, re.IGNORECASE)), None)


def _describe_times(frame: pl.DataFrame, path: Path, warnings: list[str], *, needs_zone: bool) -> list[str]:
    """Lines for the columns of participant and time, and how times are written."""
    columns = frame.columns
    roles = {role: _guess(role, columns) for role in ("participant", "time")}
    for role, column in roles.items():
        if column is None:
            raise InputError(
                f"{path}: which column is the {role}? None has a usual name; rename it '{role}'. It has {columns}"
            )
    participant = str(roles["participant"])
    time = str(roles["time"])
    lines = [f"participant = {quote(participant)}", f"time = {quote(time)}"]
    unit = _guess_unit(frame[time])
    section = TimesSection(participant=participant, time=time, time_unit=unit)
    if unit is not None:
        return [*lines, f'time_unit = "{unit}"  # counted from 1970 in UTC']
    wall, offset = split_times(time, frame.schema[time], section)
    read = frame.select(wall=wall, offset=offset)
    if read["wall"].null_count() > len(read) / 2:
        warnings.append(f"{path}: column '{time}' is not ISO 8601; write its time_format")
        lines.append('# time_format = "%m/%d/%Y %H:%M"  # Check: the times are not ISO 8601')
    zone = _guess("zone", columns)
    if read["offset"].null_count() < len(read) and zone is None:
        return lines
    if zone is not None:
        return [*lines, f"zone_column = {quote(zone)}"]
    if needs_zone:
        warnings.append(f"{path}: local times without a zone are taken for UTC; write the IANA name of the zone")
        lines.append('zone = "UTC"  # Check: the times have no offset. Write the zone, such as "America/New_York"')
    return lines


def _guess_unit(times: pl.Series) -> Literal["s", "ms", "us"] | None:
    """Of times that are numbers, by their size."""
    numbers = times.cast(pl.Float64, strict=False).drop_nulls() if not times.dtype.is_temporal() else times.clear()
    if not len(numbers) or numbers.dtype != pl.Float64:
        return None
    middle = float(numbers.median() or 0)  # type: ignore[arg-type]
    units: tuple[tuple[Literal["s", "ms", "us"], float], ...] = (("us", 1e14), ("ms", 1e11), ("s", 1e8))
    return next((unit for unit, size in units if middle > size), None)


def _describe_decisions(path: Path, warnings: list[str]) -> Iterator[str]:
    frame = _read_head(path, StreamSection())
    yield "[decisions]"
    yield "# All columns of the decisions are kept."
    lines = _describe_times(frame, path, warnings, needs_zone=True)
    yield from lines
    section = TimesSection(time=str(_guess("time", frame.columns)))
    wall, _ = split_times(section.time, frame.schema[section.time], section)
    clocks = Counter(frame.select(wall.dt.strftime("%H:%M")).to_series().drop_nulls().to_list())
    usual = sorted(clock for clock, count in clocks.items() if count > len(frame) / 50)
    if usual and sum(clocks[clock] for clock in usual) > 0.9 * len(frame):
        yield "# Times of every day; decision points without a record are listed."
        yield f"expected = [{', '.join(map(quote, usual))}]"


def _read_head(path: Path, section: StreamSection) -> pl.DataFrame:
    """The first rows, numbers as numbers."""
    frame = scan_file(path, section)[0].head(EXAMINED_ROWS).collect()
    texts = [name for name, kind in frame.schema.items() if kind == pl.String]
    numbers = frame.select(pl.col(texts).str.strip_chars().cast(pl.Float64, strict=False))
    plain = [name for name in texts if numbers[name].count() == frame[name].count() > 0]
    ids = _guess("participant", frame.columns)
    return frame.with_columns(numbers[name] for name in plain if name != ids)


def _look_at_stream(path: Path, warnings: list[str]) -> Iterator[tuple[str, list[str], list[str]]]:
    """Name, lines and columns of numbers of every stream of a file."""
    match = find_profile(path)
    if match is not None and not match.rivals:
        export = read_export(path, profile=match.profile)
        for name, table in export.streams.items():
            frame = pl.DataFrame(table).head(EXAMINED_ROWS)
            lines = [f"# {match}", f"profile = {quote(match.profile)}"]
            lines += [f"table = {quote(name)}"] if len(export.streams) > 1 else []
            label = name if len(export.streams) > 1 else path.stem
            yield label, [*lines, *_describe_rows(frame, "participant", "time")], _list_numbers(frame)
        return
    frame = _read_head(path, StreamSection())
    lines = _describe_times(frame, path, warnings, needs_zone=False)
    participant = str(_guess("participant", frame.columns))
    lines += _describe_rows(frame, participant, str(_guess("time", frame.columns)))
    yield path.name.split(".")[0], lines, _list_numbers(frame)


def _describe_rows(frame: pl.DataFrame, participant: str, time: str) -> list[str]:
    """What a row is about, and the columns that say whether a device was worn and when a row arrived.

    Where a column holds the ends of rows, their beginnings do not say how long they are.
    """
    ends = _guess("ends", frame.columns)
    unit = _guess_unit(frame[time])
    wall, _ = split_times(time, frame.schema[time], TimesSection(time_unit=unit))
    moments = frame.select(id=participant, moment=wall.dt.epoch("us")).sort("id", "moment")
    gaps = moments.select((pl.col("moment") - pl.col("moment").shift(1)).over("id")).to_series().drop_nulls().to_list()
    counts = Counter(gap for gap in gaps if gap > 0)
    usual, times_seen = max(counts.items(), key=lambda pair: pair[1], default=(0, 0))
    lines = []
    is_regular = times_seen > counts.total() / 2
    if ends is not None:
        lines += [f"ends = {quote(ends)}  # a window uses the rows that lie in it whole"]
    elif is_regular and usual % MINUTE == 0 and usual <= LONGEST_ROW * MINUTE:
        lines += [f"row_minutes = {usual // MINUTE}  # each row is about this many minutes, from its time on"]
    else:
        lines += ["# A row is an event. If it is about some minutes, write row_minutes."]
    for role in ("worn", "received"):
        column = _guess(role, frame.columns)
        lines += [] if column is None else [f"{role} = {quote(column)}"]
    return lines


def _list_numbers(frame: pl.DataFrame) -> list[str]:
    taken = {_guess(role, frame.columns) for role in PATTERNS}
    numbers = [name for name, kind in frame.schema.items() if kind.is_numeric() and name not in taken]
    return [name for name in numbers if not any(re.match(form, name) for _, form in PLATFORMS.values())]


def _propose_features(name: str, lines: list[str], columns: list[str]) -> list[str]:
    """A state and an outcome of every column of minutes or intervals; of events the last answer."""
    is_minutes = any(line.startswith("row_minutes") for line in lines)
    is_event = not is_minutes and not any(line.startswith("ends") for line in lines)
    text: list[str] = []
    for column in columns:
        feature = "mean" if re.search(AVERAGED, column) else "sum"
        source = [f"stream = {quote(name)}", f"column = {quote(column)}"]
        if is_event:
            text += [f"[states.{_spell_key(column + '_last')}]", *source, 'feature = "last"', "minutes = 1440", ""]
            continue
        rule = ["at_least = 0.5  # missing if less than half of the window has data"] if is_minutes else []
        for section, ending, minutes in (("states", "before", 60), ("outcomes", "after", 30)):
            key = _spell_key(f"{column}_{ending}")
            text += [f"[{section}.{key}]", *source, f'feature = "{feature}"', f"minutes = {minutes}", *rule, ""]
    return text
