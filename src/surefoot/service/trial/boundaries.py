"""A board's boundaries and the test of draws, from the ledger alone: the same numbers whoever looks, and however often.

Decision points are taken in the order of the ledger up to the first whose outcome may still come (`wait_hours`). An outcome
counts if it was known by then, for good: later corrections are left to the primary analysis. Missing and erased outcomes are
left out; whether outcomes are missing more often after a prompt is followed as well.
"""

import json
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from surefoot.data.log_columns import Problems
from surefoot.inference.confidence_sequences import (
    ConfidenceSequence,
    DrawTest,
    asymptotic_sequence,
    compare_draws,
    follow_contrast,
)
from surefoot.reports.numbers import format_number
from surefoot.service.database.ledger import read_positions
from surefoot.service.database.schema import decisions, erasures, outcomes, updates
from surefoot.service.trial.alerts import raise_alert
from surefoot.service.trial.trial import Trial
from surefoot.study import MonitoringSection
from surefoot.study.log_reader import transform_outcome

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Marks = NDArray[np.bool_]
FALSE_ALARMS = 0.01
"""The probability that the test of draws ever accuses a sound trial."""
HOURS = 24
READ = ("id", "participant_id", "received_at", "available", "action", "probabilities", "source", "policy_id", "salt")
IN_TIME = (
    sa.select(outcomes.c.decision_id, outcomes.c.outcome, outcomes.c.received_at)
    .where(~outcomes.c.late)
    .order_by(outcomes.c.observed_at, outcomes.c.id)
)
"""Outcomes that count, the newest of a decision last."""


@dataclass(frozen=True)
class Boundary:
    """A quantity that is followed day by day, and the boundary that the study gives it."""

    kind: str
    """`harm`, `futility`, `burden` or `missing`; of the first three also the kind of the alert."""
    title: str
    unit: str
    limit: float | None
    """None: the study gives none."""
    count: int
    """Decision points, or days of participants, behind the last estimate."""
    days: tuple[date, ...]
    estimates: tuple[tuple[float, float, float], ...]
    """Estimate and interval after each of these days; NaN where there is none yet."""

    @property
    def by_action(self) -> bool:
        """Whether it compares outcomes by action, which blind roles do not see."""
        return self.kind != "burden"

    @property
    def crossed_on(self) -> date | None:
        """The first day after which the whole interval lay beyond the boundary: above that of a burden, below others."""
        for day, (_, low, high) in zip(self.days, self.estimates, strict=True):
            if self.limit is not None and (low > self.limit if self.kind == "burden" else high < self.limit):
                return day
        return None


@dataclass(frozen=True)
class MonitoringReport:
    """What a board looks at."""

    boundaries: list[Boundary]
    draws: DrawTest
    counts: dict[str, int]
    """Decision points at which an action was drawn: outcome `used`, still `awaited`, `missing` or `erased`."""
    is_bounded: bool
    """Whether the intervals of outcomes are valid for any number of decision points."""

    @property
    def wrong_draws(self) -> str | None:
        """The draws that disagree most with their probabilities, in words; None where all agree."""
        if self.draws.evidence < 1 / FALSE_ALARMS:
            return None
        stratum = self.draws.strata[0]
        counts = f"something was sent in {stratum.sent:,} of {stratum.draws:,} draws; expected {stratum.expected:,.0f}"
        return f"{stratum.family} {stratum.label}: {counts}"


