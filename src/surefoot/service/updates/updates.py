"""Updates: fit to all outcomes known by now, check, and activate the policy as a whole or not at all; policy versions.

A process of its own runs an update (`start_update`): answering goes on, and a crash takes nothing else down.
"""

import json
import logging
import os
import socket
import subprocess
import sys
import threading
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

from surefoot.errors import InputError
from surefoot.explain.coefficients import estimate_coefficients
from surefoot.fitting import FittedStudy
from surefoot.fitting.parts import PartFit, summarise_part
from surefoot.learning.methods import Method
from surefoot.policies.policies import Policies
from surefoot.service.access import record_action
from surefoot.service.database import databases
from surefoot.service.database.clock import Job, now, repeat_jobs
from surefoot.service.database.databases import lock_content
from surefoot.service.database.ledger import insert_recorded, record
from surefoot.service.database.schema import activations, erasures, participant_events, policies, updates
from surefoot.service.trial import states
from surefoot.service.trial.alerts import count_alert, raise_alert
from surefoot.service.trial.api_models import ApiError
from surefoot.service.trial.boundaries import raise_boundary_alerts
from surefoot.service.trial.participants import WITHDRAWN
from surefoot.service.trial.trial import LIVE, Trial, list_coefficients, load_stored_study, open_trial, policies_to_text
from surefoot.service.trial.verification import Discrepancy, find_altered_rows
from surefoot.study import StudyLogs
from surefoot.study.trial_updates import write_ranges
from surefoot.trial_rules.proposals import Proposal, find_known, propose_policy

BEAT_SECONDS = 2.0
DEAD_AFTER = timedelta(seconds=20)
"""An update without a heartbeat for this long is presumed dead."""
FITS = 5
"""How often an update fits again because somebody withdrew or was erased meanwhile."""
SHOWN = 500
"""Rows removed as outliers that a result lists."""
DRAWS = 100
"""Of the intervals of coefficients."""
_shown = ("id", "state", "started_by", "created_at", "finished_at", "findings", "result", "message")
STATUS = sa.select(*(updates.c[name] for name in _shown), policies.c.id.label("policy_id")).select_from(
    updates.outerjoin(policies, policies.c.update_id == updates.c.id)
)
log = logging.getLogger("surefoot.service")


class UpdateRunningError(InputError):
    """Another update is under way."""


def start_update(trial: Trial, started_by: str, *, by_staff: bool = False) -> int:
    """Begin an update and leave it to a new process; its id."""
    update_id = begin_update(trial, started_by, by_staff=by_staff)
    command = [sys.executable, "-m", "surefoot.service.updates.updates", str(update_id), trial.study_id]
    # The URL may hold a password: other users of the machine can read command lines, not environments.
    environment = {**os.environ, "SUREFOOT_DATABASE": trial.database.url}
    process = subprocess.Popen(  # noqa: S603 - our own words
        command, env=environment, stdin=subprocess.DEVNULL, start_new_session=True
    )

    def watch() -> None:
        """Release the slot at once when the process ends without having finished the update."""
        if process.wait() != 0:
            try:
                _interrupt_update(trial, update_id)
            except sa.exc.SQLAlchemyError:
                return  # the next update finds it dead

    threading.Thread(target=watch, daemon=True).start()
    return update_id


def begin_update(trial: Trial, started_by: str, *, by_staff: bool = False) -> int:
    """Take the one slot that the database has for updates; the id of the new update."""
    release_dead_update(trial)
    row = {"state": "queued", "slot": 1, "started_by": started_by, "findings": "[]", "result": "{}"}
    alive = _show_life()
    try:
        with trial.database.transaction() as connection:
            update_id = int(insert_recorded(connection, "update", {**row, **alive, "created_at": alive["beat_at"]}))
            if by_staff:
                record_action(connection, started_by, "started an update", f"update {update_id}")
            return update_id
    except sa.exc.IntegrityError as error:
        raise UpdateRunningError("another update is under way; wait until it has ended") from error


def _show_life() -> dict[str, Any]:
    return {"beat_at": now(), "host": socket.gethostname(), "process": os.getpid()}


