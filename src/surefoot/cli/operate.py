"""The records of a trial: `surefoot export`, `report`, `backup`, `restore`, `erase`, `seal`, `replay` and `db`."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from surefoot.atomic_files import atomic_write, refuse_unwritable, write_texts
from surefoot.cli.application import STUDY, app
from surefoot.cli.serve import DatabaseUrl, TrialStudy, need_service, open_database, open_trial
from surefoot.errors import InputError

if TYPE_CHECKING:
    from surefoot.service.database.databases import Database
    from surefoot.service.trial.verification import Seal

SHOWN_DIFFERENCES = 20
database_commands = typer.Typer(no_args_is_help=True, help="The decision service's database.")
app.add_typer(database_commands, name="db")


@app.command()
def export(
    out: Annotated[Path, typer.Argument(help="A .csv or .parquet file, or a folder for CSV.")] = Path("decisions.csv"),
    study: TrialStudy = STUDY,
    database: DatabaseUrl = None,
    outcomes: Annotated[bool, typer.Option("--outcomes", help="Every outcome ever sent, with corrections.")] = False,
    staff_actions: Annotated[bool, typer.Option("--staff-actions", help="Who did what, when and to whom.")] = False,
) -> None:
    """Write the decision points of a trial and the study file that describes them.

    Next to them it writes what each update learned from, the updates with their reasons, and the parameters of every policy
    version.
    """
    name = "staff-actions" if staff_actions else "outcomes" if outcomes else "decisions"
    if out.suffix not in (".csv", ".parquet"):
        if out.suffix and not out.is_dir():
            raise InputError(f"{out}: the export is a .csv or .parquet file, or a folder")
        with refuse_unwritable(out):
            out.mkdir(parents=True, exist_ok=True)
        out = out / f"{name}.csv"
    trial = open_trial(study, database)
    from surefoot.service.access import name_operator, record_action
    from surefoot.service.operations.export import EXPORTS, write_policies_text, write_study_text
    from surefoot.study.trial_updates import name_beside

    # The first file never knows of a decision that the second lacks, nor the second of a policy that the third lacks.
    files = {
        "learned": name_beside(out, "learned", out.suffix),
        name: out,
        "updates": name_beside(out, "updates", out.suffix),
    }
    for kind, path in files.items() if name == "decisions" else [(name, out)]:
        with atomic_write(path, private=True) as temporary:
            made = EXPORTS[kind](trial, temporary, path.suffix[1:])
            with trial.database.transaction() as connection:
                record_action(connection, name_operator(), "exported", f"{kind}{path.suffix}", f"{made.rows} rows")
        people = f", {made.participants:,} participants" if kind == "decisions" else ""
        typer.echo(f"{path}: {made.rows:,} rows{people}, SHA-256 {made.sha256}")
    if name == "decisions":
        study_file = name_beside(out, "study", ".toml")
        policy_file = name_beside(out, "policies", ".json")
        write_texts({study_file: write_study_text(trial), policy_file: write_policies_text(trial)}, private=True)
        typer.echo(f"{study_file}: the study, whose [collection] describes how the trial chose its actions")
        typer.echo(f"{policy_file}: the parameters of every policy version, and when it went live")


@app.command()
def backup(
    out: Annotated[Path, typer.Argument(help="A .zip file, or .zip.age, which is encrypted; it holds the study's secret.")],
    database: DatabaseUrl = None,
) -> None:
    """Write the whole trial to one file, with the list of erasures next to it. The service may be running.

    If the name ends with .age, the file is encrypted with the passphrase in SUREFOOT_BACKUP_PASSPHRASE. A database of an
    earlier release can be backed up too.
    """
    opened = open_database(database, any_schema=True)
    from surefoot.service.access import name_operator, record_action
    from surefoot.service.operations.backup import back_up, write_erasure_list
    from surefoot.service.trial.upkeep import BACKED_UP

    counts = back_up(opened, out)
    with opened.transaction() as connection:
        record_action(connection, name_operator(), BACKED_UP, out.name, f"{counts['decisions']} decisions")
    write_erasure_list(opened, out.parent)
    typer.echo(f"{out}: {counts['decisions']:,} decisions, {counts['outcomes']:,} outcomes")


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(help="The backup file.")],
    database: DatabaseUrl = None,
    expired: Annotated[
        Literal["erase", "keep"] | None,
        typer.Option(help="Content that keep_days erased after the backup: erase it again, or keep it."),
    ] = None,
) -> None:
    """Fill an empty database from a backup, repeat later erasures of participants, then replay all decisions."""
    need_service()
    from surefoot.service.access import name_operator
    from surefoot.service.database import databases
    from surefoot.service.operations import backup as backups

    opened = databases.connect(database)
    typer.echo(f"surefoot: using {opened.name}", err=True)
    restored = backups.restore(file, opened, by=name_operator(), expired=expired)
    typer.echo(f"restored {restored.rows['decisions']:,} decisions, {restored.rows['outcomes']:,} outcomes")
    if restored.erasure_list is None:
        typer.echo(f"surefoot: no {backups.ERASURE_LIST} next to {file}: data erased after the backup are back", err=True)
    if restored.erasure_list is not None or restored.erased.decisions:
        counts = f"{restored.erased.decisions:,} decisions, {restored.erased.outcomes:,} outcomes"
        typer.echo(f"{restored.erasure_list or 'keep_days'}: erased again {counts}")
    typer.echo("surefoot: repeat pauses that came after the backup, and what the list next to it does not name", err=True)
    if restored.rows["secrets"] and not _verify_trial(opened, []):
        raise typer.Exit(1)


@app.command()
def erase(
    participant: Annotated[str, typer.Argument(help="The participant's pseudonym.")],
    reason: Annotated[str | None, typer.Option(help="First step: the reason, which stays on record. Prints a code.")] = None,
    confirm: Annotated[str | None, typer.Option(help="Second step: the code. Erases for good.")] = None,
    backups: Annotated[list[Path] | None, typer.Option(help="Folders of backups, whose erasure lists are updated.")] = None,
    database: DatabaseUrl = None,
) -> None:
    """Erase a participant's contexts, states and outcomes. The record of the random draws stays complete."""
    if (reason is None) == (confirm is None):
        raise InputError("say why with --reason to get a code, then give it with --confirm")
    opened = open_database(database)
    from surefoot.service.access import name_operator
    from surefoot.service.operations.backup import write_erasure_list
    from surefoot.service.trial import participants

    if confirm is None:
        request = participants.ask_erasure(opened, participant, reason=(reason or "").strip()[:200], by=name_operator())
        counts = f"{request.decisions:,} decisions and {request.outcomes:,} outcomes"
        typer.echo(f"{participant}: {counts} would lose their content for good")
        command = f"surefoot erase {participant} --confirm {request.code}"
        typer.echo(f"to do it: {command} (until {request.until:%Y-%m-%d %H:%M} UTC)")
        return
    erased = participants.confirm_erasure(opened, participant, confirm, by=name_operator())
    typer.echo(f"{participant} is withdrawn; erased {erased.decisions:,} decisions and {erased.outcomes:,} outcomes")
    if erased.is_scrubbed:
        typer.echo("the database's files hold nothing of it any more")
    else:
        typer.echo(
            "a reader keeps SQLite's log (-wal), which may hold it, from being emptied; the service tries until it is"
        )
    for folder in backups or ():
        typer.echo(f"{write_erasure_list(opened, folder)}: restore applies it to every backup in this folder")
    if not backups:
        typer.echo("older backups still hold the data; the next surefoot backup writes the list that restore applies, "
                   "or name their folders with --backups")  # fmt: skip


