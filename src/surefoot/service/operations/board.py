"""The report for a meeting of a safety board: an open part for everybody, a closed part with outcomes by action.

Who gets the closed part is unblinded: it is written only together with a line on the staff trail, with the reason.
"""

import json
from collections import Counter
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import numpy as np
import sqlalchemy as sa

from surefoot.inference.intervals import Interval, describe_roughness, difference_interval, ratio_interval
from surefoot.inference.intervals import sum_by_participant as sum_people
from surefoot.reports.render import render
from surefoot.service.access import name_keys, record_action, replace_prefixes
from surefoot.service.database.clock import now
from surefoot.service.database.schema import (
    alerts,
    decisions,
    erasures,
    outcomes,
    participant_events,
    participants,
    staff_actions,
    updates,
)
from surefoot.service.trial.adverse_events import RELATIONS, list_events
from surefoot.service.trial.boundaries import Boundary, monitor_trial
from surefoot.service.trial.participants import PAUSED, WITHDRAWN, find_statuses
from surefoot.service.trial.states import CURRENT
from surefoot.service.trial.trial import Trial
from surefoot.trial_rules.choices import DOSE
from surefoot.version import __version__

UNBLINDED = "unblinded"
"""The staff action of somebody who looked at actions or at outcomes by action, with the reason."""
BY_ACTION = "outcomes by action"
"""What the closed part unblinds."""


@dataclass(frozen=True)
class Count:
    """A number since the last meeting and in all; the same where no meeting was."""

    words: str
    since: int
    total: int


@dataclass(frozen=True)
class ActionSummary:
    """What followed one action."""

    action: str
    decision_points: int
    """Available ones."""
    outcomes: int
    mean: Interval
    """Of the outcome, over people, each decision point weighted by 1 / probability: its mean if all got this action."""
    difference: Interval | None
    """From the first action, which sends nothing; None for that one itself."""
    adverse_events: int
    """Events of participants whose last decision point before the event had this action."""
    serious: int


@dataclass(frozen=True)
class BoardReport:
    """A report, with `to_dict` for JSON and `to_html` for a page."""

    study: str
    study_hash: str
    made_at: datetime
    since: datetime | None
    zone: str
    study_is_paused: bool
    participants: list[Count]
    records: list[Count]
    events: list[Count]
    deviations: list[Count]
    listed_events: list[dict[str, Any]]
    reasons: list[dict[str, Any]]
    """Withdrawals and pauses."""
    unblindings: list[dict[str, Any]]
    boundaries: list[dict[str, Any]]
    """With the day on which each was crossed; the last estimate of one by action only in the closed part."""
    wrong_draws: str | None
    """Draws that disagree with their probabilities, in words; None where all agree."""
    by_action: list[ActionSummary] | None
    """The closed part; None in an open report."""
    people: int
    """With an outcome, for the intervals of the closed part."""
    surefoot: str = __version__

    @property
    def part(self) -> str:
        return "open" if self.by_action is None else "closed"

    def to_dict(self) -> dict[str, Any]:
        """Plain values; a number that cannot be estimated is None."""
        content = {"part": self.part, **asdict(self)}
        if self.by_action is None:
            del content["by_action"], content["people"]
        text = json.dumps(_without_nan(content), default=lambda moment: moment.isoformat())
        plain: dict[str, Any] = json.loads(text)
        return plain

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def to_html(self) -> str:
        roughness = describe_roughness(self.people)
        return render("board.html", package="surefoot.service.operations", report=self, roughness=roughness)


