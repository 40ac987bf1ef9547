"""Qualification: checks of an installation, and a scratch trial in which every promise that can be tried is tried."""

import json
import os
import platform
import secrets
import shutil
import socket
import stat
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import make_url

from surefoot.atomic_files import write_texts
from surefoot.data.column_kinds import VariableKind
from surefoot.reports.render import render
from surefoot.service.access import create_key, find_caller, revoke_key
from surefoot.service.database import clock, databases
from surefoot.service.database.clock import now
from surefoot.service.database.databases import Database
from surefoot.service.database.schema import decisions, staff_actions
from surefoot.service.operations.backup import ENCRYPTED, back_up, restore, write_erasure_list
from surefoot.service.operations.nightly_backup import list_backups
from surefoot.service.trial.api_models import ApiError, DecisionRequest, Outcome
from surefoot.service.trial.decisions import decide, record_outcomes
from surefoot.service.trial.participants import (
    WITHDRAWN,
    ask_erasure,
    confirm_erasure,
    find_statuses,
    register_participant,
    set_pause,
)
from surefoot.service.trial.trial import Trial, check_servable, open_trial
from surefoot.service.trial.verification import replay, verify
from surefoot.service.updates.updates import begin_update, run_update
from surefoot.study import Study
from surefoot.version import __version__

PACKAGES = ("fastapi", "numpy", "psycopg", "pydantic", "scipy", "sqlalchemy", "starlette", "uvicorn")
FREE_BYTES = 1_000_000_000
CLOCK_SECONDS = 5.0
PEOPLE = ("qualification-1", "qualification-2")
AT_ONCE = 20
Answers = list[dict[str, Any]]
Observation = tuple[str, bool]
"""What a check observed, and whether it passed."""


@dataclass(frozen=True)
class QualificationCheck:
    """One line of the report."""

    name: str
    wanted: str
    observed: str
    passed: bool


@dataclass(frozen=True)
class Requirement:
    """What a trial relies on, the checks that show it, and their result."""

    number: int
    words: str
    checks: Sequence[str] = ()
    untried: str = ""
    """What the checks do not show of it."""
    by_hand: str = ""
    """What a person has to look at."""
    result: str = ""


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

    @property
    def requirements(self) -> list[Requirement]:
        """Every requirement with the checks that ran for it; rights depend on the kind of database."""
        passed = {check.name: check.passed for check in (*self.installation, *self.operation)}
        return [_judge_requirement(requirement, passed) for requirement in load_requirements()]


def load_requirements() -> list[Requirement]:
    """The numbered requirements, without results."""
    text = files("surefoot.service.operations").joinpath("templates/requirements.toml").read_text(encoding="utf-8")
    return [Requirement(**words) for words in tomllib.loads(text)["requirements"]]


def _judge_requirement(requirement: Requirement, passed: dict[str, bool]) -> Requirement:
    checks = [name for name in requirement.checks if name in passed]
    if not checks:
        result = "by hand" if requirement.by_hand else "not tried here"
    else:
        result = "passed" if all(passed[name] for name in checks) else "FAILED"
    return replace(requirement, checks=checks, result=result)


def qualify(study_file: Path, url: str) -> Qualification:
    """Run every check; the trial's own tables are only looked at."""
    study = Study.load(study_file)
    with closing(databases.connect(url, create=False)) as database:
        installation = check_installation(study, study_file, database)
        with scratch_url(url) as scratch, closing(open_trial(study, scratch)) as trial:
            operation = list(check_operation(trial))
        return Qualification(
            trial.settings.title, socket.gethostname(), database.name, trial.study_id, now(), installation, operation
        )


