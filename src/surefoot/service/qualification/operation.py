"""Operation qualification: a scratch trial is run as a trial is, and every promise that can be tried is tried."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

from surefoot.data.column_kinds import VariableKind
from surefoot.service.access.keys import create_key, find_caller, revoke_key
from surefoot.service.database import databases
from surefoot.service.database.clock import now
from surefoot.service.database.databases import Database
from surefoot.service.database.schema import decisions
from surefoot.service.operations.backup import back_up, restore
from surefoot.service.operations.verification import verify
from surefoot.service.qualification.checks import QualificationCheck
from surefoot.service.qualification.scratch import scratch_url
from surefoot.service.trial.api_errors import ApiError
from surefoot.service.trial.api_models import DecisionRequest, Outcome
from surefoot.service.trial.decisions import decide
from surefoot.service.trial.erasure import ask_erasure, confirm_erasure
from surefoot.service.trial.outcomes import record_outcomes
from surefoot.service.trial.participants import register_participant
from surefoot.service.trial.replay import replay
from surefoot.service.trial.trial import Trial
from surefoot.service.updates.updates import begin_update, run_update
from surefoot.study import Study

PEOPLE = ("qualification-1", "qualification-2")
AT_ONCE = 20


def check_operation(trial: Trial, url: str) -> Iterator[QualificationCheck]:
    """The checks that need a trial; all of it happens in the scratch trial. A check that breaks has failed."""
    answers = list(_run_days(trial))
    checks: dict[str, Callable[[], QualificationCheck]] = {
        "decisions and limits": lambda: _check_limits(trial, answers),
        "retries": lambda: _check_retries(trial),
        "outcomes": lambda: _check_outcomes(trial, answers),
        "update": lambda: _check_update(trial),
        "replay and ledger": lambda: _check_record(trial),
        "append-only": lambda: _check_append_only(trial),
        "keys": lambda: _check_keys(trial),
        "time limits": lambda: _check_time_limits(trial),
        "erasure": lambda: _check_erasure(trial),
        "backup and restore": lambda: _check_backup(trial, url),
    }
    for name, check in checks.items():
        try:
            yield check()
        except Exception as error:
            yield QualificationCheck(name, "ends without an error", f"{type(error).__name__}: {error}", passed=False)


def _run_days(trial: Trial) -> Iterator[dict[str, Any]]:
    """Decisions of two participants, enough of each for a policy, with the outcome that each of them has."""
    rng = np.random.default_rng(0)
    step = max(timedelta(hours=1), timedelta(minutes=trial.settings.decision_gap_minutes))
    points = trial.settings.warm_up_decision_points + 10
    begin = now() - (points + 2) * step
    for person in PEOPLE:
        register_participant(trial.database, person)
        for index in range(points):
            request = _ask(trial, rng, person, index, begin + index * step)
            answer = {**json.loads(decide(trial, request)), "asked": request}
            value = _make_outcome(trial.study, rng)
            sent = Outcome(decision_id=answer["decision_id"], proximal_outcome=value, timestamp=request.timestamp)
            record_outcomes(trial, [sent])
            yield answer


def _ask(trial: Trial, rng: np.random.Generator, person: str, index: int, moment: datetime) -> DecisionRequest:
    context = {name: _make_value(kind, rng) for name, (_, kind) in trial.study.state_kinds.items()}
    away = index % 7 == 6
    availability = {"availability": not away, "reasons": ["qualification"] if away else []}
    return DecisionRequest.model_validate(
        {"participant_id": person, "decision_idx": index, "timestamp": moment, **availability, "context": context}
    )


def _make_value(kind: VariableKind, rng: np.random.Generator) -> Any:
    """A plausible value of a variable."""
    if kind.levels:
        return str(rng.choice(kind.levels))
    if bool in kind.json_types:
        return bool(rng.random() < 0.5)
    low, high = kind.range or (-2.0, 2.0)
    return float(rng.uniform(low, high))


def _make_outcome(study: Study, rng: np.random.Generator) -> float:
    """A plausible outcome; not negative where the study gives no range, so that it has a logarithm and a root."""
    return float(rng.uniform(*study.reward.range) if study.reward.range else rng.exponential())


def _check_limits(trial: Trial, answers: list[dict[str, Any]]) -> QualificationCheck:
    limits = trial.study.probability_limits
    wrong = 0
    for answer in answers:
        send = sum(answer["action_prob"][1:])
        free = answer["source"] != "unavailable"
        wrong += (
            not (limits.minimum - 1e-12 <= send <= limits.maximum + 1e-12) if free else answer["action"] != 0 or send > 0
        )
    shown = f"{len(answers)} decisions, {wrong} outside"
    return QualificationCheck(
        "decisions and limits", "every probability within the study's limits; unavailable: nothing", shown, not wrong
    )


def _check_retries(trial: Trial) -> QualificationCheck:
    rng = np.random.default_rng(1)
    person = PEOPLE[0]
    request = _ask(trial, rng, person, 7 * 10**6, now())
    with ThreadPoolExecutor(AT_ONCE) as pool:
        replies = set(pool.map(lambda _: decide(trial, request), range(AT_ONCE)))
    changed = request.model_copy(update={"timestamp": request.timestamp + timedelta(seconds=1)})
    try:
        decide(trial, changed)
        refused = False
    except ApiError as error:
        refused = error.status_code == 409
    shown = f"{AT_ONCE} requests at once: {len(replies)} answer(s); another request: {'refused' if refused else 'answered'}"
    return QualificationCheck(
        "retries", "one draw, the same bytes; another request for it is refused", shown, len(replies) == 1 and refused
    )


def _check_outcomes(trial: Trial, answers: list[dict[str, Any]]) -> QualificationCheck:
    answer = answers[0]
    early = answer["asked"].timestamp - timedelta(days=400)
    sent = [
        Outcome(decision_id=answer["decision_id"], proximal_outcome=1.0, timestamp=moment)
        for moment in (answer["asked"].timestamp, answer["asked"].timestamp, early)
    ]
    statuses = [receipt["status"] for outcome in sent for receipt in record_outcomes(trial, [outcome])]
    wanted = ["recorded", "repeated", "before_decision"]
    return QualificationCheck("outcomes", ", ".join(wanted), ", ".join(statuses), statuses == wanted)


def _check_update(trial: Trial) -> QualificationCheck:
    state = run_update(trial, begin_update(trial, "qualification"))
    return QualificationCheck("update", "ends as done, waiting or refused", state, state in ("done", "waiting", "refused"))


def _check_record(trial: Trial) -> QualificationCheck:
    replayed = replay(trial.database)
    verified = verify(trial.database)
    shown = (
        f"{replayed.decisions} decisions replayed, {len(replayed.differences)} differences; "
        f"{verified.blocks} blocks of the ledger, {len(verified.discrepancies)} discrepancies"
    )
    return QualificationCheck(
        "replay and ledger", "no difference", shown, not replayed.differences and not verified.discrepancies
    )


def _check_append_only(trial: Trial) -> QualificationCheck:
    try:
        with trial.database.transaction() as connection:
            connection.execute(sa.update(decisions).values(action=0))
        shown = "the database changed a decision"
    except sa.exc.DBAPIError as error:
        shown = "refused" if "append-only" in str(error.orig) else type(error.orig).__name__
    return QualificationCheck("append-only", "the database refuses to change a decision", shown, shown == "refused")


def _check_keys(trial: Trial) -> QualificationCheck:
    key = create_key(trial.database, "app", "qualification")
    good = find_caller(trial.database, key)
    revoke_key(trial.database, key)
    gone = find_caller(trial.database, key) is None and find_caller(trial.database, key[:-1] + "x") is None
    passed = good is not None and not good.may("admin") and gone
    return QualificationCheck(
        "keys", "good for their role until they are revoked", "as wanted" if passed else "not so", passed
    )


def _check_time_limits(trial: Trial) -> QualificationCheck:
    query = "PRAGMA busy_timeout" if trial.database.is_sqlite else "SHOW statement_timeout"
    with trial.database.autocommit() as connection:
        setting = str(connection.exec_driver_sql(query).scalar())
    wanted = "5000" if trial.database.is_sqlite else f"{databases.STATEMENT_SECONDS}s"
    return QualificationCheck("time limits", f"the database waits {wanted}", setting, setting == wanted)


def _check_erasure(trial: Trial) -> QualificationCheck:
    """Before the backup, so that the restore meets content that was erased."""
    participant_id = PEOPLE[1]
    request = ask_erasure(trial.database, participant_id, reason="qualification", by="qualification")
    erased = confirm_erasure(trial.database, participant_id, request.code, by="qualification")
    differences = _count_differences(trial.database)
    shown = f"{erased.decisions} decisions and {erased.outcomes} outcomes erased, {differences} differences"
    complete = (erased.decisions, erased.outcomes) == (request.decisions, request.outcomes) and erased.decisions > 0
    return QualificationCheck("erasure", "content goes; the rest replays", shown, complete and not differences)


def _check_backup(trial: Trial, url: str) -> QualificationCheck:
    with tempfile.TemporaryDirectory() as folder, scratch_url(url) as copy_url:
        path = Path(folder) / "qualification.zip"
        counts = back_up(trial.database, path)
        copy = databases.connect(copy_url)
        try:
            restored = restore(path, copy, by="qualification").rows
            differences = _count_differences(copy)
        finally:
            copy.close()
    shown = f"{restored['decisions']} of {counts['decisions']} decisions restored, {differences} differences"
    return QualificationCheck(
        "backup and restore", "every row comes back and replays", shown, restored == counts and not differences
    )


def _count_differences(database: Database) -> int:
    """What replay and the ledger find."""
    return len(replay(database).differences) + len(verify(database).discrepancies)