def _without_nan(value: Any) -> Any:
    if isinstance(value, Interval):
        return _without_nan(value._asdict())
    if isinstance(value, dict):
        return {name: _without_nan(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_without_nan(part) for part in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def make_open_report(trial: Trial, since: datetime | None = None) -> BoardReport:
    """Without anything by action."""
    return _make_report(trial, since, closed=False)


def make_closed_report(trial: Trial, since: datetime | None = None, *, reason: str, by: str) -> BoardReport:
    """With outcomes by action; that somebody sees them, and why, is on the staff trail first."""
    record_unblinding(trial, BY_ACTION, reason=reason, by=by)
    return _make_report(trial, since, closed=True)


def record_unblinding(trial: Trial, subject: str, *, reason: str, by: str) -> None:
    """Put on the trail whose actions, or which outcomes by action, somebody is about to see, and why."""
    with trial.database.transaction() as connection:
        record_action(connection, by, UNBLINDED, subject, reason)


def _make_report(trial: Trial, since: datetime | None, *, closed: bool) -> BoardReport:
    zone = trial.settings.zone
    names = name_keys(trial.database)
    monitored = monitor_trial(trial, now())
    with trial.database.snapshot() as connection:
        counter = _Counter(connection, since)
        events = list_events(connection)
        kinds = (participant_events.c.kind.in_((PAUSED, WITHDRAWN)),)
        reasons = _select_since(connection, participant_events, participant_events.c.happened_at, since, *kinds)
        seen = _select_since(connection, staff_actions, staff_actions.c.done_at, since, staff_actions.c.action == UNBLINDED)
        by_action, people = _summarise_actions(trial, connection, events) if closed else (None, 0)
        return BoardReport(
            study=trial.settings.title,
            study_hash=trial.study_id,
            made_at=now().astimezone(zone),
            since=since and since.astimezone(zone),
            zone=trial.settings.time_zone,
            study_is_paused=find_statuses(connection, [None]).get(None) == PAUSED,
            participants=counter.count_participants(),
            records=counter.count_records(),
            events=_count_events(events, since),
            deviations=counter.count_deviations(),
            listed_events=[
                {
                    "id": event["id"],
                    "participant": event["participant_id"],
                    "happened_at": event["happened_at"].astimezone(zone),
                    "serious": event["serious"],
                    "related": event["related"],
                    "description": event["description"] if event["salt"] is not None else "(erased)",
                    "corrections": len(event["versions"]) - 1,
                    "is_new": since is None or event["recorded_at"] >= since,
                }
                for event in events
            ],
            reasons=[{"what": row.kind, "at": row.happened_at.astimezone(zone), "reason": row.reason} for row in reasons],
            unblindings=[
                {
                    "by": replace_prefixes(names, row.done_by),
                    "at": row.done_at.astimezone(zone),
                    "saw": row.subject,
                    "reason": row.detail,
                }
                for row in seen
            ],
            boundaries=[_describe_boundary(boundary, closed=closed) for boundary in monitored.boundaries],
            wrong_draws=monitored.wrong_draws,
            by_action=by_action,
            people=people,
        )


def _describe_boundary(boundary: Boundary, *, closed: bool) -> dict[str, Any]:
    shown = boundary.estimates[-1:] if closed or not boundary.by_action else ()
    return {
        "kind": boundary.kind,
        "title": boundary.title,
        "limit": boundary.limit,
        "unit": boundary.unit,
        "crossed_on": boundary.crossed_on if boundary.limit is not None else None,
        "estimate": dict(zip(("value", "low", "high"), shown[0], strict=True)) if shown else None,
    }


def _select_since(
    connection: sa.Connection, table: sa.Table, moment: sa.Column[Any], since: datetime | None, *conditions: Any
) -> list[Any]:
    chosen = sa.select(table).where(*conditions).order_by(table.c.id)
    return list(connection.execute(chosen if since is None else chosen.where(moment >= since)))


class _Counter:
    """Counts rows, in all and since the last meeting."""

    def __init__(self, connection: sa.Connection, since: datetime | None) -> None:
        self._connection = connection
        self._since = since

    def count(self, words: str, moment: sa.Column[Any], *conditions: Any, of: Any = None) -> Count:
        number = sa.func.count() if of is None else sa.func.count(sa.distinct(of))
        chosen = sa.select(number).select_from(moment.table).where(*conditions)
        total = int(self._connection.scalar(chosen) or 0)
        if self._since is None:
            return Count(words, total, total)
        return Count(words, int(self._connection.scalar(chosen.where(moment >= self._since)) or 0), total)

    def count_participants(self) -> list[Count]:
        happened = participant_events.c.happened_at
        person = participant_events.c.participant_id
        return [
            self.count("registered", participants.c.registered_at),
            self.count("withdrawn", happened, participant_events.c.kind == WITHDRAWN, of=person),
            self.count("paused at least once", happened, participant_events.c.kind == PAUSED, of=person),
            self.count("erased on request", erasures.c.erased_at, erasures.c.participant_id.is_not(None)),
        ]

    def count_records(self) -> list[Count]:
        received = decisions.c.received_at
        return [
            self.count("decision points", received),
            self.count("available decision points", received, decisions.c.available),
            self.count("prompts", received, decisions.c.action > 0),
            self.count("decision points with an outcome", outcomes.c.received_at, of=outcomes.c.decision_id),
        ]

    def count_deviations(self) -> list[Count]:
        """What the protocol did not intend."""
        received = decisions.c.received_at
        earlier = outcomes.alias()
        corrected = sa.exists().where(earlier.c.decision_id == outcomes.c.decision_id, earlier.c.id < outcomes.c.id)
        counts = [
            self.count("decisions by the fallback", received, decisions.c.source == "fallback"),
            self.count("stopped by a dose limit", received, decisions.c.fallback_reasons.startswith(f'["{DOSE}')),
            self.count("outcomes that came too late", outcomes.c.received_at, outcomes.c.late),
            self.count("outcomes corrected or sent again", outcomes.c.received_at, corrected),
            *(
                self.count(f"updates {state}", updates.c.created_at, updates.c.state == state)
                for state in ("refused", "failed", "interrupted")
            ),
        ]
        kinds = self._connection.scalars(sa.select(alerts.c.kind).distinct().order_by(alerts.c.kind))
        return counts + [self.count(f"alerts: {kind}", alerts.c.raised_at, alerts.c.kind == kind) for kind in list(kinds)]


def _count_events(events: list[dict[str, Any]], since: datetime | None) -> list[Count]:
    new = [event for event in events if since is None or event["versions"][0]["recorded_at"] >= since]

    def count(words: str, name: str, value: Any) -> Count:
        return Count(words, sum(event[name] == value for event in new), sum(event[name] == value for event in events))

    counts = [Count("adverse events", len(new), len(events)), count("serious", "serious", True)]
    return counts + [count(f"judged as {relation}", "related", relation) for relation in RELATIONS]


def _summarise_actions(
    trial: Trial, connection: sa.Connection, events: list[dict[str, Any]]
) -> tuple[list[ActionSummary], int]:
    """Of every action, and how many people have an outcome."""
    columns = (decisions.c.participant_id, decisions.c.action, decisions.c.probability, CURRENT.c.outcome)
    joined = decisions.outerjoin(CURRENT, CURRENT.c.decision_id == decisions.c.id)
    rows = connection.execute(sa.select(*columns).select_from(joined).where(decisions.c.available)).all()
    actions = np.array([row.action for row in rows], dtype=np.int64)
    values = np.array([np.nan if row.outcome is None else row.outcome for row in rows], dtype=np.float64)
    people, position = np.unique([row.participant_id for row in rows], return_inverse=True)
    weights = 1 / np.array([row.probability for row in rows], dtype=np.float64)
    known = ~np.isnan(values)
    followed = Counter((_find_last_action(connection, event), bool(event["serious"])) for event in events)
    totals = []
    for action in range(len(trial.study.actions.names)):
        counted = known & (actions == action)
        weight = sum_people(position, len(people), np.where(counted, weights, 0.0))
        totals.append((sum_people(position, len(people), np.where(counted, weights * np.nan_to_num(values), 0.0)), weight))
    with_outcome = np.unique(position[known])
    summaries = []
    for action, name in enumerate(trial.study.actions.names):
        top, bottom = (total[with_outcome] for total in totals[action])
        nothing = tuple(total[with_outcome] for total in totals[0])
        summaries.append(
            ActionSummary(
                action=name,
                decision_points=int((actions == action).sum()),
                outcomes=int((known & (actions == action)).sum()),
                mean=ratio_interval(top, bottom),
                difference=difference_interval(top, bottom, *nothing) if action else None,
                adverse_events=followed[action, True] + followed[action, False],
                serious=followed[action, True],
            )
        )
    return summaries, len(with_outcome)


def _find_last_action(connection: sa.Connection, event: dict[str, Any]) -> int | None:
    """Of the participant's last decision point before the event; None where there is none."""
    before = (decisions.c.participant_id == event["participant_id"], decisions.c.decided_at <= event["happened_at"])
    last = (
        sa.select(decisions.c.action).where(*before).order_by(decisions.c.decided_at.desc(), decisions.c.decision_idx.desc())
    )
    action: int | None = connection.scalar(last.limit(1))
    return action