def write_report(qualification: Qualification, folder: Path) -> tuple[Path, Path]:
    """`qualification.html` and `qualification.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / "qualification.html"
    data = folder / "qualification.json"
    package = "surefoot.service.operations"
    text = render("qualification.html", package=package, title="Qualification", qualification=qualification)
    content = {
        **asdict(qualification),
        "at": qualification.at.isoformat(),
        "passed": qualification.passed,
        "requirements": [asdict(requirement) for requirement in qualification.requirements],
    }
    write_texts({page: text, data: json.dumps(content, indent=2, ensure_ascii=False) + "\n"})
    return page, data


def check_installation(study: Study, study_file: Path, database: Database) -> list[QualificationCheck]:
    """The checks that look and change nothing."""
    check_servable(study)
    with database.autocommit() as connection:

        def ask(sqlite_query: str, postgresql_query: str) -> Any:
            return connection.exec_driver_sql(sqlite_query if database.is_sqlite else postgresql_query).scalar()

        server = f"{connection.dialect.name} {ask('SELECT sqlite_version()', 'SHOW server_version')}"
        above = ask("SELECT 0", "SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
        database_time = float(ask("SELECT unixepoch('now')", "SELECT extract(epoch FROM clock_timestamp())"))
        apart = abs(datetime.now().timestamp() - database_time)
    installed = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    versions = f"surefoot {__version__}, Python {platform.python_version()}, {platform.platform()}, {server}, {installed}"
    title = "" if study.trial is None else study.trial.title
    file = Path(str(database.engine.url.database)).resolve()
    shown = "a superuser" if above else "not a superuser"
    role = QualificationCheck("rights in the database", "the service's role is not a superuser", shown, not above)
    schema = databases.schema_version(database)
    needed = databases.newest_schema_version()
    shown_schema = "empty" if schema is None else f"schema version {schema}"
    folder = file.parent if database.is_sqlite else Path.cwd()
    free = shutil.disk_usage(folder).free
    simulated = bool(os.environ.get(clock.VARIABLE))
    wanted_clock = f"not simulated, within {CLOCK_SECONDS:g} s of the database's clock"
    shown_clock = f"{clock.VARIABLE} is set" if simulated else f"{apart:.1f} s apart"
    return [
        QualificationCheck("versions", "named in the report", versions, passed=True),
        QualificationCheck("study file", "is a study that can be served", f"{study_file}, title '{title}'", passed=True),
        _check_rights("study file", study_file),
        _check_rights("database file", file) if database.is_sqlite else role,
        QualificationCheck("schema", f"empty, or schema version {needed}", shown_schema, schema in (None, needed)),
        QualificationCheck("disk", "1 GB or more is free", f"{folder}: {free / 1e9:.1f} GB", free >= FREE_BYTES),
        QualificationCheck("clock", wanted_clock, shown_clock, not simulated and apart <= CLOCK_SECONDS),
    ]


def _check_rights(name: str, path: Path) -> QualificationCheck:
    mode = stat.S_IMODE(path.stat().st_mode)
    return QualificationCheck(
        f"rights on the {name}", "others may neither read nor write", f"{path}: {mode:o}", not mode & 0o007
    )


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
    with closing(databases.connect(url)) as given:
        with given.engine.begin() as connection:
            connection.execute(sa.schema.CreateSchema(name))
        try:
            options = f"-c search_path={name}"
            yield parsed.update_query_dict({"options": options}).render_as_string(hide_password=False)
        finally:
            with given.engine.begin() as connection:
                connection.execute(sa.schema.DropSchema(name, cascade=True))


def check_operation(trial: Trial) -> Iterator[QualificationCheck]:
    """The checks that need a trial; all of it happens in the scratch trial. A check that breaks has failed."""
    answers = list(_run_days(trial))
    checks = (
        ("decisions and limits", "every probability within the study's limits; unavailable: nothing", _check_limits),
        ("retries", "one draw, the same bytes; another request for it is refused", _check_retries),
        ("outcomes", "recorded, repeated, before_decision", _check_outcomes),
        ("echoed probability", "compared with the recorded one, and a difference is named", _check_echo),
        ("fallback", "decides where the context is empty, with the study's probability", _check_fallback),
        ("pause", "unavailable, with the reason and the staff action on record", _check_pause),
        ("order", "a decision point that was skipped is refused as out_of_order", _check_order),
        ("update", "ends as done, waiting or refused", _check_update),
        ("replay and ledger", "no difference", _check_record),
        ("append-only", "the database refuses to change a decision", _check_append_only),
        ("keys", "good for their role until they are revoked", _check_keys),
        ("time limits", "the database ends waiting as the service asks", _check_time_limits),
        ("durability", "what is committed is on the disk when the power fails", _check_durability),
        # Before the backup, so that the restore meets content that was erased.
        ("erasure", "content goes; the rest replays", _check_erasure),
        ("backup and restore", "every row comes back and replays; erased stays erased", _check_backup),
        ("restore drill", "the newest nightly backup restores and replays", _check_drill),
    )
    for name, wanted, check in checks:
        try:
            yield QualificationCheck(name, wanted, *check(trial, answers))
        except Exception as error:
            yield QualificationCheck(name, "ends without an error", f"{type(error).__name__}: {error}", passed=False)


def _run_days(trial: Trial) -> Iterator[dict[str, Any]]:
    """Decisions of two participants, enough of each for a policy, with the outcome that each of them has."""
    rng = np.random.default_rng(0)
    step = max(timedelta(hours=1), trial.settings.decision_gap)
    points = trial.settings.warm_up_decision_points + 10
    begin = now() - (points + 2) * step
    # Nothing was sent to a newcomer, so that no limit on prompts makes the decision point with an empty context unavailable.
    newcomer = (PEOPLE[1], 0)
    limits = trial.study.outcome.range
    for person in PEOPLE:
        register_participant(trial.database, person)
        for index in range(points):
            request = _make_request(trial, rng, person, index, begin + index * step)
            if (person, index) == newcomer:
                request = request.model_copy(update={"context": {}})
            answer = {**json.loads(decide(trial, request)), "request": request}
            # Not negative where the study gives no range, so that it has a logarithm and a root.
            value = float(rng.uniform(*limits) if limits else rng.exponential())
            _send_outcome(trial, answer, value, request.timestamp)
            yield answer


def _send_outcome(trial: Trial, answer: dict[str, Any], value: float, moment: datetime) -> str:
    sent = Outcome(decision_id=answer["decision_id"], outcome=value, timestamp=moment)
    return str(record_outcomes(trial, [sent])[0]["status"])


def _make_request(trial: Trial, rng: np.random.Generator, person: str, index: int, moment: datetime) -> DecisionRequest:
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


def _check_limits(trial: Trial, answers: Answers) -> Observation:
    limits = trial.study.probability_limits
    wrong = 0
    for answer in answers:
        send = sum(answer["action_prob"][1:])
        if answer["source"] == "unavailable":
            wrong += answer["action"] != 0 or send > 0
        else:
            wrong += not limits.minimum - 1e-12 <= send <= limits.maximum + 1e-12
    return f"{len(answers)} decisions, {wrong} outside", not wrong


def _check_retries(trial: Trial, answers: Answers) -> Observation:
    request = _make_request(trial, np.random.default_rng(1), PEOPLE[0], len(answers), now())
    with ThreadPoolExecutor(AT_ONCE) as pool:
        replies = set(pool.map(lambda _: decide(trial, request), range(AT_ONCE)))
    refused = False
    try:
        decide(trial, request.model_copy(update={"timestamp": request.timestamp + timedelta(seconds=1)}))
    except ApiError as error:
        refused = error.status_code == 409
    shown = f"{AT_ONCE} requests at once: {len(replies)} answer(s); another request: {'refused' if refused else 'answered'}"
    return shown, len(replies) == 1 and refused


def _check_outcomes(trial: Trial, answers: Answers) -> Observation:
    moment = answers[0]["request"].timestamp
    moments = (moment, moment, moment - timedelta(days=400))
    statuses = [_send_outcome(trial, answers[0], 1.0, observed) for observed in moments]
    return ", ".join(statuses), statuses == ["recorded", "repeated", "before_decision"]


def _check_echo(trial: Trial, answers: Answers) -> Observation:
    recorded = answers[0]["action_prob"][answers[0]["action"]]
    moment = answers[0]["request"].timestamp
    echoes = [
        Outcome(decision_id=answers[0]["decision_id"], outcome=1.0, timestamp=moment, action_prob=probability)
        for probability in (recorded, recorded / 2)
    ]
    agrees = [receipt["action_prob_agrees"] for receipt in record_outcomes(trial, echoes)]
    return f"recorded probability: agrees {agrees[0]}; half of it: agrees {agrees[1]}", agrees == [True, False]


def _check_fallback(trial: Trial, answers: Answers) -> Observation:
    answer = next(answer for answer in answers if not answer["request"].context)
    send = sum(answer["action_prob"][1:])
    passed = answer["source"] == "fallback" and abs(send - trial.settings.fallback_probability) < 1e-12
    return f"empty context: {answer['source']}, sends with probability {send:g}", passed


def _ask_again(trial: Trial, answers: Answers, skipped: int) -> dict[str, Any]:
    """The second participant asks, available, an hour after the last decision point or later."""
    last = answers[-1]["request"]
    step = max(timedelta(hours=1), trial.settings.decision_gap)
    request = _make_request(
        trial, np.random.default_rng(2), PEOPLE[1], last.decision_idx + 1 + skipped, last.timestamp + step
    )
    reply: dict[str, Any] = json.loads(decide(trial, request.model_copy(update={"availability": True, "reasons": []})))
    return reply


def _check_pause(trial: Trial, answers: Answers) -> Observation:
    set_pause(trial, PEOPLE[1], paused=True, reason="qualification", by="qualification")
    answer = _ask_again(trial, answers, skipped=1)
    set_pause(trial, PEOPLE[1], paused=False, reason="qualification", by="qualification")
    with trial.database.autocommit() as connection:
        reasons = connection.scalar(sa.select(decisions.c.fallback_reasons).where(decisions.c.id == answer["decision_id"]))
        on_record = sa.select(staff_actions.c.action).where(staff_actions.c.subject == PEOPLE[1])
        actions = list(connection.scalars(on_record.order_by(staff_actions.c.id)))
    shown = f"{answer['source']}, reasons {reasons}; staff actions: {', '.join(actions)}"
    complete = "paused: the participant" in str(reasons) and actions == ["paused", "resumed"]
    return shown, answer["source"] == "unavailable" and answer["action"] == 0 and complete


def _check_order(trial: Trial, answers: Answers) -> Observation:
    """After the check of a pause, which skipped a decision point."""
    try:
        _ask_again(trial, answers, skipped=0)
    except ApiError as error:
        return f"{error.status_code} {error.code}", (error.status_code, error.code) == (409, "out_of_order")
    return "answered", False


def _check_update(trial: Trial, _: Answers) -> Observation:
    state = run_update(trial, begin_update(trial, "qualification"))
    return state, state in ("done", "waiting", "refused")


def _check_record(trial: Trial, _: Answers) -> Observation:
    replayed = replay(trial.database)
    verified = verify(trial.database)
    shown = (
        f"{replayed.decisions} decisions replayed, {len(replayed.differences)} differences; "
        f"{verified.blocks} blocks of the ledger, {len(verified.discrepancies)} discrepancies"
    )
    return shown, not replayed.differences and not verified.discrepancies


def _check_append_only(trial: Trial, _: Answers) -> Observation:
    try:
        with trial.database.transaction() as connection:
            connection.execute(sa.update(decisions).values(action=0))
    except sa.exc.DBAPIError as error:
        refused = "append-only" in str(error.orig)
        return "refused" if refused else type(error.orig).__name__, refused
    return "the database changed a decision", False


def _check_keys(trial: Trial, _: Answers) -> Observation:
    key = create_key(trial.database, "app", "qualification")
    good = find_caller(trial.database, key)
    revoke_key(trial.database, key)
    gone = find_caller(trial.database, key) is None and find_caller(trial.database, key[:-1] + "x") is None
    passed = good is not None and not good.may("admin") and gone
    return "as wanted" if passed else "not so", passed


def _check_time_limits(trial: Trial, _: Answers) -> Observation:
    if trial.database.is_sqlite:
        wanted = {"busy_timeout": str(1000 * databases.BUSY_SECONDS)}
    else:
        from surefoot.service.database.postgresql import SILENT_SECONDS, STATEMENT_SECONDS

        wanted = {"statement_timeout": f"{STATEMENT_SECONDS}s", "idle_in_transaction_session_timeout": f"{SILENT_SECONDS}s"}
    return _compare_settings(trial.database, wanted)


def _check_durability(trial: Trial, _: Answers) -> Observation:
    if trial.database.is_sqlite:
        return _compare_settings(trial.database, {"journal_mode": "wal", "synchronous": "2"})
    return _compare_settings(trial.database, dict.fromkeys(("synchronous_commit", "fsync", "full_page_writes"), "on"))


def _compare_settings(database: Database, wanted: dict[str, str]) -> Observation:
    """The settings of a connection of the service."""
    way = "PRAGMA" if database.is_sqlite else "SHOW"
    with database.autocommit() as connection:
        settings = {name: str(connection.exec_driver_sql(f"{way} {name}").scalar()) for name in wanted}
    shown = [
        f"{name} = {settings[name]}" + ("" if settings[name] == wanted[name] else f", not {wanted[name]}") for name in wanted
    ]
    return "; ".join(shown), settings == wanted


def _check_erasure(trial: Trial, _: Answers) -> Observation:
    request = ask_erasure(trial.database, PEOPLE[1], reason="qualification", by="qualification")
    erased = confirm_erasure(trial.database, PEOPLE[1], request.code, by="qualification")
    differences = _count_differences(trial.database)
    shown = f"{erased.decisions} decisions and {erased.outcomes} outcomes erased, {differences} differences"
    complete = (erased.decisions, erased.outcomes) == (request.decisions, request.outcomes) and erased.decisions > 0
    return shown, complete and not differences


def _check_backup(trial: Trial, _: Answers) -> Observation:
    """With somebody who was erased before the backup, and somebody who is erased after it."""
    settings = trial.settings.backup
    encrypted = settings.folder is not None and settings.encrypted
    with tempfile.TemporaryDirectory() as folder, scratch_url(trial.database.url) as copy_url:
        path = Path(folder) / f"qualification.zip{ENCRYPTED if encrypted else ''}"
        counts = back_up(trial.database, path)
        request = ask_erasure(trial.database, PEOPLE[0], reason="qualification", by="qualification")
        confirm_erasure(trial.database, PEOPLE[0], request.code, by="qualification")
        write_erasure_list(trial.database, Path(folder))
        with closing(databases.connect(copy_url)) as copy:
            restored = restore(path, copy, by="qualification", expired="keep").rows
            differences = _count_differences(copy)
            with copy.autocommit() as connection:
                held = connection.scalar(sa.select(sa.func.count()).where(decisions.c.salt.is_not(None)))
                statuses = find_statuses(connection, PEOPLE)
    stay = not held and set(statuses.values()) == {WITHDRAWN}
    shown = f"{restored['decisions']} of {counts['decisions']} decisions restored, {differences} differences; "
    shown += "who was erased stays erased" if stay else "somebody who was erased came back"
    return shown + (", encrypted" if encrypted else ""), restored == counts and not differences and stay


def _check_drill(trial: Trial, _: Answers) -> Observation:
    """Restore the newest nightly backup of the trial itself, beside it, and replay it."""
    folder = trial.settings.backup.folder
    if folder is None:
        return "the study has no [trial.backup]: restore the backups that you make by hand", True
    backups = list_backups(Path(folder))
    if not backups:
        return f"{folder} holds no nightly backup yet", True
    with scratch_url(trial.database.url) as copy_url, closing(databases.connect(copy_url)) as copy:
        restored = restore(backups[0], copy, by="qualification", expired="keep").rows
        differences = _count_differences(copy)
    return f"{backups[0].name}: {restored['decisions']} decisions restored, {differences} differences", not differences


def _count_differences(database: Database) -> int:
    """What replay and the ledger find."""
    return len(replay(database).differences) + len(verify(database).discrepancies)
