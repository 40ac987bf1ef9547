"""Running a trial: `surefoot serve`, `update`, `policies`, `keys`, `alerts` and `qualify`."""

import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from surefoot.cli.application import STUDY, app
from surefoot.errors import InputError

if TYPE_CHECKING:
    from surefoot.service.database.databases import Database
    from surefoot.service.trial.trial import Trial

TrialStudy = Annotated[Path, typer.Option("--study", help="The study file, with a [trial] section.")]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database",
        envvar="SUREFOOT_DATABASE",
        show_envvar=True,
        help="sqlite:///trial.db or postgresql://user@host/trial; by default surefoot.db in this folder.",
    ),
]
CLIENT = "surefoot_demo_client.py"
"""The script that --demo writes."""
policies = typer.Typer(no_args_is_help=True, help="Policy versions of a trial.")
keys = typer.Typer(no_args_is_help=True, help="API keys of the decision service.")
alerts = typer.Typer(no_args_is_help=True, help="Messages to the trial team.")
app.add_typer(policies, name="policies")
app.add_typer(keys, name="keys")
app.add_typer(alerts, name="alerts")


def need_service() -> None:
    """Refuse with one line where the extra is not installed."""
    for module in ("fastapi", "uvicorn", "sqlalchemy", "alembic"):
        if find_spec(module) is None:
            raise InputError(f"the decision service needs {module}; install it with: pip install 'surefoot[service]'")


def open_database(url: str | None, *, any_schema: bool = False) -> "Database":
    """The existing database of a trial; only `serve` and `restore` make one."""
    need_service()
    from surefoot.service.database import databases

    database = databases.connect(url, create=False)
    typer.echo(f"surefoot: using {database.name}", err=True)
    if not any_schema or databases.schema_version(database) is None:
        databases.prepare(database, create=False)
    return database


def open_trial(study: Path, url: str | None) -> "Trial":
    """The trial of a study file, in an existing database."""
    from surefoot.study import Study

    loaded = Study.load(study)
    database = open_database(url)
    database.close()
    from surefoot.service.trial import trial

    return trial.open_trial(loaded, database.url)


@contextmanager
def open_sandbox(study: Path, *, demo: bool) -> Iterator[tuple[Path, str]]:
    """The study, with `demo` that of `surefoot demo`, and the URL of a database that is deleted at the end."""
    from surefoot.datasets import demo_trial
    from surefoot.service.trial.trial import SANDBOX

    os.environ[SANDBOX] = "1"
    with tempfile.TemporaryDirectory(prefix="surefoot-sandbox-") as folder:
        if demo:
            study = Path(folder) / "study.toml"
            study.write_text(demo_trial.study_text(), encoding="utf-8")
            script = files("surefoot.client").joinpath("demo.py").read_text(encoding="utf-8")
            (Path(folder) / CLIENT).write_text(script, encoding="utf-8")
        yield study, f"sqlite:///{folder}/sandbox.db"


def print_sandbox_guide(trial: "Trial", address: str, client: Path) -> None:
    """Print where the dashboard is, keys, and requests to paste."""
    from surefoot.service.access import create_key
    from surefoot.service.api.description import make_examples, write_curl
    from surefoot.service.database import clock
    from surefoot.service.trial.participants import register_participant

    app_key, admin_key = (create_key(trial.database, role, "sandbox") for role in ("app", "admin"))
    request = make_examples(trial.study)["/api/v1/decisions"]["request"] | {"timestamp": clock.now().isoformat()}
    register_participant(trial.database, request["participant_id"])
    typer.echo(f"""This is a sandbox, not a trial: everything is forgotten when it stops (Ctrl+C).

Dashboard    {address}/sign-in
  admin key  {admin_key}
The API      {address}/docs

Paste into a second terminal, to ask for a decision as an app does:

export SUREFOOT_URL={address}
export SUREFOOT_KEY={app_key}
{write_curl("POST", "/api/v1/decisions", {"security": []}, request)}
""")
    if client.is_file():
        typer.echo(f"""Then let ten people take part for three days:

{"" if find_spec("httpx2") else "pip install 'surefoot[client]'" + chr(10)}{shlex.join([sys.executable, str(client)])}

Press "Update now" on the dashboard's page Updates and run the script again: now the policy decides.
""")