@dataclass(frozen=True)
class _DecisionSeries:
    """Decisions in the order of the ledger."""

    action: Codes
    probabilities: Floats
    participant: Codes
    outcome: Floats
    """NaN where it is missing, was erased, or came too late."""
    erased: Marks
    drawn: Marks
    """Whether more than one action was possible."""
    days: Codes
    closed: Marks
    """Whether the outcome can no longer come."""
    families: dict[str, tuple[list[Any], int | None]]

    def follow(self, values: Floats, chosen: Marks, contrast: str, *, bounds: Any, limits: Any) -> tuple[Any, ...]:
        """How many decision points there are, the days, and the estimates of a contrast after each of them."""
        sequence = follow_contrast(
            values[chosen],
            self.action[chosen],
            self.probabilities[chosen],
            self.participant[chosen],
            contrast,
            bounds,
            limits,
        )
        return int(chosen.sum()), *_end_days(sequence, self.days[chosen])

    def follow_prompts(self, today: date) -> tuple[Any, ...]:
        """The same for the prompts that a participant who asks for decisions gets in a day, of the days that are over."""
        over = self.days < today.toordinal()
        points = np.column_stack([self.days, self.participant])[over]
        pairs, position = np.unique(points, axis=0, return_inverse=True)
        prompts = np.bincount(position.reshape(-1), weights=self.action[over] > 0, minlength=len(pairs))
        return len(pairs), *_end_days(asymptotic_sequence(prompts.astype(np.float64)), pairs[:, 0])


def _end_days(sequence: ConfidenceSequence, days: Codes) -> tuple[tuple[date, ...], tuple[tuple[float, ...], ...]]:
    """The days, and the estimates after the last value of each."""
    last = np.flatnonzero(np.diff(days, append=0))
    estimates = np.column_stack([sequence.mean, sequence.low, sequence.high])[last]
    return tuple(date.fromordinal(int(day)) for day in days[last]), tuple(map(tuple, estimates.tolist()))


def read_report(trial: Trial, at: datetime) -> MonitoringReport:
    """`monitor_trial`, computed once for everybody who looks: anew when an update has ended, something was erased, or `at`
    is another moment."""
    ended = sa.select(sa.func.max(updates.c.id)).where(updates.c.finished_at.is_not(None)).scalar_subquery()
    erased = sa.select(sa.func.count()).select_from(erasures).scalar_subquery()
    with trial.database.autocommit() as connection:
        newest = tuple(connection.execute(sa.select(ended, erased)).one())
    return _keep_report(trial, at, newest)


@lru_cache(maxsize=8)
def _keep_report(trial: Trial, at: datetime, newest: tuple[Any, ...]) -> MonitoringReport:
    return monitor_trial(trial, at)


def monitor_trial(trial: Trial, at: datetime) -> MonitoringReport:
    """Follow every boundary and compare all draws with their probabilities, as of a moment."""
    settings = trial.study.monitoring or MonitoringSection()
    series = _read_series(trial, at, settings.wait_hours or trial.settings.outcome_hours)
    missing = np.isnan(series.outcome)
    due = series.drawn & series.closed
    used = due & ~missing
    bounds = None if settings.sequence == "asymptotic" else trial.study.outcome.limits
    limits = (trial.study.probability_limits.minimum, trial.study.probability_limits.maximum)
    unit = str(trial.study.outcome_unit)
    harm = series.follow(series.outcome, used, settings.harm_against, bounds=bounds, limits=limits)
    effect = series.follow(series.outcome, used, "effect", bounds=bounds, limits=limits)
    missed = series.follow(missing.astype(float), due & ~series.erased, "effect", bounds=None, limits=limits)
    prompts = series.follow_prompts(trial.settings.find_day(at))
    against = {"never": "sending nothing", "coin": "a coin"}[settings.harm_against]
    lowest = None if settings.harm is None else -settings.harm
    boundaries = [
        Boundary("harm", f"Mean outcome of the policy compared with {against}", unit, lowest, *harm),
        Boundary("futility", f"Effect of {trial.study.a_treatment} on the outcome", unit, settings.futility, *effect),
        Boundary("burden", "Prompts per participant and day", "prompts", settings.burden, *prompts),
        Boundary("missing", f"Effect of {trial.study.a_treatment} on the share of missing outcomes", "", None, *missed),
    ]
    counts = {
        "used": int(used.sum()),
        "awaited": int((series.drawn & ~series.closed).sum()),
        "missing": int((due & missing & ~series.erased).sum()),
        "erased": int((due & missing & series.erased).sum()),
    }
    draws = compare_draws(series.action, series.probabilities, series.families)
    return MonitoringReport(boundaries, draws, counts, bounds is not None)