def release_dead_update(trial: Trial) -> None:
    """End an update whose process has died, so that the next one can begin."""
    with trial.database.autocommit() as connection:
        running = connection.execute(sa.select(updates).where(updates.c.slot.is_not(None))).mappings().first()
    if running is None:
        return
    # A sign of life that is still to come was dated by a clock that was ahead, and none has followed it.
    dead = abs(now() - running["beat_at"]) > DEAD_AFTER
    if not dead and running["host"] == socket.gethostname() and running["process"] is not None:
        try:
            os.kill(running["process"], 0)
        except ProcessLookupError:
            dead = True
        except PermissionError:
            pass  # another user's, and alive
    if dead:
        # Only as it was seen: somebody else may have dealt with it meanwhile.
        _interrupt_update(trial, running["id"], updates.c.beat_at == running["beat_at"])


def _interrupt_update(trial: Trial, update_id: int, *conditions: Any) -> None:
    """End an update whose process has died, unless it has ended or the conditions no longer hold."""
    alert = f"update {update_id} was interrupted; {describe_live(trial)}"
    with trial.database.transaction() as connection:
        _end_update(connection, update_id, "interrupted", "its process died", alert, conditions=conditions)


def _end_update(
    connection: sa.Connection,
    update_id: int,
    state: str,
    message: str | None,
    alert: str | None = None,
    *,
    findings: list[dict[str, Any]] | None = None,
    result: dict[str, Any] | None = None,
    read_at: datetime | None = None,
    learned_from: dict[str, str] | None = None,
    conditions: tuple[Any, ...] = (),
) -> str:
    """Write how an update ended and give its slot back; one that was presumed dead meanwhile may not end any more."""
    ended = {"state": state, "finished_at": now(), "message": message}
    ended |= {"findings": json.dumps(findings or []), "result": json.dumps(result or {}, allow_nan=False)}
    ended |= {"read_at": read_at, "learned_from": None if learned_from is None else json.dumps(learned_from)}
    running = sa.and_(updates.c.id == update_id, updates.c.slot.is_not(None), *conditions)
    if connection.execute(sa.update(updates).where(running).values(slot=None, **ended)).rowcount:
        record(connection, "update ended", [{"id": update_id, **ended}])
        if alert is not None:
            kind = "policy-check" if state in ("refused", "done") else "update"
            raise_alert(connection, kind=kind, occasion=f"update:{update_id}", message=alert)
    elif state != "interrupted":
        raise InputError(f"update {update_id} was presumed dead; nothing of it goes live")
    return state


def run_update(trial: Trial, update_id: int) -> str:
    """Run an update that has begun, then look at the boundaries; its final state."""
    state = _run_fit(trial, update_id)
    raise_boundary_alerts(trial, now())
    return state


def _run_fit(trial: Trial, update_id: int) -> str:
    try:
        with repeat_jobs(Job("the heartbeat", lambda: _change_update(trial, update_id, **_show_life()), BEAT_SECONDS)):
            return _fit_and_publish(trial, update_id)
    except Exception as error:
        # The message of our own errors names columns and rows; that of others might hold anything.
        message = str(error) if isinstance(error, InputError) else f"the fit failed with {type(error).__name__}"
        with trial.database.transaction() as connection:
            _end_update(connection, update_id, "failed", message, f"update {update_id} failed: {message}")
        if isinstance(error, InputError):
            return "failed"
        raise


def _change_update(trial: Trial, update_id: int, **values: Any) -> None:
    with trial.database.transaction() as connection:
        connection.execute(sa.update(updates).where(updates.c.id == update_id).values(**values))


def _fit_and_publish(trial: Trial, update_id: int) -> str:
    """Fit again when somebody withdrew or was erased meanwhile: nothing that was read before is written after."""
    for _ in range(FITS):
        _change_update(trial, update_id, state="fitting")
        with trial.database.snapshot(unlimited=True) as connection:
            read_at = now()
            departures = _count_departures(trial, connection)
            rows = states.read_rows(connection, without_withdrawn=not trial.settings.learn_from_withdrawn)
            altered = find_altered_rows(connection)
        rows = _leave_out_altered(trial, update_id, rows, altered)
        if not rows:
            with trial.database.transaction() as connection:
                return _end_update(connection, update_id, "waiting", "there are no decisions yet")
        proposal = _propose(trial, update_id, rows)
        known = {"result": _describe_result(trial, proposal, rows), "read_at": read_at}
        known["learned_from"] = _list_learned(proposal.logs, rows)
        live = describe_live(trial)
        with trial.database.transaction() as connection:
            lock_content(connection)
            if _count_departures(trial, connection) == departures:
                return _publish_policy(trial, connection, update_id, proposal, known, live)
    raise InputError(f"somebody withdrew or was erased during each of {FITS} fits; start the update again")