@app.command()
def serve(
    study: TrialStudy = STUDY,
    database: DatabaseUrl = None,
    host: Annotated[str, typer.Option(help="Address to listen at; keep it local behind a reverse proxy.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, help="Processes that answer requests.")] = 1,
    log_format: Annotated[Literal["text", "json"], typer.Option(help="Format of the log on standard error.")] = "text",
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], typer.Option(help="Least severe level that is logged.")
    ] = "info",
    sandbox: Annotated[
        bool,
        typer.Option("--sandbox", help="Test an app: a temporary database, deleted when the service stops; prints keys."),
    ] = False,
    demo: Annotated[bool, typer.Option("--demo", help="A sandbox with a ready study and a client script to run.")] = False,
    studies: Annotated[
        Path | None, typer.Option(help="Serve several studies: a list of study files and databases, instead of --study.")
    ] = None,
) -> None:
    """Run the decision service of a trial: it randomises, records, and learns each night."""
    need_service()
    if (sandbox or demo) and studies is not None:
        raise InputError("a sandbox serves one study; leave out --studies")
    if demo and study != STUDY:
        raise InputError("--demo has a study of its own; write --sandbox to try yours")
    # uvicorn stops at SIGTERM and then raises it once more, which would end this process without cleaning up.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with tempfile.TemporaryDirectory(prefix="surefoot-metrics-") as folder:
        # Workers count requests in files there; prometheus-client reads the variable when it is imported.
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        try:
            opened = open_sandbox(study, demo=demo) if sandbox or demo else nullcontext((study, database))
            with opened as (served, url):
                factory = check_study(served, url, f"http://{host}:{port}") if studies is None else check_studies(studies)
                from surefoot.service.server import listen

                listen(factory, host, port, workers, log_format=log_format, log_level=log_level)
        finally:
            # The folder goes: nothing that this process does later may count there.
            del os.environ["PROMETHEUS_MULTIPROC_DIR"]


def check_studies(path: Path) -> str:
    """Open the trials of a list of studies once, so that mistakes are one line; the factory of the workers' application."""
    from surefoot.service.studies import VARIABLE, open_trials
    from surefoot.service.trial.trial import check_servable

    for name, trial in open_trials(path).items():
        check_servable(trial.study)
        typer.echo(f"surefoot: /studies/{name}/ uses {trial.database.name}", err=True)
        trial.close()
    os.environ[VARIABLE] = str(path.resolve())
    return "surefoot.service.studies:from_environment"


def check_study(study: Path, database: str | None, address: str) -> str:
    """Open the trial once, so that mistakes are one line; the factory of the workers' application."""
    from surefoot.service.database import clock
    from surefoot.service.database.databases import DEFAULT_URL
    from surefoot.service.trial.trial import check_servable, is_sandbox, open_trial
    from surefoot.study import Study

    url = database or DEFAULT_URL
    if clock.read_simulated_time() is not None:
        typer.echo(f"surefoot: {clock.VARIABLE} sets the clock: this is a simulation, not a trial", err=True)
    # Opened here first: mistakes are one line, and the tables exist before several workers start.
    loaded = Study.load(study)
    check_servable(loaded)
    trial = open_trial(loaded, url)
    typer.echo(f"surefoot: using {trial.database.name}", err=True)
    if is_sandbox():
        print_sandbox_guide(trial, address, study.parent / CLIENT)
    trial.close()
    os.environ["SUREFOOT_STUDY"] = str(study.resolve())
    os.environ["SUREFOOT_DATABASE"] = url
    return "surefoot.service.app:from_environment"


@app.command()
def update(study: TrialStudy = STUDY, database: DatabaseUrl = None) -> None:
    """Learn a new policy from all outcomes so far and check it. It becomes live unless activation is manual."""
    trial = open_trial(study, database)
    from surefoot.service.access import name_operator
    from surefoot.service.updates import updates
    from surefoot.service.updates.updates import update_status

    update_id = updates.begin_update(trial, name_operator(), by_staff=True)
    state = updates.run_update(trial, update_id)
    status = update_status(trial, update_id)
    typer.echo(f"update {update_id}: {state}" + (f" ({status['message']})" if status["message"] else ""))
    for finding in status["findings"]:
        typer.echo(f"  {'passed ' if finding['passed'] else 'REFUSED'}  {finding['check']}: {finding['message']}")
    if status["policy_id"] is not None:
        live = trial.policies.live()
        fate = "is kept; an admin activates it" if state == "done" else "is kept, not live"
        if live is not None and live[0] == status["policy_id"]:
            fate = "is live"
        typer.echo(f"  policy {status['policy_id']} {fate}")
    if state in ("failed", "refused"):
        raise typer.Exit(1)


