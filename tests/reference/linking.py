"""`surefoot link`, literally: for every decision point a loop over every row of the stream."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


def to_moments(wall, zone):
    """The moments in UTC at which a wall clock showed a naive time: none, one or two."""
    moments = {wall.replace(tzinfo=ZoneInfo(zone), fold=fold).astimezone(UTC) for fold in (0, 1)}
    return sorted(moment for moment in moments if moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None, fold=0) == wall)


def clock_moment(day, clock, zone):
    hours, minutes = map(int, clock.split(":"))
    wall = datetime(day.year, day.month, day.day, hours, minutes)
    # Python reads a time that does not exist by the offset before the change.
    return wall.replace(tzinfo=ZoneInfo(zone), fold=0).astimezone(UTC)


def find_window(feature, decisions, number, zone):  # noqa: PLR0911
    """Begin and end, or None; `decisions` are one participant's, in order."""
    decision = decisions[number]
    today = decision.astimezone(ZoneInfo(zone)).date()
    days = [today + timedelta(days=shift) for shift in range(-3, 4)]
    if feature["is_state"]:
        if "minutes" in feature:
            return decision - feature["minutes"] * MINUTE, decision
        if feature.get("since") == "previous decision":
            return (decisions[number - 1], decision) if number else None
        if "since" in feature:
            return max(m for day in days if (m := clock_moment(day, feature["since"], zone)) <= decision), decision
        opens, closes = feature["clock"]
        last = max(day for day in days if clock_moment(day, closes, zone) <= decision)
        first = last if opens < closes else last - DAY
        return clock_moment(first, opens, zone), clock_moment(last, closes, zone)
    if "minutes" in feature:
        return decision, decision + feature["minutes"] * MINUTE
    if feature.get("until") == "next decision":
        return (decision, decisions[number + 1]) if number + 1 < len(decisions) else None
    if "until" in feature:
        return decision, min(m for day in days if (m := clock_moment(day, feature["until"], zone)) > decision)
    opens, closes = feature["clock"]
    first = min(day for day in days if clock_moment(day, opens, zone) >= decision)
    last = first if opens < closes else first + DAY
    return clock_moment(first, opens, zone), clock_moment(last, closes, zone)


def group_rows(rows):
    groups = {}
    for row in rows:
        groups.setdefault(row[0], []).append(row)
    return groups


def settle_rows(rows, length, fold, repeats):
    """Rows (wall or moment, zone, value, worn, received) of one participant and stream, as moments in UTC."""
    moments = []
    for time, zone, value, worn, received in rows:
        if time.tzinfo is None:
            options = to_moments(time, zone)
            if not options or (len(options) == 2 and fold == "missing"):
                continue
            moment = options[-1] if fold == "second" else options[0]
        else:
            moment = time.astimezone(UTC)
        moments.append((moment, value, worn, received))
    # Of rows that repeat each other the first to arrive counts.
    moments.sort(key=lambda row: row[3].timestamp() if row[3] else 0, reverse=True)
    moments = list({row[:3]: row for row in moments}.values())
    if not length:
        return sorted(moments, key=lambda row: (row[0], row[1] is None, row[1] or 0))
    settled = []
    by_moment = group_rows(moments)
    for moment in sorted(by_moment):
        same = by_moment[moment]
        if len(same) > 1:
            if repeats == "missing":
                continue
            values = [row[1] for row in same if row[1] is not None]
            measure = {"largest": max, "smallest": min, "mean": lambda v: sum(v) / len(v)}[repeats]
            same = [(moment, measure(values) if values else None, any(row[2] for row in same), None)]
        settled.append(same[0])
    return [row for number, row in enumerate(settled) if number == 0 or row[0] - settled[number - 1][0] >= length]


def complete(streams, length):
    """Where several streams have a minute, the first in which it was worn and has a value."""
    rows = [(row, rank) for rank, stream in enumerate(streams) for row in stream if row[1] is not None]
    if len(streams) == 1 or not length:
        return sorted((row for row, _ in rows), key=lambda row: (row[0], row[1]))
    chosen = []
    by_moment = group_rows((row[0], not row[2], rank, row) for row, rank in rows)
    for moment in sorted(by_moment):
        chosen.append(min(by_moment[moment])[3])
    return [row for number, row in enumerate(chosen) if number == 0 or row[0] - chosen[number - 1][0] >= length]


def compute_feature(feature, rows, window, decision, row_minutes):  # noqa: C901, PLR0911, PLR0912
    """The value, the share of the window with worn rows and the minutes with data, by a loop over all rows."""
    if window is None:
        return None, None, None
    begin, end = window
    length = timedelta(minutes=row_minutes or 0)
    used = []
    minutes = 0
    for time, value, worn, received in rows:
        inside = time >= begin and (time + length <= end if row_minutes else time < end)
        known = not feature["is_state"] or received is None or received <= decision
        minutes += (row_minutes or 1) * (inside and known)
        if inside and known and worn:
            used.append((time, value))
    share = None
    if row_minutes:
        fits = 0
        start = datetime.fromtimestamp(int(begin.timestamp()) // (60 * row_minutes) * 60 * row_minutes, UTC)
        while start + length <= end:
            fits += row_minutes if start >= begin else 0
            start += length
        if not fits:
            return None, None, minutes
        share = min(1.0, len(used) * row_minutes / fits)
        if share < feature.get("at_least", 0):
            return None, share, minutes
    name = feature["feature"]
    if name == "count":
        return float(len(used)), share, minutes
    if name == "share covered":
        return share, share, minutes
    if not used:
        return None, share, minutes
    if name == "minutes since":
        return (decision - used[-1][0] - length) / MINUTE, share, minutes
    if name == "last":
        return used[-1][1], share, minutes
    total = sum(value for _, value in used)
    if name == "mean":
        return total / len(used), share, minutes
    if feature.get("partial") == "scaled":
        total *= fits / (len(used) * row_minutes)
    return total, share, minutes
