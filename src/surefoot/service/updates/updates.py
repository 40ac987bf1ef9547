"""Updates: fit to all outcomes known by now, check, and activate the policy as a whole or not at all.

A process of its own runs an update (`start_update`): answering goes on, and a crash takes nothing else down.
"""

import json
import logging
import os
import socket
import subprocess
import sys
import threading
from datetime import timedelta
from typing import Any

import numpy as np
import sqlalchemy as sa

from surefoot.errors import InputError
from surefoot.explain.coefficients import estimate_coefficients
from surefoot.fitting.parts import PartFit, summarise_part
from surefoot.learning.methods import Method
from surefoot.service.access import record_action
from surefoot.service.database import databases
from surefoot.service.database.clock import now, repeat_job
from surefoot.service.database.databases import lock_content
from surefoot.service.database.ledger import insert_recorded, record
from surefoot.service.database.schema import activations, erasures, participant_events, policies, updates
from surefoot.service.trial.alerts import raise_alert
from surefoot.service.trial.api_models import ApiError
from surefoot.service.trial.participants import WITHDRAWN
from surefoot.service.trial.trial import Trial, load_stored_study, open_trial, policies_to_text
from surefoot.service.updates import trial_logs
from surefoot.study import StudyLogs
from surefoot.trial_rules.proposals import Proposal, propose_policy

