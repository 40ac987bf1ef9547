"""The raw files of `surefoot demo --raw`: decisions, minute steps of a watch, and a survey, before anybody joined them."""

import csv
import io
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

PEOPLE = 20
DAYS = 10
HOURS = (9, 12, 15, 18)
FIRST_DAY = datetime(2026, 3, 24, tzinfo=UTC)
"""Europe's clocks change on the sixth day."""
ZONES = ("Europe/Zurich", "America/New_York")
RATIO = 1.4
"""A suggestion multiplies the expected steps of the next half hour by this."""
WINDOW = 30
SEND = 0.5
UNWORN = 0.15
LOST_RECORDS = 0.03
REPEATED = 0.002
"""Shares: hours in which the watch is not worn (half of them without rows, half with zeros), decision points that the phone
did not record, rows that were synchronised twice."""


def simulate_raw(seed: int = 0) -> dict[str, str]:
    """The files by name: `decisions.csv`, `steps.csv` and `survey.csv`, as Qualtrics exports it.

    Decisions are in local time with its zone, steps in UTC, and the survey in the zone that its third row names. Each
    minute is active with a probability that depends on the participant, the hour and mood; a suggestion multiplies it by
    1.4 for half an hour.

    Parameters
    ----------
    seed
        Of all random numbers.

    Examples
    --------
    >>> list(simulate_raw())
    ['decisions.csv', 'steps.csv', 'survey.csv']
    """
    rng = np.random.default_rng(seed)
    decisions: list[list[Any]] = [["participant", "time", "zone", "available", "sent", "probability"]]
    steps: list[list[Any]] = [["participant", "time", "steps", "worn"]]
    answers: list[list[Any]] = []
    for number in range(PEOPLE):
        person = f"p{number + 1:02d}"
        zone = ZoneInfo(ZONES[number % len(ZONES)])
        active = np.full(DAYS * 1440, 0.0)
        sent_at = []
        for day in range(DAYS):
            date = FIRST_DAY + timedelta(days=day)
            mood = int(rng.integers(1, 8))
            answered = datetime(date.year, date.month, date.day, 8, int(rng.integers(0, 40)), tzinfo=zone)
            if rng.random() < 0.85:
                answers.append(_answer(answered, person, mood, len(answers)))
            for hour in HOURS:
                local = datetime(date.year, date.month, date.day, hour, int(rng.integers(0, 20)), tzinfo=zone)
                available = rng.random() < 0.9
                sent = int(available and rng.random() < SEND)
                if sent:
                    sent_at.append(int((local - FIRST_DAY).total_seconds() // 60))
                if rng.random() >= LOST_RECORDS:
                    wall = local.replace(tzinfo=None).isoformat()
                    decisions.append([person, wall, zone.key, int(available), sent, SEND if available else 1.0])
            active[day * 1440 : (day + 1) * 1440] = _daily_activity(date, zone, mood)
        active *= rng.uniform(0.7, 1.3)
        for minute in sent_at:
            active[minute : minute + WINDOW] *= RATIO
        steps += _measure(person, active, rng)
    return {
        "decisions.csv": _write_csv(decisions),
        "steps.csv": _write_csv(steps),
        "survey.csv": _write_csv([*QUALTRICS, *answers]),
    }


QUALTRICS = (
    ["StartDate", "EndDate", "Status", "Progress", "ResponseId", "ExternalReference", "mood"],
    ["Start Date", "End Date", "Response Type", "Progress", "Response ID", "External Data Reference", "How do you feel?"],
    [
        *('{"ImportId":"startDate","timeZone":"America/Denver"}', '{"ImportId":"endDate","timeZone":"America/Denver"}'),
        *('{"ImportId":"status"}', '{"ImportId":"progress"}', '{"ImportId":"_recordId"}'),
        *('{"ImportId":"externalDataReference"}', '{"ImportId":"QID1"}'),
    ],
)
"""The three header rows."""


def _answer(answered: datetime, person: str, mood: int, number: int) -> list[Any]:
    wall = answered.astimezone(ZoneInfo("America/Denver")).replace(tzinfo=None)
    return [wall, wall + timedelta(minutes=1), 0, 100, f"R_{number:04d}", person, mood]


def _daily_activity(date: datetime, zone: ZoneInfo, mood: int) -> NDArray[np.float64]:
    """The probability that a minute of a day in UTC is active: none at night, more with a better mood."""
    hours = np.array([(date + timedelta(minutes=60 * hour)).astimezone(zone).hour for hour in range(24)])
    by_hour = np.where((hours >= 7) & (hours < 23), 0.15 + 0.02 * mood, 0.0)
    return np.repeat(by_hour, 60)


def _measure(person: str, active: NDArray[np.float64], rng: np.random.Generator) -> list[list[Any]]:
    """Rows of a watch: gaps while it charges, zeros while it lies on a table, and a few rows twice."""
    minutes = len(active)
    steps = np.where(rng.random(minutes) < active, rng.poisson(60, minutes), 0)
    state = np.repeat(rng.choice(3, minutes // 60, p=[1 - UNWORN, UNWORN / 2, UNWORN / 2]), 60)
    worn = state == 0
    times = np.datetime_as_string(
        np.datetime64(FIRST_DAY.replace(tzinfo=None), "s") + np.arange(minutes).astype("timedelta64[m]"), unit="s"
    )
    rows = []
    for number in np.flatnonzero(state < 2):
        row = [person, f"{times[number]}Z", int(steps[number] * worn[number]), int(worn[number])]
        rows += [row] * (1 + int(rng.random() < REPEATED))
    return rows


def _write_csv(rows: list[list[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