@policies.command("load")
def load_policies(
    folder: Annotated[Path, typer.Argument(help="The folder that surefoot fit wrote.")],
    study: TrialStudy = STUDY,
    database: DatabaseUrl = None,
) -> None:
    """Start from a pilot: its fit becomes policy version 1. It must have the states and actions of the study."""
    trial = open_trial(study, database)
    from surefoot.service.access import name_operator
    from surefoot.service.updates.updates import load_pilot_policies

    policy_id, loaded = load_pilot_policies(trial, folder, name_operator())
    others = "and anybody else" if loaded.serves_anybody else "(others stay in warm-up)"
    whom = "everyone" if loaded.participants is None else f"{len(loaded.participants):,} participants {others}"
    state = "is live" if trial.policies.live() else "waits for an admin to activate it"
    typer.echo(f"policy {policy_id} for {whom} {state}")


@keys.command("create")
def create_key(
    role: Annotated[str, typer.Option(help="app, analyst, coordinator, monitor or admin.")],
    label: Annotated[str, typer.Option(help="A label to recognise the key later.")] = "",
    days: Annotated[float | None, typer.Option(help="Days until it expires; by default the study's key_days.")] = None,
    database: DatabaseUrl = None,
) -> None:
    """Make a key and print it. It cannot be read again later."""
    opened = open_database(database)
    from surefoot.service.access import create_key, name_operator
    from surefoot.service.trial.trial import read_newest_settings

    with opened.autocommit() as connection:
        valid_days = read_newest_settings(connection).key_days if days is None else days
    typer.echo(create_key(opened, role, label, days=valid_days, by=name_operator()))


@keys.command("list")
def list_keys(database: DatabaseUrl = None) -> None:
    """List all keys without their secrets."""
    opened = open_database(database)
    from surefoot.service.access import list_keys

    for key in list_keys(opened):
        typer.echo(f"{key['prefix']}  {key['role']:<11}  {key['created_at']:%Y-%m-%d}  {_describe_end(key)}  {key['label']}")


def _describe_end(key: dict[str, Any]) -> str:
    from surefoot.service.database.clock import now

    if key["revoked_at"]:
        return f"revoked {key['revoked_at']:%Y-%m-%d %H:%M} UTC"
    if key["expires_at"] is None:
        return "valid"
    return f"{'expired' if key['expires_at'] <= now() else 'valid until'} {key['expires_at']:%Y-%m-%d}"


@keys.command("revoke")
def revoke_key(
    prefix: Annotated[str, typer.Argument(help="The prefix that `surefoot keys list` shows.")], database: DatabaseUrl = None
) -> None:
    """Revoke a key: within a second every worker refuses it."""
    opened = open_database(database)
    from surefoot.service.access import name_operator, revoke_key

    revoke_key(opened, prefix, by=name_operator())
    typer.echo(f"revoked {prefix}")


@alerts.command("test")
def send_test(study: TrialStudy = STUDY) -> None:
    """Send a test message by every channel of the study. The exit code is 1 if one fails."""
    need_service()
    from surefoot.service.database.clock import now
    from surefoot.service.messages import TEST, DeliveryError, Message, make_channels
    from surefoot.study import Study

    trial = Study.load(study).trial
    channels = [] if trial is None else make_channels(trial.alerts)
    if trial is None or not channels:
        raise InputError(f"{study}: [trial.alerts] names neither 'email' nor 'webhook'")
    message = Message(f"test-{now():%Y%m%d%H%M%S}", "test", "green", f"[{trial.title}] green: test", f"{TEST}\n")
    failed = False
    for channel in channels:
        try:
            channel.send(message)
        except DeliveryError as error:
            failed = True
            typer.echo(f"{channel.name}: not sent; {error}")
        else:
            typer.echo(f"{channel.name}: sent")
    if failed:
        raise typer.Exit(1)


@app.command()
def qualify(
    study: TrialStudy = STUDY,
    database: DatabaseUrl = None,
    out: Annotated[Path, typer.Option(help="Folder for the report: HTML to sign, and JSON.")] = Path("qualification"),
) -> None:
    """Test the service on this installation in a temporary trial. The exit code is 1 if a check fails."""
    need_service()
    from surefoot.service.database.databases import DEFAULT_URL
    from surefoot.service.operations import qualification

    outcome = qualification.qualify(study, database or DEFAULT_URL)
    for check in (*outcome.installation, *outcome.operation):
        typer.echo(f"{'passed' if check.passed else 'FAILED'}  {check.name}: {check.observed}")
    page, _ = qualification.write_report(outcome, out)
    typer.echo(f"{page}: {'every check passed' if outcome.passed else 'not every check passed'}")
    if not outcome.passed:
        raise typer.Exit(1)