BEAT_SECONDS = 2.0
DEAD_AFTER = timedelta(seconds=20)
"""An update without a heartbeat for this long is presumed dead."""
FITS = 5
"""How often an update fits again because somebody withdrew or was erased meanwhile."""
SHOWN = 500
"""Rows removed as outliers that a result lists."""
DRAWS = 100
"""Of the intervals of coefficients."""
STATUS = sa.select(updates, policies.c.id.label("policy_id")).select_from(
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
        if process.wait() == 0:
            return
        try:
            live = describe_live(trial)
            with trial.database.transaction() as connection:
                _interrupt_update(connection, update_id, live)
        except sa.exc.SQLAlchemyError:
            return  # the next update finds it dead

    threading.Thread(target=watch, daemon=True).start()
    return update_id


def begin_update(trial: Trial, started_by: str, *, by_staff: bool = False) -> int:
    """Take the one slot that the database has for updates; the id of the new update."""
    release_dead_update(trial)
    moment = now()
    row = {"state": "queued", "slot": 1, "started_by": started_by, "findings": "[]", "result": "{}"}
    try:
        with trial.database.transaction() as connection:
            times = {"created_at": moment, "beat_at": moment}
            update_id = int(insert_recorded(connection, "update", {**row, **_identify_process(), **times}))
            if by_staff:
                record_action(connection, started_by, "started an update", f"update {update_id}")
            return update_id
    except sa.exc.IntegrityError as error:
        raise UpdateRunningError("another update is under way; wait until it has ended") from error


def _identify_process() -> dict[str, Any]:
    return {"host": socket.gethostname(), "process": os.getpid()}


def release_dead_update(trial: Trial) -> None:
    """End an update whose process has died, so that the next one can begin."""
    with trial.database.autocommit() as connection:
        running = connection.execute(sa.select(updates).where(updates.c.slot.is_not(None))).mappings().first()
    if running is None or not _is_dead(running):
        return
    live = describe_live(trial)
    with trial.database.transaction() as connection:
        # Only as it was seen: somebody else may have dealt with it meanwhile.
        _interrupt_update(connection, running["id"], live, updates.c.beat_at == running["beat_at"])


def _is_dead(running: Any) -> bool:
    if now() - running["beat_at"] > DEAD_AFTER:
        return True
    if running["host"] != socket.gethostname() or running["process"] is None:
        return False
    try:
        os.kill(running["process"], 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _interrupt_update(connection: sa.Connection, update_id: int, live: str, *conditions: Any) -> None:
    """End an update whose process has died, unless it has ended or the conditions no longer hold."""
    ended = {"state": "interrupted", "finished_at": now(), "message": "its process died", "findings": "[]", "result": "{}"}
    if _end_row(connection, update_id, ended, *conditions):
        message = f"update {update_id} was interrupted; {live}"
        raise_alert(connection, kind="update", occasion=f"update:{update_id}", message=message)


def _end_row(connection: sa.Connection, update_id: int, ended: dict[str, Any], *conditions: Any) -> bool:
    """Write how an update ended and give its slot back; False when it has ended already."""
    running = sa.and_(updates.c.id == update_id, updates.c.slot.is_not(None), *conditions)
    if not connection.execute(sa.update(updates).where(running).values(slot=None, **ended)).rowcount:
        return False
    record(connection, "update ended", [{"id": update_id, **ended}])
    return True


def run_update(trial: Trial, update_id: int) -> str:
    """Run an update that has begun; its final state."""

    def beat() -> None:
        with trial.database.transaction() as connection:
            alive = {"beat_at": now(), **_identify_process()}
            connection.execute(sa.update(updates).where(updates.c.id == update_id).values(**alive))

    try:
        with repeat_job("the heartbeat", beat, BEAT_SECONDS):
            return _fit_and_publish(trial, update_id)
    except Exception as error:
        # The message of our own errors names columns and rows; that of others might hold anything.
        message = str(error) if isinstance(error, InputError) else f"the fit failed with {type(error).__name__}"
        with trial.database.transaction() as connection:
            alert = f"update {update_id} failed: {message}"
            _write_end(connection, update_id, "failed", message=message, alert=alert)
        if isinstance(error, InputError):
            return "failed"
        raise


def _fit_and_publish(trial: Trial, update_id: int) -> str:
    """Fit again when somebody withdrew or was erased meanwhile: nothing that was read before is written after."""
    for _ in range(FITS):
        _set_state(trial, update_id, "fitting")
        with trial.database.snapshot() as connection:
            departures = _count_departures(trial, connection)
            rows = trial_logs.read_rows(connection, without_withdrawn=not trial.settings.learn_from_withdrawn)
        if not rows:
            with trial.database.transaction() as connection:
                return _write_end(connection, update_id, "waiting", message="there are no decisions yet")
        proposal = _propose(trial, update_id, rows)
        result = _describe_result(trial, proposal, rows)
        live = describe_live(trial)
        with trial.database.transaction() as connection:
            lock_content(connection)
            if _count_departures(trial, connection) == departures:
                return _publish_policy(trial, connection, update_id, proposal, result, live)
    raise InputError(f"somebody withdrew or was erased during each of {FITS} fits; start the update again")


def _set_state(trial: Trial, update_id: int, state: str) -> None:
    with trial.database.transaction() as connection:
        connection.execute(sa.update(updates).where(updates.c.id == update_id).values(state=state))


def _count_departures(trial: Trial, connection: sa.Connection) -> tuple[int, int]:
    """Erasures, and withdrawals if nothing is learned from those who left."""
    withdrawals = sa.select(sa.func.count()).where(participant_events.c.kind == WITHDRAWN)
    erased = connection.scalar(sa.select(sa.func.count()).select_from(erasures))
    left = 0 if trial.settings.learn_from_withdrawn else connection.scalar(withdrawals)
    return int(erased or 0), int(left or 0)


def _propose(trial: Trial, update_id: int, rows: list[Any]) -> Proposal:
    live = trial.read_live(trial.policies.live())
    before = live.version.policies if live is not None and live.version is not None and live.fits else None
    return propose_policy(
        trial.study,
        trial_logs.measure_rows(trial.study, rows),
        before,
        [] if before is None else _read_live_coefficients(trial),
        label=lambda row: f"decision point {rows[row]['decision_idx']} of participant {rows[row]['participant_id']}",
        report=lambda state: _set_state(trial, update_id, state),
    )


def _read_live_coefficients(trial: Trial) -> list[dict[str, Any]]:
    """The coefficients with standard errors that were recorded with the update of the live policy."""
    live = sa.select(activations.c.policy_id).order_by(activations.c.id.desc()).limit(1).scalar_subquery()
    made_by = sa.select(policies.c.update_id).where(policies.c.id == live).scalar_subquery()
    with trial.database.autocommit() as connection:
        text = connection.scalar(sa.select(updates.c.result).where(updates.c.id == made_by))
    standard_errors: list[dict[str, Any]] = [] if text is None else json.loads(text).get("standard_errors", [])
    return standard_errors


def _describe_result(trial: Trial, proposal: Proposal, rows: list[Any]) -> dict[str, Any]:
    """Counts, the rows that the critic removed with the reward it expected, and values that were not plausible."""
    result: dict[str, Any] = {
        "study_id": trial.study_id,
        "implausible_rows": [
            {**_name_point(rows[cell.row]), "variable": cell.variable, "value": cell.value, "limits": cell.limits}
            for cell in proposal.implausible[:SHOWN]
        ],
    }
    if proposal.fit is None:
        return {**result, **summarise_part(trial.study, proposal.logs), "removed_rows": []}
    fit = proposal.fit
    result |= {**fit.summary, "removed_rows": _list_removed(fit, proposal.logs, rows)}
    if proposal.coefficients:
        result |= {"standard_errors": proposal.coefficients, "coefficients": coefficient_intervals(fit.method)}
    return result


def _list_removed(fit: PartFit, logs: StudyLogs, rows: list[Any]) -> list[dict[str, Any]]:
    weights = fit.weights["weight"].to_numpy(zero_copy_only=False)
    residuals = fit.weights["residual"].to_numpy(zero_copy_only=False)
    thresholds = dict(zip(fit.critic["participant"].to_pylist(), fit.critic["threshold"].to_pylist(), strict=True))
    removed = []
    for position in np.flatnonzero(weights == 0)[:SHOWN]:
        row = rows[int(logs.row[position])]
        threshold = float(thresholds.get(row["participant_id"], thresholds.get("everyone")) or np.inf)
        reward = float(logs.logs.reward[position])
        removed.append(
            {
                "decision_id": row["id"],
                **_name_point(row),
                "action": row["action"],
                "reward": reward,
                "expected": reward - float(residuals[position]),
                "limit": float(np.sqrt(threshold)) if np.isfinite(threshold) else None,
            }
        )
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
    trial: Trial, connection: sa.Connection, update_id: int, proposal: Proposal, result: dict[str, Any], live: str
) -> str:
    """Policy, activation and the update's end in one transaction."""
    accepted = proposal.state == "done"
    alert = None
    if proposal.state == "refused":
        alert = f"update {update_id} was refused by a policy check ({proposal.message}); {live}"
    finite = any(finding.passed for finding in proposal.findings if finding.check == "finite")
    if proposal.policies is not None and finite:
        row = {"update_id": update_id, "study_id": trial.study_id, "created_at": now(), "accepted": accepted}
        policy_id = int(insert_recorded(connection, "policy", {**row, "content": policies_to_text(proposal.policies)}))
        if accepted and trial.settings.activation == "automatic":
            activate(connection, policy_id, f"update {update_id}")
    findings = [finding.as_dict() for finding in proposal.findings]
    return _write_end(connection, update_id, proposal.state, findings, result, proposal.message, alert)


def _write_end(
    connection: sa.Connection,
    update_id: int,
    state: str,
    findings: list[dict[str, Any]] | None = None,
    result: dict[str, Any] | None = None,
    message: str | None = None,
    alert: str | None = None,
) -> str:
    """Write the end of an update and give its slot back; one that was presumed dead meanwhile may not end any more."""
    ended = {"state": state, "finished_at": now(), "message": message}
    texts = {"findings": json.dumps(findings or []), "result": json.dumps(result or {}, allow_nan=False)}
    if not _end_row(connection, update_id, {**ended, **texts}):
        raise InputError(f"update {update_id} was presumed dead; nothing of it goes live")
    if alert is not None:
        kind = "policy-check" if state == "refused" else "update"
        raise_alert(connection, kind=kind, occasion=f"update:{update_id}", message=alert)
    return state


def activate(connection: sa.Connection, policy_id: int, by: str) -> None:
    """Make a policy live; in the caller's transaction."""
    insert_recorded(connection, "activation", {"policy_id": policy_id, "activated_at": now(), "activated_by": by})


def describe_live(trial: Trial) -> str:
    """Which policy decides now, in words."""
    live = trial.policies.live()
    return "no policy is live, the warm-up goes on" if live is None else f"policy {live[0]} is still live"


def update_status(trial: Trial, update_id: int) -> dict[str, Any]:
    """One update: its progress, its result, the findings of the policy checks."""
    with trial.database.autocommit() as connection:
        row = connection.execute(STATUS.where(updates.c.id == update_id)).mappings().first()
    if row is None:
        raise ApiError(404, "unknown_update", "there is no such update", "update_id")
    return _describe_update(row)


def list_updates(trial: Trial, newest: int = 50) -> list[dict[str, Any]]:
    """The newest updates first."""
    with trial.database.autocommit() as connection:
        rows = connection.execute(STATUS.order_by(updates.c.id.desc()).limit(newest)).mappings().all()
    return [_describe_update(row) for row in rows]


def _describe_update(row: Any) -> dict[str, Any]:
    names = ("id", "state", "started_by", "created_at", "finished_at", "policy_id", "message")
    return {
        **{name: row[name] for name in names},
        "findings": json.loads(row["findings"]),
        "result": json.loads(row["result"]),
    }


def main() -> None:
    """Run the update that the command line names."""
    url = os.environ["SUREFOOT_DATABASE"]
    database = databases.connect(url)
    study = load_stored_study(database, sys.argv[2])
    database.close()
    trial = open_trial(study, url)
    run_update(trial, int(sys.argv[1]))
    trial.close()


if __name__ == "__main__":
    main()