@app.command()
def report(
    board: Annotated[bool, typer.Option("--board", help="The report for a meeting of a safety board.")] = False,
    checklist: Annotated[
        Literal["consort-ai", "tidier-jitai"] | None,
        typer.Option(help="A reporting checklist, filled from the records of the study; HTML and Markdown."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the report; by default `board` or `checklist`.")] = None,
    since: Annotated[
        datetime | None, typer.Option(help="The last meeting, in the study's time zone: counts since then are added.")
    ] = None,
    closed: Annotated[
        bool, typer.Option("--closed", help="Write the closed part, with outcomes by action, of a trial of the service.")
    ] = False,
    reason: Annotated[str, typer.Option(help="Why the closed part is needed; it stays on record.")] = "",
    logs: Annotated[Path | None, typer.Option(help="With --checklist: logs instead of a database of the service.")] = None,
    fit: Annotated[Path | None, typer.Option(help="With --logs: the folder that `surefoot fit` wrote.")] = None,
    protocol: Annotated[
        bool, typer.Option("--protocol", help="With --checklist: from the study file alone, before there are data.")
    ] = False,
    study: TrialStudy = STUDY,
    database: DatabaseUrl = None,
) -> None:
    """Write the report for a meeting of a safety board (--board), or a reporting checklist (--checklist)."""
    if board == (checklist is not None):
        raise InputError("say which report: --board or --checklist consort-ai")
    if closed != bool(reason.strip()):
        raise InputError("the closed part needs --closed and --reason; who asks for it and why stays on record")
    if checklist is not None:
        _write_checklist(checklist, out or Path("checklist"), study, database, logs, fit, protocol, reason.strip()[:200])
        return
    if logs is not None or fit is not None or protocol:
        raise InputError("--logs, --fit and --protocol belong to --checklist")
    trial = open_trial(study, database)
    from surefoot.service.access import name_operator
    from surefoot.service.operations.board import make_closed_report, make_open_report

    moment = None if since is None else since.replace(tzinfo=trial.settings.zone)
    if closed:
        made = make_closed_report(trial, moment, reason=reason.strip()[:200], by=name_operator())
    else:
        made = make_open_report(trial, moment)
    page = (out or Path("board")) / f"board-{made.part}.html"
    with refuse_unwritable(page.parent):
        page.parent.mkdir(parents=True, exist_ok=True)
    write_texts({page: made.to_html(), page.with_suffix(".json"): made.to_json()})
    typer.echo(f"{page}: the {made.part} part; the same numbers in {page.with_suffix('.json').name}")


def _write_checklist(
    name: str,
    out: Path,
    study_file: Path,
    database: str | None,
    logs: Path | None,
    fit: Path | None,
    protocol: bool,
    reason: str,
) -> None:
    from surefoot.checklists import collect_file_facts, load_checklist
    from surefoot.study import Study

    if (logs is not None or protocol) and reason:
        raise InputError("--closed and --reason are for the database of a service; logs are not blinded")
    if (fit is not None and logs is None) or (protocol and logs is not None):
        raise InputError("give --logs, with or without --fit, or --protocol, or neither for the database of a service")
    study = Study.load(study_file)
    if logs is not None or protocol:
        facts = collect_file_facts(study, study_file.name, logs, fit)
        given = [study_file.name, *(path.name for path in (logs, fit) if path is not None)]
        records = f"{' and '.join(given)}" if len(given) < 3 else f"{given[0]}, {given[1]} and {given[2]}"
    else:
        trial = open_trial(study_file, database)
        from surefoot.service.access import name_operator
        from surefoot.service.operations.trial_facts import collect_closed_facts, collect_trial_facts

        if reason:
            facts = collect_closed_facts(trial, study_file.name, reason=reason, by=name_operator())
        else:
            facts = collect_trial_facts(trial, study_file.name)
        records = f"{study_file.name} and the database of the service, {'closed' if reason else 'open'} part"
    title = facts["title"][0].statement if facts["title"] else "Study without a title"
    filled = load_checklist(name).fill(facts, study=title, records=records)
    page = out / f"{name}.html"
    with refuse_unwritable(out):
        out.mkdir(parents=True, exist_ok=True)
    write_texts({page: filled.to_html(), page.with_suffix(".md"): filled.to_markdown()})
    counts = ", ".join(f"{status}: {count}" for status, count in filled.count_statuses().items())
    typer.echo(f"{page} and {page.with_suffix('.md').name}: {counts}")


@app.command()
def seal(
    to: Annotated[str, typer.Argument(help="A file on another machine's disk, which gets a line, or an http(s) URL.")],
    database: DatabaseUrl = None,
) -> None:
    """Record the ledger's last hash outside the database. The exit code is 1 if an earlier seal no longer matches."""
    opened = open_database(database)
    from surefoot.service.access import name_operator
    from surefoot.service.operations.seals import put_seal

    new, broken = put_seal(opened, to, name_operator())
    typer.echo(f"{to}: block {new.position:,}, hash {new.hash}")
    for earlier in broken:
        block = f"block {earlier.position:,}"
        typer.echo(f"the seal of {earlier.words} ({block}) no longer matches: run surefoot replay --seal {to}")
    if broken:
        raise typer.Exit(1)


@app.command("replay")
def replay_decisions(
    database: DatabaseUrl = None,
    seal: Annotated[
        list[Path] | None, typer.Option("--seal", help="A file that surefoot seal wrote; may be repeated.")
    ] = None,
) -> None:
    """Recompute every draw and compare every row with the ledger. The exit code is 1 if something differs.

    With --seal, it also shows that nothing was changed, deleted, inserted or re-dated since the seal.
    """
    opened = open_database(database)
    from surefoot.service.trial.verification import read_seals

    if not _verify_trial(opened, [line for path in seal or () for line in read_seals(path)]):
        raise typer.Exit(1)


def _verify_trial(database: "Database", seals: "list[Seal]") -> bool:
    """Print the differences, with an alert to the team; whether there are none."""
    import sqlalchemy as sa

    from surefoot.service.database.clock import now
    from surefoot.service.database.schema_objects import find_schema_differences
    from surefoot.service.trial.alerts import count_alert
    from surefoot.service.trial.verification import replay, verify

    try:
        replayed = replay(database)
        checked = verify(database, seals)
    except sa.exc.DBAPIError:
        with database.snapshot() as connection:
            altered = list(find_schema_differences(connection))
        if not altered:
            raise
        for name, problem in altered:
            typer.echo(f"{name}: {problem}")
        typer.echo("Decisions cannot be replayed from these tables; restore a backup from before, and replay that")
        return False
    lines = [
        f"participant {decision.participant_id}, decision {decision.decision_idx}: {decision.check} differs "
        f"({decision.decision_id})"
        for decision in replayed.differences
    ]
    lines += [f"{discrepancy.subject}: {discrepancy.problem}" for discrepancy in checked.discrepancies]
    for line in lines[:SHOWN_DIFFERENCES]:
        typer.echo(line)
    if len(lines) > SHOWN_DIFFERENCES:
        typer.echo(f"… and {len(lines) - SHOWN_DIFFERENCES} more")
    typer.echo(f"{replayed.decisions:,} decisions replayed, {len(replayed.differences):,} differences")
    comparison = f", against {len(seals)} seal{'s' if len(seals) > 1 else ''}" if seals else "; no seal was compared"
    discrepancies = f"{len(checked.discrepancies):,} discrepancies"
    typer.echo(f"{checked.blocks:,} blocks with {checked.entries.total():,} entries verified, {discrepancies}{comparison}")
    if any(checked.erased.values()):
        counts = f"{checked.erased['decisions']:,} decisions, {checked.erased['outcomes']:,} outcomes"
        typer.echo(f"erased: the content of {counts}")
    if lines:
        message = f"surefoot replay found {len(lines):,} things that are not as they were recorded; the first: {lines[0]}"
        with database.transaction() as connection:
            count_alert(connection, kind="replay", message=message, at=now())
    return not lines


@database_commands.command("upgrade")
def upgrade_database(database: DatabaseUrl = None) -> None:
    """Upgrade the tables to the schema version of this release. Make a backup first."""
    need_service()
    from surefoot.service.database import databases

    opened = databases.connect(database, create=False)
    typer.echo(f"surefoot: using {opened.name}", err=True)
    if databases.schema_version(opened) is None:
        raise InputError(f"{opened.name} holds no trial; {databases.NO_TRIAL}")
    databases.upgrade(opened)
    typer.echo(f"the database has schema version {databases.schema_version(opened)}")