def _read_series(trial: Trial, at: datetime, wait_hours: float) -> _DecisionSeries:
    with trial.database.snapshot() as connection:
        positions = read_positions(connection, "decision")
        rows = connection.execute(sa.select(*(decisions.c[name] for name in READ))).all()
        sent = connection.execute(IN_TIME).all()
    rows = sorted(rows, key=lambda row: positions["decision", row.id])
    wait = timedelta(hours=wait_hours)
    received = {row.id: row.received_at for row in rows}
    known = {row.decision_id: row.outcome for row in sent if row.received_at <= received[row.decision_id] + wait}
    raw = np.array([known.get(row.id) for row in rows], dtype=np.float64)
    outcome = trial.study.outcome
    if outcome.range is not None:
        raw[(raw < outcome.range[0]) | (raw > outcome.range[1])] = np.nan
    # A decision that a clock ahead of time dated into the future is not later than those that follow it.
    moments = list(received.values())
    for position in range(len(moments) - 2, -1, -1):
        moments[position] = min(moments[position], moments[position + 1])
    stated = [json.loads(row.probabilities) for row in rows]
    # An earlier version of the study may have had other actions.
    probabilities = np.zeros((len(rows), max(map(len, stated), default=2)))
    for position, values in enumerate(stated):
        probabilities[position, : len(values)] = values
    nothing = probabilities[:, 0]
    versions = ["none" if row.policy_id is None else row.policy_id for row in rows]
    hours = [row.received_at.astimezone(trial.settings.zone).hour for row in rows]
    return _DecisionSeries(
        action=np.array([row.action for row in rows], dtype=np.int64),
        probabilities=probabilities,
        participant=np.unique([row.participant_id for row in rows], return_inverse=True)[1].astype(np.int64),
        outcome=transform_outcome(raw, outcome, Problems()),
        erased=np.array([row.salt is None for row in rows], dtype=bool),
        drawn=np.array([row.available for row in rows], dtype=bool) & (nothing > 0) & (nothing < 1),
        days=np.array([trial.settings.find_day(moment).toordinal() for moment in moments], dtype=np.int64),
        closed=np.array([moment + wait <= at for moment in moments], dtype=bool),
        families={"all": (["draws"] * len(rows), 1), "policy version": (versions, None), "hour": (hours, HOURS)},
    )


def raise_boundary_alerts(trial: Trial, at: datetime) -> None:
    """Alert once for every boundary that is crossed, and for draws that disagree with their probabilities."""
    try:
        report = monitor_trial(trial, at)
    except Exception as error:
        message = f"the boundaries could not be computed: {type(error).__name__}; see the log"
        with trial.database.transaction() as connection:
            raise_alert(connection, kind="update", occasion=f"boundaries:{at:%Y-%m-%d}", message=message)
        raise
    with trial.database.transaction() as connection:
        for boundary in report.boundaries:
            if boundary.crossed_on is not None:
                value, low, high = map(format_number, boundary.estimates[boundary.days.index(boundary.crossed_on)])
                interval = f"{value} {boundary.unit} (95 % confidence sequence {low} to {high})"
                words = f"{boundary.title} up to {boundary.crossed_on}: {interval}; the study's boundary is "
                occasion = f"boundary:{boundary.kind}:{boundary.limit:g}"
                message = words + format_number(boundary.limit)
                raise_alert(connection, kind=boundary.kind, occasion=occasion, message=message)
        if report.wrong_draws is not None:
            stratum = report.draws.strata[0]
            occasion = f"draws:{stratum.family}:{stratum.label}"
            message = f"draws do not agree with their probabilities; {report.wrong_draws}"
            raise_alert(connection, kind="draws", occasion=occasion, message=message)