def _leave_out_altered(trial: Trial, update_id: int, rows: list[Any], altered: list[Discrepancy]) -> list[Any]:
    """Learn from evidence only: what somebody wrote into the database, even for a moment, steers no policy."""
    if not altered:
        return rows
    points = {row.key[0 if row.kind == "decision" else 1] for row in altered if row.kind in ("decision", "outcome")}
    # An outcome that was moved to another decision alters both.
    values = {row.key[0] for row in altered if row.kind == "outcome"}
    evidence = [row for row in rows if row["id"] not in points and row["outcome_id"] not in values]
    first = f"{altered[0].subject}: {altered[0].problem}"
    message = (
        f"update {update_id} found {len(altered):,} rows that are not as they were recorded, and left out "
        f"{len(rows) - len(evidence):,} decision points; run surefoot replay. The first: {first}"
    )
    with trial.database.transaction() as connection:
        count_alert(connection, kind="replay", message=message, at=now())
    return evidence


def _count_departures(trial: Trial, connection: sa.Connection) -> tuple[int, int]:
    """Erasures, and withdrawals if nothing is learned from those who left."""
    withdrawals = sa.select(sa.func.count()).where(participant_events.c.kind == WITHDRAWN)
    erased = connection.scalar(sa.select(sa.func.count()).select_from(erasures))
    left = 0 if trial.settings.learn_from_withdrawn else connection.scalar(withdrawals)
    return int(erased or 0), int(left or 0)


def _propose(trial: Trial, update_id: int, rows: list[Any]) -> Proposal:
    live = trial.read_live(trial.policies.live())
    before = live.version.policies if live is not None and live.version is not None and live.fits else None
    coefficients: list[dict[str, Any]] = []
    known = None
    if live is not None and before is not None:
        # With the standard errors that were recorded with the update of the live policy; a pilot's policy has none.
        with trial.database.autocommit() as connection:
            made_by = sa.select(updates.c.result).join_from(updates, policies)
            result = connection.scalar(made_by.where(policies.c.id == live.id))
            learned = sa.select(activations.c.activated_at, updates.c.learned_from).select_from(
                activations.join(policies, activations.c.policy_id == policies.c.id).join(updates)
            )
            history = connection.execute(learned.order_by(activations.c.id)).all()
        if result is not None:
            coefficients = json.loads(result).get("standard_errors", [])
            ages = [(now() - row.activated_at, list(json.loads(row.learned_from or "{}"))) for row in history]
            known = find_known(ages, trial.settings.guard_rails.newcomer_days)
    return propose_policy(
        trial.study,
        states.measure_rows(trial.study, rows),
        before,
        coefficients,
        known,
        label=lambda row: f"decision point {rows[row]['decision_idx']} of participant {rows[row]['participant_id']}",
        report=lambda state: _change_update(trial, update_id, state=state),
    )


def _describe_result(trial: Trial, proposal: Proposal, rows: list[Any]) -> dict[str, Any]:
    """Counts, the rows that the critic removed with the outcome it expected, and values that were not plausible."""
    implausible = [
        {**_name_point(rows[cell.row]), "variable": cell.variable, "value": cell.value, "limits": cell.limits}
        for cell in proposal.implausible[:SHOWN]
    ]
    result: dict[str, Any] = {"study_id": trial.study_id, "implausible_rows": implausible}
    fit = proposal.fit
    result |= summarise_part(trial.study, proposal.logs) if fit is None else fit.summary
    # The ends of the range are what single participants sent, and would outlive their erasure.
    del result["outcome_range"]
    if fit is None:
        return {**result, "removed_rows": []}
    result["removed_rows"] = _list_removed(fit, proposal.logs, rows)
    if proposal.coefficients:
        result |= {"standard_errors": proposal.coefficients, "coefficients": coefficient_intervals(fit.method)}
    return result


def _list_learned(logs: StudyLogs, rows: list[Any]) -> dict[str, str]:
    """The decision points whose outcomes were learned from, after screening, as ranges by participant."""
    points: dict[str, list[int]] = {}
    for position in np.flatnonzero(logs.logs.usable):
        row = rows[int(logs.row[position])]
        points.setdefault(row["participant_id"], []).append(row["decision_idx"])
    return {participant: write_ranges(indices) for participant, indices in points.items()}


