"""Decisions: one draw per decision point, recorded before it is answered.

Requests that arrive together share one transaction, which reads, decides and records. It is alone: nobody else decides,
pauses a participant or activates a policy between its reading and its commit.

Outcomes are added, never changed. The newest by its own time counts; a retry is not doubled; a late one is marked.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from secrets import token_bytes, token_hex
from typing import Any

import sqlalchemy as sa

from surefoot.data.column_kinds import LARGEST_PLAUSIBLE
from surefoot.service.database import schema
from surefoot.service.database.clock import now
from surefoot.service.database.databases import BEGIN_ALONE
from surefoot.service.database.direct import DirectStatement
from surefoot.service.database.ledger import SALT_BYTES, insert_decisions, insert_new_recorded
from surefoot.service.database.schema import activations, decisions, outcomes, participant_events, participants
from surefoot.service.trial.alerts import count_alert
from surefoot.service.trial.api_models import ApiError, DecisionRequest, Outcome
from surefoot.service.trial.participants import IS_WITHDRAWN, PAUSED, STATUSES, WITHDRAWN
from surefoot.service.trial.states import Observation, check_types, contexts_to_states, derive_now, find_warnings
from surefoot.service.trial.trial import Trial
from surefoot.study import Study, TrialSection
from surefoot.trial_rules.choices import Choice, Clocks, LivePolicy, choose, find_clock_jump, find_dose_stop
from surefoot.trial_rules.randomisation import draw_action, draw_uniform, random_key

Point = tuple[str, int]
"""A participant and a decision_idx."""
Row = Mapping[Any, Any]
REPEATED = ("decided_at", "available", "availability_reasons", "source", "fallback_reasons", "context", "reply", "salt")
"""Columns that a retry is compared with; all null where the decision point is new."""
PROMPTS = 5000
"""Newest prompts of a participant that the limits look at."""
AGREES = 1e-6
"""How far an echoed probability may be off: JSON writers round."""
LARGEST_STEP = 10_000
"""How far a decision_idx may be from the last: one near the largest number would leave none for later decision points."""
MINUTE = timedelta(minutes=1)


def decide(trial: Trial, request: DecisionRequest) -> str:
    """The reply to a request, as text: a new draw, or the reply that was given before."""
    (reply,) = decide_batch(trial, [request])
    if isinstance(reply, Exception):
        raise reply
    return reply


def decide_batch(trial: Trial, requests: Sequence[DecisionRequest]) -> list[str | Exception]:
    """Replies in the order of the requests, committed together; an error in one request is the reply to that one alone.

    A batch holds at most one new decision point of each participant, because nothing would order two of them.
    """
    received = trial.watch.believe(now())
    points = [(request.participant_id, request.decision_idx) for request in requests]
    accepted: dict[Point, DecisionRequest] = {}
    refused: dict[int, ApiError] = {}
    with trial.database.decision_transaction(begun=False) as connection:
        known = read_points(connection, points, begin=BEGIN_ALONE)
        standings = find_standings(trial.settings, connection, known)
        for number, (point, request) in enumerate(zip(points, requests, strict=True)):
            if known[point]["reply"] is None and point not in accepted:
                try:
                    _check_request(trial, request, standings.get(request.participant_id), received)
                    accepted[point] = request
                except ApiError as error:
                    refused[number] = error
        derived = [derive_now(trial.study, connection, *point, request.timestamp) for point, request in accepted.items()]
        observations = contexts_to_states(trial.study, [request.context for request in accepted.values()], derived)
        live = trial.read_live(find_live(known), connection)
        new: dict[Point, dict[str, Any]] = {}
        for (point, request), observation in zip(accepted.items(), observations, strict=True):
            new[point] = _draw(trial, request, standings[request.participant_id], observation, live, received)
        if new:
            insert_decisions(connection, list(new.values()))
    replies: list[str | Exception] = []
    for number, (request, point) in enumerate(zip(requests, points, strict=True)):
        if number in refused:
            replies.append(refused[number])
        elif accepted.get(point) is request:
            replies.append(new[point]["reply"])
        else:
            replies.append(_repeat_reply(request, new.get(point, known[point])))
    return replies


def _draw(
    trial: Trial,
    request: DecisionRequest,
    standing: "Standing",
    observation: Observation,
    live: LivePolicy | None,
    received: datetime,
) -> dict[str, Any]:
    moment = Clocks(request.timestamp, received)
    choice = choose_by_standing(
        trial, request.participant_id, moment, request.availability, observation, standing=standing, live=live
    )
    key = random_key(request.participant_id, request.decision_idx)
    uniform = draw_uniform(trial.secret, key)
    action = draw_action(uniform, choice.probabilities)
    drawn: dict[str, Any] = {
        "id": token_hex(SALT_BYTES),
        "source": choice.source,
        "fallback_reasons": list(choice.reasons),
        "policy_id": choice.policy_id,
        "probabilities": choice.probabilities,
        "action": action,
    }
    reply = schema.make_reply(drawn, trial.study.actions.names[action], find_warnings(trial.study, request.context))
    return schema.DecisionRecord(
        **drawn,
        participant_id=request.participant_id,
        decision_idx=request.decision_idx,
        decided_at=request.timestamp,
        received_at=received,
        study_id=trial.study_id,
        available=choice.source != "unavailable",
        availability_reasons=request.reasons,
        context=request.context,
        state=observation.state,
        random_key=key,
        uniform=uniform,
        probability=choice.probabilities[action],
        reply=reply,
        salt=token_bytes(SALT_BYTES),
    ).to_row()


def _repeat_reply(request: DecisionRequest, stored: Row) -> str | ApiError:
    """The recorded reply, if this is the same request; after an erasure only the timestamp is compared."""
    if stored["salt"] is None and request.timestamp == stored["decided_at"]:
        return str(stored["reply"])
    sent = (request.timestamp, request.availability, request.reasons)
    same = sent == (stored["decided_at"], was_sent_available(stored), json.loads(stored["availability_reasons"]))
    if same and _is_same_context(request.context, stored["context"]):
        return str(stored["reply"])
    words = "it was decided for another timestamp, availability or context; a retry repeats the request as it was"
    return ApiError(409, "decided_otherwise", words, "decision_idx")


def was_sent_available(stored: Mapping[str, Any]) -> bool:
    """Whether the client sent `availability` = true, also where the service then stopped the prompt."""
    return bool(stored["available"] or (stored["source"] == "unavailable" and stored["fallback_reasons"] != "[]"))


def _is_same_context(context: Mapping[str, Any], stored: str) -> bool:
    """Whether a context says what was stored as JSON; 1 and 1.0 are one number, `true` is another value."""
    if schema.to_json(context) == stored:
        return True
    before = json.loads(stored)
    return context == before and all(isinstance(context[name], bool) == isinstance(before[name], bool) for name in before)


def find_next(trial: Trial, participant_id: str) -> dict[str, Any]:
    """Where a participant stands: for an app that was installed again and has forgotten it."""
    with trial.database.autocommit() as connection:
        known = read_points(connection, [(participant_id, 0)])
        standing = find_standings(trial.settings, connection, known).get(participant_id)
    if standing is None:
        raise ApiError(404, "unknown_participant", "register the participant first: POST /participants", "participant_id")
    last_idx = standing.last_idx
    last_at = None if standing.latest is None else standing.latest.client
    return {
        "participant_id": participant_id,
        "last_decision_idx": last_idx,
        "last_timestamp": last_at,
        "next_decision_idx": 0 if last_idx is None else last_idx + 1,
        "not_before": None if last_at is None else last_at + trial.settings.decision_gap,
        "paused": standing.paused is not None,
        "withdrawn": standing.withdrawn,
    }


def find_wrong_clock(moment: datetime, at: datetime, future_minutes: float) -> tuple[str, str] | None:
    """Code and words for a timestamp that only a wrong clock can give; None for any other."""
    if moment.year < 2000:
        return "timestamp_too_old", "the timestamp is before the year 2000; set the clock"
    if moment > at + timedelta(minutes=future_minutes):
        return "timestamp_in_future", f"the timestamp is over {future_minutes:g} minutes ahead; set the clock"
    return None


def _check_request(trial: Trial, request: DecisionRequest, standing: "Standing | None", received: datetime) -> None:
    if standing is None:
        raise ApiError(404, "unknown_participant", "register the participant first: POST /participants", "participant_id")
    if standing.withdrawn:
        raise ApiError(409, "withdrawn", "the participant has withdrawn; send nothing, and ask no more", "participant_id")
    wrong_clock = find_wrong_clock(request.timestamp, received, trial.settings.limits.future_minutes)
    if wrong_clock is not None:
        raise ApiError(422, *wrong_clock, "timestamp")
    check_types(trial.study, request.context)
    first = 0 if standing.last_idx is None else standing.last_idx
    if request.decision_idx < first:
        message = f"decision points come in order: decision {first} was asked for already"
        raise ApiError(409, "out_of_order", message, "decision_idx")
    if request.decision_idx > first + LARGEST_STEP:
        message = f"decision_idx may be {first + LARGEST_STEP} at most, which is {LARGEST_STEP} after the last"
        raise ApiError(422, "index_too_far", message, "decision_idx")
    _check_pace(trial.settings.decision_gap, request, standing, received)


def _check_pace(gap: timedelta, request: DecisionRequest, standing: "Standing", received: datetime) -> None:
    """Refuse a decision point that follows too soon: nobody draws again by counting on."""
    if standing.latest is None or standing.last_received is None:
        return
    none = timedelta(0)
    elapsed = request.timestamp - standing.latest.client
    if elapsed == none or none < elapsed < gap:
        message = "is the same as" if elapsed == none else f"is less than {gap / MINUTE:g} minutes after"
        raise ApiError(409, "too_soon", f"the timestamp {message} an earlier decision point's", "timestamp")
    # A clock that went back cannot pace decision points: the server's does.
    pace = max(gap, MINUTE)
    if elapsed < none <= received - standing.last_received < pace:
        message = f"the timestamp is before an earlier decision point's, which came less than {pace / MINUTE:g} minutes ago"
        raise ApiError(409, "too_soon", f"{message}; set the clock", "timestamp")


@dataclass(frozen=True)
class Standing:
    """What the service knows of a participant before the next decision point."""

    paused: str | None = None
    """`the study` or `the participant`; None when neither is paused."""
    withdrawn: bool = False
    last_idx: int | None = None
    last_received: datetime | None = None
    """When the last decision point was asked for."""
    latest: Clocks | None = None
    """The decision point whose own time is the latest."""
    prompts: list[Clocks] = field(default_factory=list)
    """When anything was sent, the newest first; empty without limits on prompts."""

    def find_stop(self, settings: TrialSection, moment: Clocks) -> str | None:
        """Why nothing may be sent now, whatever a policy says; None when something may."""
        if self.paused is not None:
            return f"paused: {self.paused}"
        return find_dose_stop(settings.dose, self.prompts, moment) if settings.dose.is_limited else None


def choose_by_standing(
    trial: Trial,
    participant_id: str,
    moment: Clocks,
    available: bool,
    observation: Observation,
    *,
    standing: Standing,
    live: LivePolicy | None,
) -> Choice:
    """How a decision point is decided, from all that was known of its participant; a replay chooses again."""
    stop = standing.find_stop(trial.settings, moment) if available else None
    jump = find_clock_jump(standing.latest, moment)
    reasons = observation.reasons if jump is None else [*observation.reasons, jump]
    return choose(trial.study, participant_id, observation.state, available, reasons, stop, live=live, at=moment.server)


def find_standings(settings: TrialSection, connection: sa.Connection, known: Mapping[Point, Row]) -> dict[str, Standing]:
    """The standing of every registered participant, from the rows that `read_points` returned."""
    registered = {row["participant_id"]: row for row in known.values() if row["known"] is not None}
    prompts: dict[str, list[Clocks]] = defaultdict(list)
    if settings.dose.is_limited:
        columns = (decisions.c.participant_id, decisions.c.decided_at, decisions.c.received_at)
        sent = sa.select(*columns).where(decisions.c.participant_id.in_(registered), decisions.c.action > 0)
        newest = sent.order_by(decisions.c.decision_idx.desc()).limit(PROMPTS * max(1, len(registered)))
        for row in connection.execute(newest):
            prompts[row.participant_id].append(Clocks(row.decided_at, row.received_at))
    standings = {}
    for participant, point in registered.items():
        paused = "the participant" if point["own_event"] == PAUSED else None
        standings[participant] = Standing(
            "the study" if point["study_event"] == PAUSED else paused,
            withdrawn=point["own_event"] == WITHDRAWN,
            last_idx=point["last_idx"],
            last_received=point["last_received"],
            latest=None if point["latest_at"] is None else Clocks(point["latest_at"], point["latest_received"]),
            prompts=prompts[participant],
        )
    return standings


def find_live(known: Mapping[Point, Row]) -> tuple[int, datetime] | None:
    """The live policy and when it was activated, from the rows that `read_points` returned."""
    row = next(iter(known.values()))
    return None if row["live_id"] is None else (row["live_id"], row["live_since"])


def read_points(connection: sa.Connection, points: Collection[Point], *, begin: str = "") -> dict[Point, Row]:
    """One row per decision point: its participant, the last decision, an earlier reply to this point, the live policy."""
    ordered = [{"participant_id": participant, "decision_idx": index} for participant, index in dict.fromkeys(points)]
    rows = READ_POINTS.execute(connection, {"points": json.dumps(ordered)}, before=begin)
    return {(row["participant_id"], row["decision_idx"]): row for row in rows}


def _unpack_for_sqlite() -> tuple[Any, Any, Any]:
    points = sa.func.json_each(sa.bindparam("points", type_=sa.Text)).table_valued("value", name="points")
    participant, index = (
        sa.func.json_extract(points.c.value, sa.literal_column(f"'$.{name}'"), type_=kind)
        for name, kind in (("participant_id", sa.Text), ("decision_idx", sa.Integer))
    )
    return points, participant, index


def _unpack_for_postgresql() -> tuple[Any, Any, Any]:
    columns = (sa.column("participant_id", sa.Text), sa.column("decision_idx", sa.Integer))
    given = sa.cast(sa.bindparam("points", type_=sa.Text), sa.JSON)
    points = sa.func.json_to_recordset(given).table_valued(*columns, name="points").render_derived(with_types=True)
    return points, points.c.participant_id, points.c.decision_idx


def _make_query(points: Any, participant: Any, index: Any, *, lateral: bool) -> sa.Select[Any]:
    earlier = decisions.alias("earlier")
    same_point: Any = sa.and_(decisions.c.participant_id == participant, decisions.c.decision_idx == index)
    stored: Any = decisions
    first: Any = sa.literal_column("1")
    last = sa.select(earlier).where(earlier.c.participant_id == participant)
    latest = last.order_by(earlier.c.decided_at.desc()).limit(first)
    last = last.order_by(earlier.c.decision_idx.desc()).limit(first)
    kind = participant_events.c.kind
    event = sa.select(kind).where(sa.or_(*(kind == status for status in STATUSES)))
    event = event.order_by(participant_events.c.id.desc()).limit(first)
    live = sa.select(activations).order_by(activations.c.id.desc()).limit(first)
    if lateral:
        # Looked up by the index, whatever PostgreSQL believed of the table's size when it planned the statement.
        stored = sa.select(*(decisions.c[name] for name in REPEATED)).where(same_point).limit(first).lateral("stored")
        same_point = sa.true()
    return sa.select(
        participant.label("participant_id"),
        index.label("decision_idx"),
        participants.c.id.label("known"),
        last.with_only_columns(earlier.c.decision_idx).scalar_subquery().label("last_idx"),
        last.with_only_columns(earlier.c.received_at).scalar_subquery().label("last_received"),
        latest.with_only_columns(earlier.c.decided_at).scalar_subquery().label("latest_at"),
        latest.with_only_columns(earlier.c.received_at).scalar_subquery().label("latest_received"),
        event.where(participant_events.c.participant_id == participant).scalar_subquery().label("own_event"),
        event.where(participant_events.c.participant_id.is_(None)).scalar_subquery().label("study_event"),
        live.with_only_columns(activations.c.policy_id).scalar_subquery().label("live_id"),
        live.with_only_columns(activations.c.activated_at).scalar_subquery().label("live_since"),
        *(stored.c[name] for name in REPEATED),
    ).select_from(points.outerjoin(participants, participants.c.id == participant).outerjoin(stored, same_point))


READ_POINTS = DirectStatement(
    "surefoot_read_points",
    {
        "sqlite": _make_query(*_unpack_for_sqlite(), lateral=False),
        "postgresql": _make_query(*_unpack_for_postgresql(), lateral=True),
    },
)


def record_outcomes(trial: Trial, given: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Record outcomes in one transaction; a receipt for each."""
    marks = [fingerprint(outcome) for outcome in given]
    ids = {outcome.decision_id for outcome in given}
    columns = (decisions.c.id, decisions.c.decided_at, decisions.c.probability, decisions.c.salt)
    query = sa.select(*columns, IS_WITHDRAWN.label("withdrawn")).where(decisions.c.id.in_(ids))
    rows = {}
    receipts = []
    # Alone: nobody withdraws or is erased between the reading and the commit.
    with trial.database.transaction(alone=True) as connection:
        received = trial.watch.believe(now())
        known = {row.id: row for row in connection.execute(query)}
        repeated = set(connection.scalars(sa.select(outcomes.c.fingerprint).where(outcomes.c.fingerprint.in_(marks))))
        for outcome, mark in zip(given, marks, strict=True):
            decision: Any = known.get(outcome.decision_id)
            wrong_clock = find_wrong_clock(outcome.timestamp, received, trial.settings.limits.future_minutes)
            status = _find_refusal(trial.study, outcome, decision) if wrong_clock is None else wrong_clock[0]
            agrees = None
            if status is None:
                late = outcome.timestamp - decision.decided_at > timedelta(hours=trial.settings.outcome_hours)
                status = "repeated" if mark in repeated else "late" if late else "recorded"
                echoed = _to_number(outcome.action_prob)
                agrees = None if echoed is None else abs(echoed - decision.probability) <= AGREES
                rows[mark] = {
                    "decision_id": outcome.decision_id,
                    "fingerprint": mark,
                    "outcome": _to_number(outcome.outcome),
                    "observed_at": outcome.timestamp,
                    "received_at": received,
                    "late": late,
                    "echoed_probability": echoed,
                    "salt": token_bytes(SALT_BYTES),
                }
            receipt = {"decision_id": outcome.decision_id, "status": status, "action_prob_agrees": agrees}
            receipts.append({**receipt, "message": None if wrong_clock is None else wrong_clock[1]})
        if rows:
            insert_new_recorded(connection, "outcome", list(rows.values()), "fingerprint")
        disagreeing = [receipt["decision_id"] for receipt in receipts if receipt["action_prob_agrees"] is False]
        if disagreeing:
            message = f"a client believes another probability than decision {disagreeing[0]} had"
            count_alert(connection, kind="probability", message=message, at=received, times=len(disagreeing))
    return receipts


def _to_number(value: float | None) -> float | None:
    """As the databases return it: SQLite knows no negative zero."""
    return None if value is None else float(value) + 0.0


def _find_refusal(study: Study, outcome: Outcome, decision: Any) -> str | None:
    """Why an outcome is not recorded; None when it is."""
    if decision is None:
        return "unknown_decision"
    if decision.withdrawn:
        return "withdrawn"
    if decision.salt is None:
        return "erased"
    # Outside a range that the study gives it is kept, and counts as missing.
    if study.outcome.range is None and abs(outcome.outcome or 0) > LARGEST_PLAUSIBLE:
        return "implausible"
    return "before_decision" if outcome.timestamp < decision.decided_at else None


def fingerprint(outcome: Outcome) -> str:
    """The same for an outcome that is sent again."""
    fields = [outcome.decision_id, outcome.timestamp.astimezone(UTC).isoformat(), _to_number(outcome.outcome)]
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()
