"""Qualification: checks of an installation, and a scratch trial in which every promise that can be tried is tried."""

import json
import os
import platform
import secrets
import shutil
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import make_url

from surefoot.atomic_files import atomic_write
from surefoot.data.column_kinds import VariableKind
from surefoot.reports.render import render
from surefoot.service.access import create_key, find_caller, revoke_key
from surefoot.service.database import clock, databases
from surefoot.service.database.clock import now
from surefoot.service.database.databases import Database
from surefoot.service.database.schema import decisions
from surefoot.service.operations.backup import back_up, restore
from surefoot.service.operations.verification import verify
from surefoot.service.trial.api_models import ApiError, DecisionRequest, Outcome
from surefoot.service.trial.decisions import decide
from surefoot.service.trial.erasure import ask_erasure, confirm_erasure
from surefoot.service.trial.outcomes import record_outcomes
from surefoot.service.trial.participants import register_participant
from surefoot.service.trial.replay import replay
from surefoot.service.trial.trial import Trial, check_servable, open_trial
from surefoot.service.updates.updates import begin_update, run_update
from surefoot.study import Study
from surefoot.version import __version__


@dataclass(frozen=True)
class QualificationCheck:
    """One line of the report."""

    name: str
    wanted: str
    observed: str
    passed: bool


PACKAGES = ("fastapi", "numpy", "psycopg", "pydantic", "scipy", "sqlalchemy", "starlette", "uvicorn")
FREE_BYTES = 1_000_000_000
CLOCK_SECONDS = 5.0


def check_installation(study: Study, study_file: Path, database: Database) -> Iterator[QualificationCheck]:
    """The checks that look and change nothing."""
    yield QualificationCheck("versions", "named in the report", _describe_versions(database), passed=True)
    check_servable(study)
    yield QualificationCheck(
        "study file", "is a study that can be served", f"{study_file}, title '{_title(study)}'", passed=True
    )
    yield _check_rights("rights on the study file", study_file)
    if database.is_sqlite:
        yield _check_rights("rights on the database file", Path(str(database.engine.url.database)))
    else:
        yield _check_role(database)
    version = databases.schema_version(database)
    needed = databases.newest_schema_version()
    shown = "empty" if version is None else f"schema version {version}"
    yield QualificationCheck("schema", f"empty, or schema version {needed}", shown, passed=version in (None, needed))
    yield _check_disk(database)
    yield _check_clock(database)


def _title(study: Study) -> str:
    return "" if study.trial is None else study.trial.title


def _describe_versions(database: Database) -> str:
    with database.autocommit() as connection:
        query = "SELECT sqlite_version()" if database.is_sqlite else "SHOW server_version"
        server = f"{connection.dialect.name} {connection.exec_driver_sql(query).scalar()}"
    installed = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return f"surefoot {__version__}, Python {platform.python_version()}, {platform.platform()}, {server}, {installed}"


def _check_rights(name: str, path: Path) -> QualificationCheck:
    mode = stat.S_IMODE(path.stat().st_mode)
    return QualificationCheck(name, "others may neither read nor write", f"{path}: {mode:o}", passed=not mode & 0o007)


def _check_role(database: Database) -> QualificationCheck:
    with database.autocommit() as connection:
        above = connection.exec_driver_sql("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").scalar()
    shown = "a superuser" if above else "not a superuser"
    return QualificationCheck("rights in the database", "the service's role is not a superuser", shown, passed=not above)


def _check_disk(database: Database) -> QualificationCheck:
    folder = Path(str(database.engine.url.database)).resolve().parent if database.is_sqlite else Path.cwd()
    free = shutil.disk_usage(folder).free
    return QualificationCheck("disk", "1 GB or more is free", f"{folder}: {free / 1e9:.1f} GB", passed=free >= FREE_BYTES)


def _check_clock(database: Database) -> QualificationCheck:
    wanted = f"not simulated, within {CLOCK_SECONDS:g} s of the database's clock"
    if os.environ.get(clock.VARIABLE):
        return QualificationCheck("clock", wanted, f"{clock.VARIABLE} is set", passed=False)
    with database.autocommit() as connection:
        query = "SELECT unixepoch('now')" if database.is_sqlite else "SELECT extract(epoch FROM clock_timestamp())"
        database_time = float(connection.execute(sa.text(query)).scalar() or 0.0)
    apart = abs(datetime.now(UTC).timestamp() - database_time)
    return QualificationCheck("clock", wanted, f"{apart:.1f} s apart", passed=apart <= CLOCK_SECONDS)


@contextmanager
def scratch_url(url: str) -> Iterator[str]:
    """The URL of an empty place beside the trial: of SQLite a file in the same folder, of PostgreSQL a schema."""
    name = f"surefoot_qualification_{secrets.token_hex(4)}"
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        path = Path(str(parsed.database)).resolve().parent / f"{name}.db"
        try:
            yield f"sqlite:///{path}"
        finally:
            for file in path.parent.glob(f"{name}.db*"):
                file.unlink()
        return
    given = databases.connect(url)
    with given.engine.begin() as connection:
        connection.execute(sa.schema.CreateSchema(name))
    try:
        options = f"-c search_path={name}"
        yield parsed.update_query_dict({"options": options}).render_as_string(hide_password=False)
    finally:
        with given.engine.begin() as connection:
            connection.execute(sa.schema.DropSchema(name, cascade=True))
        given.close()


@contextmanager
def scratch_trial(study: Study, url: str) -> Iterator[Trial]:
    """A new trial of the study in a scratch place."""
    with scratch_url(url) as scratch:
        trial = open_trial(study, scratch)
        try:
            yield trial
        finally:
            trial.close()


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


@dataclass(frozen=True)
class Qualification:
    """What an installation showed."""

    title: str
    host: str
    database: str
    study_hash: str
    at: datetime
    installation: list[QualificationCheck]
    operation: list[QualificationCheck]

    @property
    def passed(self) -> bool:
        return all(check.passed for check in (*self.installation, *self.operation))


def qualify(study_file: Path, url: str) -> Qualification:
    """Run every check; the trial's own tables are only looked at."""
    study = Study.load(study_file)
    database = databases.connect(url, create=False)
    try:
        installation = list(check_installation(study, study_file, database))
        with scratch_trial(study, url) as trial:
            study_hash = trial.study_id
            title = trial.settings.title
            operation = list(check_operation(trial, url))
        name = database.name
    finally:
        database.close()
    return Qualification(title, socket.gethostname(), name, study_hash, now(), installation, operation)


def write_report(qualification: Qualification, folder: Path) -> tuple[Path, Path]:
    """`qualification.html` and `qualification.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / "qualification.html"
    data = folder / "qualification.json"
    with atomic_write(page) as temporary:
        text = render(
            "qualification.html", package="surefoot.service.operations", title="Qualification", qualification=qualification
        )
        temporary.write_text(text, encoding="utf-8")
    with atomic_write(data) as temporary:
        content = {**asdict(qualification), "at": qualification.at.isoformat(), "passed": qualification.passed}
        temporary.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return page, data