def _list_removed(fit: PartFit, logs: StudyLogs, rows: list[Any]) -> list[dict[str, Any]]:
    weights = fit.weights["weight"].to_numpy(zero_copy_only=False)
    residuals = fit.weights["residual"].to_numpy(zero_copy_only=False)
    thresholds = dict(zip(fit.critic["participant"].to_pylist(), fit.critic["threshold"].to_pylist(), strict=True))
    removed = []
    for position in np.flatnonzero(weights == 0)[:SHOWN]:
        row = rows[int(logs.row[position])]
        threshold = float(thresholds.get(row["participant_id"], thresholds.get("everyone")) or np.inf)
        limit = float(np.sqrt(threshold)) if np.isfinite(threshold) else None
        outcome = float(logs.logs.outcome[position])
        point = {"decision_id": row["id"], **_name_point(row), "action": row["action"]}
        removed.append({**point, "outcome": outcome, "expected": outcome - float(residuals[position]), "limit": limit})
    return removed


def _name_point(row: Any) -> dict[str, Any]:
    return {name: row[name] for name in ("participant_id", "decision_idx")}


def coefficient_intervals(method: Method) -> dict[str, Any]:
    """The policy's coefficients with 95 % intervals and how these were computed; empty where that fails."""
    try:
        estimates = estimate_coefficients(method, draws=DRAWS, seed=0)
    except Exception as error:
        # A policy is worth having without them.
        log.error("the intervals failed with %s", type(error).__name__)
        return {}
    rows = []
    for row in (row for row in estimates.rows if row.part == "policy"):
        low, high = (float(end) if np.isfinite(end) else None for end in (row.interval.low, row.interval.high))
        note = ""
        if row.people_above is not None:
            note = f"own interval above 0: {row.people_above} people, below: {row.people_below}"
        estimate = {"value": float(row.interval.value), "low": low, "high": high, "note": note}
        rows.append({"action": row.action, "feature": row.feature, **estimate})
    return {"rows": rows, "how": estimates.how} if rows else {}


def _publish_policy(
    trial: Trial, connection: sa.Connection, update_id: int, proposal: Proposal, known: dict[str, Any], live: str
) -> str:
    """Policy, activation and the update's end in one transaction."""
    accepted = proposal.state == "done"
    alert = None
    if proposal.state == "refused":
        alert = f"update {update_id} was refused by a policy check ({proposal.message}); {live}"
    elif proposal.left_out is not None:
        alert = f"update {update_id} learned without newcomers: {proposal.left_out}; the next update admits more of them"
    finite = any(finding.passed for finding in proposal.findings if finding.check == "finite")
    if proposal.policies is not None and finite:
        policy_id = _insert_policy(trial, connection, proposal.policies, update_id, accepted=accepted)
        if accepted and trial.settings.activation == "automatic":
            activate(trial, connection, policy_id, f"update {update_id}")
    findings = [finding.as_dict() for finding in proposal.findings]
    return _end_update(connection, update_id, proposal.state, proposal.message, alert, findings=findings, **known)


def _insert_policy(
    trial: Trial, connection: sa.Connection, fitted: Policies, update_id: int | None, *, accepted: bool
) -> int:
    row = {"update_id": update_id, "study_id": trial.study_id, "created_at": now(), "accepted": accepted}
    return int(insert_recorded(connection, "policy", {**row, "content": policies_to_text(fitted)}))


def activate(trial: Trial, connection: sa.Connection, policy_id: int, by: str) -> None:
    """Make a policy live; in the caller's transaction."""
    moment = trial.watch.believe(now())
    insert_recorded(connection, "activation", {"policy_id": policy_id, "activated_at": moment, "activated_by": by})


def describe_live(trial: Trial) -> str:
    """Which policy decides now, in words."""
    live = trial.policies.live()
    return "no policy is live, the warm-up goes on" if live is None else f"policy {live[0]} is still live"


def update_status(trial: Trial, update_id: int) -> dict[str, Any]:
    """One update: its progress, its result, the findings of the policy checks."""
    listed = _read_updates(trial, STATUS.where(updates.c.id == update_id))
    if not listed:
        raise ApiError(404, "unknown_update", "there is no such update", "update_id")
    return listed[0]


def list_updates(trial: Trial, newest: int = 50) -> list[dict[str, Any]]:
    """The newest updates first."""
    return _read_updates(trial, STATUS.order_by(updates.c.id.desc()).limit(newest))


def _read_updates(trial: Trial, query: sa.Select[Any]) -> list[dict[str, Any]]:
    with trial.database.autocommit() as connection:
        rows = connection.execute(query).mappings().all()
    return [{**row, "findings": json.loads(row["findings"]), "result": json.loads(row["result"])} for row in rows]


def list_versions(trial: Trial) -> list[dict[str, Any]]:
    """All policy versions, newest first, with their activations; without their content, which is large."""
    columns = (policies.c.id, policies.c.created_at, policies.c.update_id, policies.c.accepted)
    with trial.database.snapshot() as connection:
        rows = connection.execute(sa.select(*columns).order_by(policies.c.id.desc())).mappings().all()
        events = connection.execute(sa.select(activations).order_by(activations.c.id)).mappings().all()
    live = events[-1]["policy_id"] if events else None
    return [
        {**row, "live": row["id"] == live, "events": [event for event in events if event["policy_id"] == row["id"]]}
        for row in rows
    ]


def list_policies(trial: Trial) -> list[dict[str, Any]]:
    """All versions with their coefficients, as the API describes them."""
    listed = []
    for row in list_versions(trial):
        history = [{"at": event["activated_at"], "by": event["activated_by"]} for event in row["events"]]
        description: dict[str, Any] = {
            "method": "unreadable",
            "states": [],
            "actions": [],
            "people": None,
            "coefficients": [],
        }
        version = trial.policies.get(row["id"])
        if version is not None:
            fitted = version.policies
            description = {
                "method": fitted.rule.name,
                "states": list(fitted.state_names),
                "actions": list(fitted.action_names),
                "people": None if fitted.participants is None else len(fitted.participants),
                "coefficients": list_coefficients(fitted),
            }
        listed.append({**row, "activations": history, **description})
    return listed


def activate_policy(trial: Trial, policy_id: int, by: str) -> dict[str, Any]:
    """Make a version live, newer or older than the live one: one call rolls back."""
    version = trial.policies.get(policy_id)
    with trial.database.autocommit() as connection:
        accepted = connection.scalar(sa.select(policies.c.accepted).where(policies.c.id == policy_id))
    if accepted is None:
        raise ApiError(404, "unknown_policy", "there is no such policy", "policy_id")
    if not accepted:
        raise ApiError(409, "refused_by_policy_check", "a policy check refused this policy; it cannot go live", "policy_id")
    if version is None or not trial.can_use(version):
        raise ApiError(409, "other_study", "this policy was made for other variables or actions", "policy_id")
    with trial.database.transaction() as connection:
        previous = connection.scalar(LIVE)
        activate(trial, connection, policy_id, by)
        record_action(connection, by, "activated", f"policy {policy_id}", f"before: policy {previous or '–'}")
    return {"policy_id": policy_id, "previous_policy_id": previous}


def load_pilot_policies(trial: Trial, folder: Path, by: str) -> tuple[int, Policies]:
    """Make a fitted folder the trial's first policy version; live at once unless the study's activation is manual."""
    fitted = FittedStudy.load(folder).policies
    trial.study.check_policies(fitted, str(folder), from_fit=True)
    with trial.database.transaction() as connection:
        newest = connection.scalar(sa.select(sa.func.max(policies.c.id)))
        if newest is not None:
            raise InputError(f"the trial has policy {newest} already; pilot policies are for its start")
        policy_id = _insert_policy(trial, connection, fitted, None, accepted=True)
        record_action(connection, by, "loaded policies", f"policy {policy_id}")
        if trial.settings.activation == "automatic":
            activate(trial, connection, policy_id, by)
    return policy_id, fitted


def main() -> None:
    """Run the update that the command line names."""
    url = os.environ["SUREFOOT_DATABASE"]
    with closing(databases.connect(url)) as database:
        study = load_stored_study(database, sys.argv[2])
    with closing(open_trial(study, url)) as trial:
        trial.watch.find_jump(now())  # a clock that is set during the fit does not date the policy
        run_update(trial, int(sys.argv[1]))


if __name__ == "__main__":
    main()
